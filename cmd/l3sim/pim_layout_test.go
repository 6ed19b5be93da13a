package main

import (
	"bytes"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/pim"
)

// TestLayoutPicture: the outlined cells are where the mapping puts the token, every element has one cell of its chip,
// and the figure has the same bytes each time.
func TestLayoutPicture(t *testing.T) {
	deep.Heavy(t)
	rapid.Check(t, func(t *rapid.T) {
		d, err := dram.LookupSpec(rapid.SampledFrom([]string{"ddr4-3200-8gb-x8", "ddr4-3200-8gb-x4", "ddr5-4800-16gb-x8"}).Draw(t, "part"))
		if err != nil {
			t.Fatal(err)
		}
		m, err := pim.NewMapping(d, pim.HeadShape{HeadDim: rapid.IntRange(8, 256).Draw(t, "dim"), ValueDim: rapid.OneOf(rapid.Just(0), rapid.IntRange(8, 256)).Draw(t, "value dim"), Queries: 1, ElementBits: 16})
		if err != nil {
			t.Skip(err)
		}
		token := rapid.IntRange(0, 5000).Draw(t, "token")
		kv := rapid.SampledFrom([]pim.KV{pim.Key, pim.Value}).Draw(t, "kv")
		g := layoutPicture(&m, token, kv)
		for i, of := range []pim.KV{pim.Key, pim.Value} {
			at := map[[2]int]bool{}
			for burst := range m.Bursts(of) {
				ordinal, _, column := m.BurstPlace(of, token, burst)
				at[[2]int{int(column), ordinal}] = true
			}
			for column := range m.RowBursts {
				for ordinal := range m.Banks {
					if share, _, marked := g.Panels[i].Cell(column, ordinal); marked != at[[2]int{column, ordinal}] || share > 1 {
						t.Fatalf("%v of token %d: column %d of bank %d is outlined: %v", of, token, column, ordinal, marked)
					}
				}
			}
		}
		chips, seen := g.Panels[2], 0
		for column := range chips.Columns {
			for chip := range chips.Rows {
				_, label, _ := chips.Cell(column, chip)
				if label == "" {
					continue
				}
				seen++
				e, err := strconv.Atoi(label)
				if err != nil || m.Place(kv, token, e).Chip != chip || column/m.ChipElements() != e/m.BurstElements() {
					t.Fatalf("element %q at chip %d, place %d", label, chip, column)
				}
			}
		}
		if seen != m.Elements(kv) {
			t.Fatalf("%d elements on the chips, the head has %d", seen, m.Elements(kv))
		}
	})
	d, err := dram.LookupSpec(defaultDRAM)
	if err != nil {
		t.Fatal(err)
	}
	m, err := pim.NewMapping(d, pim.HeadShape{HeadDim: 80, Queries: 1, ElementBits: 16})
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"svg", "png", "pdf"} {
		var a, b bytes.Buffer
		if err := layoutPicture(&m, 7, pim.Key).Write(&a, format); err != nil || layoutPicture(&m, 7, pim.Key).Write(&b, format) != nil || a.Len() == 0 || !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Errorf("%s: %d and %d bytes, %v", format, a.Len(), b.Len(), err)
		}
	}
}
