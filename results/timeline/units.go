package timeline

import (
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// Rank writes the commands of a rank with processing units, and the work of its units.
type Rank struct {
	*Commands
	softmax          int64 // clocks from a head's last score to its first weight
	multiplierPasses int   // passes over the data of one read
	scored           int64 // clock at which the latest score was ready; 0 once its weights are loaded
}

// NewRank begins the process of a rank for heads of one shape.
func NewRank(w *Writer, s *pim.Spec, d *dram.Spec, shape pim.HeadShape) *Rank {
	return &Rank{Commands: NewCommands(w, 0, "rank of "+d.Name, d, 1), softmax: int64(s.SoftmaxLatency), multiplierPasses: s.MultiplierPasses(d, shape)}
}

// Instruction writes a command and its instruction, which is nil for a refresh.
func (r *Rank) Instruction(clock int64, cmd dram.Command, a dram.Address, in *machine.Instruction) {
	if in == nil {
		r.Command(clock, cmd, a, nil)
		return
	}
	d, name := r.spec, in.Op.String()
	also := Args{"head": in.Head, "does": name}
	if in.Op != machine.OpActivate && in.Op != machine.OpPrecharge {
		also["token"] = in.Token
	}
	r.Command(clock, cmd, a, also)
	unit := func(thread int, track, name string, from, to int64) {
		r.slice(unitTrack+thread, track, &Slice{Name: name, Category: "unit", Args: r.args}, from, to)
	}
	arrived := clock + d.DataEnd(cmd)
	begins := arrived - d.BusSteps(d.BurstClocks())
	switch in.Op {
	case machine.OpScore, machine.OpContext:
		unit(0, "bank units", name, clock, clock+int64(r.multiplierPasses*d.TCCDL))
	case machine.OpReadKey, machine.OpReadValue:
		unit(1, "rank-level unit", name, begins, begins+int64(r.multiplierPasses*d.TCCDS))
	case machine.OpReadPartials, machine.OpReadContext, machine.OpReadScale, machine.OpLoadQuery, machine.OpLoadWeights:
		unit(2, "buffer unit", name, begins, arrived)
	}
	switch in.Op {
	case machine.OpReadPartials, machine.OpReadKey:
		r.scored = arrived
	case machine.OpLoadWeights, machine.OpReadValue:
		if r.scored > 0 {
			unit(3, "softmax", "softmax of the last scores", r.scored, r.scored+r.softmax)
			r.scored = 0
		}
	}
}
