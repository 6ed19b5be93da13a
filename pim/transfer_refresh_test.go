package pim

import (
	"fmt"
	"testing"

	"github.com/l3sim/l3sim/dram"
)

// transferLengths are from one chunk to 64 rows: with refresh, 32,768 tokens
// last for 86 tREFI.
var transferLengths = []int{16, 512, 4096, 8192, 32_768}

// receivedRun runs two heads that a transfer interrupts, under the checker, and
// returns the machine. Without refresh the checker's rule of the debt is waived.
func receivedRun(t *testing.T, spec *Spec, transfer *Transfer, refresh bool) *Machine {
	t.Helper()
	d := ddr4(t)
	b, err := newTableBuilder(spec, d, fp16Head)
	if err != nil {
		t.Fatal(err)
	}
	transfer.Geometry = b.program.Geometry
	b.machine.SkipRepetitions(false)
	b.machine.Refresh(refresh)
	checker := dram.NewChecker(d, 1, true)
	b.machine.Observe(checkedRun{checker})
	b.machine.Receive(transfer, 700)
	h := Head{Context: 1500, Append: true}
	b.ends(h, h)
	for _, v := range checker.Violations() {
		if refresh || v.Rule != "refresh debt" {
			t.Fatalf("%d tokens, refresh %t: the checker rejects the run: %+v", transfer.Tokens, refresh, v)
		}
	}
	return b.machine
}

// A transfer refreshes the rank between its rows: the debt stays within the
// standard's 8 however long it is and wherever it interrupts.
func TestTransfersRefresh(t *testing.T) {
	for _, boundary := range []string{BoundaryHead, BoundaryRow, BoundaryChunk} {
		for _, refresh := range []bool{true, false} {
			for _, tokens := range transferLengths {
				t.Run(fmt.Sprintf("%s %d %t", boundary, tokens, refresh), func(t *testing.T) {
					spec := Default()
					spec.TransferBoundary = boundary
					m := receivedRun(t, spec, &Transfer{FirstRow: 100, Tokens: tokens}, refresh)
					ends := m.Ends()
					end, issued := ends[len(ends)-1], m.Counters().Commands[dram.REF]
					if due := end / int64(ddr4(t).TREFI); refresh && (issued < due-8 || issued > due+8) || !refresh && issued > 0 {
						t.Errorf("%d REFs in %d clocks, %d fell due", issued, end, due)
					}
					if got := m.MaxDebt(); got > 8 {
						t.Errorf("%d REFs were owed", got)
					}
				})
			}
		}
	}
}
