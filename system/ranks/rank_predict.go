package ranks

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// PIM implements batching.Predictor (L3, equation 5): in every layer the busiest rankset's
// attention, the transfers of decode vectors down and up, and of the other sub-batch's prompt KV,
// taken as one prompt.
func (d *Devices) PIM(s *scheduler.SubBatch, iteration int64, otherPrefill int) (t units.Duration) {
	for run := range d.Attends.Runs {
		if !d.Attends.Repeats(run) {
			x := d.Attends.Decode(s.Decode, run, iteration)
			t += units.Duration(d.Attends.LayersLike(run)) * d.layerPIM(s, x, run, otherPrefill)
		}
	}
	return t
}

// Attention is PIM without transfers, for a system that hides them.
func (d *Devices) Attention(s *scheduler.SubBatch, iteration int64) (t units.Duration) {
	for run := range d.Attends.Runs {
		if !d.Attends.Repeats(run) {
			busiest, _, _ := d.predict(s, d.Attends.Decode(s.Decode, run, iteration))
			t += units.Duration(d.Attends.LayersLike(run)) * d.Clock.Time(busiest)
		}
	}
	return t
}

// layerPIM is PIM of a layer of a run; x is the policy's decode step.
func (d *Devices) layerPIM(s *scheduler.SubBatch, x *policy.Step, run, otherPrefill int) (t units.Duration) {
	busiest, attend, all := d.predict(s, x)
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

// predict returns the clocks of the busiest rankset in a layer, the number of requests that attend on ranks, and their vectors; x is
// the policy's decode step. Attention is that of the layer's groups, on the channels where heads are: where these do not divide, neither the
// mean channel nor the fullest one of each request is near the busiest. Predictions differ from execution in two ways, by less than 3%: the
// drain of a group's first head counts only with stripes, whose parts are short, and the vectors of all groups are one transfer.
func (d *Devices) predict(s *scheduler.SubBatch, x *policy.Step) (busiest int64, attend int, all vectors) {
	for offset := range d.predicted {
		d.predicted[offset].reset()
	}
	d.attend(d.predicted, s.Decode, x)
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
	return busiest, attend, all
}
