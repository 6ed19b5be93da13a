package dram

import (
	"math"
	"testing"
)

// near reports whether two joules differ by rounding only.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Max(math.Abs(a), math.Abs(b)) }

// TestEnergy computes one of each by hand: 8 chips at 1.2 V, 625 ps a clock.
func TestEnergy(t *testing.T) {
	const joules = 1.2 * 1e-3 * 8 * 625e-12 // one mA for one clock
	m := NewEnergyMeter(part(t, ddr43200), 2)
	m.Record(ACT, at(0, 0), 100)
	m.Record(RD, at(0, 0), 122)
	m.Record(WR, at(0, 0), 150)
	m.Record(ACT, at(1, 0), 160)
	m.Record(PRE, at(0, 0), 300)
	m.Record(PREA, all, 400)
	m.Record(PRE, at(2, 0), 410) // precharged already
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

// TestEnergyOfAutoPrecharge: a row counts as open until its precharge begins,
// tRTP after the read, end of data and tWR after the write, tRAS after the ACT.
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

// TestEnergyOfAllBanks: an all-bank command draws what its banks draw.
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
	// What the buffers send and take are bursts on the rank's bus.
	one.Record(RDRES, all, 70)
	one.Record(WRBUF, all, 80)
	sixteen.Record(RD, at(0, 0), 70)
	sixteen.Record(WR, at(0, 0), 80)
	a, b := one.Energy(100), sixteen.Energy(100)
	if !near(a.TotalJoules(), b.TotalJoules()) || a.TotalJoules() == 0 {
		t.Errorf("ACTA and MACA %+v, one by one %+v", a, b)
	}
}
