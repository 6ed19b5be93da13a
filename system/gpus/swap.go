package gpus

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// Tier is the host's memory behind the GPUs', where blocks of a cache of prefixes go that make way. Without one link is 0.
type Tier struct {
	link, channels units.Bandwidth // of all the replica's GPUs in one direction, and of its memory channels
	token          units.Bytes     // keys and values of a token in all layers
	attends        *flow.Attends   // that count what comes up
	Idle           units.Duration  // since when the links and channels are
	// What the iteration at hand takes of the links down and up and of the channels.
	down, up, channel units.Duration
}

// NewTier returns that of a replica.
func NewTier(h *flow.Hardware, a *flow.Attends) (t Tier) {
	if h.HostTier() {
		t.link = h.Links()
		t.channels = h.Channels()
		t.attends = a
		t.token = h.KVBytesPerToken()
	}
	return t
}

// Beside returns the first without resources of besideGPU; with a tier, all of them: its links and channels, too.
func (t *Tier) Beside(device string, without int) []flow.Resource {
	if t.link == 0 {
		return BesideGPU(device)[:without]
	}
	return BesideGPU(device)
}

// Swap has the iteration that begins at a time move blocks between GPUs and host. What made way when the iteration before ended has gone
// down since.
func (t *Tier) Swap(f *flow.Flow, m *scheduler.Moves, start units.Duration) {
	if t.link > 0 {
		t.take(f, m, start)
	}
}

// take times the moves of an iteration. What made way when the iteration before ended has used the links since
// then.
func (t *Tier) take(f *flow.Flow, m *scheduler.Moves, start units.Duration) {
	down, up := units.Bytes(m.Down.Tokens)*t.token, units.Bytes(m.Up.Tokens)*t.token*t.attends.Copies
	w, rate := &f.Work, min(t.link, t.channels)
	gone := min(units.Bytes(m.Earlier)*t.token, units.Bytes(float64(rate)*(start-t.Idle).Seconds()))
	t.down, t.up, t.channel = flow.TransferTime(rate, down-gone), flow.TransferTime(rate, up), flow.TransferTime(t.channels, down-gone+up)
	w.Time[flow.OfDown] += flow.TransferTime(rate, down)
	w.Time[flow.OfUp] += t.up
	w.Time[flow.OfChannel] += flow.TransferTime(t.channels, down+up)
	t.attends.Fetched += up
}

// Hide has blocks move layer by layer beside the work of the iteration, which takes at least as long.
func (t *Tier) Hide(f *flow.Flow) {
	if t.link > 0 {
		f.Hide(OnDown, t.down)
		f.Hide(OnUp, t.up)
		f.Hide(onChannels, t.channel)
	}
}
