package paper

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/system"
)

// schedules are CSAttention's three (section 4.3): the share of tokens that a step attends to, and the
// steps that share a search. The paper reports the best at each length.
var schedules = [][]string{
	{"policy.select_share=0.05", "policy.period=1"}, {"policy.select_share=0.15", "policy.period=4"}, {"policy.select_share=0.20", "policy.period=8"},
}

// centroids is the dense step's time over that of CSAttention with its best schedule, which cannot
// do better than take no time for attention.
func (m *machines) centroids(r *reading) (finding, error) {
	batched := *r
	if r.Fit {
		n, err := m.fit(r.Set, r.Contexts[0])
		if err != nil {
			return finding{}, err
		}
		batched.Batch = max(n, 1)
	}
	r = &batched
	dense, err := m.base(r, r.Contexts[0])
	if err != nil {
		return finding{}, err
	}
	if r.Repeat {
		if err := m.repeat(r, dense); err != nil {
			return finding{}, err
		}
	}
	f := finding{}
	for _, schedule := range schedules {
		x, err := m.iterate(slices.Concat(r.Set, schedule), false, r.Batch, r.Contexts[0])
		if err != nil {
			return f, err
		}
		if v := dense.total() / x.total(); v > f.value {
			f.value, f.most = v, dense.total()/(x.total()-x.attention())
			f.reason = fmt.Sprintf("batch %d of %s tokens, share %s, period %s: %v against %v; with attention free %.3g", max(r.Batch, 1), tokens(r.Contexts[0]), value(schedule[0]), value(schedule[1]), x, dense, f.most)
		}
	}
	return f, nil
}

// value returns the value of a key that is set.
func value(set string) string {
	_, v, _ := strings.Cut(set, "=")
	return v
}

// repeat has a dense step read keys and values once a query head, as where KV heads are repeated.
func (m *machines) repeat(r *reading, dense iteration) error {
	x, err := m.get(r.Over...)
	if err != nil {
		return err
	}
	llm := &x.cfg.Model
	heads := gpu.Heads{Query: llm.Heads, KV: llm.Heads, Dim: llm.HeadDim, ElementBits: llm.ElementBits}
	batch := gpu.UniformBatch(max(r.Batch, 1), r.Contexts[0]+settled+meanSteps/2)
	dense[system.PartDecodeAttention] = float64(llm.Layers) * x.cfg.GPU.DecodeAttentionCost(batch, heads).Seconds
	return nil
}

// fit returns how many requests of a context a machine's memory holds, the policy's indexes among it.
func (m *machines) fit(sets []string, context int) (int, error) {
	one, _, err := m.held(sets, context)
	if err != nil {
		return 0, err
	}
	x, err := m.get(sets...)
	if err != nil {
		return 0, err
	}
	weights := float64(x.cfg.Model.WeightBytes()) / x.room()
	return int(math.Floor((1 - weights) / (one - weights))), nil
}

// composition is the time of search and updates of the lists over that of attention.
func (m *machines) composition(r *reading) (finding, error) {
	x, err := m.ours(r, r.Contexts[0])
	if err != nil {
		return finding{}, err
	}
	return finding{value: (x.attention() - x[system.PartDecodeAttention]) / x[system.PartDecodeAttention], reason: fmt.Sprintf("%v at %s tokens", x, tokens(r.Contexts[0]))}, nil
}

// entries is how many entries of lists a search adds up at the second context over that at the first.
func (m *machines) entries(r *reading) (finding, error) {
	x, err := m.get(r.Set...)
	if err != nil {
		return finding{}, err
	}
	s, group := x.cfg.Policy.Own(), x.cfg.Model.Heads/x.cfg.Model.KVHeads
	var n [2]float64
	for i, prompt := range r.Contexts {
		t := policy.NewCSATables(s.Subspaces, s.Centroids, s.TableShare, s.SelectShare, s.RecentTokens, prompt, group)
		n[i] = float64(t.Gathered())
	}
	ratio := n[1] / n[0]
	return finding{value: ratio, least: ratio, most: ratio, reason: fmt.Sprintf("%d lists of %g of the prompt's tokens: %.0f entries of a query head at %s tokens, %.0f at %s", s.Subspaces, s.TableShare,
		n[0], tokens(r.Contexts[0]), n[1], tokens(r.Contexts[1]))}, nil
}
