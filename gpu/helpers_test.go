package gpu

import "github.com/l3sim/l3sim/units"

// Seconds of kernels in a graph, below the power limit.

func (s *Spec) gemmTime(m, n, k, bits int) float64 { return s.GEMMCost(m, n, k, bits).Seconds }

func (s *Spec) allReduce(gpus int, n units.Bytes) float64 { return s.AllReduceCost(gpus, n).Seconds }

// decodeAttention returns a decode step's attention of a batch in one layer.
func (s *Spec) decodeAttention(b DecodeBatch, h Heads) float64 {
	return s.DecodeAttentionCost(b, h).Seconds
}

func (s *Spec) prefillAttention(chunk, finished int, h Heads) float64 {
	return s.PrefillAttentionCost(1, chunk, finished, h).Seconds
}

// decodeTime returns attention of requests with the given contexts.
func (c *ModelCost) decodeTime(contexts ...int) float64 {
	var b DecodeBatch
	for _, n := range contexts {
		b.Add(n)
	}
	return c.DecodeBatch(b).Seconds
}

// layer returns the seconds of a layer without attention.
func (c *ModelCost) layer(tokens int) float64 {
	return c.QKV(tokens).Seconds + c.ProjectionFFN(tokens).Seconds
}

// Small kernels of an iteration.

func (s *Spec) addNorm(m, d, bits int) Cost { return s.small().norm(false, m, d, bits) }

func (s *Spec) activation(m, d int, gated bool, bits int) Cost {
	return s.small().activation(false, activationOperands(gated), m, d, bits)
}

func (s *Spec) copied(kernels, m, d, bits int) Cost {
	return s.small().copies(kernels, rowBytes(2*kernels, m, d, bits))
}

func (s *Spec) choice(m, d, bits int) Cost { return s.small().choice(m, d, bits) }
