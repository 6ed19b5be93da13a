package predict

import (
	"math/rand/v2"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// steps is a node with effects that make a GPU hard to predict: tiles of rows, weights that are
// read for any batch, launch overheads. The busiest of four ranksets bounds the PIM.
type steps struct{}

func (steps) attention(chunk, finished int) units.Duration {
	tiles := (chunk + 127) / 128 * 128
	return units.Duration(50_000 + tiles*(finished+chunk/2+64)/40)
}

func (steps) fc(tokens int) units.Duration {
	tiles := (tokens + 63) / 64 * 64
	return units.Duration(200_000 + max(1_000_000, 6_000*tiles))
}

func (c steps) GPU(s *scheduler.SubBatch, _ int64) units.Duration {
	var t units.Duration
	for i := range s.Prefill {
		t += c.attention(s.Prefill[i].Tokens, s.Prefill[i].Finished)
	}
	if n := s.Tokens(); n > 0 {
		t += c.fc(n)
	}
	return t
}

func (steps) PIM(s *scheduler.SubBatch, iteration int64, otherPrefill int) units.Duration {
	var ranks [4]int
	for i := range s.Decode {
		ranks[s.Decode[i].Offset] += s.Decode[i].Context(iteration)
	}
	busiest := max(ranks[0], ranks[1], ranks[2], ranks[3])
	if len(s.Decode) == 0 && otherPrefill == 0 {
		return 0
	}
	return units.Duration(10_000 + 400*busiest + 4_000*len(s.Decode) + 200*otherPrefill)
}

// sample measures sub-batch i of b.
func (c steps) sample(m *scheduler.Sample, b *scheduler.Batch, i int) {
	s, other := &b.Sub[i], b.Sub[1-i].PrefillTokens()
	m.Set(s, b.Step, other)
	for j := range m.Chunks {
		m.Chunks[j].Time = c.attention(m.Chunks[j].Tokens, m.Chunks[j].Finished)
	}
	m.FC = c.fc(s.Tokens())
	m.PIM = c.PIM(s, b.Step, other)
}

// serve runs requests to the end and returns the total time. In each half of an iteration, the GPU works on
// one sub-batch while the PIM works on the other. A learned predictor, if given, is judged by each
// observation before it learns it.
func serve(t testing.TB, requests []traces.Request, p batching.Predictor, learned *Learned) (total units.Duration, e PredictionErrors) {
	t.Helper()
	spec := &scheduler.Spec{SubBatches: 2, Chunking: true, ChunkMultiple: 16, MinPrefillTokens: 64}
	config := batching.Config{Scheduler: spec, Memory: &scheduler.MemorySpec{Admission: scheduler.AdmitFinal}, Comm: &scheduler.CommSpec{Balance: scheduler.BalanceLeastLoaded}, Batching: &scheduler.BatchingSpec{}}
	ledger := memory.NewLedger(memory.LedgerSpec{
		Ranksets: 4, Layers: schedtest.SmallModel.Layers, HeadsPerChannel: 1, UnitTokens: 512, Capacity: 2 * 200, Rotation: true,
	})
	s := batching.New(config, batching.Memories{Ledger: ledger, GPU: memory.GPU{Model: schedtest.SmallModel, Free: 1 << 50}}, requests, batching.FormerOf(scheduler.PolicySubBatches, p))
	for i := range requests {
		if !s.Add(int32(i)) {
			t.Fatalf("request %d is rejected", i)
		}
	}
	var m scheduler.Sample
	for b := s.Next(); !b.Empty(); b = s.Next() {
		for i := range b.Sub {
			total += max(steps{}.GPU(&b.Sub[i], b.Step), steps{}.PIM(&b.Sub[1-i], b.Step, 0))
			if learned != nil {
				steps{}.sample(&m, b, i)
				quiet := *learned // draws nothing from the predictor's own noise
				quiet.noise = noise{}
				quiet.judge(&m, &e)
				if err := learned.Observe(&m); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.Complete(func(int32, int) {})
	}
	return total, e
}

func mixedRequests(n int) []traces.Request {
	rng := rand.New(rand.NewPCG(8, 8))
	var requests []traces.Request
	for i := range n {
		r := traces.Request{ID: i, Input: 1 + rng.IntN(3000), Output: 1 + rng.IntN(300)}
		if i%10 == 0 {
			r = traces.Request{ID: i, Input: 1 + rng.IntN(20_000), Output: 1 + rng.IntN(50)}
		}
		requests = append(requests, r)
	}
	return requests
}

// TestLearnedServesLikeExact: scheduling by learned costs, with and without measurement noise,
// takes at most 3% longer than by the costs themselves. Most of the loss is due to the line, which
// does not see how evenly the ranksets are loaded.
func TestLearnedServesLikeExact(t *testing.T) {
	deep.Heavy(t)
	requests := mixedRequests(2000)
	exact, _ := serve(t, requests, steps{}, nil)
	for _, noise := range []float64{0.05, 0, 0.2}[:deep.Of(1, 3, 3)] {
		spec := learnedSpec()
		spec.Noise = noise
		l := NewLearned(spec, steps{}, rand.New(rand.NewPCG(1, 2)))
		total, e := serve(t, requests, l, l)
		t.Logf("noise %.2f: %.4f of the exact time; errors %+v", noise, float64(total)/float64(exact), e)
		if float64(total) > 1.03*float64(exact) {
			t.Errorf("noise %v: %v, exact %v", noise, total, exact)
		}
		if e.FC.Count == 0 || e.PrefillAttention.Count == 0 || e.DecodeAttention.Count == 0 {
			t.Fatalf("nothing was learned: %+v", e)
		}
		if e.FC.Mean > 0.03+noise || e.PrefillAttention.Mean > 0.05+noise {
			t.Errorf("noise %v: errors %+v", noise, e)
		}
		again := NewLearned(spec, steps{}, rand.New(rand.NewPCG(1, 2)))
		if second, errors := serve(t, requests, again, again); second != total || errors != e {
			t.Errorf("noise %v: the same seed took %v and %v", noise, total, second)
		}
	}
}

// TestBadPredictionsCost: the comparison above can fail.
func TestBadPredictionsCost(t *testing.T) {
	requests := mixedRequests(600)
	exact, _ := serve(t, requests, steps{}, nil)
	if total, _ := serve(t, requests, wrong{}, nil); float64(total) < 1.03*float64(exact) {
		t.Errorf("a predictor that is wrong by 8 times takes %v, exact %v", total, exact)
	}
}

type wrong struct{ steps }

func (w wrong) GPU(s *scheduler.SubBatch, step int64) units.Duration { return 8 * w.steps.GPU(s, step) }

// TestWarmUp: until a part has its observations, the fallback predicts it.
func TestWarmUp(t *testing.T) {
	spec := learnedSpec()
	spec.WarmUp = 10
	fallback := schedtest.Linear{GPUToken: 1000, GPUFixed: 1, PIMToken: 3}
	l := NewLearned(spec, fallback, rand.New(rand.NewPCG(1, 1)))
	sub := &scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: 100}}, Prefill: []scheduler.Chunk{{Tokens: 32}}}
	var m scheduler.Sample
	for i := range 20 {
		gpuLearned, pimLearned := l.GPU(sub, 1) != fallback.GPU(sub, 1), l.PIM(sub, 1, 0) != fallback.PIM(sub, 1, 0)
		// Every second sub-batch has a chunk: the forests are warm after 20.
		if gpuLearned || pimLearned != (i >= 10) {
			t.Fatalf("after %d observations: GPU learned %v, PIM learned %v", i, gpuLearned, pimLearned)
		}
		m.Set(&scheduler.SubBatch{Decode: sub.Decode, Prefill: sub.Prefill[:i%2]}, int64(i), 0)
		m.PIM, m.FC = 77, 500
		for j := range m.Chunks {
			m.Chunks[j].Time = 40
		}
		if err := l.Observe(&m); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.GPU(sub, 3); got != 540 {
		t.Errorf("T_GPU = %d, want 500 + 40", got)
	}
	if got := l.GPU(&scheduler.SubBatch{Decode: sub.Decode}, 3); got != 500 {
		t.Errorf("T_GPU of a step = %d, want 500", got)
	}
	if got := l.GPU(&scheduler.SubBatch{}, 3); got != 0 {
		t.Errorf("T_GPU of nothing = %d", got)
	}
	if got := l.PIM(&scheduler.SubBatch{}, 1, 0); got != 0 {
		t.Errorf("T_PIM of nothing = %d", got)
	}
}

// TestWorkOfModels: beyond the data, a chunk's attention grows with its pairs of queries and keys (100 after 1,000 have 100·1,050.5), and batched
// operations grow with their rows. One sample of a profile is enough to fit both and the line.
func TestWorkOfModels(t *testing.T) {
	l := NewLearned(learnedSpec(), nil, rand.New(rand.NewPCG(1, 1)))
	if a, b := l.prefill.work(100, 1000), l.batched.work(100, 1000); a != 105_050 || b != 1100 {
		t.Errorf("works of %v pairs and %v rows", a, b)
	}
	if err := l.fitAll(); err != nil || l.prefill.forest != nil || l.batched.forest != nil || l.pim.ready {
		t.Errorf("models of nothing are fitted: %v", err)
	}
	l.add(&scheduler.Sample{Chunks: []scheduler.ChunkSample{{Tokens: 32, Finished: 64, Time: 40}}, PrefillTokens: 32, Decoding: 3, FC: 500, Contexts: 900, PIM: 77})
	if err := l.fitAll(); err != nil || l.prefill.forest == nil || l.batched.forest == nil || !l.pim.ready {
		t.Fatalf("models of one sample are not fitted: %v", err)
	}
	sub := &scheduler.SubBatch{Decode: make([]scheduler.Decoding, 3), Prefill: []scheduler.Chunk{{Tokens: 32, Finished: 64}}}
	if a, b := l.GPU(sub, 0), l.PIM(sub, 0, 0); a != 540 || b != 77 {
		t.Errorf("predicted are %d and %d", a, b)
	}
}

// TestVerifiedRows: for batched operations and the ranks' transfers, a request whose step verifies four tokens counts as four requests.
func TestVerifiedRows(t *testing.T) {
	spec := learnedSpec()
	spec.WarmUp = 10
	l := NewLearned(spec, steps{}, rand.New(rand.NewPCG(1, 1)))
	of := func(requests, verified int) *scheduler.SubBatch {
		return &scheduler.SubBatch{Decode: make([]scheduler.Decoding, requests), Prefill: []scheduler.Chunk{{Tokens: 32}}, Verified: verified}
	}
	for i := range 40 {
		var m scheduler.Sample
		m.Set(of(1+i%8, 1), 0, 0)
		m.FC, m.PIM, m.Chunks[0].Time = units.Duration(1000*(1+i%8)), units.Duration(700*(1+i%8)), 40
		if err := l.Observe(&m); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := l.GPU(of(2, 4), 0), l.GPU(of(8, 1), 0); got != want || got <= l.GPU(of(2, 1), 0) {
		t.Errorf("T_GPU of two requests with four tokens each is %d, of eight requests %d", got, want)
	}
	if got, want := l.PIM(of(2, 4), 0, 0), l.PIM(of(8, 1), 0, 0); got != want || got <= l.PIM(of(2, 1), 0, 0) {
		t.Errorf("T_PIM of two requests with four tokens each is %d, of eight requests %d", got, want)
	}
	var m scheduler.Sample
	if m.Set(of(2, 4), 0, 0); m.Decoding != 8 {
		t.Errorf("a sample has %d", m.Decoding)
	}
}

// TestWarmTogether: if each sub-batch has a chunk, both forests begin to predict at the same time.
func TestWarmTogether(t *testing.T) {
	spec := learnedSpec()
	spec.WarmUp = 10
	l := NewLearned(spec, schedtest.Linear{GPUToken: 1000}, rand.New(rand.NewPCG(1, 1)))
	sub := &scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: 100}}, Prefill: []scheduler.Chunk{{Tokens: 32}}}
	for i := range 11 {
		if got := l.GPU(sub, 1) == 540; got != (i == 10) {
			t.Errorf("after %d observations: learned %v", i, got)
		}
		var m scheduler.Sample
		m.Set(sub, int64(i), 0)
		m.FC, m.Chunks[0].Time = 500, 40
		if err := l.Observe(&m); err != nil {
			t.Fatal(err)
		}
	}
}

// trained returns a predictor after a run, and a large sub-batch.
func trained(t testing.TB) (*Learned, *scheduler.SubBatch) {
	l := NewLearned(learnedSpec(), steps{}, rand.New(rand.NewPCG(1, 2)))
	serve(t, mixedRequests(600), l, l)
	sub := &scheduler.SubBatch{Prefill: []scheduler.Chunk{{Tokens: 512, Finished: 1024}, {Tokens: 96}}}
	for i := range 256 {
		sub.Decode = append(sub.Decode, scheduler.Decoding{Base: int64(1000 + i)})
	}
	return l, sub
}

func TestLearnedAllocatesNothing(t *testing.T) {
	l, sub := trained(t)
	if n := testing.AllocsPerRun(100, func() { l.GPU(sub, 3); l.PIM(sub, 3, 16) }); n != 0 {
		t.Errorf("%v allocations a prediction", n)
	}
	l.pim.when.every = 1 << 30 // no fit
	var m scheduler.Sample
	b := &scheduler.Batch{Sub: []scheduler.SubBatch{*sub, {}}}
	if n := testing.AllocsPerRun(100, func() {
		steps{}.sample(&m, b, 0)
		if l.Observe(&m) != nil {
			t.Fail()
		}
	}); n != 0 {
		t.Errorf("%v allocations an observation", n)
	}
}

func BenchmarkLearnedGPU(b *testing.B) {
	l, sub := trained(b)
	b.ReportAllocs()
	for b.Loop() {
		l.GPU(sub, 3)
	}
}

func BenchmarkLearnedPIM(b *testing.B) {
	l, sub := trained(b)
	b.ReportAllocs()
	for b.Loop() {
		l.PIM(sub, 3, 16)
	}
}

// BenchmarkLearnedObserve includes the fits that observations cause.
func BenchmarkLearnedObserve(b *testing.B) {
	l, sub := trained(b)
	var m scheduler.Sample
	batch := &scheduler.Batch{Sub: []scheduler.SubBatch{*sub, {}}}
	b.ReportAllocs()
	for b.Loop() {
		batch.Step++
		steps{}.sample(&m, batch, 0)
		if err := l.Observe(&m); err != nil {
			b.Fatal(err)
		}
	}
}
