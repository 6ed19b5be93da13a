package pim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/internal/lab/parts"
	"pgregory.net/rapid"
)

// clocksOf returns the clocks of a head on an idle rank.
func clocksOf(t rapid.TB, b *tableBuilder, h headRun) int64 {
	if err := h.list.check(&b.program.geometry, h.context); err != nil {
		t.Fatal(err)
	}
	return b.run(h)
}

// TestListsOfRows: a list of whole rows takes the clocks of as many tokens in a row, in whatever
// order.
func TestListsOfRows(t *testing.T) {
	for _, queries := range []int{1, 4} {
		shape := fp16Head
		shape.Queries = queries
		b, err := newTableBuilder(Default(), parts.DDR4(t), shape)
		if err != nil {
			t.Fatal(err)
		}
		g := &b.program.geometry
		rapid.Check(t, func(t *rapid.T) {
			rows := rapid.IntRange(1, 12).Draw(t, "rows")
			n := rows*g.RowTokens - rapid.IntRange(0, g.RowTokens-1).Draw(t, "missing")
			var list []extent
			for i, unit := range rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 2)).Perm(40)[:rows] {
				list = append(list, extent{i * g.RowTokens, unit, 0})
			}
			appends := rapid.Bool().Draw(t, "append")
			got, want := clocksOf(t, b, headRun{context: n, list: list, appends: appends}), b.run(headRun{context: n, appends: appends})
			if got != want {
				t.Fatalf("%d tokens in rows %v: %d clocks, in order %d", n, list, got, want)
			}
		})
	}
}

// TestListsByHand compares lists of whole pages with a closed form: two times 64 clocks a chunk
// and the switches between rows, and the fixed part of a head of the same queries.
func TestListsByHand(t *testing.T) {
	d := parts.DDR4(t)
	for _, activation := range []string{Staggered, Simultaneous} {
		spec := Default()
		spec.Activation = activation
		b, err := newTableBuilder(spec, d, fp16Head)
		if err != nil {
			t.Fatal(err)
		}
		g := &b.program.geometry
		fixed := b.attention(g.ChunkTokens) - 64
		reopen := 48 + spec.ActivationClocks(d)
		rapid.Check(t, func(t *rapid.T) {
			page := 16 << rapid.IntRange(0, 5).Draw(t, "log page")
			all := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 3)).Perm(8192 / page)
			pages := all[:rapid.IntRange(1, min(24, len(all))).Draw(t, "pages")]
			slices.Sort(pages)
			list, tokens, units := pageList(g, 8192, page, pages)
			if tokens != len(pages)*page {
				t.Fatalf("%d tokens in %d pages of %d", tokens, len(pages), page)
			}
			want := 4*int64(tokens) + 2*int64(units-1)*reopen + fixed
			if got := clocksOf(t, b, headRun{context: tokens, list: list}); got != want {
				t.Fatalf("pages %v of %d tokens in %d rows: %d clocks, want %d", pages, page, units, got, want)
			}
		})
	}
}

// TestListsAreChecked: extents that overlap rows, leave gaps in a list or do not begin at
// chunks are refused.
func TestListsAreChecked(t *testing.T) {
	g, err := NewGeometry(parts.DDR4(t), fp16Head)
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]extent{
		{{16, 0, 0}}, {{0, 0, 0}, {8, 1, 0}}, {{0, 0, 0}, {0, 1, 0}}, {{0, 0, 31}}, {{0, -1, 0}}, {{0, 0, -1}}, {{0, 0, 0}, {32, 1, 31}}, {{0, 0, 0}, {64, 1, 0}},
	} {
		h := headRun{context: 64, list: list}
		if h.list.check(&g, h.context) == nil {
			t.Errorf("%+v is taken", list)
		}
	}
	h := headRun{context: 64, list: []extent{{0, 3, 30}, {32, 0, 0}}}
	if err := h.list.check(&g, h.context); err != nil {
		t.Error(err)
	}
}
