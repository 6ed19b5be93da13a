package portable

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
)

// bigLog returns log x in 300 bits, by the series of atanh.
func bigLog(x float64) *big.Float {
	number := func(v float64) *big.Float { return big.NewFloat(v).SetPrec(300) }
	atanh2 := func(s *big.Float) *big.Float { // 2 atanh s
		square, power, sum := number(0).Mul(s, s), number(0).Set(s), number(0)
		for n := 1; n < 400; n += 2 {
			sum.Add(sum, number(0).Quo(power, number(float64(n))))
			power.Mul(power, square)
		}
		return sum.Mul(sum, number(2))
	}
	m, k := math.Frexp(x)
	f := number(0).Sub(number(m), number(1))
	sum := atanh2(f.Quo(f, number(0).Add(number(m), number(1))))
	ln2 := atanh2(number(0).Quo(number(1), number(3)))
	return sum.Add(sum, ln2.Mul(ln2, number(float64(k))))
}

// bigExp returns e^z in 300 bits.
func bigExp(z *big.Float) *big.Float {
	small := new(big.Float).SetPrec(300).SetMantExp(z, -20)
	sum, term := big.NewFloat(1).SetPrec(300), big.NewFloat(1).SetPrec(300)
	for n := 1; n < 60; n++ {
		term.Mul(term, small)
		term.Quo(term, big.NewFloat(float64(n)).SetPrec(300))
		sum.Add(sum, term)
	}
	for range 20 {
		sum.Mul(sum, sum)
	}
	return sum
}

// TestPow compares with 300 bits, bases of every size, results up to both ends and near 1.
func TestPow(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	worst := 0.0
	for i := range deep.Of(600, 3000, 3000) {
		x := math.Ldexp(0.5+r.Float64()/2, r.IntN(2000)-1000)
		switch i % 3 {
		case 1:
			x = math.Exp2(2*r.Float64() - 1)
		case 2:
			x = 1 + math.Ldexp(r.Float64()-0.5, -r.IntN(50))
		}
		if x == 1 {
			continue
		}
		z := (2*r.Float64() - 1) * []float64{708, 10, 1}[i/3%3]
		y := z / math.Abs(math.Log(x))
		want := bigExp(new(big.Float).SetPrec(300).Mul(bigLog(x), big.NewFloat(y).SetPrec(300)))
		nearest, _ := want.Float64()
		unit := math.Nextafter(nearest, math.Inf(1)) - nearest
		miss, _ := new(big.Float).SetPrec(300).Sub(big.NewFloat(Pow(x, y)).SetPrec(300), want).Float64()
		if miss = math.Abs(miss) / unit / (2 + 3*math.Abs(z)); miss > 1 {
			t.Fatalf("%v^%v = %v, want %v: %v times the error that may be", x, y, Pow(x, y), nearest, miss)
		}
		worst = max(worst, miss)
	}
	t.Logf("%.2f times the error that may be at most", worst)
}

func BenchmarkPow(b *testing.B) {
	for b.Loop() {
		Pow(0.37, 3.45)
	}
}
