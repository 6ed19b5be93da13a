package power

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/system/flow"
)

// TestAttentionTable: on random grids, the table's busiest rank takes the time of a run of its commands, and the DRAM
// parts of its energy. Interpolation is within the bounds, and more requests take no less.
func TestAttentionTable(t *testing.T) {
	cfg := metered(t, "energy.pim_read_share=1", "energy.dram_io=0", "energy.bank_unit=0", "energy.adder_unit=0", "energy.softmax_unit=0")
	var shapes []rankAttention // of one, two and four query heads of a KV head
	for group := 1; group <= 4; group *= 2 {
		r := rankAttention{cfg: cfg, shape: pim.HeadShape{HeadDim: 128, Queries: group, ElementBits: 16}}
		if err := r.measure(); err != nil {
			t.Fatal(err)
		}
		shapes = append(shapes, r)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
		shape := n("log2 grouping", 0, 2)
		group := 1 << shape
		tabulate := func(g *AttentionGrid) []AttentionRow {
			rows, err := shapes[shape].rows(g, g.Heads[0], g.Ranks[0])
			if err != nil {
				t.Fatal(err)
			}
			return rows
		}
		first := n("context", 16, 900)
		g := &AttentionGrid{Contexts: []int{first, first + n("further", 1, 1200)}, Batches: []int{1, 1 + n("more", 1, 5)}, Heads: []int{group * n("KV heads", 1, 4)},
			Groups: []int{group}, Ranks: []int{n("ranks", 1, 5)}, HeadDim: 128}
		rows := tabulate(g)
		at := func(batch, context int) AttentionRow { return rows[2*batch+context] }
		for _, i := range []int{0, n("row", 1, 3)} {
			r := &rows[i]
			most := busiest(r.Batch, r.KVHeads, r.Ranks)
			load := machine.Load{Context: r.Context, KVHeads: most, Shape: pim.HeadShape{HeadDim: 128, Queries: group, ElementBits: 16}}
			m, err := machine.Measure(t.Context(), &cfg.PIM, cfg.RankSpec(), load, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			us := float64(m.TotalCycles) * cfg.DRAM.TCK.Seconds() * 1e6
			refresh := 0.35 * (2 + us/7.8) // of a rank whose refreshes may be postponed, eight of them
			if r.LatencyUS < us*(1-1e-9) && us-r.LatencyUS > refresh || r.LatencyUS > us+refresh+0.02*us {
				t.Errorf("%d heads of %d tokens take %v us, command by command %v", most, r.Context, r.LatencyUS, us)
			}
			if most*r.Ranks != r.Batch*r.KVHeads {
				continue // ranks differ
			}
			e := &m.Energy
			d := &shapes[shape].draws[energy.Mid]
			// The table's time and refreshes are means; the measured run ends without the REFs that may still
			// wait.
			uj := float64(r.Ranks) * (1e6*(e.TotalJoules()-e.RefreshJoules) + d.Idle()*r.LatencyUS - d.Closed*us)
			if math.Abs(r.EnergyUJ-uj) > 0.01*uj {
				t.Errorf("%d heads of %d tokens take %v uJ, command by command %v", most, r.Context, r.EnergyUJ, uj)
			}
			if r.EnergyLow > r.EnergyUJ || r.EnergyUJ > r.EnergyTop {
				t.Errorf("%+v", *r)
			}
		}
		if at(1, 0).LatencyUS < at(0, 0).LatencyUS || at(1, 0).EnergyUJ <= at(0, 0).EnergyUJ {
			t.Errorf("%+v", rows)
		}
		// Between the grid's points, a line is no further off than the bound.
		context := n("between", g.Contexts[0], g.Contexts[1])
		one := *g
		one.Contexts, one.Batches = []int{context}, g.Batches[:1]
		between := tabulate(&one)
		share := float64(context-g.Contexts[0]) / float64(g.Contexts[1]-g.Contexts[0])
		line := at(0, 0).LatencyUS + share*(at(0, 1).LatencyUS-at(0, 0).LatencyUS)
		if off := math.Abs(line/between[0].LatencyUS - 1); off > at(0, 1).ContextError+1e-9 {
			t.Errorf("at %d tokens a line is off by %v, the bound is %v", context, off, at(0, 1).ContextError)
		}
		one.Contexts, one.Batches = g.Contexts[:1], []int{n("batch between", 1, g.Batches[1])}
		between = tabulate(&one)
		share = float64(one.Batches[0]-1) / float64(g.Batches[1]-1)
		line = at(0, 0).LatencyUS + share*(at(1, 0).LatencyUS-at(0, 0).LatencyUS)
		if off := math.Abs(line/between[0].LatencyUS - 1); off > at(1, 0).BatchError+1e-9 {
			t.Errorf("at %d requests a line is off by %v, the bound is %v", one.Batches[0], off, at(1, 0).BatchError)
		}
	})
}

// TestBusiest: heads are dealt evenly, by hand.
func TestBusiest(t *testing.T) {
	for _, c := range [][4]int{{1, 8, 4, 2}, {3, 8, 64, 1}, {8, 8, 64, 1}, {9, 8, 64, 2}, {1, 1, 64, 1}, {5, 3, 4, 4}} {
		if got := busiest(c[0], c[1], c[2]); got != c[3] {
			t.Errorf("%d requests of %d heads on %d ranks: %d, want %d", c[0], c[1], c[2], got, c[3])
		}
	}
}

// TestInterpolation: where the line between two points of a square is furthest off, by hand.
func TestInterpolation(t *testing.T) {
	square := func(n int) float64 { return float64(n * n) }
	if got, want := interpolation(1, 3, square), (1.+9)/2/4-1; math.Abs(got-want) > 1e-12 {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := interpolation(2, 5, square), (4.+7)/9-1; math.Abs(got-want) > 1e-12 { // 11 instead of 9, 18 instead of 16
		t.Errorf("%v, want %v", got, want)
	}
	if got := interpolation(4, 5, square); got != 0 {
		t.Errorf("nothing lies between, but %v", got)
	}
}

// TestErrorsOfRows: a row's errors are those of interpolation between it and the rows before it, compared with the rows between.
// Heads of 1, 2 and 3 requests on two ranks take as long as 1, 1 and 2.
func TestErrorsOfRows(t *testing.T) {
	rowsOf := func(contexts, batches []int) []AttentionRow {
		g := &AttentionGrid{Contexts: contexts, Batches: batches, Heads: []int{1}, Groups: []int{1}, Ranks: []int{2}, HeadDim: 128}
		rows, err := AttentionRows(metered(t), g)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	all, ends := rowsOf([]int{64, 65, 66}, []int{1, 2, 3}), rowsOf([]int{64, 66}, []int{1, 3})
	us := func(batch, context int) float64 { return all[3*(batch-1)+context-64].LatencyUS }
	off := func(from, to, exact float64) float64 { return math.Abs((from+to)/2/exact - 1) }
	for i, want := range [][2]float64{{}, {off(us(1, 64), us(1, 66), us(1, 65)), 0}, {0, off(us(1, 64), us(3, 64), us(2, 64))}, {off(us(3, 64), us(3, 66), us(3, 65)), off(us(1, 66), us(3, 66), us(2, 66))}} {
		if r := &ends[i]; math.Abs(r.ContextError-want[0]) > 1e-12 || math.Abs(r.BatchError-want[1]) > 1e-12 {
			t.Errorf("%d tokens, batch %d: errors %v and %v, by hand %v", r.Context, r.Batch, r.ContextError, r.BatchError, want)
		}
	}
	if us(1, 64) != us(2, 64) || us(3, 64) < 1.5*us(1, 64) {
		t.Errorf("%v, %v and %v us", us(1, 64), us(2, 64), us(3, 64))
	}
}

// TestBandOfRows: if all joules come from DRAM currents, a row's band is that of the currents.
func TestBandOfRows(t *testing.T) {
	sets := []string{"energy.dram_current_factor=1 [0.5, 3] datasheet"}
	for _, key := range []string{"dram_vpp", "dram_io", "bank_unit", "adder_unit", "softmax_unit"} {
		sets = append(sets, "energy."+key+"=0")
	}
	g := &AttentionGrid{Contexts: []int{256}, Batches: []int{2}, Heads: []int{8}, Groups: []int{1}, Ranks: []int{4}, HeadDim: 128}
	rows, err := AttentionRows(metered(t, append(sets, "energy.pim_read_share=0.5")...), g)
	if err != nil {
		t.Fatal(err)
	}
	if r := &rows[0]; r.EnergyUJ <= 0 || !alike9(r.EnergyLow, r.EnergyUJ/2) || !alike9(r.EnergyTop, r.EnergyUJ*3) {
		t.Errorf("%v uJ, %v to %v", r.EnergyUJ, r.EnergyLow, r.EnergyTop)
	}
}

// TestGridCheck: the error of a grid names its axis.
func TestGridCheck(t *testing.T) {
	good := AttentionGrid{Contexts: []int{1, 2}, Batches: []int{1}, Heads: []int{8, 16}, Groups: []int{1, 8}, Ranks: []int{1}, HeadDim: 128}
	if faults := input.Faults(&good); len(faults) > 0 {
		t.Fatal(faults[0])
	}
	for key, set := range map[string]func(*AttentionGrid){
		"context": func(g *AttentionGrid) { g.Contexts = []int{2, 2} }, "batch": func(g *AttentionGrid) { g.Batches = []int{0} },
		"heads": func(g *AttentionGrid) { g.Heads = []int{1 << 13} }, "grouping": func(g *AttentionGrid) { g.Groups = []int{3} },
		"ranks": func(g *AttentionGrid) { g.Ranks = []int{-1} },
	} {
		g := good
		set(&g)
		if faults := input.Faults(&g); len(faults) == 0 || faults[0].Key != key {
			t.Errorf("%s: %v", key, faults)
		}
	}
	most := AttentionGrid{Contexts: []int{1 << 22}, Batches: []int{1 << 16}, Heads: []int{1 << 12}, Groups: []int{128}, Ranks: []int{1 << 16}, HeadDim: 128}
	if faults := input.Faults(&most); len(faults) > 0 {
		t.Error(faults[0])
	}
	for key, axis := range map[string]*[]int{"context": &most.Contexts, "batch": &most.Batches, "heads": &most.Heads, "grouping": &most.Groups, "ranks": &most.Ranks} {
		*axis = []int{(*axis)[0] + 1}
		if faults := input.Faults(&most); len(faults) == 0 || !slices.ContainsFunc(faults, func(e *input.Error) bool { return e.Key == key }) {
			t.Errorf("%s beyond its most: %v", key, faults)
		}
	}
	falling := good
	falling.Batches = []int{4, 3}
	if err := input.Validate(&falling); err == nil || !strings.Contains(err.Error(), "expected rising numbers, 1 to 65536") {
		t.Error(err)
	}
	upTo := func(n int) (list []int) {
		for i := range n {
			list = append(list, i+1)
		}
		return list
	}
	large := good
	large.Heads, large.Groups, large.Batches = []int{8}, []int{1}, upTo(1024)
	for contexts, want := range map[int]string{1024: "", 1025: "a table of at most 1048576 rows, not 1049600"} {
		large.Contexts = upTo(contexts)
		if err := input.Validate(&large); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d contexts of %d batches: %v", contexts, len(large.Batches), err)
		}
	}
}

// TestEnergyLawOfTables: a table whose energy contradicts itself breaks the law. Values that no configuration has are set past
// its rules.
func TestEnergyLawOfTables(t *testing.T) {
	cfg := metered(t)
	r := rankAttention{cfg: cfg, shape: cfg.HeadShape()}
	if err := r.measure(); err != nil {
		t.Fatal(err)
	}
	g := &AttentionGrid{Contexts: []int{16, 128}, Batches: []int{1}, Heads: []int{8}, Groups: []int{1}, Ranks: []int{4}, HeadDim: 128}
	for _, c := range []struct {
		plant func()
		bad   string
	}{
		{func() {}, ""}, {func() { r.draws[energy.Low].Closed = 1e3 }, "its band"}, {func() { r.draws[energy.Mid].VPP = -1e-9 }, "part 9 of"}, {func() { r.draws[energy.Mid].Refresh = -1 }, "part 6 of"},
	} {
		c.plant()
		_, err := r.rows(g, 8, 4)
		var v *flow.Violation
		if (err != nil) != (c.bad != "") || err != nil && (!errors.As(err, &v) || v.Law != flow.LawEnergy || !strings.Contains(v.Detail, c.bad)) {
			t.Errorf("%v, want %q", err, c.bad)
		}
	}
}

// TestRowsKeepTheLimit: with a limit of a DIMM's power, a row takes as long as its joules need at each rank's share
// of it.
func TestRowsKeepTheLimit(t *testing.T) {
	g := &AttentionGrid{Contexts: []int{8192}, Batches: []int{8}, Heads: []int{8}, Groups: []int{1}, Ranks: []int{4}, HeadDim: 128}
	rowOf := func(sets ...string) AttentionRow {
		rows, err := AttentionRows(metered(t, sets...), g)
		if err != nil {
			t.Fatal(err)
		}
		return rows[0]
	}
	free, slow := rowOf(), rowOf("pim.power_limit=10")
	if watts := slow.EnergyUJ / slow.LatencyUS; math.Abs(watts-4*(10-1.5)/2) > 1e-3*watts || slow.LatencyUS < 2*free.LatencyUS {
		t.Errorf("four ranks draw %v W in %v us, without a limit %v W in %v us", watts, slow.LatencyUS, free.EnergyUJ/free.LatencyUS, free.LatencyUS)
	}
	if _, err := AttentionRows(metered(t, "pim.power_limit=5"), g); err == nil || !strings.Contains(err.Error(), "pim.power_limit = 5: expected at least 5.6") {
		t.Error(err)
	}
}
