package series

import (
	"testing"

	"pgregory.net/rapid"
)

// pair is two amounts.
type pair struct{ x, y float64 }

func (p pair) Plus(q pair, n float64) pair { return pair{p.x + float64(n*q.x), p.y + float64(n*q.y)} }

// TestSeriesIsTheMeasure: New finds where even growth begins, after a start of any length. If the start itself looks even for three
// periods, the series agrees with what was measured up to there and with the last index, which is checked; a step in between is missed.
func TestSeriesIsTheMeasure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period, n := rapid.IntRange(1, 9).Draw(t, "period"), rapid.IntRange(1, 300).Draw(t, "n")
		odd := rapid.SliceOfN(rapid.IntRange(0, 9), 0, 40).Draw(t, "odd") // extra amounts at the start
		places := rapid.SliceOfN(rapid.IntRange(0, 99), period, period).Draw(t, "places")
		growth := pair{float64(rapid.IntRange(0, 1000).Draw(t, "x")), 3}
		measure := func(i int) pair {
			p := pair{float64(places[i%period]), 1}.Plus(growth, float64(i/period))
			if i < len(odd) {
				p.x += float64(odd[i])
			}
			return p
		}
		s := New(n, measure, period)
		looksEven := func(end int) bool { // in the two periods before end, which New compares
			grown := func(i int) pair { return measure(i).Plus(measure(i-period), -1) }
			for i := end - 2*period; i < end; i++ {
				if grown(i) != grown(end-1) {
					return false
				}
			}
			return true
		}
		sure := max(n, len(odd)+4*period) + 50
		for end := minPeriods * period; end-2*period < len(odd) && end < n; end += period {
			if looksEven(end) {
				sure = end
				break
			}
		}
		for i := range sure {
			if i >= n && n < len(odd)+3*period { // not yet even: no claim beyond
				break
			}
			if got := s.At(i); got != measure(i) {
				t.Fatalf("index %d of %d: %v, want %v", i, n, got, measure(i))
			}
		}
		if got := s.At(n - 1); got != measure(n-1) {
			t.Fatalf("the last index of %d: %v, want %v", n, got, measure(n-1))
		}
	})
}

// TestLastIsChecked: a step after even periods shows at the last index.
func TestLastIsChecked(t *testing.T) {
	asked := 0
	measure := func(i int) pair {
		asked++
		p := pair{float64(i), 0}
		if i >= 50 {
			p.x += 7
		}
		return p
	}
	s := New(100, measure, 2)
	for i := range 200 {
		want := float64(i)
		if i >= 50 {
			want += 7
		}
		if got := s.At(i).x; got != want {
			t.Fatalf("index %d: %v, want %v", i, got, want)
		}
	}
	if asked = 0; short(measure) != 39 || asked != 4*2+1 {
		t.Errorf("%d measurements of an even series, want four periods of two and the last", asked)
	}
}

// short returns the last of forty amounts.
func short(measure func(i int) pair) float64 {
	s := New(40, measure, 2)
	return s.At(39).x
}

// TestPeriodsWithinPeriods: rows of chunks, with a switch before each row and a start-up before each chunk, need few
// measurements, also if the last row is partial.
func TestPeriodsWithinPeriods(t *testing.T) {
	asked := 0
	measure := func(i int) pair {
		asked++
		return pair{float64(10 + 4*i + 100*(i/64) + i/8), float64(i / 64)}
	}
	const n = 64*40 + 5
	s := New(n, measure, 64, 8)
	if most := 4*(4*8+1) + 1; asked > most {
		t.Errorf("%d measurements, want at most %d", asked, most)
	}
	for i := range 2 * n {
		if got := s.At(i); got != measure(i) {
			t.Fatalf("index %d: %v, want %v", i, got, measure(i))
		}
	}
	measured, further := s.Of(64*9 + 3)
	if further != 6 || measured.x != measure(64*3+3).x {
		t.Errorf("%v and %d further periods, want %v and 6", *measured, further, measure(64*3+3))
	}
}

// TestLikeBefore: a later period that adds the same at the samples copies the period before; one that differs at a sample is measured.
func TestLikeBefore(t *testing.T) {
	for _, c := range []struct {
		odd, asked int // an index with an extra amount; measurements of 40 indices in periods of 8
	}{{-1, 8 + 4*3}, {3, 8 + 10 + 3*3}, {16, 8 + 3 + 10 + 10 + 3}, {27, 8 + 3 + 3 + 10 + 10}} { // samples up to the odd one, then all eight
		asked := 0
		amount := func(i int) pair {
			p := pair{float64(5*(i/8) + i%8), 1}
			if i == c.odd {
				p.y = 2
			}
			return p
		}
		measure := LikeBefore(func(i int) pair { asked++; return amount(i) }, 8, []int{0, 3, 7})
		for i := range 40 {
			if got := measure(i); got != amount(i) {
				t.Errorf("%d, odd %d: %v, want %v", i, c.odd, got, amount(i))
			}
		}
		if asked != c.asked {
			t.Errorf("odd %d: %d measurements, want %d", c.odd, asked, c.asked)
		}
	}
}

// TestUnevenPlace: the last index is on the line of its own place in the period while another place is not yet even: of seven periods of two, the last
// two repeat.
func TestUnevenPlace(t *testing.T) {
	uneven := []float64{0, 7, 0, 50} // the first place in its first periods; later, and at the second place, the period's number
	measure := func(i int) pair {
		if i%2 == 0 && i/2 < len(uneven) {
			return pair{uneven[i/2], 0}
		}
		return pair{float64(i / 2), 0}
	}
	s := New(40, measure, 2)
	for i := range 60 {
		if got := s.At(i); got != measure(i) {
			t.Errorf("index %d: %v, want %v", i, got, measure(i))
		}
	}
	if s.Distinct() != 10 || cap(s.begin) > 16 {
		t.Errorf("%d indices are distinct, want 10; room for %d", s.Distinct(), cap(s.begin))
	}
}

// TestDistinct: of the four periods that an even series measures, two only check it; a series within one period measures every index.
func TestDistinct(t *testing.T) {
	for _, c := range []struct{ n, period, want int }{{100, 2, 4}, {3, 8, 3}, {8, 8, 8}, {10, 8, 8}, {26, 8, 10}, {33, 8, 16}, {1, 1, 1}, {100, 5, 10}} {
		s := New(c.n, func(i int) pair { return pair{float64(i / c.period), 0} }, c.period)
		if got := s.Distinct(); got != c.want {
			t.Errorf("%d indices in periods of %d: %d are distinct, want %d", c.n, c.period, got, c.want)
		}
	}
}

// TestFrom: a start of two periods of three, then growth, by hand.
func TestFrom(t *testing.T) {
	s := From([]pair{{0, 1}, {2, 1}, {5, 1}, {10, 2}, {12, 2}, {16, 2}}, 3, pair{10, 1})
	for i, want := range map[int]pair{0: {0, 1}, 5: {16, 2}, 6: {20, 3}, 8: {26, 3}, 9: {30, 4}, 14: {46, 5}} {
		if got := s.At(i); got != want {
			t.Errorf("index %d: %v, want %v", i, got, want)
		}
	}
	if measured, further := s.Of(10); further != 2 || *measured != (pair{12, 2}) {
		t.Errorf("index 10 is %d periods beyond %v", further, *measured)
	}
}
