package memory

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	_ "github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"pgregory.net/rapid"
)

// known is the input of a forecast, for sums written out from the definitions.
type known struct {
	spec    LedgerSpec
	memory  *scheduler.MemorySpec
	lengths []int     // of requests that ended
	running []growing // the last one is to be admitted
}

// drawKnown draws requests and a history, of which a forecast remembers a part.
func drawKnown(rng *rand.Rand) (*known, *Forecast, *Ledger) {
	between := func(low, high int) int { return low + rng.IntN(high-low+1) }
	w := &known{spec: LedgerSpec{
		Ranksets: between(1, 4), Layers: between(1, 7), HeadsPerChannel: between(1, 3), UnitTokens: schedtest.OneFrom(rng, 1, 16), Capacity: 1, Rotation: rng.IntN(2) == 1,
	}}
	w.memory = &scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: between(1, 300), History: between(1, 40), Margin: 3 * rng.Float64()}
	l, f := NewLedger(w.spec), NewForecast(w.memory, w.spec.Ranksets)
	for range between(0, 60) {
		w.lengths = append(w.lengths, between(1, 200))
		f.Ended(w.lengths[len(w.lengths)-1])
	}
	w.lengths = w.lengths[max(len(w.lengths)-w.memory.History, 0):]
	for range between(1, 8) {
		r := growing{offset: rng.IntN(w.spec.Ranksets), input: between(1, 50), emitted: between(0, 150)}
		w.running = append(w.running, r)
		f.Add(r.offset, r.input, r.emitted)
	}
	f.Foresee(l)
	return w, f, l
}

// longest is the longest expected output: twice the longest so far.
func (w *known) longest() int {
	seen := slices.Max(append([]int{0}, w.lengths...))
	for _, r := range w.running {
		seen = max(seen, r.emitted)
	}
	return min(w.memory.MaxTokens, max(1, 2*seen))
}

// longer is the product limit, over each length once.
func (w *known) longer(tokens int) float64 {
	if tokens >= w.longest() {
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

// need returns the mean and variance of what a rank holds: of the requests present after there
// steps, each with its size after size steps.
func (w *known) need(rank, there, size int) (mean, variance float64) {
	for _, r := range w.running {
		p := 1.0
		if now := w.longer(r.emitted); now > 0 {
			p = w.longer(r.emitted+there) / now
		} else if there > w.longest() {
			p = 0
		}
		l := NewLedger(w.spec)
		l.apply(r.offset, l.perLayer(Prompted(r.input+r.emitted+size)))
		held := float64(l.used[rank])
		mean, variance = mean+held*p, variance+held*held*p*(1-p)
	}
	return mean, variance
}

// TestForecastIsTheProductLimit compares a forecast's expectations, and what it fits, with sums
// written out.
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

// TestMeanOutput: the mean output length by hand, at most 20 tokens. Before any request has ended, the running ones count as one that ends.
func TestMeanOutput(t *testing.T) {
	for _, c := range []struct {
		name    string
		ended   []int
		running int // tokens emitted
		want    float64
	}{
		{"nothing known", nil, 0, 20},
		{"running alone", nil, 5, 20},
		{"all ended", []int{2, 4, 6}, 0, 4},
		{"one runs", []int{2, 6}, 3, 5.5},
		{"one outlasts the others", []int{2, 6}, 8, 8},
		{"most run", []int{2}, 30, 20},
		{"the oldest is forgotten", []int{100, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 9, 3},
	} {
		f := NewOutputs(&scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: 20, History: 9})
		for _, n := range c.ended {
			f.Ended(n)
		}
		if got := f.Mean(c.running); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		likely := c.want
		if c.ended == nil {
			likely = float64(c.running)
		}
		if got := f.Likely(c.running); math.Abs(got-likely) > 1e-12 {
			t.Errorf("%s: likely %v, want %v", c.name, got, likely)
		}
	}
}
