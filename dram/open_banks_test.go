package dram

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// TestOpenBanks: by hand, the clocks for which each bank has a row open: until a PRE, or until the auto-precharge begins, which may be
// after the end; power-down does not count.
func TestOpenBanks(t *testing.T) {
	s := *part(t, ddr43200)
	s.Power.BankShare = 0.25
	type command struct {
		cmd   Command
		bank  int32
		clock int64
	}
	for _, c := range []struct {
		name     string
		commands []command
		end      int64
		open     int64 // clocks of banks
		active   int64 // clocks with any open
	}{
		{"none", nil, 1000, 0, 0},
		{"one", []command{{ACT, 0, 100}, {PRE, 0, 300}}, 1000, 200, 200},
		{"two at once", []command{{ACT, 0, 100}, {ACT, 1, 150}, {PRE, 1, 300}, {PRE, 0, 310}}, 1000, 150 + 210, 210},
		{"until the end", []command{{ACT, 0, 100}, {ACT, 1, 150}}, 1000, 900 + 850, 900},
		{"all precharged", []command{{ACT, 0, 100}, {ACT, 5, 150}, {PREA, -1, 300}}, 1000, 200 + 150, 200},
		{"closed before", []command{{PRE, 0, 50}, {ACT, 0, 100}, {PRE, 0, 300}, {PREA, -1, 400}}, 1000, 200, 200},
		{"auto-precharge", []command{{ACT, 0, 100}, {WRA, 0, 150}}, 1000, 50 + 16 + 4 + 24, 94},
		{"auto-precharge behind the end", []command{{ACT, 0, 100}, {WRA, 0, 150}}, 170, 70, 70},
		{"again", []command{{ACT, 0, 100}, {RDA, 0, 152}, {ACT, 0, 200}, {PRE, 0, 260}}, 1000, 64 + 60, 124},
		{"all at once", []command{{ACTA, -1, 100}, {PREA, -1, 200}}, 1000, 1600, 100},
		{"power-down", []command{{ACT, 0, 100}, {ACT, 1, 150}, {PDE, -1, 300}, {PDX, -1, 700}, {PREA, -1, 800}}, 1000, 200 + 150 + 2*100, 300},
		{"in power-down at the end", []command{{ACT, 0, 100}, {PDE, -1, 300}}, 1000, 200, 200},
	} {
		m := NewEnergyMeter(&s, 1)
		for _, r := range c.commands {
			a := at(r.bank/4, r.bank%4)
			if r.bank < 0 {
				a = all
			}
			m.Record(r.cmd, a, r.clock)
		}
		states := m.Standby(0, c.end)
		if got := m.OpenBanks(0, c.end); got != c.open || states[ActiveStandby] != c.active {
			t.Errorf("%s: banks open for %d clocks, any for %d, want %d and %d", c.name, got, states[ActiveStandby], c.open, c.active)
		}
		// 52 mA with all 16 banks open, 37 with none. The first open bank adds three quarters of the 15 mA.
		want := float64(37*c.end) + float64(11.25*float64(c.active)) + float64(3.75*float64(c.open)/16)
		want += float64((43-37)*states[ActivePowerDown]) + float64((25-37)*states[PrechargedPowerDown])
		if got := m.Energy(c.end).BackgroundJoules / (1.2e-3 * 8 * 625e-12); !near(got, want) {
			t.Errorf("%s: standby takes %v mA clocks, want %v", c.name, got, want)
		}
	}
}

// TestActivations: on every part with currents an activation takes energy, but less than a row's time at the read current. The larger the
// open banks' share of standby, the larger the activation's energy; with all banks open, a rank draws the same.
func TestActivations(t *testing.T) {
	for _, name := range SpecNames() {
		s := *part(t, name)
		if !s.Power.Known() {
			continue
		}
		most := float64(s.Power.IDD4R * float64(s.TRC))
		if got := s.activation(); got <= 0 || got > most {
			t.Errorf("%s: an activation takes %v mA clocks, want above 0 and at most %v", name, got, most)
		}
		open := func() float64 { return s.StandbyJoules(ActiveStandby, 1000, int64(1000*s.Banks())) }
		act, all := s.activation(), open()
		for s.Power.BankShare += 0.1; s.Power.BankShare <= 1; s.Power.BankShare += 0.1 {
			if s.activation() <= act || !near(open(), all) {
				t.Errorf("%s, share %v: an activation takes %v, before %v; all banks open %v, before %v", name, s.Power.BankShare, s.activation(), act, open(), all)
			}
			act = s.activation()
		}
	}
}

// TestNegativeActivation: exactly those currents are refused that give an activation a negative energy.
func TestNegativeActivation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := SpecNames()
		s, err := LookupSpec(names[rapid.IntRange(0, len(names)-1).Draw(t, "part")])
		if err != nil || !s.Power.Known() {
			return
		}
		p := &s.Power
		p.IDD0 = rapid.Float64Range(p.IDD2N, 2*p.IDD3N).Draw(t, "IDD0")
		p.BankShare = rapid.Float64Range(0, 1).Draw(t, "share")
		errs := input.Faults(s)
		m := NewEnergyMeter(s, 1)
		m.Record(ACT, Address{}, 0)
		joules := m.Energy(0).ActivateJoules
		if joules < 0 && (len(errs) != 1 || errs[0].Key != "power.IDD0") || joules >= 0 && len(errs) > 0 {
			t.Fatalf("IDD0 %v, share %v: an activation takes %v J, %v", p.IDD0, p.BankShare, joules, errs)
		}
	})
}

// TestManagementTakesEnergy: refresh management occupies its banks as long as their refresh and takes as much energy.
func TestManagementTakesEnergy(t *testing.T) {
	for _, s := range []*Spec{part(t, "ddr5-4800-16gb-x8"), part(t, "ddr5-5600-32gb-x4-fgr")} {
		for refresh, rfm := range map[Command]Command{REF: RFM, REFsb: RFMsb} {
			a, b := NewEnergyMeter(s, 1), NewEnergyMeter(s, 1)
			bank := Address{0, -1, 1, -1, -1}
			if refresh == REF {
				bank = all
			}
			a.Record(refresh, bank, 0)
			b.Record(rfm, bank, 0)
			if x, y := a.Energy(0).RefreshJoules, b.Energy(0).RefreshJoules; x <= 0 || x != y {
				t.Errorf("%s: %v takes %v J, %v %v", s.Name, refresh, x, rfm, y)
			}
		}
	}
}

// TestStack: each die behind the same pins draws the standby, power-down, self-refresh and refresh energy of a single one; commands to one
// bank concern one die. Dies multiply the capacity.
func TestStack(t *testing.T) {
	for _, name := range []string{ddr43200, "ddr5-4800-16gb-x8"} {
		for _, dies := range []int{1, 2, 3, 8} {
			one := part(t, name)
			stack := *one
			stack.Dies = dies
			if errs := input.Faults(&stack); len(errs) > 0 || stack.RankBytes() != one.RankBytes()*units.Bytes(dies) {
				t.Errorf("%s: %d dies hold %v, %v", name, dies, stack.RankBytes(), errs)
			}
			var e [2]Energy
			for i, s := range []*Spec{one, &stack} {
				m := NewEnergyMeter(s, 1)
				for _, r := range []struct {
					clock int64
					cmd   Command
				}{{100, ACT}, {200, RD}, {250, WR}, {400, PDE}, {500, PDX}, {600, PREA}, {700, REF}, {2000, PDE}, {2500, PDX}, {3000, SRE}, {3500, SRX}} {
					a := Address{}
					if r.cmd.AllBank() {
						a = all
					}
					m.Record(r.cmd, a, r.clock)
				}
				e[i] = m.Energy(4000)
			}
			p, more := &one.Power, float64(dies-1)
			// Without an open row, clocks in active standby and active power-down count as precharged.
			closed := float64(p.IDD2N*(4000-100-500-500)) + float64(p.IDD2P*(100+500)) + float64(p.IDD6*500)
			idle := closed * p.VDD * 1e-3 * float64(one.Chips()) * one.TCK.Seconds()
			if e[0].ActivateJoules != e[1].ActivateJoules || e[0].ReadJoules != e[1].ReadJoules || e[0].WriteJoules != e[1].WriteJoules ||
				!near(e[1].RefreshJoules, e[0].RefreshJoules*float64(dies)) || !near(e[1].BackgroundJoules, e[0].BackgroundJoules+float64(more*idle)) {
				t.Errorf("%s: one die %+v, %d dies %+v, each further one %v J idle", name, e[0], dies, e[1], idle)
			}
		}
	}
}
