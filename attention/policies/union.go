package policies

import (
	"math"

	"github.com/l3sim/l3sim/attention/policy"
)

// unionOf returns how many of all pages one or more of several choices have, each of which has so many chosen ones; a mean, rounded up.
// Of a choice's pages, another one has the share overlap for sure, and of the others as many as by chance, chosen/all: with 1 all choices are
// alike, with 0 they are independent, and their union is all·(1 − (1 − chosen/all)^choices).
//
// Some pages are chosen nearly always and some hardly ever. A page's chance has a beta distribution over pages with the mean
// chosen/all, and each choice draws by it (Pólya's urn). Two choices have as much in common then however many lie between them, as is
// nearly so on real text (lab/docs/sparse.md).
func unionOf(chosen, all, choices int, overlap float64) int {
	if choices <= 1 || chosen <= 0 || chosen >= all {
		return min(max(chosen, 0), all)
	}
	share := float64(chosen) / float64(all)
	missed := 1 - share // by all choices so far
	for i := 1; i < choices; i++ {
		before := float64(float64(i) * overlap)
		missed *= (float64((1-share)*(1-overlap)) + before) / (1 - overlap + before)
	}
	union := int(math.Ceil(float64(float64(all)*(1-float64(missed))) - 1e-9))
	return min(max(union, chosen), all)
}

// unionTimes returns how many times as many pages as one of several choices has their union has at most: as of pages without end.
func unionTimes(choices int, overlap float64) float64 {
	times := 1.0
	for i := 1; i < choices; i++ {
		times += (1 - overlap) / (1 - overlap + float64(float64(i)*overlap))
	}
	return times
}

// verified is what the tokens of a step read together that verifies several.
type verified struct {
	tokens int // that the step verifies
	lists  int // different lists of pages that the tokens read by; tokens may share one
	made   int // lists that are chosen in this step; the others were chosen in an earlier one
}

// together returns what all tokens of a step read whose last one has a context beyond the budget. Each has a choice of its own, of which
// the pages that have begun since its list, or the newest one, are certain; of the others the step reads the union.
func (p *Pages) together(prompt, context int, s *policy.Shape) verified {
	first := max(prompt+1, context-s.Ahead()) // the context of the step's first token
	oldest := p.MadeAt(prompt, first)
	v := verified{lists: context/p.Reuse - first/p.Reuse + 1}
	if v.made = v.lists; oldest != first {
		v.made--
	}
	if first <= p.Budget { // the first token attends to everything, and those after it to the pages since
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
