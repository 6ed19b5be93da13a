package gpus

import (
	"maps"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// TestTierSwap: 100 tokens move down, 40 of them since the previous iteration ended. These are gone after the time in which the slower of
// links and channels carries them. Links and channels are busy for all 100 in any case. Tokens that move up go to each GPU that holds the
// head.
func TestTierSwap(t *testing.T) {
	const ms = units.Millisecond
	for _, c := range []struct {
		link, channels    units.Bandwidth
		idle              units.Duration // since
		down, up, channel units.Duration
		copies            units.Bytes
	}{
		{1e6, 4e6, 1000 * ms, 100 * ms, 30 * ms, (100 + 30) * ms / 4, 1},
		{1e6, 4e6, 990 * ms, 90 * ms, 30 * ms, (90 + 30) * ms / 4, 1},
		{1e6, 4e6, 500 * ms, 60 * ms, 30 * ms, (60 + 30) * ms / 4, 1},
		{4e6, 1e6, 0, 60 * ms, 30 * ms, (60 + 30) * ms, 1},
		{1e6, 4e6, 1000 * ms, 100 * ms, 60 * ms, (100 + 60) * ms / 4, 2},
	} {
		x := Tier{link: c.link, channels: c.channels, token: 1000, Idle: c.idle, attends: &flow.Attends{Copies: c.copies}}
		f := flow.New(&flow.Hardware{Config: &configs.Config{}}, BesideGPU("HBM"), flow.Running{})
		for _, of := range []int{flow.OfDown, flow.OfUp, flow.OfChannel} { // of earlier iterations
			f.Work.Time[of] = 7 * ms
		}
		x.attends.Fetched = 5000
		x.Swap(&f, &scheduler.Moves{Down: scheduler.Move{Tokens: 100}, Up: scheduler.Move{Tokens: 30}, Earlier: 40}, 1000*ms)
		if x.down != c.down || x.up != c.up || x.channel != c.channel {
			t.Errorf("%+v: %v down, %v up, %v of the channels", c, x.down, x.up, x.channel)
		}
		all := units.Duration(float64((100+30*units.Duration(c.copies))*ms) / (float64(c.channels) / 1e6))
		if w := &f.Work; w.Time[flow.OfDown] != 107*ms || w.Time[flow.OfUp] != c.up+7*ms || w.Time[flow.OfChannel] != all+7*ms || x.attends.Fetched != 5000+30000*c.copies {
			t.Errorf("%+v: busy for %v, %v and %v", c, w.Time[flow.OfDown], w.Time[flow.OfUp], w.Time[flow.OfChannel])
		}
		x.Hide(&f)
		f.Enter(0, OnGPU, 0, &flow.Use{})
		behind := map[int8]units.Duration{}
		for _, o := range f.Iteration.Ops[1:] {
			behind[o.Resource] = o.Last
		}
		if want := map[int8]units.Duration{OnDown: c.down, OnUp: c.up, onChannels: c.channel}; !maps.Equal(behind, want) {
			t.Errorf("%v beside the work, want %v", behind, want)
		}
	}
}
