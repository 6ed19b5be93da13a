package system

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// tier is the host's memory behind the GPUs', where blocks of a cache of prefixes go that make way. Without one link is 0.
type tier struct {
	link, channels units.Bandwidth // of all the replica's GPUs in one direction, and of its memory channels
	token          units.Bytes     // keys and values of a token in all layers
	attends        *attends        // that count what comes up
	idle           units.Duration  // since when the links and channels are
	// What the iteration at hand takes of the links down and up and of the channels.
	down, up, channel units.Duration
}

// newTier returns that of a replica.
func newTier(h *hardware, a *attends) (t tier) {
	if h.hostTier() {
		t.link = h.links()
		t.channels = h.channels()
		t.attends = a
		t.token = h.Model.KVBytesPerToken()
	}
	return t
}

// beside returns the first without resources of besideGPU; with a tier, all of them: its links and channels, too.
func (t *tier) beside(device string, without int) []resource {
	if t.link == 0 {
		return besideGPU(device)[:without]
	}
	return besideGPU(device)
}

// swap has the iteration that begins at a time move blocks between GPUs and host. What made way when the iteration before ended has gone
// down since.
func (t *tier) swap(f *flow, m *scheduler.Moves, start units.Duration) {
	if t.link > 0 {
		t.take(f, m, start)
	}
}

// take times the moves of an iteration. What made way when the iteration before ended has used the links since
// then.
func (t *tier) take(f *flow, m *scheduler.Moves, start units.Duration) {
	down, up := units.Bytes(m.Down.Tokens)*t.token, units.Bytes(m.Up.Tokens)*t.token
	w, rate := &f.work, min(t.link, t.channels)
	gone := min(units.Bytes(m.Earlier)*t.token, units.Bytes(float64(rate)*(start-t.idle).Seconds()))
	t.down, t.up, t.channel = transferTime(rate, down-gone), transferTime(rate, up), transferTime(t.channels, down-gone+up)
	w.time[ofDown] += transferTime(rate, down)
	w.time[ofUp] += t.up
	w.time[ofChannel] += transferTime(t.channels, down+up)
	t.attends.fetched += up
}

// hide has blocks move layer by layer beside the work of the iteration, which takes at least as long.
func (t *tier) hide(f *flow) {
	if t.link > 0 {
		f.hide(onDown, t.down)
		f.hide(onUp, t.up)
		f.hide(onChannels, t.channel)
	}
}
