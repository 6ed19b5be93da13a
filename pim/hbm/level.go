package hbm

import (
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// Level is where the units are.
type Level string

// The levels, AttAcc's three.
const (
	Bank      Level = "bank"   // at each bank
	BankGroup Level = "bg"     // at each bank group, which reads one of its banks at a time
	Buffer    Level = "buffer" // in the buffer die, one for each pseudo-channel, which reads one bank at a time
)

// Levels returns all levels.
func Levels() []string { return []string{string(Bank), string(BankGroup), string(Buffer)} }

// layout is where a level has a head's keys and values, in numbers of a channel. Tokens are dealt out to ways. Each is a unit, or at the
// banks split units, each with as many parts of a key's or value's elements.
type layout struct {
	ways, split int
	stacks      int // SIDs that have units of their own
	// sets are the banks that open and close on their own; all are one at the banks, those of one number at the bank groups.
	sets int
	mac  dram.Command // reads a column of a set
	// open and close are what opens and closes a set by AttAcc's rules.
	open, close dram.Command
}

// layouts has where the units of each level are and which commands work them.
var layouts = map[Level]layout{
	Bank:      {ways: ways, split: banks, stacks: ranks, sets: 1, mac: dram.MACA, open: dram.ACTA, close: dram.PREA},
	BankGroup: {ways: ways, split: 1, stacks: ranks, sets: banks, mac: dram.MACsb, open: dram.ACTsb, close: dram.PREsb},
	Buffer:    {ways: pseudoChannels, split: 1, stacks: 1, sets: ranks * groups * banks, mac: dram.MAC, open: dram.ACT, close: dram.PRE},
}

// layout returns that of the level, or an input.Error.
func (l Level) layout() (layout, error) {
	y, ok := layouts[l]
	if !ok {
		return y, input.UnknownName("level", string(l), Levels())
	}
	return y, nil
}

// columns returns the columns that a token's key takes in a unit, and the passes over the tokens' values.
func (y *layout) columns(h Shape) int { return ceil(h.HeadDim, y.split*h.multipliers()) }

// rows returns the rows of a bank that the keys of a head take.
func (y *layout) rows(h Shape, context int) int {
	return ceil(ceil(context, y.ways)*y.columns(h), rowColumns*y.sets)
}

// place returns where a unit's i-th column of a head is, as if the head's first row were all that there is: bank groups fill a row of bank 0, then of
// bank 1 and so on, the buffer die takes bank groups, then stacks, banks and columns in turn.
func (y *layout) place(i int) (rank, group, bank int8, column int) {
	switch y.sets {
	case 1:
		return 0, 0, 0, i
	case banks:
		return 0, 0, int8(i / rowColumns % banks), i/(rowColumns*banks)*rowColumns + i%rowColumns
	}
	return int8(i / groups % ranks), int8(i % groups), int8(i / (groups * ranks) % banks), i / y.sets
}
