package policies

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
)

// indexedValues returns, for all KV heads alike, the indexer's choice in layers that have one, the same choice in layers that share it, and
// everything in others.
func indexedValues(u *policy.Use) (policy.Values, error) {
	s := &u.Shape
	if s.IndexTopK <= 0 || s.IndexHeads <= 0 || s.IndexDim <= 0 {
		return nil, &input.Error{Key: "policy.name", Value: `"dsa"`,
			Expected: `another policy, such as "dense" or "quest": the model has no indexer, whose heads, dimension and top-k "dsa" needs`}
	}
	return policy.ValuesFunc(func(layer, _, limit int) policy.State {
		switch s.Kind(layer) {
		case llm.Indexed:
			return newIndexedState(s.Indexer, limit)
		case llm.Shared:
			return &followingState{}
		}
		return everything(s.Dim, limit)
	}), nil
}

// followingState is the values of a layer that shares an indexer's choice.
type followingState struct {
	wholePrompt
	parts []policy.Part
}

// Follow copies the ranges of a choice.
func (f *followingState) Follow(choice policy.Selection) {
	for len(f.parts) < len(choice.Parts) {
		f.parts = append(f.parts, policy.Part{})
	}
	f.parts = f.parts[:len(choice.Parts)]
	for i, p := range choice.Parts {
		f.parts[i].Device, f.parts[i].Heads = p.Device, append(f.parts[i].Heads[:0], p.Heads...)
		if p.Heads == nil {
			f.parts[i].Heads = nil
		}
		f.parts[i].Ranges = append(f.parts[i].Ranges[:0], p.Ranges...)
	}
}

func (f *followingState) Prompt(_ [][]float32, _, _ []float32) {}

func (f *followingState) Append(_, _ []float32) {}

func (f *followingState) Observe([][]float32) {}

// Select returns the last choice passed to Follow.
func (f *followingState) Select([][]float32) policy.Selection {
	return policy.Selection{Parts: f.parts}
}

// indexedState is the values of an indexer in one layer. The score of a token is the sum over heads of weight · max(0, query · key), in
// float64. A token attends to those with the highest scores among the tokens up to itself; ties go to the lower token.
type indexedState struct {
	wholePrompt
	llm.Indexer
	tokens        int
	keys          []float64 // [tokens so far, IndexDim]
	newest        policy.Index
	scores, other []float64 // by token
	chosen        []int32
	selected      bool // ranges belong to the newest token
	ranges        [][2]int
	part          [1]policy.Part
}

func newIndexedState(x llm.Indexer, limit int) *indexedState {
	k := min(limit, x.IndexTopK)
	return &indexedState{
		Indexer: x, keys: make([]float64, 0, limit*x.IndexDim), newest: policy.Index{Queries: make([]float64, x.IndexHeads*x.IndexDim), Weights: make([]float64, x.IndexHeads)},
		scores: make([]float64, limit), other: make([]float64, limit), chosen: make([]int32, 0, k), ranges: make([][2]int, 0, k),
	}
}

// Index stores the indexer's output for the next token.
func (s *indexedState) Index(x *policy.Index) {
	s.keys = append(s.keys, x.Key...)
	copy(s.newest.Queries, x.Queries)
	copy(s.newest.Weights, x.Weights)
	s.tokens++
	s.selected = false
}

func (s *indexedState) Prompt(_ [][]float32, _, _ []float32) {}

func (s *indexedState) Append(_, _ []float32) {}

func (s *indexedState) Observe([][]float32) {}

// Select returns the tokens with the best scores.
func (s *indexedState) Select([][]float32) policy.Selection {
	if !s.selected {
		s.selected = true
		if s.ranges = s.ranges[:0]; s.tokens <= s.IndexTopK {
			s.ranges = append(s.ranges, [2]int{0, s.tokens})
		} else {
			s.chosen = policy.AppendTop(s.chosen[:0], s.Scores(), s.IndexTopK, s.other)
			s.ranges = policy.AppendRanges(s.ranges, s.chosen)
		}
		s.part[0].Ranges = s.ranges
	}
	return policy.Selection{Parts: s.part[:]}
}

// Scores returns the scores of all tokens so far, for the newest token, valid until the next Index.
func (s *indexedState) Scores() []float64 {
	scores, dim := s.scores[:s.tokens], s.IndexDim
	for t := range scores {
		key, sum := s.keys[t*dim:(t+1)*dim], 0.0
		for h, w := range s.newest.Weights {
			if p := dot(s.newest.Queries[h*dim:(h+1)*dim], key); p > 0 {
				sum += float64(w * p)
			}
		}
		scores[t] = sum
	}
	return scores
}

// dot returns x·y. Two sums hide part of the latency of additions.
func dot(x, y []float64) float64 {
	var a, b float64
	y = y[:len(x)]
	i := 0
	for ; i < len(x)-1; i += 2 {
		a += float64(x[i] * y[i])
		b += float64(x[i+1] * y[i+1])
	}
	if i < len(x) {
		a += float64(x[i] * y[i])
	}
	return a + b
}
