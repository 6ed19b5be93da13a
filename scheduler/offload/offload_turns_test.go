package offload

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// patience follows the requests that sit out on the host. It checks that none waits longer than the
// turns of those before it take, divided by MaxDelay.
type patience struct {
	waited, most map[int32]units.Duration // of decoding iterations, by request that sits out
	longest      units.Duration           // iteration
	dearest      units.Duration           // turn
	delayed      units.Duration           // by all turns
	ran          units.Duration           // all iterations that decode
}

// turn returns a lower bound of what a turn of a request adds to an iteration.
func (l lines) turn(r *traces.Request) units.Duration {
	return units.Duration(schedtest.SmallModel.Layers) * (l.token + l.host + l.hostContext*units.Duration(r.Input+r.Output))
}

// wait checks an iteration b that has just been formed.
func (p *patience) wait(t rapid.TB, s offloading, l lines, b *scheduler.Batch) {
	took := l.Iteration(b)
	if b.Decoding() == 0 {
		return
	}
	p.longest, p.ran = max(p.longest, took), p.ran+took
	if s.o.turns.request != nobody {
		without := scheduler.Batch{Step: b.Step, Sub: slices.Clone(b.Sub), Moves: b.Moves}
		host := &without.Sub[0].Host
		*host = (*host)[:len(*host)-1]
		added := took - l.Iteration(&without)
		p.delayed, p.dearest = p.delayed+added, max(p.dearest, added)
	}
	if allowed := s.o.slack(p.ran) + p.dearest; p.delayed > allowed {
		t.Fatalf("iteration %d: turns have taken %v in %v, and may %v", b.Step, p.delayed, p.ran, allowed)
	}
	var before units.Duration
	for i := range s.Host.Decoding {
		before += l.turn(&s.Requests[s.Host.Decoding[i].Request])
	}
	for i := range s.Host.Decoding {
		h := &s.Host.Decoding[i]
		if h.Runs || h.Comes {
			delete(p.waited, h.Request)
			continue
		}
		if _, ok := p.waited[h.Request]; !ok {
			p.most[h.Request] = units.Duration(float64(before+p.dearest) / s.o.maxDelay)
		}
		p.waited[h.Request] += took
		if most := p.most[h.Request] + units.Duration(len(s.Host.Decoding)+2)*p.longest; p.waited[h.Request] > most {
			t.Fatalf("iteration %d: request %d has sat out for %v, and may for %v", b.Step, h.Request, p.waited[h.Request], most)
		}
	}
	for i := range s.Host.SwapIns {
		delete(p.waited, s.Host.SwapIns[i].Request)
	}
}

// hidden checks an iteration for which requests of the host were chosen. Except for MaxDelay, it takes no longer than
// if the CPUs' attention took no time, and makes more tokens per time than without them.
func hidden(t rapid.TB, o *Former, l lines, b *scheduler.Batch) bool {
	if b.Moves.Up.Wait+b.Moves.Down.Wait > 0 || o.turns.request != nobody || len(b.Sub[0].Decode)+len(b.Sub[0].Prefill) == 0 || len(b.Sub[0].Host)+len(b.Sub[1].Host) == 0 {
		return false
	}
	free := l
	free.host, free.hostContext = 0, 0
	one := scheduler.SubBatch{Decode: b.Sub[0].Decode, Prefill: b.Sub[0].Prefill, Host: append(slices.Clone(b.Sub[0].Host), b.Sub[1].Host...)}
	least := free.Iteration(&scheduler.Batch{Step: b.Step, Sub: []scheduler.SubBatch{one, {}}, Moves: b.Moves})
	if took := l.Iteration(b); took > least+o.slack(least)+1 {
		t.Fatalf("iteration %d takes %v with the host's requests, %v if their attention took no time", b.Step, took, least)
	}
	alone := scheduler.Batch{Step: b.Step, Sub: []scheduler.SubBatch{{Decode: one.Decode, Prefill: one.Prefill}, {}}, Moves: b.Moves}
	if with, without := float64(b.Tokens())/float64(l.Iteration(b)), float64(alone.Tokens())/float64(l.Iteration(&alone)); with <= without {
		t.Fatalf("iteration %d has %g tokens a picosecond with the host's requests, %g without", b.Step, with, without)
	}
	return true
}

// hosting returns an Offload with the given costs, whose GPUs are full with requests of 10 tokens
// of context. Its host has requests with the given contexts. One more request may be added.
func hosting(onGPUs int, costs lines, delay float64, contexts ...int) offloading {
	return hostingWith(&scheduler.MemorySpec{Admission: scheduler.AdmitFinal}, onGPUs, costs, delay, contexts...)
}

// hostingWith is hosting with an admission policy.
func hostingWith(admission *scheduler.MemorySpec, onGPUs int, costs lines, delay float64, contexts ...int) offloading {
	spec := memory.LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 1, Capacity: int64(1000 * onGPUs)}
	gpus := memory.NewLedger(spec)
	spec.Capacity = 10_000
	config := batching.Config{
		Policy: scheduler.PolicyChunkedPrefill, Scheduler: &scheduler.Spec{SubBatches: 2, Chunking: true, ChunkMultiple: 1}, Memory: admission,
		Comm: &scheduler.CommSpec{Balance: scheduler.BalanceLeastLoaded}, Batching: &scheduler.BatchingSpec{MaxBatchTokens: 100},
	}
	var requests []traces.Request
	for i := range onGPUs + len(contexts) + 1 {
		requests = append(requests, traces.Request{ID: i, Input: 9, Output: 992})
	}
	memories := batching.Memories{Ledger: gpus, GPU: memory.GPU{Model: schedtest.SmallModel, Free: 1 << 30, HoldsKV: true}, HostLedger: memory.NewLedger(spec)}
	s := newOffloading(config, memories, requests, costs, delay)
	for i := range requests[:len(requests)-1] {
		l, context := gpus, 10
		if i >= onGPUs {
			l, context = s.HostLedger, contexts[i-onGPUs]
		}
		s.Holds[i], _ = l.Reserve(memory.Prompted(1000), nil, 0, nil)
		s.Holds[i].Host = l == s.HostLedger
		s.Enter(scheduler.Decoding{Request: int32(i), Base: int64(context), Last: 990})
	}
	return s
}

// TestTurnsByHand: an iteration of the GPUs takes 100 a layer, or 150 with a request of the host.
// Turns may take a tenth of the time. An iteration earns 10; one with a turn earns 15 and spends
// 50.
func TestTurnsByHand(t *testing.T) {
	o := hosting(1, lines{weights: 100, host: 50}, 0.1, 10, 10)
	turns := map[int64]int32{0: 1, 5: 2, 9: 1, 14: 2, 18: 1}
	for step := range int64(20) {
		b := o.Next()
		want, ok := turns[step]
		if got := b.Sub[0].Host; b.Step != step || len(b.Sub[0].Decode) != 1 || ok != (len(got) == 1) || ok && (got[0].Request != want || got[0].Context(step) != 10+len(turnsBefore(turns, step, want))) {
			t.Fatalf("step %d: %+v, want the turn of %d (%v)", step, b.Sub[0], want, ok)
		}
		o.Complete(func(int32, int) {})
	}
}

// turnsBefore returns the steps before a step in which a request had its turn.
func turnsBefore(turns map[int64]int32, step int64, request int32) (before []int64) {
	for s, r := range turns {
		if r == request && s < step {
			before = append(before, s)
		}
	}
	return before
}

// TestNoTurnsSaved: while no request sits out, no credit for turns is saved.
func TestNoTurnsSaved(t *testing.T) {
	o := hosting(1, lines{weights: 100}, 0.1, 10)
	turns := 0
	for step := range 60 {
		if step == 40 { // from now on its attention does not hide
			o.m.lines, o.Dealt = lines{weights: 100, host: 50}, -1
		}
		if o.Next(); o.o.turns.request != nobody {
			turns++
		}
		o.Complete(func(int32, int) {})
	}
	if turns != 5 { // of 50 each, in 20 iterations that earn 10 or 15
		t.Errorf("%d turns", turns)
	}
}

// TestHelpByHand: ten requests decode on the GPUs, whose attention takes 100 a layer. One or two on
// the host take part if their attention is hidden: beside the GPUs', with 3% of the step to spare,
// or in a second sub-batch if reading the weights twice costs almost nothing. Another prompt goes
// to the host if its request would be hidden, too.
func TestHelpByHand(t *testing.T) {
	for _, c := range []struct {
		name                         string
		weights, token, host, tokens units.Duration // of attention on the CPUs: for any requests, and for a token
		contexts                     []int          // on the host
		first, second                int            // requests of the host in the sub-batches
		more                         bool           // a prompt may go there
	}{
		{"beside attention", 1000, 10, 100, 0, []int{10}, 1, 0, true},
		{"but for 3% of 1,210", 1000, 10, 136, 0, []int{10}, 1, 0, true},
		{"more than 3%", 1000, 10, 137, 0, []int{10}, 0, 0, false},
		{"two beside attention", 1000, 10, 100, 0, []int{10, 10}, 2, 0, true},
		{"one beside attention", 1000, 10, 0, 10, []int{10, 10}, 1, 0, false},
		{"the shorter one", 1000, 10, 0, 10, []int{14, 12}, 1, 0, false},
		{"no other prompt", 1000, 10, 0, 10, []int{10}, 1, 0, false},
		{"a row takes more than it is worth", 40, 100, 133, 0, []int{10}, 0, 0, true},
		{"behind batched operations", 1, 100, 500, 0, []int{10}, 0, 1, false},
		{"longer than those", 1, 100, 1002, 0, []int{10}, 0, 0, false},
		{"two behind batched operations", 1, 100, 190, 0, []int{10, 10}, 0, 2, true},
		{"behind those of each other", 1, 100, 0, 60, []int{14, 2}, 1, 1, false},
	} {
		costs := lines{weights: c.weights, token: c.token, context: 1, host: c.host, hostContext: c.tokens}
		o := hosting(10, costs, 0.03, c.contexts...)
		b := o.Next()
		first, second := len(b.Sub[0].Host), len(b.Sub[1].Host)
		if o.o.turns.request != nobody { // nobody fitted
			first--
		}
		asked := hosting(10, costs, 0.03, c.contexts...)
		asked.Add(int32(10 + len(c.contexts)))
		if more := len(asked.Next().Sub[0].Prefill) > 0; first != c.first || second != c.second || more != c.more {
			t.Errorf("%s: %d and %d requests take part, want %d and %d; another may come: %v", c.name, first, second, c.first, c.second, more)
		}
	}
}

// TestExpireBesideTheHost: a request without room in either memory is dropped. Those on the host have begun, so they
// stay and end, and both memories are then free.
func TestExpireBesideTheHost(t *testing.T) {
	o := hosting(10, lines{weights: 1000, token: 10, context: 1, hostContext: 10}, 0.03, 10, 10)
	const late = 12
	o.Add(late)
	if prompts := len(o.Next().Sub[0].Prefill); prompts != 0 || o.InSystem() != late+1 {
		t.Fatalf("%d prompts, %d requests in the system; want 0 and %d", prompts, o.InSystem(), late+1)
	}
	ended := 0
	count := func(int32, int) { ended++ }
	o.Complete(count)
	got := []int32{}
	if o.Expire(1, func(request int32) { got = append(got, request) }); !slices.Equal(got, []int32{late}) {
		t.Fatalf("%v are dropped, want the request that waits", got)
	}
	for b := o.Next(); !b.Empty(); b = o.Next() {
		for i := range b.Sub {
			if len(b.Sub[i].Prefill) > 0 {
				t.Fatalf("step %d has the prompt of a request that was dropped", b.Step)
			}
		}
		o.Complete(count)
	}
	if o.InSystem() != 0 || o.UsedUnits() != 0 || ended == 0 {
		t.Errorf("%d requests and %d units of both memories are left", o.InSystem(), o.UsedUnits())
	}
}
