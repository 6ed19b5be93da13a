package pim

import (
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/parts"
)

// TestScaledRowsByHand: a DDR4 row of 128 columns of 64 B over 16 banks, heads of 128 elements. A 4-bit key takes one column and an 8-bit key two; a
// column of scales serves 16 chunks of 16 tokens. So a row holds 120 4-bit chunks and 8 columns of scales, or 62 8-bit chunks and 4, of which 60 are
// whole pages of four chunks. With groups of 128 tokens a row holds whole groups of eight chunks.
func TestScaledRowsByHand(t *testing.T) {
	d, err := dram.LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		shape                                                 HeadShape
		bursts, query, padded, columnTokens, row, scaleChunks int
	}{
		{HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16}, 4, 4, 128, 4, 512, 0},
		{HeadShape{HeadDim: 100, Queries: 1, ElementBits: 16}, 4, 4, 128, 4, 512, 0},
		{HeadShape{HeadDim: 32, Queries: 1, ElementBits: 16}, 1, 1, 32, 16, 2048, 0},
		{HeadShape{HeadDim: 128, Queries: 1, ElementBits: 8}, 2, 2, 128, 8, 1024, 0},
		{HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: 8}, 2, 4, 128, 8, 1024, 0},
		{HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: 4}, 1, 4, 128, 16, 2048, 0},
		{HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: 4, ScaleBytes: 4}, 1, 4, 128, 16, 1920, 16},
		{HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: 8, ScaleBytes: 4}, 2, 4, 128, 8, 960, 16},
		{HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: 4, ScaleBytes: 4, KeyGroup: 128}, 1, 4, 128, 16, 1920, 16},
		{HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: 8, ScaleBytes: 4, KeyGroup: 128}, 2, 4, 128, 8, 896, 16},
		{HeadShape{HeadDim: 8, Queries: 1, ElementBits: 8, KVBits: 16}, 1, 1, 32, 16, 2048, 0},
	} {
		g, err := NewGeometry(d, c.shape)
		if err != nil {
			t.Errorf("%+v: %v", c.shape, err)
			continue
		}
		if g.KeyBursts != c.bursts || g.ValueBursts != c.bursts || g.QueryBursts != c.query || g.PaddedDim != c.padded || g.ColumnTokens != c.columnTokens || g.RowTokens != c.row || g.ScaleChunks != c.scaleChunks || g.ChunkTokens != 16 {
			t.Errorf("%+v: %+v, by hand %+v", c.shape, g, c)
		}
	}
	g, err := NewGeometry(d, HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: 8, ScaleBytes: 4})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		token, valueBank, word int
		column, row            int32
	}{
		{0, 0, 0, 124, 0}, {1, 2, 0, 124, 0}, {7, 14, 0, 124, 0}, {8, 1, 0, 124, 0}, {15, 15, 0, 124, 0}, {16, 0, 1, 124, 0}, {24, 1, 1, 124, 0},
		{255, 15, 15, 124, 0}, {256, 0, 0, 125, 0}, {959, 15, 11, 127, 0}, {960, 0, 0, 124, 2}, {960 + 300, 9, 2, 125, 2},
	} {
		bank, row, column, word := g.ScalePlace(Value, c.token)
		if bank != c.valueBank || row != c.row+1 || column != c.column || word != c.word || g.ValueScaleBank(c.token) != c.valueBank {
			t.Errorf("value %d: bank %d, row %d, column %d, word %d, by hand %+v", c.token, bank, row, column, word, c)
		}
		if bank, row, column, word = g.ScalePlace(Key, c.token); bank != c.token%16 || row != c.row || column != c.column || word != c.word {
			t.Errorf("key %d: bank %d, row %d, column %d, word %d, by hand %+v", c.token, bank, row, column, word, c)
		}
	}
	for _, c := range []struct{ from, to, want int }{{0, 0, 0}, {0, 1, 1}, {0, 256, 1}, {0, 257, 2}, {255, 257, 2}, {256, 512, 1}, {5, 4, 0}, {0, 960, 4}} {
		if got := g.ScaleColumns(c.from, c.to); got != c.want {
			t.Errorf("%+v: %d columns", c, got)
		}
	}
	for tokens, want := range map[int]int{0: 0, 1: 2, 960: 2, 961: 4} {
		if got := g.Rows(tokens); got != want {
			t.Errorf("%d tokens: %d rows, by hand %d", tokens, got, want)
		}
	}
}

// TestShapesByHand: shapes at the limits of what a rank can compute.
func TestShapesByHand(t *testing.T) {
	good := HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: 8}
	for _, c := range []struct {
		change func(h *HeadShape)
		bad    string
	}{
		{func(*HeadShape) {}, ""}, {func(h *HeadShape) { h.HeadDim = 7 }, "head_dim"}, {func(h *HeadShape) { h.HeadDim = 8 }, ""}, {func(h *HeadShape) { h.HeadDim = 1024 }, ""}, {func(h *HeadShape) { h.HeadDim = 1025 }, "head_dim"},
		{func(h *HeadShape) { h.ValueDim = 7 }, "value_dim"}, {func(h *HeadShape) { h.ValueDim = 8 }, ""}, {func(h *HeadShape) { h.ValueDim = 1024 }, ""}, {func(h *HeadShape) { h.ValueDim = 1025 }, "value_dim"}, {func(h *HeadShape) { h.ValueDim = -8 }, "value_dim"},
		{func(h *HeadShape) { h.Queries = 0 }, "queries"}, {func(h *HeadShape) { h.Queries = 128 }, ""}, {func(h *HeadShape) { h.Queries = 129 }, "queries"},
		{func(h *HeadShape) { h.ElementBits = 4 }, "element_bits"}, {func(h *HeadShape) { h.ElementBits = 8 }, ""}, {func(h *HeadShape) { h.KVBits = 12 }, "kv_bits"}, {func(h *HeadShape) { h.KVBits = 4 }, ""},
		{func(h *HeadShape) { h.KVFloat = true }, ""}, {func(h *HeadShape) { h.KVFloat, h.KVBits = true, 4 }, "kv_float"}, {func(h *HeadShape) { h.KVFloat, h.ScaleBytes = true, 4 }, "kv_float"},
		{func(h *HeadShape) { h.KVFloat, h.KeyGroup = true, 128 }, "kv_float"}, {func(h *HeadShape) { h.KVFloat, h.KVBits = true, 16 }, "kv_float"},
		{func(h *HeadShape) { h.KeyGroup = 128 }, ""}, {func(h *HeadShape) { h.KeyGroup, h.KVBits = 128, 16 }, "key_group"}, {func(h *HeadShape) { h.KeyGroup, h.KVBits = 128, 0 }, "key_group"}, {func(h *HeadShape) { h.KeyGroup = -1 }, "key_group"},
		{func(h *HeadShape) { h.KeyGroup = 64 }, ""}, {func(h *HeadShape) { h.KVBits, h.ValueInKey, h.ValueDim = 16, true, 128 }, ""}, {func(h *HeadShape) { h.KVBits, h.ValueInKey, h.ValueDim = 16, true, 8 }, ""},
		{func(h *HeadShape) { h.KVBits, h.ValueInKey, h.ValueDim = 0, true, 64 }, ""}, {func(h *HeadShape) { h.KVBits, h.ValueInKey, h.ValueDim = 16, true, 129 }, "value_dim"}, {func(h *HeadShape) { h.KVBits, h.ValueInKey = 16, true }, "value_dim"},
		{func(h *HeadShape) { h.ValueInKey, h.ValueDim = true, 64 }, "value_in_key"}, {func(h *HeadShape) { h.KVBits, h.ScaleBytes, h.ValueInKey, h.ValueDim = 16, 4, true, 64 }, "value_in_key"},
		{func(h *HeadShape) { h.ScaleBytes = 4 }, ""}, {func(h *HeadShape) { h.ScaleBytes = 2 }, "scale_bytes"}, {func(h *HeadShape) { h.ScaleBytes, h.KeyGroup = 4, 127 }, "key_group"}, {func(h *HeadShape) { h.ScaleBytes, h.KeyGroup = 4, 128 }, ""},
	} {
		h := good
		c.change(&h)
		faults := input.Faults(h)
		if (len(faults) == 0) != (c.bad == "") || len(faults) > 0 && faults[0].Key != c.bad {
			t.Errorf("%+v: %v, want %q", h, faults, c.bad)
		}
	}
	for _, c := range []struct {
		h    HeadShape
		want string
	}{
		{HeadShape{HeadDim: 96, ValueDim: 97, ValueInKey: true, Queries: 1, ElementBits: 16}, "value_dim = 97: expected 8 to head_dim = 96, of which values are parts"},
		{HeadShape{HeadDim: 96, ValueDim: 64, Queries: 1, ElementBits: 16, KVBits: 8, ScaleBytes: 4, KeyGroup: 64},
			"key_group = 64: expected at least head_dim = 96 with scales in the rows, which have as many places for scales of elements as for tokens"},
		{HeadShape{HeadDim: 96, ValueDim: 2000, Queries: 1, ElementBits: 16}, "value_dim = 2000: expected 8 to 1024, or 0 for head_dim"},
		{HeadShape{HeadDim: 96, Queries: 200, ElementBits: 16}, "queries = 200: expected 1 to 128 query heads on a KV head"},
	} {
		if err := input.Validate(c.h); err == nil || err.Error() != c.want {
			t.Errorf("%+v: %v, want %s", c.h, err, c.want)
		}
	}
}

// TestValuesPartOfKeysByHand: a value inside its key takes the bursts of 32 elements that it fills, 14 for 448, not the power of two, 16;
// so do keys of that width.
func TestValuesPartOfKeysByHand(t *testing.T) {
	d, err := dram.LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ dim, valueDim, key, value, row int }{{576, 448, 18, 14, 7 * 16}, {448, 448, 14, 14, 9 * 16}, {450, 449, 15, 15, 8 * 16}, {1024, 1024, 32, 32, 4 * 16}} {
		g, err := NewGeometry(d, HeadShape{HeadDim: c.dim, ValueDim: c.valueDim, Queries: 1, ElementBits: 16, ValueInKey: true})
		if err != nil || g.KeyBursts != c.key || g.ValueBursts != c.value || g.PaddedDim != 32*c.key || g.PaddedValueDim != 32*c.value || g.RowTokens != c.row || g.QueryBursts != c.key {
			t.Errorf("%+v: %+v, %v", c, g, err)
		}
	}
}

// TestShapesBeyondARow: a chip's row of 128 columns has 16 bursts of 32 elements of 16 bits, or 64 of 8. Keys wider than values may fill them. A value may
// take one burst of each bank, or of each column if a row has fewer.
func TestShapesBeyondARow(t *testing.T) {
	for _, c := range []struct {
		columns, dim, valueDim, bits int
		inKey                        bool
		want                         string
	}{
		{128, 512, 256, 16, false, ""},
		{128, 513, 256, 16, false, "head_dim = 513: expected at most 512: a key in the 16 bursts of a row of one bank"},
		{128, 513, 256, 16, true, "head_dim = 513: expected at most 512: a key in the 16 bursts of a row of one bank"},
		{128, 513, 513, 16, true, "head_dim = 513: expected at most 512: a key in the 16 bursts of a row of one bank"},
		{64, 513, 256, 8, false, "head_dim = 513: expected at most 512: a key in the 8 bursts of a row of one bank"},
		{64, 128, 256, 16, false, ""},
		{64, 128, 257, 16, false, "value_dim = 257: expected at most 256: one burst of a value in each of the 16 banks"},
		{1024, 512, 513, 16, false, "value_dim = 513: expected at most 512: one burst of a value in each of the 16 banks"},
		{1024, 513, 0, 16, false, "head_dim = 513: expected at most 512: one burst of a value in each of the 16 banks"},
		{1024, 576, 513, 16, true, ""},
	} {
		d := *parts.DDR4(t)
		d.Columns = c.columns
		got := ""
		if _, err := NewGeometry(&d, HeadShape{HeadDim: c.dim, ValueDim: c.valueDim, Queries: 1, ElementBits: c.bits, ValueInKey: c.inKey}); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	// A key of 16 bursts fills the row and leaves no room for its scale.
	d := *parts.DDR4(t)
	d.Columns = 128
	if _, err := NewGeometry(&d, HeadShape{HeadDim: 512, Queries: 1, ElementBits: 16, ScaleBytes: 4}); err == nil || err.Error() != "scale_bytes = 4: expected 0: a row has no room for a key and its scale" {
		t.Errorf("no room for a scale: %v", err)
	}
}
