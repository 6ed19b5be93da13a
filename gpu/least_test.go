package gpu

import (
	"testing"

	"pgregory.net/rapid"
)

// TestLeastPerToken: a layer's products never take less than LeastPerToken for each of their tokens, whatever the model, and those of a
// long chunk of Llama-2-7B not much more.
func TestLeastPerToken(t *testing.T) {
	llama := loadModel(t, "llama-2-7b")
	forPresets(t, func(t *rapid.T, s *Spec) {
		m := drawModel(t)
		c := NewModelCost(s, m)
		for range 20 {
			n := size(t, "tokens", 1, 1<<15)
			if token, is := c.LeastPerToken(0, 0, false), c.QKV(n).Plus(c.ProjectionFFN(n)).Seconds; token*float64(n) > is {
				t.Fatalf("%d tokens take %g s, each token at least %g; %+v", n, is, token, m)
			}
		}
		c = NewModelCost(s, llama)
		if token, is := c.LeastPerToken(0, 0, false), c.QKV(1<<14).Plus(c.ProjectionFFN(1<<14)).Seconds; token > is/(1<<14) || token < 0.4*is/(1<<14) {
			t.Fatalf("16,384 tokens of Llama-2-7B take %g s, by the token %g", is, token*(1<<14))
		}
	})
}
