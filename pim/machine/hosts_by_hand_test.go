package machine

import (
	"slices"
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

// TestRowsReadBack: a row is read back once its banks are closed and the last beat has reached the host, whichever is later.
func TestRowsReadBack(t *testing.T) {
	for cl, beatIsLast := range map[int]bool{22: false, 60: true} {
		d := *parts.DDR4(t)
		d.CL = cl
		g, err := pim.NewGeometry(&d, pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16})
		if err != nil {
			t.Fatal(err)
		}
		h := NewHostStream(&d)
		var read, closed int64
		h.Observe = func(clock int64, in *Instruction) {
			switch in.Command {
			case dram.RD:
				read = clock + int64(cl) + 4
			case dram.PREA:
				closed = clock + int64(d.TRP)
			}
		}
		x, err := pim.NewExchange(16, &d)
		if err != nil {
			t.Fatal(err)
		}
		got := h.RowBackClocks(&g, pim.Key)
		if read += int64(x.Delay()); got != max(read, closed) || (read > closed) != beatIsLast {
			t.Errorf("CL %d: %d clocks; the last beat is there at %d, the banks are closed at %d", cl, got, read, closed)
		}
	}
}

// TestRefreshesBetweenRows: two REFs may wait, and a row takes nine tenths of tREFI. After one row one REF is owed, and the last row adds one: none is issued. Two
// tokens move four rows; two REFs are owed before the third row, and both are issued, since two more fall due until the end.
func TestRefreshesBetweenRows(t *testing.T) {
	d := parts.DDR4(t)
	g, err := pim.NewGeometry(d, pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16})
	if err != nil {
		t.Fatal(err)
	}
	row := NewHostStream(d).RowClocks(&g, pim.Key, 0, g.RowTokens)
	if span := hostRowSpan(&g, d); span < row || float64(span) > 1.1*float64(row) {
		t.Fatalf("a row of %d clocks has a bound of %d", row, span)
	}
	for rows, want := range map[int][]int{1: {0, 0}, 2: {0, 0, 2}} {
		h := NewHostStream(d)
		*h.Refresh = refreshManager{On: true, interval: row * 9 / 10, limit: 2}
		var refreshes []int
		paid, opens := 0, true
		h.Observe = func(_ int64, in *Instruction) {
			switch in.Command {
			case dram.REF:
				paid++
			case dram.ACT:
				if opens {
					refreshes, paid, opens = append(refreshes, paid), 0, false
				}
			case dram.PREA:
				opens = true
			}
		}
		h.Move(&Transfer{Geometry: g, Tokens: rows * g.RowTokens})
		if len(refreshes) != 2*rows || paid != 0 || !slices.Equal(refreshes[:len(want)], want) {
			t.Errorf("%d rows: %v REFs before them, %d after, want %v", 2*rows, refreshes, paid, want)
		}
	}
}

// TestSpansOfUnequalWidths: keys of 16 bursts and values of 4, or the reverse, take the time of the wider: a chunk of 16 columns of 8 clocks.
func TestSpansOfUnequalWidths(t *testing.T) {
	d := parts.DDR4(t)
	for _, shape := range []pim.HeadShape{{HeadDim: 512, ValueDim: 128, Queries: 1, ElementBits: 16}, {HeadDim: 128, ValueDim: 512, Queries: 1, ElementBits: 16}} {
		p, err := NewProgram(pim.Default(), d, shape, []Head{{Context: 100}})
		if err != nil {
			t.Fatal(err)
		}
		g := &p.Geometry
		chunks := int64(p.VisitTokens / g.ChunkTokens)
		if want := chunks*16*8*9/8 + int64(d.TRP+d.TRCD+d.TRTP) + p.activateSpan; p.rowSpan != want || max(g.KeyBursts, g.ValueBursts) != 16 {
			t.Errorf("%+v: a row of %d chunks, %d clocks, want %d", shape, chunks, p.rowSpan, want)
		}
		if least := 3*g.Banks + 8*16 + 16; p.stepSize < least {
			t.Errorf("%+v: a step of %d instructions, want %d at least", shape, p.stepSize, least)
		}
	}
}

// TestMarksByHand: begin halves skipComparisons if the head had at most as many blocks; with no blocks, or more, it
// stays.
func TestMarksByHand(t *testing.T) {
	for _, c := range [][3]int{{3, 4, 2}, {4, 4, 2}, {5, 4, 4}, {0, 4, 4}, {1, 1, 0}} {
		b := mark{valid: true, seen: c[0], skipComparisons: c[1]}
		if b.begin(); b.valid || b.seen != 0 || b.skipComparisons != c[2] {
			t.Errorf("%v: %d seen, %d skipped", c, b.seen, b.skipComparisons)
		}
	}
}

// TestDebtByHand: a REF falls due every 100 clocks. At clock 350 three are owed, at 360 two, and the maximum
// stays three.
func TestDebtByHand(t *testing.T) {
	r := refreshManager{interval: 100}
	r.pay(350)
	if r.pay(360); r.maxDebt != 3 || r.done != 2 || r.owed(360) != 1 || r.owed(399) != 1 || r.owed(400) != 2 {
		t.Errorf("%+v", r)
	}
}

// TestLateTransfers: a transfer after the last boundary of a run is refused, and the error names its
// clock.
func TestLateTransfers(t *testing.T) {
	_, err := MeasureTransfer(pim.Default(), parts.DDR4(t), pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16}, 2, 64, 16, 1<<40)
	if err == nil || !strings.HasPrefix(err.Error(), "from = 1099511627776: expected a clock before the last boundary of ") {
		t.Errorf("got %v", err)
	}
}
