package system

import (
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/sim"
)

// segment is one request's part of a group's attention in a layer: its heads on
// a channel, one after another.
type segment struct {
	end  sim.Time // from the start of the group
	head sim.Time // of one head
}

// boundaryWait returns how long a transfer that finds the group at elapsed > 0 waits
// until the rankset can be interrupted: at the end of a head, or earlier at a
// multiple of step from the head's start; a step of 0 is none.
func (g *groupCost) boundaryWait(elapsed, step sim.Time) sim.Time {
	if len(g.segments) == 0 {
		g.devices.fillSegments(g)
	}
	var start sim.Time
	for i := range g.segments {
		s := &g.segments[i]
		if elapsed >= s.end {
			start = s.end
			continue
		}
		done := (elapsed - start) % s.head
		if done == 0 {
			return 0
		}
		wait := s.head - done
		if step > 0 {
			wait = min(wait, (step-done%step)%step)
		}
		return min(wait, s.end-elapsed)
	}
	return 0
}

// fillSegments sets the segments of a group. Few groups of an iteration are
// interrupted, so that they are not set before they are asked for.
func (d *devices) fillSegments(g *groupCost) {
	var clocks int64
	sub := &g.batch.Sub[g.sub]
	for i := range sub.Decode {
		r := &sub.Decode[i]
		if int(r.Offset) != g.offset {
			continue
		}
		head := d.table.InSequence(r.Context(g.batch.Iteration))
		clocks += int64(d.heads) * head
		g.segments = append(g.segments, segment{end: d.time(clocks), head: d.time(head)})
	}
	// What the group's first head takes longer ends its last segment.
	g.segments[len(g.segments)-1].end = g.compute
}

// boundaryStep returns the distance of the boundaries within a head: a row's
// share of a head that has many, or a chunk's share of a row.
func (d *devices) boundaryStep(boundary string) sim.Time {
	row := d.table.RowTokens()
	clocks := (d.table.Attention(3*row) - d.table.Attention(2*row)) / 2 // a K row and a V row
	switch boundary {
	case pim.BoundaryRow:
		return d.time(clocks)
	case pim.BoundaryChunk:
		return d.time(max(clocks*int64(d.banks)/int64(row), 1))
	}
	return 0
}
