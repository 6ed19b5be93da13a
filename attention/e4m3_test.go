package attention

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestE4M3: all 256 codes by the closed form of the specification, and back.
func TestE4M3(t *testing.T) {
	for code, x := range E4M3Table() {
		s, e, m := code>>7, code>>3&15, float64(code&7)
		want := math.Pow(-1, float64(s)) * math.Pow(2, float64(e-7)) * (1 + m/8)
		if e == 0 {
			want = math.Pow(-1, float64(s)) * math.Pow(2, -6) * m / 8
		}
		if nan := e == 15 && m == 7; nan != (x != x) || !nan && float64(x) != want || !nan && math.Signbit(float64(x)) != (s == 1) {
			t.Errorf("%#02x is %v, want %v", code, x, want)
		}
		if back := Float32ToE4M3(x); x == x && int(back) != code || x != x && back&0x7f != 0x7f {
			t.Errorf("%#02x, %v, comes back as %#02x", code, x, back)
		}
	}
	for x, want := range map[float32]uint8{
		448: 0x7e, 463: 0x7e, 464: 0x7e, 480: 0x7e, 1e30: 0x7e, -449: 0xfe, float32(math.Inf(1)): 0x7e, float32(math.Inf(-1)): 0xfe,
		0x1p-10: 0, 0x1.000002p-10: 1, -0x1.8p-9: 0x82, 0x1p-9: 1, 0x7.7p-9: 7, 0x7.8p-9: 8, 1e-40: 0, 15.5: 0x58, 14.5: 0x56, 15.4: 0x57,
	} {
		if got := Float32ToE4M3(x); got != want {
			t.Errorf("%v becomes %#02x, want %#02x", x, got, want)
		}
	}
	if Float32ToE4M3(float32(math.NaN()))&0x7f != 0x7f {
		t.Error("NaN becomes a number")
	}
}

// TestE4M3Nearest: a number rounds to a nearest code, in ties to the even one; normal numbers are off by at most a sixteenth.
func TestE4M3Nearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.OneOf(rapid.Float32Range(-500, 500), rapid.Float32Range(-0.05, 0.05), rapid.Custom(func(t *rapid.T) float32 {
			c := rapid.IntRange(0, 0x7d).Draw(t, "code")
			return (e4m3[c] + e4m3[c+1]) / 2 // a tie
		})).Draw(t, "x")
		got := Float32ToE4M3(x)
		off := math.Abs(float64(e4m3[got] - x))
		for code, y := range e4m3 {
			if d := math.Abs(float64(y - x)); d < off || d == off && y != e4m3[got] && got&1 == 1 {
				t.Fatalf("%v becomes %#02x, %v, and %#02x is %v", x, got, e4m3[got], code, y)
			}
		}
		if size := math.Abs(float64(x)); size >= 0x1p-6 && size <= E4M3Max && off > size/16 {
			t.Fatalf("%v becomes %v", x, e4m3[got])
		}
	})
}
