package llm

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units/portable"
)

const mostExperts = 4096 // bounds the experts of a layer: published models have up to some hundreds

func (m *Model) checkExperts(c *input.Check) {
	input.Within(c, "experts", m.Experts, 0, mostExperts)
	if m.Experts > 0 {
		c.That(m.ActiveExperts >= 1 && m.ActiveExperts <= m.Experts, "active_experts", m.ActiveExperts, "1 to %s = %d", input.Key("experts"), m.Experts)
	} else {
		input.Within(c, "active_experts", m.ActiveExperts, 0, mostExperts)
	}
	input.Within(c, "expert_skew", m.ExpertSkew, 0, 4)
}

// ExpertShare is a number of experts that are equally popular, and the probability that
// a token takes one of them.
type ExpertShare struct {
	Experts int
	Share   float64
}

// ExpertShares returns how the router of a layer deals tokens to experts, the popular ones first;
// nil for a dense model. Each token takes ActiveExperts different experts, independently of the
// others: the expert of rank i (from 1) with the probability min(1, c · i^−ExpertSkew), c such that
// they add up to ActiveExperts. All are equal for a skew of 0.
func (m *Model) ExpertShares() []ExpertShare {
	if m.Experts == 0 {
		return nil
	}
	if m.ExpertSkew == 0 {
		return []ExpertShare{{m.Experts, float64(m.ActiveExperts) / float64(m.Experts)}}
	}
	weights, rest := make([]float64, m.Experts), make([]float64, m.Experts+1)
	for i := m.Experts - 1; i >= 0; i-- {
		weights[i] = portable.Pow(float64(i+1), -m.ExpertSkew)
		rest[i] = rest[i+1] + weights[i]
	}
	// The first ones may be taken by every token; the others share what is left.
	shares := make([]ExpertShare, m.Experts)
	left := float64(m.ActiveExperts)
	for i, w := range weights {
		shares[i] = ExpertShare{1, min(1, left*w/rest[i])}
		left -= shares[i].Share
	}
	return shares
}
