package ranks

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// PIM implements forming.Predictor (L3, equation 5): in every layer the
// busiest rankset's attention, the decode vectors' way down and up, and the
// prompt KV of the other sub-batch, taken as one prompt.
func (d *Devices) PIM(s *scheduler.SubBatch, iteration int64, otherPrefill int) (t units.Duration) {
	for run, layers := range d.Runs {
		x := d.Decode(s.Decode, run, iteration)
		t += units.Duration(layers) * d.layerPIM(s, x, run, otherPrefill)
	}
	return t
}

// layerPIM is PIM of a layer of a run, whose decoding takes x. It reads the groups that the layer would have, but for
// three things, so that it grows evenly with each request: heads lie on the channels as if dealt evenly, the drain of a
// group's first head is left out, and the vectors of all groups go as one transfer.
func (d *Devices) layerPIM(s *scheduler.SubBatch, x *policy.Step, run, otherPrefill int) (t units.Duration) {
	for offset := range d.predicted {
		d.predicted[offset].reset()
	}
	if d.Stripe.Parts > 0 {
		d.attendStriped(d.predicted, s.Decode, x, true)
	} else {
		d.attendEvenly(d.predicted, s.Decode, x)
	}
	var busiest int64
	attend, all := 0, vectors{} // requests
	for offset := range d.predicted {
		g := &d.predicted[offset]
		if g.Requests == 0 {
			continue
		}
		attend += g.Requests
		all.add(&g.Vectors)
		if d.Stripe.Parts > 0 {
			g.Clocks += g.Drain
		}
		busiest = max(busiest, g.Clocks)
	}
	if otherPrefill > 0 {
		var prompt Cargo
		d.loadPrompt(&prompt, run, otherPrefill, 0, true)
		d.pack(&prompt)
		t += prompt.Took()
	}
	if attend > 0 {
		traffic := d.Moves(attend, &all)
		t += d.Latency + traffic.Down.Took() + d.Clock.Time(busiest) + d.UpLatency + traffic.Up
	}
	return t
}
