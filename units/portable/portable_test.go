package portable

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// units is the distance of two numbers in units of the last place of the second.
func units(got, want float64) float64 {
	return math.Abs(got-want) / (math.Nextafter(math.Abs(want), math.Inf(1)) - math.Abs(want))
}

// TestAgainstMath compares with package math, whose errors are below one unit; TestPow has Pow.
func TestAgainstMath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-700, 700).Draw(t, "x")
		if got, want := Exp(x), math.Exp(x); units(got, want) > 2 {
			t.Fatalf("exp(%v) = %v, want %v", x, got, want)
		}
		p := math.Exp(x)
		if got, want := Log(p), math.Log(p); units(got, want) > 3 {
			t.Fatalf("log(%v) = %v, want %v", p, got, want)
		}
		f := rapid.Float64Range(-0.99, 10).Draw(t, "f")
		if got, want := Log1p(f), math.Log1p(f); units(got, want) > 3 && math.Abs(got-want) > 1e-15 {
			t.Fatalf("log1p(%v) = %v, want %v", f, got, want)
		}
	})
}

// TestExpOfOne compares with e in 100 digits: an independent value.
func TestExpOfOne(t *testing.T) {
	sum, term := big.NewFloat(1).SetPrec(400), big.NewFloat(1).SetPrec(400)
	for n := 1; n < 80; n++ {
		term.Quo(term, big.NewFloat(float64(n)).SetPrec(400))
		sum.Add(sum, term)
	}
	e, _ := sum.Float64()
	if got := Exp(1); units(got, e) > 1 {
		t.Errorf("e = %v, want %v", got, e)
	}
	if got := Log(e); math.Abs(got-1) > 1e-15 {
		t.Errorf("log e = %v", got)
	}
}

// TestEnds: where the results leave the range of numbers, and at them.
func TestEnds(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"exp 0", Exp(0), 1}, {"exp -inf", Exp(-inf), 0}, {"exp inf", Exp(inf), inf}, {"exp 710", Exp(710), inf}, {"exp 1e300", Exp(1e300), inf},
		{"exp -745", Exp(-745), 5e-324}, {"exp -747", Exp(-747), 0}, {"exp nan", Exp(nan), nan},
		{"log 0", Log(0), -inf}, {"log 1", Log(1), 0}, {"log -1", Log(-1), nan}, {"log inf", Log(inf), inf}, {"log nan", Log(nan), nan},
		{"log1p 0", Log1p(0), 0}, {"log1p -1", Log1p(-1), -inf}, {"log1p tiny", Log1p(1e-300), 1e-300},
		{"0^2", Pow(0, 2), 0}, {"0^0", Pow(0, 0), 1}, {"1^y", Pow(1, 1e9), 1}, {"2^10", Pow(2, 10), 1024},
	} {
		if math.IsNaN(c.want) != math.IsNaN(c.got) || !math.IsNaN(c.want) && c.got != c.want && units(c.got, c.want) > 4 {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

// TestSameBits pins results bit by bit: every machine must give them. They are these
// algorithms' own, checked against package math above.
func TestSameBits(t *testing.T) {
	sum := uint64(14695981039346656037)
	for i := range 1000 {
		x := float64(float64(i)*0.37) - 180
		for _, v := range []float64{Exp(x), Log(float64(i) + 0.1), Log1p(float64(i)/2500 - 0.2), Pow(float64(i+1)/1001, 3.45)} {
			sum = (sum ^ math.Float64bits(v)) * 1099511628211
		}
	}
	if want := uint64(0x94a385ca61e6c8c7); sum != want {
		t.Errorf("bits add up to %#x, want %#x", sum, want)
	}
}
