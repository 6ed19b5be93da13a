package hbm

import (
	"fmt"
	"slices"
	"sync"

	"github.com/l3sim/l3sim/input"
)

// Table is what the attention of heads on one channel takes by their number and length, from runs of the commands. Clocks repeat with the
// tokens of a row of every bank, so that two rows and what a further one adds are all of them.
type Table struct {
	ways, period int // the level's ways; tokens of a row of every set
	single, pair series
	next         series  // a pair behind another
	refresh      float64 // by what refresh lengthens all, on average
}

// series is clocks without refresh by context, straight in between.
type series struct {
	contexts []int     // up to two rows
	clocks   []float64 // at each
	row      float64   // what each further row adds
}

// tableKey is what a table follows from.
type tableKey struct {
	spec  Spec
	shape Shape
}

// maxTables bounds the tables that are kept.
const maxTables = 64

var kept struct {
	sync.Mutex
	tables map[tableKey]*Table
}

// NewTable runs the heads of a shape on a channel of the spec. An unknown rate or rule, or a head that units cannot compute,
// is an input.Error.
func NewTable(spec Spec, shape Shape) (*Table, error) {
	kept.Lock()
	defer kept.Unlock()
	key := tableKey{spec, shape}
	if t := kept.tables[key]; t != nil {
		return t, nil
	}
	y, err := spec.Level.layout()
	if err != nil {
		return nil, err
	}
	if err := input.Validate(shape); err != nil {
		return nil, err
	}
	t := &Table{refresh: 1, ways: y.ways, period: y.ways * max(1, rowColumns*y.sets/y.columns(shape))}
	quiet := spec
	quiet.NoRefresh = true
	if err := t.measure(quiet, shape); err != nil {
		return nil, err
	}
	if !spec.NoRefresh {
		last := StackLoad(shape, max(2*t.period, 16*t.period*y.ways*y.split/banksOfChannel), 8*Channels) // about as long at each level
		with, err := Measure(spec, last, nil)
		if err != nil {
			return nil, err
		}
		without, err := Measure(quiet, last, nil)
		if err != nil {
			return nil, err
		}
		t.refresh = float64(with.Clocks) / float64(without.Clocks)
	}
	if kept.tables == nil || len(kept.tables) == maxTables {
		kept.tables = map[tableKey]*Table{}
	}
	kept.tables[key] = t
	return t, nil
}

// measure fills the series.
func (t *Table) measure(spec Spec, shape Shape) (err error) {
	clocks := func(context, heads int) (c float64) {
		if err == nil {
			var run Run
			run, err = Measure(spec, StackLoad(shape, context, heads*Channels), nil)
			c = float64(run.Clocks)
		}
		return c
	}
	all := []*series{&t.single, &t.pair, &t.next}
	add := func(context int, to func(s *series, clocks float64)) {
		one, two, four := clocks(context, 1), clocks(context, 2), clocks(context, 4)
		for i, c := range []float64{one, two, four - two} {
			to(all[i], c)
		}
	}
	step := t.ways
	for context := step; context < 2*t.period && err == nil; context += step {
		add(context, func(s *series, c float64) { s.contexts, s.clocks = append(s.contexts, context), append(s.clocks, c) })
		if t.ways < ways && context >= ways {
			step = max(ways, t.period/8) // of the many contexts in a row of the buffer die's banks
		}
	}
	add(2*t.period, func(s *series, c float64) { s.contexts, s.clocks = append(s.contexts, 2*t.period), append(s.clocks, c) })
	const more = 8
	add((2+more)*t.period, func(s *series, c float64) { s.row = (c - s.clocks[len(s.clocks)-1]) / more })
	return err
}

// Clocks returns the clocks of CK that a channel takes for so many heads of context tokens each, on average over when refreshes
// come. Nothing takes none.
func (t *Table) Clocks(heads, context int) float64 {
	if heads < 1 || context < 1 {
		return 0
	}
	clocks := 0.0
	if heads > 1 {
		clocks = t.at(&t.pair, context) + float64(float64(heads/2-1)*t.at(&t.next, context))
	}
	if heads%2 != 0 {
		clocks += t.at(&t.single, context)
	}
	return clocks * t.refresh
}

// at returns the clocks at a context: those of the one that lies as far behind a row's end, in the second row.
func (t *Table) at(s *series, context int) float64 {
	rows := max(0, (context-1)/t.period-1)
	context = ceil(context-rows*t.period, t.ways) * t.ways
	i, exact := slices.BinarySearch(s.contexts, context)
	clocks := s.clocks[i]
	if !exact {
		part := float64(s.contexts[i]-context) / float64(s.contexts[i]-s.contexts[i-1])
		clocks -= float64(part * (clocks - s.clocks[i-1]))
	}
	return clocks + float64(float64(rows)*s.row)
}

// StackClockBytes returns what a stack moves in a clock of CK as plain HBM at its peak rate.
const StackClockBytes = Channels * pseudoChannels * columnBytes / columnClocks

// Nominal returns the bandwidth of the units over that of plain HBM while all of them read.
func (s Spec) Nominal() (float64, error) {
	part, err := s.Part()
	if err != nil {
		return 0, err
	}
	name, read := "tCCD_S", pseudoChannels
	switch s.Level {
	case Bank:
		name, read = "tCCDAB", ways*banks
	case BankGroup:
		name, read = "tCCDSB", ways
	}
	between, ok := part.Timing(name)
	if !ok {
		return 0, &input.Error{Key: "rules", Value: fmt.Sprint(s.Rules), Expected: "a table with " + name}
	}
	return float64(read*columnClocks) / float64(pseudoChannels*between), nil
}
