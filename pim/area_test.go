package pim

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
)

// areaSpec is LServe's on L3: 64 entries of pages of 64 tokens over 128K tokens of a KV head of 8 bits.
var areaSpec = AreaSpec{Shape: HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: 8}, Entries: 64, Context: 131072, Page: 64, Logical: 16}

// The yardstick: L3's own units, added up of the parts, are within the band.
func TestAreaOfL3(t *testing.T) {
	for _, c := range []struct {
		name  string
		area  float64
		parts map[Part]int
	}{{"bank PU", L3BankArea, map[Part]int{FP16Multiplier: 4, FP16Adder: 4}}, {"adder unit", L3AdderArea, map[Part]int{FP16Adder: 8}}} {
		var a Addition
		for p, n := range c.parts {
			a.Parts[p] = n
		}
		got := a.Area()
		if got.Low > c.area+1e-9 || got.High < c.area || got.High > 1.5*c.area {
			t.Errorf("%s: %.0f to %.0f µm², L3 has %.0f", c.name, got.Low, got.High, c.area)
		}
	}
	// The re-layout unit has two bursts' worth of registers and a multiplexer for each bit.
	unit := Addition{Parts: [Parts]int{RegisterBit: 4 * 64, MultiplexerBit: 4 * 64}}
	if got := unit.Area(); got.High < L3RelayoutArea*0.5 || got.Low > L3RelayoutArea {
		t.Errorf("re-layout unit: %.0f to %.0f µm², L3 has %.0f", got.Low, got.High, L3RelayoutArea)
	}
	for p, a := range partAreas {
		if !(a.Low > 0 && a.Low <= a.High && a.High < 6*a.Low) {
			t.Errorf("%v: %v", Part(p), a)
		}
	}
}

// Counts by hand, at LServe's sizes on DDR4-3200 x8.
func TestAdditionsByHand(t *testing.T) {
	d := ddr4(t)
	d.Rows = 1 << 17
	spec := Default()
	spec.Multipliers = 8
	all, err := Additions(spec, d, areaSpec)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Addition{
		"selector: sign split":           {Count: 1, Parts: [Parts]int{MultiplexerBit: 256, SRAMByte: 512}},
		"selector: largest logical page": {Count: 1, Parts: [Parts]int{Comparator16: 1, RegisterBit: 18, MultiplexerBit: 16}},
		"selector: top-k":                {Count: 1, Parts: [Parts]int{RegisterBit: 64 * 27, MultiplexerBit: 64 * 27, Comparator16: 64}},    // 2,048 pages
		"row list":                       {Count: 1, Parts: [Parts]int{SRAMByte: 64 * (17 + 14) / 8, Adder16: 2, RegisterBit: 17 + 14 + 6}}, // 64 chunks a row of 8 bits
		"quad layout":                    {Count: 1, Parts: [Parts]int{RegisterBit: 4 * (17 + 17 + 6), MultiplexerBit: 51, Adder16: 4}},
		"bounds of keys":                 {Count: 1, Parts: [Parts]int{Comparator16: 16, MultiplexerBit: 256, SRAMByte: 512}},
		"window and merge":               {Count: 1, Parts: [Parts]int{RegisterBit: 64, MultiplexerBit: 64}},
		"second multiplier set":          {Count: 128, Bank: true, Parts: [Parts]int{FP16Multiplier: 4, FP16Adder: 4, RegisterBit: 64 + 32 + 64}},
		"narrow multipliers":             {Count: 128, Bank: true, Parts: [Parts]int{NarrowMultiplier: 4, FP16Adder: 4, Adder16: 4, RegisterBit: 128, MultiplexerBit: 128}},
		"scales of keys and values":      {Count: 1, Parts: [Parts]int{FP16Multiplier: 3, FP16Adder: 3, SRAMByte: 4096, RegisterBit: 64}},
	}
	for i := range all {
		a := &all[i]
		w := want[a.Name]
		if a.Count != w.Count || a.Bank != w.Bank || a.Parts != w.Parts || a.What == "" {
			t.Errorf("%s: %d of %v, want %d of %v", a.Name, a.Count, a.Parts, w.Count, w.Parts)
		}
		delete(want, a.Name)
		if area := a.Area(); !(area.Low > 0 && area.High < BufferChipArea/100) {
			t.Errorf("%s: %v", a.Name, area)
		}
	}
	for name := range want {
		t.Errorf("%s is missing", name)
	}
}

// More pages, longer lists, wider keys: no addition is smaller. Keys of 16 bits need none for narrow ones.
func TestAdditionsGrow(t *testing.T) {
	total := func(s AreaSpec, multipliers int) (a Area) {
		spec := Default()
		spec.Multipliers = multipliers
		all, err := Additions(spec, ddr4(t), s)
		if err != nil {
			t.Fatal(err)
		}
		for i := range all {
			a = a.plus(all[i].Area().times(all[i].Count))
		}
		return a
	}
	base := total(areaSpec, 8)
	for name, change := range map[string]func(*AreaSpec){
		"entries": func(s *AreaSpec) { s.Entries = 65 }, "context": func(s *AreaSpec) { s.Context *= 2 },
		"queries": func(s *AreaSpec) { s.Shape.Queries = 8 }, "logical": func(s *AreaSpec) { s.Logical = 1 },
	} {
		s := areaSpec
		change(&s)
		if got := total(s, 8); got.Low <= base.Low || got.High <= base.High {
			t.Errorf("%s: %v, before %v", name, got, base)
		}
	}
	if got := total(areaSpec, 16); got.Low <= base.Low {
		t.Errorf("16 multipliers: %v, 8 %v", got, base)
	}
	wide := areaSpec
	wide.Shape.KVBits = 16
	longer := wide // without scales, of which a row of longer heads has fewer
	longer.Shape.HeadDim = 256
	if got, base := total(longer, 8), total(wide, 8); got.Low <= base.Low || got.High <= base.High {
		t.Errorf("head_dim: %v, before %v", got, base)
	}
	if all, err := Additions(Default(), ddr4(t), wide); err != nil || len(all) != 8 {
		t.Errorf("16 bits: %d additions, %v", len(all), err)
	}
	for key, change := range map[string]func(*AreaSpec){
		"entries": func(s *AreaSpec) { s.Entries = 0 }, "context": func(s *AreaSpec) { s.Context = 0 }, "page": func(s *AreaSpec) { s.Page = 0 },
		"logical_page": func(s *AreaSpec) { s.Logical = 15 }, "kv_bits": func(s *AreaSpec) { s.Shape.KVBits = 3 },
	} {
		s := areaSpec
		change(&s)
		var bad *input.Error
		if _, err := Additions(Default(), ddr4(t), s); err == nil || !errors.As(err, &bad) || bad.Key != key {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// The table of docs/lab/pim-timing.md has the areas.
func TestAreaTable(t *testing.T) {
	page, err := os.ReadFile("../docs/lab/pim-timing.md")
	if err != nil {
		t.Fatal(err)
	}
	spec, s, d := Default(), areaSpec, ddr4(t)
	spec.Multipliers, s.Shape.Queries = 8, 8
	all, err := Additions(spec, d, s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		a, place, area := &all[i], "rank", all[i].Area()
		if a.Bank {
			place = "bank"
		}
		if row := fmt.Sprintf("| %s | %s | %.0f to %.0f |", a.Name, place, area.Low, area.High); !strings.Contains(string(page), row) {
			t.Errorf("the page lacks %s", row)
		}
	}
}

// L3's own units by count and process: Table 5, sixteen banks a chip and ten times the area there; what nothing is known of has none.
func TestUnits(t *testing.T) {
	d, spec := ddr4(t), Default()
	want := map[string]float64{"bank PU": 16 * 33230, "re-layout unit": 948, "adder unit": 3446, "softmax unit": 18506}
	var estimated int
	for _, u := range Units(spec, d) {
		a, ok := u.Total()
		if ok {
			estimated++
		}
		if w := want[u.Name]; w > 0 && (a.Low != w || a.High != w) {
			t.Errorf("%s: %+v, want %v", u.Name, a, w)
		}
		if u.Name == "score buffer" && !(a.Low > 256<<10*8*0.16 && a.High < 5*a.Low && a.High < BufferChipArea/50) {
			t.Errorf("score buffer: %+v", a)
		}
	}
	if estimated != len(want)+1 {
		t.Errorf("%d units have an area", estimated)
	}
	spec.ProcessingUnit = RankPU
	for _, u := range Units(spec, d) {
		if a, _ := u.Total(); u.Bank || u.Name == "multipliers and adders" && a.Low != 8*L3BankArea {
			t.Errorf("a rank's unit has %+v: %+v", u, a)
		}
	}
}
