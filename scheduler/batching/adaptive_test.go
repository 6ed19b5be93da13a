package batching

import (
	"reflect"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/units"
)

// table predicts the times of sub-batches that hold request 0, request 1 or both. It predicts a PIM
// time for each prompt token that is moved meanwhile.
type table struct {
	gpu, pim [3]units.Duration
	move     units.Duration
}

func (p table) row(s *scheduler.SubBatch) int {
	if len(s.Decode) == 2 {
		return 2
	}
	return int(s.Decode[0].Request)
}

func (p table) GPU(s *scheduler.SubBatch, _ int64) units.Duration { return p.gpu[p.row(s)] }

func (p table) PIM(s *scheduler.SubBatch, _ int64, otherPrefill int) units.Duration {
	return p.pim[p.row(s)] + p.move*units.Duration(otherPrefill)
}

// TestAdaptiveBounds: each bound of two sub-batches in turn decides against a single batch, which
// takes 10 of the GPU and 10 of the PIM.
func TestAdaptiveBounds(t *testing.T) {
	type times = [3]units.Duration
	for _, c := range []struct {
		name     string
		gpu, pim times
		move     units.Duration
		prefill  [2]int // prompt tokens of the sub-batches
		single   bool
	}{
		{"as fast as two", times{10, 10, 10}, times{1, 1, 10}, 0, [2]int{}, false},
		{"the GPU's time for both", times{10, 11, 10}, times{1, 1, 10}, 0, [2]int{}, true},
		{"the first one's chain", times{5, 5, 10}, times{16, 1, 10}, 0, [2]int{}, true},
		{"the second one's chain", times{5, 5, 10}, times{1, 16, 10}, 0, [2]int{}, true},
		{"chains are of one sub-batch", times{9, 2, 10}, times{5, 15, 10}, 0, [2]int{}, false},
		{"no bound", times{5, 5, 10}, times{14, 15, 10}, 0, [2]int{}, false},
		{"the second one's prompt lengthens the first", times{9, 2, 10}, times{1, 1, 10}, 1, [2]int{0, 11}, true},
		{"the first one's prompt is not its own PIM's", times{9, 2, 10}, times{1, 1, 10}, 1, [2]int{11, 0}, false},
		{"the first one's prompt lengthens the second", times{2, 9, 10}, times{1, 1, 10}, 1, [2]int{11, 0}, true},
		{"the second one's prompt is not its own PIM's", times{2, 9, 10}, times{1, 1, 10}, 1, [2]int{0, 11}, false},
		{"a single batch has no other's prompts", times{10, 11, 10}, times{1, 1, 10}, 1, [2]int{3, 3}, true},
	} {
		f := dealer{predictor: table{c.gpu, c.pim, c.move}}
		s := &State{Config: Config{Scheduler: &scheduler.Spec{Adaptive: true}}, Batch: scheduler.Batch{Sub: make([]scheduler.SubBatch, 2)}}
		for i := range s.Batch.Sub {
			sub := &s.Batch.Sub[i]
			sub.Decode = []scheduler.Decoding{{Request: int32(i)}}
			if n := c.prefill[i]; n > 0 {
				sub.Prefill = []scheduler.Chunk{{Request: int32(2 + i), Tokens: n}}
			}
		}
		f.adapt(s)
		if f.single != c.single {
			t.Errorf("%s: single batch %v, want %v", c.name, f.single, c.single)
		}
		for i := range s.Batch.Sub {
			sub, decode, tokens := &s.Batch.Sub[i], 1, c.prefill[i]
			if c.single {
				decode, tokens = 2*(1-i), (c.prefill[0]+c.prefill[1])*(1-i)
			}
			if len(sub.Decode) != decode || sub.PrefillTokens() != tokens {
				t.Errorf("%s: sub-batch %d has %d requests and %d prompt tokens, want %d and %d",
					c.name, i, len(sub.Decode), sub.PrefillTokens(), decode, tokens)
			}
			if !c.single && sub.Decode[0].Request != int32(i) {
				t.Errorf("%s: sub-batch %d has request %d", c.name, i, sub.Decode[0].Request)
			}
		}
	}
}

// squared predicts the square of a sub-batch's rows as the GPU's time, so that two sub-batches are faster
// than one.
type squared struct{}

func (squared) GPU(s *scheduler.SubBatch, _ int64) units.Duration {
	return units.Duration(s.Tokens() * s.Tokens())
}

func (squared) PIM(*scheduler.SubBatch, int64, int) units.Duration { return 0 }

// TestTwoStayAsTheyAre: sub-batches of 3 and 1 requests, 1 and 2 of the spare memory, and 2 and 4 prompts keep all of them in order, unless
// they run as one.
func TestTwoStayAsTheyAre(t *testing.T) {
	of := func(first, decode, near, prompts int) (s scheduler.SubBatch) {
		for i := range decode {
			s.Decode = append(s.Decode, scheduler.Decoding{Request: int32(first + i)})
		}
		for i := range near {
			s.Near = append(s.Near, scheduler.Decoding{Request: int32(first + 10 + i)})
		}
		for i := range prompts {
			s.Prefill = append(s.Prefill, scheduler.Chunk{Request: int32(first + 20 + i), Tokens: 1})
		}
		return s
	}
	for _, swapped := range []bool{false, true} {
		build := func() []scheduler.SubBatch {
			subs := []scheduler.SubBatch{of(0, 3, 1, 2), of(100, 1, 2, 4)}
			if swapped {
				slices.Reverse(subs)
			}
			return subs
		}
		f := dealer{predictor: squared{}}
		s := &State{Config: Config{Scheduler: &scheduler.Spec{Adaptive: true}}, Batch: scheduler.Batch{Sub: build()}}
		if f.adapt(s); f.single || !reflect.DeepEqual(s.Batch.Sub, build()) {
			t.Errorf("single %v: %+v", f.single, s.Batch.Sub)
		}
	}
}

// TestAdaptive runs two requests as one batch if reading the weights twice gains the GPU nothing,
// and as two if the PIM has more work.
func TestAdaptive(t *testing.T) {
	for _, c := range []struct {
		pim    units.Duration
		single bool
	}{{pim: 10, single: true}, {pim: 300, single: false}} {
		spec := &scheduler.Spec{SubBatches: 2, Adaptive: true, ChunkMultiple: 16, MinPrefillTokens: 1}
		config := Config{Scheduler: spec, Memory: &scheduler.MemorySpec{Admission: scheduler.AdmitFinal}, Comm: &scheduler.CommSpec{Balance: scheduler.BalanceLeastLoaded}, Batching: &scheduler.BatchingSpec{}}
		ledger := memory.NewLedger(memory.LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 1, Capacity: 100})
		s := New(config, Memories{Ledger: ledger, GPU: memory.GPU{Model: schedtest.SmallModel}}, nil, FormerOf(scheduler.PolicySubBatches, weights{pim: c.pim}))
		s.Decoding = []scheduler.Decoding{{Request: 0, Base: 50, Last: 9}, {Request: 1, Base: 50, Last: 9}}
		for range 3 {
			b := s.Next()
			if got := len(b.Sub[1].Decode) == 0; got != c.single || b.Decoding() != 2 {
				t.Errorf("PIM time %d: single batch %v, want %v; %d requests", c.pim, got, c.single, b.Decoding())
			}
		}
	}
}

// weights predicts 100 of GPU time for any sub-batch, and a PIM time for each request.
type weights struct{ pim units.Duration }

func (w weights) GPU(*scheduler.SubBatch, int64) units.Duration { return 100 }

func (w weights) PIM(s *scheduler.SubBatch, _ int64, _ int) units.Duration {
	return w.pim * units.Duration(len(s.Decode))
}
