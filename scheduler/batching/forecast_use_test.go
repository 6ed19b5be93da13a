package batching

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/traces"
	"pgregory.net/rapid"
)

// foreseer is a Follower that rebuilds the forecast that a scheduler should have.
type foreseer struct {
	*schedtest.Follower
	forecast *memory.Forecast
	ledger   *memory.Ledger
}

func newForeseer(requests []traces.Request, admission *scheduler.MemorySpec, l *memory.Ledger) *foreseer {
	return &foreseer{schedtest.NewFollower(requests), memory.NewForecast(admission, l.Ranksets()), l}
}

// emitted notes the length of a request that has ended.
func (f *foreseer) emitted(request int32, tokens int) {
	if tokens == f.Requests[request].Output {
		f.forecast.Ended(tokens)
	}
}

// checkForecast checks that a request that was refused for growth in this iteration has room for its tokens. It
// also checks that the forecast is of the lengths that have ended and the admitted requests, with the tokens that
// they emitted before the iteration.
func (f *foreseer) checkForecast(t *rapid.T, s *State) {
	if !s.Queue.Blocked || s.Queue.Refusal != (Refusal{NoGrowth, s.Batch.Step}) {
		return
	}
	w := s.Queue.First()
	if len(s.Ledger.Room(s.Reserved(w), nil, s.KeepFree(w, false), nil)) == 0 {
		t.Fatalf("request %d is refused for growth and has no room", w.Request)
	}
	f.forecast.Clear()
	add := func(request int32, hold memory.Reservation) {
		f.forecast.AddHolder(&hold, f.Requests[request].Input, f.Emitted[request])
	}
	for i := range s.Decoding {
		if hold := s.Holds[s.Decoding[i].Request]; !hold.Near {
			add(s.Decoding[i].Request, hold)
		}
	}
	s.EachPrefilling(false, func(w *Waiting) {
		if !w.Hold.Near {
			add(w.Request, w.Hold)
		}
	})
	add(w.Request, memory.Reservation{})
	f.forecast.Foresee(f.ledger)
	if got := s.Foresee(w, false); !reflect.DeepEqual(got, f.forecast) {
		t.Fatalf("the forecast is %+v, want %+v", got, f.forecast)
	}
}

// checkLengths checks at the end of a run that its forecast knows the lengths of the
// latest requests that ended.
func (f *foreseer) checkLengths(t *rapid.T, s *State) {
	if s.forecast == nil {
		return
	}
	for _, c := range []*memory.Forecast{s.forecast, f.forecast} {
		c.Clear()
		c.Add(0, 1, 0)
		c.Foresee(f.ledger)
	}
	if !reflect.DeepEqual(s.forecast, f.forecast) {
		t.Fatalf("the forecast at the end is %+v, want %+v", s.forecast, f.forecast)
	}
}

// TestForecastWithoutPressure: if memory holds all requests at their longest, a forecast changes
// nothing.
func TestForecastWithoutPressure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var requests []traces.Request
		for i := range 1 + rng.IntN(20) {
			requests = append(requests, request(i, 1+rng.IntN(100), 1+rng.IntN(60)))
		}
		policy := schedtest.OneFrom(rng, scheduler.PolicySubBatches, scheduler.PolicyPrefillFirst, scheduler.PolicyChunkedPrefill)
		seed, ranksets := rng.Uint64(), 1+rng.IntN(4)
		run := func(history int) (batches [][]int, s *Scheduler) {
			s = queued(requests, policy, &scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: 60, History: history, Margin: 3}, ranksets, 1<<20, seed)
			for b := s.Next(); !b.Empty(); b = s.Next() {
				var runs []int
				for i := range b.Sub {
					for _, d := range b.Sub[i].Decode {
						runs = append(runs, int(d.Request), int(d.Offset))
					}
					for _, c := range b.Sub[i].Prefill {
						runs = append(runs, int(c.Request), int(c.Offset), c.Tokens)
					}
				}
				batches = append(batches, runs)
				s.Complete(func(int32, int) {})
			}
			return batches, s
		}
		without, _ := run(0)
		with, s := run(1000)
		if !slices.EqualFunc(with, without, slices.Equal[[]int]) || s.Preemptions > 0 {
			t.Fatalf("%d preemptions; with a forecast\n%v\nwithout\n%v", s.Preemptions, with, without)
		}
	})
}

// queued returns a scheduler with all requests in its queue.
func queued(requests []traces.Request, policy scheduler.Policy, admission *scheduler.MemorySpec, ranksets int, capacity int64, seed uint64) *Scheduler {
	ledger := memory.NewLedger(memory.LedgerSpec{Ranksets: ranksets, Layers: schedtest.SmallModel.Layers, HeadsPerChannel: 2, UnitTokens: 16, Capacity: capacity, Rotation: true})
	config := Config{
		Policy: policy, Scheduler: &scheduler.Spec{SubBatches: 2, Chunking: true, ChunkMultiple: 16, MinPrefillTokens: 64}, Memory: admission,
		Comm: &scheduler.CommSpec{Balance: scheduler.BalanceLeastLoaded}, Batching: &scheduler.BatchingSpec{MaxBatchTokens: 500},
	}
	free := memory.GPU{Model: schedtest.SmallModel, Free: 1 << 40, HoldsKV: policy != scheduler.PolicySubBatches}
	config.Random = rand.New(rand.NewPCG(seed, 0))
	s := New(config, Memories{Ledger: ledger, GPU: free}, requests, FormerOf(policy, schedtest.Linear{GPUToken: 5, GPUFixed: 100, PIMToken: 1}))
	addAll(s, len(requests))
	return s
}

// TestForecastPreventsThrashing serves many requests of unknown lengths from a memory for few of them. With a forecast from
// earlier outputs, at most one in ten is preempted, in at most twice the steps of a run that reserves known lengths in full.
// Without a forecast, each is preempted up to ten times. Before anything is known, the first requests all are admitted if they
// fit; they may be preempted once, too.
func TestForecastPreventsThrashing(t *testing.T) {
	deep.Heavy(t)
	for name, length := range map[string]func(r *rand.Rand) int{
		"exponential":   func(r *rand.Rand) int { return 1 + int(r.ExpFloat64()*400) },
		"heavy tail":    func(r *rand.Rand) int { return 1 + int(50*math.Exp(1.2*r.NormFloat64())) },
		"equal":         func(*rand.Rand) int { return 300 },
		"short or long": func(r *rand.Rand) int { return 20 + 900*r.IntN(2) },
	} {
		for _, policy := range []scheduler.Policy{scheduler.PolicySubBatches, scheduler.PolicyPrefillFirst, scheduler.PolicyChunkedPrefill} {
			for _, fit := range []int{5, 40} { // requests of 400 tokens, beside the longest
				if !deep.Case(len(name)+int(policy)+fit/5, 4) {
					continue
				}
				r := rand.New(rand.NewPCG(5, uint64(fit)))
				var requests []traces.Request
				for i := range 600 {
					requests = append(requests, request(i, 1+r.IntN(40), min(length(r), 4096)))
				}
				ranksets := 1 + fit/10
				serve := func(admission string, history, known int) (preemptions float64, steps, most int) {
					kv := &scheduler.MemorySpec{Admission: admission, MaxTokens: 4096, Watermark: 0.01, History: history, Margin: 2}
					s := queued(requests, policy, kv, ranksets, int64((fit*400+4200)/16*schedtest.SmallModel.Layers*2/ranksets), 1)
					earlier := rand.New(rand.NewPCG(6, 0))
					for range known {
						s.Learn(min(length(earlier), 4096))
					}
					for b := s.Next(); !b.Empty(); b = s.Next() {
						if b.Decoding() > 0 {
							steps++
						}
						most = max(most, b.Decoding())
						s.Complete(func(int32, int) {})
					}
					return float64(s.Preemptions) / float64(len(requests)), steps, most
				}
				with, steps, _ := serve(scheduler.AdmitCurrent, 1000, 50)
				begun, begunSteps, most := serve(scheduler.AdmitCurrent, 1000, 0)
				without, _, _ := serve(scheduler.AdmitCurrent, 0, 0)
				_, known, _ := serve(scheduler.AdmitFinal, 0, 0)
				first := float64(most) / float64(len(requests))
				if with > 0.1 || begun > first+0.1 || without < 2*max(with, begun) || max(steps, begunSteps) > 2*known {
					t.Errorf("%s, policy %d, memory for %d: %.3f preemptions a request in %d steps, %.3f in %d from nothing known; %.2f without a forecast; %d steps with lengths known",
						name, policy, fit, with, steps, begun, begunSteps, without, known)
				}
			}
		}
	}
}

// TestForecastBeginsOpen: while nothing or little is known, a forecast admits all requests that fit now, as a server does. It once expected
// the configured longest output: of each request, then of each that outlasted the first to end. An empty memory then took few.
func TestForecastBeginsOpen(t *testing.T) {
	const n, longest = 40, 100
	for name, output := range map[string]func(i int) int{
		"equal":             func(int) int { return longest },
		"few end at once":   func(i int) int { return 1 + (longest-1)*min(1, i/3) },
		"of all lengths":    func(i int) int { return 1 + i*37%longest },
		"ever longer":       func(i int) int { return 1 + i*longest/(2*n) },
		"half end at once":  func(i int) int { return 1 + (longest-1)*(i%2) },
		"one is the latest": func(i int) int { return 1 + (longest-1)*(i/(2*n-1)) },
	} {
		var requests []traces.Request
		for i := range 2 * n {
			requests = append(requests, request(i, 100, output(i)))
		}
		for _, policy := range []scheduler.Policy{scheduler.PolicySubBatches, scheduler.PolicyPrefillFirst, scheduler.PolicyChunkedPrefill} {
			run := func(history int) (decoding []int, preemptions int64) {
				kv := &scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: 32768, History: history, Margin: 2}
				s := queued(requests, policy, kv, 1, int64(2*n*(100+2*longest)/16*schedtest.SmallModel.Layers*2), 1)
				for b := s.Next(); !b.Empty(); b = s.Next() {
					decoding = append(decoding, b.Decoding())
					s.Complete(func(int32, int) {})
				}
				return decoding, s.Preemptions
			}
			got, preemptions := run(1000)
			if want, _ := run(0); !slices.Equal(got, want) || preemptions > 0 {
				t.Errorf("%s, policy %d: requests that decode\n%v, and without a forecast\n%v; %d preemptions", name, policy, got, want, preemptions)
			}
		}
	}
}
