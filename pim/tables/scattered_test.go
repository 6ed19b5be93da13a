package tables

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/units"
)

// TestListsAreTheRun compares the table with command-by-command runs of heads over random lists: alone,
// with an append, and within a sequence. Where the banks are the bottleneck it is exact; else
// it is within 1% and 400 clocks.
func TestListsAreTheRun(t *testing.T) {
	deep.Heavy(t)
	for i, c := range []struct {
		queries, macs, bits int
		activation          string
		exact               bool
	}{
		{1, 1, 16, pim.Staggered, true}, {4, 1, 16, pim.Staggered, true}, {4, 2, 16, pim.Staggered, true}, {8, 2, 16, pim.Staggered, true}, {4, 1, 8, pim.Staggered, true},
		{1, 1, 16, pim.Simultaneous, true}, {4, 1, 16, pim.Simultaneous, true}, {4, 4, 16, pim.Staggered, false}, {8, 4, 16, pim.Staggered, false}, {4, 2, 16, pim.Simultaneous, false},
	} {
		if i%8 != 0 && !deep.On() {
			continue
		}
		spec, shape := pim.Default(), oneHead
		spec.Activation, spec.MACsPerRead, shape.Queries, shape.ElementBits = c.activation, c.macs, c.queries, c.bits
		b, err := machine.NewRunner(spec, parts.DDR4(t), shape)
		if err != nil {
			t.Fatal(err)
		}
		b.Machine.Repeats.On = false
		tables := bothTables(t, spec, parts.DDR4(t), shape)
		g := &b.Program.Geometry
		rapid.Check(t, func(t *rapid.T) {
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3)) // sizes that rapid would draw small
			page, context := 16<<r.IntN(7), 1+r.IntN(16384)
			pages := r.Perm((context - 1) / page) // all but the newest
			pages = pages[:r.IntN(min(len(pages), 24)+1)]
			slices.Sort(pages)
			list, tokens, units := pim.PageList(g, context, page, append(pages, (context-1)/page))
			tail := &list[len(list)-1]
			last := tail.Chunk*g.ChunkTokens + tokens - tail.Start
			if in := slices.IndexFunc(list, func(x pim.Extent) bool { return x.Unit == tail.Unit }); in >= 0 {
				last = tokens - list[in].Start
			}
			h := machine.Head{Context: tokens, List: list}
			alone, got := b.Run(h), tables[0].Attention(tokens)+tables[0].Scattered(tokens, units)
			if got != alone && (c.exact || max(got-alone, alone-got) > alone/100+400) {
				t.Fatalf("%+v: %d tokens in %d rows take %d clocks, table %d", c, tokens, units, alone, got)
			}
			if run, got := b.Measure(h), tables[1].ListActivity(tokens, units); !didAlike(run, got, c.exact) {
				t.Fatalf("%+v: %d tokens in %d rows do %+v, table %+v", c, tokens, units, run, got)
			}
			h.Appends = true
			if run, got := b.Measure(h), tables[0].ListActivity(tokens, units); !didAlike(run, got, c.exact) {
				t.Fatalf("%+v: %d tokens in %d rows and an append do %+v, table %+v", c, tokens, units, run, got)
			}
			if run, got := b.Run(h), tables[0].Alone(tokens)+tables[0].Scattered(tokens, units); c.exact && got != run {
				t.Fatalf("%+v: with an append %d clocks, table %d", c, run, got)
			}
			ends := b.Ends(h, h, h)
			run, got := ends[1]-ends[0], tables[0].ListInSequence(tokens, units, last)
			if c.exact && got != run {
				t.Fatalf("%+v: %d tokens in %d rows, %d in the last: %d clocks in sequence, table %d", c, tokens, units, last, run, got)
			}
		})
	}
}

// didAlike reports whether a table gives a list the activity of a run: the same commands, clocks as in TestListsAreTheRun, and rows open
// for as long, to 1%, 60 clocks and the difference in clocks.
func didAlike(run, table machine.Activity, exact bool) bool {
	longer := math.Abs(run.Clocks - table.Clocks)
	if exact && longer > 0 || longer > run.Clocks/100+400 || math.Abs(run.Open-table.Open) > longer+run.Open/100+60 {
		return false
	}
	run.Open, run.Clocks, table.Open, table.Clocks = 0, 0, 0, 0
	return run == table
}

// TestListsBeyondTheBuffer: keys whose scores exceed the buffer are scored twice, and their rows are opened twice, including a list's
// further rows.
func TestListsBeyondTheBuffer(t *testing.T) {
	deep.Heavy(t)
	spec, shape := pim.Default(), oneHead
	spec.ScoreBuffer, shape.Queries = 64*units.KiB, 8 // 4,096 tokens
	b, err := machine.NewRunner(spec, parts.DDR4(t), shape)
	if err != nil {
		t.Fatal(err)
	}
	tables := bothTables(t, spec, parts.DDR4(t), shape)
	table, stored := tables[0], tables[1]
	for _, rows := range []int{16, 32, 48, 64} {
		var list []pim.Extent
		for i := range rows {
			list = append(list, pim.Extent{Start: i * 256, Unit: 3 * i, Chunk: 0})
		}
		tokens := rows * 256
		if got, want := table.Attention(tokens)+table.Scattered(tokens, rows), b.Run(machine.Head{Context: tokens, List: list}); got != want {
			t.Errorf("%d half rows: table %d, run %d", rows, got, want)
		}
		if run, got := b.Measure(machine.Head{Context: tokens, List: list}), stored.ListActivity(tokens, rows); !didAlike(run, got, true) {
			t.Errorf("%d half rows: table %+v, run %+v", rows, got, run)
		}
	}
	// A head within one row that does not begin at the row's start ends like one that does.
	h := machine.Head{Context: 40, List: []pim.Extent{{Start: 0, Unit: 0, Chunk: 5}}, Appends: true}
	ends := b.Ends(h, h, h)
	if got := table.ListInSequence(40, 1, 40); got != ends[1]-ends[0] {
		t.Errorf("in the middle of a row: table %d, run %d", got, ends[1]-ends[0])
	}
}

// TestListEndsInItsOwnRow: 40 tokens in three rows, eight of them in the last. The segment of scores began two rows before, so the head
// ends like one that reads a later row of its segment.
func TestListEndsInItsOwnRow(t *testing.T) {
	spec := pim.Default()
	spec.Activation = pim.Simultaneous
	b, err := machine.NewRunner(spec, parts.DDR4(t), oneHead)
	if err != nil {
		t.Fatal(err)
	}
	table := bothTables(t, spec, parts.DDR4(t), oneHead)[0]
	list := []pim.Extent{{Start: 0, Unit: 0}, {Start: 16, Unit: 5}, {Start: 32, Unit: 9}}
	h := machine.Head{Context: 40, List: list, Appends: true}
	ends := b.Ends(h, h, h)
	if got := table.ListInSequence(40, 3, 8); got != ends[1]-ends[0] || got != 660 {
		t.Errorf("table %d, run %d, want 660 clocks", got, ends[1]-ends[0])
	}
}

// TestListsOfTwoRows: a list in as many rows as contiguous tokens take, with other numbers of tokens in each. The head's end depends on the
// place of its last token in its row.
func TestListsOfTwoRows(t *testing.T) {
	b, err := machine.NewRunner(pim.Default(), parts.DDR4(t), oneHead)
	if err != nil {
		t.Fatal(err)
	}
	table := bothTables(t, pim.Default(), parts.DDR4(t), oneHead)[0]
	for _, c := range [][2]int{{520, 512}, {520, 496}, {520, 16}, {600, 304}, {1000, 496}, {513, 16}, {528, 512}, {528, 32}} { // tokens, and those of the first row
		h := machine.Head{Context: c[0], List: []pim.Extent{{Start: 0, Unit: 0}, {Start: c[1], Unit: 4}}, Appends: true}
		ends := b.Ends(h, h, h)
		if got := table.ListInSequence(c[0], 2, c[0]-c[1]); got != ends[1]-ends[0] {
			t.Errorf("%d tokens, %d in the first row: table %d, run %d", c[0], c[1], got, ends[1]-ends[0])
		}
	}
}
