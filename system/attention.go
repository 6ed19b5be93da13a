package system

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// attends asks the policy what a sub-batch attends over. Nothing else in a system derives
// attended tokens, bytes of keys and values, or attention's time from a context.
type attends struct {
	policy policy.Policy
	// Scratch.
	contexts []int
	home     []policy.Class
	gpus     []gpu.DecodeBatch
}

func newAttends(m *llm.Model) *attends {
	return &attends{policy: policy.NewDense(policy.Shape{
		Layers: m.Layers, QueryHeads: m.Heads, KVHeads: m.KVHeads, Dim: m.HeadDim, ElementBits: m.ElementBits,
	})}
}

// decode returns the classes of heads of decoding requests, in the order of the
// requests. The result is valid until the next call.
func (a *attends) decode(requests []scheduler.Decoding, step int64) []policy.Class {
	if n := len(requests); n > cap(a.contexts) {
		a.contexts = make([]int, n, 2*n)
	}
	contexts := a.contexts[:len(requests)]
	for i := range requests {
		contexts[i] = requests[i].Context(step)
	}
	return a.policy.Decode(contexts, 0, step)
}

// decodeApart returns the classes of heads that attend at the requests' home, which is
// not the GPUs, and the batches of those that attend on the GPUs beside it. Both are valid
// until the next call.
func (a *attends) decodeApart(requests []scheduler.Decoding, step int64) (home []policy.Class, gpus []gpu.DecodeBatch) {
	a.home, a.gpus = a.home[:0], a.gpus[:0]
	for _, c := range a.decode(requests, step) {
		if c.Device == policy.Home {
			a.home = append(a.home, c)
		} else if len(c.Tokens) > 0 {
			a.gpus = append(a.gpus, decodeBatch(&c))
		}
	}
	return a.home, a.gpus
}

// decodeHere adds the batches of requests that the GPUs decode to those that attend there
// already: one for each class of heads.
func (a *attends) decodeHere(gpus []gpu.DecodeBatch, requests []scheduler.Decoding, step int64) []gpu.DecodeBatch {
	for _, c := range a.decode(requests, step) {
		if len(c.Tokens) > 0 {
			gpus = append(gpus, decodeBatch(&c))
		}
	}
	a.gpus = gpus
	return gpus
}

// decodeBatch returns a class of heads as kernels see it.
func decodeBatch(c *policy.Class) gpu.DecodeBatch {
	var sum, longest int
	for _, tokens := range c.Tokens {
		sum += tokens
		longest = max(longest, tokens)
	}
	return gpu.DecodeBatch{Requests: len(c.Tokens), Tokens: int64(sum), Longest: longest, KVHeads: c.Heads}
}

// kv returns the keys and values of so many tokens in one layer.
func (a *attends) kv(tokens int) units.Bytes { return units.Bytes(a.policy.KV(tokens)) }

// vectors returns what so many decoding requests move in one layer.
func (a *attends) vectors(requests int) (down, up units.Bytes) {
	d, u := a.policy.Vectors()
	return units.Bytes(requests) * units.Bytes(d), units.Bytes(requests) * units.Bytes(u)
}
