package dram

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/input"
)

// near reports whether two energies differ by rounding alone.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Max(math.Abs(a), math.Abs(b)) }

// TestEnergy computes one command of each kind by hand: 8 chips at 1.2 V, 625 ps a clock.
func TestEnergy(t *testing.T) {
	const joules = 1.2 * 1e-3 * 8 * 625e-12 // one mA for one clock
	m := NewEnergyMeter(part(t, ddr43200), 2)
	m.Record(ACT, at(0, 0), 100)
	m.Record(RD, at(0, 0), 122)
	m.Record(WR, at(0, 0), 150)
	m.Record(ACT, at(1, 0), 160)
	m.Record(PRE, at(0, 0), 300)
	m.Record(PREA, all, 400)
	m.Record(PRE, at(2, 0), 410) // already precharged
	m.Record(REF, all, 500)
	got := m.Energy(2000)
	// Rank 0 has a row open from 100 to 400; rank 1 never.
	want := Energy{
		ActivateJoules:   2 * joules * (57*74 - 52*52 - 37*22),
		ReadJoules:       joules * (168 - 52) * 4,
		WriteJoules:      joules * (150 - 52) * 4,
		RefreshJoules:    joules * (250 - 37) * 560,
		BackgroundJoules: joules * (52*300 + 37*3700),
	}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"activate", got.ActivateJoules, want.ActivateJoules}, {"read", got.ReadJoules, want.ReadJoules},
		{"write", got.WriteJoules, want.WriteJoules}, {"refresh", got.RefreshJoules, want.RefreshJoules},
		{"background", got.BackgroundJoules, want.BackgroundJoules},
		{"total", got.TotalJoules(), want.ActivateJoules + want.ReadJoules + want.WriteJoules + want.RefreshJoules + want.BackgroundJoules},
	} {
		if !near(c.got, c.want) {
			t.Errorf("%s: %v J, want %v J", c.name, c.got, c.want)
		}
	}
}

// TestEnergyOfAutoPrecharge: a row counts as open until its precharge begins: tRTP after the read, tWR after the write's data, and at least
// tRAS after the ACT.
func TestEnergyOfAutoPrecharge(t *testing.T) {
	type command struct {
		cmd   Command
		bank  int32
		clock int64
	}
	for _, c := range []struct {
		name     string
		commands []command
		end      int64
		active   int64
	}{
		{"tRAS", []command{{ACT, 0, 100}, {RDA, 0, 122}}, 1000, 52},
		{"tRTP", []command{{ACT, 0, 100}, {RDA, 0, 150}}, 1000, 50 + 12},
		{"tWR", []command{{ACT, 0, 100}, {WRA, 0, 150}}, 1000, 50 + 16 + 4 + 24},
		{"cut by the end", []command{{ACT, 0, 100}, {WRA, 0, 150}}, 170, 70},
		{"both at once", []command{{ACT, 0, 100}, {ACT, 1, 108}, {WRA, 0, 150}, {RDA, 1, 170}}, 1000, 94},
		{"opened meanwhile", []command{{ACT, 0, 100}, {WRA, 0, 150}, {ACT, 1, 160}, {PRE, 1, 300}}, 1000, 200},
		{"closed meanwhile", []command{{ACT, 0, 100}, {ACT, 1, 108}, {WRA, 0, 160}, {PRE, 1, 170}}, 1000, 60 + 44},
	} {
		s := part(t, ddr43200)
		m := NewEnergyMeter(s, 1)
		for _, r := range c.commands {
			m.Record(r.cmd, at(r.bank, 0), r.clock)
		}
		const joules = 1.2 * 1e-3 * 8 * 625e-12
		if got, want := m.Energy(c.end).BackgroundJoules, joules*float64(37*c.end+(52-37)*c.active); !near(got, want) {
			t.Errorf("%s: %v J, want %v J", c.name, got, want)
		}
	}
}

// TestEnergyOfAllBanks: an all-bank command draws the current of all its banks.
func TestEnergyOfAllBanks(t *testing.T) {
	s := part(t, ddr43200)
	one, sixteen := NewEnergyMeter(s, 1), NewEnergyMeter(s, 1)
	one.Record(ACTA, all, 0)
	one.Record(MACA, all, 22)
	one.Record(PREA, all, 60)
	for i := range int32(16) {
		sixteen.Record(ACT, at(i/4, i%4), 0)
		sixteen.Record(RD, at(i/4, i%4), 22)
	}
	sixteen.Record(PREA, all, 60)
	// Data of the buffers are bursts on the rank's bus.
	one.Record(RDRES, all, 70)
	one.Record(WRBUF, all, 80)
	sixteen.Record(RD, at(0, 0), 70)
	sixteen.Record(WR, at(0, 0), 80)
	a, b := one.Energy(100), sixteen.Energy(100)
	if !near(a.TotalJoules(), b.TotalJoules()) || a.TotalJoules() == 0 {
		t.Errorf("ACTA and MACA %+v, one by one %+v", a, b)
	}
}

// TestTextOfIDD0: the error about a low IDD0 gives the bound and its numbers: the current with an open bank for 3 of 4 clocks, with closed
// ones for the last.
func TestTextOfIDD0(t *testing.T) {
	spec, err := LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	s := *spec
	s.TRAS, s.TRC = 54, 72
	s.Power = PowerSpec{VDD: 1.2, BankShare: 0.5, IDD0: 12, IDD2N: 10, IDD3N: 20, IDD4R: 40, IDD4W: 50, IDD5B: 60, IDD2P: 8, IDD3P: 15, IDD6: 5}
	// With one open bank of 16 it draws 15 mA and a sixteenth of 5; (15.3125 · 54 + 10 · 18) / 72 = 13.98.
	want := "power.IDD0 = 12: expected at least 13.98: what standby draws with a bank open for tRAS = 54 of tRC = 72, or a power.bank_share above 0.5"
	if errs := input.Faults(&s); len(errs) != 1 || errs[0].Error() != want {
		t.Errorf("got  %v\nwant %s", errs, want)
	}
	s.Power.IDD0 = 14
	if errs := input.Faults(&s); len(errs) > 0 {
		t.Error(errs)
	}
}

// TestRulesOfCurrents: each current lies between those of the states below and above it, bounds included.
func TestRulesOfCurrents(t *testing.T) {
	// A rank that draws 10 mA with its rows closed, 20 with one open, and less in power-down.
	valid := PowerSpec{VDD: 1.2, BankShare: 1, IDD0: 30, IDD2N: 10, IDD3N: 20, IDD4R: 40, IDD4W: 50, IDD5B: 60, IDD2P: 8, IDD3P: 15, IDD6: 5}
	for key, c := range map[string]struct {
		of        func(p *PowerSpec) *float64
		low, high float64 // the lowest and the highest valid
	}{
		"bank_share": {func(p *PowerSpec) *float64 { return &p.BankShare }, 0, 1},
		"VDD":        {func(p *PowerSpec) *float64 { return &p.VDD }, 1e-9, 10},
		"IDD0":       {func(p *PowerSpec) *float64 { return &p.IDD0 }, 10, 1e5},
		"IDD4R":      {func(p *PowerSpec) *float64 { return &p.IDD4R }, 20, 1e5},
		"IDD4W":      {func(p *PowerSpec) *float64 { return &p.IDD4W }, 20, 1e5},
		"IDD5B":      {func(p *PowerSpec) *float64 { return &p.IDD5B }, 10, 1e5},
		"IDD6":       {func(p *PowerSpec) *float64 { return &p.IDD6 }, 0, 1e5},
		"IDD2P":      {func(p *PowerSpec) *float64 { return &p.IDD2P }, 0, 10},
		"IDD3P":      {func(p *PowerSpec) *float64 { return &p.IDD3P }, 0, 20},
	} {
		for _, x := range []struct {
			value float64
			bad   string
		}{{c.low, ""}, {c.high, ""}, {c.low - 1e-3, key}, {c.high + 1e-3, key}} {
			p := valid
			*c.of(&p) = x.value
			said := ""
			if faults := input.Faults(&p); len(faults) == 1 {
				said = faults[0].Key
			} else if len(faults) > 1 {
				t.Errorf("%s = %v: %v", key, x.value, faults)
			}
			if said != x.bad {
				t.Errorf("%s = %v: a fault of %q, want of %q", key, x.value, said, x.bad)
			}
		}
	}
	for name, change := range map[string]func(p *PowerSpec){ // open rows draw no less than closed ones
		"IDD3N": func(p *PowerSpec) { p.IDD3N, p.IDD3P = 9, 9 },
		"IDD2N": func(p *PowerSpec) { p.IDD2N, p.IDD2P = -1, 0 },
	} {
		p := valid
		change(&p)
		if faults := input.Faults(&p); len(faults) == 0 || faults[0].Key != name {
			t.Errorf("%s: %v", name, faults)
		}
	}
	if faults := input.Faults(&PowerSpec{}); len(faults) != 0 {
		t.Errorf("currents that are not known: %v", faults)
	}
}
