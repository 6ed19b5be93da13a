package system

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// attends asks the policy what a sub-batch attends over. Nothing else in a system derives
// attended tokens, bytes of keys and values, or attention's time from a context.
type attends struct {
	policy policy.Costs
	runs   []int // layers of each run of layers that attend alike
	heads  int   // KV heads
	layers int
	// prefixStays says that a prompt's tokens attend over what a cache has of it where it is.
	prefixStays bool
	counted     tally
	fetched     units.Bytes // keys and values of prefixes that a cache had and the GPUs got
	spared      int64       // tokens of the contexts of steps that were not read again, since they were read for a group
	// Scratch.
	requests []policy.Request
}

func newAttends(h *hardware) *attends {
	p := policyOf(h)
	return &attends{policy: p, runs: p.Runs(), heads: h.Model.KVHeads, layers: h.Model.Layers, prefixStays: h.prefixStays()}
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

// scores says whether the tokens of a chunk of a prompt attend over a prefix at home.
func (a *attends) scores(c *scheduler.Chunk) bool { return a.prefixStays && c.Prefix > 0 }
