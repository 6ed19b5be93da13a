package tables

import (
	"math"

	"github.com/l3sim/l3sim/pim/machine"
)

// Pace is the limit of a rank's power as it spaces heads out: a head takes as long as its joules do at the limit, or as long as
// its commands do where that is longer. The waits are in front of activations, where all banks are closed: they are legal
// there, and rows are open for no longer, so that the joules stay the same. The zero value is no limit.
type Pace struct {
	Each  machine.Activity // joules of one of each
	Clock float64          // joules that a clock of the rank may take, in the mean over a head; 0 for no limit
}

// Clocks returns how long a rank takes for what it does in so many clocks, if it does that as fast as it may.
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
