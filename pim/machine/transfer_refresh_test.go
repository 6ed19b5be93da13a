package machine

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
)

// transferLengths are from one chunk to 64 rows: with refresh, 32,768 tokens take 86 tREFI.
var transferLengths = []int{16, 512, 4096, 8192, 32_768}

// receivedRun runs two heads, interrupted by a transfer, under the checker, and returns the
// machine. Without refresh the checker's rule on owed REFs is waived.
func receivedRun(t *testing.T, spec *pim.Spec, transfer *Transfer, refresh bool) *Machine {
	t.Helper()
	d := parts.DDR4(t)
	b, err := NewRunner(spec, d, fp16Head)
	if err != nil {
		t.Fatal(err)
	}
	transfer.Geometry = b.Program.Geometry
	b.Machine.Repeats.On = false
	b.Machine.Refresh.On = refresh
	checker := check.NewChecker(d, 1, true)
	b.Machine.Observe = checkedRun{checker}.Command
	b.Machine.Receive(transfer, 700)
	h := Head{Context: 1500, Appends: true}
	b.Ends(h, h)
	for _, v := range checker.Violations() {
		if refresh || v.Rule != "refresh debt" {
			t.Fatalf("%d tokens, refresh %t: the checker rejects the run: %+v", transfer.Tokens, refresh, v)
		}
	}
	return b.Machine
}

// A transfer refreshes the rank between its rows: the rank owes at most the standard's 8 REFs,
// however long the transfer and wherever it interrupts.
func TestTransfersRefresh(t *testing.T) {
	deep.Heavy(t)
	for _, boundary := range []string{pim.BoundaryHead, pim.BoundaryRow, pim.BoundaryChunk} {
		for _, refresh := range []bool{true, false} {
			for _, tokens := range transferLengths {
				if !refresh && tokens > 8192 && !deep.Long() {
					continue // no REF falls due
				}
				t.Run(fmt.Sprintf("%s %d %t", boundary, tokens, refresh), func(t *testing.T) {
					if tokens > 4096 || !refresh && tokens > 512 {
						deep.Only(t)
					}
					spec := pim.Default()
					spec.TransferBoundary = boundary
					m := receivedRun(t, spec, &Transfer{FirstRow: 100, Tokens: tokens}, refresh)
					ends := m.ends
					end, issued := ends[len(ends)-1], m.Counters.Commands[dram.REF]
					if due := end / int64(parts.DDR4(t).TREFI); refresh && (issued < due-8 || issued > due+8) || !refresh && issued > 0 {
						t.Errorf("%d REFs in %d clocks, %d fell due", issued, end, due)
					}
					if got := m.Refresh.maxDebt; got > 8 {
						t.Errorf("%d REFs were owed", got)
					}
				})
			}
		}
	}
}

// debtCheck is the checker, and the most REFs owed at any command.
type debtCheck struct {
	checkedRun
	interval, refreshes, most int64
}

func (c *debtCheck) Command(clock int64, cmd dram.Command, a dram.Address, in *Instruction) {
	c.checkedRun.Command(clock, cmd, a, in)
	c.most = max(c.most, clock/c.interval-c.refreshes)
	if cmd == dram.REF {
		c.refreshes++
	}
}

// The same for heads and transfers of any length and phase, and for managers that may owe fewer
// REFs: REFs that fall due during a transfer are issued before the interrupted row or the next head
// continues.
func TestTransfersRefreshWhereverTheyInterrupt(t *testing.T) {
	deep.Heavy(t)
	d := parts.DDR4(t)
	interrupt := func(t *rapid.T) {
		spec := pim.Default()
		spec.TransferBoundary = rapid.SampledFrom([]string{pim.BoundaryHead, pim.BoundaryRow, pim.BoundaryChunk}).Draw(t, "boundary")
		limit := rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "postponed")
		spec.PostponedRefreshes = limit
		shape := fp16Head
		shape.Queries = rapid.SampledFrom([]int{1, 8}).Draw(t, "queries") // a row takes 1,024 clocks for each
		b, err := NewRunner(spec, d, shape)
		if err != nil {
			t.Fatal(err)
		}
		b.Machine.Repeats.On = false
		b.Machine.Refresh.On = true
		check := &debtCheck{checkedRun: checkedRun{check.NewChecker(d, 1, true)}, interval: int64(d.TREFI)}
		b.Machine.Observe = check.Command
		h := Head{Context: rapid.IntRange(1, 6000/shape.Queries).Draw(t, "context"), Appends: true}
		first, tokens := rapid.IntRange(0, 511).Draw(t, "first"), rapid.OneOf(rapid.IntRange(1, 1000), rapid.IntRange(1, 5000)).Draw(t, "tokens")
		from := rapid.IntRange(0, 40_000).Draw(t, "from")
		b.Machine.Receive(&Transfer{Geometry: b.Program.Geometry, FirstRow: 100, First: first, Tokens: tokens}, int64(from))
		b.Ends(h, h, h)
		if v := check.checker.Violations(); len(v) > 0 {
			t.Fatalf("the checker rejects the run: %+v", v[0])
		}
		if check.most > int64(limit) {
			t.Fatalf("%d REFs were owed, at most %d may be", check.most, limit)
		}
	}
	for range 5 { // quick; one in a hundred shows a late REF
		rapid.Check(t, interrupt)
	}
}
