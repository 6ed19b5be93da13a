package scheduler

import (
	"math"
	"slices"
)

// forecast tells how much memory requests will need as they grow (the Past-Future
// scheduler: Gong et al., "Past-Future Scheduler for LLM Serving under SLA
// Guarantees", ASPLOS 2025, arXiv 2507.10150). The output lengths of the latest
// requests that ended say how likely one that has emitted so many tokens is to still
// be there so many steps later.
//
// The paper draws a length for each running request in every step and admits a request
// where the peak of their memory fits. Here the mean and the standard deviation of the
// memory at future steps are computed: of lengths drawn again until a request fits, it
// would be the luckiest that admits it.
type forecast struct {
	most    int     // the longest output that is expected
	margin  float64 // standard deviations that must fit, too
	keep    int     // lengths that are remembered
	lengths []int   // of requests that ended, in that order; a ring once there are keep
	oldest  int     // in lengths
	sorted  []int
	running []growing // requests that hold memory, in the end the one to be admitted
	emitted []int     // of these, sorted
	chance  []float64 // to emit more than so many tokens, in steps of width
	width   int

	// What the requests that hold memory will need, and its variance, by rankset offset:
	// in units a layer. Courses are right up to their place reach.
	need, spread []course
	reach        int
	own          struct{ need, spread course } // of the request to be admitted
	// Of all others, in units of each rank.
	rankNeed, rankSpread []course
}

// growing is a request that holds memory.
type growing struct{ offset, input, emitted int }

// course is a quantity over the future: at each place its bound from the steps of
// that place in ahead up to those of the next.
type course [places]float64

const places = 253

// ahead is numbers of decode steps from now on: 1 to 16 and then 1/16 more each, up to
// the longest output that can be configured.
var ahead = func() (a [places + 1]int) {
	for k, steps := 0, 1; k <= places; k++ {
		a[k] = steps
		steps += max(1, steps/16)
	}
	return a
}()

// newForecast returns nil where admission looks at present lengths alone.
func newForecast(m *MemorySpec, ranksets int) *forecast {
	if m.Admission != AdmitCurrent || m.History == 0 {
		return nil
	}
	const cells = 4096
	f := &forecast{most: m.MaxTokens, margin: m.Margin, keep: m.History, width: (m.MaxTokens + cells - 1) / cells}
	f.chance = make([]float64, (f.most+f.width-1)/f.width)
	for _, c := range []*[]course{&f.need, &f.spread, &f.rankNeed, &f.rankSpread} {
		*c = make([]course, ranksets)
	}
	return f
}

// ended notes the output length of a request that has all its tokens.
func (f *forecast) ended(output int) {
	if f == nil {
		return
	}
	if len(f.lengths) < f.keep {
		f.lengths = append(f.lengths, output)
	} else {
		at, _ := slices.BinarySearch(f.sorted, f.lengths[f.oldest])
		f.sorted = slices.Delete(f.sorted, at, at+1)
		f.lengths[f.oldest] = output
		f.oldest = (f.oldest + 1) % f.keep
	}
	at, _ := slices.BinarySearch(f.sorted, output)
	f.sorted = slices.Insert(f.sorted, at, output)
}

// clear forgets the requests that hold memory.
func (f *forecast) clear() { f.running = f.running[:0] }

// add counts a request that holds memory at a rankset offset. The last one is to be
// admitted, at any offset.
func (f *forecast) add(offset, input, emitted int) {
	f.running = append(f.running, growing{offset, input, emitted})
}

// survive estimates the chance of a request to emit more than any number of tokens
// (Kaplan and Meier, "Nonparametric Estimation from Incomplete Observations", 1958): at
// each known length, of the requests that were as long some ended. Those that run will
// be longer than they are now; without them the first to end would pass for typical. One
// more is taken to be as long as any: the next may outlast all.
func (f *forecast) survive() {
	f.emitted = f.emitted[:0]
	for i := range f.running {
		f.emitted = append(f.emitted, f.running[i].emitted)
	}
	slices.Sort(f.emitted)
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

// longer returns the chance that a request emits more than so many tokens.
func (f *forecast) longer(tokens int) float64 {
	if tokens >= f.most {
		return 0
	}
	return f.chance[tokens/f.width]
}

// foresee computes the future from the requests that have been added.
func (f *forecast) foresee(l *Ledger) {
	f.survive()
	clear(f.need)
	clear(f.spread)
	f.own.need, f.own.spread, f.reach = course{}, course{}, 0
	last := len(f.running) - 1
	for i := range f.running[:last] {
		r := &f.running[i]
		f.expect(l, r, &f.need[r.offset], &f.spread[r.offset])
	}
	f.expect(l, &f.running[last], &f.own.need, &f.own.spread)
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

// expect adds what a request will need: if it is there at the first of the steps of a
// place, then as much as at the last. One that has emitted more than is expected of any
// is expected to emit as much again.
func (f *forecast) expect(l *Ledger, r *growing, need, spread *course) {
	now := f.longer(r.emitted)
	for k := range places {
		p := 1.0
		if now > 0 {
			p = f.longer(r.emitted+ahead[k]) / now
		} else if ahead[k] > f.most {
			p = 0
		}
		if p == 0 {
			return
		}
		u := float64(l.perLayer(r.input + r.emitted + ahead[k+1] - 1))
		need[k] += float64(u * p)
		spread[k] += float64(u * u * p * (1 - p))
		f.reach = max(f.reach, k+1)
	}
}

// fits says whether all requests, the one to be admitted at an offset, will fit every
// rank at every future step, leaving keep units of it free. One alone takes what there
// is.
func (f *forecast) fits(l *Ledger, offset int, keep int64) bool {
	if f == nil || len(f.running) == 1 {
		return true
	}
	room := float64(l.capacity - keep)
	for rank := range f.rankNeed {
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
