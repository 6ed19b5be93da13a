package hbm

import (
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/energy"
)

// Tally counts what costs energy where commands run. It has fractions where it is a mean. SFM costs nothing, nor does refresh, which memory without
// units has too.
type Tally struct {
	Rows    float64 // of 1 KB, opened in single banks and closed again
	Reads   float64 // columns of 32 B that single banks read for units, which multiply them
	Queries float64 // 32 B that a pseudo-channel takes in from its pins: WRGB
	Moves   float64 // 32 B between its units and the softmax unit in the buffer die: MVSB, MVGB
}

// Plus returns t and o, n times.
func (t Tally) Plus(o Tally, n float64) Tally {
	return Tally{t.Rows + float64(n*o.Rows), t.Reads + float64(n*o.Reads), t.Queries + float64(n*o.Queries), t.Moves + float64(n*o.Moves)}
}

// Tally counts the commands and the work of a run, on a channel of the spec.
func (r *Run) Tally(s Spec) Tally {
	y, each := layouts[s.Level], float64(pseudoChannels/s.lanes()) // pseudo-channels that a command acts on
	n := func(c dram.Command) float64 { return float64(each * float64(r.Commands[c])) }
	set := float64(ranks * groups * banks / y.sets)
	t := Tally{Rows: n(dram.ACT), Reads: float64(set * n(y.mac)), Queries: n(dram.WRGB), Moves: n(dram.MVSB) + n(dram.MVGB)}
	if s.Rules == AttAcc {
		t.Rows = float64(set * n(y.open))
	}
	return t
}

// Costs are joules of parts of HBM: opening and closing a row of 1 KB of a bank; a bit from the cells to the column decoder, from there to the multiplexer of the
// bank group, on to the buffer die, and from there to the host; a multiply-add of 16 bits.
type Costs struct{ Row, Array, Group, Die, Pins, Multiply float64 }

// CostsOf returns those of the section [energy].
func CostsOf(e *energy.Point) Costs {
	return Costs{Row: e.HBMRow, Array: e.HBMArray, Group: e.HBMGroup, Die: e.HBMDie, Pins: e.HBMPins, Multiply: e.HBMMultiply}
}

const columnBits = 8 * columnBytes // the bits of a column, or of what one command moves

// Each returns the joules of one of everything that a Tally counts, with units at the level. Data that one command sends to
// several units counts once. A product of 8 bits takes half of one of 16, so that a column takes the same.
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

// Joules returns the joules of a Tally, from the joules of one of everything it counts.
func (t Tally) Joules(each Tally) float64 {
	return float64(t.Rows*each.Rows) + float64(t.Reads*each.Reads) + float64(t.Queries*each.Queries) + float64(t.Moves*each.Moves)
}

// PlainWatts returns the watts of a stack of the part without units, read at its peak rate: row after row (plain), and with as
// many rows opened as tFAW allows (interleaved), as a data sheet's IDD7 is measured.
func (c *Costs) PlainWatts(part *dram.Spec) (plain, interleaved float64) {
	clock := part.TCK.Seconds()
	plain = 8 * StackClockBytes * (c.Array + c.Group + c.Die + c.Pins) / clock
	row := Channels * pseudoChannels * c.Row / clock // watts of a row a clock
	return plain + float64(row/(rowColumns*columnClocks)), plain + float64(row*4/float64(part.TFAW))
}
