package system

import (
	"slices"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// attends asks the policy what a sub-batch attends over. Nothing else in a system derives
// attended tokens, bytes of keys and values, or attention's time from a context.
type attends struct {
	policy  policy.Policy
	runs    []int // layers of each run of layers that attend alike
	heads   int   // KV heads
	counted tally
	fetched units.Bytes // keys and values of prefixes that a cache had and the GPUs got
	spared  int64       // tokens of the contexts of steps that were not read again, since they were read for a group
	// Scratch.
	requests []policy.Request
	home     []*policy.Class
	gpus     []gpu.DecodeBatch
}

func newAttends(cfg *configs.Config) *attends {
	p := policyOf(cfg)
	return &attends{policy: p, runs: p.Runs(), heads: cfg.Model.KVHeads}
}

// policyOf returns the policy of a validated configuration.
func policyOf(cfg *configs.Config) policy.Policy { return cfg.Policy.Costs(policyShape(cfg)) }

// policyShape tells a policy the model's shape, and whether keys and values are apart from the GPUs.
func policyShape(cfg *configs.Config) policy.Shape {
	m := &cfg.Model
	return policy.Shape{Layers: m.Layers, QueryHeads: m.Heads, KVHeads: m.KVHeads, Dim: m.HeadDim, ElementBits: m.ElementBits,
		KVBits: m.KVElementBits(), KVScaleBytes: m.KVScaleBytes(), Model: m.Name, Apart: !systemOf(cfg.Run.System).kv.inGPUs}
}

// tally is what decode steps that ran attended to, each request's counting as one.
type tally struct {
	steps    int64
	contexts int64   // tokens of all steps' contexts
	tokens   []int64 // of all steps' KV heads in a layer of each run, those of both devices
}

// count counts a decode step of a layer of a run, for the requests that decode was last
// asked about.
func (a *attends) count(x *policy.Step, run int) {
	c := &a.counted
	if c.tokens == nil {
		c.tokens = make([]int64, len(a.runs))
	}
	for i := range x.Attend {
		c.tokens[run] += x.Attend[i].All()
	}
	if run == 0 {
		c.steps += int64(len(a.requests))
		for i := range a.requests {
			c.contexts += int64(a.requests[i].Context)
		}
	}
}

// attention returns what the steps of all replicas attended to.
func (n *Node) attention(replicas []*replica) results.Attention {
	r := results.Attention{Policy: n.cfg.Policy.Name}
	if r.Policy == "dense" {
		r.Context = denseContext(replicas)
		r.Attended = r.Context
		return r
	}
	var sum tally
	runs := policyOf(n.cfg).Runs()
	sum.tokens = make([]int64, len(runs))
	for _, rep := range replicas {
		c := &rep.engine.core().side.counted
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

// headClasses returns what all layers hold on a device while requests decode and while a
// prompt is prefilled, as a ledger has it.
func headClasses(p policy.Policy, on policy.Device) (decoding, filling []scheduler.HeadClass) {
	for run, layers := range p.Runs() {
		d, f := p.Memory(run)
		decoding, filling = addClasses(decoding, d, on, layers), addClasses(filling, f, on, layers)
	}
	return decoding, filling
}

// addClasses adds those of a run of layers. Heads that hold the same are one class.
func addClasses(to []scheduler.HeadClass, held []policy.Held, on policy.Device, layers int) []scheduler.HeadClass {
	for _, h := range held {
		if h.Device != on || h.Heads == 0 {
			continue
		}
		c := scheduler.HeadClass{TokenBytes: h.Bytes, OfPrompt: h.OfPrompt, Skip: h.Skip, Share: h.Share, Most: h.Most}
		i := classAlike(to, c)
		if i < 0 {
			i, to = len(to), append(to, c)
		}
		to[i].Heads += h.Heads * layers
	}
	return to
}

// read returns the bytes of keys and values that a decode step of a request reads at home in
// all layers.
func (a *attends) read(r policy.Request) (bytes float64) {
	a.requests = append(a.requests[:0], r)
	for run, layers := range a.runs {
		heads := 0.0
		for _, c := range a.policy.Decode(a.requests, run).Attend {
			if c.Device == policy.Home {
				heads += float64(float64(c.Heads) * float64(c.Tokens[0]))
			}
		}
		bytes += float64(float64(layers) * heads)
	}
	return bytes * float64(a.policy.KV(1)) / float64(a.heads)
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
func (a *attends) decodeApart(requests []scheduler.Decoding, step int64) (home []*policy.Class, gpus []gpu.DecodeBatch) {
	a.home, a.gpus = a.home[:0], a.gpus[:0]
	all := a.decode(requests, 0, step).Attend
	for i := range all {
		if c := &all[i]; c.Device == policy.Home {
			a.home = append(a.home, c)
		} else {
			a.gpus = addBatch(a.gpus, c)
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
		to = addBatch(to, &classes[i])
	}
	return to
}

// addBatch adds a class that has requests. It is set where it stays: reading a copy waits for its parts.
func addBatch(to []gpu.DecodeBatch, c *policy.Class) []gpu.DecodeBatch {
	if len(c.Tokens) > 0 {
		to = append(to, gpu.DecodeBatch{})
		setBatch(&to[len(to)-1], c)
	}
	return to
}

// decodeBatch returns a class of heads as kernels see it.
func decodeBatch(c *policy.Class) (b gpu.DecodeBatch) {
	setBatch(&b, c)
	return b
}

// setBatch fills the batch of a kernel from a class of heads.
func setBatch(b *gpu.DecodeBatch, c *policy.Class) {
	setRequests(b, c.Tokens, c.Heads)
	b.Page, b.PerQueryHead, b.Weights = c.Page, c.PerQueryHead, c.Weights
}

// batchOf returns a batch of requests that attend to tokens each.
func batchOf(tokens []int, heads int) (b gpu.DecodeBatch) {
	setRequests(&b, tokens, heads)
	return b
}

// setRequests fills a batch from the tokens that each request attends over; one with 0 is not in it.
func setRequests(b *gpu.DecodeBatch, tokens []int, heads int) {
	var sum, longest, requests int
	for _, n := range tokens {
		sum += n
		longest = max(longest, n)
		if n > 0 {
			requests++
		}
	}
	b.Requests, b.Tokens, b.Longest, b.KVHeads = requests, int64(sum), longest, heads
}

// kv returns the bytes of the keys and values of that many tokens in one layer.
func (a *attends) kv(tokens int) units.Bytes { return units.Bytes(a.policy.KV(tokens)) }

// vectors returns the bytes that decoding requests move to their keys and values and back, in one layer.
func (a *attends) vectors(requests int) (down, up units.Bytes) {
	all := int64(requests) * int64(a.heads)
	return a.vectorsOf(all, all)
}

// vectorsOf is vectors for KV heads of decoding requests, of which fresh
// get the step's own key and value.
func (a *attends) vectorsOf(heads, fresh int64) (down, up units.Bytes) {
	v, all := a.policy.Vectors(), int64(a.heads)
	return units.Bytes((heads*v.Queries + fresh*v.New) / all), units.Bytes(heads * (v.Results + v.Sums) / all)
}
