package kinds

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/units"
)

// TestSuccessiveIterations runs one iteration after another on the same flow; they differ in times, in heads and sometimes in operations.
// Each has the operations of a new flow, and ends when that one ends layer by layer.
func TestSuccessiveIterations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranksets := rapid.IntRange(1, 4).Draw(t, "ranksets")
		c := drawCosts(t, ranksets)
		if rapid.IntRange(0, 3).Draw(t, "only decodes") > 0 {
			withoutPrompts(c)
			for s := range c.sub {
				c.sub[s].window = 0
			}
		}
		f := flow.New(withLayers(int(c.layers[0])), c.resources(ranksets), flow.Running{})
		for range 6 {
			c.lay(&f)
			fresh, want := runCosts(t, c, ranksets, true, 7)
			a, b := &f.Iteration, &fresh.Iteration
			if !slices.Equal(a.Ops, b.Ops) || !slices.Equal(a.After, b.After) || !slices.Equal(a.Parts, b.Parts) || f.Uses != fresh.Uses {
				t.Fatalf("operations %+v, %v, %v, want %+v, %v, %v", a.Ops, a.After, a.Parts, b.Ops, b.After, b.Parts)
			}
			for s := range a.Sub {
				if len(b.Sub[s].Order) > 0 && a.Sub[s].Exit != b.Sub[s].Exit || !slices.Equal(a.Sub[s].Kinds, b.Sub[s].Kinds) || !slices.Equal(a.Sub[s].Order, b.Sub[s].Order) {
					t.Fatalf("sub-batch %d: %+v, want %+v", s, a.Sub[s], b.Sub[s])
				}
			}
			if got, err := f.Run(7); got != want || err != nil {
				t.Fatalf("the iteration ends at %d (%v), layer by layer at %d", got, err, want)
			}
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				changeCosts(t, c)
			}
		}
	})
}

// changeCosts draws the costs of the next iteration: other times, sometimes another shape.
func changeCosts(t *rapid.T, c *iterationCosts) {
	span := func(high int) units.Duration { return units.Duration(rapid.IntRange(1, high).Draw(t, "next")) }
	for s := range c.sub {
		sub := &c.sub[s]
		if !sub.active {
			continue
		}
		sub.entry, sub.block, sub.exit, sub.use.Slow = span(200), span(300), span(300), float64(span(9))
		for o := range sub.groups {
			if g := &sub.groups[o]; g.Requests > 0 {
				g.Heads[0] = int64(span(60))
				g.Compute, g.Up, g.UpBus = c.clock.Time(g.Heads[0]*int64(c.headsEach)), span(50), span(9)
				g.Decode = ranks.Shipment{Pieces: 1, Link: span(50), Last: span(50), Open: span(9), Close: span(9), Data: span(9)}
			}
		}
	}
	s := rapid.IntRange(0, len(c.sub)-1).Draw(t, "of")
	sub := &c.sub[s]
	g := &sub.groups[rapid.IntRange(0, len(sub.groups)-1).Draw(t, "group")]
	if !sub.active {
		return
	}
	switch rapid.IntRange(0, 12).Draw(t, "change") {
	case 0:
		g.Requests, g.Heads = 0, nil
	case 1:
		g.Requests, g.Heads, g.Compute, g.Up = 1, []int64{5, 6}, span(500), span(50)
		g.Decode = ranks.Shipment{Pieces: 1, Link: span(50), Last: span(50)}
	case 2:
		g.Prompt = ranks.Cargo{Tokens: 16, Shipment: ranks.Shipment{Pieces: 1, Link: span(50), Last: span(50)}}
	case 3:
		g.Leaving = ranks.Cargo{Tokens: 16, Shipment: ranks.Shipment{Pieces: 1, Link: span(50), Last: span(50)}}
	case 4:
		g.Prompt, g.Leaving, sub.prefillAttention, sub.window = ranks.Cargo{}, ranks.Cargo{}, 0, 0
	case 5:
		sub.prefillAttention = span(100)
	case 6:
		sub.window = span(100)
	case 7:
		sub.chooses = span(20)
	case 8:
		if len(c.sub) == 2 && c.sub[1-s].active {
			*sub = subCost{groups: sub.groups}
			clear(sub.groups)
		}
	}
}
