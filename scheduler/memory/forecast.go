package memory

import (
	"github.com/l3sim/l3sim/scheduler"
	"math"
	"slices"
)

// Forecast estimates how much memory requests will need as they grow (the Past-Future
// scheduler: Gong et al., "Past-Future Scheduler for LLM Serving under SLA
// Guarantees", ASPLOS 2025, arXiv 2507.10150). From the output lengths of the latest
// requests that ended it estimates how likely a request that has emitted n tokens still
// runs k steps later.
//
// The paper draws an output length for each running request in every step, and admits a request if
// the peak of their memory fits. It draws again for a refused request, until a lucky draw admits
// it. Forecast computes the mean and the standard deviation of the memory at future steps instead.
type Forecast struct {
	Outputs
	margin  float64   // standard deviations that must fit beside the mean
	longest int       // the longest output expected now, see survive
	sorted  []int     // the lengths
	running []growing // requests that hold memory; the last is the one to be admitted
	emitted []int     // tokens emitted by each of running, ascending
	chance  []float64 // [i]: chance of emitting more than i * width tokens
	width   int

	// Memory that requests will need, and its variance, by rankset offset, in units a layer. Only the
	// first reach elements of a course are filled.
	need, spread []course
	reach        int
	own          struct{ need, spread course } // need and spread of the request to be admitted
	// Memory that all other requests will need, and its variance, by rank, in units.
	rankNeed, rankSpread []course
}

// growing is a request that holds memory.
type growing struct {
	offset, input, emitted int
	shared                 int   // the first tokens, which are in blocks of the cache
	last                   int32 // the last block of the cache that the request uses, 0 for none
}

// course is an upper bound of a quantity over future steps: element k holds from ahead[k] steps
// from now until ahead[k+1].
type course [places]float64

// places is the number of future steps for which memory is forecast.
const places = 253

// ahead lists future steps, counted from now: 1 to 32, then each about 1/16 larger than the one
// before, up to the longest output that can be configured.
var ahead = func() (a [places + 1]int) {
	for k, steps := 0, 1; k <= places; k++ {
		a[k] = steps
		steps += max(1, steps/16)
	}
	return a
}()

// NewForecast returns nil if admission looks at present lengths only. A nil Forecast's methods, but
// for Foresee, do nothing.
func NewForecast(m *scheduler.MemorySpec, ranksets int) *Forecast {
	if m.Admission != scheduler.AdmitCurrent || m.History == 0 {
		return nil
	}
	const cells = 4096
	f := &Forecast{Outputs: NewOutputs(m), margin: m.Margin, width: (m.MaxTokens + cells - 1) / cells}
	f.chance = make([]float64, (f.most+f.width-1)/f.width)
	for _, c := range []*[]course{&f.need, &f.spread, &f.rankNeed, &f.rankSpread} {
		*c = make([]course, ranksets)
	}
	return f
}

// Ended records the output length of a request that has ended.
func (f *Forecast) Ended(output int) {
	if f == nil {
		return
	}
	if forgotten := f.Outputs.Ended(output); len(f.sorted) == len(f.lengths) {
		at, _ := slices.BinarySearch(f.sorted, forgotten)
		f.sorted = slices.Delete(f.sorted, at, at+1)
	}
	at, _ := slices.BinarySearch(f.sorted, output)
	f.sorted = slices.Insert(f.sorted, at, output)
}

// Clear forgets the requests that hold memory.
func (f *Forecast) Clear() { f.running = f.running[:0] }

// Add adds a request that holds memory at a rankset offset. The last one added is the
// request to be admitted; its offset is ignored.
func (f *Forecast) Add(offset, input, emitted int) {
	f.running = append(f.running, growing{offset: offset, input: input, emitted: emitted})
}

// AddHolder adds a request that holds memory with this reservation.
func (f *Forecast) AddHolder(r *Reservation, input, emitted int) {
	f.running = append(f.running, growing{r.Offset, input, emitted, r.Shared, r.last})
}

// survive estimates the chance of a request to emit more than any number of tokens (Kaplan and Meier, "Nonparametric Estimation from
// Incomplete Observations", 1958). At each known length, some of the requests that reached it ended. Running requests count up to their
// present length; otherwise the first requests to end, which are short, would seem typical. One more request is assumed that outlasts
// all others and ends at twice the longest output so far: without other knowledge, a request is as likely as not to run as long again.
// The configured longest output is no estimate: expected of all requests that outlast the first, it would let few into an empty memory.
func (f *Forecast) survive() {
	f.emitted = f.emitted[:0]
	for i := range f.running {
		f.emitted = append(f.emitted, f.running[i].emitted)
	}
	slices.Sort(f.emitted)
	f.longest = min(f.most, max(1, 2*max(last(f.sorted), last(f.emitted))))
	chance, ended, shorter := 1.0, 0, 0
	for cell := range f.chance {
		for tokens := cell * f.width; ended < len(f.sorted) && f.sorted[ended] <= tokens; ended++ {
			for shorter < len(f.emitted) && f.emitted[shorter]+1 < f.sorted[ended] {
				shorter++
			}
			chance *= 1 - 1/float64(len(f.sorted)-ended+len(f.emitted)-shorter+1)
		}
		f.chance[cell] = chance
	}
}

// last returns the last of sorted lengths, 0 for none.
func last(sorted []int) int {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)-1]
}

// longer returns the chance that a request emits more than a number of tokens.
func (f *Forecast) longer(tokens int) float64 {
	if tokens >= f.longest {
		return 0
	}
	return f.chance[tokens/f.width]
}

// Foresee computes the future from the requests that have been added.
func (f *Forecast) Foresee(l *Ledger) {
	f.survive()
	clear(f.need)
	clear(f.spread)
	f.own.need, f.own.spread, f.reach = course{}, course{}, 0
	own := len(f.running) - 1
	for i := range f.running[:own] {
		r := f.running[i]
		r.shared -= l.ownTokens(r.last)
		f.expect(l, &r, &f.need[r.offset], &f.spread[r.offset])
	}
	f.expect(l, &f.running[own], &f.own.need, &f.own.spread)
	for rank := range f.rankNeed {
		need, spread := &f.rankNeed[rank], &f.rankSpread[rank]
		*need, *spread = course{}, course{}
		for offset := range f.need {
			layers := l.layersFrom(offset, rank)
			for k := range f.reach {
				need[k] += float64(layers * f.need[offset][k])
				spread[k] += float64(layers * layers * f.spread[offset][k])
			}
		}
	}
}

// expect adds the memory that a request will need. Element k of a course takes the chance that the
// request still runs at the element's first step, and its size at the last step. A request longer
// than all expected ones is assumed to run most steps more.
func (f *Forecast) expect(l *Ledger, r *growing, need, spread *course) {
	now := f.longer(r.emitted)
	for k := range places {
		p := 1.0
		if now > 0 {
			p = f.longer(r.emitted+ahead[k]) / now
		} else if ahead[k] > f.longest {
			p = 0
		}
		if p == 0 {
			return
		}
		u := float64(l.perLayer(Length{r.input, r.input + r.emitted + ahead[k+1] - 1}) - int64(r.shared/l.unitTokens*l.heads))
		need[k] += float64(u * p)
		spread[k] += float64(u * u * p * (1 - p))
		f.reach = max(f.reach, k+1)
	}
}

// fits says whether all requests will fit every rank at every future step, with the one to be admitted at an
// offset and keep units free. A request alone always fits. The one to be admitted counts in full. Cached
// blocks that several of the others use count once, at every step.
func (f *Forecast) fits(l *Ledger, offset int, keep int64) bool {
	if f == nil || len(f.running) == 1 {
		return true
	}
	for rank := range f.rankNeed {
		room := float64(l.capacity - keep - l.severalUse(rank))
		layers := l.layersFrom(offset, rank)
		for k := range f.reach {
			need := f.rankNeed[rank][k] + float64(layers*f.own.need[k])
			spread := f.rankSpread[rank][k] + float64(layers*layers*f.own.spread[k])
			if need+float64(f.margin*math.Sqrt(spread)) > room {
				return false
			}
		}
	}
	return true
}
