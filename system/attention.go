package system

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// attends asks the policy what a sub-batch attends over. Nothing else in a system derives
// attended tokens, bytes of keys and values, or attention's time from a context.
type attends struct {
	policy policy.Policy
	runs   []int // layers of each run of layers that attend alike
	// Scratch.
	requests []policy.Request
	home     []policy.Class
	gpus     []gpu.DecodeBatch
}

func newAttends(cfg *configs.Config) *attends {
	return attendsBy(policyOf(cfg))
}

func attendsBy(p policy.Policy) *attends { return &attends{policy: p, runs: p.Runs()} }

// policyOf returns the policy of a validated configuration.
func policyOf(cfg *configs.Config) policy.Policy {
	return policy.NewDense(policyShape(cfg))
}

func policyShape(cfg *configs.Config) policy.Shape {
	m := &cfg.Model
	return policy.Shape{Layers: m.Layers, QueryHeads: m.Heads, KVHeads: m.KVHeads, Dim: m.HeadDim, ElementBits: m.ElementBits}
}

// decode returns what attention of decoding requests takes in a layer of a run. Classes
// are in the order of the requests. The result is valid until the next call.
func (a *attends) decode(requests []scheduler.Decoding, run int, step int64) *policy.Step {
	a.requests = a.requests[:0]
	for i := range requests {
		a.requests = append(a.requests, policy.Request{Prompt: int(requests[i].Prompt), Context: requests[i].Context(step)})
	}
	return a.policy.Decode(a.requests, run)
}

// decodeApart returns the classes of heads that attend at the requests' home, which is
// not the GPUs, and the batches of those that attend on the GPUs beside it. Both are valid
// until the next call. All layers attend alike.
func (a *attends) decodeApart(requests []scheduler.Decoding, step int64) (home []policy.Class, gpus []gpu.DecodeBatch) {
	a.home, a.gpus = a.home[:0], a.gpus[:0]
	for _, c := range a.decode(requests, 0, step).Attend {
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
	gpus = addBatches(gpus, a.decode(requests, 0, step).Attend)
	a.gpus = gpus
	return gpus
}

// addBatches adds classes as kernels see them.
func addBatches(to []gpu.DecodeBatch, classes []policy.Class) []gpu.DecodeBatch {
	for i := range classes {
		if len(classes[i].Tokens) > 0 {
			to = append(to, decodeBatch(&classes[i]))
		}
	}
	return to
}

// decodeBatch returns a class of heads as kernels see it.
func decodeBatch(c *policy.Class) gpu.DecodeBatch {
	b := batchOf(c.Tokens, c.Heads)
	b.Page, b.PerQueryHead, b.Weights = c.Page, c.PerQueryHead, c.Weights
	return b
}

// batchOf returns requests with so many tokens each.
func batchOf(tokens []int, heads int) gpu.DecodeBatch {
	var sum, longest, requests int
	for _, n := range tokens {
		sum += n
		longest = max(longest, n)
		if n > 0 {
			requests++
		}
	}
	return gpu.DecodeBatch{Requests: requests, Tokens: int64(sum), Longest: longest, KVHeads: heads}
}

// kv returns the keys and values of so many tokens in one layer.
func (a *attends) kv(tokens int) units.Bytes { return units.Bytes(a.policy.KV(tokens)) }

// vectors returns what so many decoding requests move in one layer.
func (a *attends) vectors(requests int) (down, up units.Bytes) {
	d, u := a.policy.Vectors()
	return units.Bytes(requests) * units.Bytes(d), units.Bytes(requests) * units.Bytes(u)
}
