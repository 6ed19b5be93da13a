package ranks

import (
	"slices"

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
		if d.uneven {
			all.heads, all.fresh = ceilShare(all.All, d.channels), ceilShare(all.freshAll, d.channels)
		}
		traffic := d.Moves(attend, &all)
		t += d.Latency + traffic.Down.Took() + d.Clock.Time(busiest) + d.UpLatency + traffic.Up
	}
	return t
}

// level replaces a group's time, counted on its fullest channel, by the mean over channels, but at least the time of its
// longest request.
func (d *Devices) level(g *GroupCost) {
	longest := int64(0)
	if len(g.Heads) > 0 {
		longest = int64(d.perChannel) * slices.Max(g.Heads)
	}
	g.Clocks = max(longest, ceilShare(g.Clocks*int64(d.Attends.Heads), d.channels*d.perChannel))
}

// ceilShare returns n divided by parts, rounded up.
func ceilShare(n int64, parts int) int64 { return (n + int64(parts) - 1) / int64(parts) }

// predict returns the clocks of the busiest rankset in a layer, the number of requests that attend on ranks, and their vectors; x is
// the policy's decode step. It differs from the layer's groups in three ways, so that it grows evenly with each request: heads are
// spread evenly over the channels, the drain of a group's first head is left out, and the vectors of all groups are one transfer.
func (d *Devices) predict(s *scheduler.SubBatch, x *policy.Step) (busiest int64, attend int, all vectors) {
	for offset := range d.predicted {
		d.predicted[offset].reset()
	}
	if d.Stripe.Parts > 0 {
		d.attendStriped(d.predicted, s.Decode, x, true)
	} else {
		d.attendEvenly(d.predicted, s.Decode, x)
	}
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
		if d.uneven && (d.Stripe.Parts == 0 || d.Stripe.lanes) {
			d.level(g)
		}
		busiest = max(busiest, g.Clocks)
	}
	return busiest, attend, all
}
