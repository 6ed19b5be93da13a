package system

import (
	"testing"

	"github.com/l3sim/l3sim/sim"
	"github.com/l3sim/l3sim/system/dataflow"
	"pgregory.net/rapid"
)

// TestDataflowIsThePipeline checks package dataflow against the pipeline, to the
// picosecond, on random iterations, and its schedules against their laws. Where links
// and channels share a bus the two may differ: the pipeline looks at the latest stretch
// of results alone and lets data go both ways at once.
func TestDataflowIsThePipeline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranksets := rapid.IntRange(1, 5).Draw(t, "ranksets")
		c := drawCosts(t, ranksets)
		if rapid.Bool().Draw(t, "only decode") {
			withoutPrompts(c)
		}
		start := sim.Time(12345)
		p := newPipeline(ranksets, true)
		want := p.run(c, start)
		e, err := dataflow.New(flowResources(c, ranksets))
		if err != nil {
			t.Fatal(err)
		}
		var it dataflow.Iteration
		c.flow(&it)
		for _, exact := range []bool{true, false} {
			e.Exact = exact
			end, found := e.Check(&it, start)
			if c.halfDuplex && exact {
				want = end
			}
			if end != want || e.Run(&it, start) != want {
				t.Fatalf("exact %v: ends at %v, the pipeline at %v", exact, end, want)
			}
			if len(found) > 0 {
				t.Fatalf("exact %v: %+v", exact, found)
			}
		}
	})
}
