package lm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/pim"
)

// keyGroup is the number of tokens whose keys share scales for each element: KIVI keeps that many in 16 bits until they
// are narrowed together (Liu et al., https://arxiv.org/abs/2402.02750).
const keyGroup = 128

// narrowing is the storage of keys and values in 8 or 4 bits: for each token at once, or in groups once they are full, which
// stay in 16 bits on the GPUs until then. A prompt attends in 16 bits.
type narrowing struct {
	bits   int
	fp8    bool
	scales llm.KVScales
	tensor [][2]pim.Scales // by layer, if a tensor has one: fitted to the prompt
}

// newNarrowing returns the narrowing for widths, nil for 16 bits. Groups of keys require a policy that keeps all tokens in
// order.
func newNarrowing(m *Model, w *llm.Widths, s *policy.Spec) (*narrowing, error) {
	n := &narrowing{bits: w.StoredBits(), fp8: w.KVFloat(), scales: cmp.Or(w.KVScales, llm.TokenScales)}
	if n.fp8 {
		n.scales = llm.TensorScales
	}
	if n.bits == 0 || n.bits == 16 {
		return nil, nil
	}
	if ordered := s.List().InOrder(); n.scales == llm.ChannelScales && !slices.Contains(ordered, s.Name) {
		return nil, &input.Error{Key: "model.kv_scales", Value: fmt.Sprintf("%q", n.scales),
			Expected: "\"token\" or \"tensor\" with policy.name = \"" + s.Name + "\": groups of keys go with \"" + strings.Join(ordered, "\" and \"") + "\", which keep tokens in their order"}
	}
	if h := s.Heads(); n.scales == llm.ChannelScales && h != nil && h.StreamDevice == "home" {
		return nil, &input.Error{Key: "policy." + s.Name + ".stream_device", Value: "\"home\"", Expected: "\"gpu\" with model.kv_scales = \"channel\": a ring of tokens has no groups"}
	}
	n.tensor = make([][2]pim.Scales, m.Layers)
	return n, nil
}

func (m *Model) headShape(n *narrowing) pim.HeadShape {
	s := pim.HeadShape{HeadDim: m.HeadDim, Queries: 1, ElementBits: 16}
	if n != nil {
		s.KVBits, s.KVFloat = n.bits, n.fp8
		if n.scales == llm.ChannelScales {
			s.KeyGroup = keyGroup
		}
	}
	return s
}

// narrowHead is the stored data of a head.
type narrowHead struct {
	elements [2][]uint16 // [tokens, HeadDim] of keys and values
	scales   [2][]pim.Scales
	groups   [][]pim.Scales // of keys, by element
}

// tokens returns the number of narrow tokens.
func (h *narrowHead) tokens() int { return len(h.scales[pim.Value]) }

// fit sets the scales of a layer's tensors from its prompt.
func (n *narrowing) fit(layer int, heads []chosenHead) {
	var most [2]float32
	for i := range heads {
		for kv, x := range [2][]float32{heads[i].keys, heads[i].values} {
			most[kv] = max(most[kv], slices.Max(x), -slices.Min(x))
		}
	}
	for kv, x := range most {
		if n.tensor[layer][kv] = pim.FitTensor(x, n.bits); n.fp8 {
			n.tensor[layer][kv] = pim.FitFP8(x)
		}
	}
}

// narrow stores tokens of a head, all or those of full groups, and replaces keys and values by their stored values.
func (n *narrowing) narrow(layer, d int, h *chosenHead) {
	x, end := &h.narrow, len(h.keys)/d
	if n.scales == llm.ChannelScales {
		end -= end % keyGroup
	}
	for x.tokens() < end {
		t := x.tokens()
		if n.scales != llm.ChannelScales {
			n.vector(layer, pim.Key, x, h.keys[t*d:(t+1)*d])
			n.vector(layer, pim.Value, x, h.values[t*d:(t+1)*d])
			continue
		}
		n.group(x, d, h.keys[t*d:(t+keyGroup)*d])
		for i := t; i < t+keyGroup; i++ {
			n.vector(layer, pim.Value, x, h.values[i*d:(i+1)*d])
		}
	}
}

// vector stores a key or a value.
func (n *narrowing) vector(layer int, kv pim.KV, x *narrowHead, v []float32) {
	s := n.tensor[layer][kv]
	if n.scales != llm.TensorScales {
		s = pim.FitScales(slices.Min(v), slices.Max(v), n.bits)
	}
	x.scales[kv] = append(x.scales[kv], s)
	for e, y := range v {
		element := s.Encode(y, n.bits)
		if v[e] = s.Decode(element); n.fp8 {
			element = s.EncodeFP8(y)
			v[e] = s.DecodeFP8(element)
		}
		x.elements[kv] = append(x.elements[kv], element)
	}
}

// group stores the keys of a group, by element.
func (n *narrowing) group(x *narrowHead, d int, keys []float32) {
	scales, first := make([]pim.Scales, d), len(x.elements[pim.Key])
	x.elements[pim.Key] = append(x.elements[pim.Key], make([]uint16, len(keys))...)
	for e := range scales {
		low, high := keys[e], keys[e]
		for i := e; i < len(keys); i += d {
			low, high = min(low, keys[i]), max(high, keys[i])
		}
		scales[e] = pim.FitScales(low, high, n.bits)
		for i := e; i < len(keys); i += d {
			x.elements[pim.Key][first+i] = scales[e].Encode(keys[i], n.bits)
			keys[i] = scales[e].Decode(x.elements[pim.Key][first+i])
		}
	}
	x.groups = append(x.groups, scales)
	for range len(keys) / d {
		x.scales[pim.Key] = append(x.scales[pim.Key], pim.Scales{})
	}
}
