package policy

import (
	"fmt"

	"github.com/l3sim/l3sim/input"
)

// values makes the states of a section's policy.
type values struct {
	spec      *Spec // with own values
	shape     Shape
	streaming [][]bool // heads, by layer
}

// NewValues returns the value side of a section's policy for a model. What of the section does not fit the model is an
// *input.Error.
func NewValues(s *Spec, shape Shape) (Values, error) {
	v := &values{spec: s.Own(), shape: shape}
	if hasKey(s.Name, "gates") {
		if err := s.gatesFit(shape); err != nil {
			return nil, err
		}
		v.streaming = v.spec.streamingHeads(shape)
	}
	if s.Name == "csattention" && shape.Dim%v.spec.Subspaces != 0 {
		return nil, &input.Error{Key: "policy.subspaces", Value: fmt.Sprint(v.spec.Subspaces), Expected: fmt.Sprintf("a divisor of the model's head dimension, %d", shape.Dim)}
	}
	return v, nil
}

// NewState returns the state of one KV head.
func (v *values) NewState(layer, kvHead, limit int) State {
	s := v.spec
	switch {
	case s.Name == "streaming" || v.streaming != nil && v.streaming[layer][kvHead]:
		return newStreamingState(s, v.shape.Dim)
	case s.Name == "quest" && layer >= s.SkipLayers, s.Name == "lserve":
		return newPageState(s, v.shape, limit)
	case s.Name == "window":
		return newWindowState(s, v.shape.Dim)
	case s.Name == "h2o":
		return newH2OState(s, v.shape)
	case s.Name == "hgca":
		return newHGCAState(s, v.shape, limit)
	case s.Name == "csattention":
		return newCSAState(s, v.shape, layer, kvHead, limit)
	}
	// Dense, retrieval heads of duo, skipped layers: a window of everything.
	return &streamingState{masked: masked{dim: v.shape.Dim}, streaming: Streaming{Window: limit}}
}
