package claims

import (
	"fmt"
	"math"
	"strings"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/system"
)

// schedules are CSAttention's three (section 4.3): the share of tokens that a step attends to, and the
// steps that share a search. The paper reports the best at each length.
var schedules = [][]string{
	{"policy.csattention.select_share=0.05", "policy.csattention.period=1"}, {"policy.csattention.select_share=0.15", "policy.csattention.period=4"}, {"policy.csattention.select_share=0.20", "policy.csattention.period=8"},
}

// centroids is the dense step's time over that of CSAttention with its best schedule, which cannot
// do better than take no time for attention.
func (s *subject) centroids() (finding, error) {
	batch, context := s.Batch, s.Contexts[0]
	if s.Fit {
		n, err := s.own.fit(context)
		if err != nil {
			return finding{}, err
		}
		batch = max(n, 1)
	}
	dense := s.over.iterate(s.Phase == prefillPhase, batch, context)
	if s.Repeat {
		dense[system.PartDecodeAttention] = s.over.repeated(batch, context)
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

// value returns the value of a key that is set.
func value(set string) string {
	_, v, _ := strings.Cut(set, "=")
	return v
}

// repeated is the time of attention that reads keys and values once a query head, as where KV heads are repeated.
func (x *machine) repeated(requests, context int) float64 {
	llm := &x.cfg.Model
	heads := gpu.Heads{Query: llm.Heads, KV: llm.Heads, Dim: llm.HeadDim, ElementBits: llm.ElementBits}
	batch := gpu.UniformBatch(max(requests, 1), context+settled+meanSteps/2)
	return float64(llm.Layers) * x.cfg.GPU.DecodeAttentionCost(batch, heads).Seconds
}

// fit returns how many requests of a context a machine's memory holds, the policy's indexes among it.
func (x *machine) fit(context int) (int, error) {
	one, _, err := x.held(context)
	weights := float64(x.cfg.Model.WeightBytes()) / x.room()
	return int(math.Floor((1 - weights) / (one - weights))), err
}

// composition is the time of search and updates of the lists over that of attention.
func (s *subject) composition() (finding, error) {
	x := s.ours(s.Contexts[0])
	return finding{value: (x.attention() - x[system.PartDecodeAttention]) / x[system.PartDecodeAttention], reason: fmt.Sprintf("%v at %s tokens", x, tokens(s.Contexts[0]))}, nil
}

// entries is how many entries of lists a search adds up at the second context over that at the first.
func (s *subject) entries() (finding, error) {
	c := s.own.cfg
	p, group := &c.Policy.CSAttention, c.Model.Heads/c.Model.KVHeads
	var n [2]float64
	for i, prompt := range s.Contexts {
		t := policy.NewCSATables(p.Subspaces, p.Centroids, p.TableShare, p.SelectShare, p.RecentTokens, prompt, group)
		n[i] = float64(t.Gathered())
	}
	ratio := n[1] / n[0]
	return finding{value: ratio, least: ratio, most: ratio, reason: fmt.Sprintf("%d lists of %g of the prompt's tokens: %.0f entries of a query head at %s tokens, %.0f at %s", p.Subspaces, p.TableShare,
		n[0], tokens(s.Contexts[0]), n[1], tokens(s.Contexts[1]))}, nil
}
