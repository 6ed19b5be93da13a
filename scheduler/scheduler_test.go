package scheduler

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// linear is a predictor with a cost a token on either side.
type linear struct{ gpuToken, gpuFixed, pimToken units.Duration }

func (l linear) GPU(s *SubBatch, _ int64) units.Duration {
	return l.gpuFixed + l.gpuToken*units.Duration(s.Tokens())
}

func (l linear) PIM(s *SubBatch, iteration int64, _ int) units.Duration {
	var t units.Duration
	for i := range s.Decode {
		t += l.pimToken * units.Duration(s.Decode[i].Context(iteration))
	}
	return t
}

// smallModel has 64 B of KV and a few hundred bytes of activations a token.
var smallModel = &llm.Model{
	Layers: 4, Hidden: 16, Heads: 2, KVHeads: 2, HeadDim: 8, FFNHidden: 64, Vocab: 10, ElementBits: 8, TensorParallel: 1,
}

func request(id, in, out int) traces.Request { return traces.Request{ID: id, Input: in, Output: out} }

func addAll(s *Scheduler, n int) (rejected int) {
	for i := range n {
		if !s.Add(int32(i)) {
			rejected++
		}
	}
	return rejected
}

// follower checks what a scheduler does against the laws of serving.
type follower struct {
	requests  []traces.Request
	prefilled []int
	emitted   []int
	last      []int64 // iteration of the request's latest token
	// recomputed is the sum of the contexts of tokens that came out of a prompt
	// which held tokens emitted before.
	recomputed int64
}

func newFollower(requests []traces.Request) *follower {
	n := len(requests)
	return &follower{requests: requests, prefilled: make([]int, n), emitted: make([]int, n), last: make([]int64, n)}
}

// check applies one batch.
func (f *follower) check(t *rapid.T, b *Batch) {
	seen := map[int32]bool{}
	once := func(r int32) {
		if seen[r] {
			t.Fatalf("iteration %d runs request %d twice", b.Step, r)
		}
		seen[r] = true
	}
	cut := 0
	for s := range b.Sub {
		for _, d := range b.Sub[s].Decode {
			once(d.Request)
			f.decode(t, b, d)
		}
		for i, c := range b.Sub[s].Prefill {
			once(c.Request)
			r := &f.requests[c.Request]
			prompt := r.Input + f.emitted[c.Request]
			if c.Finished == 0 { // again where it was dropped before its prompt ended
				f.prefilled[c.Request] = 0
			}
			if c.Tokens < 1 || c.Finished != f.prefilled[c.Request] || c.Finished+c.Tokens > prompt {
				t.Fatalf("chunk %+v of a prompt of %d with %d prefilled", c, prompt, f.prefilled[c.Request])
			}
			f.prefilled[c.Request] += c.Tokens
			if c.Last != (f.prefilled[c.Request] == prompt) {
				t.Fatalf("chunk %+v: the prompt has %d of %d", c, f.prefilled[c.Request], prompt)
			}
			if c.Last {
				if f.emitted[c.Request] > 0 {
					f.recomputed += int64(prompt)
				}
				f.emitted[c.Request]++
				f.last[c.Request] = b.Step
			} else if cut++; i != len(b.Sub[s].Prefill)-1 {
				t.Fatalf("chunk %+v is cut and not the last of its sub-batch", c)
			}
		}
	}
	if cut > len(b.Sub) {
		t.Fatalf("%d prompts are cut in %d sub-batches", cut, len(b.Sub))
	}
}

// preempt checks that a request that lost its memory had what it is said to have
// had; its prompt starts again, with the tokens emitted.
func (f *follower) preempt(t *rapid.T, p Preemption) {
	if f.emitted[p.Request] != p.Tokens {
		t.Fatalf("%+v had %d tokens", p, f.emitted[p.Request])
	}
	f.prefilled[p.Request] = 0
}

func (f *follower) decode(t *rapid.T, b *Batch, d Decoding) {
	r := &f.requests[d.Request]
	if f.emitted[d.Request] == 0 || f.last[d.Request] != b.Step-1 {
		t.Fatalf("request %d decodes in iteration %d, its latest token was in %d", d.Request, b.Step, f.last[d.Request])
	}
	if got, want := d.Context(b.Step), r.Input+f.emitted[d.Request]; got != want {
		t.Fatalf("request %d attends over %d tokens, want %d", d.Request, got, want)
	}
	f.emitted[d.Request]++
	f.last[d.Request] = b.Step
}

// TestLaws runs random requests to the end under random costs and memories:
// every request prefills its prompt in order and once, decodes in every
// iteration after it until its output is complete, and memory returns to zero.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range 20 { // a run takes microseconds
			runRandom(t, rng)
		}
	})
}

// runRandom runs one random system. Its sizes are uniform: most that rapid draws
// are 1 or 2, and such requests never fill a memory and are never cut.
func runRandom(t *rapid.T, rng *rand.Rand) {
	between := func(low, high int) int { return low + rng.IntN(high-low+1) }
	flip := func() bool { return rng.IntN(2) == 1 }
	var requests []traces.Request
	for i := range between(1, 30) {
		requests = append(requests, request(i, between(1, 200), between(1, 60)))
	}
	spec := &Spec{
		Adaptive: flip(), SubBatches: between(1, 2), Chunking: flip(),
		ChunkMultiple: oneFrom(rng, 1, 16), MinPrefillTokens: between(1, 100),
	}
	memory := &MemorySpec{
		Admission: oneFrom(rng, AdmitFinal, AdmitCurrent, AdmitMax), MaxTokens: 128,
		Watermark: oneFrom(rng, 0, 0.1, 0.5), History: oneFrom(rng, 0, 0, 3, 1000), Margin: oneFrom(rng, 0.0, 1, 3),
	}
	comm := &CommSpec{Balance: oneFrom(rng, Balances()...)}
	ledger := NewLedger(LedgerSpec{
		Ranksets: between(1, 5), Layers: smallModel.Layers, HeadsPerChannel: 2, UnitTokens: 32,
		Capacity: int64(between(1, 240)), Rotation: flip(),
	})
	gpu := GPUMemory{Model: smallModel, Free: units.Bytes(between(0, 200_000))}
	p := linear{
		units.Duration(between(1, 20)), units.Duration(between(0, 500)), units.Duration(between(0, 5)),
	}
	policy := oneFrom(rng, PolicySubBatches, PolicySubBatches, PolicyPrefillFirst, PolicyChunkedPrefill)
	batching := &BatchingSpec{MaxBatchTokens: between(1, 400), PageTokens: 16, MaxNumSeqs: oneFrom(rng, 0, 0, 1, 2, 5)}
	if policy != PolicySubBatches {
		spec.Chunking, gpu.HoldsKV = true, flip()
	}
	s := New(Config{Policy: policy, Scheduler: spec, Memory: memory, Comm: comm, Batching: batching}, requests, ledger, gpu, p, rand.New(rand.NewPCG(1, 2)))
	rejected := addAll(s, len(requests))
	f := newFollower(requests)
	for range 100_000 {
		b := s.Next()
		if ledger.Used() > ledger.Capacity() {
			t.Fatalf("%d units in use of %d", ledger.Used(), ledger.Capacity())
		}
		if b.Empty() {
			break
		}
		if err := errors.Join(s.CheckMemory(), s.CheckAdmission()); err != nil {
			t.Fatal(err)
		}
		for _, gone := range s.Preempted() {
			f.preempt(t, gone)
		}
		checkForecast(t, s, f)
		f.check(t, b)
		checkPolicy(t, s)
		if most := batching.MaxNumSeqs; most > 0 && (b.Decoding() > most || s.running() > most) {
			t.Fatalf("%d requests decode of %d that run, at most %d may", b.Decoding(), s.running(), most)
		}
		s.Complete(func(r int32, tokens int) {
			if f.emitted[r] != tokens {
				t.Fatalf("request %d has %d tokens, the scheduler says %d", r, f.emitted[r], tokens)
			}
		})
		s.chunked = s.chunked[:0] // its batch is over
		if want := s.cutPrompts(); s.kvOnGPU != want {
			t.Fatalf("iteration %d: %d tokens reserved on the GPU, the cut prompts have %d", b.Step, s.kvOnGPU, want)
		}
	}
	if s.Waiting() > 0 {
		t.Fatalf("%d requests wait forever", s.Waiting())
	}
	if got := s.RecomputedContexts(); got != f.recomputed {
		t.Fatalf("%d tokens of contexts computed again, want %d", got, f.recomputed)
	}
	done := 0
	for i := range requests {
		if f.emitted[i] == requests[i].Output {
			done++
		} else if f.emitted[i] != 0 {
			t.Fatalf("request %d emitted %d of %d tokens", i, f.emitted[i], requests[i].Output)
		}
	}
	if done+rejected != len(requests) || ledger.Used() != 0 || s.kvOnGPU != 0 {
		t.Fatalf("%d done and %d rejected of %d; %d units and %d tokens on the GPU left",
			done, rejected, len(requests), ledger.Used(), s.kvOnGPU)
	}
	checkLengths(t, s, f)
}

// checkPolicy checks what the policies of continuous batching promise of a batch.
func checkPolicy(t *rapid.T, s *Scheduler) {
	if s.policy == PolicySubBatches {
		return
	}
	prefill, prompts, decoding := 0, 0, s.batch.Decoding()
	for i := range s.batch.Sub {
		prefill += s.batch.Sub[i].PrefillTokens()
		prompts += len(s.batch.Sub[i].Prefill)
	}
	if s.policy == PolicyPrefillFirst && prefill > 0 && decoding > 0 {
		t.Fatalf("%d requests decode beside %d prompt tokens", decoding, prefill)
	}
	if decoding > 0 && decoding != len(s.decoding) {
		t.Fatalf("%d of %d requests decode", decoding, len(s.decoding))
	}
	// A prompt that fits the GPUs only as a whole may be longer.
	if prompts > 1 && prefill+decoding > s.batching.MaxBatchTokens {
		t.Fatalf("%d prompt tokens and %d decoding requests in a batch of at most %d tokens", prefill, decoding, s.batching.MaxBatchTokens)
	}
	if s.policy == PolicyPrefillFirst && prefill == 0 && len(s.gone) == 0 && s.prompts() {
		t.Fatalf("%d requests decode while a prompt waits that may find room", decoding)
	}
}

func oneFrom[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// TestChunkMeetsPIMTime puts a prompt beside a decoding request of the other
// sub-batch.
func TestChunkMeetsPIMTime(t *testing.T) {
	// One request decodes over 1,000 tokens: T_PIM = 1,000 a token of context.
	for _, c := range []struct {
		name     string
		before   int            // tokens of a prompt before the one that is cut
		pim      units.Duration // of the decoding request
		move     units.Duration // of 16 prompt tokens' keys and values
		min      int
		chunking bool
		want     int // tokens of the prompts
	}{
		{"the whole prompt fits", 0, 2000, 0, 1, true, 1000},
		{"cut down to the nearest multiple", 0, 325, 0, 1, true, 320},
		{"cut up to the nearest multiple", 0, 330, 0, 1, true, 336},
		{"the prompt's transfer lengthens the PIM's time", 0, 325, 8, 1, true, 656},
		{"so does that of the prompt before", 100, 325, 8, 1, true, 100 + 544}, // 100 + n = 325 + (100 + n) / 2 for n = 550
		{"the minimum where the PIM is idle", 0, 0, 0, 100, true, 112},
		{"the smaller of two that are as close", 0, 328, 0, 1, true, 320},
		{"none where they cannot be cut and the GPU has no time left", 0, 0, 0, 0, false, 0},
		{"whole where prompts cannot be cut", 0, 330, 0, 1, false, 1000},
	} {
		spec := &Spec{SubBatches: 2, Chunking: c.chunking, ChunkMultiple: 16, MinPrefillTokens: c.min}
		config := Config{Scheduler: spec, Memory: &MemorySpec{Admission: AdmitFinal, MaxTokens: 1}, Comm: &CommSpec{Balance: BalanceLeastLoaded}, Batching: &BatchingSpec{}}
		ledger := NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 1, Capacity: 1 << 40, Rotation: true})
		s := New(config, []traces.Request{request(0, 1, 5), request(1, c.before, 5), request(2, 1000, 5)}, ledger,
			GPUMemory{Model: smallModel, Free: 1 << 40}, fixed{c.pim, c.move}, nil)
		if c.before > 0 {
			s.Add(1)
		}
		s.Add(2)
		s.decoding = []Decoding{{Request: 0, Base: 1, Last: 10}} // in sub-batch 0
		b := s.Next()
		if b.Sub[1].PrefillTokens() != c.want || len(b.Sub[0].Prefill) > 0 {
			t.Errorf("%s: got %+v, want %d tokens", c.name, b.Sub[1].Prefill, c.want)
		}
	}
}

// fixed predicts one unit of GPU time a prompt token, and for the PIM a given time
// of decode attention and one for every 16 prompt tokens moved.
type fixed struct{ pim, move units.Duration }

func (f fixed) GPU(s *SubBatch, _ int64) units.Duration { return units.Duration(s.PrefillTokens()) }

func (f fixed) PIM(s *SubBatch, _ int64, otherPrefill int) units.Duration {
	t := f.move * units.Duration(otherPrefill) / 16
	if len(s.Decode) > 0 {
		t += f.pim
	}
	return t
}

func TestLedger(t *testing.T) {
	// 5 layers on 2 ranksets: three on the request's first rankset, two on the
	// other. 40 tokens of 32 a unit, 3 heads: 2 units a head and layer.
	spec := LedgerSpec{Ranksets: 2, Layers: 5, HeadsPerChannel: 3, UnitTokens: 32, Capacity: 30, Rotation: true}
	l := NewLedger(spec)
	r, ok := l.Reserve(prompted(40), 0, nil, BalanceLeastLoaded, nil)
	if !ok || r.Offset != 0 || l.used[0] != 18 || l.used[1] != 12 {
		t.Fatalf("got %+v, %v, used %v, want offset 0 and 18, 12 units", r, ok, l.used)
	}
	if got, want := l.fragmentation(0), 1-40.0/64; got != want {
		t.Errorf("fragmentation %v, want %v", got, want)
	}
	if got, want := l.fragmentation(8*int64(l.heads)), 1-32.0/64; got != want {
		t.Errorf("fragmentation with 8 tokens to come %v, want %v", got, want)
	}
	if l.Grow(&r, 64); l.Used() != 30 || r.Tokens != 64 {
		t.Errorf("growing within the rows in use takes %d units", l.Used())
	}
	if l.Grow(&r, 129) || l.Used() != 30 { // 5 units a head: 45 on the first rankset
		t.Error("a reservation grew beyond the capacity")
	}
	// A second one fits only with the heavy end on the other rankset.
	if r, ok := l.Reserve(prompted(40), 0, nil, BalanceLeastLoaded, nil); !ok || r.Offset != 1 || l.used[0] != 30 || l.used[1] != 30 {
		t.Fatalf("got %+v, %v, used %v, want offset 1 and 30, 30 units", r, ok, l.used)
	}
	if _, ok := l.Reserve(prompted(1), 0, nil, BalanceLeastLoaded, nil); ok {
		t.Error("a full memory has room")
	}
	if !l.FitsEmpty(prompted(96)) || l.FitsEmpty(prompted(97)) { // 27 and 36 of 30 units on the fuller rankset
		t.Error("an empty memory holds 96 tokens and no more")
	}
	l.Release(r)
	if l.Used() != 30 {
		t.Errorf("%d units in use after a release, want 30", l.Used())
	}
	spec.Rotation = false
	l = NewLedger(spec)
	if r, ok := l.Reserve(prompted(40), 0, nil, BalanceLeastLoaded, nil); !ok || l.used[0] != 30 || l.used[1] != 0 {
		t.Errorf("without rotation %+v takes %v, want all on one rankset", r, l.used)
	}
	if _, ok := l.Reserve(prompted(40), 1, nil, BalanceLeastLoaded, nil); ok {
		t.Error("a reservation does not leave what it has to")
	}
}

func TestBalancePolicies(t *testing.T) {
	offsets := func(balance string, n int) []int {
		l := NewLedger(LedgerSpec{Ranksets: 3, Layers: 3, HeadsPerChannel: 1, UnitTokens: 1, Capacity: 1 << 30, Rotation: true})
		var got []int
		for i := range n {
			r, _ := l.Reserve(prompted(100+100*i), 0, nil, balance, rand.New(rand.NewPCG(7, uint64(i))))
			got = append(got, r.Offset)
		}
		return got
	}
	if got := offsets(BalanceRoundRobin, 5); !slices.Equal(got, []int{0, 1, 2, 0, 1}) {
		t.Errorf("round-robin: %v", got)
	}
	// 100, 200, 300 on 0, 1, 2; then 400 joins 100, 500 joins 200, 600 joins 300.
	if got := offsets(BalanceLeastLoaded, 6); !slices.Equal(got, []int{0, 1, 2, 0, 1, 2}) {
		t.Errorf("least-loaded: %v", got)
	}
	count := [3]int{}
	for _, offset := range offsets(BalanceRandom, 300) {
		count[offset]++
	}
	for offset, n := range count {
		if n < 70 || n > 130 {
			t.Errorf("random: offset %d is drawn %d times of 300", offset, n)
		}
	}
}
