package tables

import (
	"math"

	"github.com/l3sim/l3sim/pim/machine"
)

// Pace is a limit on a rank's mean power. A head takes the longer of two times: that of its commands, and its energy divided by the limit.
// The rank waits before activations, when all banks are closed: this is legal, and rows are open no longer, so that the energy stays the
// same. The zero value is no limit.
type Pace struct {
	Each  machine.Activity // joules of one of each count
	Clock float64          // mean joules allowed for each clock of the rank, over a head; 0 for no limit
}

// Clocks returns a rank's clocks under the limit for an activity that takes the given clocks without it.
func (p *Pace) Clocks(clocks int64, a *machine.Activity) int64 {
	if p.Clock == 0 {
		return clocks
	}
	return max(clocks, int64(math.Ceil(p.joules(a)/p.Clock)))
}

func (p *Pace) joules(a *machine.Activity) float64 {
	e := &p.Each
	return float64(a.Activates*e.Activates) + float64(a.UnitReads*e.UnitReads) + float64(a.Reads*e.Reads) +
		float64(a.Writes*e.Writes) + float64(a.Open*e.Open) + float64(a.Clocks*e.Clocks)
}
