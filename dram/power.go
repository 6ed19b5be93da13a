package dram

import (
	"math/bits"
	"slices"

	"github.com/l3sim/l3sim/input"
)

// PowerSpec is the supply voltage and the currents of one chip, in milliamperes, with the names of JESD79-4C, "IDD and IDDQ Specification
// Parameters". All are 0 if no data sheet publishes them. Those of power-down and self-refresh are 0 if it publishes only the others.
type PowerSpec struct {
	VDD   float64 `toml:"VDD"`   // volts
	IDD0  float64 `toml:"IDD0"`  // one bank: ACT to PRE at tRC
	IDD2N float64 `toml:"IDD2N"` // all banks precharged, clock running
	IDD2P float64 `toml:"IDD2P"` // all banks precharged, power-down
	IDD3N float64 `toml:"IDD3N"` // banks active, clock running
	IDD3P float64 `toml:"IDD3P"` // banks active, power-down
	IDD4R float64 `toml:"IDD4R"` // read bursts back to back
	IDD4W float64 `toml:"IDD4W"` // write bursts back to back
	IDD5B float64 `toml:"IDD5B"` // REFs back to back at tRFC
	IDD6  float64 `toml:"IDD6"`  // self-refresh in the normal range of temperature (IDD6N)
	// BankShare is the share of IDD3N - IDD2N that is proportional to the number of open banks; the rest flows as soon as one is open. Data
	// sheets measure IDD3N with all banks open and IDD0 with one. BankShare is 1 − ρ of DRAMPower (Mathew et al., "A New Bank Sensitive
	// DRAMPower Model for Efficient Design Space Exploration", PATMOS 2016); 0 is Micron's TN-40-07.
	BankShare float64 `toml:"bank_share"`
}

// Known reports whether the currents are known. Without them all energy is 0.
func (p *PowerSpec) Known() bool { return p.VDD > 0 }

// NotKnown names, for messages, the part whose energy is unknown; "" if it is known.
func (s *Spec) NotKnown() string {
	if s.Power.Known() {
		return ""
	}
	return "no currents of " + s.Name + " are published"
}

// open returns the standby current of a chip with rows open in some banks, in mA.
func (p *PowerSpec) open(open float64, banks int) float64 {
	shared := float64(p.BankShare * (p.IDD3N - p.IDD2N))
	return p.IDD3N - shared + float64(shared*open/float64(banks))
}

// Check has the rules of the section [dram.power].
func (p *PowerSpec) Check(c *input.Check) {
	if *p == (PowerSpec{}) && c.OK() {
		return // currents are unknown
	}
	c.That(p.BankShare >= 0 && p.BankShare <= 1, "bank_share", p.BankShare, "a share, 0 to 1")
	c.That(p.VDD > 0 && p.VDD <= 10, "VDD", p.VDD, "volts, above 0 to 10")
	current := func(key string, v, low float64) {
		c.That(v >= low && v <= 1e5, key, v, "milliamperes, %v to 100000", low)
	}
	current("IDD0", p.IDD0, p.IDD2N)
	current("IDD2N", p.IDD2N, 0)
	current("IDD3N", p.IDD3N, p.IDD2N)
	current("IDD4R", p.IDD4R, p.IDD3N)
	current("IDD4W", p.IDD4W, p.IDD3N)
	current("IDD5B", p.IDD5B, p.IDD2N)
	current("IDD6", p.IDD6, 0)
	c.That(p.IDD2P >= 0 && p.IDD2P <= p.IDD2N, "IDD2P", p.IDD2P, "milliamperes, 0 (not known) to %s = %v", input.Key("IDD2N"), p.IDD2N)
	c.That(p.IDD3P >= 0 && p.IDD3P <= p.IDD3N, "IDD3P", p.IDD3P, "milliamperes, 0 (not known) to %s = %v", input.Key("IDD3N"), p.IDD3N)
}

// Standby is the state of a rank without commands.
type Standby int

// The states of a rank.
const (
	ActiveStandby       Standby = iota // a row open, clock running: IDD3N
	PrechargedStandby                  // all closed, clock running: IDD2N
	ActivePowerDown                    // IDD3P
	PrechargedPowerDown                // IDD2P
	SelfRefresh                        // IDD6, the refreshes included
	Standbys            = iota         // their number
)

// Current returns the current of one chip in a state, in mA. If the table has no current of power-down or self-refresh, it returns that of
// the corresponding standby, and known is false.
func (p *PowerSpec) Current(s Standby) (mA float64, known bool) {
	saves := [Standbys]float64{p.IDD3N, p.IDD2N, p.IDD3P, p.IDD2P, p.IDD6}[s]
	if saves > 0 || s <= PrechargedStandby {
		return saves, saves > 0
	}
	if s == ActivePowerDown {
		return p.IDD3N, false
	}
	return p.IDD2N, false
}

// StandbyClocks is the number of steps that a rank has spent in each state.
type StandbyClocks [Standbys]int64

// lowPower tracks one rank's power-down and self-refresh.
type lowPower struct {
	down  bool
	state Standby
	since int64 // step at which the current state began
	steps StandbyClocks
	times [Standbys]int64 // number of entries
	banks int64           // steps in power-down, summed over the banks with an open row
}

// until returns the steps in each state until end; those of standby are 0.
func (l *lowPower) until(end int64) StandbyClocks {
	steps := l.steps
	if l.down {
		steps[l.state] += max(0, end-l.since)
	}
	return steps
}

// power records PDE, PDX, SRE or SRX for a rank.
func (r *rankStandby) power(cmd Command, clock int64) {
	l := &r.low
	if l.down && l.state == ActivePowerDown {
		l.banks += max(0, clock-l.since) * int64(bits.OnesCount64(r.open))
	}
	l.steps, l.down, l.since = l.until(clock), cmd == PDE || cmd == SRE, clock
	switch {
	case !l.down:
		return
	case cmd == SRE:
		l.state = SelfRefresh
	case r.open != 0:
		l.state = ActivePowerDown
	default:
		l.state = PrechargedPowerDown
	}
	l.times[l.state]++
}

// Entries returns how often a rank has entered each state of power-down and self-refresh.
func (m *EnergyMeter) Entries(rank int) [Standbys]int64 { return m.ranks[rank].low.times }

// Standby returns the steps until end that a rank has spent in each state.
func (m *EnergyMeter) Standby(rank int, end int64) StandbyClocks {
	r := &m.ranks[rank]
	active := r.active
	if r.open != 0 {
		active += max(0, end-r.since)
	} else { // an auto-precharge may begin after end
		active -= max(0, min(r.until-end, r.until-r.since))
	}
	steps := r.low.until(end)
	steps[ActiveStandby] = active - steps[ActivePowerDown]
	steps[PrechargedStandby] = end - active - steps[PrechargedPowerDown] - steps[SelfRefresh]
	return steps
}

// OpenBanks returns the steps until end with a row open, summed over a rank's banks, without power-down.
func (m *EnergyMeter) OpenBanks(rank int, end int64) int64 {
	r, base := &m.ranks[rank], rank*m.spec.Banks()
	sum := r.banks - r.low.banks
	if r.low.down && r.low.state == ActivePowerDown {
		sum -= max(0, end-r.low.since) * int64(bits.OnesCount64(r.open))
	}
	for bank := range m.spec.Banks() {
		if r.open>>bank&1 != 0 {
			sum += max(0, end-m.opened[base+bank])
		} else { // an auto-precharge may begin after end
			sum -= max(0, m.closed[base+bank]-max(end, m.opened[base+bank]))
		}
	}
	return sum
}

// StandbyJoules returns the joules that a rank draws in a state over the given steps. openBanks is EnergyMeter.OpenBanks, and counts only
// in states with rows open.
func (s *Spec) StandbyJoules(state Standby, steps, openBanks int64) float64 {
	p := &s.Power
	mA, _ := p.Current(state)
	drawn := float64(mA * float64(steps)) // mA times steps
	if state == ActiveStandby {
		drawn = float64(p.open(0, 1)*float64(steps)) + float64((p.open(1, s.Banks())-p.open(0, 1))*float64(openBanks))
	}
	switch state { // for the dies of a stack without an open row
	case ActiveStandby:
		mA = p.IDD2N
	case ActivePowerDown:
		mA, _ = p.Current(PrechargedPowerDown)
	}
	drawn += float64(mA * float64(steps) * float64(s.Stack()-1))
	return s.joules() * drawn / float64(s.table().StepsPerClock)
}

// joules returns the energy of one milliampere through a die at each position of a rank, over one clock.
func (s *Spec) joules() float64 {
	return s.Power.VDD * 1e-3 * float64(s.Devices()) * s.TCK.Seconds()
}

// Clone returns an independent copy of the meter.
func (m *EnergyMeter) Clone() *EnergyMeter {
	c := *m
	c.ranks, c.opened, c.closed = slices.Clone(m.ranks), slices.Clone(m.opened), slices.Clone(m.closed)
	return &c
}

// Repeat counts everything since an earlier copy of the meter n more times, as if it went on repeating. The copy was made at step from; the
// meter is at step to. All banks must be closed at both steps, and the ranks in the same states.
func (m *EnergyMeter) Repeat(earlier *EnergyMeter, from, to, n int64) {
	for c := range m.counts {
		m.counts[c] += n * (m.counts[c] - earlier.counts[c])
	}
	for i := range m.ranks {
		low, before := &m.ranks[i].low, &earlier.ranks[i].low
		now, was := low.until(to), before.until(from)
		low.since += n * (to - from)
		for s := range now {
			low.steps[s] += n * (now[s] - was[s])
			low.times[s] += n * (low.times[s] - before.times[s])
		}
	}
}
