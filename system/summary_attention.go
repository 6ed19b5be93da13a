package system

import (
	"slices"

	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system/flow"
)

func (n *Node) attention(replicas []*replica) results.Attention {
	r := results.Attention{Policy: n.cfg.Policy.Name}
	if n.cfg.AttendsToAll() {
		r.Context = denseContext(replicas)
		r.Attended = r.Context
		return r
	}
	var sum flow.Tally
	runs := flow.NewAttends(n.hw)
	sum.Tokens = make([]int64, len(runs.Runs))
	for _, rep := range replicas {
		side := rep.assembly.Engine.Side()
		counted := []*flow.Tally{&side.Attends.Counted}
		if side.Spare != nil {
			counted = append(counted, &side.Spare.Attends.Counted)
		}
		for _, c := range counted {
			sum.Steps += c.Steps
			sum.Contexts += c.Contexts
			for run, tokens := range c.Tokens {
				sum.Tokens[run] += tokens
			}
		}
	}
	steps := float64(max(1, sum.Steps))
	r.Context = float64(sum.Contexts) / steps
	m, layer := &n.cfg.Model, 0
	for run, layers := range runs.Runs {
		mean := float64(sum.Tokens[runs.Alike[run]]) / (steps * float64(m.HeadsOf(m.Windowed(layer)).KV))
		layer += layers
		r.Attended += float64(mean*float64(layers)) / float64(m.Layers)
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
		steps += rep.out.decoded + rep.out.drafted
	}
	return contexts / float64(max(1, steps))
}
