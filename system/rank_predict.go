package system

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// PIM implements scheduler.Predictor (L3, equation 5): in every layer the
// busiest rankset's attention, the decode vectors' way down and up, and the
// prompt KV of the other sub-batch, taken as one prompt.
func (d *devices) PIM(s *scheduler.SubBatch, iteration int64, otherPrefill int) (t units.Duration) {
	for run, layers := range d.runs {
		x := d.decode(s.Decode, run, iteration)
		t += units.Duration(layers) * d.layerPIM(s, x, run, otherPrefill)
	}
	return t
}

// layerPIM is PIM of a layer of a run, whose decoding takes x.
func (d *devices) layerPIM(s *scheduler.SubBatch, x *policy.Step, run, otherPrefill int) (t units.Duration) {
	clocks := d.scratch
	clear(clocks)
	attend, all := 0, vectors{} // requests
	for i := range s.Decode {
		if d.stripe.parts > 0 {
			attend += d.predictParts(x, s.Decode[i].Request, s.Decode[i].Offset, i, clocks, &all)
			continue
		}
		v, sum := d.request(x, i)
		if v.all > 0 {
			attend++
			all.add(&v)
			clocks[s.Decode[i].Offset] += sum
		}
	}
	var busiest int64
	for _, c := range clocks {
		busiest = max(busiest, c)
	}
	if otherPrefill > 0 {
		var prompt cargo
		d.loadPrompt(&prompt, run, otherPrefill, 0, true)
		d.pack(&prompt)
		t += prompt.took()
	}
	if attend > 0 {
		traffic := d.moves(attend, &all)
		t += d.latency + traffic.down.took() + d.clock.Time(busiest) + d.upLatency + traffic.up
	}
	return t
}
