package series

import "slices"

// Amounts is a vector of measurements, such as clocks and counts. Sums and multiples of whole numbers must be exact.
type Amounts[A any] interface {
	comparable
	Plus(b A, n float64) A // the receiver plus n times b
}

// Series has the amounts of all indices from 0 on.
type Series[A Amounts[A]] struct {
	begin  []A // measured entries
	period int // number of indices after which the growth repeats
	Growth A   // amount that each further period adds
}

// minPeriods is the number of periods after which New first checks whether the last two add the same. With three, a table was wrong by four
// clocks: the third chunk after a segment's begin grew like the second one, and later ones did not.
const minPeriods = 4

// New measures a series of n indices. It measures periods in order until the last two add the same amounts at every position, then checks
// index n-1, which must match the extrapolation; if it does not, it continues. Shorter periods in the list must divide the longer ones, the
// longest first: a measured period is itself a series of the next shorter ones. This makes a table a thousand times faster (10 s became 9
// ms) without changing it. A series that is not periodic within n indices is measured as a whole, and beyond them grows as at its end.
func New[A Amounts[A]](n int, measure func(i int) A, periods ...int) Series[A] {
	period := periods[0]
	if len(periods) > 1 {
		measure = inPeriods(n, measure, period, periods[1:])
	}
	s := Series[A]{period: period}
	for count := minPeriods; ; count++ {
		for len(s.begin) < min(count*period, n) {
			s.begin = append(s.begin, measure(len(s.begin)))
		}
		if even := s.even(); len(s.begin) == n || even && s.At(n-1) == measure(n-1) {
			s.begin = slices.Clip(s.begin)
			return s
		}
	}
}

// From returns a series from a measured beginning of whole periods and a measured growth, for series whose growth is periodic only on
// average.
func From[A Amounts[A]](begin []A, period int, growth A) Series[A] {
	return Series[A]{begin: begin, period: period, Growth: growth}
}

// inPeriods returns a measure function that makes a series of each period when the period's first index is requested. Indices must be
// requested in order, except n-1, which may come at any time.
func inPeriods[A Amounts[A]](n int, measure func(i int) A, period int, shorter []int) func(i int) A {
	var inner Series[A]
	first := 0
	return func(i int) A {
		if i%period == 0 {
			first = i
			inner = New(min(period, n-i), func(j int) A { return measure(first + j) }, shorter...)
		}
		if i-first < period {
			return inner.At(i - first)
		}
		return measure(i)
	}
}

// LikeBefore returns a measure function for New that samples periods after the first. If all samples, which are positions in a period, add
// the same amount to the previous period, it assumes that the other positions also do. If they differ, it measures every index. Indices
// must be requested in order.
func LikeBefore[A Amounts[A]](measure func(i int) A, period int, samples []int) func(i int) A {
	var known []A
	return func(i int) A {
		if i%period == 0 && i > 0 && i == len(known) {
			before := known[i-period:]
			growth := measure(i+samples[0]).Plus(before[samples[0]], -1)
			if !slices.ContainsFunc(samples[1:], func(j int) bool { return measure(i+j) != before[j].Plus(growth, 1) }) {
				for _, a := range before {
					known = append(known, a.Plus(growth, 1))
				}
			}
		}
		if i < len(known) {
			return known[i]
		}
		a := measure(i)
		if i == len(known) {
			known = append(known, a)
		}
		return a
	}
}

// even reports whether the last two periods add the same amount at each position, and stores that amount.
func (s *Series[A]) even() bool {
	end := len(s.begin)
	if end < 3*s.period {
		return false // not whole periods, or too few to tell
	}
	s.Growth = s.begin[end-1].Plus(s.begin[end-1-s.period], -1)
	for i := end - 2*s.period; i < end; i++ {
		if s.begin[i] != s.begin[i-s.period].Plus(s.Growth, 1) {
			return false
		}
	}
	return true
}

// At returns the amounts at index i.
func (s *Series[A]) At(i int) A {
	measured, further := s.Of(i)
	return (*measured).Plus(s.Growth, float64(further))
}

// Of returns measured amounts from which those at index i follow, and the number of further periods, each of which adds Growth. A caller
// that needs only one of the amounts saves the addition of the others.
func (s *Series[A]) Of(i int) (measured *A, further int) {
	if i >= len(s.begin) {
		further = (i-len(s.begin))/s.period + 1
	}
	return &s.begin[i-further*s.period], further
}

// Distinct returns the number of indices that differ from all earlier ones by more than the growth of whole periods: those up to the period
// that repeats.
func (s *Series[A]) Distinct() int { return max(len(s.begin)-2*s.period, min(len(s.begin), s.period)) }
