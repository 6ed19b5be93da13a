package pim

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/l3sim/l3sim/attention"
)

// TestHalved: it rounds as attention.RoundHalf does, next to each FP16 number, half way between two, and anywhere else.
func TestHalved(t *testing.T) {
	same := func(x float32) {
		t.Helper()
		for _, x := range []float32{x, -x} {
			got, want := halved(x, halfUnits), attention.RoundHalf(x)
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
