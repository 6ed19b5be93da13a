package policy

import (
	"fmt"

	"github.com/l3sim/l3sim/input"
)

// values makes the states of a section's policy.
type values struct {
	*kind
	spec      *Spec
	shape     Shape
	streaming [][]bool // heads, by layer
}

// NewValues returns the value side of a section's policy for a model. What of the section does not fit the model is an
// *input.Error.
func NewValues(s *Spec, shape Shape) (Values, error) {
	k, err := kindOf(s.Name)
	if err != nil {
		return nil, err
	}
	spec := *s
	v := &values{kind: k, spec: &spec, shape: shape}
	if s.Heads() != nil {
		if err := s.gatesFit(shape); err != nil {
			return nil, err
		}
		v.streaming = s.streamingHeads(shape)
	}
	if parts := s.CSAttention.Subspaces; s.Name == "csattention" && shape.Dim%parts != 0 {
		return nil, &input.Error{Key: "policy.csattention.subspaces", Value: fmt.Sprint(parts), Expected: fmt.Sprintf("a divisor of the model's head dimension, %d", shape.Dim)}
	}
	return v, nil
}

// NewState returns the state of one KV head.
func (v *values) NewState(layer, kvHead, limit int) State { return v.state(v, layer, kvHead, limit) }

// everything returns the state of a head that attends to all tokens of a sequence.
func everything(dim, limit int) State {
	return &streamingState{masked: masked{dim: dim}, streaming: Streaming{Window: limit}}
}

// questState returns the state of a head of Quest, whose first layers attend to everything.
func questState(v *values, layer, _, limit int) State {
	if layer < v.spec.Quest.SkipLayers {
		return everything(v.shape.Dim, limit)
	}
	return newPageState(v.spec, v.shape, limit)
}

// headsState returns the state of a head of a policy some of whose heads stream.
func headsState(v *values, layer, kvHead, limit int) State {
	switch {
	case v.streaming[layer][kvHead]:
		return newStreamingState(&v.spec.Heads().StreamSpec, v.shape.Dim)
	case v.spec.Pages() != nil:
		return newPageState(v.spec, v.shape, limit)
	}
	return everything(v.shape.Dim, limit)
}
