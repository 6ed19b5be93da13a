package values

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/tables"
)

// TestSelectionByHand compares the program that scores bounds with a closed form: 64 clocks for 16
// bounds, a switch of rows for every 256, and what the first and the last ones take.
func TestSelectionByHand(t *testing.T) {
	d := parts.DDR4(t)
	for activation, first := range map[string]int64{pim.Staggered: 235, pim.Simultaneous: 147} {
		spec := pim.Default()
		spec.Activation = activation
		reopen := 48 + spec.ActivationClocks(d)
		l := PageLoad{Shape: halfHead, Select: tables.SelectBank, TopK: 9}
		for _, bounds := range []int{1, 16, 17, 256, 257, 1024, 2048, 8192} {
			got, err := l.selectClocks(spec, d, bounds)
			if err != nil {
				t.Fatal(err)
			}
			want := first + 64*int64((bounds-1)/16) + int64((bounds-1)/256)*reopen + 9
			if got != want {
				t.Errorf("%s, %d bounds: %d clocks, want %d", activation, bounds, got, want)
			}
		}
	}
}

// TestPageSpeedups pins the speed-up of a head with 512-token pages over one that reads everything, with a budget of 4,096 tokens: one list
// a step, one list for four steps, and given lists.
func TestPageSpeedups(t *testing.T) {
	for queries, want := range map[int][]string{
		1: {"3.2 3.8 4.0", "5.3 7.1 8.0", "8.0 12.8 16.0", "10.6 21.3 31.9"},
		4: {"3.7 3.9 4.0", "7.0 7.7 8.0", "15.6 18.6 19.9", "28.2 38.5 43.9"},
	} {
		shape := halfHead
		shape.Queries = queries
		for i, w := range want {
			l := PageLoad{Context: 16384 << i, Shape: shape, Budget: 4096, Page: 512, Logical: 16, TopK: 64}
			gain := func(by string, reuse int) float64 {
				l.Select, l.Reuse = by, reuse
				m, err := MeasurePages(pim.Default(), parts.DDR4(t), l)
				if err != nil {
					t.Fatal(err)
				}
				return float64(m.DenseClocks) / float64(m.TotalClocks)
			}
			if i > 0 && !deep.On() {
				continue
			}
			if got := fmt.Sprintf("%.1f %.1f %.1f", gain(tables.SelectBank, 1), gain(tables.SelectBank, 4), gain(tables.SelectNone, 1)); got != w {
				t.Errorf("%d query heads, %d tokens: %s times faster, want %s", queries, l.Context, got, w)
			}
		}
	}
}

// TestPagesAreTheBest: the units choose the pages that float64 scores of the stored bounds choose, unless two scores are equal in FP16. The
// newest page is always chosen, and exactly the pages' tokens are read.
func TestPagesAreTheBest(t *testing.T) {
	d, spec := parts.DDR4(t), pim.Default()
	spec.Precision.Preset = "fp32"
	rapid.Check(t, func(t *rapid.T) {
		shape := halfHead
		shape.Queries = rapid.IntRange(1, 4).Draw(t, "queries")
		page := 16 << rapid.IntRange(0, 5).Draw(t, "log page")
		l := PageLoad{
			Context: rapid.IntRange(1, 4000).Draw(t, "context"), Shape: shape, Page: page, Budget: page * rapid.IntRange(1, 20).Draw(t, "pages"),
			Logical: page >> rapid.IntRange(0, 2).Draw(t, "log logical"), Reuse: rapid.IntRange(1, 5).Draw(t, "reuse"),
			Select: rapid.SampledFrom([]string{tables.SelectBank, tables.SelectRank, tables.SelectGPU, tables.SelectNone}).Draw(t, "by"),
			Seed:   rapid.Uint64().Draw(t, "seed"), Local: rapid.Float64Range(0, 1).Draw(t, "local"),
		}
		m, err := MeasurePages(spec, d, l)
		if err != nil {
			t.Fatal(err)
		}
		pages := (l.Context + page - 1) / page
		if m.List[len(m.List)-1] != pages-1 || !slices.IsSorted(m.List) || m.Pages != len(m.List) {
			t.Fatalf("pages %v of %d", m.List, pages)
		}
		if want := min(max(3, l.Budget/page), pages); l.Context > l.Budget && m.Pages != want || l.Context <= l.Budget && m.Pages != pages {
			t.Fatalf("%d pages of %d, want %d", m.Pages, pages, want)
		}
		if want := m.Pages*page - (pages*page - l.Context); m.Tokens != want {
			t.Fatalf("%d tokens in pages %v, want %d", m.Tokens, m.List, want)
		}
		if m.Pages < pages {
			l.checkBest(t, m.List)
		}
		selects := l.Context > l.Budget && (l.Select == tables.SelectBank || l.Select == tables.SelectRank)
		if m.SelectClocks > 0 != selects || m.TotalClocks < m.AttentionClocks || m.Pages == pages && m.AttentionClocks != m.DenseClocks {
			t.Fatalf("%+v", m)
		}
	})
}

// checkBest scores all pages again, from bounds that are drawn again.
func (l *PageLoad) checkBest(t *rapid.T, list []int) {
	bounds := (l.Context + l.Logical - 1) / l.Logical
	var stored [][]uint16
	query, err := l.draw(bounds, func(_ int, bound []uint16) error { stored = append(stored, slices.Clone(bound)); return nil })
	if err != nil {
		t.Fatal(err)
	}
	wide := decode(StoreFP16, append(stored, query))
	n := len(query)
	scores := map[int]float64{}
	for i := range bounds {
		sum := 0.0
		for e := range n {
			sum += float64(wide[i*n+e]) * float64(wide[bounds*n+e])
		}
		page := i * l.Logical / l.Page
		if old, ok := scores[page]; !ok || sum > old {
			scores[page] = sum
		}
	}
	newest := list[len(list)-1]
	for page, s := range scores {
		if page == newest || slices.Contains(list, page) {
			continue
		}
		for _, chosen := range list[:len(list)-1] {
			if scores[chosen] < s-1e-3 {
				t.Fatalf("page %d with %v is chosen, %d with %v is not", chosen, scores[chosen], page, s)
			}
		}
	}
}

// A load's selection takes the clocks of the table of bounds.
func TestSelectionIsTheTable(t *testing.T) {
	d := parts.DDR4(t)
	for _, by := range []string{tables.SelectBank, tables.SelectRank} {
		table, err := tables.NewBoundTable(pim.Default(), d, halfHead, by, false, 9)
		parts.Must(t, err)
		l := PageLoad{Shape: halfHead, Select: by, TopK: 9}
		for _, bounds := range []int{1, 16, 17, 300, 5000} {
			if got, err := l.selectClocks(pim.Default(), d, bounds); err != nil || got != table.Select(bounds) {
				t.Errorf("%s: %d bounds take %d clocks, table %d (%v)", by, bounds, got, table.Select(bounds), err)
			}
		}
	}
}
