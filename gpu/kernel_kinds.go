package gpu

import (
	"maps"
	"slices"

	"github.com/l3sim/l3sim/llm"
)

// KernelTime is the time of a kind of kernels in an iteration on one GPU.
type KernelTime struct {
	Kind    string  // name in the section [fit.kinds] of a fit
	Seconds float64 // in all layers
	Far     float64 // the part of Seconds in kernels beyond the measured range
	Beyond  string  // how they exceed it, "" if none does
}

// KernelTimes returns an iteration's time by kind of kernels, in the order of their names. Experts include a mixture's router, and products
// an indexer's products.
func (c *ModelCost) KernelTimes(x Shape) []KernelTime {
	parts, far := c.IterationParts(x), c.Beyond(x)
	t := kernelTimes{}
	tokens := x.Decode.Requests + x.Prefills*x.Chunk
	product := func(g Group, w widths, kept float64, seconds float64) {
		t.add(productKind(w), float64((1-kept)*seconds), far[g])
		t.add(productKind(c.uniform), float64(kept*seconds), far[g])
	}
	for _, g := range []Group{QKVProduct, ProjectionProduct} {
		product(g, c.projections, c.keptAttention, parts[g].Seconds)
	}
	product(LMHead, c.uniform, 0, parts[LMHead].Seconds)
	experts := 0.0
	for i := range c.feedForwards {
		f := &c.feedForwards[i]
		if f.experts != nil {
			experts += float64(f.share * float64(c.model.Layers) * c.waits(c.mixture(f, tokens)).Seconds)
		}
	}
	t.add(expertKind(c.grouped), float64((1-c.keptNetwork)*experts), far[FeedForward])
	t.add(expertKind(c.uniform), float64(c.keptNetwork*experts), far[FeedForward])
	product(FeedForward, c.networks, c.keptNetwork, parts[FeedForward].Seconds-experts)
	t.add("small_kernels", parts[SmallKernels].Seconds+parts[Embedding].Seconds, far[SmallKernels])
	c.collectiveTimes(t, tokens, parts[AllReduce].Seconds, far[AllReduce])
	c.decodeTimes(t, x, parts[DecodeAttention].Seconds, far[DecodeAttention])
	c.promptTimes(t, x, parts[PrefillAttention].Seconds, far[PrefillAttention])
	var all []KernelTime
	for _, kind := range slices.Sorted(maps.Keys(t)) {
		all = append(all, *t[kind])
	}
	return all
}

// kernelTimes is by kind.
type kernelTimes map[string]*KernelTime

func (t kernelTimes) add(kind string, seconds float64, beyond string) {
	if seconds <= 0 {
		return
	}
	if t[kind] == nil {
		t[kind] = &KernelTime{Kind: kind}
	}
	t[kind].Seconds += seconds
	if beyond == "" {
		return
	}
	t[kind].Far += seconds
	if t[kind].Beyond == "" {
		t[kind].Beyond = beyond
	}
}

// decodeTimes adds the kernels of decode attention, which take the given seconds together.
func (c *ModelCost) decodeTimes(t kernelTimes, x Shape, seconds float64, far string) {
	n := x.Decode.Requests
	if n == 0 {
		return
	}
	if c.latent == nil {
		t.add(c.attentionKind("decode_attention"), seconds, far)
		return
	}
	absorbed := float64(float64(c.model.Layers) * c.absorb(c.own(n)*c.verified).Seconds)
	t.add(c.absorbKind(), absorbed, far)
	seconds -= absorbed
	if keep := c.model.IndexTopK; keep > 0 && x.Decode.Tokens > int64(n)*int64(keep) {
		of := llm.Indexing{Requests: n, Queries: 1, Keys: x.Decode.Tokens, Longest: x.Decode.Longest, Pairs: x.Decode.Tokens, Keep: keep, Step: true}
		seconds -= c.indexTimes(t, of, far)
		t.add("sparse_latent", seconds, far)
		return
	}
	t.add(c.attentionKind("latent_decode"), seconds, far)
}

// promptTimes is decodeTimes for prompts' attention.
func (c *ModelCost) promptTimes(t kernelTimes, x Shape, seconds float64, far string) {
	if x.Prefills == 0 {
		return
	}
	if c.latent == nil {
		t.add(c.attentionKind("prefill_attention"), seconds, far)
		return
	}
	if chosen, of := c.model.Indexer.Prompt(x.Chunk, x.Finished); chosen.Rows > 0 {
		for range x.Prefills {
			seconds -= c.indexTimes(t, of, far)
		}
		t.add("sparse_latent", seconds, far)
		return
	}
	made := float64(float64(c.model.Layers) * c.expand(x.Prefills*x.Chunk, x.Prefills*x.Finished).Seconds)
	makes := productKind(c.projections)
	if c.absorbsPrompts(x.Prefills * x.Finished) {
		makes = c.absorbKind()
	}
	t.add(makes, made, far)
	t.add(c.attentionKind("latent_prefill"), seconds-made, far)
}

// indexTimes adds the scores and the choice of the layers with an indexer, and returns their time.
func (c *ModelCost) indexTimes(t kernelTimes, of llm.Indexing, far string) float64 {
	layers := float64(c.model.CountLayers(string(rune(llm.Indexed))))
	all := float64(layers * c.Index(of).Seconds)
	choice := min(all, float64(layers*c.spec.IndexTopKCost(of, false).Seconds))
	t.add("top_k", choice, far)
	scores := "index_scores"
	if of.Step && c.spec.Index.StepScores.Compute > 0 {
		scores = "index_step_scores"
	}
	t.add(scores, all-choice, far)
	return all
}

// attentionKind returns the kind of attention over the model's keys and values.
func (c *ModelCost) attentionKind(kind string) string {
	switch h := &c.kinds[0].heads; {
	case h.KVBits == 0 || h.KVBits == h.ElementBits:
		return kind
	case h.KVFloat:
		return "fp8_" + kind
	}
	return "narrow_" + kind
}

// absorbKind returns the kind of the batched products around absorbed attention.
func (c *ModelCost) absorbKind() string {
	if c.absorbedBits() == 8 {
		return "fp8_latent_absorb"
	}
	return "latent_absorb"
}

// collectiveTimes adds the collectives of a replica's GPUs, which take the given seconds in all. If the fit has none of the collectives
// around networks, all are of one kind.
func (c *ModelCost) collectiveTimes(t kernelTimes, tokens int, seconds float64, far string) {
	of := &c.spec.Collectives
	before, after := "", ""
	switch whole := c.model.WholeNetworks(); {
	case !c.data:
		t.add("all_reduce", seconds, far)
		return
	case whole && of.Dispatch != (ExchangeSpec{}) && of.Combine != (ExchangeSpec{}):
		before, after = "dispatch", "combine"
	case whole && of.AllToAll != (Protocols{}):
		before = "nccl_all_to_all"
	case whole:
		t.add("all_to_all", seconds, far)
		return
	case of.AllGather != (Protocols{}) && of.ReduceScatter != (Protocols{}):
		before, after = "all_gather", "reduce_scatter"
	default:
		t.add("collectives", seconds, far)
		return
	}
	for i := range c.feedForwards {
		f := &c.feedForwards[i]
		share := f.share
		if i == 0 && len(c.feedForwards) > 1 {
			share = 1 - c.feedForwards[1].share
		}
		a, b := c.aroundNetworks(f, tokens)
		first, then := float64(share*float64(c.model.Layers)*a.Seconds), float64(share*float64(c.model.Layers)*b.Seconds)
		t.add(before, first, far)
		t.add(after, then, far)
		seconds -= first + then
	}
	t.add("all_reduce", seconds, far)
}

// productKind returns the kind of products with elements of the given widths.
func productKind(w widths) string { return elementKind(w) + "gemm" }

// expertKind returns the kind of expert products with the given widths.
func expertKind(w widths) string { return elementKind(w) + "experts" }

// elementKind returns the prefix of a kind's name: "" for 16 bits.
func elementKind(w widths) string {
	switch {
	case w.Weights >= 16:
		return ""
	case w.Weights == 4 && w.Block == NVFP4Block:
		return "nvfp4_"
	case w.Weights == 4 && w.Block == MXFP4Block && w.In <= 8:
		return "mxfp4_fp8_"
	case w.Weights == 4 && w.Block > 0:
		return "mxfp4_"
	case w.Weights == 4:
		return "int4_"
	case w.In > 8:
		return "weights8_" // widened on the way
	case w.Block == FP8Block:
		return "fp8_block_"
	}
	return "fp8_"
}
