package schedtest

import (
	"fmt"
	"math/rand/v2"

	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// SmallModel has 64 B of KV and a few hundred bytes of activations a token.
var SmallModel = &llm.Model{
	Layers: 4, Hidden: 16, Heads: 2, KVHeads: 2, HeadDim: 8, FFNHidden: 64, Vocab: 10, ElementBits: 8, TensorParallel: 1,
}

// OneFrom draws one of some values.
func OneFrom[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// MustHold fails a test where a law does not hold.
func MustHold(t interface{ Fatal(...any) }, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// Linear is a predictor with a cost per token on either side, and a cost per token that the GPUs attend
// over.
type Linear struct{ GPUToken, GPUFixed, PIMToken, NearToken units.Duration }

// GPU implements Predictor.
func (l Linear) GPU(s *scheduler.SubBatch, step int64) units.Duration {
	near := scheduler.SubBatch{Decode: s.Near}
	return l.GPUFixed + l.GPUToken*units.Duration(s.Tokens()) + l.NearToken*units.Duration(near.Contexts(step))
}

// PIM implements Predictor.
func (l Linear) PIM(s *scheduler.SubBatch, step int64, _ int) units.Duration {
	return l.PIMToken * units.Duration(s.Contexts(step))
}

// Follower checks a scheduler against the laws of serving: every request prefills its prompt in order and once,
// and decodes in every step after it.
type Follower struct {
	Requests  []traces.Request
	prefilled []int
	Emitted   []int   // output tokens of each request
	last      []int64 // step of the request's latest token
	// Recomputed is the sum of the contexts of tokens emitted by prompts that contained tokens emitted
	// before.
	Recomputed int64
	cut        int // prompts that the batch being checked cuts
	near       []bool
	// NearTokens is the number of tokens decoded in the GPUs' spare memory.
	NearTokens int64
}

// NewFollower returns a Follower of requests that have not started.
func NewFollower(requests []traces.Request) *Follower {
	n := len(requests)
	return &Follower{Requests: requests, prefilled: make([]int, n), Emitted: make([]int, n), last: make([]int64, n), near: make([]bool, n)}
}

// Check applies one batch.
func (f *Follower) Check(b *scheduler.Batch) error {
	seen := map[int32]bool{}
	merged := len(b.Sub) == 2 && b.Sub[1].Tokens() == 0 // each sub-batch may have cut a prompt before the two were merged
	f.cut = 0
	for s := range b.Sub {
		for place, decoding := range [][]scheduler.Decoding{b.Sub[s].Decode, b.Sub[s].Near} {
			for _, d := range decoding {
				if seen[d.Request] {
					return fmt.Errorf("step %d runs request %d twice", b.Step, d.Request)
				}
				seen[d.Request] = true
				if f.near[d.Request] != (place == 1) {
					return fmt.Errorf("step %d decodes request %d where its prompt did not go", b.Step, d.Request)
				}
				f.NearTokens += int64(place)
				if err := f.decode(b, &d); err != nil {
					return err
				}
			}
		}
		for i, c := range b.Sub[s].Prefill {
			if seen[c.Request] {
				return fmt.Errorf("step %d runs request %d twice", b.Step, c.Request)
			}
			seen[c.Request] = true
			if err := f.prefill(b, &c, merged || i == len(b.Sub[s].Prefill)-1); err != nil {
				return err
			}
		}
	}
	if f.cut > len(b.Sub) {
		return fmt.Errorf("%d prompts are cut in %d sub-batches", f.cut, len(b.Sub))
	}
	return nil
}

// prefill applies a chunk; last says whether it is the last of its sub-batch.
func (f *Follower) prefill(b *scheduler.Batch, c *scheduler.Chunk, last bool) error {
	prompt := f.Requests[c.Request].Input + f.Emitted[c.Request]
	if c.Finished == 0 { // dropped before its prompt ended, so it starts again
		f.prefilled[c.Request], f.near[c.Request] = 0, c.Near
	}
	if c.Near != f.near[c.Request] {
		return fmt.Errorf("chunk %+v goes elsewhere than the chunk before", *c)
	}
	if c.Tokens < 1 || c.Finished != f.prefilled[c.Request] || c.Finished+c.Tokens > prompt {
		return fmt.Errorf("chunk %+v of a prompt of %d with %d prefilled", *c, prompt, f.prefilled[c.Request])
	}
	f.prefilled[c.Request] += c.Tokens
	if c.Last != (f.prefilled[c.Request] == prompt) {
		return fmt.Errorf("chunk %+v: the prompt has %d of %d", *c, f.prefilled[c.Request], prompt)
	}
	if !c.Last {
		if f.cut++; !last {
			return fmt.Errorf("chunk %+v is cut and not the last of its sub-batch", *c)
		}
		return nil
	}
	if f.Emitted[c.Request] > 0 {
		f.Recomputed += int64(prompt)
	}
	f.Emitted[c.Request]++
	f.last[c.Request] = b.Step
	return nil
}

// decode applies a token of a decoding request.
func (f *Follower) decode(b *scheduler.Batch, d *scheduler.Decoding) error {
	if f.Emitted[d.Request] == 0 || f.last[d.Request] != b.Step-1 {
		return fmt.Errorf("request %d decodes in step %d, its latest token was in %d", d.Request, b.Step, f.last[d.Request])
	}
	if got, want := d.Context(b.Step), f.Requests[d.Request].Input+f.Emitted[d.Request]; got != want {
		return fmt.Errorf("request %d attends over %d tokens, want %d", d.Request, got, want)
	}
	f.Emitted[d.Request]++
	f.last[d.Request] = b.Step
	return nil
}

// Preempt checks that a preempted request had the tokens that p says; its prompt starts again, with
// the emitted tokens.
func (f *Follower) Preempt(p scheduler.Preemption) error {
	if f.Emitted[p.Request] != p.Tokens {
		return fmt.Errorf("%+v had %d tokens", p, f.Emitted[p.Request])
	}
	f.prefilled[p.Request] = 0
	return nil
}
