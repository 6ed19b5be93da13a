package claims

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/system"
)

// scores returns LServe's scoring of the pages of a context in one layer (section 5.3), where each query
// head scores for itself, and the bytes that a query head reads.
func (s *subject) scores(context int) (cost gpu.Cost, heads int, bytes float64) {
	x := s.own
	llm, own := &x.cfg.Model, &x.cfg.Policy.LServe
	summaries := context / own.LogicalPage
	// A kernel that reads a page's bounds once a query head costs what as many KV heads do.
	heads = int(float64(llm.Heads) * (1 - own.StaticSparsity))
	k := gpu.PageScores{Pages: gpu.UniformBatch(1, summaries), OneBlock: s.OneBlock}
	cost = x.cfg.GPU.PageScoreCost(k, gpu.Heads{Query: heads, KV: heads, Dim: llm.HeadDim, ElementBits: llm.ElementBits})
	return cost, heads, float64(summaries) * 4 * float64(llm.HeadDim)
}

// selector is the milliseconds of the scores in one layer.
func (s *subject) selector() (finding, error) {
	cost, heads, bytes := s.scores(s.Contexts[0])
	g := &s.own.cfg.GPU
	block, all := float64(g.PageSparse.BlockBandwidth), float64(g.MemoryBandwidth)
	return finding{value: 1e3 * cost.Seconds, reason: fmt.Sprintf("%d query heads read %.3g MB of bounds each: one block at %.3g GB/s in %.3g ms, the GPU at %.4g GB/s all of them in %.2g ms",
		heads, bytes/1e6, block/1e9, 1e3*bytes/block, all/1e9, 1e3*bytes*float64(heads)/all)}, nil
}

// released is the seconds of the scores of all layers a step, with a thread block a query head.
func (s *subject) released(context int) float64 {
	cost, _, _ := s.scores(context)
	return cost.Seconds * float64(s.own.cfg.Model.Layers) / float64(s.own.cfg.Policy.LServe.Reuse)
}

// pages is the milliseconds of LServe's decode attention in one layer (section 5.3).
func (s *subject) pages() (finding, error) {
	layers := s.own.cfg.Model.Layers
	ms := 1e3 * s.ours(s.Contexts[0])[system.PartDecodeAttention] / float64(layers)
	return finding{value: ms, reason: fmt.Sprintf("attention of %d layers takes %.3g ms a step, of retrieval and streaming heads one after the other", layers, ms*float64(layers))}, nil
}

// reuse is what a list for several steps saves of the scores (section 5.3).
func (s *subject) reuse() (finding, error) {
	x, b := s.ours(s.Contexts[0]), s.base(s.Contexts[0])
	scores := func(x iteration) float64 { return x.sum(system.PartScores, system.PartChoice) }
	return finding{value: scores(b) / scores(x), reason: fmt.Sprintf("scores and choices of all layers: %.3g ms a step against %.3g ms", 1e3*scores(x), 1e3*scores(b))}, nil
}

// slope is the nanoseconds of decode attention a token, KV head and layer (Table 1).
func (s *subject) slope() (finding, error) {
	short, long, llm := s.ours(s.Contexts[0]).total(), s.ours(s.Contexts[1]).total(), &s.own.cfg.Model
	of := float64(llm.Layers * llm.KVHeads * s.Batch * (s.Contexts[1] - s.Contexts[0]))
	ns := 1e9 * (long - short) / of
	bytes := float64(llm.KVBytesPerTokenLayer()) / float64(llm.KVHeads)
	return finding{value: ns, reason: fmt.Sprintf("a step of batch %d of %s tokens takes %.3g ms, of %s %.3g ms: %.4g GB/s at %g bytes a token, KV head and layer", s.Batch,
		tokens(s.Contexts[0]), 1e3*short, tokens(s.Contexts[1]), 1e3*long, bytes/ns, bytes)}, nil
}

// Keys in which one is hidden: of independent normal elements, but for a key that is a multiple of
// the query at a random place.
const needleTokens, needleDim, needlePlaces = 2048, 128, 60

// needleScales are the multiples.
var needleScales = []float64{0.6, 0.8, 1, 1.2}

// needle is how often a list of pages has the hidden key with logical pages, over how often it has it
// with pages scored whole.
func (s *subject) needle() (_ finding, err error) {
	var found [2]int
	for i, x := range []*machine{s.own, s.over} {
		if found[i], err = hidden(&x.cfg.Policy); err != nil {
			return finding{}, err
		}
	}
	return finding{value: float64(found[0]) / float64(max(found[1], 1)), reason: fmt.Sprintf("of %d keys hidden in %s tokens, %v times the query among normal ones, %d are found with logical pages, %d without",
		len(needleScales)*needlePlaces, tokens(needleTokens), needleScales, found[0], found[1])}, nil
}

// hidden counts the hidden keys that a policy's first list has.
func hidden(s *policy.Spec) (found int, err error) {
	values, err := policy.NewValues(s, policy.Shape{Layers: 1, QueryHeads: 1, KVHeads: 1, Dim: needleDim, ElementBits: 16})
	if err != nil {
		return 0, err
	}
	random := rand.New(rand.NewPCG(12, 64))
	normal := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(random.NormFloat64())
		}
		return v
	}
	keys := normal(needleTokens * needleDim)
	for range needlePlaces {
		place, query := random.IntN(needleTokens-s.Pages().Page), normal(needleDim) // not in the newest page, which every list has
		for _, scale := range needleScales {
			with := slices.Clone(keys)
			for j, x := range query {
				with[place*needleDim+j] = float32(scale * float64(x))
			}
			state, last := values.NewState(0, 0, needleTokens), (needleTokens-1)*needleDim
			state.Prompt(nil, with[:last], nil)
			state.Append(with[last:], nil)
			selected := state.Select([][]float32{query})
			if slices.ContainsFunc(selected.Parts[0].Ranges, func(r [2]int) bool { return r[0] <= place && place < r[1] }) {
				found++
			}
		}
	}
	return found, nil
}
