package system

import (
	"slices"

	"github.com/l3sim/l3sim/results"
)

// attention returns what the steps of all replicas attended to.
func (n *Node) attention(replicas []*replica) results.Attention {
	r := results.Attention{Policy: n.cfg.Policy.Name}
	if n.cfg.Policy.Dense() {
		r.Context = denseContext(replicas)
		r.Attended = r.Context
		return r
	}
	var sum tally
	runs := policyOf(n.hw).Runs()
	sum.tokens = make([]int64, len(runs))
	for _, rep := range replicas {
		c := &rep.engine.Side().counted
		sum.steps += c.steps
		sum.contexts += c.contexts
		for run, tokens := range c.tokens {
			sum.tokens[run] += tokens
		}
	}
	steps := float64(max(1, sum.steps))
	r.Context = float64(sum.contexts) / steps
	for run, layers := range runs {
		mean := float64(sum.tokens[run]) / (steps * float64(n.cfg.Model.KVHeads))
		r.Attended += float64(mean*float64(layers)) / float64(n.cfg.Model.Layers)
		r.ByLayer = append(r.ByLayer, slices.Repeat([]float64{mean}, layers)...)
	}
	return r
}

// denseContext returns the mean context of the decode steps of all replicas.
func denseContext(replicas []*replica) float64 {
	var contexts float64
	var steps int64
	for _, rep := range replicas {
		contexts += rep.decodedContexts()
		steps += rep.out.decoded
	}
	return contexts / float64(max(1, steps))
}
