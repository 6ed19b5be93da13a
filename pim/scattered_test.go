package pim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/internal/lab/deep"
	"github.com/l3sim/l3sim/internal/lab/parts"
	"github.com/l3sim/l3sim/units"
)

// TestListsAreTheRun compares the table with command-by-command runs of heads over random lists: alone,
// with an append, and within a sequence. Where the banks are the bottleneck it is exact; else
// it is within 1% and 400 clocks.
func TestListsAreTheRun(t *testing.T) {
	for i, c := range []struct {
		queries, macs, bits int
		activation          string
		exact               bool
	}{
		{1, 1, 16, Staggered, true}, {4, 1, 16, Staggered, true}, {4, 2, 16, Staggered, true}, {8, 2, 16, Staggered, true}, {4, 1, 8, Staggered, true},
		{1, 1, 16, Simultaneous, true}, {4, 1, 16, Simultaneous, true}, {4, 4, 16, Staggered, false}, {8, 4, 16, Staggered, false}, {4, 2, 16, Simultaneous, false},
	} {
		if i%8 != 0 && !deep.On() {
			continue
		}
		spec, shape := Default(), oneHead
		spec.Activation, spec.MACsPerRead, shape.Queries, shape.ElementBits = c.activation, c.macs, c.queries, c.bits
		b, err := newTableBuilder(spec, parts.DDR4(t), shape)
		if err != nil {
			t.Fatal(err)
		}
		b.machine.repeats.on = false
		tables := bothTables(t, spec, parts.DDR4(t), shape)
		g := &b.program.geometry
		rapid.Check(t, func(t *rapid.T) {
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3)) // sizes that rapid would draw small
			page, context := 16<<r.IntN(7), 1+r.IntN(16384)
			pages := r.Perm((context - 1) / page) // all but the newest
			pages = pages[:r.IntN(min(len(pages), 24)+1)]
			slices.Sort(pages)
			list, tokens, units := pageList(g, context, page, append(pages, (context-1)/page))
			tail := &list[len(list)-1]
			last := tail.chunk*g.ChunkTokens + tokens - tail.start
			if in := slices.IndexFunc(list, func(x extent) bool { return x.unit == tail.unit }); in >= 0 {
				last = tokens - list[in].start
			}
			h := headRun{context: tokens, list: list}
			alone, got := b.run(h), tables[0].Attention(tokens)+tables[0].Scattered(tokens, units)
			if got != alone && (c.exact || max(got-alone, alone-got) > alone/100+400) {
				t.Fatalf("%+v: %d tokens in %d rows take %d clocks, table %d", c, tokens, units, alone, got)
			}
			h.appends = true
			if run, got := b.run(h), tables[0].Alone(tokens)+tables[0].Scattered(tokens, units); c.exact && got != run {
				t.Fatalf("%+v: with an append %d clocks, table %d", c, run, got)
			}
			ends := b.ends(h, h, h)
			run, got := ends[1]-ends[0], tables[0].ListInSequence(tokens, units, last)
			if c.exact && got != run {
				t.Fatalf("%+v: %d tokens in %d rows, %d in the last: %d clocks in sequence, table %d", c, tokens, units, last, run, got)
			}
		})
	}
}

// TestListsBeyondTheBuffer: keys whose scores do not fit the buffer are scored twice, and their rows are opened as
// often, further ones of a list among them.
func TestListsBeyondTheBuffer(t *testing.T) {
	spec, shape := Default(), oneHead
	spec.ScoreBuffer, shape.Queries = 64*units.KiB, 8 // 4,096 tokens
	b, err := newTableBuilder(spec, parts.DDR4(t), shape)
	if err != nil {
		t.Fatal(err)
	}
	table := bothTables(t, spec, parts.DDR4(t), shape)[0]
	for _, rows := range []int{16, 32, 48, 64} {
		var list []extent
		for i := range rows {
			list = append(list, extent{i * 256, 3 * i, 0})
		}
		tokens := rows * 256
		if got, want := table.Attention(tokens)+table.Scattered(tokens, rows), b.run(headRun{context: tokens, list: list}); got != want {
			t.Errorf("%d half rows: table %d, run %d", rows, got, want)
		}
	}
	// A head of one row that does not begin with it ends as one that does.
	h := headRun{context: 40, list: []extent{{0, 0, 5}}, appends: true}
	ends := b.ends(h, h, h)
	if got := table.ListInSequence(40, 1, 40); got != ends[1]-ends[0] {
		t.Errorf("in the middle of a row: table %d, run %d", got, ends[1]-ends[0])
	}
}
