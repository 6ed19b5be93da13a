package pim

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/parts"
)

// deviceOf returns the DDR4 rank built from chips of that width.
func deviceOf(t testing.TB, width int) *dram.Spec {
	d := *parts.DDR4(t)
	if width == 16 { // x16 parts have two bank groups
		d.BankGroups = 2
	}
	d.DeviceWidth = width
	return &d
}

// drawChips draws a rank of either standard, of chips of one of these widths.
func drawChips(tb testing.TB, t *rapid.T, widths ...int) *dram.Spec {
	width := rapid.SampledFrom(widths).Draw(t, "width")
	if rapid.SampledFrom([]string{"ddr4", "ddr4", "ddr5"}).Draw(t, "standard") == "ddr4" {
		return deviceOf(tb, width)
	}
	d, err := dram.LookupSpec(fmt.Sprintf("ddr5-4800-16gb-x%d", width))
	parts.Must(tb, err)
	return d
}

// The mapping at d = 128 in FP16, as the paper draws it.
func TestMappingAt128(t *testing.T) {
	m, err := NewMapping(parts.DDR4(t), HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16})
	if err != nil {
		t.Fatal(err)
	}
	if m.RowTokens != 512 || m.ChunkTokens != 16 || m.ColumnTokens != 4 || m.ChipElements() != 4 {
		t.Errorf("row %d, chunk %d, column %d tokens, %d elements a chip", m.RowTokens, m.ChunkTokens, m.ColumnTokens, m.ChipElements())
	}
	for _, c := range []struct {
		kv             KV
		token, element int
		want           Place
	}{
		{Key, 0, 0, Place{Chip: 0, Bit: 0}},
		{Key, 0, 1, Place{Chip: 2, Bit: 0}},
		{Key, 0, 4, Place{Chip: 1, Bit: 0}},
		{Key, 0, 9, Place{Chip: 2, Bit: 16}},
		{Key, 5, 33, Place{Chip: 2, BankGroup: 1, Bank: 1, Column: 1}},
		{Key, 16, 0, Place{Column: 4}},
		{Key, 512, 127, Place{Chip: 7, Row: 2, Column: 3, Bit: 48}},
		{Value, 0, 0, Place{Row: 1}},
		{Value, 1, 0, Place{Row: 1, Bank: 1}},
		{Value, 0, 32, Place{Row: 1, BankGroup: 1}},
		{Value, 7, 96, Place{Row: 1, BankGroup: 3, Bank: 3, Column: 1}},
		{Value, 1023, 127, Place{Chip: 7, Row: 3, BankGroup: 3, Bank: 3, Column: 127, Bit: 48}},
	} {
		if got := m.Place(c.kv, c.token, c.element); got != c.want {
			t.Errorf("%s, token %d, element %d: %+v, want %+v", c.kv, c.token, c.element, got, c.want)
		}
	}
}

// The same on a sub-channel of DDR5: four chips, each with eight elements of a burst, 32 banks. An element
// goes to a chip that already has a whole beat pair of it.
func TestMappingOnDDR5(t *testing.T) {
	m, err := NewMapping(parts.DDR5(t), HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16})
	parts.Must(t, err)
	if m.RowTokens != 512 || m.ChunkTokens != 32 || m.ColumnTokens != 8 || m.ChipElements() != 8 {
		t.Errorf("row %d, chunk %d, column %d tokens, %d elements a chip", m.RowTokens, m.ChunkTokens, m.ColumnTokens, m.ChipElements())
	}
	for _, c := range []struct {
		kv             KV
		token, element int
		want           Place
	}{
		{Key, 0, 1, Place{Chip: 2}},
		{Key, 0, 2, Place{Chip: 1}},
		{Key, 0, 5, Place{Chip: 2, Bit: 16}},
		{Key, 9, 33, Place{Chip: 2, BankGroup: 1, Bank: 1, Column: 1}},
		{Key, 32, 0, Place{Column: 4}},
		{Key, 512, 127, Place{Chip: 3, Row: 2, Column: 3, Bit: 112}},
		{Value, 1, 0, Place{Row: 1, BankGroup: 4}},
		{Value, 7, 96, Place{Row: 1, BankGroup: 7, Bank: 3}},
		{Value, 8, 0, Place{Row: 1, Column: 1}},
		{Value, 1023, 127, Place{Chip: 3, Row: 3, BankGroup: 7, Bank: 3, Column: 63, Bit: 112}},
	} {
		if got := m.Place(c.kv, c.token, c.element); got != c.want {
			t.Errorf("%s, token %d, element %d: %+v, want %+v", c.kv, c.token, c.element, got, c.want)
		}
	}
}

// Every element of a shape has a unique place in the device, and Token finds the element there.
func TestMappingInverse(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		d := drawChips(tb, t, 4, 8, 16)
		shape := HeadShape{
			HeadDim: rapid.IntRange(8, 512).Draw(t, "d"), Queries: 1, ElementBits: 16,
			ValueDim: rapid.OneOf(rapid.Just(0), rapid.IntRange(8, 512)).Draw(t, "value d"), KVBits: rapid.SampledFrom([]int{4, 8, 16}).Draw(t, "bits"),
		}
		m, err := NewMapping(d, shape)
		if err != nil {
			if shape.ValueWidth()*shape.KVBits > d.BurstBytes()*8*d.Banks() {
				t.Skip("does not fit one column of all banks")
			}
			t.Fatal(err)
		}
		first := rapid.IntRange(0, 3000).Draw(t, "token")
		seen := map[Place]bool{}
		for token := first; token < first+20; token++ {
			for _, kv := range []KV{Key, Value} {
				for e := range m.Padded(kv) {
					p := m.Place(kv, token, e)
					if p.Chip < 0 || p.Chip >= d.Chips() || int(p.BankGroup) >= d.BankGroups || int(p.Bank) >= d.BanksPerGroup ||
						int(p.Column) >= d.RowBursts() || p.Bit+m.ElementBits > d.BurstLength*d.DeviceWidth {
						t.Fatalf("%s, token %d, element %d lies outside: %+v", kv, token, e, p)
					}
					if seen[p] {
						t.Fatalf("%s, token %d, element %d: %+v is taken", kv, token, e, p)
					}
					seen[p] = true
					gotKV, gotToken, gotElement, ok := m.Token(p)
					if !ok || gotKV != kv || gotToken != token || gotElement != e {
						t.Fatalf("%s, token %d, element %d comes back as %s, %d, %d, %v", kv, token, e, gotKV, gotToken, gotElement, ok)
					}
				}
			}
		}
	})
}

// A row holds as many tokens as fit.
func TestMappingFillsRows(t *testing.T) {
	for _, dim := range []int{8, 32, 64, 80, 96, 128, 256, 512} {
		m, err := NewMapping(parts.DDR4(t), HeadShape{HeadDim: dim, Queries: 1, ElementBits: 16})
		if err != nil {
			t.Fatal(err)
		}
		if want := 16 * 128 * 64 / (2 * m.PaddedDim); m.RowTokens != want {
			t.Errorf("d = %d: %d tokens a row, want %d", dim, m.RowTokens, want)
		}
		padded := 32
		for padded < dim {
			padded *= 2
		}
		if m.PaddedDim != padded {
			t.Errorf("d = %d is padded to %d, want %d", dim, m.PaddedDim, padded)
		}
		for _, kv := range []KV{Key, Value} {
			if last := m.Place(kv, m.RowTokens-1, m.PaddedDim-1); last.Row != int32(kv) || last.Column != 127 || last.Bit != 48 {
				t.Errorf("d = %d: the row's last element of %s is at %+v", dim, kv, last)
			}
		}
	}
	if _, err := NewMapping(parts.DDR4(t), HeadShape{HeadDim: 513, Queries: 1, ElementBits: 16}); err == nil {
		t.Error("d = 513 is accepted")
	}
}

func TestMappingHoldsNothingBetweenElements(t *testing.T) {
	m, _ := NewMapping(parts.DDR4(t), HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16})
	for _, bit := range []int{8, 64} {
		if _, _, _, ok := m.Token(Place{Bit: bit}); ok {
			t.Errorf("an element begins at bit %d", bit)
		}
	}
}

// Token returns what lies at a place: the inverse of Place. Columns that no
// token of this shape uses, and bits at which no element begins, hold nothing.
func (m *Mapping) Token(p Place) (kv KV, token, element int, ok bool) {
	if p.Bit%m.ElementBits != 0 || p.Bit/m.ElementBits >= m.ChipElements() {
		return 0, 0, 0, false
	}
	ordinal := int(p.Bank)*m.BankGroups + int(p.BankGroup)
	kv = KV(p.Row % 2)
	token, burst := m.RowToken(kv, ordinal, p.Column)
	token += int(p.Row) / 2 * m.RowTokens
	return kv, token, burst*m.BurstElements() + m.Exchange.Element(p.Chip, p.Bit), true
}
