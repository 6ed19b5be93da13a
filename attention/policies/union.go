package policies

import (
	"math"

	"github.com/l3sim/l3sim/attention/policy"
)

// unionOf returns the mean size, rounded up, of the union of several choices, each of chosen pages out of all. Of a choice's pages, another
// choice is certain to have the share overlap, and has the rest by chance, with probability chosen/all. With overlap 1 all choices are
// equal. With 0 they are independent, and their union is all·(1 − (1 − chosen/all)^choices).
//
// Some pages are chosen nearly always and some hardly ever. A page's probability has a beta distribution over pages with mean chosen/all,
// and each choice draws by it (Pólya's urn). Any two choices thus have equally much in common, however far apart they are, which is nearly
// true on real text (lab/docs/sparse.md).
func unionOf(chosen, all, choices int, overlap float64) int {
	if choices <= 1 || chosen <= 0 || chosen >= all {
		return min(max(chosen, 0), all)
	}
	share := float64(chosen) / float64(all)
	missed := 1 - share // probability that all choices so far missed a page
	for i := 1; i < choices; i++ {
		before := float64(float64(i) * overlap)
		missed *= (float64((1-share)*(1-overlap)) + before) / (1 - overlap + before)
	}
	union := int(math.Ceil(float64(float64(all)*(1-float64(missed))) - 1e-9))
	return min(max(union, chosen), all)
}

// unionTimes returns an upper bound on the ratio of the union of several choices to one choice: its limit for infinitely many pages.
func unionTimes(choices int, overlap float64) float64 {
	times := 1.0
	for i := 1; i < choices; i++ {
		times += (1 - overlap) / (1 - overlap + float64(float64(i)*overlap))
	}
	return times
}

// verified describes what the tokens of a step that verifies several read together.
type verified struct {
	tokens int // number of tokens that the step verifies
	lists  int // number of different lists of pages that the tokens use; tokens may share one
	made   int // number of lists chosen in this step; earlier steps chose the others
}

// together returns what all tokens of a step read, whose last token has a context beyond the budget. Each token has its own choice. Certain
// pages are those begun since its list was made, or the newest one; of the others the step reads the union.
func (p *Pages) together(prompt, context int, s *policy.Shape) verified {
	first := max(prompt+1, context-s.Ahead()) // context of the step's first token
	oldest := p.MadeAt(prompt, first)
	v := verified{lists: context/p.Reuse - first/p.Reuse + 1}
	if v.made = v.lists; oldest != first {
		v.made--
	}
	if first <= p.Budget { // the first token attends to everything, later ones also to pages begun since
		v.tokens = context
		return v
	}
	from := oldest
	if p.Replace {
		from = first
	}
	pages := p.Pages(context)
	newest := pages - p.Pages(from) + 1
	chosen := max(p.selected(oldest), p.selected(p.MadeAt(prompt, context))) - 1
	read := newest + unionOf(chosen, pages-newest, v.lists, s.Overlap)
	v.tokens = context - (pages-read)*p.Page
	return v
}
