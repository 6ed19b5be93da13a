package system

import (
	"fmt"

	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/hbm"
	"github.com/l3sim/l3sim/units"
)

// What the time of a replica's resources is booked as.
const (
	ofGPU       = iota
	ofPIM       // summed over ranksets
	ofDown      // PCIe
	ofUp        // PCIe
	ofChannel   // memory channels
	ofAttention // of ofGPU
	booked
)

// bookedNames are the names of resources in errors; ofAttention is no resource.
var bookedNames = [ofAttention]string{"GPUs", "PIM", "PCIe down", "PCIe up", "channels"}

// effort is what resources have done beside being busy.
type effort struct {
	joules joules
	tokens int64        // that KV heads read at home, which is neither the GPUs nor DIMM-PIM, in all layers
	ranks  pim.Activity // of DIMM-PIM
	hbm    hbm.Tally    // of commands of units in the GPUs' memory
}

// add adds another effort, or with a sign of -1 takes it away.
func (e *effort) add(o *effort, sign float64) {
	e.joules.prefill += float64(sign * o.joules.prefill)
	e.joules.decode += float64(sign * o.joules.decode)
	e.tokens += int64(sign) * o.tokens
	e.ranks, e.hbm = e.ranks.Plus(o.ranks, sign), e.hbm.Plus(o.hbm, sign)
}

// work is what the resources of a replica have done lately: its times are of 64 bits.
type work struct {
	time  [booked]units.Duration
	tasks int64 // transfers count by pieces
	effort
}

// since returns the work done since before.
func (w *work) since(before *work) work {
	did := *w
	for i := range did.time {
		did.time[i] -= before.time[i]
	}
	did.tasks -= before.tasks
	did.add(&before.effort, -1)
	return did
}

// busy is what the resources of replicas have done in a run.
type busy struct {
	time [booked]units.Total
	effort
}

// did adds work.
func (b *busy) did(w *work) {
	for i := range b.time {
		b.time[i].Add(w.time[i])
	}
	b.add(&w.effort, 1)
}

// join adds another replica's.
func (b *busy) join(o *busy) {
	for i := range b.time {
		b.time[i].AddTotal(o.time[i])
	}
	b.add(&o.effort, 1)
}

// within verifies LawBusy for a replica with that many ranksets, which ran until end.
func (b *busy) within(end units.Duration, ranksets int) error {
	for i, name := range bookedNames {
		worked, all := b.time[i].Picoseconds(), float64(end)
		if i == ofPIM {
			all *= float64(ranksets)
		}
		if worked < 0 || worked > all*(1+1e-12) { // both are rounded
			return &Violation{LawBusy, end, fmt.Sprintf("%s: %.6f s of work in %.6f s", name, worked/1e12, all/1e12)}
		}
	}
	return nil
}
