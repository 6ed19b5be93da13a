package values

import (
	"math/rand/v2"

	"github.com/l3sim/l3sim/attention"
)

// drawing describes one case of DrawCases.
type drawing struct {
	name                               string
	queryHeads, kvHeads, queries, keys int
	queryScale, outlierScale           float64
}

// drawings are a single token, decode steps, grouped queries, a prefill and one chunk of a prefill. In the chunk, logits exceed 30. In
// decode_4096_outlier, two of the key's elements are far larger than the others, as in the key caches of trained models (KIVI: Liu et al.,
// ICML 2024, section 3.1).
var drawings = []drawing{
	{"chunk_64_of_512", 2, 2, 64, 512, 6, 1},
	{"decode_1000", 2, 2, 1, 1000, 1, 1},
	{"decode_128", 2, 2, 1, 128, 1, 1},
	{"decode_4096_outlier", 1, 1, 1, 4096, 1, 10},
	{"gqa_777", 8, 2, 1, 777, 1, 1},
	{"prefill_257", 2, 2, 257, 257, 1, 1},
	{"single_token", 2, 2, 1, 1, 1, 1},
}

// drawnDim is the head dimension of the drawn cases, and outlierElements the number of large elements of a key in cases with outliers.
const drawnDim, outlierElements = 128, 2

// DrawCases draws attention problems in FP16 with head dimension 128; equal seeds give equal problems. Queries, keys and values are
// normally distributed. The reference is attention.CausalReference, in float64.
func DrawCases(seed uint64) ([]VerifyCase, error) {
	cases := make([]VerifyCase, len(drawings))
	for i, d := range drawings {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		draw := func(n int, scale float64) []float32 {
			x := make([]float32, n*drawnDim)
			for i := range x {
				x[i] = attention.RoundHalf(float32(r.NormFloat64() * scale))
			}
			return x
		}
		c := VerifyCase{
			Name: d.name, QueryHeads: d.queryHeads, KVHeads: d.kvHeads, Queries: d.queries, Keys: d.keys, HeadDim: drawnDim, ValueDim: drawnDim,
			Q: draw(d.queryHeads*d.queries, d.queryScale), K: draw(d.kvHeads*d.keys, 1), V: draw(d.kvHeads*d.keys, 1),
		}
		for k := range c.K {
			if k%drawnDim < outlierElements {
				c.K[k] = attention.RoundHalf(float32(float64(c.K[k]) * d.outlierScale))
			}
		}
		if err := c.store(); err != nil {
			return nil, err
		}
		c.refer()
		cases[i] = c
	}
	return cases, nil
}

// refer computes the reference of a case.
func (c *VerifyCase) refer() {
	exact := c.exact([3][]float32{c.Q, c.K, c.V})
	c.Out, c.LSE = exact.out, exact.lse
}
