package hbm

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"sync"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// The organisation of a stack, HBM3 8 high (JESD238).
const (
	Channels       = 16                              // of a stack
	pseudoChannels = 2                               // of a channel
	ranks          = 2                               // stacks (SIDs) of a pseudo-channel
	groups         = 4                               // bank groups of a rank
	banks          = 4                               // of a bank group
	columnBytes    = 32                              // of a column of a bank
	rowColumns     = 32                              // of a row of a bank
	ways           = pseudoChannels * ranks * groups // bank groups of a channel
	banksOfChannel = ways * banks                    // the most units
)

// columnClocks are the clocks in which a pseudo-channel moves a column as plain HBM3: BL8 at four transfers a clock.
const columnClocks = 2

// Rules says whose timing rules a channel obeys.
type Rules string

// The rules.
const (
	// AttAcc's simulator: an activation of all banks at once, which breaks tRRD and tFAW.
	AttAcc Rules = "attacc"
	// JEDEC's HBM3: rows are opened bank by bank, within tRRD and tFAW.
	JEDEC Rules = "jedec"
)

// Spec is a channel of HBM with units in it.
type Spec struct {
	Level Level
	Rules Rules
	Rate  int // Mb/s a pin: 4800, 5200, 5600, 6000 or 6400 by AttAcc's rules, 6400 by JEDEC's
	// PowerLimited says that the units of all banks or bank groups read no faster than the power of a stack allows (AttAcc, section 5). Those in the
	// buffer die never read faster than the pins.
	PowerLimited bool
	NoRefresh    bool
}

//go:embed tables/*.toml
var tables embed.FS

// table returns the table of the rules, read once.
func (r Rules) table() (*dram.Standard, error) {
	switch r {
	case AttAcc:
		return attaccTable()
	case JEDEC:
		return jedecTable()
	}
	return nil, input.UnknownName("rules", string(r), []string{string(AttAcc), string(JEDEC)})
}

var (
	attaccTable = sync.OnceValues(func() (*dram.Standard, error) { return readTable("tables/attacc.toml") })
	jedecTable  = sync.OnceValues(func() (*dram.Standard, error) { return readTable("tables/hbm3-pim.toml") })
)

func readTable(name string) (*dram.Standard, error) {
	f, err := tables.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return dram.ReadStandard(name, f)
}

// Part returns the part that the spec describes, or an input.Error.
func (s Spec) Part() (*dram.Spec, error) {
	if _, err := s.Level.layout(); err != nil {
		return nil, err
	}
	table, err := s.Rules.table()
	if err != nil {
		return nil, err
	}
	rates := []int{4800, 5200, 5600, 6000, 6400}
	if s.Rules == JEDEC {
		rates = rates[4:]
	}
	if !slices.Contains(rates, s.Rate) {
		return nil, &input.Error{Key: "rate", Value: fmt.Sprint(s.Rate), Expected: fmt.Sprintf("one of %v Mb/s a pin by the rules %s", rates, s.Rules)}
	}
	limit := "free"
	if s.PowerLimited {
		limit = "limited"
	}
	if s.Rules == JEDEC {
		return table.Part(fmt.Sprintf("hbm3-pim-%d-16gb-8h-%s", s.Rate, limit))
	}
	return table.Part(fmt.Sprintf("hbm3-attacc-%d-%s", s.Rate, limit))
}

// lanes returns how many streams of commands a channel has: one where each command acts on both pseudo-channels.
func (s Spec) lanes() int {
	if s.Rules == JEDEC {
		return pseudoChannels
	}
	return 1
}

// Shape is the shape of a head.
type Shape struct {
	HeadDim      int // elements of a token's key, and of its value: 1 to 1,024
	ElementBytes int // of an element: 1 or 2
	ValueDim     int // of a value where it is not as wide as a key: 1 to 1,024; 0 as HeadDim
}

// maxDim is the most elements of a key or a value.
const maxDim = 1024

// maxContext bounds a head's tokens: keys and values each have half of a bank's rows.
const maxContext = 1 << 20

// Check has the rules of what units can compute.
func (h Shape) Check(c *input.Check) {
	input.Within(c, "head_dim", h.HeadDim, 1, maxDim)
	c.That(h.ValueDim >= 0 && h.ValueDim <= maxDim, "value_dim", h.ValueDim, "1 to %d, or 0 for as many as a key has", maxDim)
	c.That(h.ElementBytes == 1 || h.ElementBytes == 2, "element_bytes", h.ElementBytes, "1 or 2")
}

// ValueWidth returns the elements of a value.
func (h Shape) ValueWidth() int { return cmp.Or(h.ValueDim, h.HeadDim) }

// multipliers returns the elements that a unit multiplies at once: those of a column.
func (h Shape) multipliers() int { return columnBytes / h.ElementBytes }

// bytes returns the keys and values of a head of context tokens.
func (h Shape) bytes(context int) units.Bytes {
	return units.Bytes(context * (h.HeadDim + h.ValueWidth()) * h.ElementBytes)
}

// PlainClocks returns the clocks of CK in which a channel reads that many heads' keys and values as plain HBM at its peak rate.
func (h Shape) PlainClocks(heads, context int) int64 {
	return int64(heads) * int64(h.bytes(context)) * columnClocks / (pseudoChannels * columnBytes)
}

func ceil(a, b int) int { return (a + b - 1) / b }

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

func (l Level) layout() (layout, error) {
	y, ok := layouts[l]
	if !ok {
		return y, input.UnknownName("level", string(l), Levels())
	}
	return y, nil
}

// columns returns the columns that a token's key takes in a unit.
func (y *layout) columns(h Shape) int { return ceil(h.HeadDim, y.split*h.multipliers()) }

// passes returns the passes over the tokens' values: the columns that a value takes in a unit.
func (y *layout) passes(h Shape) int { return ceil(h.ValueWidth(), y.split*h.multipliers()) }

// rows returns the rows of a bank that the keys of a head take, or its values, whichever take more.
func (y *layout) rows(h Shape, context int) int {
	return ceil(ceil(context, y.ways)*max(y.columns(h), y.passes(h)), rowColumns*y.sets)
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
