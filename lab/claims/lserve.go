package claims

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/system/gpus"
)

// scores returns LServe's scoring of the pages of a context in one layer (section 5.3), in which each
// query head scores for itself, and the bytes that a query head reads.
func (x *machine) scores(context int, oneBlock bool) (cost gpu.Cost, heads int, bytes float64) {
	llm := &x.cfg.Model
	summaries := context / x.lserve().LogicalPage
	// A kernel that reads a page's bounds once per query head costs as much as that many KV heads.
	heads = x.retrievalHeads()
	k := gpu.PageScores{Pages: gpu.UniformBatch(1, summaries), OneBlock: oneBlock}
	cost = x.cfg.GPU.PageScoreCost(k, gpu.Heads{Query: heads, KV: heads, Dim: llm.HeadDim, ElementBits: llm.ElementBits})
	return cost, heads, float64(summaries) * 4 * float64(llm.HeadDim)
}

func (x *machine) lserve() policies.LServeSpec {
	return policy.Section[policies.LServeSpec](&x.cfg.Policy)
}

// retrievalHeads returns the number of query heads that choose pages.
func (x *machine) retrievalHeads() int {
	return int(float64(x.cfg.Model.Heads) * (1 - x.lserve().StaticSparsity))
}

func (s *subject) selector() (finding, error) {
	cost, heads, bytes := s.own.scores(s.Contexts[0], s.OneBlock)
	g := &s.own.cfg.GPU
	block, all := float64(g.PageSparse.BlockBandwidth), float64(g.MemoryBandwidth)
	return finding{value: 1e3 * cost.Seconds, reason: fmt.Sprintf("%d query heads read %.3g MB of bounds each: one block at %.3g GB/s in %.3g ms, the GPU at %.4g GB/s all of them in %.2g ms",
		heads, bytes/1e6, block/1e9, 1e3*bytes/block, all/1e9, 1e3*bytes*float64(heads)/all)}, nil
}

// blockScores returns the seconds of the scores of all layers in a step, with a thread block per
// query head.
func (x *machine) blockScores(context int) float64 {
	cost, _, _ := x.scores(context, true)
	return cost.Seconds * float64(x.cfg.Model.Layers) / float64(x.lserve().Reuse)
}

// blockAttention returns the seconds of attention of all layers in a step, with a thread block per query head,
// which reads its head's tokens at the rate of a single block. The blocks of streaming heads run in the same kernel
// (section 3.6) and have fewer tokens. If memory bandwidth limits the blocks together, that limit counts.
func (x *machine) blockAttention(context int) float64 {
	llm, g := &x.cfg.Model, &x.cfg.GPU.Spec
	attended := float64(min(context, x.lserve().Budget))
	token := float64(llm.KVBytesPerTokenLayer()) / float64(llm.KVHeads) // of a head
	block := attended * token / float64(g.PageSparse.BlockBandwidth)
	all := attended * token * float64(x.retrievalHeads()) / float64(g.MemoryBandwidth)
	return float64(llm.Layers) * (g.PageSparse.Overhead.Seconds() + max(block, all))
}

// pages returns the milliseconds of LServe's decode attention in one layer (section 5.3).
func (s *subject) pages() (finding, error) {
	layers := s.own.cfg.Model.Layers
	ms := 1e3 * s.ours(s.Contexts[0])[gpus.PartDecodeAttention] / float64(layers)
	return finding{value: ms, reason: fmt.Sprintf("attention of %d layers takes %.3g ms a step", layers, ms*float64(layers))}, nil
}

// reuse returns the savings in scoring of a list that serves several steps (section 5.3).
func (s *subject) reuse() (finding, error) {
	x, b := s.ours(s.Contexts[0]), s.base(s.Contexts[0])
	scores := func(x iteration) float64 { return x.sum(gpus.PartScores, gpus.PartChoice) }
	return finding{value: scores(b) / scores(x), reason: fmt.Sprintf("scores and choices of all layers: %.3g ms a step against %.3g ms", 1e3*scores(x), 1e3*scores(b))}, nil
}

// Keys with one hidden among them: independent normal elements, except for one key that is a
// multiple of the query at a random place.
const needleTokens, needleDim, needlePlaces = 2048, 128, 60

// needleScales are the multiples.
var needleScales = []float64{0.6, 0.8, 1, 1.2}

// needle returns how often a page list contains the hidden key with logical pages, over how often
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

// hidden counts the hidden keys in a policy's first list.
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
		place, query := random.IntN(needleTokens-s.Pages().Page), normal(needleDim) // not in the newest page, which is in every list
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

// schedules are the three of CSAttention (section 4.3): the share of tokens that a step attends to,
// and the number of steps that share a search. The paper reports the best at each length.
var schedules = [][]string{
	{"policy.csattention.select_share=0.05", "policy.csattention.period=1"}, {"policy.csattention.select_share=0.15", "policy.csattention.period=4"}, {"policy.csattention.select_share=0.20", "policy.csattention.period=8"},
}

// centroids returns the dense step's time over that of CSAttention with its best schedule; the
// bound assumes attention without any time.
func (s *subject) centroids() (finding, error) {
	batch, context := s.Batch, s.Contexts[0]
	if s.Fit {
		n, err := s.own.fit(context)
		if err != nil {
			return finding{}, err
		}
		batch = max(n, 1)
	}
	dense := s.over.iterate(false, batch, context)
	if s.Repeat {
		dense[gpus.PartDecodeAttention] = s.over.repeated(batch, context)
	}
	f := finding{}
	for _, schedule := range schedules {
		own, err := s.own.with(schedule...)
		if err != nil {
			return f, err
		}
		x := own.iterate(false, batch, context)
		if v := dense.total() / x.total(); v > f.value {
			f.value, f.most = v, dense.total()/(x.total()-x.attention())
			f.reason = fmt.Sprintf("batch %d of %s tokens, share %s, period %s: %v against %v; with attention free %.3g", max(batch, 1), tokens(context), value(schedule[0]), value(schedule[1]), x, dense, f.most)
		}
	}
	return f, nil
}

// schedule returns the time of a step with the best other schedule over that with a search every eight steps: the
// smallest over the contexts, or the largest.
func (s *subject) schedule() (finding, error) {
	f, all := finding{}, []string{}
	for n, context := range s.Contexts {
		var took [3]float64
		for i, keys := range schedules {
			x, err := s.own.with(keys...)
			if err != nil {
				return f, err
			}
			took[i] = x.iterate(false, 1, context).total()
		}
		ratio := min(took[0], took[1]) / took[2]
		if n == 0 || s.Least == (ratio < f.value) {
			f.value = ratio
		}
		all = append(all, fmt.Sprintf("%s tokens: %.4g ms, %.4g and %.4g", tokens(context), 1e3*took[0], 1e3*took[1], 1e3*took[2]))
	}
	f.reason = "a search for 1, 4 and 8 steps: " + strings.Join(all, "; ")
	return f, nil
}

func value(set string) string {
	_, v, _ := strings.Cut(set, "=")
	return v
}

// repeated returns the time of attention that reads keys and values once per query head, as with repeated KV
// heads.
func (x *machine) repeated(requests, context int) float64 {
	llm := &x.cfg.Model
	heads := gpu.Heads{Query: llm.Heads, KV: llm.Heads, Dim: llm.HeadDim, ElementBits: llm.ElementBits}
	batch := gpu.UniformBatch(max(requests, 1), context+settled+meanSteps/2)
	return float64(llm.Layers) * x.cfg.GPU.DecodeAttentionCost(batch, heads).Seconds
}

// fit returns the number of requests of a context that a machine's memory holds, with the policy's
// indexes.
func (x *machine) fit(context int) (int, error) {
	one, _, err := x.held(context, 1, 1)
	weights := float64(x.cfg.Model.WeightBytes()) / x.room()
	return int(math.Floor((1 - weights) / (one - weights))), err
}

// composition returns the time of search and list updates over that of attention.
func (s *subject) composition() (finding, error) {
	x := s.ours(s.Contexts[0])
	return finding{value: (x.attention() - x[gpus.PartDecodeAttention]) / x[gpus.PartDecodeAttention], reason: fmt.Sprintf("%v at %s tokens", x, tokens(s.Contexts[0]))}, nil
}

// entries returns the number of list entries that a search adds up at the second context over that at
// the first.
func (s *subject) entries() (finding, error) {
	c := s.own.cfg
	p, group := policy.Section[policies.CSAttentionSpec](&c.Policy), c.Model.Heads/c.Model.KVHeads
	var n [2]float64
	for i, prompt := range s.Contexts {
		t := p.Tables(prompt, group)
		n[i] = float64(t.Gathered())
	}
	ratio := n[1] / n[0]
	return finding{value: ratio, least: ratio, most: ratio, reason: fmt.Sprintf("%d lists of %g of the prompt's tokens: %.0f entries of a query head at %s tokens, %.0f at %s", p.Subspaces, p.TableShare,
		n[0], tokens(s.Contexts[0]), n[1], tokens(s.Contexts[1]))}, nil
}
