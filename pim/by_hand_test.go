package pim

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/parts"
)

// TestValueInKey: a latent's value is part of its key: same row, bank and column, one row a unit, and its own bursts and elements.
func TestValueInKey(t *testing.T) {
	d := parts.DDR4(t)
	g, err := NewGeometry(d, HeadShape{HeadDim: 576, ValueDim: 512, Queries: 1, ElementBits: 16, ValueInKey: true})
	if err != nil {
		t.Fatal(err)
	}
	if g.Bursts(Key) != 18 || g.Elements(Key) != 576 || g.Elements(Value) != 512 || g.Bursts(Value) != g.ValueBursts || g.ColumnTokens != 16 || g.RowTokens != 112 {
		t.Errorf("got %+v", g)
	}
	if g.UnitRows() != 1 || g.Rows(112) != 1 || g.Rows(113) != 2 || g.KeyRow(112) != 1 || g.ValueRow(112) != 1 {
		t.Errorf("rows: %d a unit, %d for 112 tokens, %d for 113", g.UnitRows(), g.Rows(112), g.Rows(113))
	}
	if g.KeyBank(21) != 5 || g.ValueBank(21) != 5 || g.KeyColumn(21) != 18 || g.ValueColumn(21) != 18 {
		t.Errorf("token 21: banks %d and %d, columns %d and %d", g.KeyBank(21), g.ValueBank(21), g.KeyColumn(21), g.ValueColumn(21))
	}
	if token, burst := g.RowToken(Value, 5, 20); token != 21 || burst != 2 {
		t.Errorf("bank 5, column 20: token %d, burst %d", token, burst)
	}
	own, err := NewGeometry(d, HeadShape{HeadDim: 192, ValueDim: 128, Queries: 1, ElementBits: 16})
	if err != nil {
		t.Fatal(err)
	}
	// Values of 4 bursts: token 21 is the second of a column of 4, so its value begins in bank 4 of column
	// 5.
	if own.UnitRows() != 2 || own.Bursts(Key) != 6 || own.Bursts(Value) != 4 || own.Elements(Value) != 128 || own.ValueRow(0) != 1 || own.ValueBank(21) != 4 || own.ValueColumn(21) != 5 {
		t.Errorf("got %+v", own)
	}
	if Key.String()+Value.String() != "kv" {
		t.Errorf("named %v and %v", Key, Value)
	}
}

// TestMultipliersByHand: a chip's share of a burst of 64 B is 64 bits: four elements of 16 bits, for which a set has four multipliers by default.
// Elements that are stored narrower take several passes.
func TestMultipliersByHand(t *testing.T) {
	d := parts.DDR4(t)
	for _, c := range []struct{ multipliers, kvBits, set, passes int }{{0, 0, 4, 1}, {0, 8, 4, 2}, {0, 4, 4, 4}, {3, 0, 3, 2}, {2, 8, 2, 4}, {16, 4, 16, 1}, {17, 4, 17, 1}} {
		s := *Default()
		s.Multipliers = c.multipliers
		shape := HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: c.kvBits}
		if set, passes := s.SetMultipliers(d, shape), s.MultiplierPasses(d, shape); set != c.set || passes != c.passes {
			t.Errorf("%+v: a set of %d, %d passes", c, set, passes)
		}
	}
}

// TestActivationSpan: with 16 banks the last ACT follows the first by three windows of four and three tRRD_S: 3·34 + 3·4 on
// DDR4-3200.
func TestActivationSpan(t *testing.T) {
	d := parts.DDR4(t)
	s := *Default()
	s.Activation = Simultaneous
	if span := ActivationSpan(d, false); span != 114 || ActivationSpan(d, true) != 0 || s.ActivationClocks(d) != 0 {
		t.Errorf("%d clocks staggered, %d simultaneous", span, s.ActivationClocks(d))
	}
	s.Activation = Staggered
	if s.ActivationClocks(d) != 114 {
		t.Errorf("%d clocks staggered", s.ActivationClocks(d))
	}
}

// TestPartsThatCannotServe: a standard that programs cannot be timed with is refused with the reason; so are shapes and buses.
func TestPartsThatCannotServe(t *testing.T) {
	const more = "; base the table on another standard, such as ddr4"
	for text, want := range map[string]string{
		"":                    "",
		"steps_per_clock = 2": `dram.standard = "mine": expected a standard whose commands begin once a clock: its clock has 2 steps, and PIM programs are timed in whole clocks` + more,
		"commands = ['CAS | command | 1 | rank | any | any']\ndata_clock = 'CAS | CL'": `dram.standard = "mine": expected a standard whose data move with CK: its data clock runs after CAS, which PIM programs do not send` + more,
		"commands = ['ACT | command | 1 | bank | closed | open | and 1 within 8']":     `dram.standard = "mine": expected a standard whose commands are whole: ACT comes in two halves, and PIM programs leave no room on the bus for the second` + more,
	} {
		own, err := dram.ReadStandard("t.toml", strings.NewReader("standard = 'mine'\nbase = 'ddr4'\n"+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		d, err := own.Part("mine-3200-8gb-x8")
		if err != nil {
			t.Fatal(err)
		}
		d.Obey(own)
		got := ""
		if err := CheckCommands(d); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", text, got, want)
		}
	}
	hbm, err := dram.LookupSpec("hbm2-2000-8gb-4h")
	if err != nil {
		t.Fatal(err)
	}
	shape := HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16}
	for _, c := range []struct {
		err  error
		want string
	}{
		{CheckCommands(hbm), `dram.standard = "hbm2": expected a standard with the commands of the PIM, such as ddr4; it has no ACTA`},
		{second(NewMapping(hbm, shape)), `dram.standard = "hbm2": `},
		{second(NewMapping(nil, shape)), "part = nil: "},
		{second(NewExchange(16, nil)), "part = nil: "},
		{second(Rearranges(16, nil)), "part = nil: "},
		{CheckCommands(nil), "part = nil: "},
		{second(NewGeometry(parts.DDR4(t), HeadShape{HeadDim: 7, Queries: 1, ElementBits: 16})), "head_dim = 7: "},
		{second(NewGeometry(parts.DDR4(t), HeadShape{HeadDim: 1024, ValueDim: 256, Queries: 1, ElementBits: 16, KeyGroup: 48})), "key_group = 48: expected 0 with keys of 16 bits"},
		// A row has room for 64 chunks of 16 tokens, of which groups of three fill 63. A group has whole chunks, and a row whole groups.
		{second(NewGeometry(parts.DDR4(t), HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: 8, KeyGroup: 56})), "key_group = 56: expected a multiple of 16, the tokens scored at once, that divides 1008, those of a row"},
		{second(NewGeometry(parts.DDR4(t), HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: 8, KeyGroup: 2048})), "key_group = 2048: "},
		{second(NewGeometry(parts.DDR4(t), HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: 8, KeyGroup: 64})), ""},
		{second(NewMapping(wide(t, 16, 4), HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16})), "bus_width = 64, burst_length = 4: "},
		{second(NewGeometry(wide(t, 8, 4), HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16})), "dram.bus_width = 64, burst_length = 4: "},
		{second(NewExchange(12, parts.DDR4(t))), "element_bits = 12: expected 4, 8, 16 or 32"},
		{second(NewExchange(16, deviceOf(t, 8))), ""},
		{second(Rearranges(16, hbm)), ""}, // as wide as 64 pins: each arrives whole
		{second(NewExchange(16, wide(t, 32, 8))), "device_width = 32: expected 4, 8 or 16"},
		{second(NewExchange(16, wide(t, 8, 4))), "bus_width = 64, burst_length = 4: expected 64 or 32, and bursts of 512 bits, for which the re-layout is made"},
		{second(Rearranges(16, wide(t, 8, 4))), "dram.bus_width = 64, burst_length = 4: expected 64 or 32, and bursts of 512 bits, for which the re-layout is made; or chips of 16 pins or more, which take an element of 16 bits whole"},
	} {
		got := ""
		if c.err != nil {
			got = c.err.Error()
		}
		if !strings.HasPrefix(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	if across, err := Rearranges(8, deviceOf(t, 8)); across || err != nil {
		t.Errorf("8 bits on 8 pins: %t, %v", across, err)
	}
	if across, err := Rearranges(16, deviceOf(t, 8)); !across || err != nil {
		t.Errorf("16 bits on 8 pins: %t, %v", across, err)
	}
}

func second[T any](_ T, err error) error { return err }

// wide returns a part with chips of so many pins and bursts of so many beats.
func wide(t *testing.T, pins, beats int) *dram.Spec {
	d := *parts.DDR4(t)
	d.DeviceWidth, d.BurstLength = pins, beats
	return &d
}
