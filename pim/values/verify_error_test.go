package values

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
)

// Numbers too small for FP16 fail whatever the error of storage, and the reason says so.
func TestVerifyNamesUnderflow(t *testing.T) {
	normal := func() func() float64 {
		r := rand.New(rand.NewPCG(1, 2))
		return r.NormFloat64
	}()
	small := func(size float64, parts string) func(string, int, int) float64 {
		return func(part string, _, _ int) float64 {
			if strings.Contains(parts, part) {
				return normal() * size
			}
			return normal()
		}
	}
	// One key outweighs the others by 2^25 to 2^26, and its value is 0.
	outweighed := func(part string, token, e int) float64 {
		switch {
		case part == ".v" && token > 0:
			return 60000
		case part == ".k" && token == 0, part == ".q":
			return math.Sqrt(17.6 / math.Sqrt(8))
		}
		return 0
	}
	for _, c := range []struct {
		name, preset string
		s            synthetic
		want         []string
	}{
		{"all inputs", "paper", synthetic{keys: 50, dim: 64, dtype: "F32", element: small(1e-40, ".q.k.v")}, []string{"FP16 underflow", "elements of v"}},
		{"values", "fp32", synthetic{keys: 50, dim: 64, dtype: "F32", element: small(1e-40, ".v")}, []string{"FP16 underflow: 3200 of 3200 elements of v"}},
		{"subnormal values", "fp32", synthetic{keys: 50, dim: 64, dtype: "F32", element: small(1e-7, ".v")}, []string{"FP16 underflow", "elements of v"}},
		{"products and output", "paper", synthetic{keys: 50, dim: 64, dtype: "BF16", element: small(1e-30, ".v")},
			[]string{"FP16 underflow", "products of weights and values", "outputs"}},
		{"products", "paper", synthetic{keys: 3000, dim: 32, element: small(1e-3, ".v")}, []string{"FP16 underflow", "products of weights and values"}},
		{"weights", "paper", synthetic{keys: 3000, dim: 8, element: outweighed}, []string{"FP16 underflow", " weights are below"}},
		{"products in FP32", "fp32", synthetic{keys: 50, dim: 64, dtype: "BF16", element: small(1e-40, ".v")}, []string{"every stage in FP32 errs by"}},
	} {
		c.s.queryHeads, c.s.kvHeads, c.s.queries, c.s.size = 1, 1, 1, 1
		x := oneCase(t, c.s)
		r, err := Verify(t.Context(), precision(c.preset), parts.DDR4(t), x)
		if err != nil {
			t.Fatal(err)
		}
		if r.Pass || r.Tolerance > 0.1 {
			t.Errorf("%s: %+v", c.name, r)
		}
		for _, want := range c.want {
			if !strings.Contains(r.Reason, want) {
				t.Errorf("%s: %q, want %q in it", c.name, r.Reason, want)
			}
		}
	}
}

// TestErrorOfTheSum: of equal tokens in one chunk, addition k of an FP16 softmax sum rounds k/16 of the total by up to u = 2^-11 of it. Ten
// chunks add up their errors, and errors within a chunk are at most those of a single chunk.
func TestErrorOfTheSum(t *testing.T) {
	grows := func(n int) (squares float64) {
		for k := 2; k <= n; k++ {
			squares += float64(k*k) / float64(n*n)
		}
		return squares
	}
	const u, dim = 1.0 / (1 << 11), 8
	x := errorModel{precision: pim.Precision{Preset: "fp32"}.Resolve(), normalised: true, columnTokens: 4, chunkTokens: 16}
	x.precision.SoftmaxSum = pim.FP16
	for chunks, want := range map[int][2]float64{1: {0.95 * grows(16), 1.05 * grows(16)}, 10: {grows(10), grows(10) + 1.05*grows(16)}} {
		c := &VerifyCase{QueryHeads: 1, KVHeads: 1, Queries: 1, Keys: 16 * chunks, HeadDim: dim, ValueDim: dim, Q: make([]float32, dim), K: make([]float32, 16*chunks*dim), V: slices.Repeat([]float32{1}, 16*chunks*dim)}
		e := x.expectedError(c, 0, 0)
		if got := e.square / e.norm / (u * u / 3); got < want[0] || got > want[1] {
			t.Errorf("%d chunks: %v roundings of the whole sum, by hand %v", chunks, got, want)
		}
	}
}

// The tolerance is a small multiple of the error over random cases: no right
// program exceeds it, and half of the cases come within a fifth of it.
func TestToleranceIsTight(t *testing.T) {
	deep.Heavy(t)
	n := deep.Of(7, 80, 200)
	for _, preset := range []string{"fp32", "paper"} {
		r := rand.New(rand.NewPCG(1, 2))
		var ratios []float64
		for range n {
			dims, kv, group := []int{8, 16, 32, 64, 80, 128, 256, 512}, 1+r.IntN(2), 1+r.IntN(8)
			keys := 2 + int(math.Exp(r.Float64()*math.Log(600)))
			s := synthetic{
				queryHeads: group * kv, kvHeads: kv, queries: 1 + r.IntN(min(keys, 3)), keys: keys, dim: dims[r.IntN(len(dims))],
				size: math.Exp(1.2 * r.NormFloat64()), mean: float64(r.IntN(2)), equal: r.IntN(10) == 0,
			}
			spec := precision(preset)
			spec.NormalizedWeights = r.IntN(2) == 0
			c := oneCase(t, s)
			v, err := Verify(t.Context(), spec, parts.DDR4(t), c)
			if err != nil {
				t.Fatal(err)
			}
			if !v.Pass {
				t.Errorf("%s, %+v: %+v", preset, s, v)
			}
			g, err := pim.NewGeometry(parts.DDR4(t), c.shape())
			if err != nil {
				t.Fatal(err)
			}
			if bound := errorBound(spec, keys, g.ColumnTokens, v.LargestScore); v.Tolerance > bound {
				t.Errorf("%s: tolerance %g beyond the formats' bound %g", preset, v.Tolerance, bound)
			}
			ratios = append(ratios, v.RelativeL2/v.Tolerance)
		}
		slices.Sort(ratios)
		t.Logf("%s: error over tolerance: median %.2f, 99%% %.2f, largest %.2f", preset, ratios[n/2], ratios[n*99/100], ratios[n-1])
		if ratios[n/2] < 0.2 {
			t.Errorf("%s: half of the errors are below %.2g of their tolerance", preset, ratios[n/2])
		}
	}
}

// Keys of little or no weight add nothing to the tolerance.
func TestToleranceOfPeakedScores(t *testing.T) {
	for _, keys := range []int{3000, 4828} {
		x := oneCase(t, synthetic{queryHeads: 1, kvHeads: 1, queries: 2, keys: keys, dim: 80, size: 15})
		v, err := Verify(t.Context(), precision("paper"), parts.DDR4(t), x)
		if err != nil {
			t.Fatal(err)
		}
		if !v.Pass || v.RelativeL2 < 0.15*v.Tolerance || v.Tolerance > 3e-3 {
			t.Errorf("%d keys: error %.2g, tolerance %.2g", keys, v.RelativeL2, v.Tolerance)
		}
	}
}

// If all values are 0 there is no relative error, and nothing fails.
func TestVerifyZeros(t *testing.T) {
	for _, summed := range []string{".q.k.v", ".v", ".q"} {
		x := oneCase(t, synthetic{queryHeads: 2, kvHeads: 1, queries: 2, keys: 40, dim: 16, element: func(part string, token, e int) float64 {
			if strings.Contains(summed, part) {
				return 0
			}
			return float64(token%3) + float64(e)/16
		}})
		for _, preset := range []string{"fp32", "paper"} {
			r, err := Verify(t.Context(), precision(preset), parts.DDR4(t), x)
			if err != nil {
				t.Fatal(err)
			}
			if !r.Pass || math.IsNaN(r.ExpectedError) || math.IsNaN(r.Tolerance) {
				t.Errorf("%s 0, %s: %+v", summed, preset, r)
			}
		}
	}
}
