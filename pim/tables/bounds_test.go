package tables

import (
	"testing"

	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"pgregory.net/rapid"
)

// TestBoundsAreTheRun compares the table of scored bounds with a command-by-command run of the scoring
// program, and with a single load.
func TestBoundsAreTheRun(t *testing.T) {
	d := parts.DDR4(t)
	for _, by := range []string{SelectBank, SelectRank} {
		for _, queries := range []int{1, 4, 8} {
			for _, perQuery := range []bool{false, true} {
				spec, shape := pim.Default(), oneHead
				spec.MACsPerRead, shape.Queries = min(2, queries), queries
				table, err := NewBoundTable(spec, d, shape, by, perQuery, 9)
				if err != nil {
					t.Fatal(err)
				}
				unit, bounds := *spec, pim.HeadShape{HeadDim: 256, Queries: 1, ElementBits: 16}
				if perQuery {
					bounds.Queries = queries
				}
				if by == SelectRank {
					unit.ProcessingUnit = pim.RankLevelUnit
				}
				b, err := machine.NewRunner(&unit, d, bounds)
				if err != nil {
					t.Fatal(err)
				}
				b.Machine.Repeats.On = false
				rapid.Check(t, func(t *rapid.T) {
					n := rapid.OneOf(rapid.IntRange(1, 100), rapid.IntRange(1, 5000)).Draw(t, "bounds")
					got, want := table.Select(n), b.Run(machine.Head{Context: n, Scores: true})+9
					if got != want {
						t.Fatalf("%s, %d query heads (%v): %d bounds take %d clocks, table %d", by, queries, perQuery, n, want, got)
					}
					if got, want := table.Activity(n), counted(b, d, machine.Head{Context: n, Scores: true}); got != want {
						t.Fatalf("%s, %d query heads (%v), %d bounds:\ntable %+v\nrun   %+v", by, queries, perQuery, n, got, want)
					}
				})
				// tRCD, 8 bursts at tCCD_L, CWL, a burst, tWR, tRP; before that, 8 reads and the bus turnaround.
				if store := int64(22 + 7*8 + 16 + 4 + 24 + 22); table.Store != store || table.Update != store+7*8+22+4+2-16 || table.Select(0) != 0 {
					t.Errorf("a bound is stored in %d clocks, updated in %d; none are scored in %d", table.Store, table.Update, table.Select(0))
				}
			}
		}
	}
}
