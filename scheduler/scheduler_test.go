package scheduler

import (
	"testing"

	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// linear is a predictor with a cost a token on either side.
type linear struct{ gpuToken, gpuFixed, pimToken units.Duration }

func (l linear) GPU(s *SubBatch) units.Duration {
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
}

func newFollower(requests []traces.Request) *follower {
	n := len(requests)
	return &follower{requests, make([]int, n), make([]int, n), make([]int64, n)}
}

// check applies one batch.
func (f *follower) check(t *rapid.T, b *Batch) {
	seen := map[int32]bool{}
	once := func(r int32) {
		if seen[r] {
			t.Fatalf("iteration %d runs request %d twice", b.Iteration, r)
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
			if c.Tokens < 1 || c.Finished != f.prefilled[c.Request] || c.Finished+c.Tokens > r.Input {
				t.Fatalf("chunk %+v of a request of %d with %d prefilled", c, r.Input, f.prefilled[c.Request])
			}
			f.prefilled[c.Request] += c.Tokens
			if c.Last != (f.prefilled[c.Request] == r.Input) {
				t.Fatalf("chunk %+v: the prompt has %d of %d", c, f.prefilled[c.Request], r.Input)
			}
			if c.Last {
				f.emitted[c.Request], f.last[c.Request] = 1, b.Iteration
			} else if cut++; i != len(b.Sub[s].Prefill)-1 {
				t.Fatalf("chunk %+v is cut and not the last of its sub-batch", c)
			}
		}
	}
	if cut > len(b.Sub) {
		t.Fatalf("%d prompts are cut in %d sub-batches", cut, len(b.Sub))
	}
}

func (f *follower) decode(t *rapid.T, b *Batch, d Decoding) {
	r := &f.requests[d.Request]
	if f.emitted[d.Request] == 0 || f.last[d.Request] != b.Iteration-1 {
		t.Fatalf("request %d decodes in iteration %d, its latest token was in %d", d.Request, b.Iteration, f.last[d.Request])
	}
	if got, want := d.Context(b.Iteration), r.Input+f.emitted[d.Request]; got != want {
		t.Fatalf("request %d attends over %d tokens, want %d", d.Request, got, want)
	}
	f.emitted[d.Request]++
	f.last[d.Request] = b.Iteration
}

// TestLaws runs random requests to the end under random costs and memories:
// every request prefills its prompt in order and once, decodes in every
// iteration after it until its output is complete, and memory returns to zero.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var requests []traces.Request
		for i := range rapid.IntRange(1, 30).Draw(t, "requests") {
			requests = append(requests, request(i, rapid.IntRange(1, 200).Draw(t, "in"), rapid.IntRange(1, 60).Draw(t, "out")))
		}
		spec := &Spec{
			SubBatches: rapid.IntRange(1, 2).Draw(t, "sub-batches"), Chunking: rapid.Bool().Draw(t, "chunking"),
			ChunkMultiple: rapid.SampledFrom([]int{1, 16}).Draw(t, "multiple"), MinPrefillTokens: rapid.IntRange(1, 100).Draw(t, "min"),
		}
		memory := &MemorySpec{
			Admission: rapid.SampledFrom([]string{AdmitFinal, AdmitMax}).Draw(t, "admission"), MaxTokens: 128,
			Balance: rapid.SampledFrom([]string{BalanceLeastLoaded, BalanceRoundRobin}).Draw(t, "balance"),
		}
		ledger := NewLedger(rapid.IntRange(1, 5).Draw(t, "ranksets"), smallModel.Layers, 2, 32, int64(rapid.IntRange(1, 60).Draw(t, "capacity")))
		gpu := GPUMemory{Model: smallModel, Free: units.Bytes(rapid.IntRange(0, 200_000).Draw(t, "gpu"))}
		p := linear{
			units.Duration(rapid.IntRange(1, 20).Draw(t, "gpu a token")), units.Duration(rapid.IntRange(0, 500).Draw(t, "gpu fixed")),
			units.Duration(rapid.IntRange(0, 5).Draw(t, "pim a token")),
		}
		s := New(spec, memory, requests, ledger, gpu, p)
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
			f.check(t, b)
			s.Complete(func(r int32, tokens int) {
				if f.emitted[r] != tokens {
					t.Fatalf("request %d has %d tokens, the scheduler says %d", r, f.emitted[r], tokens)
				}
			})
		}
		if s.Waiting() > 0 {
			t.Fatalf("%d requests wait forever", s.Waiting())
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
	})
}

// TestSplit is the paper's example (section 5.3): contexts of 2k, 3k, 4k and 5k
// tokens divide into (2k, 5k) and (3k, 4k).
func TestSplit(t *testing.T) {
	b := Batch{Sub: make([]SubBatch, 2)}
	b.split([]Decoding{{Base: 5000}, {Base: 4000}, {Base: 3000}, {Base: 2000}})
	for s, want := range [][]int64{{5000, 2000}, {4000, 3000}} {
		got := b.Sub[s].Decode
		if len(got) != 2 || got[0].Base != want[0] || got[1].Base != want[1] {
			t.Errorf("sub-batch %d: got %+v, want %v", s, got, want)
		}
	}
}

// TestChunkMeetsPIMTime puts a prompt beside a decoding request of the other
// sub-batch.
func TestChunkMeetsPIMTime(t *testing.T) {
	// One request decodes over 1,000 tokens: T_PIM = 1,000 a token of context.
	for _, c := range []struct {
		name     string
		pim      units.Duration // of the decoding request
		min      int
		chunking bool
		want     int
	}{
		{"the whole prompt fits", 2000, 1, true, 1000},
		{"cut down to the nearest multiple", 325, 1, true, 320},
		{"cut up to the nearest multiple", 330, 1, true, 336},
		{"the minimum where the PIM is idle", 0, 100, true, 112},
		{"whole where prompts cannot be cut", 330, 1, false, 1000},
	} {
		spec := &Spec{SubBatches: 2, Chunking: c.chunking, ChunkMultiple: 16, MinPrefillTokens: c.min}
		memory := &MemorySpec{Admission: AdmitFinal, Balance: BalanceLeastLoaded, MaxTokens: 1}
		s := New(spec, memory, []traces.Request{request(0, 1000, 5), request(1, 1, 5)}, NewLedger(1, 1, 1, 1, 1<<40),
			GPUMemory{Model: smallModel, Free: 1 << 40}, fixed{pim: c.pim})
		s.Add(0)
		s.decoding = []Decoding{{Request: 1, Base: 1, Last: 10}} // in sub-batch 0
		b := s.Next()
		if len(b.Sub[1].Prefill) != 1 || b.Sub[1].Prefill[0].Tokens != c.want {
			t.Errorf("%s: got %+v, want a chunk of %d", c.name, b.Sub[1].Prefill, c.want)
		}
	}
}

// fixed predicts one unit of GPU time a prompt token and a given PIM time.
type fixed struct{ pim units.Duration }

func (f fixed) GPU(s *SubBatch) units.Duration { return units.Duration(s.PrefillTokens()) }

func (f fixed) PIM(s *SubBatch, _ int64, _ int) units.Duration {
	if len(s.Decode) == 0 {
		return 0
	}
	return f.pim
}

func TestLedger(t *testing.T) {
	// 5 layers on 2 ranksets: three on the request's first rankset, two on the
	// other. 40 tokens of 32 a unit, 3 heads: 2 units a head and layer.
	l := NewLedger(2, 5, 3, 32, 30)
	r, ok := l.Reserve(40, BalanceLeastLoaded)
	if !ok || r.Offset != 0 || l.used[0] != 18 || l.used[1] != 12 {
		t.Fatalf("got %+v, %v, used %v, want offset 0 and 18, 12 units", r, ok, l.used)
	}
	// A second one fits only with the heavy end on the other rankset.
	if r, ok := l.Reserve(40, BalanceLeastLoaded); !ok || r.Offset != 1 || l.used[0] != 30 || l.used[1] != 30 {
		t.Fatalf("got %+v, %v, used %v, want offset 1 and 30, 30 units", r, ok, l.used)
	}
	if _, ok := l.Reserve(1, BalanceLeastLoaded); ok {
		t.Error("a full memory has room")
	}
	if !l.FitsEmpty(96) || l.FitsEmpty(97) { // 27 and 36 of 30 units on the fuller rankset
		t.Error("an empty memory holds 96 tokens and no more")
	}
	l.Release(r)
	if l.Used() != 30 {
		t.Errorf("%d units in use after a release, want 30", l.Used())
	}
}
