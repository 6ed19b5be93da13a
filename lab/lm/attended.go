package lm

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/units/portable"
)

// rowTokens is the number of tokens in a row of keys over all banks of a rank (16 banks of 1 KiB a
// chip, FP16).
const rowTokens = 512

// Attended is the attention of a policy in decode steps and its effects, by layer.
type Attended struct {
	Layers []LayerAttended
	model  *Model
	heads  []headSteps // by layer and head
	// output is the relative errors of the heads' results, by layer and step.
	output [][]float64
	exact  []float64 // [Heads·HeadDim], attention to all tokens
	work   []attendedWork
}

// LayerAttended is means over steps and heads, and quantiles.
type LayerAttended struct {
	KeptMass     float64 // softmax mass of the attended tokens, in attention to all tokens
	Recall       float64 // share of the attended tokens that are among the same number with the highest scores
	Tokens, Rows float64 // attended; 512-token rows that contain them
	// OutputRelativeL2 is |o − o'|/|o'| of the results of all heads before the output projection,
	// where o' attends to all tokens; its mean over steps and its 99% quantile.
	OutputRelativeL2, OutputRelativeL2P99 float64
	DroppedMassP99                        float64 // 99% quantile of 1 − kept mass
	// Pages and the bound of the dropped mass, proved by the scores of pages, are means over the heads
	// that choose pages; NaN if there are none.
	Pages, DroppedMassBound, DroppedMassBoundP99 float64
	// PageShare is the share of all pages in a choice. PageOverlap[i] is the share of its pages that the choice i+1 steps before has, too. PageUnion[i] is
	// the number of pages in i+1 successive choices together, over that of one. The newest page does not count, nor do steps that attend to all tokens. For
	// searches of single tokens, pages are tokens without the recent ones. 0 and nil if no head chooses.
	PageShare              float64
	PageOverlap, PageUnion []float64
	// ListShare, ListOverlap and ListUnion are the same for the lists that a search examines.
	ListShare              float64
	ListOverlap, ListUnion []float64
}

// headSteps is the record of a head, by step.
type headSteps struct {
	kept, recall, bound []float64
	tokens, rows, pages int64
	choices             pageChoices // of pages, or of single tokens
	lists               pageChoices // of tokens' scores, examined by a search
}

// attendedWork is a worker's scratch, by token.
type attendedWork struct {
	weights []float32
	other   []float64
	narrow  []float32 // [HeadDim]
	seen    []bool    // rows or pages
}

// pager is a state that chooses pages.
type pager interface {
	DroppedBound(q []float32, p *policy.Part, lse float64) float64
	PageTokens() int
}

// searcher is a state that finds single tokens, among those before one, in some of its lists.
type searcher interface {
	Searched(head int) (tokens []int32, before int, lists []int32, of int)
}

// newAttended returns an Attended for steps of a sequence of up to limit tokens.
func newAttended(m *Model, limit, steps int) *Attended {
	a := &Attended{model: m, heads: make([]headSteps, m.Layers*m.Heads), output: make([][]float64, m.Layers), exact: make([]float64, m.Heads*m.HeadDim)}
	for i := range a.heads {
		a.heads[i] = headSteps{kept: make([]float64, 0, steps), recall: make([]float64, 0, steps)}
	}
	for range m.workers {
		a.work = append(a.work, attendedWork{make([]float32, limit), make([]float64, limit), make([]float32, m.HeadDim), make([]bool, limit)})
	}
	return a
}

// head compares a head's attention with attention to all tokens. scores are of all tokens; out and
// lse are the head's result, in float64.
func (a *Attended) head(worker, layer, head int, h *chosenHead, scores []float64, out []float64, lse float64) {
	w, s := &a.work[worker], &a.heads[layer*a.model.Heads+head]
	tokens := 0
	for i := range h.selection.Parts {
		tokens += h.selection.Parts[i].Tokens()
	}
	exact, whole := headOf(a.model, a.exact, head), lse
	if tokens == len(scores) && len(h.selection.Parts) == 1 {
		copy(exact, out)
	} else {
		whole = w.attend(exact, scores, h.values)
	}
	s.kept = append(s.kept, min(portable.Exp(lse-whole), 1))
	s.tokens += int64(tokens)
	s.recall = append(s.recall, recall(h.selection.Parts, tokens, scores, w))
	s.rows += int64(touched(h.selection.Parts, rowTokens, w.seen))
	if p, ok := h.state.(pager); ok {
		s.pages += int64(touched(h.selection.Parts, p.PageTokens(), w.seen))
		ratio := p.DroppedBound(h.query[0], &h.selection.Parts[0], lse)
		s.bound = append(s.bound, bounded(ratio))
		s.choices.add(h.selection.Parts, p.PageTokens(), len(scores))
	}
	if p, ok := h.state.(searcher); ok {
		found, before, lists, of := p.Searched(0)
		s.choices.chose(found, before)
		s.lists.chose(lists, of)
	}
}

// attend sets out to attention to all tokens, with weights and sums in float32, and returns the
// logarithm of the sum of exponentials.
func (w *attendedWork) attend(out, scores []float64, values []float32) (lse float64) {
	top := slices.Max(scores)
	var sum float64
	weights := w.weights[:len(scores)]
	for i, s := range scores {
		e := portable.Exp(s - top)
		sum += e
		weights[i] = float32(e)
	}
	d := len(out)
	rows := blas32.General{Rows: len(scores), Cols: d, Stride: d, Data: values}
	blas32.Gemv(blas.Trans, float32(1/sum), rows, blas32.Vector{N: len(weights), Inc: 1, Data: weights}, 0, blas32.Vector{N: d, Inc: 1, Data: w.narrow})
	for i, x := range w.narrow {
		out[i] = float64(x)
	}
	return top + portable.Log(sum)
}

// bounded turns a bound of ε/(1−ε) into one of ε.
func bounded(ratio float64) float64 {
	if math.IsInf(ratio, 1) {
		return 1
	}
	return ratio / (1 + ratio)
}

// endOfLayer compares the results of a layer's heads.
func endOfLayer[T real](a *Attended, layer int, got []T) {
	var off, all float64
	for i, x := range a.exact {
		d := float64(got[i]) - x
		off += float64(d * d)
		all += float64(x * x)
	}
	a.output[layer] = append(a.output[layer], math.Sqrt(off/all))
}

// recall returns the share of n tokens that are among the n with the highest scores; of equal
// scores the lower token counts.
func recall(parts []policy.Part, n int, scores []float64, w *attendedWork) float64 {
	if n == len(scores) {
		return 1
	}
	cut, ties := policy.Cut(scores, n, w.other)
	last := 0 // last of the tokens with equal scores
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

// touched returns how many blocks of size tokens contain the parts' tokens. Parts may share a
// block; seen has an element for each possible block.
func touched(parts []policy.Part, size int, seen []bool) int {
	clear(seen)
	n := 0
	for i := range parts {
		for _, r := range parts[i].Ranges {
			for b := r[0] / size; b <= (r[1]-1)/size; b++ {
				if !seen[b] {
					seen[b] = true
					n++
				}
			}
		}
	}
	return n
}

func (a *Attended) finish() {
	for layer, output := range a.output {
		l := LayerAttended{Pages: math.NaN(), DroppedMassBound: math.NaN(), DroppedMassBoundP99: math.NaN()}
		var kept, recalled, bounds []float64
		var tokens, rows, pages int64
		for _, h := range a.heads[layer*a.model.Heads : (layer+1)*a.model.Heads] {
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
		heads := a.heads[layer*a.model.Heads : (layer+1)*a.model.Heads]
		l.PageShare, l.PageOverlap, l.PageUnion = meanChoices(heads, func(h *headSteps) *pageChoices { return &h.choices })
		l.ListShare, l.ListOverlap, l.ListUnion = meanChoices(heads, func(h *headSteps) *pageChoices { return &h.lists })
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
	return portable.Quantile(x, p)
}
