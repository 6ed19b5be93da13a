package attention

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/x448/float16"
)

// Every binary16 number widens as in x448/float16, and comes back.
func TestHalfToFloat32All(t *testing.T) {
	for h := range 1 << 16 {
		want := math.Float32bits(float16.Frombits(uint16(h)).Float32())
		if got := math.Float32bits(widen[uint16(h)]); got != want {
			// x448 sets the quiet bit of a signalling NaN.
			if got|0x00400000 != want {
				t.Fatalf("%#04x: got %#08x, want %#08x", h, got, want)
			}
		}
		x := widen[uint16(h)]
		if back := Float32ToHalf(x); back != uint16(h) && x == x {
			t.Fatalf("%#04x comes back as %#04x", h, back)
		}
	}
}

// checkRounding compares both roundings of one float32 with x448/float16.
func checkRounding(t *testing.T, u uint32) {
	x := math.Float32frombits(u)
	want := float16.Fromfloat32(x).Bits()
	got := Float32ToHalf(x)
	r := RoundHalf(x)
	if x != x {
		if got&0x7fff <= 0x7c00 || r == r {
			t.Fatalf("NaN %#08x: got %#04x and %v", u, got, r)
		}
		return
	}
	if got != want {
		t.Fatalf("%#08x (%g): got %#04x, want %#04x", u, x, got, want)
	}
	if math.Float32bits(r) != math.Float32bits(widen[want]) {
		t.Fatalf("%#08x (%g): RoundHalf %g, want %g", u, x, r, widen[want])
	}
}

var exhaustive = flag.Bool("exhaustive", false, "round every float32 (half a minute)")

// Rounding depends on sign, exponent, the ten kept bits, the round bit, and
// whether anything follows: every combination of these, and each tie with its
// neighbours at every exponent at which binary16 is subnormal. With
// -exhaustive, every one of the 2^32 patterns.
func TestRoundHalf(t *testing.T) {
	if *exhaustive {
		for u := range uint64(1 << 32) {
			checkRounding(t, uint32(u))
		}
		return
	}
	for top := range uint32(1 << 16) {
		for _, low := range []uint32{0, 1, 0x0fff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x2001, 0x3000, 0x7fff, 0x8000, 0xf000, 0xffff} {
			checkRounding(t, top<<16|low)
		}
	}
	for e := uint32(halfNormalMin>>23) - 26; e <= halfNormalMin>>23; e++ {
		for fraction := uint32(0); fraction < 1<<23; fraction += 1 << 9 {
			for _, low := range []uint32{0, 1, 0x1ff} {
				checkRounding(t, e<<23|fraction|low)
				checkRounding(t, 1<<31|e<<23|fraction|low)
			}
		}
	}
}

func TestBFloat16(t *testing.T) {
	for b := range 1 << 16 {
		x := BFloat16ToFloat32(uint16(b))
		if back := Float32ToBFloat16(x); back != uint16(b) && x == x {
			t.Fatalf("%#04x comes back as %#04x", b, back)
		}
	}
	for _, c := range []struct {
		x    float32
		want uint16
	}{
		{1, 0x3f80},
		{math.Float32frombits(0x3f808000), 0x3f80}, // tie: to even, down
		{math.Float32frombits(0x3f818000), 0x3f82}, // tie: to even, up
		{math.Float32frombits(0x3f808001), 0x3f81},
		{math.MaxFloat32, 0x7f80}, // beyond the largest: infinity
		{float32(math.Inf(-1)), 0xff80},
	} {
		if got := Float32ToBFloat16(c.x); got != c.want {
			t.Errorf("%g: got %#04x, want %#04x", c.x, got, c.want)
		}
	}
	if b := Float32ToBFloat16(float32(math.NaN())); b&0x7fff <= 0x7f80 {
		t.Errorf("NaN becomes %#04x", b)
	}
}

func BenchmarkRoundHalf(b *testing.B) {
	xs := make([]float32, 1024)
	for i := range xs {
		xs[i] = float32(i)*1.0001 - 300
	}
	b.ReportAllocs()
	b.SetBytes(4 * 1024)
	for b.Loop() {
		for i, x := range xs {
			xs[i] = RoundHalf(x)
		}
	}
}

// TestRoundHalf64 compares with exact arithmetic: the result is at least as near as both neighbours, and even in a tie. Rounding twice,
// through float32, fails next to ties.
func TestRoundHalf64(t *testing.T) {
	beside := 1 + 0x1p-11
	if got := RoundHalf64(beside + 0x1p-50); got != 1+0x1p-10 {
		t.Errorf("above half way: %v", got)
	}
	if got := RoundHalf64(beside - 0x1p-50); got != 1 {
		t.Errorf("below half way: %v", got)
	}
	if got := RoundHalf64(-beside - 0x1p-50); got != -1-0x1p-10 {
		t.Errorf("negative: %v", got)
	}
	for _, same := range []float64{0, beside, 3 * beside, 65504, 0x1p-24, 0x1p-25, 65520, math.Inf(-1), 1e300, -1e-300} {
		if got, want := RoundHalf64(same), RoundHalf(float32(same)); got != want {
			t.Errorf("%g: %v, want %v", same, got, want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100000 {
		x := math.Ldexp(r.NormFloat64(), r.IntN(30)-20)
		if r.IntN(2) == 0 { // near a tie
			h := float64(RoundHalf(float32(x)))
			x = h + math.Copysign(math.Ldexp(1, max(math.Ilogb(h), -14)-11), r.NormFloat64())*(1+math.Ldexp(r.NormFloat64(), -30))
		}
		got := float64(RoundHalf64(x))
		for _, step := range []int{-1, 1} {
			next := float64(widen[uint16(int(Float32ToHalf(float32(got)))+step)])
			if math.Abs(next-x) < math.Abs(got-x) {
				t.Fatalf("%v rounds to %v, %v is nearer", x, got, next)
			}
		}
	}
}
