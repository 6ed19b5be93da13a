package hbm

import (
	"fmt"
	"slices"
	"sync"

	"github.com/l3sim/l3sim/input"
)

// Table has the clocks and the work of the attention of heads on one channel, by their number and length, from runs of the
// commands. Clocks repeat with the tokens of a row in every bank: the table has two rows and the clocks that a further one adds.
type Table struct {
	ways, period int // the level's ways; tokens of a row of every set
	single, pair series
	next         series  // a pair behind another
	refresh      amounts // what refresh adds to each in a clock without it, on average
}

// amounts are clocks, and what a Tally counts in its order.
type amounts [1 + tallied]float64

const tallied = 4

// amounts returns those of a run.
func (r *Run) amounts(s Spec) amounts {
	t := r.Tally(s)
	return amounts{float64(r.Clocks), t.Rows, t.Reads, t.Queries, t.Moves}
}

// series is amounts without refresh by context, straight in between.
type series struct {
	contexts []int     // up to two rows
	at       []amounts // of each
	row      amounts   // what each further row adds
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
	t := &Table{ways: y.ways, period: y.ways * max(1, rowColumns*y.sets/y.columns(shape))}
	quiet := spec
	quiet.NoRefresh = true
	if err := t.measure(quiet, shape); err != nil {
		return nil, err
	}
	last := StackLoad(shape, max(2*t.period, 16*t.period*y.ways*y.split/banksOfChannel), 8*Channels) // about as long at each level
	with, err := Measure(spec, last, nil)
	if err != nil {
		return nil, err
	}
	without, err := Measure(quiet, last, nil)
	if err != nil {
		return nil, err
	}
	a, b := with.amounts(spec), without.amounts(spec)
	for i := range a {
		t.refresh[i] = (a[i] - b[i]) / b[0]
	}
	if kept.tables == nil || len(kept.tables) == maxTables {
		kept.tables = map[tableKey]*Table{}
	}
	kept.tables[key] = t
	return t, nil
}

// measure fills the series.
func (t *Table) measure(spec Spec, shape Shape) (err error) {
	all := []*series{&t.single, &t.pair, &t.next}
	add := func(context int, to func(s *series, a amounts)) {
		var heads [3]amounts // of 1, 2, 4
		for i := range heads {
			if err == nil {
				var run Run
				run, err = Measure(spec, StackLoad(shape, context, Channels<<i), nil)
				heads[i] = run.amounts(spec)
			}
		}
		for i := range heads[2] {
			heads[2][i] -= heads[1][i]
		}
		for i, a := range heads {
			to(all[i], a)
		}
	}
	point := func(context int) {
		add(context, func(s *series, a amounts) { s.contexts, s.at = append(s.contexts, context), append(s.at, a) })
	}
	step := t.ways
	for context := step; context < 2*t.period && err == nil; context += step {
		point(context)
		if t.ways < ways && context >= ways {
			step = max(ways, t.period/8) // of the many contexts in a row of the buffer die's banks
		}
	}
	point(2 * t.period)
	const more = 8
	add((2+more)*t.period, func(s *series, a amounts) {
		for i := range a {
			s.row[i] = (a[i] - s.at[len(s.at)-1][i]) / more
		}
	})
	return err
}

// Clocks returns the clocks of CK that a channel takes for heads of context tokens each, on average over when refreshes
// come. No heads or no tokens take 0 clocks.
func (t *Table) Clocks(heads, context int) float64 { return t.of(0, heads, context) }

// Tally returns what a channel does for them.
func (t *Table) Tally(heads, context int) Tally {
	return Tally{t.of(1, heads, context), t.of(2, heads, context), t.of(3, heads, context), t.of(4, heads, context)}
}

// of returns one of the amounts for that many heads on a channel.
func (t *Table) of(amount, heads, context int) float64 {
	if heads < 1 || context < 1 {
		return 0
	}
	return t.quiet(amount, heads, context) + float64(t.quiet(0, heads, context)*t.refresh[amount])
}

// quiet returns it without refresh.
func (t *Table) quiet(amount, heads, context int) (sum float64) {
	if heads > 1 {
		sum = t.at(&t.pair, amount, context) + float64(float64(heads/2-1)*t.at(&t.next, amount, context))
	}
	if heads%2 != 0 {
		sum += t.at(&t.single, amount, context)
	}
	return sum
}

// at returns an amount at a context: that of the one that lies as far behind a row's end, in the second row.
func (t *Table) at(s *series, amount, context int) float64 {
	rows := max(0, (context-1)/t.period-1)
	context = ceil(context-rows*t.period, t.ways) * t.ways
	i, exact := slices.BinarySearch(s.contexts, context)
	value := s.at[i][amount]
	if !exact {
		part := float64(s.contexts[i]-context) / float64(s.contexts[i]-s.contexts[i-1])
		value -= float64(part * (value - s.at[i-1][amount]))
	}
	return value + float64(float64(rows)*s.row[amount])
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
