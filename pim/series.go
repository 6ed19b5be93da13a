package pim

import (
	"slices"

	"github.com/l3sim/l3sim/dram"
)

// Activity is what attention has a rank do, refresh apart, for its energy. It has fractions where it is a mean; tables hold whole numbers.
type Activity struct {
	Activates float64 // of single banks, each with its precharge
	UnitReads float64 // bursts that banks read for their units, which do not cross the chips' pins
	Reads     float64 // bursts that leave the chips
	Writes    float64 // bursts that enter them
	Open      float64 // clocks with a row open in any bank
	Clocks    float64 // clocks of the rank
}

// Plus returns a and b, n times.
func (a Activity) Plus(b Activity, n float64) Activity {
	return Activity{
		a.Activates + float64(n*b.Activates), a.UnitReads + float64(n*b.UnitReads), a.Reads + float64(n*b.Reads),
		a.Writes + float64(n*b.Writes), a.Open + float64(n*b.Open), a.Clocks + float64(n*b.Clocks),
	}
}

// activity returns what a run of that many clocks did on a rank of so many banks.
func (c *counters) activity(clocks int64, banks int) Activity {
	n := &c.commands
	return Activity{
		Activates: float64(n[dram.ACT] + int64(banks)*n[dram.ACTA]), UnitReads: float64(int64(banks) * n[dram.MACA]),
		Reads: float64(n[dram.RD] + n[dram.RDRES]), Writes: float64(n[dram.WR] + n[dram.WRBUF]), Open: float64(c.open), Clocks: float64(clocks),
	}
}

// series is a sequence of activities that soon grow by the same in every period, as
// those of contexts do column by column. Measuring only its beginning makes a table
// a thousand times faster (10 s became 9 ms), and changes nothing: newSeries extends
// the beginning until the rest follows from it.
type series struct {
	begin  []Activity
	period int
	adds   Activity // what each further period adds
}

// periodsTried is the number of periods after which newSeries first looks
// whether the last two add the same.
const periodsTried = 4

// newSeries returns a series of n entries. Run measures an entry. It is asked for
// those of the first periods, in order, and then for the last one, which must lie
// on the line that the first ones begin.
func newSeries(n, period int, run func(i int) Activity) series {
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
func nestedSeries(n int, run func(i int) Activity, periods ...int) series {
	if len(periods) == 1 {
		return newSeries(n, periods[0], run)
	}
	var inner series
	first, period := 0, periods[0]
	return newSeries(n, period, func(i int) Activity {
		if i%period == 0 {
			first = i
			inner = nestedSeries(min(period, n-i), func(j int) Activity { return run(first + j) }, periods[1:]...)
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
	s.adds = s.begin[end-1].Plus(s.begin[end-1-s.period], -1)
	for i := end - 2*s.period; i < end; i++ {
		if s.begin[i] != s.begin[i-s.period].Plus(s.adds, 1) {
			return false
		}
	}
	return true
}

// clocks returns the clocks of entry i, also of one beyond the last that was measured.
func (s *series) clocks(i int) int64 {
	more := s.beyond(i)
	return int64(s.begin[i-more*s.period].Clocks) + int64(more)*int64(s.adds.Clocks)
}

// all returns entry i.
func (s *series) all(i int) Activity {
	more := s.beyond(i)
	return s.begin[i-more*s.period].Plus(s.adds, float64(more))
}

// beyond returns how many periods entry i lies behind those that were measured.
func (s *series) beyond(i int) int {
	if i < len(s.begin) {
		return 0
	}
	return (i-len(s.begin))/s.period + 1
}
