package offload

import (
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// links is lines with a link to the host, over which prompts take send for each token and layer.
type links struct {
	lines
	send units.Duration
}

func (l links) Iteration(b *scheduler.Batch) units.Duration {
	sent := 0
	for i := range b.Sub {
		for _, c := range b.Sub[i].Prefill {
			if c.Host {
				sent += c.Tokens
			}
		}
	}
	return max(l.lines.Iteration(b), units.Duration(schedtest.SmallModel.Layers*sent)*l.send)
}

func (l links) Latest() (took, up, down units.Duration) { return 0, 0, 0 }

// TestPaysByHand: a layer takes 100 ps and one a token. Prompts have iterations of their own: a prompt of 9 tokens takes one of 109, two take
// 118. So the second adds 9, but 59 if a third one would take its place. A step of one request on the GPUs takes 101, of three 103; one on the
// host adds one. On the host it saves the GPUs 100, or 34 - 1. Its share of steps there is a half, or a fourth.
func TestPaysByHand(t *testing.T) {
	for _, c := range []struct {
		name                 string
		onGPUs, output, send int
		with                 []int // prompts in the iteration
		behind               []int // prompts that wait behind it
		seats, budget        int
		chunked              bool  // beside a step
		costs                lines // if others
		pays                 bool
	}{
		{name: "nobody else waits", onGPUs: 1, output: 1, pays: true},
		{name: "another one waits", onGPUs: 1, output: 1, behind: []int{9}},
		{name: "two steps, 59 + 100", onGPUs: 1, output: 3, behind: []int{9}, pays: true},
		{name: "five steps, 59 + 41", onGPUs: 3, output: 6, behind: []int{9}},
		{name: "seven steps, 59 + 58", onGPUs: 3, output: 8, behind: []int{9}, pays: true},
		{name: "the transfer of 12 a token hides in 109", onGPUs: 1, output: 1, send: 12, pays: true},
		{name: "of 13 it does not", onGPUs: 1, output: 1, send: 13},
		{name: "one step, 109 + 8.3, is more than the 117 of it", onGPUs: 3, output: 2, send: 13, pays: true},
		{name: "two wait behind it, 9 + 100 / 3 + 75", onGPUs: 3, output: 10, behind: []int{9, 9}, pays: true},
		{name: "42 + 58", onGPUs: 3, output: 8, behind: []int{9, 9}},
		{name: "beside a prompt it adds 9", onGPUs: 1, output: 1, with: []int{9}, behind: []int{9}, pays: true},
		{name: "the other one has no room in the iteration", onGPUs: 1, output: 1, behind: []int{92}, pays: true},
		{name: "91 tokens have", onGPUs: 1, output: 1, behind: []int{91}},
		{name: "nor on the GPUs, of 1000 tokens", onGPUs: 1, output: 1, behind: []int{992}, budget: 2000, pays: true},
		{name: "991 tokens have", onGPUs: 1, output: 1, behind: []int{991}, budget: 2000},
		{name: "one seat", onGPUs: 1, output: 1, behind: []int{9}, seats: 1, pays: true},
		{name: "two seats", onGPUs: 1, output: 1, behind: []int{9}, seats: 2},
		{name: "seven steps, and the last but one of five seats", onGPUs: 3, output: 8, behind: []int{9}, seats: 5, pays: true},
		{name: "the last of four, which the GPUs hold", onGPUs: 3, output: 8, behind: []int{9}, seats: 4},
		{name: "the last of four, each of 741 tokens, of which the GPUs hold 3000", onGPUs: 3, output: 732, behind: []int{9}, seats: 4},
		{name: "each of 751", onGPUs: 3, output: 742, behind: []int{9}, seats: 4, pays: true},
		{name: "a step on the host takes the GPUs as long", onGPUs: 1, output: 100, send: 101, costs: lines{token: 100}},
		{name: "a step reads the weights", onGPUs: 1, output: 100, send: 101, costs: lines{weights: 1, token: 100}, pays: true},
		{name: "beside a step", onGPUs: 1, output: 1, behind: []int{9}, chunked: true, pays: true},
		{name: "the transfer of 12 a token hides in the step and it, 110", onGPUs: 1, output: 1, send: 12, behind: []int{9}, chunked: true, pays: true},
		{name: "of 13 a token", onGPUs: 1, output: 1, send: 13, behind: []int{9}, chunked: true},
	} {
		s := hosting(c.onGPUs, lines{}, 0)
		if c.costs == (lines{}) {
			c.costs = lines{weights: 100, token: 1}
		}
		o := New(links{c.costs, units.Duration(c.send)}, 0)
		o.s, s.Batch.Step = &s.State, 0
		s.Batching = &scheduler.BatchingSpec{MaxBatchTokens: max(100, c.budget), MaxNumSeqs: c.seats}
		if c.chunked {
			s.Batch.Sub[0].Decode = s.Decoding
		} else {
			s.Policy = scheduler.PolicyPrefillFirst
		}
		for _, tokens := range c.with {
			s.Batch.Sub[0].Prefill = append(s.Batch.Sub[0].Prefill, scheduler.Chunk{Tokens: tokens, Last: true})
		}
		requests := append(s.Requests[:c.onGPUs:c.onGPUs], traces.Request{ID: c.onGPUs, Input: 9, Output: c.output})
		for _, tokens := range c.behind {
			requests = append(requests, traces.Request{ID: len(requests), Input: tokens, Output: 1})
		}
		s.Extend(requests)
		for i := range requests[c.onGPUs:] {
			s.Add(int32(c.onGPUs + i))
		}
		if got := o.pays(s.Queue.First(), 9); got != c.pays {
			t.Errorf("%s: pays %v", c.name, got)
		}
	}
}

// TestPaysForTokens: the iteration has room for 9 of 18 tokens. They pay for half of the steps: 50 / 2 each, against the 59 that they
// take later.
func TestPaysForTokens(t *testing.T) {
	s := hosting(1, lines{}, 0)
	o := New(links{lines{weights: 100, token: 1}, 0}, 0)
	o.s, s.Batch.Step, s.Policy = &s.State, 0, scheduler.PolicyPrefillFirst
	s.Extend([]traces.Request{s.Requests[0], {ID: 1, Input: 18, Output: 4}, {ID: 2, Input: 9, Output: 1}})
	s.Add(1)
	s.Add(2)
	for emitted, pays := range map[int]bool{0: true, 2: false} { // of three steps, two were before it lost its memory
		w := *s.Queue.First()
		if w.Emitted = emitted; o.pays(&w, 9) != pays {
			t.Errorf("after %d tokens: pays %v", emitted, !pays)
		}
	}
}

// TestEmittedByHand: two requests with prompts of 9 tokens attend over 10 on the GPUs in this step, so each has emitted one token;
// one on the host attends over 30.
func TestEmittedByHand(t *testing.T) {
	s := hosting(2, lines{}, 0, 30)
	o := New(links{}, 0)
	if o.s, s.Batch.Step = &s.State, 0; o.emitted() != 1+1+21 {
		t.Errorf("%d tokens", o.emitted())
	}
}
