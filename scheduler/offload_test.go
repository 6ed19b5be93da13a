package scheduler

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// lines is the costs of a host and GPUs that are linear in everything. An iteration of two
// sub-batches is NEO's: each side of a layer waits for the other.
type lines struct{ weights, token, context, host, hostContext, move units.Duration }

func (l lines) Linear(tokens int) units.Duration {
	if tokens == 0 {
		return 0
	}
	return l.weights + l.token*units.Duration(tokens)
}

func (l lines) Attention(s *SubBatch, step int64) units.Duration {
	t := l.context * units.Duration(s.PrefillTokens())
	for i := range s.Decode {
		t += l.context * units.Duration(s.Decode[i].Context(step))
	}
	return t
}

func (l lines) HostAttention(requests int, tokens int64) units.Duration {
	if requests == 0 {
		return 0
	}
	return l.host + l.hostContext*units.Duration(tokens)
}

func (l lines) Move(tokens int) units.Duration { return l.move * units.Duration(tokens) }

func (l lines) Iteration(b *Batch) units.Duration {
	var linear, gpu, host [2]units.Duration
	for i := range b.Sub {
		s := &b.Sub[i]
		var contexts int64
		for k := range s.Host {
			contexts += int64(s.Host[k].Context(b.Step))
		}
		linear[i], gpu[i], host[i] = l.Linear(s.Tokens()), l.Attention(s, b.Step), l.HostAttention(len(s.Host), contexts)
	}
	layer := max(linear[0]+gpu[0], host[1]) + max(linear[1], host[0])
	if linear[1] == 0 {
		layer = linear[0] + max(gpu[0], host[0])
	}
	return max(units.Duration(smallModel.Layers)*layer, b.Moves.Up.Wait, b.Moves.Down.Wait)
}

func (l lines) Idle(b *Batch) (up, down units.Duration) { return l.Iteration(b), l.Iteration(b) }

// record follows every request of an Offload.
type record struct {
	*follower
	sits    map[int32]bool
	decodes map[int32]bool // in their decode phase

	alone, helped, up, down, waits, pauses, drops, alike, turns, fits int
	patience
}

// check applies one batch: all requests in their decode phase take part or sit out,
// with the contexts that they have.
func (f *record) check(t *rapid.T, b *Batch, dropped bool) {
	for _, p := range b.Pauses {
		if f.sits[p.Request] != p.Ends || !f.decodes[p.Request] {
			t.Fatalf("iteration %d: %+v of a request that sits out: %v, decodes: %v", b.Step, p, f.sits[p.Request], f.decodes[p.Request])
		}
		f.sits[p.Request] = !p.Ends
		f.pauses++
	}
	if starts := func(p Pause) bool { return !p.Ends }; b.Moves.Down.Tokens > 0 && !dropped && !slices.ContainsFunc(b.Pauses, starts) {
		t.Fatalf("iteration %d: %d tokens move to the host, and no request sits out", b.Step, b.Moves.Down.Tokens)
	}
	took, host := 0, 0
	for i := range b.Sub {
		s := &b.Sub[i]
		for _, d := range append(append([]Decoding(nil), s.Decode...), s.Host...) {
			if f.sits[d.Request] || !f.decodes[d.Request] {
				t.Fatalf("iteration %d: request %d decodes and sits out: %v, has its prompt: %v", b.Step, d.Request, f.sits[d.Request], f.decodes[d.Request])
			}
			r := &f.requests[d.Request]
			if got, want := d.Context(b.Step), r.Input+f.emitted[d.Request]; got != want {
				t.Fatalf("request %d attends over %d tokens, want %d", d.Request, got, want)
			}
			f.emitted[d.Request]++
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
	prompts := Batch{Step: b.Step}
	for i := range b.Sub {
		prompts.Sub = append(prompts.Sub, SubBatch{Prefill: b.Sub[i].Prefill})
	}
	f.follower.check(t, &prompts)
}

// count notes what kind of iteration b is, for the test to know that there were all.
func (f *record) count(b *Batch, took, host int) {
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

// TestOffloadLaws runs random requests to the end under random costs and memories:
// every token once, contexts right after any number of steps sat out and of moves,
// no memory above its capacity and both empty at the end. Who sits out on the host has a turn
// before long, turns and help cost no more than they may, and who waits longest moves up first.
// Until the host is used, the iterations are those of the GPUs alone.
func TestOffloadLaws(t *testing.T) {
	var all record
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range 100 { // so that few cases meet all that is counted
			f := runOffload(t, rng)
			all.alone += f.alone
			all.helped += f.helped
			all.up += f.up
			all.down += f.down
			all.waits += f.waits
			all.pauses += f.pauses
			all.drops += f.drops
			all.alike += f.alike
			all.turns += f.turns
			all.fits += f.fits
		}
	})
	if all.alone == 0 || all.helped == 0 || all.up == 0 || all.down == 0 || all.waits == 0 || all.pauses == 0 || all.drops == 0 || all.alike == 0 || all.turns == 0 || all.fits == 0 {
		t.Errorf("iterations of the GPUs alone %d, with help %d; moves up %d, down %d, waited for %d; pauses %d, preemptions %d; like those of the GPUs alone %d; turns %d, times that requests fitted %d",
			all.alone, all.helped, all.up, all.down, all.waits, all.pauses, all.drops, all.alike, all.turns, all.fits)
	}
}

// runOffload runs one random system.
func runOffload(t *rapid.T, rng *rand.Rand) *record {
	between := func(low, high int) int { return low + rng.IntN(high-low+1) }
	var requests []traces.Request
	for i := range between(1, 30) {
		requests = append(requests, request(i, between(1, 200), between(1, 60)))
	}
	spec := &Spec{SubBatches: 2, Chunking: true, ChunkMultiple: oneFrom(rng, 1, 16), MinPrefillTokens: 1}
	memory := &MemorySpec{Admission: oneFrom(rng, AdmitFinal, AdmitCurrent, AdmitMax), MaxTokens: 128, Watermark: oneFrom(rng, 0, 0.1, 0.5), History: oneFrom(rng, 0, 0, 3, 1000), Margin: oneFrom(rng, 0.0, 1, 3)}
	pages := LedgerSpec{Ranksets: 1, Layers: smallModel.Layers, HeadsPerChannel: 2, UnitTokens: oneFrom(rng, 1, 16), Capacity: int64(between(1, 10_000))}
	gpus := NewLedger(pages)
	pages.Capacity = int64(between(0, 10_000))
	host := NewLedger(pages)
	time := func(high int) units.Duration { return units.Duration(between(0, high)) }
	costs := lines{1 + time(2000), time(20), time(3), time(200), time(5), time(200)}
	batching := &BatchingSpec{MaxBatchTokens: between(16, 400), PageTokens: 16, MaxNumSeqs: oneFrom(rng, 0, 0, 1, 2, 5)}
	free := GPUMemory{Model: smallModel, Free: smallModel.ActivationBytes(between(16, 500)), HoldsKV: true}
	c := Config{Policy: oneFrom(rng, PolicyPrefillFirst, PolicyChunkedPrefill), Scheduler: spec, Memory: memory, Comm: &CommSpec{Balance: BalanceLeastLoaded}, Batching: batching}
	s := NewOffload(New(c, requests, gpus, free, nil, rand.New(rand.NewPCG(1, 2))), OffloadConfig{Host: host, Costs: costs, AllOnHost: rng.IntN(4) == 0, MaxDelay: oneFrom(rng, 0.001, 0.03, 1)})
	rejected := 0
	for i := range requests {
		if !s.Add(int32(i)) {
			rejected++
		}
	}
	f := &record{follower: newFollower(requests), sits: map[int32]bool{}, decodes: map[int32]bool{}, patience: patience{waited: map[int32]units.Duration{}, most: map[int32]units.Duration{}}}
	plain := gpusAlone(c, requests, pages, gpus.capacity, free)
	for range 100_000 {
		b := s.Next()
		if s.AllOnHost || host.Used() > 0 {
			plain = nil
		}
		if plain != nil {
			sameBatch(t, b, plain.Next())
		}
		for _, gone := range s.Preempted() {
			f.preempt(t, gone)
			f.decodes[gone.Request], f.sits[gone.Request] = false, false
			f.drops++
			delete(f.waited, gone.Request)
		}
		if b.Empty() {
			break
		}
		if w := s.queue[s.head:]; len(w) > 0 && !s.overtakes(&w[0]) && s.gpusHold(&requests[w[0].request]) {
			checkForecast(t, s.Scheduler, f.follower)
		}
		for i := range s.hosted {
			if h, r := &s.hosted[i], s.hosted[i].Request; b.Decoding() > 0 && h.context(b.Step) != requests[r].Input+f.emitted[r] {
				t.Fatalf("iteration %d: request %d is taken to attend over %d tokens next, after %d", b.Step, r, h.context(b.Step), requests[r].Input+f.emitted[r]-1)
			}
		}
		f.check(t, b, len(s.Preempted()) > 0)
		f.wait(t, s, costs, b)
		if s.turn != nobody {
			f.turns++
		}
		if !s.AllOnHost && s.dealt == b.Step && hidden(t, s, costs, b) {
			f.fits++
		}
		if !sort.SliceIsSorted(s.moving, func(i, k int) bool { return s.moving[i].Request < s.moving[k].Request }) ||
			len(s.moving) > 0 && s.movable > 0 && s.hosted[s.firstMovable()].Request < s.moving[0].Request {
			t.Fatalf("iteration %d: %v swap in before older ones of %v", b.Step, s.moving, s.hosted)
		}
		if most := batching.MaxNumSeqs; most > 0 && b.Decoding() > most {
			t.Fatalf("%d requests decode, at most %d may", b.Decoding(), most)
		}
		if n, most := len(s.hosted)+s.prefilling(true), batching.MaxNumSeqs; s.AllOnHost && most > 0 && n > most {
			t.Fatalf("%d requests have memory on the host, where all decode, at most %d may", n, most)
		}
		if err := errors.Join(s.CheckMemory(), s.CheckAdmission()); err != nil {
			t.Fatal(err)
		}
		if s.head < len(s.queue) && s.queue[s.head].hold.Host && s.queue[s.head].held && s.queue[s.head].finished == 0 {
			t.Fatalf("request %d has memory on the host, and its prompt has not begun", s.queue[s.head].request)
		}
		if plain != nil {
			plain.Complete(func(int32, int) {})
			f.alike++
		}
		s.Complete(func(r int32, tokens int) {
			if f.emitted[r] != tokens {
				t.Fatalf("request %d has %d tokens, the scheduler says %d", r, f.emitted[r], tokens)
			}
			f.decodes[r] = tokens < requests[r].Output
		})
	}
	done := 0
	for i := range requests {
		if f.emitted[i] == requests[i].Output {
			done++
		}
	}
	checkLengths(t, s.Scheduler, f.follower)
	if done+rejected != len(requests) || s.Waiting() > 0 || s.UsedUnits() != 0 {
		t.Fatalf("%d done and %d rejected of %d; %d wait, %d units are in use", done, rejected, len(requests), s.Waiting(), s.UsedUnits())
	}
	return f
}

// gpusAlone returns a scheduler of the GPUs without a host, nil where these cannot hold
// all requests.
func gpusAlone(c Config, requests []traces.Request, pages LedgerSpec, capacity int64, free GPUMemory) *Scheduler {
	spec := *c.Scheduler
	spec.SubBatches, pages.Capacity, c.Scheduler = 1, capacity, &spec
	s := New(c, requests, NewLedger(pages), free, nil, nil)
	if addAll(s, len(requests)) > 0 {
		return nil
	}
	return s
}

// sameBatch checks that an iteration is that of the GPUs alone.
func sameBatch(t *rapid.T, b, alone *Batch) {
	if !slices.Equal(b.Sub[0].Prefill, alone.Sub[0].Prefill) || !slices.Equal(b.Sub[0].Decode, alone.Sub[0].Decode) || b.Sub[1].Tokens() > 0 || b.Step != alone.Step {
		t.Fatalf("the host is not used, and iteration %d is\n%+v, on the GPUs alone %d is\n%+v", b.Step, b.Sub[0], alone.Step, alone.Sub[0])
	}
}

// TestCutPromptStays: a prompt that is cut and bound for the host, but lies on the GPUs,
// stays there where they have room for its request, and no older one waits for that.
func TestCutPromptStays(t *testing.T) {
	for _, c := range []struct {
		name     string
		capacity int64
		older    bool
		stays    bool
	}{{"room", 150, false, true}, {"no room", 149, false, false}, {"an older one waits", 150, true, false}} {
		spec := LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 1, Capacity: c.capacity}
		gpus := NewLedger(spec)
		spec.Capacity = 1000
		config := Config{
			Policy: PolicyChunkedPrefill, Scheduler: &Spec{SubBatches: 2, Chunking: true, ChunkMultiple: 1}, Memory: &MemorySpec{Admission: AdmitFinal},
			Comm: &CommSpec{Balance: BalanceLeastLoaded}, Batching: &BatchingSpec{MaxBatchTokens: 10},
		}
		free := GPUMemory{Model: smallModel, Free: 1 << 30, HoldsKV: true}
		s := New(config, []traces.Request{request(0, 40, 3), request(1, 100, 11)}, gpus, free, nil, nil)
		o := NewOffload(s, OffloadConfig{Host: NewLedger(spec), Costs: lines{1, 1, 1, 1, 1, 1}})
		take := func(l *Ledger, tokens int) Reservation {
			r, _ := l.Reserve(prompted(tokens), 0, nil, BalanceLeastLoaded, nil)
			r.Host = l == o.Host
			return r
		}
		take(gpus, 40) // of another that decodes
		o.queue = []waiting{{request: 1, prompt: 100, finished: 50, cut: true, held: true, hold: take(o.Host, 110), staged: take(gpus, 100)}}
		if c.older {
			o.holds[0] = take(o.Host, 42)
			o.enter(Decoding{Request: 0, Base: 41, Last: 2})
		}
		onHost := o.Host.Used()
		o.stayOnGPUs()
		w := &o.queue[0]
		used, host := int64(140), onHost
		if c.stays {
			used, host = 150, onHost-110
		}
		if w.hold.Host == c.stays || gpus.Used() != used || o.Host.Used() != host {
			t.Errorf("%s: holds %+v; %d units of the GPUs and %d of the host, want %d and %d", c.name, w.hold, gpus.Used(), o.Host.Used(), used, host)
		}
	}
}
