package gpu

import "github.com/l3sim/l3sim/llm"

// Attention is attention of a batch in one layer on one GPU, with one kernel for the prompts and one for the decoding requests. Create it
// with ModelCost.Attention; the zero value cannot be used.
type Attention struct {
	cost    *ModelCost
	wave    wave // the batch has prompts
	prompts bool // the batch has prompts
	longest int  // keys of the longest prompt
	// With attention_parallel = "data", seconds of prompts: of all, of the longest, and of the GPU with the most.
	sum, most, took float64
}

// Attention returns the attention of an empty batch.
func (c *ModelCost) Attention() Attention { return Attention{cost: c} }

// Prompts returns the work of a kernel that prefills a chunk for each of the given number of requests, for kvHeads KV heads of the model, 0
// for all.
func (a *Attention) Prompts(requests, chunk, finished, kvHeads int) Work {
	return a.PromptsOf(requests, chunk, finished, kvHeads, false)
}

// PromptsOf is Prompts for layers with or without a window.
func (a *Attention) PromptsOf(requests, chunk, finished, kvHeads int, windowed bool) Work {
	c := a.cost
	if requests > 0 && chunk > 0 {
		a.prompts, a.longest = true, max(a.longest, chunk+finished)
	}
	if c.alwaysChosen() {
		return a.spread(c.Chosen(wholePrompts(requests, chunk, finished)))
	}
	h, made := c.some(kvHeads, windowed), Work{}
	if c.latent != nil {
		h, made = c.promptHeads(requests*finished), c.expand(requests*chunk, requests*finished)
	}
	if requests != 1 {
		return a.spread(c.prefills(c.spec.PrefillAttentionCost(requests, chunk, finished, h)).Plus(made))
	}
	var cost Cost
	cost, a.wave = c.spec.by(c.spec.prefillOf(&h).Model).prompt(a.wave, chunk, finished, h)
	return a.spread(c.prefills(cost).Plus(made))
}

// LeastPrompts returns seconds below which the work of Prompts never is, much faster.
func (c *ModelCost) LeastPrompts(requests, chunk, finished, kvHeads int, windowed bool) float64 {
	h := c.some(kvHeads, windowed)
	if requests <= 0 || chunk <= 0 || c.promptsUnbounded(&h) {
		return 0
	}
	return float64(measured{c.spec}.leastPrefill(requests, chunk, finished, h) * c.scale.prefill)
}

// Chosen adds one more prompt's ModelCost.Chosen and the ModelCost.Index of its scores.
func (a *Attention) Chosen(x llm.Chosen, scores llm.Indexing) Work {
	return a.spread(a.cost.Chosen(x).Plus(a.cost.Index(scores)))
}

// Decoding returns the work that decoding a batch adds to the prompts added before.
func (a *Attention) Decoding(b DecodeBatch) Work {
	c := a.cost
	if c.data {
		return c.DecodeBatch(b)
	}
	if c.latent != nil { // one kernel attends to latents, another to a prompt's expanded keys
		return c.DecodeBatch(b)
	}
	if a.prompts && a.cost.spec.joinsDecode() {
		joined := c.spec.joinedDecodeCost(a.longest, b, c.decoding(&b))
		if alone := c.decodeCost(&b); joined.Seconds >= alone.Seconds {
			return c.Kernel(joined)
		} // a batch takes no less with prompts than alone
	}
	return c.waits(c.spec.workOf(c.decodeCost(&b)).scaled(c.scale.decode))
}

// Total returns the work of the prompts and the decoding requests of a batch of tokens together. prefill and decode are their separate
// work.
func (a *Attention) Total(prefill, decode Work, tokens int) Work {
	if prefill.Seconds == 0 || decode.Seconds == 0 || a.cost.spec.joinsDecode() {
		return prefill.Plus(decode)
	}
	return prefill.Plus(decode).Plus(a.cost.joined(tokens))
}

// joinsDecode reports whether one kernel serves both prompts and decoding requests.
func (s *Spec) joinsDecode() bool {
	p := &s.attention().Prefill
	return p.JoinsDecode && p.Model == AttentionFlash
}

// MixedAttentionCost returns attention of a chunk of one prompt and of a decoding batch in one kernel.
func (s *Spec) MixedAttentionCost(chunk, finished int, b DecodeBatch, h Heads) Cost {
	decode := s.joinedDecodeCost(chunk+finished, b, h)
	if alone := s.DecodeAttentionCost(b, h); alone.Seconds > decode.Seconds {
		decode = alone
	}
	return s.PrefillAttentionCost(1, chunk, finished, h).then(decode)
}

// joined returns the copies that a batch needs if it decodes and prefills in two kernels: each kernel's tokens are copied to the cache
// separately, and both outputs are copied together. AttAcc's model has no copies.
func (c *ModelCost) joined(tokens int) Work {
	s := c.spec
	copied := s.small().copies(1, rowBytes(2, c.own(tokens), c.kinds[0].attention, c.bits))
	if copied.Bytes == 0 {
		return Work{}
	}
	copies := 2 * s.Fused.Overhead.Seconds()
	return c.small(copied).Plus(c.small(Cost{Seconds: copies, Overhead: copies}))
}
