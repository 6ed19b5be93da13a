package policies

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"pgregory.net/rapid"
)

// windows returns the tokens that a step attends to in a window on the GPUs and at home, the tokens that leave the window after it, and
// the requests whose outputs are merged.
func (l *byteLaw) windows(requests []policy.Request) (attend []policy.Class, leave []policy.Leaving, merged int) {
	hgca, n := l.Name == "hgca", len(requests)
	near, far, away, leaving, more := make([]int, n), make([]int, n), make([]int, n), make([]int, n), make([]int, n)
	var nears, leavings, mores, notes int
	for i, r := range requests {
		away[i] = l.after(r.Context - 1)
		if l.Window == 0 { // the step's own token is also at home
			away[i] = l.after(r.Context)
		}
		salient := func(n int) int {
			if hgca {
				return int(math.Ceil(l.Share * float64(n)))
			}
			return n
		}
		near[i], far[i] = r.Context-away[i], salient(away[i])
		if l.Window > 0 {
			leaving[i] = l.after(r.Context) - away[i]
			more[i] = salient(away[i]+leaving[i]) - far[i]
		}
		if nears, leavings, mores = nears+near[i], leavings+leaving[i], mores+more[i]; near[i] > 0 && far[i] > 0 {
			merged++
		}
	}
	if hgca {
		notes = 4 * l.group
	}
	if nears > 0 {
		attend = append(attend, policy.Class{Device: policy.GPU, Heads: l.heads, Tokens: near, Weights: hgca})
	}
	if leavings > 0 && (!hgca || l.KeepAll) {
		leave = append(leave, policy.Leaving{Heads: l.heads, From: away, Tokens: leaving, Notes: int64(notes)})
	}
	if hgca && leavings+mores > 0 {
		leave = append(leave, policy.Leaving{Heads: l.heads, From: far, Tokens: more, Copies: l.KeepAll, Notes: int64(notes)})
	}
	return append(attend, policy.Class{Heads: l.heads, Tokens: far, OnThreads: policy.OnThreads{Whole: hgca}}), leave, merged
}

// classes returns the tokens that the heads of a step of another policy attend to, and the choices
// before.
func (l *byteLaw) classes(requests []policy.Request) (attend []policy.Class, choose []policy.Choice) {
	each := func(of func(r policy.Request) int) (n []int) {
		for _, r := range requests {
			n = append(n, of(r))
		}
		return n
	}
	streaming := policy.Class{Heads: l.streams, Tokens: each(func(r policy.Request) int { return min(r.Context, l.Sink+l.Window) })}
	if l.apart && l.StreamDevice == "gpu" {
		streaming.Device = policy.GPU
	}
	p := listsOf(l.keys) // checked by TestPagesAgainstSets
	switch {
	case l.Name == "streaming":
		streaming.Heads = l.heads
	case l.Name == "h2o":
		return []policy.Class{{Heads: l.heads, Weights: true, Tokens: each(func(r policy.Request) int {
			return min(r.Context-1, int(l.Heavy*float64(r.Prompt))+int(l.Recent*float64(r.Prompt))) + 1
		})}}, nil
	case l.Name == "csattention":
		c := policy.Class{Heads: l.heads, Paged: policy.Paged{Page: 1, PerQueryHead: l.SelectGroup == "per-head"}, Tokens: each(func(r policy.Request) int { return min(r.Context, l.found(r.Prompt)+max(1, l.RecentTokens)) })}
		if l.Mode == "host" {
			c.Device = policy.GPU
			return []policy.Class{c}, nil
		}
		searches := func(r policy.Request) bool { return (r.Context-r.Prompt-1)%l.Period == 0 }
		ch := policy.Choice{Heads: l.heads, PerQueryHead: l.SelectGroup == "per-head"}
		for _, r := range requests {
			ch.Ranked = append(ch.Ranked, 0)
			if searches(r) {
				ch.Ranked[len(ch.Ranked)-1], ch.Keep = r.Context, max(ch.Keep, l.found(r.Prompt))
			}
		}
		if slices.ContainsFunc(requests, searches) {
			choose = append(choose, ch)
		}
		return []policy.Class{c}, choose
	case l.paged() > 0:
		c := policy.Class{Heads: l.paged(), Tokens: each(func(r policy.Request) int { return p.Tokens(r.Prompt, r.Context) })}
		ch := policy.Choice{Heads: l.paged(), PerQueryHead: l.SelectGroup == "per-head", PerQueryScores: l.SelectGroup != "sum", Softmax: l.SelectGroup == "softmax-sum"}
		if l.SelectDevice != "gpu" {
			ch.Device = l.SelectDevice
		}
		for _, r := range requests {
			scored, ranked := 0, 0
			if r.Context > l.Budget {
				c.Page, c.PerQueryHead = l.Page, ch.PerQueryHead
				if p.selects(r.Prompt, r.Context) {
					scored, ranked, ch.Keep = p.summaries(r.Context), p.Pages(r.Context), max(ch.Keep, p.selected(r.Context)-1) // the newest is always in the list
				}
			}
			ch.Scored, ch.Ranked = append(ch.Scored, scored), append(ch.Ranked, ranked)
		}
		attend = append(attend, c)
		if ch.Keep > 0 {
			choose = append(choose, ch)
		}
	case l.heads > l.streams:
		attend = append(attend, policy.Class{Heads: l.heads - l.streams, Tokens: each(func(r policy.Request) int { return r.Context })})
	}
	if streaming.Heads > 0 {
		attend = append(attend, streaming)
	}
	return attend, choose
}

// TestClassTokens: a class has one number of tokens for all heads, or one for each head if they differ.
func TestClassTokens(t *testing.T) {
	c := policy.Class{Heads: 3, Tokens: []int{10, 20}}
	if got := c.All(); got != 90 {
		t.Errorf("%d tokens, want 90", got)
	}
	c.PerHead = []int{1, 2, 3, 40, 50, 60}
	if got := c.All(); got != 156 {
		t.Errorf("%d tokens of heads that differ, want 156", got)
	}
}

// pairs returns the pairs of a query and a key in a chunk, over all heads.
func (l *byteLaw) pairs(chunk, finished int) (sum int64) {
	rows := func(s Streaming) int64 { return s.Pairs(finished+chunk) - s.Pairs(finished) }
	dense, window := rows(Streaming{Window: 1 << 30}), l.Window
	if l.PrefillWindow > 0 {
		window = l.PrefillWindow
	}
	switch l.Name {
	case "streaming":
		return int64(l.heads) * rows(Streaming{l.Sink, window})
	case "lserve", "duo":
		return int64(l.streams)*rows(Streaming{l.Sink, window}) + int64(l.heads-l.streams)*dense
	case "h2o": // scores a second time: half of attention's arithmetic
		return int64(l.heads+(l.heads+1)/2) * dense
	}
	return int64(l.heads) * dense
}

// TestClasses compares the tokens that steps and prompts attend to, and those that steps choose from, with each policy's definition.
func TestClasses(t *testing.T) {
	forVariants(t, func(t *rapid.T, p policy.Costs, l *byteLaw, run int) {
		requests := drawRequests(t)
		p.Decode(drawRequests(t), run) // fills the buffers that are reused
		x := p.Decode(slices.Clone(requests), run)
		attend, choose := l.classes(requests)
		var leave []policy.Leaving
		merged := 0
		if l.Name == "window" || l.Name == "hgca" {
			attend, leave, merged = l.windows(requests)
		}
		if got, want := fmt.Sprintf("%+v %+v %+v %d", x.Attend, x.Choose, x.Leave, x.Merged), fmt.Sprintf("%+v %+v %+v %d", attend, choose, leave, merged); got != want {
			t.Fatalf("%+v: a step of %v is\n%s, want\n%s", *l.keys, requests, got, want)
		}
		finished, chunk := rapid.IntRange(0, 5000).Draw(t, "finished"), rapid.IntRange(1, 5000).Draw(t, "chunk")
		got, want := int64(0), l.pairs(chunk, finished)
		for _, x := range p.Prompt(run, chunk, finished, false).Pieces {
			n := int64(x.Tokens)
			got += int64(x.Heads) * int64(x.Count) * (n*int64(x.Behind) + n*(n+1)/2)
		}
		if most := int64(chunk * l.heads); 2*(got-want) > most || 2*(want-got) > most { // half a token a row
			t.Fatalf("%+v: %d pairs of %d tokens after %d, want %d", *l.keys, got, chunk, finished, want)
		}
	})
}
