package hbm

import (
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/energy"
)

// Tally counts the events that cost energy in simulated commands. Means have fractions. SFM is assumed free. Refresh is not counted, since
// memory without units also refreshes.
type Tally struct {
	Rows    float64 // 1 KB rows activated and precharged in single banks
	Reads   float64 // 32 B columns read and multiplied by units, for single banks
	Queries float64 // 32 B transfers from a pseudo-channel's pins: WRGB
	Moves   float64 // 32 B transfers between units and the softmax unit in the buffer die: MVSB, MVGB
}

// Plus returns t + n·o.
func (t Tally) Plus(o Tally, n float64) Tally {
	return Tally{t.Rows + float64(n*o.Rows), t.Reads + float64(n*o.Reads), t.Queries + float64(n*o.Queries), t.Moves + float64(n*o.Moves)}
}

// Tally counts the events of a run on a channel of the spec.
func (r *Run) Tally(s Spec) Tally {
	y, each := layouts[s.Level], float64(pseudoChannels/s.lanes()) // number of pseudo-channels on which a command acts
	n := func(c dram.Command) float64 { return float64(each * float64(r.Commands[c])) }
	set := float64(ranks * groups * banks / y.sets)
	t := Tally{Rows: n(dram.ACT), Reads: float64(set * n(y.mac)), Queries: n(dram.WRGB), Moves: n(dram.MVSB) + n(dram.MVGB)}
	if s.Rules == AttAcc {
		t.Rows = float64(set * n(y.open))
	}
	return t
}

// Costs are energies of parts of HBM, in joules. Row: activating and precharging a 1 KB row of a bank. For each bit, Array: from the cells
// to the column decoder; Group: to the multiplexer of the bank group; Die: to the buffer die; Pins: to the host. Multiply: a 16-bit
// multiply-add.
type Costs struct{ Row, Array, Group, Die, Pins, Multiply float64 }

// CostsOf returns the costs in the section [energy].
func CostsOf(e *energy.Point) Costs {
	return Costs{Row: e.HBMRow, Array: e.HBMArray, Group: e.HBMGroup, Die: e.HBMDie, Pins: e.HBMPins, Multiply: e.HBMMultiply}
}

const columnBits = 8 * columnBytes // bits of a column, or of one transfer

// Each returns the joules of one of each event in a Tally, with units at the level. Data that one command sends to several units counts
// once. An 8-bit product takes half as much as a 16-bit one, so a column always takes the same.
func (c *Costs) Each(l Level) Tally {
	read, query, move := c.Array, c.Pins, 0.0
	switch l {
	case Bank:
		query, move = c.Pins+c.Die+c.Group, c.Die+c.Group
	case BankGroup:
		read, query, move = c.Array+c.Group, c.Pins+c.Die, c.Die
	case Buffer:
		read = c.Array + c.Group + c.Die
	}
	return Tally{Rows: c.Row, Reads: float64(columnBits*read) + float64(columnBytes/2*c.Multiply), Queries: columnBits * query, Moves: columnBits * move}
}

// Joules returns the joules of a Tally; each has the joules of one of each event.
func (t Tally) Joules(each Tally) float64 {
	return float64(t.Rows*each.Rows) + float64(t.Reads*each.Reads) + float64(t.Queries*each.Queries) + float64(t.Moves*each.Moves)
}

// PlainWatts returns the power of a stack without units at its peak read rate, in watts: row after row (plain), and with as many
// activations as tFAW allows (interleaved), the condition of a data sheet's IDD7.
func (c *Costs) PlainWatts(part *dram.Spec) (plain, interleaved float64) {
	clock := part.TCK.Seconds()
	plain = 8 * StackClockBytes * (c.Array + c.Group + c.Die + c.Pins) / clock
	row := Channels * pseudoChannels * c.Row / clock // watts for one row in each clock
	return plain + float64(row/(rowColumns*columnClocks)), plain + float64(row*4/float64(part.TFAW))
}
