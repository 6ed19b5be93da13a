package machine

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
)

// TestHostStreamByHand: on DDR4-3200 bursts of the buffers follow each other after 4 clocks. A key of 4 bursts in a bank is written at clocks 22, 30, 38 and 46
// (tRCD 22, tCCD_L 8), and its bank is closed after CWL 16, 4 clocks of the burst, tWR 24 and tRP 22. A chunk of 16 keys takes longer, and a whole row at least its
// 2,048 bursts. Each answer is that of an idle rank, whatever was asked before.
func TestHostStreamByHand(t *testing.T) {
	d := parts.DDR4(t)
	g, err := pim.NewGeometry(d, pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16})
	if err != nil {
		t.Fatal(err)
	}
	h := NewHostStream(d)
	for range 2 {
		if w, r := h.Every(dram.WRBUF), h.Every(dram.RDRES); w != 4 || r != 4 {
			t.Errorf("WRBUF every %d clocks, RDRES every %d", w, r)
		}
		if got := h.RowClocks(&g, pim.Key, 0, 1); got != 46+16+4+24+22 {
			t.Errorf("a key takes %d clocks", got)
		}
		if one, all := h.RowClocks(&g, pim.Key, 0, 16), h.RowBackClocks(&g, pim.Key); one <= 112 || all < 128*16*4 {
			t.Errorf("a chunk takes %d clocks, a row read back %d", one, all)
		}
	}
}

// TestMarksByHand: blocks that ended within the comparisons that are skipped halve these; none or more of them do not.
func TestMarksByHand(t *testing.T) {
	for _, c := range [][3]int{{3, 4, 2}, {4, 4, 2}, {5, 4, 4}, {0, 4, 4}, {1, 1, 0}} {
		b := mark{valid: true, seen: c[0], skipComparisons: c[1]}
		if b.begin(); b.valid || b.seen != 0 || b.skipComparisons != c[2] {
			t.Errorf("%v: %d seen, %d skipped", c, b.seen, b.skipComparisons)
		}
	}
}

// TestDebtByHand: a REF every 100 clocks: at clock 350 three are owed, at 360 two, and the most stays three.
func TestDebtByHand(t *testing.T) {
	r := refreshManager{interval: 100}
	r.pay(350)
	if r.pay(360); r.maxDebt != 3 || r.done != 2 || r.owed(360) != 1 || r.owed(399) != 1 || r.owed(400) != 2 {
		t.Errorf("%+v", r)
	}
}

// TestLateTransfers: a transfer that comes behind the last boundary of a run is refused by its clock.
func TestLateTransfers(t *testing.T) {
	_, err := MeasureTransfer(pim.Default(), parts.DDR4(t), pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16}, 2, 64, 16, 1<<40)
	if err == nil || !strings.HasPrefix(err.Error(), "from = 1099511627776: expected a clock before the last boundary of ") {
		t.Errorf("got %v", err)
	}
}
