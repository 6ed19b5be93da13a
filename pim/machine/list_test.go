package machine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"pgregory.net/rapid"
)

// clocksOf returns the clocks of a head on an idle rank.
func clocksOf(t rapid.TB, b *Runner, h Head) int64 {
	if err := h.List.Check(&b.Program.Geometry, h.Context); err != nil {
		t.Fatal(err)
	}
	return b.Run(h)
}

// TestListsOfRows: a list of whole rows takes as long as the same tokens in sequence, in any order
// of rows.
func TestListsOfRows(t *testing.T) {
	for _, queries := range []int{1, 4} {
		shape := fp16Head
		shape.Queries = queries
		b, err := NewRunner(pim.Default(), parts.DDR4(t), shape)
		if err != nil {
			t.Fatal(err)
		}
		g := &b.Program.Geometry
		rapid.Check(t, func(t *rapid.T) {
			rows := rapid.IntRange(1, 12).Draw(t, "rows")
			n := rows*g.RowTokens - rapid.IntRange(0, g.RowTokens-1).Draw(t, "missing")
			var list []pim.Extent
			for i, unit := range rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 2)).Perm(40)[:rows] {
				list = append(list, pim.Extent{Start: i * g.RowTokens, Unit: unit, Chunk: 0})
			}
			appends := rapid.Bool().Draw(t, "append")
			got, want := clocksOf(t, b, Head{Context: n, List: list, Appends: appends}), b.Run(Head{Context: n, Appends: appends})
			if got != want {
				t.Fatalf("%d tokens in rows %v: %d clocks, in order %d", n, list, got, want)
			}
		})
	}
}

// TestListsByHand compares lists of whole pages with a closed form: 2 × 64 clocks a chunk, the
// switches between rows, and a fixed part.
func TestListsByHand(t *testing.T) {
	d := parts.DDR4(t)
	for _, activation := range []string{pim.Staggered, pim.Simultaneous} {
		spec := pim.Default()
		spec.Activation = activation
		b, err := NewRunner(spec, d, fp16Head)
		if err != nil {
			t.Fatal(err)
		}
		g := &b.Program.Geometry
		fixed := b.Attention(g.ChunkTokens) - 64
		reopen := 48 + spec.ActivationClocks(d)
		rapid.Check(t, func(t *rapid.T) {
			page := 16 << rapid.IntRange(0, 5).Draw(t, "log page")
			all := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 3)).Perm(8192 / page)
			pages := all[:rapid.IntRange(1, min(24, len(all))).Draw(t, "pages")]
			slices.Sort(pages)
			list, tokens, units := pim.PageList(g, 8192, page, pages)
			if tokens != len(pages)*page {
				t.Fatalf("%d tokens in %d pages of %d", tokens, len(pages), page)
			}
			want := 4*int64(tokens) + 2*int64(units-1)*reopen + fixed
			if got := clocksOf(t, b, Head{Context: tokens, List: list}); got != want {
				t.Fatalf("pages %v of %d tokens in %d rows: %d clocks, want %d", pages, page, units, got, want)
			}
		})
	}
}

// TestListsAreChecked: extents that overlap rows, leave gaps, or begin inside a chunk are refused.
func TestListsAreChecked(t *testing.T) {
	g, err := pim.NewGeometry(parts.DDR4(t), fp16Head)
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]pim.Extent{
		{{Start: 16, Unit: 0, Chunk: 0}}, {{Start: 0, Unit: 0, Chunk: 0}, {Start: 8, Unit: 1, Chunk: 0}}, {{Start: 0, Unit: 0, Chunk: 0}, {Start: 0, Unit: 1, Chunk: 0}}, {{Start: 0, Unit: 0, Chunk: 31}}, {{Start: 0, Unit: -1, Chunk: 0}}, {{Start: 0, Unit: 0, Chunk: -1}}, {{Start: 0, Unit: 0, Chunk: 0}, {Start: 32, Unit: 1, Chunk: 31}}, {{Start: 0, Unit: 0, Chunk: 0}, {Start: 64, Unit: 1, Chunk: 0}},
	} {
		h := Head{Context: 64, List: list}
		if h.List.Check(&g, h.Context) == nil {
			t.Errorf("%+v is taken", list)
		}
	}
	h := Head{Context: 64, List: []pim.Extent{{Start: 0, Unit: 3, Chunk: 30}, {Start: 32, Unit: 0, Chunk: 0}}}
	if err := h.List.Check(&g, h.Context); err != nil {
		t.Error(err)
	}
}
