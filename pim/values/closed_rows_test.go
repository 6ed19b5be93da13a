package values

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// TestEveryAccessNeedsItsRow: every access to a column is refused if its bank is closed or has another row open.
func TestEveryAccessNeedsItsRow(t *testing.T) {
	for unit, ops := range map[string][]machine.Operation{
		pim.BankUnits:     {machine.OpAppendKey, machine.OpAppendValue, machine.OpScore, machine.OpContext},
		pim.RankLevelUnit: {machine.OpAppendKey, machine.OpAppendValue, machine.OpReadKey, machine.OpReadValue},
	} {
		spec := pim.Default()
		spec.ProcessingUnit = unit
		m, p, data := storedHead(t, spec, halfHead, 40, 1)
		if err := m.begin(p, data); err != nil {
			t.Fatal(err)
		}
		for _, row := range []int32{-1, 1} {
			for _, op := range ops {
				in := machine.AllBanks(dram.RD, op, 0, 0)
				in.BankGroup, in.Bank, in.Queries = 0, 0, 1
				if op == machine.OpScore || op == machine.OpContext {
					in = machine.AllBanks(dram.MACA, op, 0, 0)
				}
				if err := m.execute(&in); err == nil || row < 0 && !strings.Contains(err.Error(), "while row -1 is open") || row > 0 && !strings.Contains(err.Error(), "while row 1 is open") {
					t.Errorf("%s, %v with row %d open: %v", unit, op, row, err)
				}
			}
			open := machine.AllBanks(dram.ACTA, machine.OpActivate, 1, -1)
			if err := m.execute(&open); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestWhatCannotBeStored: the error about an element that is not finite names the query, key or value that has it.
func TestWhatCannotBeStored(t *testing.T) {
	for i, suffix := range []string{".q", ".k", ".v"} {
		for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			values := [3][]float32{{1, 2}, {3, 4}, {5, 6}}
			values[i][1] = float32(x)
			c := VerifyCase{Name: "case", Storage: StoreFP16}
			c.Q, c.K, c.V = values[0], values[1], values[2]
			if err := c.store(); err == nil || !strings.HasPrefix(err.Error(), "case"+suffix+" = ") || !strings.HasSuffix(err.Error(), ": expected finite elements") {
				t.Errorf("%v in %s: %v", x, suffix, err)
			}
		}
	}
}

// TestDrawnCasesInOrder: the cases that are drawn, each by its own name, in the order of names.
func TestDrawnCasesInOrder(t *testing.T) {
	var names []string
	for _, d := range drawings {
		names = append(names, d.name)
	}
	if len(slices.Compact(slices.Clone(names))) != 7 || !slices.IsSorted(names) {
		t.Errorf("%q", names)
	}
}
