package batching

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestChunkMeetsPIMTime runs a prompt with a decoding request of the other sub-batch.
func TestChunkMeetsPIMTime(t *testing.T) {
	// One request decodes over 1,000 tokens: T_PIM = 1,000 per token of context.
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
		{"nothing behind a prompt of the minimum that takes longer than the PIM", 400, 325, 0, 400, true, 400},
		{"the smaller of two that are as close", 0, 328, 0, 1, true, 320},
		{"none where they cannot be cut and the GPU has no time left", 0, 0, 0, 0, false, 0},
		{"whole where prompts cannot be cut", 0, 330, 0, 1, false, 1000},
	} {
		spec := &scheduler.Spec{SubBatches: 2, Chunking: c.chunking, ChunkMultiple: 16, MinPrefillTokens: c.min}
		config := Config{Scheduler: spec, Memory: &scheduler.MemorySpec{Admission: scheduler.AdmitFinal, MaxTokens: 1}, Comm: &scheduler.CommSpec{Balance: scheduler.BalanceLeastLoaded}, Batching: &scheduler.BatchingSpec{}}
		ledger := memory.NewLedger(memory.LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 1, Capacity: 1 << 40, Rotation: true})
		s := New(config, Memories{Ledger: ledger, GPU: memory.GPU{Model: schedtest.SmallModel, Free: 1 << 40}},
			[]traces.Request{request(0, 1, 5), request(1, c.before, 5), request(2, 1000, 5)}, FormerOf(scheduler.PolicySubBatches, fixed{c.pim, c.move}))
		if c.before > 0 {
			s.Add(1)
		}
		s.Add(2)
		s.Decoding = []scheduler.Decoding{{Request: 0, Base: 1, Last: 10}} // in sub-batch 0
		b := s.Next()
		if b.Sub[1].PrefillTokens() != c.want || len(b.Sub[0].Prefill) > 0 {
			t.Errorf("%s: got %+v, want %d tokens", c.name, b.Sub[1].Prefill, c.want)
		}
	}
}

// TestFewPredictions: a prompt no longer than the minimum needs no prediction. For a longer one, no chunk below the minimum is tried.
func TestFewPredictions(t *testing.T) {
	for _, c := range []struct {
		least, prompt int
		want          []int // prompt tokens of each prediction
	}{
		{1000, 1000, nil},
		{1008, 1000, nil},
		{64, 1000, []int{1000, 0, 496, 240, 112, 48}}, // then 64 is taken
		{512, 1000, []int{1000, 0, 496}},
	} {
		asked := []int{}
		spec := &scheduler.Spec{SubBatches: 1, Chunking: true, ChunkMultiple: 16, MinPrefillTokens: c.least}
		config := Config{Scheduler: spec, Memory: &scheduler.MemorySpec{Admission: scheduler.AdmitFinal, MaxTokens: 1}, Comm: &scheduler.CommSpec{Balance: scheduler.BalanceLeastLoaded}, Batching: &scheduler.BatchingSpec{}}
		ledger := memory.NewLedger(memory.LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 1, Capacity: 1 << 40, Rotation: true})
		s := New(config, Memories{Ledger: ledger, GPU: memory.GPU{Model: schedtest.SmallModel, Free: 1 << 40}}, []traces.Request{request(0, c.prompt, 5)}, FormerOf(scheduler.PolicySubBatches, asking{&asked}))
		s.Add(0)
		b := s.Next()
		if got := b.Sub[0].PrefillTokens(); got != min(c.least, c.prompt) || !slices.Equal(asked, c.want) {
			t.Errorf("at least %d of %d: %d tokens, predictions of %d, want %d", c.least, c.prompt, got, asked, c.want)
		}
	}
}

// asking predicts as fixed does without PIM, and records the tokens of each prediction.
type asking struct{ tokens *[]int }

func (a asking) GPU(s *scheduler.SubBatch, step int64) units.Duration {
	*a.tokens = append(*a.tokens, s.PrefillTokens())
	return fixed{}.GPU(s, step)
}

func (a asking) PIM(s *scheduler.SubBatch, step int64, otherPrefill int) units.Duration {
	return fixed{}.PIM(s, step, otherPrefill)
}

// fixed predicts one unit of GPU time for each prompt token. For the PIM it predicts a given time
// of decode attention, and one unit for every 16 prompt tokens moved.
type fixed struct{ pim, move units.Duration }

func (f fixed) GPU(s *scheduler.SubBatch, _ int64) units.Duration {
	return units.Duration(s.PrefillTokens())
}

func (f fixed) PIM(s *scheduler.SubBatch, _ int64, otherPrefill int) units.Duration {
	t := f.move * units.Duration(otherPrefill) / 16
	if len(s.Decode) > 0 {
		t += f.pim
	}
	return t
}

// uneven predicts sums of parts without any order: more tokens may take less time.
type uneven struct{ gpu, dense, moves, pim func(n int) units.Duration }

func (u uneven) Exceeds(s *scheduler.SubBatch, c *scheduler.Chunk, t units.Duration) bool {
	return u.dense(s.Tokens()+c.Tokens) > t
}

// Beyond knows the least number for most predictions, and none for some.
func (u uneven) Beyond(s *scheduler.SubBatch, c *scheduler.Chunk, t units.Duration, moved int) int {
	n, none := c.Tokens, c.Tokens%4 == 0
	for ; n > 0 && !none; n-- {
		most := t
		if moved >= 0 {
			most += u.moves(moved + n)
		}
		if tokens := s.Tokens() + n; u.dense(tokens)+u.gpu(tokens) <= most {
			break
		}
	}
	return n + 1
}

func (u uneven) Moves(tokens int) units.Duration { return u.moves(tokens) }
func (u uneven) GPU(s *scheduler.SubBatch, _ int64) units.Duration {
	return u.dense(s.Tokens()) + u.gpu(s.Tokens())
}

func (u uneven) PIM(s *scheduler.SubBatch, _ int64, otherPrefill int) (t units.Duration) {
	if otherPrefill > 0 {
		t = u.moves(otherPrefill)
	}
	return t + u.pim(len(s.Decode))
}

// counted counts predictions of the GPUs' time.
type counted struct {
	uneven
	asked *int
}

func (c counted) GPU(s *scheduler.SubBatch, step int64) units.Duration {
	*c.asked++
	return c.uneven.GPU(s, step)
}

// whole hides that a predictor knows parts of its predictions.
type whole struct{ Predictor }

// TestCutByParts: a predictor that knows parts of its predictions cuts a prompt at the same place as one that only knows the whole, and is asked
// less often for the whole.
func TestCutByParts(t *testing.T) {
	asked := [2]int{}
	for seed := range 3000 {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		some := func(slope, spread int64) func(n int) units.Duration {
			at := rng.Uint64()
			return func(n int) units.Duration {
				x := (uint64(n)*0x9e3779b97f4a7c15 ^ at) * 0xbf58476d1ce4e5b9
				return units.Duration(int64(n)*slope + int64(x>>33)%spread)
			}
		}
		most := int64(1 + rng.IntN(3000))
		u := uneven{gpu: some(rng.Int64N(3), most), dense: some(rng.Int64N(4), most), moves: some(rng.Int64N(2), most), pim: some(rng.Int64N(900), 2*most)}
		spec := &scheduler.Spec{SubBatches: 1 + rng.IntN(2), Chunking: rng.IntN(5) > 0, ChunkMultiple: 1 + rng.IntN(40), MinPrefillTokens: rng.IntN(3) * rng.IntN(200)}
		s := &State{Config: Config{Scheduler: spec}, Batch: scheduler.Batch{Step: 7, Sub: make([]scheduler.SubBatch, spec.SubBatches)}}
		for i := range s.Batch.Sub {
			s.Batch.Sub[i].Decode = make([]scheduler.Decoding, rng.IntN(4))
			if rng.IntN(2) > 0 {
				s.Batch.Sub[i].Prefill = []scheduler.Chunk{{Tokens: 1 + rng.IntN(300), Near: rng.IntN(4) == 0}}
			}
		}
		w := &Waiting{Hold: memory.Reservation{Near: rng.IntN(4) == 0}}
		i, left := rng.IntN(spec.SubBatches), 1+rng.IntN(4000)
		var got [2]int
		for k := range got {
			var p Predictor = counted{u, &asked[k]}
			if k == 1 {
				p = whole{p}
			}
			got[k] = FormerOf(scheduler.PolicySubBatches, p).(*subBatches).cut(s, i, w, left)
		}
		if got[0] != got[1] {
			t.Fatalf("seed %d: %d tokens of %d by parts, %d by the whole", seed, got[0], left, got[1])
		}
	}
	if asked[0] == 0 || 10*asked[0] > 8*asked[1] {
		t.Errorf("asked for the whole %d times by parts, %d times without", asked[0], asked[1])
	}
}
