package tables

import (
	"testing"

	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// TestTransfersByHand: bursts follow each other at a fixed distance, and the last one adds its own time.
func TestTransfersByHand(t *testing.T) {
	table := TransferTable{geometry: pim.Geometry{QueryBursts: 3, KeyBursts: 5, ValueBursts: 2, ChunkTokens: 9}, burst: 4, stage: 6, take: 8}
	if table.QueryBursts() != 3 || table.KVBursts() != 5+2 || table.Scales(7) != 28 || table.Scales(0) != 0 {
		t.Errorf("%d bursts of a query, %d of a key and a value", table.QueryBursts(), table.KVBursts())
	}
	for bursts, want := range map[int64][2]int64{0: {0, 0}, 1: {4, 4}, 3: {16, 20}} {
		if got := [2]int64{table.Stage(bursts), table.Take(bursts)}; got != want {
			t.Errorf("%d bursts take %v clocks, by hand %v", bursts, got, want)
		}
	}
}

// TestTablesOfNothing: no tokens, or no table, take no time.
func TestTablesOfNothing(t *testing.T) {
	var none *KernelTable
	for _, c := range []struct {
		t      *KernelTable
		tokens int
	}{{none, 5}, {&KernelTable{}, 5}, {&KernelTable{block: 16}, 0}, {&KernelTable{block: 16}, -3}} {
		if c.t.InSequence(c.tokens) != 0 || c.t.Drain(c.tokens) != 0 || c.t.Attention(c.tokens) != 0 || c.t.Alone(c.tokens) != 0 || c.t.Scattered(c.tokens, 2) != 0 || c.t.ListAlone(c.tokens, 3) != 0 || c.t.ListInSequence(c.tokens, 3, 1) != 0 || c.t.Activity(c.tokens) != (machine.Activity{}) {
			t.Errorf("%d tokens take something in %+v", c.tokens, c.t)
		}
	}
	if none.WithRefresh(70) != 70 || none.RowTokens() != 0 {
		t.Error("no table refreshes")
	}
	table := KernelTable{geometry: pim.Geometry{RowTokens: 512, ScaleChunks: 7}, refreshInterval: 100, refreshCycle: 20}
	if table.RowTokens() != 512 || table.WithRefresh(80) != 100 || table.WithRefresh(81) != 102 || table.WithRefresh(0) != 0 {
		t.Errorf("%d tokens a row; 80 clocks take %d", table.RowTokens(), table.WithRefresh(80))
	}
	if table.refreshInterval = 20; table.WithRefresh(3) != 63 { // all but one clock is refresh
		t.Errorf("3 clocks take %d", table.WithRefresh(3))
	}
}
