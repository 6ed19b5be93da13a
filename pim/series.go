package pim

import (
	"slices"

	"github.com/l3sim/l3sim/dram"
)

// amounts is what a run of a rank takes, by kind. Tables hold it, and series of it.
type amounts [kinds]int64

// The kinds of amounts: clocks, and what commands do in them.
const (
	clocks    = iota
	activates // of single banks
	unitReads // bursts that banks read for their units
	reads     // bursts that leave the chips
	writes    // bursts that enter them
	opened    // clocks with a row open in any bank
	kinds
)

// plus returns a and b, n times.
func (a amounts) plus(b amounts, n int64) amounts {
	for i := range a {
		a[i] += n * b[i]
	}
	return a
}

// amounts returns what a run of that many clocks did on a rank of so many banks.
func (c *counters) amounts(took int64, banks int) amounts {
	n := &c.commands
	return amounts{
		clocks: took, activates: n[dram.ACT] + int64(banks)*n[dram.ACTA], unitReads: int64(banks) * n[dram.MACA],
		reads: n[dram.RD] + n[dram.RDRES], writes: n[dram.WR] + n[dram.WRBUF], opened: c.open,
	}
}

// series is a sequence of amounts that soon grow by the same in every period, as
// those of contexts do column by column. Measuring only its beginning makes a table
// a thousand times faster (10 s became 9 ms), and changes nothing: newSeries extends
// the beginning until the rest follows from it.
type series struct {
	begin  []amounts
	period int
	adds   amounts // what each further period adds
}

// periodsTried is the number of periods after which newSeries first looks
// whether the last two add the same.
const periodsTried = 4

// newSeries returns a series of n entries. Run measures an entry. It is asked for
// those of the first periods, in order, and then for the last one, which must lie
// on the line that the first ones begin.
func newSeries(n, period int, run func(i int) amounts) series {
	s := series{period: period}
	for periods := periodsTried; ; periods++ {
		for len(s.begin) < min(periods*period, n) {
			s.begin = append(s.begin, run(len(s.begin)))
		}
		if len(s.begin) == n || s.even() && s.all(n-1) == run(n-1) {
			s.begin = slices.Clip(s.begin)
			return s
		}
	}
}

// nestedSeries is newSeries with periods that divide one another, the longest first: each that is measured is itself a
// series of the next shorter ones.
func nestedSeries(n int, run func(i int) amounts, periods ...int) series {
	if len(periods) == 1 {
		return newSeries(n, periods[0], run)
	}
	var inner series
	first, period := 0, periods[0]
	return newSeries(n, period, func(i int) amounts {
		if i%period == 0 {
			first = i
			inner = nestedSeries(min(period, n-i), func(j int) amounts { return run(first + j) }, periods[1:]...)
		}
		if i-first < period {
			return inner.all(i - first)
		}
		return run(i) // the last
	})
}

// even reports whether the last two periods add the same to each place of the one
// before, and takes over how much.
func (s *series) even() bool {
	end := len(s.begin)
	s.adds = s.begin[end-1].plus(s.begin[end-1-s.period], -1)
	for i := end - 2*s.period; i < end; i++ {
		if s.begin[i] != s.begin[i-s.period].plus(s.adds, 1) {
			return false
		}
	}
	return true
}

// at returns an amount of entry i, also of one beyond the last that was measured.
func (s *series) at(i, kind int) int64 {
	more := s.beyond(i)
	return s.begin[i-more*s.period][kind] + int64(more)*s.adds[kind]
}

// all returns all amounts of entry i.
func (s *series) all(i int) amounts {
	more := s.beyond(i)
	return s.begin[i-more*s.period].plus(s.adds, int64(more))
}

// beyond returns how many periods entry i lies behind those that were measured.
func (s *series) beyond(i int) int {
	if i < len(s.begin) {
		return 0
	}
	return (i-len(s.begin))/s.period + 1
}
