package values

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/l3sim/l3sim/attention"
)

// TestRounder: the unit rounds as attention.RoundHalf does: near each FP16 number, half way between two, and
// elsewhere.
func TestRounder(t *testing.T) {
	same := func(x float32) {
		t.Helper()
		for _, x := range []float32{x, -x} {
			got, want := rounderTo(true).round(x), attention.RoundHalf(x)
			if got != want && (got == got || want == want) {
				t.Fatalf("%g is rounded to %g, expected %g", x, got, want)
			}
		}
	}
	units := attention.HalfTable()
	for h := range 0x7c00 {
		x := units[h]
		middle := (x + units[h+1]) / 2
		if h == 0x7bff {
			middle = 65520
		}
		for _, v := range []float32{x, middle} {
			same(v)
			same(math.Nextafter32(v, 0))
			same(math.Nextafter32(v, 1e9))
		}
	}
	r := rand.New(rand.NewPCG(3, 5))
	for range 1 << 20 {
		same(math.Float32frombits(r.Uint32()))
	}
}

// TestKernels: routines for four elements a column access give the same bits as those for any number, in all formats, for numbers of all
// sizes and for sums over several columns.
func TestKernels(t *testing.T) {
	const banks, columns = 8, 5
	r := rand.New(rand.NewPCG(1, 2))
	number := func(span int) float32 { return float32(math.Ldexp(r.Float64()-0.5, r.IntN(span)-span+11)) }
	for i := range 20000 {
		span := []int{4, 16, 40}[i%3]
		rounds := rounding{i%2 > 0, i/2%2 > 0}
		var partial, general [banks]float32
		var sums, generalSums [4 * banks]float32
		for range columns {
			var cells [4 * banks]float32
			for i := range cells {
				cells[i] = attention.RoundHalf(number(span))
			}
			q := []float32{number(span), number(span), number(span), number(span)}
			scoreBanks(cells[:], 4, 4, q, partial[:], rounds)
			scoreAny(cells[:], 4, 4, q, general[:], rounds)
			contextBanks(cells[:], q[:2], sums[:], rounds)
			for i, w := range q[:2] {
				contextAny(part(cells[:], i, 2*banks), w, part(generalSums[:], i, 2*banks), rounds)
			}
		}
		for j, x := range append(partial[:], sums[:]...) {
			if want := append(general[:], generalSums[:]...)[j]; !sameBits(x, want) {
				t.Fatalf("%+v, number %d: %g, expected %g", rounds, j, x, want)
			}
		}
	}
}
