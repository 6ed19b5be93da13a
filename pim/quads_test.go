package pim

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
)

// TestQuads: rows of which each quad of banks has a page of its own take the clocks of as many whole rows:
// a staggered activation opens each bank by itself. Each bank is opened at the row of its quad's page, for keys and
// for values.
func TestQuads(t *testing.T) {
	for i, queries := range []int{1, 4, 1} {
		d, shape := []*dram.Spec{ddr4(t), ddr4(t), ddr5(t)}[i], fp16Head
		shape.Queries = queries
		b, err := newTableBuilder(Default(), d, shape)
		if err != nil {
			t.Fatal(err)
		}
		b.machine.periodic.on = false
		g := &b.program.geometry
		rapid.Check(t, func(t *rapid.T) {
			rows := rapid.IntRange(1, 12).Draw(t, "rows")
			h := headRun{firstRow: 10}
			for i := range rows {
				h.list = append(h.list, extent{i * g.RowTokens, i, 0})
				h.quads = append(h.quads, [Quads]int{})
				for q := range Quads {
					h.quads[i][q] = rapid.IntRange(0, 60).Draw(t, "unit")
				}
			}
			h.context = rows*g.RowTokens - Quads*rapid.IntRange(0, g.RowTokens/Quads-1).Draw(t, "missing") // a newest page alone
			var opened [2 * 61]map[int]int                                                                 // by row: activations of each quad
			b.machine.observe = func(_ int64, cmd dram.Command, a dram.Address, _ *instruction) {
				if cmd == dram.ACT {
					row := a.Row - h.firstRow
					if opened[row] == nil {
						opened[row] = map[int]int{}
					}
					opened[row][int(a.Bank)]++
				}
			}
			got := b.run(h)
			b.machine.observe = nil
			if want := b.attention(h.context); got != want {
				t.Fatalf("%d rows of quads take %d clocks, whole rows %d", rows, got, want)
			}
			for _, units := range h.quads {
				for q, unit := range units {
					for _, row := range []int{2 * unit, 2*unit + 1} {
						if opened[row][q] < d.BankGroups {
							t.Fatalf("quad %d of unit %d: its banks are opened %d times at row %d", q, unit, opened[row][q], row)
						}
					}
				}
			}
			all := 0
			for _, row := range opened {
				for _, n := range row {
					all += n
				}
			}
			if all != 2*rows*g.Banks {
				t.Fatalf("%d activations of banks for %d rows", all, rows)
			}
		})
	}
}
