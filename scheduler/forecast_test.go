package scheduler

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/traces"
	"pgregory.net/rapid"
)

// known is what a forecast is made from, for sums written out from the definitions.
type known struct {
	spec    LedgerSpec
	memory  *MemorySpec
	lengths []int     // of requests that ended
	running []growing // the last one is to be admitted
}

// drawKnown draws a history, which a forecast remembers a part of, and requests.
func drawKnown(rng *rand.Rand) (*known, *forecast, *Ledger) {
	between := func(low, high int) int { return low + rng.IntN(high-low+1) }
	w := &known{spec: LedgerSpec{
		Ranksets: between(1, 4), Layers: between(1, 7), HeadsPerChannel: between(1, 3), UnitTokens: oneFrom(rng, 1, 16), Capacity: 1, Rotation: rng.IntN(2) == 1,
	}}
	w.memory = &MemorySpec{Admission: AdmitCurrent, MaxTokens: between(1, 300), History: between(1, 40), Margin: 3 * rng.Float64()}
	l, f := NewLedger(w.spec), newForecast(w.memory, w.spec.Ranksets)
	for range between(0, 60) {
		w.lengths = append(w.lengths, between(1, 200))
		f.ended(w.lengths[len(w.lengths)-1])
	}
	w.lengths = w.lengths[max(len(w.lengths)-w.memory.History, 0):]
	for range between(1, 8) {
		r := growing{offset: rng.IntN(w.spec.Ranksets), input: between(1, 50), emitted: between(0, 150)}
		w.running = append(w.running, r)
		f.add(r.offset, r.input, r.emitted)
	}
	f.foresee(l)
	return w, f, l
}

// longer is the product limit, over each length once.
func (w *known) longer(tokens int) float64 {
	if tokens >= w.memory.MaxTokens {
		return 0
	}
	chance := 1.0
	for _, length := range slices.Compact(slices.Sorted(slices.Values(w.lengths))) {
		if length > tokens {
			break
		}
		ended, atRisk := 0.0, 1.0 // one is as long as any
		for _, other := range w.lengths {
			if other == length {
				ended++
			}
			if other >= length {
				atRisk++
			}
		}
		for _, r := range w.running {
			if r.emitted+1 >= length { // it will emit one more at least
				atRisk++
			}
		}
		chance *= (atRisk - ended) / atRisk
	}
	return chance
}

// need returns mean and variance of what a rank holds of the requests that are there
// after there steps, each with its size after size steps.
func (w *known) need(rank, there, size int) (mean, variance float64) {
	for _, r := range w.running {
		p := 1.0
		if now := w.longer(r.emitted); now > 0 {
			p = w.longer(r.emitted+there) / now
		} else if there > w.memory.MaxTokens {
			p = 0
		}
		l := NewLedger(w.spec)
		l.apply(r.offset, l.perLayer(prompted(r.input+r.emitted+size)))
		held := float64(l.used[rank])
		mean, variance = mean+held*p, variance+held*held*p*(1-p)
	}
	return mean, variance
}

// TestForecastIsTheProductLimit compares what a forecast expects with sums written
// out, and what it fits.
func TestForecastIsTheProductLimit(t *testing.T) {
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+math.Abs(b)) }
	rapid.Check(t, func(t *rapid.T) {
		w, f, l := drawKnown(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		offset := w.running[len(w.running)-1].offset
		most := 0.0
		for rank := range w.spec.Ranksets {
			layers := l.layersFrom(offset, rank)
			for k := range places {
				need, spread := f.rankNeed[rank][k]+layers*f.own.need[k], f.rankSpread[rank][k]+layers*layers*f.own.spread[k]
				if mean, variance := w.need(rank, ahead[k], ahead[k+1]-1); !near(need, mean) || !near(spread, variance) {
					t.Fatalf("rank %d in %d steps: %v ± %v, want %v ± %v", rank, ahead[k], need, spread, mean, variance)
				}
				for steps := ahead[k]; steps < ahead[k+1] && steps < 400; steps++ {
					if mean, _ := w.need(rank, steps, steps); mean > need+1e-9*need {
						t.Fatalf("rank %d in %d steps: %v, said to be %v at most from %d to %d", rank, steps, mean, need, ahead[k], ahead[k+1])
					}
				}
				most = max(most, need+w.memory.Margin*math.Sqrt(spread))
			}
		}
		const keep = 5
		for _, more := range []int64{-1, 0, 1, 2} {
			l.capacity = int64(most) + keep + more
			want := len(w.running) == 1 || float64(l.capacity-keep) >= most
			if got := f.fits(l, offset, keep); got != want && !near(float64(l.capacity-keep), most) {
				t.Fatalf("a need of %v beside %d others fits %d units: %v", most, len(w.running)-1, l.capacity-keep, got)
			}
		}
	})
}

// checkForecast checks that a request that was refused for growth in the iteration at
// hand has room for its tokens, and that the forecast is of the requests that have
// memory, with the tokens that they have emitted before the iteration.
func checkForecast(t *rapid.T, s *Scheduler, f *follower) {
	if !s.blocked || s.refusal != (refusal{noGrowth, s.batch.Step}) {
		return
	}
	w := &s.queue[s.head]
	if !s.ledger.hasRoom(s.reserved(w), s.keep(s.ledger)) {
		t.Fatalf("request %d is refused for growth and has no room", w.request)
	}
	var want []growing
	add := func(request int32, offset int) {
		want = append(want, growing{offset, f.requests[request].Input, f.emitted[request], 0})
	}
	for i := range s.decoding {
		add(s.decoding[i].Request, s.holds[s.decoding[i].Request].Offset)
	}
	for i := range s.moving {
		add(s.moving[i].Request, s.holds[s.moving[i].Request].Offset)
	}
	s.eachPrefilling(false, func(w *waiting) { add(w.request, w.hold.Offset) })
	add(w.request, 0)
	if got := s.foresee(w).running; !slices.Equal(got, want) {
		t.Fatalf("the forecast is of %v, want %v", got, want)
	}
}

// checkLengths checks at the end of a run that its forecast knows the lengths of the
// latest requests that ended.
func checkLengths(t *rapid.T, s *Scheduler, f *follower) {
	if s.forecast == nil {
		return
	}
	var all []int
	for i := range f.requests {
		if f.emitted[i] > 0 {
			all = append(all, f.requests[i].Output)
		}
	}
	slices.Sort(all)
	if got := s.forecast.sorted; len(got) != min(len(all), s.memory.History) || len(got) == len(all) && !slices.Equal(got, all) {
		t.Fatalf("known lengths %v of %v", got, all)
	}
}

// TestForecastWithoutPressure: where memory holds all requests at their longest, a
// forecast changes nothing.
func TestForecastWithoutPressure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var requests []traces.Request
		for i := range 1 + rng.IntN(20) {
			requests = append(requests, request(i, 1+rng.IntN(100), 1+rng.IntN(60)))
		}
		policy := oneFrom(rng, PolicySubBatches, PolicyPrefillFirst, PolicyChunkedPrefill)
		seed, ranksets := rng.Uint64(), 1+rng.IntN(4)
		run := func(history int) (batches [][]int, s *Scheduler) {
			s = queued(requests, policy, &MemorySpec{Admission: AdmitCurrent, MaxTokens: 60, History: history, Margin: 3}, ranksets, 1<<20, seed)
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
		if !slices.EqualFunc(with, without, slices.Equal[[]int]) || s.Preemptions() > 0 {
			t.Fatalf("%d preemptions; with a forecast\n%v\nwithout\n%v", s.Preemptions(), with, without)
		}
	})
}

// queued returns a scheduler with all requests in its queue.
func queued(requests []traces.Request, policy Policy, memory *MemorySpec, ranksets int, capacity int64, seed uint64) *Scheduler {
	ledger := NewLedger(LedgerSpec{Ranksets: ranksets, Layers: smallModel.Layers, HeadsPerChannel: 2, UnitTokens: 16, Capacity: capacity, Rotation: true})
	config := Config{
		Policy: policy, Scheduler: &Spec{SubBatches: 2, Chunking: true, ChunkMultiple: 16, MinPrefillTokens: 64}, Memory: memory,
		Comm: &CommSpec{Balance: BalanceLeastLoaded}, Batching: &BatchingSpec{MaxBatchTokens: 500},
	}
	free := GPUMemory{Model: smallModel, Free: 1 << 40, HoldsKV: policy != PolicySubBatches}
	s := New(config, requests, ledger, free, linear{5, 100, 1}, rand.New(rand.NewPCG(seed, 0)))
	addAll(s, len(requests))
	return s
}

// TestForecastOfTheHost is TestForecastPreventsThrashing of requests that all decode on
// the host.
func TestForecastOfTheHost(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 0))
	var requests []traces.Request
	for i := range 400 {
		requests = append(requests, request(i, 1+r.IntN(40), 1+int(r.ExpFloat64()*200)))
	}
	serve := func(history int) float64 {
		memory := &MemorySpec{Admission: AdmitCurrent, MaxTokens: 2048, Watermark: 0.01, History: history, Margin: 2}
		host := NewLedger(LedgerSpec{Ranksets: 1, Layers: smallModel.Layers, HeadsPerChannel: 2, UnitTokens: 16, Capacity: int64(400 * smallModel.Layers * 2)})
		s := NewOffload(queued(requests, PolicyChunkedPrefill, memory, 1, 1<<20, 1), OffloadConfig{Host: host, Costs: lines{2000, 20, 3, 200, 5, 200}, AllOnHost: true})
		for b := s.Next(); !b.Empty(); b = s.Next() {
			s.Complete(func(int32, int) {})
		}
		return float64(s.Preemptions()) / float64(len(requests))
	}
	if with, without := serve(1000), serve(0); with > 0.1 || without < 1 {
		t.Errorf("%.3f preemptions a request, %.2f without a forecast", with, without)
	}
}

// TestForecastPreventsThrashing serves many requests of unknown lengths from a memory
// for few of them. With a forecast, at most one in ten loses its memory, in at most
// twice the steps of all lengths known and reserved in full; without one, they lose
// it up to ten times each.
func TestForecastPreventsThrashing(t *testing.T) {
	for name, length := range map[string]func(r *rand.Rand) int{
		"exponential":   func(r *rand.Rand) int { return 1 + int(r.ExpFloat64()*400) },
		"heavy tail":    func(r *rand.Rand) int { return 1 + int(50*math.Exp(1.2*r.NormFloat64())) },
		"equal":         func(*rand.Rand) int { return 300 },
		"short or long": func(r *rand.Rand) int { return 20 + 900*r.IntN(2) },
	} {
		for _, policy := range []Policy{PolicySubBatches, PolicyPrefillFirst, PolicyChunkedPrefill} {
			for _, fit := range []int{5, 40} { // requests of 400 tokens, beside the longest
				r := rand.New(rand.NewPCG(5, uint64(fit)))
				var requests []traces.Request
				for i := range 600 {
					requests = append(requests, request(i, 1+r.IntN(40), min(length(r), 4096)))
				}
				ranksets := 1 + fit/10
				serve := func(admission string, history int) (preemptions float64, steps int) {
					memory := &MemorySpec{Admission: admission, MaxTokens: 4096, Watermark: 0.01, History: history, Margin: 2}
					s := queued(requests, policy, memory, ranksets, int64((fit*400+4200)/16*smallModel.Layers*2/ranksets), 1)
					for b := s.Next(); !b.Empty(); b = s.Next() {
						if b.Decoding() > 0 {
							steps++
						}
						s.Complete(func(int32, int) {})
					}
					return float64(s.Preemptions()) / float64(len(requests)), steps
				}
				with, steps := serve(AdmitCurrent, 1000)
				without, _ := serve(AdmitCurrent, 0)
				_, known := serve(AdmitFinal, 0)
				if with > 0.1 || without < 2*with || steps > 2*known {
					t.Errorf("%s, policy %d, memory for %d: %.3f preemptions a request in %d steps; %.2f without a forecast; %d steps with lengths known",
						name, policy, fit, with, steps, without, known)
				}
			}
		}
	}
}
