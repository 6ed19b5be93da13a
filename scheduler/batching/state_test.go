package batching

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

func request(id, in, out int) traces.Request { return traces.Request{ID: id, Input: in, Output: out} }

func addAll(s *Scheduler, n int) (rejected int) {
	for i := range n {
		if !s.Add(int32(i)) {
			rejected++
		}
	}
	return rejected
}

// TestLaws runs random requests to the end under random costs and memories. Every request prefills
// its prompt in order and once, then decodes in every iteration until its output is complete.
// Memory returns to zero.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range 20 { // a run takes microseconds
			runRandom(t, rng)
		}
	})
}

// runRandom runs one random system. Its sizes are uniform, since most that rapid draws are 1 or 2,
// and such requests never fill a memory and are never cut.
func runRandom(t *rapid.T, rng *rand.Rand) {
	between := func(low, high int) int { return low + rng.IntN(high-low+1) }
	flip := func() bool { return rng.IntN(2) == 1 }
	var requests []traces.Request
	for i := range between(1, 30) {
		requests = append(requests, request(i, between(1, 200), between(1, 60)))
	}
	spec := &scheduler.Spec{
		Adaptive: flip(), SubBatches: between(1, 2), Chunking: flip(),
		ChunkMultiple: schedtest.OneFrom(rng, 1, 16), MinPrefillTokens: between(1, 100),
	}
	admission := &scheduler.MemorySpec{
		Admission: schedtest.OneFrom(rng, scheduler.AdmitFinal, scheduler.AdmitCurrent, scheduler.AdmitMax), MaxTokens: 128,
		Watermark: schedtest.OneFrom(rng, 0, 0.1, 0.5), History: schedtest.OneFrom(rng, 0, 0, 3, 1000), Margin: schedtest.OneFrom(rng, 0.0, 1, 3),
	}
	comm := &scheduler.CommSpec{Balance: schedtest.OneFrom(rng, scheduler.Balances()...)}
	ledger := memory.NewLedger(memory.LedgerSpec{
		Ranksets: between(1, 5), Layers: schedtest.SmallModel.Layers, HeadsPerChannel: 2, UnitTokens: 32,
		Capacity: int64(between(1, 240)), Rotation: flip(),
	})
	gpu := memory.GPU{Model: schedtest.SmallModel, Free: units.Bytes(between(0, 200_000))}
	p := schedtest.Linear{
		GPUToken: units.Duration(between(1, 20)), GPUFixed: units.Duration(between(0, 500)), PIMToken: units.Duration(between(0, 5)),
	}
	p.NearToken = units.Duration(between(0, 3))
	policy := schedtest.OneFrom(rng, scheduler.PolicySubBatches, scheduler.PolicySubBatches, scheduler.PolicyPrefillFirst, scheduler.PolicyChunkedPrefill)
	batching := &scheduler.BatchingSpec{MaxBatchTokens: between(1, 400), PageTokens: 16, MaxNumSeqs: schedtest.OneFrom(rng, 0, 0, 1, 2, 5)}
	if policy != scheduler.PolicySubBatches {
		spec.Chunking, gpu.HoldsKV = true, flip()
	} else if flip() { // 4 tokens of a head and layer have 32 B
		gpu.Spare = memory.NewLedger(memory.LedgerSpec{Ranksets: 1, Layers: schedtest.SmallModel.Layers, HeadsPerChannel: 2, UnitTokens: 4, Capacity: int64(gpu.Free / 32)})
		gpu.SpareUnit, gpu.HomeUnit = 32, 512
		admission.Spare = schedtest.OneFrom(rng, scheduler.SpareDecode, scheduler.SpareWait)
	}
	config := Config{Policy: policy, Scheduler: spec, Memory: admission, Comm: comm, Batching: batching, Random: rand.New(rand.NewPCG(1, 2))}
	s := New(config, Memories{Ledger: ledger, GPU: gpu}, requests, FormerOf(policy, p))
	rejected := addAll(s, len(requests))
	f := newForeseer(requests, admission, ledger)
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
			schedtest.MustHold(t, f.Preempt(gone))
		}
		f.checkForecast(t, &s.State)
		schedtest.MustHold(t, f.Check(b))
		checkPolicy(t, s)
		if gpu.Spare != nil && (s.UsedUnits() < ledger.Used() || (s.UsedUnits() == ledger.Used()) != (gpu.Spare.Used() == 0)) {
			t.Fatalf("%d units in use, %d of the ledger and %d of the spare memory", s.UsedUnits(), ledger.Used(), gpu.Spare.Used())
		}
		if most := batching.MaxNumSeqs; most > 0 && (b.Decoding() > most || s.running() > most) {
			t.Fatalf("%d requests decode of %d that run, at most %d may", b.Decoding(), s.running(), most)
		}
		s.Complete(func(r int32, tokens int) {
			if f.Emitted[r] != tokens {
				t.Fatalf("request %d has %d tokens, the scheduler says %d", r, f.Emitted[r], tokens)
			}
			f.emitted(r, tokens)
		})
		s.chunked = s.chunked[:0] // its batch is over
		if want := s.countCutPrompts(); s.Usage.cutPrompts != want {
			t.Fatalf("iteration %d: %d tokens reserved on the GPU, the cut prompts have %d", b.Step, s.Usage.cutPrompts, want)
		}
	}
	if s.Waiting() > 0 {
		t.Fatalf("%d requests wait forever", s.Waiting())
	}
	if got := s.Recomputed; got != f.Recomputed {
		t.Fatalf("%d tokens of contexts computed again, want %d", got, f.Recomputed)
	}
	done := 0
	for i := range requests {
		if f.Emitted[i] == requests[i].Output {
			done++
		} else if f.Emitted[i] != 0 {
			t.Fatalf("request %d emitted %d of %d tokens", i, f.Emitted[i], requests[i].Output)
		}
	}
	if s.SpareTokens != f.NearTokens || s.UsedUnits() != 0 {
		t.Fatalf("%d tokens decoded in the spare memory, counted as %d; %d units left", f.NearTokens, s.SpareTokens, s.UsedUnits())
	}
	if done+rejected != len(requests) || ledger.Used() != 0 || s.Usage.cutPrompts != 0 {
		t.Fatalf("%d done and %d rejected of %d; %d units and %d tokens on the GPU left",
			done, rejected, len(requests), ledger.Used(), s.Usage.cutPrompts)
	}
	f.checkLengths(t, &s.State)
}

// checkPolicy checks what the policies of continuous batching guarantee for a batch.
func checkPolicy(t *rapid.T, s *Scheduler) {
	if s.Policy == scheduler.PolicySubBatches {
		return
	}
	prefill, prompts, decoding := 0, 0, s.Batch.Decoding()
	for i := range s.Batch.Sub {
		prefill += s.Batch.Sub[i].PrefillTokens()
		prompts += len(s.Batch.Sub[i].Prefill)
	}
	if s.Policy == scheduler.PolicyPrefillFirst && prefill > 0 && decoding > 0 {
		t.Fatalf("%d requests decode beside %d prompt tokens", decoding, prefill)
	}
	if decoding > 0 && decoding != len(s.Decoding) {
		t.Fatalf("%d of %d requests decode", decoding, len(s.Decoding))
	}
	// A prompt that the GPUs can only run whole may be longer.
	if prompts > 1 && prefill+decoding > s.Batching.MaxBatchTokens {
		t.Fatalf("%d prompt tokens and %d decoding requests in a batch of at most %d tokens", prefill, decoding, s.Batching.MaxBatchTokens)
	}
	if s.Policy == scheduler.PolicyPrefillFirst && prefill == 0 && len(s.gone) == 0 && s.Queue.Asks() {
		t.Fatalf("%d requests decode while a prompt waits that may find room", decoding)
	}
}
