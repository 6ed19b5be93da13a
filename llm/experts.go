package llm

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units/portable"
)

const mostExperts = 4096 // bounds the experts of a layer; published models have up to several hundred

func (m *Model) checkExperts(c *input.Check) {
	input.Within(c, "experts", m.Experts, 0, mostExperts)
	if m.Experts > 0 {
		c.That(m.ActiveExperts >= 1 && m.ActiveExperts <= m.Experts, "active_experts", m.ActiveExperts, "1 to %s = %d", input.Key("experts"), m.Experts)
	} else {
		input.Within(c, "active_experts", m.ActiveExperts, 0, mostExperts)
	}
	input.Within(c, "expert_skew", m.ExpertSkew, 0, 4)
}

// ExpertShare is a number of equally popular experts, and the probability that a token takes a given one of them.
type ExpertShare struct {
	Experts int
	Share   float64
}

// ExpertShares returns the popularity of a layer's experts, the most popular first; nil for a dense model. Each token takes ActiveExperts
// different experts, independently of other tokens. It takes the expert of rank i (from 1) with probability min(1, c · i^−ExpertSkew),
// where c makes the probabilities add up to ActiveExperts. With a skew of 0 all experts are equally popular.
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
	// The first experts may be taken by every token; the others share the remaining probability.
	shares := make([]ExpertShare, m.Experts)
	left := float64(m.ActiveExperts)
	for i, w := range weights {
		shares[i] = ExpertShare{1, min(1, left*w/rest[i])}
		left -= shares[i].Share
	}
	return shares
}
