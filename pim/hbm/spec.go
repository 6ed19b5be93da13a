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
	banks          = 4                               // banks of a bank group
	columnBytes    = 32                              // of a column of a bank
	rowColumns     = 32                              // of a row of a bank
	ways           = pseudoChannels * ranks * groups // bank groups of a channel
	banksOfChannel = ways * banks                    // largest number of units
)

// columnClocks is the number of clocks in which a pseudo-channel of plain HBM3 moves a column: BL8 at four transfers a clock.
const columnClocks = 2

// Rules selects the timing rules of a channel.
type Rules string

// The rules.
const (
	// AttAcc's simulator: all banks activate at once, which breaks tRRD and tFAW.
	AttAcc Rules = "attacc"
	// JEDEC's HBM3: banks activate one by one, within tRRD and tFAW.
	JEDEC Rules = "jedec"
)

// Spec is an HBM channel with processing units.
type Spec struct {
	Level Level
	Rules Rules
	Rate  int // Mb/s for each pin: 4800, 5200, 5600, 6000 or 6400 with AttAcc's rules, 6400 with JEDEC's
	// PowerLimited limits the read rate of units at banks or bank groups to a stack's power (AttAcc, section 5). Units in the buffer die
	// never read faster than the pins.
	PowerLimited bool
	NoRefresh    bool
}

//go:embed tables/*.toml
var tables embed.FS

// table returns the table of the rules, which is read once.
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

// Part returns the DRAM part of the spec, or an input.Error.
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

// lanes returns the number of command streams of a channel: one if each command acts on both pseudo-channels.
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
	ValueDim     int // elements of a value if its width differs from a key's: 1 to 1,024; 0 as HeadDim
}

// maxDim is the largest number of elements of a key or a value.
const maxDim = 1024

// maxContext bounds a head's tokens: keys and values each have half of a bank's rows.
const maxContext = 1 << 20

// Check has the rules for heads that units can compute.
func (h Shape) Check(c *input.Check) {
	input.Within(c, "head_dim", h.HeadDim, 1, maxDim)
	c.That(h.ValueDim >= 0 && h.ValueDim <= maxDim, "value_dim", h.ValueDim, "1 to %d, or 0 for as many as a key has", maxDim)
	c.That(h.ElementBytes == 1 || h.ElementBytes == 2, "element_bytes", h.ElementBytes, "1 or 2")
}

// ValueWidth returns the elements of a value.
func (h Shape) ValueWidth() int { return cmp.Or(h.ValueDim, h.HeadDim) }

// multipliers returns the number of elements that a unit multiplies at once: those of a column.
func (h Shape) multipliers() int { return columnBytes / h.ElementBytes }

// bytes returns the bytes of keys and values of a head with context tokens.
func (h Shape) bytes(context int) units.Bytes {
	return units.Bytes(context * (h.HeadDim + h.ValueWidth()) * h.ElementBytes)
}

// PlainClocks returns the clocks of CK in which a channel of plain HBM reads the keys and values of heads heads at its peak rate.
func (h Shape) PlainClocks(heads, context int) int64 {
	return int64(heads) * int64(h.bytes(context)) * columnClocks / (pseudoChannels * columnBytes)
}

func ceil(a, b int) int { return (a + b - 1) / b }

// Level is the position of the units.
type Level string

// AttAcc's three levels.
const (
	Bank      Level = "bank"   // at each bank
	BankGroup Level = "bg"     // at each bank group, which reads one of its banks at a time
	Buffer    Level = "buffer" // in the buffer die, one for each pseudo-channel, which reads one bank at a time
)

// Levels returns all levels.
func Levels() []string { return []string{string(Bank), string(BankGroup), string(Buffer)} }

// layout is the distribution of a head's keys and values on a channel. Tokens are distributed over ways. A way is one unit; at the banks,
// it is split units, each with an equal part of the elements of keys and values.
type layout struct {
	ways, split int
	stacks      int // SIDs that have their own units
	// sets is the number of sets of banks that open and close independently. At the banks, one set has all; at the bank groups, a set is
	// the banks of one number.
	sets int
	mac  dram.Command // reads a column of a set
	// open and close are the commands that open and close a set under AttAcc's rules.
	open, close dram.Command
}

// layouts has the position of the units of each level, and the commands for them.
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

// columns returns the number of columns of a token's key in a unit.
func (y *layout) columns(h Shape) int { return ceil(h.HeadDim, y.split*h.multipliers()) }

// passes returns the number of passes over the tokens' values: the columns of a value in a unit.
func (y *layout) passes(h Shape) int { return ceil(h.ValueWidth(), y.split*h.multipliers()) }

// rows returns the number of rows of a bank for a head's keys or its values, whichever is larger.
func (y *layout) rows(h Shape, context int) int {
	return ceil(ceil(context, y.ways)*max(y.columns(h), y.passes(h)), rowColumns*y.sets)
}

// place returns the position of a unit's i-th column of a head, counted from the head's first row. At bank groups, columns fill a row of
// bank 0, then of bank 1 and so on. In the buffer die, they rotate through bank groups, then stacks, banks and columns.
func (y *layout) place(i int) (rank, group, bank int8, column int) {
	switch y.sets {
	case 1:
		return 0, 0, 0, i
	case banks:
		return 0, 0, int8(i / rowColumns % banks), i/(rowColumns*banks)*rowColumns + i%rowColumns
	}
	return int8(i / groups % ranks), int8(i % groups), int8(i / (groups * ranks) % banks), i / y.sets
}
