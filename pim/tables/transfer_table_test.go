package tables

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// hostRun moves transfers one after another on an idle rank, under the checker,
// and returns the clock at which the banks are precharged, and the commands.
func hostRun(t parts.T, d *dram.Spec, refresh bool, transfers []machine.Transfer) (int64, []check.Record) {
	t.Helper()
	checker := check.NewChecker(d, 1, true)
	var records []check.Record
	h := machine.NewHostStream(d)
	h.Observe = func(clock int64, in *machine.Instruction) {
		r := check.Record{Clock: clock, Command: in.Command, Address: in.Address()}
		checker.Check(r)
		records = append(records, r)
	}
	h.Refresh.Init(pim.Default(), d)
	h.Refresh.On = refresh
	closed := int64(0)
	for i := range transfers {
		closed, _ = h.Move(&transfers[i])
	}
	for _, v := range checker.Violations() {
		if refresh || v.Rule != "refresh debt" {
			t.Fatalf("the checker rejects the run: %+v", v)
		}
	}
	return closed, records
}

// drawTransfers draws the keys and values of some heads, whole and in parts, all
// in rows of their own.
func drawTransfers(t *rapid.T, g *pim.Geometry) []machine.Transfer {
	var transfers []machine.Transfer
	row := int32(0)
	for range rapid.IntRange(1, 3).Draw(t, "requests") {
		first := rapid.OneOf(rapid.Just(0), rapid.IntRange(0, 3*g.RowTokens)).Draw(t, "first")
		tokens := rapid.OneOf(rapid.IntRange(1, 70), rapid.IntRange(1, 3*g.RowTokens)).Draw(t, "tokens")
		for range rapid.IntRange(1, 3).Draw(t, "heads") {
			transfers = append(transfers, machine.Transfer{Geometry: *g, FirstRow: row, First: first, Tokens: tokens})
			row += int32(g.Rows(first + tokens))
		}
	}
	return transfers
}

// For random parts, shapes, head counts and lengths, the table's clocks of whole and partial heads
// add up to those of their commands in sequence.
func TestTransferTableIsTheRun(tb *testing.T) {
	deep.Heavy(tb)
	rapid.Check(tb, func(t *rapid.T) {
		_, d, shape := drawRank(t)
		table, err := NewTransferTable(d, shape)
		if err != nil {
			t.Fatal(err)
		}
		transfers := drawTransfers(t, &table.geometry)
		want := int64(0)
		for i := range transfers {
			want += table.Write(transfers[i].First, transfers[i].Tokens)
		}
		if got, _ := hostRun(t, d, false, transfers); got != want {
			t.Fatalf("%d clocks by commands, %d by the table", got, want)
		}
	})
}

// The same from every place in a chunk and from a row's ends.
func TestTransferTableFromEveryPlace(t *testing.T) {
	d := parts.DDR4(t)
	table, err := NewTransferTable(d, oneHead)
	parts.Must(t, err)
	for i, first := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 31, 255, 510, 511, 513} {
		if i%5 != 1 && !deep.On() {
			continue
		}
		for _, tokens := range []int{1, 2, 15, 16, 17, 48, 49, 512, 600} {
			got, _ := hostRun(t, d, false, []machine.Transfer{{Geometry: table.geometry, First: first, Tokens: tokens}})
			if want := table.Write(first, tokens); got != want {
				t.Errorf("%d tokens from %d on: %d clocks by commands, %d by the table", tokens, first, got, want)
			}
		}
	}
}

// The lengths that the node meets, by hand. 16 tokens: the 16 banks open in 114 clocks; tRCD later
// comes the last bank's first key burst; 48 more follow at tCCD_S; write recovery (16 + 4 + 24) and
// tRP close: 394 for the keys, 394 for the values. A whole row of 512 has 2,048 bursts: 114 + 22 +
// 2,032 · 4 + 44 + 22. Nothing overlaps, so H heads take H times as long.
func TestTransferClocksByHand(t *testing.T) {
	d := parts.DDR4(t)
	table, err := NewTransferTable(d, oneHead)
	if err != nil {
		t.Fatal(err)
	}
	const row = 114 + 22 + 2032*4 + 66
	for _, c := range []struct {
		first, tokens int
		want          int64
	}{
		{0, 0, 0},
		// One key: a bank, four bursts at tCCD_L. One value: four banks at tRRD_S.
		{0, 1, 22 + 3*8 + 66 + 22 + 3*4 + 66},
		{0, 16, 2 * (114 + 22 + 48*4 + 66)},
		{0, 512, 2 * row}, {0, 4096, 16 * row}, {0, 8192, 32 * row}, {0, 32_768, 128 * row},
		{512, 512, 2 * row}, {256, 512, 2 * 2 * (row - 4*1024)},
		{0, 8192 + 16, 32*row + 2*(114+22+48*4+66)},
	} {
		if got := table.Write(c.first, c.tokens); got != c.want {
			t.Errorf("%d tokens from %d on: %d clocks, want %d", c.tokens, c.first, got, c.want)
		}
	}
	if stage, take := table.Stage(12), table.Take(4); stage != 48 || take != 16 {
		t.Errorf("12 bursts into the staging take %d clocks, 4 out of it %d; want 48 and 16", stage, take)
	}
	if n := testing.AllocsPerRun(100, func() { table.Write(777, 7777); table.Stage(9) }); n != 0 {
		t.Errorf("%v allocations a look-up", n)
	}
}

// The same on DDR5-4800: 32 banks open in 248 clocks, tRCD is 39, bursts follow at 8, write recovery is 38 + 8 + 72 and tRP 39. A key's bursts are
// in one bank, 24 clocks apart: tCCD_L_WR2, since a burst of x8 chips is a whole code word. ACTs and WRs of two clocks share the command bus: an
// ACT due on a WR's second clock comes one clock later, and so does its bank's first WR, which delays another ACT: one clock in every 41 while the
// banks open, 6 in all.
func TestTransferClocksByHandOnDDR5(t *testing.T) {
	d := parts.DDR5(t)
	table, err := NewTransferTable(d, oneHead)
	parts.Must(t, err)
	const open, close = 248 + 6 + 39, 118 + 39
	const row = open + 2016*8 + close
	for tokens, want := range map[int]int64{
		0: 0, 1: 39 + 3*24 + close + 39 + 3*8 + close, 32: 2 * (open + 96*8 + close), 512: 2 * row, 8192: 32 * row,
	} {
		got, _ := hostRun(t, d, false, []machine.Transfer{{Geometry: table.geometry, Tokens: max(tokens, 1)}})
		if table.Write(0, tokens) != want || tokens > 0 && got != want {
			t.Errorf("%d tokens: %d clocks by the table and %d by commands, want %d", tokens, table.Write(0, tokens), got, want)
		}
	}
}

// TestRowsReadBack: reading back whole rows takes, by hand, 16 activations (114 clocks), tRCD, 2,047 more bursts, and tRTP (12)
// and tRP until all banks are closed, for keys and for values.
func TestRowsReadBack(t *testing.T) {
	d := parts.DDR4(t)
	table, err := NewTransferTable(d, oneHead)
	parts.Must(t, err)
	for rows, want := range []int64{0, 2 * (114 + 22 + 2032*4 + 34), 4 * (114 + 22 + 2032*4 + 34)} {
		tokens := rows * 512
		got, _ := hostRun(t, d, false, []machine.Transfer{{Geometry: table.geometry, Tokens: tokens, ReadBack: true}})
		if table.ReadBack(tokens) != want || tokens > 0 && (got != want || table.ReadBack(tokens-511) != want) {
			t.Errorf("%d tokens: %d clocks by the table and %d by commands, want %d", tokens, table.ReadBack(tokens), got, want)
		}
	}
}

// With refresh, long transfers run at the long-run rate.
func TestTransfersRefreshAtTheLongRunRate(t *testing.T) {
	deep.Only(t)
	d := parts.DDR4(t)
	kernels, err := NewKernelTable(pim.Default(), d, oneHead)
	if err != nil {
		t.Fatal(err)
	}
	g := kernels.geometry
	for _, tokens := range []int{96, 4096, 32_768} {
		var transfers []machine.Transfer
		without := int64(0)
		table, err := NewTransferTable(d, oneHead)
		if err != nil {
			t.Fatal(err)
		}
		for without < int64(deep.Of(1_500_000, 1_500_000, 3_000_000)) {
			transfers = append(transfers, machine.Transfer{Geometry: g, FirstRow: 0, Tokens: tokens})
			without += table.Write(0, tokens)
		}
		got, _ := hostRun(t, d, true, transfers)
		want := kernels.WithRefresh(without)
		// Up to eight REFs are still owed, the ninth is not due.
		if diff := want - got; diff < 0 || diff > kernels.WithRefresh(9*int64(d.TRFC)) {
			t.Errorf("transfers of %d tokens: %d clocks with refresh, table %d", tokens, got, want)
		}
	}
}

// A host that reads keys and values back, to swap a request out, sees them n
// clocks later (CL + n) and loses no clock of the bus: its schedule is that of a
// plain DIMM, legal by the advertised timing and by the chips' own, with refresh
// and at every length.
func TestReadBack(t *testing.T) {
	for _, c := range []struct {
		part string
		n    int
	}{{"ddr4-3200-8gb-x8", 1}, {"ddr4-3200-8gb-x4", 2}} {
		d, err := dram.LookupSpec(c.part)
		parts.Must(t, err)
		g, err := pim.NewGeometry(d, oneHead)
		parts.Must(t, err)
		advertised := AdvertisedTiming(d, c.n, true)
		for _, tokens := range []int{16, 512, 4096, 8192, 32_768} {
			if tokens > 512 && !deep.On() {
				continue
			}
			back := []machine.Transfer{{Geometry: g, Tokens: tokens, ReadBack: true}}
			for _, refresh := range []bool{true, false} {
				if !refresh && tokens > 8192 && !deep.Long() {
					continue // every row repeats the one before
				}
				_, plain := hostRun(t, d, refresh, back)
				_, host := hostRun(t, advertised, refresh, back)
				for i := range plain {
					if host[i] != plain[i] {
						t.Fatalf("%s: command %d: %+v became %+v", c.part, i, plain[i], host[i])
					}
				}
				reads := 0
				for _, r := range plain {
					if r.Command == dram.RD {
						reads++
					}
				}
				if int64(reads) != back[0].Bursts() {
					t.Errorf("%d reads, want %d", reads, back[0].Bursts())
				}
			}
			h := machine.NewHostStream(d)
			lastRead := int64(0)
			h.Observe = func(clock int64, in *machine.Instruction) {
				if in.Command == dram.RD {
					lastRead = clock
				}
			}
			if _, last := h.Move(&back[0]); last != lastRead+int64(d.CL+d.BurstClocks()+c.n) {
				t.Errorf("%s: the host has the last beat %d clocks after its command, want CL + 4 + %d", c.part, last-lastRead, c.n)
			}
		}
	}
}

func BenchmarkNewTransferTable(b *testing.B) {
	d := parts.DDR4(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewTransferTable(d, oneHead); err != nil {
			b.Fatal(err)
		}
	}
}

// A single token on DDR5, by hand: its key's four bursts are in one bank, at the part's distance for writes of a bank group; its value's are in four
// banks, which open at tRRD_S. Both are then written and closed.
func TestDDR5TokenIsWritten(t *testing.T) {
	for _, part := range []string{"ddr5-4800-16gb-x8", "ddr5-5600-16gb-x8"} {
		d := parts.Of(t, part)
		state, a := dram.NewState(d, 1), dram.Address{}
		state.Issue(dram.ACT, a, 0)
		state.Issue(dram.WR, a, 1000)
		apart := state.Earliest(dram.WR, a) - 1000
		table, err := NewTransferTable(d, oneHead)
		parts.Must(t, err)
		closing := int64(d.TRCD + d.CWL + d.BurstClocks() + d.TWR + d.TRP)
		if got, want := table.Write(0, 1), 3*apart+closing+int64(3*d.TRRDS)+closing; got != want {
			t.Errorf("%s: a token takes %d clocks, by hand %d", part, got, want)
		}
	}
}

// Scales follow the keys and values of their tokens: one burst for each bank that stores any of these, since 16 successive chunks share it. Checked by
// hand at both ends of a burst, a row and a bank's share: 960 tokens a row at 8 bits, 16 tokens a chunk, 256 a burst.
func TestScaleBurstsByHand(t *testing.T) {
	d := parts.DDR4(t)
	table, err := NewTransferTable(d, pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: 8, ScaleBytes: 4})
	parts.Must(t, err)
	for _, c := range []struct{ first, tokens, banks int }{
		{0, 0, 0}, {0, 1, 1}, {0, 15, 15}, {0, 16, 16}, {0, 17, 16}, {0, 256, 16}, {0, 257, 17}, {5, 20, 16}, {250, 6, 6}, {250, 7, 7}, {250, 30, 6 + 16},
		{0, 960, 4 * 16}, {959, 1, 1}, {959, 2, 2}, {950, 30, 10 + 16}, {0, 1920, 8 * 16}, {768, 192, 16}, {100, 2000, 16 + 3*16 + 4*16 + 16},
	} {
		bursts := table.ScaleBursts(c.first, c.tokens)
		if bursts != int64(2*c.banks) {
			t.Errorf("%d tokens from %d on: %d bursts of scales, want %d of keys and as many of values", c.tokens, c.first, bursts, c.banks)
		}
		if got := table.Scales(bursts); got != int64(2*c.banks*4) {
			t.Errorf("%d bursts take %d clocks", bursts, got)
		}
	}
	plain, err := NewTransferTable(d, oneHead)
	parts.Must(t, err)
	if plain.ScaleBursts(0, 1000) != 0 {
		t.Error("scales where rows have none")
	}
}
