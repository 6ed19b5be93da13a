package gpus

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// Tier is the host's memory as second level of a prefix cache: evicted blocks go there. Without it, link is 0.
type Tier struct {
	link, channels units.Bandwidth // of all the replica's GPUs in one direction; of its memory channels
	token          units.Bytes     // keys and values of a token in all layers
	attends        *flow.Attends   // counts what is transferred up
	Idle           units.Duration  // when the links and channels became idle
	// Time that the present iteration takes of the links down and up, and of the channels.
	down, up, channel units.Duration
}

// NewTier returns the tier of a replica.
func NewTier(h *flow.Hardware, a *flow.Attends) (t Tier) {
	if h.HostTier() {
		t.link = h.Links()
		t.channels = h.Channels()
		t.attends = a
		t.token = h.KVBytesPerToken()
	}
	return t
}

// Beside returns the first `without` resources of BesideGPU. With a tier it returns all of them, including
// its links and channels.
func (t *Tier) Beside(device string, without int) []flow.Resource {
	if t.link == 0 {
		return BesideGPU(device)[:without]
	}
	return BesideGPU(device)
}

// Swap makes the iteration that begins at start move blocks between GPUs and host. Blocks evicted at the end of the iteration before
// have been in transfer since.
func (t *Tier) Swap(f *flow.Flow, m *scheduler.Moves, start units.Duration) {
	if t.link > 0 {
		t.take(f, m, start)
	}
}

// take times the moves of an iteration. Blocks evicted at the end of the iteration before have used the links
// since then.
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

// Hide makes blocks move layer by layer beside the work of the iteration, which takes at least as
// long.
func (t *Tier) Hide(f *flow.Flow) {
	if t.link > 0 {
		f.Hide(OnDown, t.down)
		f.Hide(OnUp, t.up)
		f.Hide(onChannels, t.channel)
	}
}
