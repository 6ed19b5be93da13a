package pim

import (
	"errors"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// TestWidthsByHand: bursts of 64 B hold 32 elements of 16 bits, 64 of 8 and 128 of 4. A row has 128 bursts in DDR4, 64 in DDR5. Latent keys of
// 576 elements take 18, of which seven fit 128; their values of 512 take a burst of all 16 banks. Keys of 192 take 6, so that 21 chunks fit, of
// which 20 are whole pages of 64 tokens.
func TestWidthsByHand(t *testing.T) {
	const x8, x16, ddr5 = "ddr4-3200-8gb-x8", "ddr4-3200-8gb-x16", "ddr5-4800-16gb-x8"
	for _, c := range []struct {
		part                                 string
		dim, valueDim, bits, scale           int
		bad                                  string
		key, value, query, columnTokens, row int
		padded, paddedValue                  int
	}{
		{part: x8, dim: 576, valueDim: 512, key: 18, value: 16, query: 18, columnTokens: 1, row: 7 * 16, padded: 576, paddedValue: 512},
		{part: x8, dim: 576, valueDim: 512, bits: 8, key: 9, value: 8, query: 18, columnTokens: 2, row: 14 * 16, padded: 576, paddedValue: 512},
		{part: x8, dim: 576, valueDim: 512, bits: 8, scale: 4, key: 9, value: 8, query: 18, columnTokens: 2, row: 12 * 16, padded: 576, paddedValue: 512},
		{part: x8, dim: 576, valueDim: 512, bits: 4, key: 5, value: 4, query: 20, columnTokens: 4, row: 24 * 16, padded: 640, paddedValue: 512},
		{part: ddr5, dim: 576, valueDim: 512, key: 18, value: 16, query: 18, columnTokens: 2, row: 3 * 32, padded: 576, paddedValue: 512},
		{part: x8, dim: 192, valueDim: 128, key: 6, value: 4, query: 6, columnTokens: 4, row: 20 * 16, padded: 192, paddedValue: 128},
		{part: x8, dim: 128, valueDim: 192, key: 4, value: 8, query: 4, columnTokens: 2, row: 16 * 16, padded: 128, paddedValue: 256},
		{part: x8, dim: 512, valueDim: 512, key: 16, value: 16, query: 16, columnTokens: 1, row: 8 * 16, padded: 512, paddedValue: 512},
		{part: x8, dim: 1024, valueDim: 1024, bits: 8, key: 16, value: 16, query: 32, columnTokens: 1, row: 8 * 16, padded: 1024, paddedValue: 1024},
		{part: x8, dim: 1024, valueDim: 512, key: 32, value: 16, query: 32, columnTokens: 1, row: 4 * 16, padded: 1024, paddedValue: 512},
		{part: x8, dim: 1024, bad: "head_dim"}, {part: x8, dim: 576, bad: "head_dim"}, {part: x8, dim: 512, valueDim: 576, bad: "value_dim"},
		{part: x16, dim: 576, valueDim: 512, bad: "value_dim"}, // eight banks
	} {
		d, err := dram.LookupSpec(c.part)
		if err != nil {
			t.Fatal(err)
		}
		g, err := NewGeometry(d, HeadShape{HeadDim: c.dim, ValueDim: c.valueDim, Queries: 1, ElementBits: 16, KVBits: c.bits, ScaleBytes: c.scale})
		if c.bad != "" {
			var fault *input.Error
			if !errors.As(err, &fault) || fault.Key != c.bad {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if err != nil || g.KeyBursts != c.key || g.ValueBursts != c.value || g.QueryBursts != c.query || g.ColumnTokens != c.columnTokens || g.RowTokens != c.row ||
			g.Padded(Key) != c.padded || g.Padded(Value) != c.paddedValue || g.Elements(Key) != c.dim || g.Elements(Value) != c.valueDim {
			t.Errorf("%+v: %+v, %v", c, g, err)
		}
	}
}
