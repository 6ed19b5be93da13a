package hbm

import (
	"fmt"
	"sync"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim/series"
)

// Table has the clocks and events of attention on one channel by number of heads and context length, from simulated commands. Both grow
// with each row of tokens in every bank by the same amount, to within a few clocks. The table therefore has two rows, and the mean growth
// over eight further rows.
type Table struct {
	ways               int                    // number of the level's ways: contexts up to the next multiple cost the same
	single, pair, next series.Series[amounts] // without refresh: one head, two, and two behind others
	refresh            amounts                // mean additions by refresh for each clock without it

	opening                        amounts // additions for a further row of scattered tokens
	keyTokens, valueTokens, passes int     // tokens of a row, see RowTokens
}

// amounts are clocks, followed by the counts of a Tally in its order.
type amounts [1 + tallied]float64

const tallied = 4

func (a amounts) Plus(b amounts, n float64) amounts {
	for i := range a {
		a[i] += float64(n * b[i])
	}
	return a
}

func (r *Run) amounts(s Spec) amounts {
	t := r.Tally(s)
	return amounts{float64(r.Clocks), t.Rows, t.Reads, t.Queries, t.Moves}
}

// tableKey determines a table.
type tableKey struct {
	spec  Spec
	shape Shape
}

const maxTables = 64 // bounds the cache of tables

var kept struct {
	sync.Mutex
	tables map[tableKey]*Table
}

// NewTable simulates heads of a shape on a channel of the spec. An unknown rate or rule, or a head that units cannot compute, is an
// input.Error.
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
	t, period := &Table{ways: y.ways}, y.period(shape)
	quiet := spec
	quiet.NoRefresh = true
	if err := t.measure(quiet, shape, period); err != nil {
		return nil, err
	}
	if err := t.measureOpening(quiet, shape, &y); err != nil {
		return nil, err
	}
	last := StackLoad(shape, max(2*period, 16*period*y.ways*y.split/banksOfChannel), 8*Channels) // about as long at each level
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

// period returns the number of tokens after which growth repeats: a row of every set. If keys and values differ in width, it is the
// smallest number that fills whole rows of both. In the buffer die, whose runs have the most commands, it is an eighth, and growth is
// measured over eight periods.
func (y *layout) period(h Shape) int {
	row, columns, passes := rowColumns*y.sets, y.columns(h), y.passes(h)
	if columns == passes {
		return y.ways * max(1, row/columns)
	}
	common := func(n int) int { return n & -n } // the largest power of two that divides n, since it also divides a row
	period := max(1, row/common(columns), row/common(passes))
	for half := period / 2; y.sets > banks && half*max(columns, passes) >= row; half /= 2 {
		period = half
	}
	return y.ways * period
}

// measure makes the series from runs of one, two and four heads. In the buffer die it simulates a few of the many context lengths in a row
// of the banks, and interpolates linearly between them.
func (t *Table) measure(spec Spec, shape Shape, period int) error {
	const more = 8
	step := t.ways
	var begin [3][]amounts
	for context := step; ; context = min(context+step, 2*period) {
		point, err := heads(spec, shape, context)
		if err != nil {
			return err
		}
		for i, a := range point {
			begin[i] = appendLine(begin[i], a, context/t.ways)
		}
		if context == 2*period {
			break
		}
		if t.ways < ways && context >= ways {
			step = max(ways, period/8)
		}
	}
	end, err := heads(spec, shape, (2+more)*period)
	if err != nil {
		return err
	}
	for i, s := range []*series.Series[amounts]{&t.single, &t.pair, &t.next} {
		growth := end[i]
		for j := range growth {
			growth[j] = (growth[j] - begin[i][len(begin[i])-1][j]) / more
		}
		*s = series.From(begin[i], period/t.ways, growth)
	}
	return nil
}

// heads returns the amounts of one head of a context length, of two, and of two that follow two others.
func heads(spec Spec, shape Shape, context int) (of [3]amounts, err error) {
	for i := range of {
		run, err := Measure(spec, StackLoad(shape, context, Channels<<i), nil)
		if err != nil {
			return of, err
		}
		of[i] = run.amounts(spec)
	}
	of[2] = of[2].Plus(of[1], -1)
	return of, nil
}

// appendLine appends amounts up to the n-th, which is last, interpolating linearly.
func appendLine(list []amounts, last amounts, n int) []amounts {
	from := len(list)
	for i := from + 1; i < n; i++ {
		part, a := float64(n-i)/float64(n-from), last
		for j := range a {
			a[j] -= float64(part * (last[j] - list[from-1][j]))
		}
		list = append(list, a)
	}
	return append(list, last)
}

// Clocks returns the clocks of CK of a channel for heads with context tokens each, averaged over the times of refreshes. It is 0 for no
// heads or no tokens.
func (t *Table) Clocks(heads, context int) float64 { return t.of(0, heads, context) }

// Tally returns the events of a channel for the same.
func (t *Table) Tally(heads, context int) Tally {
	return Tally{t.of(1, heads, context), t.of(2, heads, context), t.of(3, heads, context), t.of(4, heads, context)}
}

func (t *Table) of(amount, heads, context int) float64 {
	if heads < 1 || context < 1 {
		return 0
	}
	return t.quiet(amount, heads, context) + float64(t.quiet(0, heads, context)*t.refresh[amount])
}

// quiet returns an amount without refresh.
func (t *Table) quiet(amount, heads, context int) (sum float64) {
	at := func(s *series.Series[amounts]) float64 {
		measured, further := s.Of((context - 1) / t.ways)
		return measured[amount] + float64(float64(further)*s.Growth[amount])
	}
	if heads > 1 {
		sum = at(&t.pair) + float64(float64(heads/2-1)*at(&t.next))
	}
	if heads%2 != 0 {
		sum += at(&t.single)
	}
	return sum
}

// StackClockBytes returns the bytes that a stack of plain HBM moves in a clock of CK at its peak rate.
const StackClockBytes = Channels * pseudoChannels * columnBytes / columnClocks

// Nominal returns the ratio of the units' bandwidth, while all of them read, to that of plain HBM.
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
