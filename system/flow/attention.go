package flow

import (
	"slices"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/units"
)

// Attends asks the policy for the attended tokens of a sub-batch. Nothing else in a system derives
// attended tokens, bytes of keys and values, or attention's time from a context.
type Attends struct {
	Policy policy.Costs
	Runs   []int // number of layers of each run of consecutive layers that attend alike
	Alike  []int // by run: the first run of the same kind
	Kinds  []int // the first run of each kind
	like   []int // by first run: number of layers of its kind
	// Order is all layers in order, by kind. Kind 0 stands for the work before the first layer; kind k > 0 is that of
	// Kinds[k-1].
	Order  []dataflow.Run
	Heads  int // KV heads
	Layers int
	// Copies is the number of GPUs that hold each KV head. Each gets what is transferred for the head
	// over its own link.
	Copies units.Bytes
	// PrefixStays says that a prompt's tokens attend over a cached prefix where it is stored.
	PrefixStays bool
	Counted     Tally
	Fetched     units.Bytes // bytes of cached prefixes that the GPUs received
	Spared      int64       // context tokens that steps did not read again, since a group read them once
	model       *llm.Model
	verified    int              // tokens that a decode step of a request verifies
	Requests    []policy.Request // scratch
}

func NewAttends(h *Hardware) *Attends {
	p := PolicyOf(h)
	a := &Attends{Policy: p, Heads: h.Config.Model.KVHeads, Layers: h.Config.Model.Layers, Copies: units.Bytes(h.Config.Model.KVReplicas()), PrefixStays: h.PrefixStays(), model: &h.Config.Model, verified: h.Config.Serving.Verified()}
	a.SetRuns(p.Runs(), alike(p))
	return a
}

// SetRuns sets the runs of layers; alike is by run the first run of the same kind.
func (a *Attends) SetRuns(layers, alike []int) {
	a.Runs, a.Alike, a.Kinds, a.like = layers, alike, nil, make([]int, len(layers))
	a.Order = []dataflow.Run{{Kind: 0, Count: 1}}
	for run, n := range layers {
		if alike[run] == run {
			a.Kinds = append(a.Kinds, run)
		}
		a.like[alike[run]] += n
		a.Order = append(a.Order, dataflow.Run{Kind: int32(1 + slices.Index(a.Kinds, alike[run])), Count: int32(n)})
	}
}

// alike returns, for each run, the first run of the same kind.
func alike(p policy.Costs) []int {
	all := make([]int, len(p.Runs()))
	for run := range all {
		all[run] = run
		if kinds, ok := p.(policy.Alike); ok {
			all[run] = kinds.Alike(run)
		}
	}
	return all
}

// LayersLike returns the number of layers of the kind of a first run.
func (a *Attends) LayersLike(run int) int { return a.like[run] }

// Repeats reports whether an earlier run of layers has the same costs.
func (a *Attends) Repeats(run int) bool { return a.Alike[run] < run }

// Tally sums up the attention of decode steps, which count once for each request.
type Tally struct {
	Steps    int64
	Contexts int64   // tokens of all steps' contexts
	Tokens   []int64 // tokens that KV heads attended over on all devices, summed over steps, in a layer of each run; 0 for a run that repeats another
}

// Count counts a decode step of a layer of a run, for the requests of the latest call of Decode.
func (a *Attends) Count(x *policy.Step, run int) {
	c := &a.Counted
	if c.Tokens == nil {
		c.Tokens = make([]int64, len(a.Runs))
	}
	for i := range x.Attend {
		c.Tokens[run] += x.Attend[i].All()
	}
	if run == 0 {
		c.Steps += int64(len(a.Requests))
		for i := range a.Requests {
			c.Contexts += int64(a.Requests[i].Context)
		}
	}
}

// Read returns the bytes of keys and values that a decode step of a request reads where keys and
// values are stored, in all layers.
func (a *Attends) Read(r policy.Request) (bytes float64) {
	a.Requests = append(a.Requests[:0], r)
	for run, layers := range a.Runs {
		heads := 0.0
		for _, c := range a.Policy.Decode(a.Requests, run).Attend {
			if c.Device == policy.Home {
				heads += float64(float64(c.Heads) * float64(c.Tokens[0]))
			}
		}
		bytes += float64(float64(layers) * heads)
	}
	return bytes * float64(a.Policy.KV(1)) / float64(a.Heads)
}

// Decode returns what attention of decoding requests takes in a layer of a run. If a step verifies drafts, all its tokens attend over
// the same tokens as the last. Classes are in the order of the requests. The result is valid until the next call.
func (a *Attends) Decode(requests []scheduler.Decoding, run int, step int64) *policy.Step {
	a.Ask(requests, step)
	return a.Policy.Decode(a.Requests, run)
}

// Ask sets Requests, for which Policy.Decode then returns the attention in each run.
func (a *Attends) Ask(requests []scheduler.Decoding, step int64) {
	a.Requests = a.Requests[:0]
	for i := range requests {
		r := &requests[i]
		a.Requests = append(a.Requests, policy.Request{Prompt: int(r.Prompt), Context: r.Context(step) + a.verified - 1, Accepted: int(r.Accepted)})
	}
}

// KV returns the bytes of the keys and values of that many tokens in one layer.
func (a *Attends) KV(tokens int) units.Bytes { return units.Bytes(a.Policy.KV(tokens)) }

// Vectors returns the bytes of decoding requests' vectors on their way to the keys and values, and
// back, in one layer.
func (a *Attends) Vectors(requests int) (down, up units.Bytes) {
	all := int64(requests) * int64(a.Heads)
	return a.VectorsOf(all, all)
}

// New returns the bytes of the keys and values that steps of that many requests add in one layer.
func (a *Attends) New(requests int) units.Bytes {
	return units.Bytes(requests*a.verified) * units.Bytes(a.Policy.Vectors().New)
}

// VectorsOf is Vectors for a number of KV heads of decoding requests. Of these, fresh get the step's own key and value, one of each for each token that it
// verifies. GPUs that hold the same KV head share the transfer of its key and value, so these use the links with fewer query heads; a key and a value are
// sent once.
func (a *Attends) VectorsOf(heads, fresh int64) (down, up units.Bytes) {
	v, all := a.Policy.Vectors(), int64(a.Heads)
	heads, fresh = heads*int64(a.verified), fresh*int64(a.verified)
	queries := heads * v.Queries
	down = units.Bytes(max(queries+fresh*v.New, a.model.SkewedBytes(queries)) / all)
	return down, units.Bytes(a.model.SkewedBytes(heads*(v.Results+v.Sums)) / all)
}

// Scores says whether the tokens of a chunk attend over a cached prefix where it is stored.
func (a *Attends) Scores(c *scheduler.Chunk) bool { return a.PrefixStays && c.Prefix > 0 }
