package gpu

// MixedAttention says how attention of a batch runs that both decodes and prefills.
type MixedAttention string

// The ways.
const (
	// MixedApart runs the kernels of either one after the other, as most servers do.
	MixedApart MixedAttention = "apart"
	// MixedTogether runs all of them in one launch, so that prompts compute while decoding
	// requests read (POD-Attention, Kamath et al., ASPLOS 2025,
	// https://arxiv.org/abs/2410.18038). Not calibrated.
	MixedTogether MixedAttention = "together"
)

// Attention is attention of a batch in one layer on one of the GPUs. The zero value is
// not ready: see ModelCost.Attention.
type Attention struct {
	cost    *ModelCost
	free    int     // SMs without a prompt's block in the last wave; AttAcc's model only
	longest float64 // block of that wave
	kernel  Cost    // of what was added, in one launch
	alone   float64 // seconds of the longest of it
	beside  Work    // kernels that have launches of their own in any case
}

// Attention returns that of an empty batch.
func (c *ModelCost) Attention() Attention { return Attention{cost: c} }

// Prompts returns the work of a kernel that prefills a chunk of each of that many requests, for kvHeads
// KV heads of the model, 0 for all.
func (a *Attention) Prompts(requests, chunk, finished, kvHeads int) Work {
	c := a.cost
	h := c.some(kvHeads)
	if requests == 1 && !c.together() {
		return a.add(chunk, finished, h)
	}
	cost := c.spec.PrefillAttentionCost(requests, chunk, finished, h)
	if c.together() {
		a.join(cost)
	}
	return c.waits(c.spec.work(cost))
}

// Decoding returns what a kernel adds that decodes a batch.
func (a *Attention) Decoding(b DecodeBatch) Work {
	c := a.cost
	cost := c.decodeCost(&b)
	if c.together() {
		a.join(*cost)
	}
	return c.waits(c.spec.workOf(cost))
}

// Beside returns work that is no attention kernel, such as a choice of pages or a merge, and runs apart from these.
func (a *Attention) Beside(w Work) Work {
	a.beside = a.beside.Plus(w)
	return w
}

// Total returns the work of the prompts and the decoding requests of a batch of tokens
// together. prefill and decode are the work of each without the other.
func (a *Attention) Total(prefill, decode Work, tokens int) Work {
	c := a.cost
	switch {
	case prefill.Seconds == 0 || decode.Seconds == 0:
		return prefill.Plus(decode)
	case !c.together():
		return prefill.Plus(decode).Plus(c.joined(tokens))
	}
	k := a.kernel.combine(a.kernel.ridge)
	k.Seconds = max(k.Seconds, a.alone) // a rounder ridge may have it a little longer
	return c.waits(c.spec.work(k)).Plus(a.beside)
}

// together says whether a mixed batch has one launch.
func (c *ModelCost) together() bool { return c.spec.MixedAttention == MixedTogether }

// join adds a kernel to those of the one launch: arithmetic and traffic of both, side by
// side, and the longer of the two fixed times and of the longest chains. The sharper of
// the ridges says how well they hide behind each other.
func (a *Attention) join(c Cost) {
	k := &a.kernel
	if c.Seconds == 0 {
		return
	}
	if k.Seconds == 0 {
		k.ridge = c.ridge
	} else if c.ridge == 0 || k.ridge > 0 && c.ridge > k.ridge { // 0: the sharp maximum
		k.ridge = c.ridge
	}
	k.Seconds += c.Seconds
	k.FLOPs += c.FLOPs
	k.Executed += c.Executed
	k.Bytes += c.Bytes
	k.Compute += c.Compute
	k.Memory += c.Memory
	k.Latency = max(k.Latency, c.Latency)
	k.Overhead = max(k.Overhead, c.Overhead)
	a.alone = max(a.alone, c.Seconds)
}

// joined returns the copies that a batch needs because it decodes and prefills in two
// kernels: the tokens of each go into the cache alone, and the outputs of both side by side.
// AttAcc's model has no copies.
func (c *ModelCost) joined(tokens int) Work {
	s := c.spec
	if s.Pointwise.Model == ElementwiseAttAcc {
		return Work{}
	}
	copies := 2 * s.Fused.Overhead.Seconds()
	return s.work(s.copied(1, tokens, c.attention, c.bits)).Plus(s.work(Cost{Seconds: copies, Overhead: copies}))
}
