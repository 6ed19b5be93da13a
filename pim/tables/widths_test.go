package tables

import (
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/units"
)

// TestEqualWidths: heads with equal widths of values and keys take the same clocks, commands and transfers as heads with one
// shared width.
func TestEqualWidths(t *testing.T) {
	for i, c := range []struct {
		part, unit string
		shape      pim.HeadShape
		context    int
		want       [11]int64
	}{
		{"ddr4-3200-8gb-x8", pim.BankUnits, pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16}, 777, [11]int64{3977, 3928, 3832, 69, 6256, 212, 207, 3812, 25399, 33192, 512}},
		{"ddr4-3200-8gb-x8", pim.BankUnits, pim.HeadShape{HeadDim: 80, Queries: 8, ElementBits: 16}, 5001, [11]int64{164059, 164010, 163914, 325, 320384, 10144, 10048, 163428, 162775, 165960, 512}},
		{"ddr4-3200-8gb-x8", pim.BankUnits, pim.HeadShape{HeadDim: 128, Queries: 4, ElementBits: 16, KVBits: 8, ScaleBytes: 4}, 2040, [11]int64{35036, 35000, 34920, 99, 32704, 2464, 2062, 34417, 33455, 46716, 960}},
		{"ddr4-3200-8gb-x8", pim.BankUnits, pim.HeadShape{HeadDim: 128, Queries: 2, ElementBits: 16, KVBits: 4, KeyGroup: 128, ScaleBytes: 4}, 3000, [11]int64{27765, 27729, 27573, 66, 12032, 2048, 1700, 27136, 24552, 31144, 1920}},
		{"ddr4-3200-8gb-x8", pim.RankLevelUnit, pim.HeadShape{HeadDim: 200, Queries: 3, ElementBits: 16}, 600, [11]int64{117202, 117181, 116979, 105, 0, 29184, 16, 117153, 39239, 49788, 256}},
		{"ddr5-4800-16gb-x8", pim.BankUnits, pim.HeadShape{HeadDim: 512, Queries: 16, ElementBits: 16}, 1000, [11]int64{205746, 205582, 204971, 529, 518144, 2560, 2288, 201151, 259103, 263648, 128}},
	} {
		if c.context == 1000 && !deep.On() || !deep.Case(i, 5) { // some seconds
			continue
		}
		d, spec, same := parts.Of(t, c.part), pim.Default(), c.shape
		spec.ProcessingUnit, same.ValueDim = c.unit, c.shape.HeadDim
		table, err := NewKernelTable(spec, d, same)
		parts.Must(t, err)
		host, err := NewTransferTable(d, c.shape)
		parts.Must(t, err)
		if table.geometry != host.geometry {
			t.Errorf("%+v: %+v, with the width of values named %+v", c.shape, host.geometry, table.geometry)
		}
		a := table.Activity(c.context)
		got := [11]int64{table.Alone(c.context), table.InSequence(c.context), table.Attention(c.context), int64(a.Activates), int64(a.UnitReads), int64(a.Reads),
			int64(a.Writes), int64(a.Open), host.Write(5, c.context), host.ReadBack(c.context), int64(table.RowTokens())}
		if got != c.want {
			t.Errorf("%s, %s, %+v: %v, expected %v", c.part, c.unit, c.shape, got, c.want)
		}
	}
}

// TestLatentTable: tables of a latent equal its runs from one token on, around the ends of rows of 112 tokens, and beyond the 896
// scores that a buffer of 42 KiB holds.
func TestLatentTable(t *testing.T) {
	deep.Heavy(t)
	spec := pim.Default()
	spec.MACsPerRead, spec.ScoreBuffer = 8, 42*units.KiB
	shape := pim.HeadShape{HeadDim: 576, ValueDim: 512, Queries: 24, ElementBits: 16}
	for _, table := range bothTables(t, spec, parts.DDR4(t), shape) {
		if table.segment != 896 || table.RowTokens() != 112 {
			t.Fatalf("segments of %d tokens, rows of %d", table.segment, table.RowTokens())
		}
		for _, context := range []int{1, 16, 112, 113, 896, 897, 2500} {
			tableIsTheRunOf(t, table, spec, parts.DDR4(t), shape, context)
		}
	}
}
