package hbm

import (
	"fmt"
	"sync"

	"github.com/l3sim/l3sim/input"
)

// Table is what the attention of heads on one channel takes by their number and length, from runs of the commands. Clocks repeat with the
// tokens of a row of a bank, so that two rows and what a further one adds are all of them.
type Table struct {
	period       int // tokens of a row
	single, pair series
	refresh      float64 // by what refresh lengthens all, on average
}

// series is clocks without refresh by context.
type series struct {
	within []float64 // by tokens of a way, from one to those of two rows
	row    float64   // what each further row adds
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
	t := &Table{refresh: 1}
	quiet := spec
	quiet.NoRefresh = true
	t.period = ways * max(1, rowColumns/shape.columns())
	var err error
	if t.single, err = t.measure(quiet, shape, Channels); err == nil {
		t.pair, err = t.measure(quiet, shape, 2*Channels)
	}
	if err != nil {
		return nil, err
	}
	if !spec.NoRefresh {
		last := StackLoad(shape, 16*t.period, 8*Channels)
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

// measure runs so many heads of a stack at the lengths of a series.
func (t *Table) measure(spec Spec, shape Shape, heads int) (s series, err error) {
	clocks := func(context int) (c float64) {
		run, failed := Measure(spec, StackLoad(shape, context, heads), nil)
		if failed != nil {
			err = failed
		}
		return float64(run.Clocks)
	}
	for context := ways; context <= 2*t.period && err == nil; context += ways {
		s.within = append(s.within, clocks(context))
	}
	if err == nil {
		const more = 8
		s.row = (clocks((2+more)*t.period) - s.within[len(s.within)-1]) / more
	}
	return s, err
}

// Clocks returns the clocks of CK that a channel takes for so many heads of context tokens each, on average over when refreshes
// come. Nothing takes none.
func (t *Table) Clocks(heads, context int) float64 {
	if heads < 1 || context < 1 {
		return 0
	}
	clocks := float64(float64(heads/2) * t.at(&t.pair, context))
	if heads%2 != 0 {
		clocks += t.at(&t.single, context)
	}
	return clocks * t.refresh
}

// at returns the clocks at a context: those of the one that lies as far behind a row's end, in the second row.
func (t *Table) at(s *series, context int) float64 {
	rows := max(0, (context-1)/t.period-1)
	return s.within[(context-rows*t.period-1)/ways] + float64(float64(rows)*s.row)
}

// StackClockBytes returns what a stack moves in a clock of CK as plain HBM at its peak rate.
const StackClockBytes = Channels * pseudoChannels * columnBytes / columnClocks

// Nominal returns the bandwidth of the units over that of plain HBM while all banks read.
func (s Spec) Nominal() (float64, error) {
	part, err := s.Part()
	if err != nil {
		return 0, err
	}
	between, ok := part.Timing("tCCDAB")
	if !ok {
		return 0, &input.Error{Key: "rules", Value: fmt.Sprint(s.Rules), Expected: "a table with tCCDAB"}
	}
	return ranks * groups * banks * columnClocks / float64(between), nil
}
