package policies

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention/policy"
)

// TestUnionByHand: the union of choices of 10 of 40 pages. With an overlap of 0.6 a second choice shares 0.25 + 0.75 · 0.6 = 0.7 of
// the first one's pages; a page that two choices miss is missed by a third with probability 1.5/1.6.
func TestUnionByHand(t *testing.T) {
	for _, c := range []struct {
		choices int
		overlap float64
		want    int
	}{
		{1, 0, 10}, {1, 0.6, 10}, {1, 1, 10}, {2, 1, 10}, {9, 1, 10},
		{2, 0, 18}, {3, 0, 24}, // 17.5, 23.1
		{2, 0.6, 13}, {3, 0.6, 15}, // 13, 14.7
	} {
		if got := unionOf(10, 40, c.choices, c.overlap); got != c.want {
			t.Errorf("%+v: %d pages", c, got)
		}
	}
}

// TestUnionLaws: a union has at least the pages of one choice, and at most the sum of all or all pages. It grows with the number of choices
// and shrinks with their overlap: 1 gives a single choice, 0 independent ones.
func TestUnionLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.IntRange(0, 5000).Draw(t, "all")
		chosen, k := rapid.IntRange(0, all).Draw(t, "chosen"), rapid.IntRange(1, 128).Draw(t, "choices")
		overlap := rapid.Float64Range(0, 1).Draw(t, "overlap")
		n := unionOf(chosen, all, k, overlap)
		if n < chosen || n > min(all, k*chosen) {
			t.Fatalf("%d choices of %d of %d pages have %d", k, chosen, all, n)
		}
		if more := unionOf(chosen, all, k+1, overlap); more < n {
			t.Fatalf("%d choices have %d pages, one more %d", k, n, more)
		}
		if more := rapid.Float64Range(overlap, 1).Draw(t, "more overlap"); unionOf(chosen, all, k, more) > n {
			t.Fatalf("%d pages with an overlap of %v, more with %v", n, overlap, more)
		}
		if got := unionOf(chosen, all, k, 1); got != chosen {
			t.Fatalf("%d pages where all choose alike, want %d", got, chosen)
		}
		share := float64(chosen) / float64(max(1, all))
		if got, want := unionOf(chosen, all, k, 0), float64(all)*(1-math.Pow(1-share, float64(k))); float64(got) < want-1e-6 || float64(got) >= want+1+1e-6 {
			t.Fatalf("%d pages of independent choices, want %v", got, want)
		}
	})
}

// TestTogetherByHand: steps of three tokens. Quest: each token has a list of 31 pages plus the newest page, of which a step may have
// two. LServe: a list serves four tokens, so a step has one or two lists, of 7 pages plus those begun since.
func TestTogetherByHand(t *testing.T) {
	shape := policy.Shape{Verified: 3, Overlap: 1}
	q := newKeys("quest")
	q.Budget = 512
	quest := listsOf(q)
	s := newKeys("lserve")
	s.Budget, s.Page, s.Reuse = 512, 64, 4
	lserve := listsOf(s)
	small := Pages{Page: 3, Least: 1, Reuse: 2, Budget: 7, Replace: true, Logical: 1}
	appended, long := small, small
	appended.Replace, long.Replace, long.Reuse = false, false, 7
	for _, c := range []struct {
		pages           Pages
		prompt, context int
		overlap         float64
		want            verified
	}{
		{quest, 2000, 2064, 1, verified{32 * 16, 3, 3}},
		{quest, 2000, 2066, 1, verified{32*16 + 2, 3, 3}},  // 2064 to 2066: two newest pages
		{quest, 2000, 2064, 0, verified{73*16 + 16, 3, 3}}, // 128 · (1 − (97/128)³) = 72.3
		{quest, 500, 514, 0, verified{514, 3, 3}},          // the first attends to everything
		{small, 1, 9, 1, verified{9, 2, 1}},                // the first, at 7, attends to everything; the lists of 6 and 8 have two pages of three
		{lserve, 2048, 2050, 0, verified{7*64 + 2, 1, 1}},  // 2049, the first token after the prompt, chooses
		{small, 20, 33, 1, verified{2 * 3, 2, 1}},          // the first token, at 31, uses the list of 30: the page of 31 to 33 replaces its newest
		{appended, 20, 33, 1, verified{3 * 3, 2, 1}},       // or is read in addition
		{long, 3, 14, 1, verified{14, 2, 1}},               // the list of 7 has three pages, the list of 14 two
		{lserve, 2048, 2051, 0, verified{7*64 + 3, 1, 1}},  // 2049 to 2051 use the first list
		{lserve, 2048, 2052, 0, verified{13*64 + 4, 2, 1}}, // 2050 and 2051 use it, 2052 chooses again: 32 · (1 − (25/32)²) = 12.5
		{lserve, 2048, 2055, 0, verified{7*64 + 7, 1, 0}},  // 2053 to 2055 use the list of 2052
		{lserve, 2048, 2113, 1, verified{8*64 + 1, 2, 1}},  // 2111 uses the list of 2108, the others that of 2112
	} {
		shape.Overlap = c.overlap
		if got := c.pages.together(c.prompt, c.context, &shape); got != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// TestTogether: one token reads the same as alone. Several read at least that, and at most their context or the sum of what each reads
// alone.
func TestTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
		p := Pages{Page: number("page", 1, 9), Least: rapid.SampledFrom([]int{1, 3}).Draw(t, "least"), Reuse: number("reuse", 1, 12),
			Budget: number("budget", 1, 60), Replace: rapid.Bool().Draw(t, "replace"), Logical: 1}
		s := policy.Shape{Overlap: rapid.Float64Range(0, 1).Draw(t, "overlap")}
		prompt := number("prompt", 1, 200)
		context := max(p.Budget, prompt) + number("beyond", 1, 100)
		one := p.together(prompt, context, &s)
		if want := p.Tokens(prompt, context); one.tokens != want || one.lists != 1 || one.made != map[bool]int{true: 1}[p.selects(prompt, context)] {
			t.Fatalf("one token reads %+v, want %d", one, want)
		}
		before := one.tokens
		sum := 0
		for s.Verified = 1; context-s.Ahead() > prompt; s.Verified++ {
			v := p.together(prompt, context, &s)
			sum += p.Pages(p.Tokens(prompt, context-s.Ahead())) * p.Page
			if v.tokens < before || v.tokens > min(context, sum) {
				t.Fatalf("%d tokens read %d, one fewer %d, all by themselves at most %d", s.Verified, v.tokens, before, sum)
			}
			before = v.tokens
		}
	})
}
