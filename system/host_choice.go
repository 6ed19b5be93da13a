package system

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// selectHost is the value of policy.select_device for which the banks score, and the host's cores choose.
const selectHost = "host"

// pageScore is the bytes of a page's score that the host reads: of FP16.
const pageScore = 2

// hostChoice is the work of choosing pages for a request on the host: on a memory channel and on the cores.
type hostChoice struct {
	heads         int   // on a channel
	clocks        int64 // of one head's scores on its rank
	scores, lists int64 // bursts on a channel, up and down
	ranked        int64 // scores of all heads
}

// hostChoice returns the choice that the host makes for a request in a step. It has 0 heads where the host chooses nothing.
func (d *devices) hostChoice(x *policy.Step, request int) (h hostChoice) {
	for i := range x.Choose {
		c := &x.Choose[i]
		if c.Device != selectHost || c.Ranked[request] == 0 {
			continue
		}
		rows, pages := 1, c.Ranked[request]
		if c.PerQueryScores {
			rows = d.queries
		}
		lists := 1
		if c.PerQueryHead {
			lists = d.queries
		}
		each := d.onChannel(c.Heads)
		h.heads, h.clocks = each, d.bounds.Select(c.Scored[request])
		h.scores = int64(each) * d.bursts(units.Bytes(pages*rows*pageScore))
		h.lists = int64(each*lists) * d.bursts(units.Bytes(min(c.Keep, pages-1)*listEntry))
		h.ranked = int64(c.Heads * rows * pages)
	}
	return h
}

// chosenBy returns the time of the host from the ranks' last score to the last list: it notices, reads scores, chooses,
// and writes; and for how much of it the channels carry data.
func (d *devices) chosenBy(scores, lists, ranked int64) (took, bus units.Duration) {
	took = 2*d.hostAccess + d.clock.Time(d.transfers.Take(scores)) + taskTime(float64(d.hostElement*float64(ranked))) + d.clock.Time(d.transfers.Stage(lists))
	return took, units.Duration(scores+lists) * d.burst
}

// chooseOnHost sets what the groups take where the host chooses pages.
func (d *devices) chooseOnHost(groups []groupCost, requests []scheduler.Decoding, x *policy.Step) {
	for offset := range groups {
		g := &groups[offset]
		var clocks, scores, lists, ranked int64
		for i := range requests {
			if int(requests[i].Offset) != offset {
				continue
			}
			h := d.hostChoice(x, i)
			for range h.heads {
				g.scores = append(g.scores, h.clocks)
			}
			if !d.single && h.heads > 0 {
				g.scores = g.scores[:len(g.scores)-h.heads+1] // each part has all heads of a request
			}
			clocks += int64(h.heads) * h.clocks
			scores, lists, ranked = scores+h.scores, lists+h.lists, ranked+h.ranked
		}
		if clocks > 0 {
			g.scoring = d.clock.Time(clocks)
			g.choice, g.choiceBus = d.chosenBy(scores, lists, ranked)
		}
	}
}

// predictHost returns what choices on the host take in a layer beside attention, and adds scores to the clocks of
// ranksets.
func (d *devices) predictHost(x *policy.Step, requests []scheduler.Decoding, clocks []int64) units.Duration {
	var scores, lists, ranked int64
	for i := range requests {
		h := d.hostChoice(x, i)
		clocks[requests[i].Offset] += int64(h.heads) * h.clocks
		scores, lists, ranked = scores+h.scores, lists+h.lists, ranked+h.ranked
	}
	if ranked == 0 {
		return 0
	}
	took, _ := d.chosenBy(scores, lists, ranked)
	return took
}
