package offload

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"sort"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// record follows every request of an Offload.
type record struct {
	*schedtest.Follower
	forecast *memory.Forecast // rebuilt as a scheduler should have it
	foreseen int              // forecasts that were compared
	sits     map[int32]bool
	decodes  map[int32]bool // in their decode phase

	alone, helped, up, down, waits, pauses, drops, alike, turns, fits int
	patience
}

// check applies one batch. All requests in their decode phase take part or sit out, with the right contexts. One
// that moves to the host sits out, unless its move ends at once: it takes no time, or the request was preempted.
func (f *record) check(t rapid.TB, b *scheduler.Batch, atOnce bool) {
	for _, p := range b.Pauses {
		if f.sits[p.Request] != p.Ends || !f.decodes[p.Request] {
			t.Fatalf("iteration %d: %+v of a request that sits out: %v, decodes: %v", b.Step, p, f.sits[p.Request], f.decodes[p.Request])
		}
		f.sits[p.Request] = !p.Ends
		f.pauses++
	}
	if starts := func(p scheduler.Pause) bool { return !p.Ends }; b.Moves.Down.Tokens > 0 && b.Moves.Down.Wait == 0 && !atOnce && !slices.ContainsFunc(b.Pauses, starts) {
		t.Fatalf("iteration %d: %d tokens move to the host, and no request sits out", b.Step, b.Moves.Down.Tokens)
	}
	took, host := 0, 0
	for i := range b.Sub {
		s := &b.Sub[i]
		for _, d := range append(append([]scheduler.Decoding(nil), s.Decode...), s.Host...) {
			if f.sits[d.Request] || !f.decodes[d.Request] {
				t.Fatalf("iteration %d: request %d decodes and sits out: %v, has its prompt: %v", b.Step, d.Request, f.sits[d.Request], f.decodes[d.Request])
			}
			r := &f.Requests[d.Request]
			if got, want := d.Context(b.Step), r.Input+f.Emitted[d.Request]; got != want {
				t.Fatalf("request %d attends over %d tokens, want %d", d.Request, got, want)
			}
			f.Emitted[d.Request]++
			took++
		}
		host += len(s.Host)
	}
	expected := 0
	for r := range f.decodes {
		if f.decodes[r] && !f.sits[r] {
			expected++
		}
	}
	if took > 0 && took != expected {
		t.Fatalf("iteration %d: %d requests decode, %d neither do nor sit out", b.Step, took, expected-took)
	}
	f.count(b, took, host)
	prompts := scheduler.Batch{Step: b.Step}
	for i := range b.Sub {
		prompts.Sub = append(prompts.Sub, scheduler.SubBatch{Prefill: b.Sub[i].Prefill})
	}
	schedtest.MustHold(t, f.Follower.Check(&prompts))
}

// count notes what kind of iteration b is, so that the test knows that all occurred.
func (f *record) count(b *scheduler.Batch, took, host int) {
	if host > 0 {
		f.helped++
	} else if took > 0 {
		f.alone++
	}
	if b.Moves.Up.Tokens > 0 {
		f.up++
	}
	if b.Moves.Down.Tokens > 0 {
		f.down++
	}
	if b.Moves.Up.Wait > 0 || b.Moves.Down.Wait > 0 {
		f.waits++
	}
}

// TestOffloadLaws runs random requests to the end under random costs and memories. Every token is
// emitted once, contexts are right after any steps sat out and any moves, no memory exceeds its
// capacity, and both are empty at the end. Requests that sit out on the host soon get a turn, turns
// and help cost no more than allowed, and the one that waits longest moves up first. Until the host
// is used, the iterations are those of the GPUs alone.
func TestOffloadLaws(t *testing.T) {
	var all record
	run := func(t rapid.TB, rng *rand.Rand) {
		for range deep.Of(20, 100, 100) {
			all.add(runOffload(t, rng))
		}
	}
	rapid.Check(t, func(t *rapid.T) { run(t, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))) })
	fixed := rand.New(rand.NewPCG(1, 1))
	for n := 0; n < 100 && !all.met(); n++ { // a quick run's few draws may not meet the rare ones
		run(t, fixed)
	}
	if !all.met() {
		t.Errorf("iterations of the GPUs alone %d, with help %d; moves up %d, down %d, waited for %d; pauses %d, preemptions %d; like those of the GPUs alone %d; turns %d, times that requests fitted %d, forecasts %d",
			all.alone, all.helped, all.up, all.down, all.waits, all.pauses, all.drops, all.alike, all.turns, all.fits, all.foreseen)
	}
}

// add sums what two records counted.
func (f *record) add(g *record) {
	f.alone += g.alone
	f.helped += g.helped
	f.up += g.up
	f.down += g.down
	f.waits += g.waits
	f.pauses += g.pauses
	f.drops += g.drops
	f.alike += g.alike
	f.turns += g.turns
	f.fits += g.fits
	f.foreseen += g.foreseen
}

// met reports whether everything that a record counts happened.
func (f *record) met() bool {
	return min(f.alone, f.helped, f.up, f.down, f.waits, f.pauses, f.drops, f.alike, f.turns, f.fits, f.foreseen) > 0
}

// runOffload runs one random system.
func runOffload(t rapid.TB, rng *rand.Rand) *record {
	x := drawSystem(rng)
	requests, costs, c := x.requests, x.costs, x.config
	s := x.start(requests)
	rejected := 0
	for i := range requests {
		if !s.Add(int32(i)) {
			rejected++
		}
	}
	f := &record{Follower: schedtest.NewFollower(requests), forecast: memory.NewForecast(c.Memory, 1), sits: map[int32]bool{}, decodes: map[int32]bool{}, patience: patience{waited: map[int32]units.Duration{}, most: map[int32]units.Duration{}}}
	plain := x.gpusAlone()
	for range 100_000 {
		before := s.Queue.Refusal
		b := s.Next()
		if s.AllOnHost || s.HostLedger.Used() > 0 {
			plain = nil
		}
		if plain != nil {
			sameBatch(t, b, plain.Next())
		}
		for _, gone := range s.Preempted() {
			schedtest.MustHold(t, f.Preempt(gone))
			f.decodes[gone.Request], f.sits[gone.Request] = false, false
			f.drops++
			delete(f.waited, gone.Request)
		}
		if b.Empty() {
			break
		}
		if s.Queue.Refusal != before && (c.Policy == scheduler.PolicyChunkedPrefill || b.Decoding() == 0) { // refused in the step that b has
			f.checkForecast(t, &s.State)
		}
		for i := range s.Host.Decoding {
			if h, r := &s.Host.Decoding[i], s.Host.Decoding[i].Request; b.Decoding() > 0 && h.NextContext(b.Step) != requests[r].Input+f.Emitted[r] {
				t.Fatalf("iteration %d: request %d is taken to attend over %d tokens next, after %d", b.Step, r, h.NextContext(b.Step), requests[r].Input+f.Emitted[r]-1)
			}
		}
		f.check(t, b, len(s.Preempted()) > 0 || costs.move == 0)
		f.wait(t, s, costs, b)
		if s.o.turns.request != nobody {
			f.turns++
		}
		if !s.AllOnHost && s.Dealt == b.Step && hidden(t, s.o, costs, b) {
			f.fits++
		}
		swaps, at := s.Host.SwapIns, firstMovable(&s.State)
		if !sort.SliceIsSorted(swaps, func(i, k int) bool { return swaps[i].Request < swaps[k].Request }) ||
			len(swaps) > 0 && at >= 0 && s.Host.Decoding[at].Request < swaps[0].Request {
			t.Fatalf("iteration %d: %v swap in before older ones of %v", b.Step, swaps, s.Host.Decoding)
		}
		if most := c.Batching.MaxNumSeqs; most > 0 && b.Decoding() > most {
			t.Fatalf("%d requests decode, at most %d may", b.Decoding(), most)
		}
		n, most := len(s.Host.Decoding), c.Batching.MaxNumSeqs
		s.EachPrefilling(true, func(*batching.Waiting) { n++ })
		if s.AllOnHost && most > 0 && n > most {
			t.Fatalf("%d requests have memory on the host, where all decode, at most %d may", n, most)
		}
		if err := errors.Join(s.CheckMemory(), s.CheckAdmission(), s.CheckWaits()); err != nil {
			t.Fatal(err)
		}
		if held := s.Queue.Held(); len(held) > 0 && held[0].Hold.Host && !held[0].Cut {
			t.Fatalf("request %d has memory on the host, and its prompt has not begun", held[0].Request)
		}
		if plain != nil {
			plain.Complete(func(int32, int) {})
			f.alike++
		}
		s.Complete(func(r int32, tokens int) {
			if f.Emitted[r] != tokens {
				t.Fatalf("request %d has %d tokens, the scheduler says %d", r, f.Emitted[r], tokens)
			}
			if f.decodes[r] = tokens < requests[r].Output; !f.decodes[r] {
				f.forecast.Ended(tokens)
			}
		})
	}
	done := 0
	for i := range requests {
		if f.Emitted[i] == requests[i].Output {
			done++
		}
	}
	if done+rejected != len(requests) || s.Waiting() > 0 || s.UsedUnits() != 0 {
		t.Fatalf("%d done and %d rejected of %d; %d wait, %d units are in use", done, rejected, len(requests), s.Waiting(), s.UsedUnits())
	}
	return f
}

// checkForecast checks the forecast that refused the head of the queue for growth in this iteration. It must be of the
// lengths that have ended and of the requests with memory of the GPUs, including those that swap in, with the tokens that
// they emitted before the iteration.
func (f *record) checkForecast(t rapid.TB, s *batching.State) {
	if !s.Queue.Blocked || s.Queue.Len() == 0 || s.Queue.Refusal.Cause != batching.NoGrowth {
		return
	}
	w := s.Queue.First()
	if s.Overtakes(w) || !s.GPUsHold(w.Request, w.Prompt) {
		return
	}
	f.foreseen++
	f.forecast.Clear()
	add := func(request int32, hold memory.Reservation) {
		f.forecast.AddHolder(&hold, f.Requests[request].Input, f.Emitted[request])
	}
	for i := range s.Decoding {
		add(s.Decoding[i].Request, s.Holds[s.Decoding[i].Request])
	}
	for i := range s.Host.SwapIns {
		add(s.Host.SwapIns[i].Request, s.Holds[s.Host.SwapIns[i].Request])
	}
	s.EachPrefilling(false, func(w *batching.Waiting) { add(w.Request, w.Hold) })
	add(w.Request, memory.Reservation{})
	f.forecast.Foresee(s.Ledger)
	if got := s.Foresee(w, false); !reflect.DeepEqual(got, f.forecast) {
		t.Fatalf("the forecast is %+v, want %+v", got, f.forecast)
	}
}

// TestCutPromptStays: a cut prompt for the host, which lies on the GPUs, stays there if they have
// room for its request and no older one waits for that.
func TestCutPromptStays(t *testing.T) {
	for _, c := range []struct {
		name     string
		capacity int64
		older    bool
		stays    bool
	}{{"room", 150, false, true}, {"no room", 149, false, false}, {"an older one waits", 150, true, false}} {
		spec := memory.LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 1, Capacity: c.capacity}
		gpus := memory.NewLedger(spec)
		spec.Capacity = 1000
		config := batching.Config{
			Policy: scheduler.PolicyChunkedPrefill, Scheduler: &scheduler.Spec{SubBatches: 2, Chunking: true, ChunkMultiple: 1}, Memory: &scheduler.MemorySpec{Admission: scheduler.AdmitFinal},
			Comm: &scheduler.CommSpec{Balance: scheduler.BalanceLeastLoaded}, Batching: &scheduler.BatchingSpec{MaxBatchTokens: 10},
		}
		free := memory.GPU{Model: schedtest.SmallModel, Free: 1 << 30, HoldsKV: true}
		memories := batching.Memories{Ledger: gpus, GPU: free, HostLedger: memory.NewLedger(spec)}
		s := newOffloading(config, memories, []traces.Request{{ID: 0, Input: 40, Output: 3}, {ID: 1, Input: 100, Output: 11}}, lines{1, 1, 1, 1, 1, 1}, 0)
		s.o.s = &s.State
		take := func(l *memory.Ledger, tokens int) memory.Reservation {
			r, _ := l.Reserve(memory.Prompted(tokens), nil, 0, nil)
			r.Host = l == s.HostLedger
			return r
		}
		take(gpus, 40) // of another that decodes
		s.Add(1)
		w := s.Queue.First()
		w.Cut, w.Hold, w.Staged = true, take(s.HostLedger, 110), take(gpus, 100)
		if c.older {
			s.Holds[0] = take(s.HostLedger, 42)
			s.Enter(scheduler.Decoding{Request: 0, Base: 41, Last: 2})
		}
		onHost := s.HostLedger.Used()
		s.o.stayOnGPUs()
		used, host := int64(140), onHost
		if c.stays {
			used, host = 150, onHost-110
		}
		if w.Hold.Host == c.stays || gpus.Used() != used || s.HostLedger.Used() != host {
			t.Errorf("%s: holds %+v; %d units of the GPUs and %d of the host, want %d and %d", c.name, w.Hold, gpus.Used(), s.HostLedger.Used(), used, host)
		}
	}
}

// TestForecastOfTheHost is TestForecastPreventsThrashing with requests that all decode on the host.
func TestForecastOfTheHost(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 0))
	var requests []traces.Request
	for i := range 400 {
		requests = append(requests, traces.Request{ID: i, Input: 1 + r.IntN(40), Output: 1 + int(r.ExpFloat64()*200)})
	}
	serve := func(history, known int) float64 {
		admission := &scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: 2048, Watermark: 0.01, History: history, Margin: 2}
		host := memory.NewLedger(memory.LedgerSpec{Ranksets: 1, Layers: schedtest.SmallModel.Layers, HeadsPerChannel: 2, UnitTokens: 16, Capacity: int64(400 * schedtest.SmallModel.Layers * 2)})
		pages := memory.LedgerSpec{Ranksets: 1, Layers: schedtest.SmallModel.Layers, HeadsPerChannel: 2, UnitTokens: 16, Capacity: 1 << 20}
		config := batching.Config{
			Policy: scheduler.PolicyChunkedPrefill, Scheduler: &scheduler.Spec{SubBatches: 2, Chunking: true, ChunkMultiple: 16}, Memory: admission,
			Comm: &scheduler.CommSpec{Balance: scheduler.BalanceLeastLoaded}, Batching: &scheduler.BatchingSpec{MaxBatchTokens: 500},
		}
		memories := batching.Memories{Ledger: memory.NewLedger(pages), GPU: memory.GPU{Model: schedtest.SmallModel, Free: 1 << 40, HoldsKV: true}, HostLedger: host, AllOnHost: true}
		s := newOffloading(config, memories, requests, lines{2000, 20, 3, 200, 5, 200}, 0)
		earlier := rand.New(rand.NewPCG(6, 0))
		for range known {
			s.Learn(1 + int(earlier.ExpFloat64()*200))
		}
		for i := range requests {
			s.Add(int32(i))
		}
		for b := s.Next(); !b.Empty(); b = s.Next() {
			s.Complete(func(int32, int) {})
		}
		return float64(s.Preemptions) / float64(len(requests))
	}
	with, begun, without := serve(1000, 50), serve(1000, 0), serve(0, 0)
	if with > 0.1 || begun > without/2 || without < 1 {
		t.Errorf("%.3f preemptions a request, %.3f from nothing known, %.2f without a forecast", with, begun, without)
	}
}
