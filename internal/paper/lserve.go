package paper

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
func (m *machines) scores(r *reading, context int) (x *machine, cost gpu.Cost, heads int, bytes float64, err error) {
	if x, err = m.get(r.Set...); err != nil {
		return nil, cost, 0, 0, err
	}
	llm, own := &x.cfg.Model, x.cfg.Policy.Own()
	summaries := context / own.LogicalPage
	// A kernel that reads a page's bounds once a query head costs what as many KV heads do.
	heads = int(float64(llm.Heads) * (1 - own.StaticSparsity))
	k := gpu.PageScores{Pages: gpu.UniformBatch(1, summaries), OneBlock: r.OneBlock}
	cost = x.cfg.GPU.PageScoreCost(k, gpu.Heads{Query: heads, KV: heads, Dim: llm.HeadDim, ElementBits: llm.ElementBits})
	return x, cost, heads, float64(summaries) * 4 * float64(llm.HeadDim), nil
}

// selector is the milliseconds of the scores in one layer.
func (m *machines) selector(r *reading) (finding, error) {
	x, cost, heads, bytes, err := m.scores(r, r.Contexts[0])
	if err != nil {
		return finding{}, err
	}
	block, all := float64(x.cfg.GPU.PageSparse.BlockBandwidth), float64(x.cfg.GPU.MemoryBandwidth)
	return finding{value: 1e3 * cost.Seconds, reason: fmt.Sprintf("%d query heads read %.3g MB of bounds each: one block at %.3g GB/s in %.3g ms, the GPU at %.4g GB/s all of them in %.2g ms",
		heads, bytes/1e6, block/1e9, 1e3*bytes/block, all/1e9, 1e3*bytes*float64(heads)/all)}, nil
}

// released is the seconds of the scores of all layers a step, with a thread block a query head.
func (m *machines) released(r *reading, context int) (float64, error) {
	x, cost, _, _, err := m.scores(r, context)
	if err != nil {
		return 0, err
	}
	return cost.Seconds * float64(x.cfg.Model.Layers) / float64(x.cfg.Policy.Own().Reuse), nil
}

// pages is the milliseconds of LServe's decode attention in one layer (section 5.3).
func (m *machines) pages(r *reading) (finding, error) {
	x, err := m.ours(r, r.Contexts[0])
	if err != nil {
		return finding{}, err
	}
	c, err := m.get(r.Set...)
	if err != nil {
		return finding{}, err
	}
	ms := 1e3 * x[system.PartDecodeAttention] / float64(c.cfg.Model.Layers)
	return finding{value: ms, reason: fmt.Sprintf("attention of %d layers takes %.3g ms a step, of retrieval and streaming heads one after the other", c.cfg.Model.Layers, ms*float64(c.cfg.Model.Layers))}, nil
}

// reuse is what a list for several steps saves of the scores (section 5.3).
func (m *machines) reuse(r *reading) (finding, error) {
	x, err := m.ours(r, r.Contexts[0])
	if err != nil {
		return finding{}, err
	}
	b, err := m.base(r, r.Contexts[0])
	if err != nil {
		return finding{}, err
	}
	scores := func(x iteration) float64 { return x.sum(system.PartScores, system.PartChoice) }
	return finding{value: scores(b) / scores(x), reason: fmt.Sprintf("scores and choices of all layers: %.3g ms a step against %.3g ms", 1e3*scores(x), 1e3*scores(b))}, nil
}

// slope is the nanoseconds of decode attention a token, KV head and layer (Table 1).
func (m *machines) slope(r *reading) (finding, error) {
	var at [2]iteration
	for i := range at {
		var err error
		if at[i], err = m.ours(r, r.Contexts[i]); err != nil {
			return finding{}, err
		}
	}
	x, err := m.get(r.Set...)
	if err != nil {
		return finding{}, err
	}
	llm := &x.cfg.Model
	of := float64(llm.Layers * llm.KVHeads * r.Batch * (r.Contexts[1] - r.Contexts[0]))
	ns := 1e9 * (at[1].total() - at[0].total()) / of
	bytes := float64(llm.KVBytesPerTokenLayer()) / float64(llm.KVHeads)
	return finding{value: ns, reason: fmt.Sprintf("a step of batch %d of %s tokens takes %.3g ms, of %s %.3g ms: %.4g GB/s at %g bytes a token, KV head and layer", r.Batch,
		tokens(r.Contexts[0]), 1e3*at[0].total(), tokens(r.Contexts[1]), 1e3*at[1].total(), bytes/ns, bytes)}, nil
}

// Keys in which one is hidden: of independent normal elements, but for a key that is a multiple of
// the query at a random place.
const needleTokens, needleDim, needlePlaces = 2048, 128, 60

// needleScales are the multiples.
var needleScales = []float64{0.6, 0.8, 1, 1.2}

// needle is how often a list of pages has the hidden key with logical pages, over how often it has it
// with pages scored whole.
func (m *machines) needle(r *reading) (finding, error) {
	var found [2]int
	for i, sets := range [][]string{r.Set, r.Over} {
		x, err := m.get(sets...)
		if err != nil {
			return finding{}, err
		}
		if found[i], err = hidden(x.cfg.Policy.Own()); err != nil {
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
		place, query := random.IntN(needleTokens-s.Page), normal(needleDim) // not in the newest page, which every list has
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
