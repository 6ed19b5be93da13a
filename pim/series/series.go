package series

import "slices"

// Amounts is a vector of what is measured, such as clocks and counts. Sums and multiples of whole numbers must be exact.
type Amounts[A any] interface {
	comparable
	Plus(b A, n float64) A // the sum of it and n times b
}

// Series is the amounts of all indices from 0 on.
type Series[A Amounts[A]] struct {
	begin  []A // measured, or a part of what New was told to cover
	period int // indices after which the growth repeats
	Growth A   // what each further period adds
}

// minPeriods is the number of periods after which New first looks whether the last two add the same. With three a table was wrong by four
// clocks: the third chunk behind a segment's begin grew like the second one, and others did not.
const minPeriods = 4

// New measures a series of n indices: the first periods of it, in order, until the last two add the same to every place of the
// one before, and then index n-1, which must lie on the line that they begin; else it goes on. Further periods divide one
// another, the longest first: a period that is measured is itself a series of the next shorter ones. Making a table so takes a
// thousandth of the time (10 s became 9 ms), and changes nothing. A series that is not even within n indices is measured as a whole;
// beyond them it then grows as at its end.
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

// From returns a series whose beginning, of whole periods, and growth the caller has measured: where the growth is even on average only.
func From[A Amounts[A]](begin []A, period int, growth A) Series[A] {
	return Series[A]{begin: begin, period: period, Growth: growth}
}

// inPeriods returns a measure that makes a series of each period when its first index is asked for. Indices are asked for in
// order, but for n-1, which may come at any time.
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

// LikeBefore returns a measure for New, which asks for the indices in order, that measures of each period after the first only some samples, places
// in the period, where all of these add the same to the period before: the other places are taken to add that, too. Where they differ it measures
// every index.
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

// even reports whether the last two periods add the same to each place of the one before, and takes over how much.
func (s *Series[A]) even() bool {
	end := len(s.begin)
	if end < 3*s.period {
		return false // a part of one of these, or too few to tell
	}
	s.Growth = s.begin[end-1].Plus(s.begin[end-1-s.period], -1)
	for i := end - 2*s.period; i < end; i++ {
		if s.begin[i] != s.begin[i-s.period].Plus(s.Growth, 1) {
			return false
		}
	}
	return true
}

// At returns the amounts of index i.
func (s *Series[A]) At(i int) A {
	measured, further := s.Of(i)
	return (*measured).Plus(s.Growth, float64(further))
}

// Of returns the measured amounts from which those of index i follow, and the periods between the two, each of which adds Growth.
// A caller that wants one of the amounts need not add up the others.
func (s *Series[A]) Of(i int) (measured *A, further int) {
	if i >= len(s.begin) {
		further = (i-len(s.begin))/s.period + 1
	}
	return &s.begin[i-further*s.period], further
}

// Distinct returns how many indices differ from all before them by more than the growth of whole periods: those up to the period that all
// later ones repeat.
func (s *Series[A]) Distinct() int { return max(len(s.begin)-2*s.period, min(len(s.begin), s.period)) }
