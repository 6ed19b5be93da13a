package lm

import (
	"math"
	"slices"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/internal/portable"
)

// rowTokens is the tokens of a row of keys over all banks of a rank (16 banks of 1 KiB a chip, FP16).
const rowTokens = 512

// Attended is what a policy attended to in decode steps, and what that changed, by layer.
type Attended struct {
	Layers []LayerAttended
	shape  Shape
	step   int
	heads  []headSteps // by layer and head
	// output is the relative errors of the heads' results, by layer and step.
	output [][]float64
	exact  []float64 // [Heads·HeadDim], attention to everything
	work   []attendedWork
}

// LayerAttended is means over steps and heads, and quantiles.
type LayerAttended struct {
	KeptMass     float64 // softmax mass of the attended tokens in attention to everything
	Recall       float64 // share of the attended tokens that are among as many of the highest scores
	Tokens, Rows float64 // attended; 512-token rows that they lie in
	// OutputRelativeL2 is |o − o'|/|o'| of the results of all heads before the output
	// projection, where o' attends to everything; its mean over steps and its 99% quantile.
	OutputRelativeL2, OutputRelativeL2P99 float64
	DroppedMassP99                        float64 // 99% quantile of 1 − kept mass
	// Pages and the bound of the dropped mass that the scores of pages prove are means over the heads
	// that choose pages; NaN where there are none.
	Pages, DroppedMassBound, DroppedMassBoundP99 float64
}

// headSteps is what a head did, by step.
type headSteps struct {
	kept, recall, bound []float64
	tokens, rows, pages int64
	paged               bool // chooses pages
}

// attendedWork is a worker's scratch.
type attendedWork struct {
	attender *policy.Attender
	all      [1]policy.Part
	ranges   [1][2]int
	scores   [2][]float32
}

// pager is a state that chooses pages.
type pager interface {
	DroppedBound(q []float32, p *policy.Part, lse float64) float64
	PageTokens() int
}

// newAttended returns one for steps of a sequence of up to limit tokens.
func newAttended(m *Model, limit, steps int) *Attended {
	s := m.Shape
	a := &Attended{shape: s, heads: make([]headSteps, s.Layers*s.Heads), output: make([][]float64, s.Layers), exact: make([]float64, s.Heads*s.HeadDim)}
	for i := range a.heads {
		a.heads[i] = headSteps{kept: make([]float64, 0, steps), recall: make([]float64, 0, steps)}
	}
	for range m.workers {
		a.work = append(a.work, attendedWork{attender: policy.NewAttender(limit, s.HeadDim), scores: [2][]float32{make([]float32, limit), make([]float32, limit)}})
	}
	return a
}

// head compares what a head has attended to with everything. scores are of all tokens, lse is
// of what was attended to.
func (a *Attended) head(worker, layer, head int, h *chosenHead, scores []float64, lse float64) {
	w, s := &a.work[worker], &a.heads[layer*a.shape.Heads+head]
	w.ranges[0] = [2]int{0, len(scores)}
	w.all[0].Ranges = w.ranges[:]
	d := a.shape.HeadDim
	whole, _ := w.attender.Attend(a.exact[head*d:(head+1)*d], &policy.Selection{Parts: w.all[:]}, 0, scores, h.values)
	s.kept = append(s.kept, min(portable.Exp(lse-whole), 1))
	tokens := 0
	for i := range h.selection.Parts {
		tokens += h.selection.Parts[i].Tokens()
	}
	s.tokens += int64(tokens)
	s.recall = append(s.recall, recall(h.selection.Parts, tokens, scores, w.scores))
	s.rows += int64(touched(h.selection.Parts, rowTokens))
	if p, ok := h.state.(pager); ok {
		s.paged = true
		s.pages += int64(touched(h.selection.Parts, p.PageTokens()))
		ratio := p.DroppedBound(h.query[0], &h.selection.Parts[0], lse)
		s.bound = append(s.bound, bounded(ratio))
	}
}

// bounded turns a bound of ε/(1−ε) into one of ε.
func bounded(ratio float64) float64 {
	if math.IsInf(ratio, 1) {
		return 1
	}
	return ratio / (1 + ratio)
}

// endOfLayer compares the results of a layer's heads.
func (a *Attended) endOfLayer(layer int, got []float64) {
	var off, all float64
	for i, x := range a.exact {
		d := got[i] - x
		off += float64(d * d)
		all += float64(x * x)
	}
	a.output[layer] = append(a.output[layer], math.Sqrt(off/all))
}

// recall returns the share of n tokens that are among the n of the highest scores; of equal
// scores the lower token is.
func recall(parts []policy.Part, n int, all []float64, scratch [2][]float32) float64 {
	if n == len(all) {
		return 1
	}
	scores := scratch[0][:len(all)]
	for i, s := range all {
		scores[i] = float32(s)
	}
	cut, ties := policy.Cut(scores, n, scratch[1])
	last := 0 // token that is the last one among equals
	for ; ties > 0; last++ {
		if scores[last] == cut {
			ties--
		}
	}
	among := 0
	for _, p := range parts {
		for _, r := range p.Ranges {
			for t := r[0]; t < r[1]; t++ {
				if s := scores[t]; s > cut || s == cut && t < last {
					among++
				}
			}
		}
	}
	return float64(among) / float64(n)
}

// touched returns the blocks of so many tokens in which the parts' tokens lie.
func touched(parts []policy.Part, size int) int {
	n := 0
	for i := range parts {
		before := -1
		for _, r := range parts[i].Ranges {
			first := max(r[0]/size, before+1)
			before = (r[1] - 1) / size
			n += before - first + 1
		}
	}
	return n
}

// finish sets Layers.
func (a *Attended) finish() {
	for layer, output := range a.output {
		l := LayerAttended{Pages: math.NaN(), DroppedMassBound: math.NaN(), DroppedMassBoundP99: math.NaN()}
		var kept, recalled, bounds []float64
		var tokens, rows, pages int64
		for _, h := range a.heads[layer*a.shape.Heads : (layer+1)*a.shape.Heads] {
			kept, recalled, bounds = append(kept, h.kept...), append(recalled, h.recall...), append(bounds, h.bound...)
			tokens, rows, pages = tokens+h.tokens, rows+h.rows, pages+h.pages
		}
		n := float64(len(kept))
		l.KeptMass, l.Recall, l.Tokens, l.Rows = mean(kept), mean(recalled), float64(tokens)/n, float64(rows)/n
		for i, x := range kept {
			kept[i] = 1 - x
		}
		l.DroppedMassP99 = quantile(kept, 0.99)
		l.OutputRelativeL2, l.OutputRelativeL2P99 = mean(output), quantile(output, 0.99)
		if len(bounds) > 0 {
			l.Pages, l.DroppedMassBound, l.DroppedMassBoundP99 = float64(pages)/float64(len(bounds)), mean(bounds), quantile(bounds, 0.99)
		}
		a.Layers = append(a.Layers, l)
	}
}

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// quantile sorts x and returns its quantile p, interpolated between two elements.
func quantile(x []float64, p float64) float64 {
	slices.Sort(x)
	at := float64(p * float64(len(x)-1))
	i := int(at)
	if i+1 == len(x) {
		return x[i]
	}
	return x[i] + float64((at-float64(i))*(x[i+1]-x[i]))
}
