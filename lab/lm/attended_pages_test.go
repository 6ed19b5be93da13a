package lm

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
)

// TestPageChoices: choices of pages of 4 tokens by hand. The newest page does not count, a step that attends to everything makes
// no choice, and the next choice has no predecessor.
func TestPageChoices(t *testing.T) {
	choose := func(p *pageChoices, context int, pages ...int) {
		part := policy.Part{}
		for _, page := range pages {
			part.Ranges = append(part.Ranges, [2]int{4 * page, min(4*page+4, context)})
		}
		p.add([]policy.Part{part}, 4, context)
	}
	heads, pages := make([]headSteps, 2), func(h *headSteps) *pageChoices { return &h.choices }
	p := &heads[0].choices
	choose(p, 18, 0, 1, 2, 3, 4)
	choose(p, 19, 0, 1, 4)
	choose(p, 20, 0, 2, 4)
	choose(p, 21, 0, 4, 5)
	choose(p, 22, 0, 1, 2, 3, 4, 5)
	choose(p, 23, 0, 1, 5)
	share, shared, union := meanChoices(heads, pages)
	// Two of four pages twice, two of five twice. The second choice shares page 0 with the first; the third shares page 0 with
	// both, and page 4, which was the newest before.
	if math.Abs(share-0.45) > 1e-12 || !slices.Equal(shared, []float64{0.5, 0.5}) || !slices.Equal(union, []float64{1, 1.5, 2}) {
		t.Errorf("%v of the pages, in common %v, together %v", share, shared, union)
	}
	if share, shared, union = meanChoices(heads[1:], pages); share != 0 || shared != nil || union != nil {
		t.Errorf("no choice: %v, %v, %v", share, shared, union)
	}
	var text strings.Builder
	a := Attended{Layers: []LayerAttended{{}, {PageShare: 0.2, PageOverlap: []float64{0.6, 0.5, 0.5, 0.5, 0.5, 0.5, 0.4}, PageUnion: []float64{1, 1.4, 1.7, 1.9, 2, 2, 2, 2.5}}}}
	if err := a.writeChoices(&text); err != nil || !strings.Contains(text.String(), "0.200 of the pages before the newest") || !strings.Contains(text.String(), "beyond chance, 0.500 one step") {
		t.Errorf("%v, %q", err, text.String())
	}
}

// TestTokenChoices: choices of single tokens and of lists by hand, and their text.
func TestTokenChoices(t *testing.T) {
	heads := make([]headSteps, 1)
	lists := &heads[0].lists
	lists.chose([]int32{1, 70}, 100)
	lists.chose([]int32{1, 71}, 100)
	lists.chose([]int32{70, 71}, 100)
	share, shared, union := meanChoices(heads, func(h *headSteps) *pageChoices { return &h.lists })
	if math.Abs(share-0.02) > 1e-12 || !slices.Equal(shared, []float64{0.5, 0.5}) || !slices.Equal(union, []float64{1, 1.5, 1.5}) {
		t.Errorf("%v of the lists, in common %v, together %v", share, shared, union)
	}
	overlap, all := []float64{0.6, 0.5, 0.5, 0.5, 0.5, 0.5, 0.4}, []float64{1, 1.4, 1.7, 1.9, 2, 2, 2, 2.5}
	var text strings.Builder
	a := Attended{Layers: []LayerAttended{{PageShare: 0.2, PageOverlap: overlap, PageUnion: all, ListShare: 0.1, ListOverlap: overlap, ListUnion: all}}}
	if err := a.writeChoices(&text); err != nil || !strings.Contains(text.String(), "0.200 of the tokens before the recent ones") || !strings.Contains(text.String(), "times its tokens.") ||
		!strings.Contains(text.String(), "0.100 of the lists.") || !strings.Contains(text.String(), "beyond chance, 0.556 one step") {
		t.Errorf("%v, %q", err, text.String())
	}
}
