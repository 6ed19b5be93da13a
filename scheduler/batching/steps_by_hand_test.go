package batching

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestComesAndGoesByHand: after any request arrives or ends, all are dealt to the sub-batches anew. After memory was freed, the head of
// the queue is tried again.
func TestComesAndGoesByHand(t *testing.T) {
	quiet := func(int32, int) {}
	for name, c := range map[string]struct {
		does  func(s *Scheduler)
		dealt bool // anew
		asks  bool
	}{
		"comes to the host":   {func(s *Scheduler) { s.Holds[2].Host = true; s.Enter(scheduler.Decoding{Request: 2}) }, true, false},
		"leaves the host":     {func(s *Scheduler) { s.LeaveHost(0) }, true, false},
		"loses its memory":    {func(s *Scheduler) { s.DropDecoding(0) }, true, true},
		"ends":                {func(s *Scheduler) { s.Batch.Step = 4; s.Complete(quiet) }, true, true},
		"nobody ends":         {func(s *Scheduler) { s.Complete(quiet) }, false, false},
		"drafts are accepted": {func(s *Scheduler) { s.Speculation.Verified = 2; s.Batch.Sub[0].Decode = s.Decoding; s.advance() }, true, false},
		"no drafts":           {func(s *Scheduler) { s.Batch.Sub[0].Decode = s.Decoding; s.advance() }, false, false},
		"nobody decodes":      {func(s *Scheduler) { s.Speculation.Verified = 2; s.advance() }, false, false},
		"a chunk ends": {func(s *Scheduler) {
			s.chunked = []Waiting{{Request: 2, Prompt: 10, finished: 10, held: true}}
			s.Complete(quiet)
		}, true, false},
		"a cut prompt goes on": {func(s *Scheduler) {
			s.chunked = []Waiting{{Request: 2, Prompt: 10, finished: 5, held: true}}
			s.Complete(quiet)
		}, true, true},
		"nobody decodes any more": {func(s *Scheduler) { (&dealer{single: true}).clear(&s.State) }, true, false},
		"memory is freed":         {func(s *Scheduler) { s.Release(s.Holds[0]) }, false, true},
		"a cut prompt ends":       {func(s *Scheduler) { s.freeGPU(&Waiting{Request: 2, Prompt: 10, Cut: true}) }, false, false},
		"one beside windows ends": {func(s *Scheduler) { s.GPU.Window = 3; s.freeGPU(&Waiting{Request: 2, Prompt: 10, Cut: true}) }, false, true},
		"a whole prompt ends":     {func(s *Scheduler) { s.GPU.Window = 3; s.freeGPU(&Waiting{Request: 2, Prompt: 10}) }, false, false},
	} {
		s := byHand(scheduler.AdmitFinal, true)
		s.hold(t, 0, 14, false)
		s.hold(t, 1, 14, true)
		s.Queue.list = []Waiting{{Request: 3, Prompt: 10}}
		s.Queue.Blocked, s.Dealt = true, 7
		if c.does(s); (s.Dealt == -1) != c.dealt || s.Dealt != -1 && s.Dealt != 7 || s.Queue.Blocked == c.asks {
			t.Errorf("%s: dealt in step %d, blocked %v", name, s.Dealt, s.Queue.Blocked)
		}
	}
}

// TestSubBatchesVerifyDrafts: each sub-batch has the number of tokens that a step verifies per request, if it is more than one.
func TestSubBatchesVerifyDrafts(t *testing.T) {
	for verified, want := range map[int]int{0: 0, 1: 0, 2: 2, 5: 5} {
		s := byHand(scheduler.AdmitFinal, false)
		c := s.Config
		c.Speculation = scheduler.Speculation{Verified: verified, Acceptance: 0.5}
		for i, sub := range New(c, s.Memories, s.Requests, nil).Batch.Sub {
			if sub.Verified != want {
				t.Errorf("sub-batch %d verifies %d tokens, want %d", i, sub.Verified, want)
			}
		}
	}
}

// TestDraftsByHand: a request grows to the context of its step and its drafts, or of two steps if formed ahead. When it is preempted, its emitted
// tokens are those of its context beyond the prompt.
func TestDraftsByHand(t *testing.T) {
	for verified := range 4 {
		for i, ahead := range []bool{false, true, false, true} {
			s := byHand(scheduler.AdmitCurrent, true)
			s.Ahead, s.Speculation = ahead, scheduler.Speculation{Verified: verified, Acceptance: 1}
			s.hold(t, 0, []int{10, 13}[i/2], false) // with or without room for the context of the step, which is 13
			s.Batch.Step = 2
			drafts := max(verified-1, 0)
			more := drafts
			if ahead {
				more *= 2
			}
			s.GrowAll(func() int32 {
				t.Fatal("a request is to give up memory")
				return -1
			})
			if got := s.Holds[0].Tokens; got != 13+more {
				t.Errorf("%d tokens a step, ahead %v: memory for %d tokens, by hand %d", verified, ahead, got, 13+more)
			}
			if got := s.known(0, 13); got.Tokens != 13+drafts || got.Prompt != 13+drafts {
				t.Errorf("%d tokens a step: %+v is known", verified, got)
			}
			s.Holds[0].Tokens = 13 + more // enough as it is
			s.GrowAll(func() int32 { return 0 })
			// Output 5, the last token in step 4: 2 tokens before step 2. With drafts, contexts of 13 after prompts of 10 mean 3.
			emitted := 2
			if drafts > 0 {
				emitted = 3
			}
			if s.DropDecoding(0); s.gone[0].Tokens != emitted || s.Queue.First().Prompt != 10+emitted || s.Queue.First().Emitted != emitted || s.Preemptions != 1 {
				t.Errorf("%d tokens a step: %+v is lost, %+v waits", verified, s.gone, s.Queue.First())
			}
		}
	}
}

// TestAcceptedByHand: if every draft is accepted, a step of three tokens emits three, or what is left. Contexts grow by what was accepted.
func TestAcceptedByHand(t *testing.T) {
	s := byHand(scheduler.AdmitFinal, true)
	s.Speculation = scheduler.Speculation{Verified: 3, Acceptance: 1}
	for i := range s.Requests {
		s.Requests[i].Output = 5
	}
	// Contexts of 11 to 14 after prompts of 10: 4 to 1 tokens are left, of which 3, 3, 2 and 1 come
	// now.
	for i := range int32(4) {
		d := scheduler.Decoding{Request: i, Base: 11 + int64(i), Last: 9}
		switch i {
		case 1:
			s.Batch.Sub[0].Near = append(s.Batch.Sub[0].Near, d)
		case 2:
			s.Holds[i].Host = true
			s.Enter(d)
			s.Batch.Sub[1].Host = append(s.Batch.Sub[1].Host, d)
			continue
		default:
			s.Batch.Sub[i/2].Decode = append(s.Batch.Sub[i/2].Decode, d)
		}
		s.Enter(d)
	}
	s.Batch.Step, s.Batch.Drafted = 0, 99
	s.speculate()
	for i, got := range []int32{s.Batch.Sub[0].Decode[0].Accepted, s.Batch.Sub[0].Near[0].Accepted, s.Batch.Sub[1].Host[0].Accepted, s.Batch.Sub[1].Decode[0].Accepted} {
		if want := []int32{2, 2, 1, 0}[i]; got != want {
			t.Errorf("request %d: %d drafts are accepted, by hand %d", i, got, want)
		}
	}
	if s.Batch.Drafted != 2+2+1 {
		t.Errorf("%d drafts are accepted in all", s.Batch.Drafted)
	}
	s.Complete(func(int32, int) { t.Error("a request ends") })
	if s.SpareTokens != 1+2 {
		t.Errorf("%d tokens come out of the spare memory", s.SpareTokens)
	}
	for _, d := range append([]scheduler.Decoding{s.Host.Decoding[0].Decoding}, s.Decoding...) {
		if want := 11 + int64(d.Request) + []int64{2, 2, 1, 0}[d.Request]; d.Base != want {
			t.Errorf("request %d attends over %d, by hand %d", d.Request, d.Base, want)
		}
	}
	for i := 1; i < len(s.Decoding); i++ {
		if s.Decoding[i].Base > s.Decoding[i-1].Base {
			t.Errorf("%+v: longest context first", s.Decoding)
		}
	}
}

// ramp predicts a GPU time equal to the prompt tokens plus a constant, and a fixed time of the PIM.
type ramp struct{ more, pim units.Duration }

func (r ramp) GPU(s *scheduler.SubBatch, _ int64) units.Duration {
	return r.more + units.Duration(s.PrefillTokens())
}

func (r ramp) PIM(*scheduler.SubBatch, int64, int) units.Duration { return r.pim }

// TestCutByHand: a prompt is cut where the times of GPUs and PIM are closest, at multiples or at its end, but not below what the iteration's
// minimum lacks. A prompt that cannot be cut is taken if the GPUs have time left or the minimum is not met.
func TestCutByHand(t *testing.T) {
	for _, multiple := range []int{1, 4, 7} {
		for target := -5; target <= 30; target++ { // tokens for which the GPUs have time
			for left := 1; left <= 26; left += 5 {
				for _, lacks := range []int{-3, 0, 1, 9} {
					for _, chunking := range []bool{true, false} {
						s := byHand(scheduler.AdmitFinal, false)
						s.Scheduler.ChunkMultiple, s.Scheduler.Chunking, s.Scheduler.MinPrefillTokens = multiple, chunking, 12+lacks
						s.Batch.Sub[0].Prefill, s.Batch.Sub[1].Prefill = []scheduler.Chunk{{Tokens: 5}}, []scheduler.Chunk{{Tokens: 7}}
						f := dealer{predictor: ramp{100, units.Duration(100 + 7 + target)}}
						least := max(lacks, 0)
						want := left
						switch {
						case target >= left:
						case !chunking && least == 0 && target <= 0:
							want = 0
						case chunking:
							chunks := max(target, 0) / multiple
							if next := min((chunks+1)*multiple, left); target >= 0 && next-target < target-chunks*multiple {
								chunks++
							}
							want = min(left, multiple*max(chunks, (least+multiple-1)/multiple))
						}
						if got := f.cut(&s.State, 1, &Waiting{Request: 1, Prompt: left}, left); got != want {
							t.Fatalf("multiples of %d, %d of %d tokens fit, %d lack, cut %v: %d are taken, by hand %d", multiple, target, left, lacks, chunking, got, want)
						}
					}
				}
			}
		}
	}
}

// TestRoomByHand: how much of a prompt fits on the GPUs, beside three tokens of the batch and the keys and values of two other prompts. A cut prompt
// keeps all of its own there, a whole one none.
func TestRoomByHand(t *testing.T) {
	const batched, others = 3, 2
	for _, chunking := range []bool{true, false} {
		for _, isCut := range []bool{true, false} { // it was cut before
			for _, left := range []int{5, 12} {
				for room := range 40 {
					s := byHand(scheduler.AdmitFinal, false)
					s.GPU.HoldsKV, s.Scheduler.Chunking, s.Scheduler.ChunkMultiple = false, chunking, 4
					s.Batch.Sub[0].Prefill = []scheduler.Chunk{{Tokens: batched}}
					s.Usage.cutPrompts = others
					s.GPU.Free = units.Bytes(room)*s.GPU.Model.ActivationBytes(1) + s.GPU.KVBytes(others)
					w := &Waiting{Request: 1, Prompt: 14, finished: 14 - left, Cut: isCut}
					fits := func(n int) bool {
						kv := others
						if n < left && !isCut {
							kv += 14
						}
						return s.GPU.Model.ActivationBytes(batched+n)+s.GPU.KVBytes(kv) <= s.GPU.Free
					}
					for _, tokens := range []int{left, 5} {
						want := 0
						switch {
						case fits(tokens):
							want = tokens
						case chunking:
							for n := 4; n < tokens; n += 4 {
								if fits(n) {
									want = n
								}
							}
							if want == 0 && fits(left) {
								want = left
							}
						}
						if got := s.roomOnGPU(w, tokens, left); got != want {
							t.Fatalf("cut %v, before %v, %d of %d tokens, room for %d: %d fit, by hand %d", chunking, isCut, tokens, left, room, got, want)
						}
					}
				}
			}
		}
	}
}

// TestIterationByHand: one sub-batch takes the GPUs' time, plus the time by which ranks attend longer than the GPUs. Two take at least the GPUs' time
// for both with the prompts, and at least what either takes alone.
func TestIterationByHand(t *testing.T) {
	s := byHand(scheduler.AdmitFinal, false)
	s.Batch.Step = 0
	var binds [5]int
	for _, p := range []schedtest.Linear{{GPUToken: 1, GPUFixed: 10, PIMToken: 2, NearToken: 3}, {GPUToken: 7, GPUFixed: 100, PIMToken: 1, NearToken: 9}, {GPUToken: 1, PIMToken: 9, NearToken: 1}, {GPUToken: 5, GPUFixed: 50, PIMToken: 20, NearToken: 2}} {
		for _, prompts := range []units.Duration{0, 60, 1000} {
			for mask := range 16 {
				f := dealer{predictor: p}
				var all [2][2]int64 // tokens and requests, at home and near
				var alone [3]units.Duration
				var gpu [2]units.Duration
				longer := func(requests, home, near int64) (gpu, alone units.Duration) {
					attends := p.NearToken * units.Duration(near)
					gpu = p.GPUFixed + p.GPUToken*units.Duration(requests) + attends
					return gpu, gpu + max(0, p.PIMToken*units.Duration(home)-attends)
				}
				for i := range 2 {
					var requests, home, near int64
					for k, context := range []int64{10, 30} {
						d := scheduler.Decoding{Base: context + int64(i)}
						if mask>>(2*i+k)&1 != 0 {
							near += d.Base
							f.subs[i].Near = append(f.subs[i].Near, d)
						} else {
							home += d.Base
							f.subs[i].Decode = append(f.subs[i].Decode, d)
						}
						requests++
					}
					all[0][0], all[0][1], all[1][0] = all[0][0]+home, all[0][1]+near, all[1][0]+requests
					gpu[i], alone[i] = longer(requests, home, near)
				}
				_, alone[2] = longer(all[1][0], all[0][0], all[0][1])
				two, single := max(gpu[0]+gpu[1]+prompts, alone[0], alone[1]), alone[2]+prompts
				for i, of := range []units.Duration{gpu[0] + gpu[1] + prompts, alone[0], alone[1]} {
					if of == two {
						binds[i]++
					}
				}
				if single < two {
					binds[3]++
				} else {
					binds[4]++
				}
				for _, c := range []struct {
					subs     int
					adaptive bool
					want     units.Duration
				}{{1, false, single}, {1, true, single}, {2, false, two}, {2, true, min(two, single)}} {
					s.Batch.Sub, s.Scheduler.Adaptive = make([]scheduler.SubBatch, c.subs), c.adaptive
					if got := f.iteration(&s.State, prompts); got != c.want {
						t.Errorf("%+v, %04b, %+v: %d, by hand %d", p, mask, c, got, c.want)
					}
				}
			}
		}
	}
	for i, n := range binds {
		if n == 0 {
			t.Errorf("bound %d is never the one", i)
		}
	}
}

// TestPutByHand: requests of each place go to the two sub-batches in turn. Taking one away restores the sums. When the spare memory is emptied, each of
// its requests goes to the rankset offset with the fewest tokens.
func TestPutByHand(t *testing.T) {
	s := byHand(scheduler.AdmitFinal, false)
	s.Ledger = memory.NewLedger(memory.LedgerSpec{Ranksets: 3, Layers: 3, HeadsPerChannel: 1, UnitTokens: 1, Capacity: 100, Rotation: true})
	s.Batch.Step = 0
	f := dealer{placer: placer{dealt: make([]int, 4)}}
	places := []struct {
		offset int32
		near   bool
		sub    int
		tokens int64
	}{{0, false, 0, 50}, {0, true, 0, 20}, {0, false, 1, 5}, {1, false, 0, 40}, {2, true, 1, 10}, {1, false, 1, 1}, {0, false, 0, 1}, {1, true, 0, 30}, {2, false, 0, 45}}
	for i, c := range places {
		d := scheduler.Decoding{Request: int32(i), Offset: c.offset, Base: c.tokens}
		for range 2 {
			sub := f.put(&d, c.near)
			if sub != c.sub {
				t.Errorf("request %d is put in sub-batch %d, by hand %d", i, sub, c.sub)
			}
			f.take(&d, sub, c.near)
		}
		f.put(&d, c.near)
	}
	if a, b := &f.subs[0], &f.subs[1]; len(a.Decode) != 4 || len(a.Near) != 2 || len(b.Decode) != 2 || len(b.Near) != 1 {
		t.Errorf("%+v", f.subs)
	}
	// Offsets have 56, 41 and 45 tokens. 20 go to the second, 30 to the third and 10 to the first: 66, 61 and 75.
	f.empty(&s.State)
	for sub, want := range [2]map[int32]int32{{0: 0, 3: 1, 6: 0, 8: 2, 1: 1}, {2: 0, 5: 1, 7: 2, 4: 0}} {
		x := &f.subs[sub]
		if len(x.Near) != 0 || len(x.Decode) != len(want) {
			t.Errorf("sub-batch %d: %+v", sub, x)
		}
		for _, d := range x.Decode {
			if offset, ok := want[d.Request]; !ok || offset != d.Offset {
				t.Errorf("sub-batch %d: request %d lies at offset %d", sub, d.Request, d.Offset)
			}
		}
	}
}

// TestExpectedByHand: requests attend over half of the output that admission expects: what it has memory for, or the mean that it learned.
func TestExpectedByHand(t *testing.T) {
	for _, c := range []struct {
		admission string
		verified  int
		context   int
		expected  float64
		halfway   int
	}{
		{scheduler.AdmitFinal, 0, 10, 10, 15}, {scheduler.AdmitFinal, 0, 18, 10, 18}, {scheduler.AdmitFinal, 4, 10, 10, 15}, {scheduler.AdmitMax, 0, 10, 30, 25}, {scheduler.AdmitMax, 4, 10, 27, 23},
	} {
		s := byHand(c.admission, false)
		s.Requests[0] = traces.Request{Input: 10, Output: 11}
		s.Speculation.Verified = c.verified
		s.near.output = 99 // of before
		s.expect(&Waiting{Request: 0, Prompt: 10})
		if got := s.expected(0); got != c.expected || s.halfway(0, c.context) != c.halfway {
			t.Errorf("%+v: expects %v, half of it at %d", c, got, s.halfway(0, c.context))
		}
	}
	s := byHand(scheduler.AdmitCurrent, false)
	s.hold(t, 0, 20, false) // a context of 13 in step 2
	s.Batch.Step = 2
	s.chunked = []Waiting{{Request: 1, Prompt: 14, Emitted: 4}, {Request: 2, Prompt: 12, Emitted: 2}}
	w := &s.chunked[1]
	if got := s.emitted(w); got != 3+4+2 {
		t.Errorf("%d tokens are emitted", got)
	}
	if s.expect(w); s.near.output != max(1, s.outputs.Mean(9)) || s.expected(3) != s.near.output {
		t.Errorf("expects %v", s.near.output)
	}
}

// TestReserveUnblocks: a request that was refused and now has memory no longer blocks the queue.
func TestReserveUnblocks(t *testing.T) {
	s := byHand(scheduler.AdmitFinal, true)
	for request, onHost := range []bool{false, true} {
		s.Add(int32(request))
		s.Refuse(noMemory, onHost)
		if w := s.Queue.First(); !s.Queue.Blocked || !s.Reserve(w, onHost) || s.Queue.Blocked || !s.Queue.Asks() {
			t.Errorf("on the host %v: blocked %v", onHost, s.Queue.Blocked)
		}
		s.Queue.head++
	}
}

// TestStreakBeforeSteps: with a streak of two and one or three requests that decode, each third iteration is a step while prompts wait.
func TestStreakBeforeSteps(t *testing.T) {
	for decoding := 1; decoding <= 3; decoding += 2 {
		var requests []traces.Request
		for i := range 20 {
			requests = append(requests, traces.Request{ID: i, Input: 10, Output: 20})
		}
		c := Config{Policy: scheduler.PolicyPrefillFirst, Scheduler: &scheduler.Spec{SubBatches: 1, Chunking: true, ChunkMultiple: 1}, PrefillStreak: 2,
			Memory: &scheduler.MemorySpec{Admission: scheduler.AdmitFinal}, Comm: &scheduler.CommSpec{Balance: scheduler.BalanceLeastLoaded}, Batching: &scheduler.BatchingSpec{MaxBatchTokens: 10}}
		s := New(c, Memories{Ledger: one(10_000), GPU: memory.GPU{Model: schedtest.SmallModel, Free: 1 << 30, HoldsKV: true}}, requests, FormerOf(c.Policy, nil))
		for i := range decoding { // a prompt an iteration, and nobody else waits
			s.Add(int32(i))
			s.Next()
			s.Complete(func(int32, int) {})
		}
		for i := decoding; i < 20; i++ {
			s.Add(int32(i))
		}
		s.Next() // a step, or a prompt behind others: what came before counts
		s.Complete(func(int32, int) {})
		var steps []int
		for i := range 9 {
			if s.Next().Decoding() > 0 {
				steps = append(steps, i)
			}
			s.Complete(func(int32, int) {})
		}
		if len(steps) != 3 || steps[1]-steps[0] != 3 || steps[2]-steps[1] != 3 {
			t.Errorf("%d decode: steps %v of nine iterations", decoding, steps)
		}
	}
}

// asked counts the predictions of the GPUs' time.
type asked struct {
	schedtest.Linear
	times *int
}

func (a asked) GPU(s *scheduler.SubBatch, step int64) units.Duration {
	*a.times++
	return a.Linear.GPU(s, step)
}

// TestAdaptsWhereItDeals: two sub-batches are compared with one when requests are dealt anew or prompts arrive, and not in
// between.
func TestAdaptsWhereItDeals(t *testing.T) {
	var times int
	requests := []traces.Request{{Input: 10, Output: 200}, {ID: 1, Input: 10, Output: 200}, {ID: 2, Input: 10, Output: 200}}
	c := Config{Policy: scheduler.PolicyChunkedPrefill, Scheduler: &scheduler.Spec{SubBatches: 2, Chunking: true, ChunkMultiple: 1, Adaptive: true},
		Memory: &scheduler.MemorySpec{Admission: scheduler.AdmitFinal}, Comm: &scheduler.CommSpec{Balance: scheduler.BalanceLeastLoaded}, Batching: &scheduler.BatchingSpec{MaxBatchTokens: 100}}
	s := New(c, Memories{Ledger: one(10_000), GPU: memory.GPU{Model: schedtest.SmallModel, Free: 1 << 30, HoldsKV: true}}, requests, FormerOf(c.Policy, asked{schedtest.Linear{GPUToken: 1, PIMToken: 1}, &times}))
	s.Add(0)
	s.Add(1)
	var compared []int
	for i := range 70 {
		if i == 5 {
			s.Add(2)
		}
		before := times
		if s.Next(); times > before {
			compared = append(compared, i)
		}
		s.Complete(func(int32, int) {})
	}
	if want := []int{1, 5, 6}; !slices.Equal(compared, want) { // the first prompts are alone in theirs
		t.Errorf("compared in iterations %v, want %v", compared, want)
	}
}
