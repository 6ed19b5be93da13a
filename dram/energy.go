package dram

import "math/bits"

// Energy is what ranks drew, in joules.
type Energy struct {
	ActivateJoules   float64 // ACT and the PRE that follows it
	ReadJoules       float64 // read bursts, without the bus's termination
	UnitReadJoules   float64 // what banks read for units beside them, as read bursts: an upper bound, see UnitReads
	WriteJoules      float64 // write bursts, without the bus's termination
	RefreshJoules    float64 // refreshes and refresh management
	BackgroundJoules float64 // standby, power-down and self-refresh, see Standby
}

// TotalJoules returns the sum of all parts.
func (e Energy) TotalJoules() float64 {
	return e.ActivateJoules + e.ReadJoules + e.UnitReadJoules + e.WriteJoules + e.RefreshJoules + e.BackgroundJoules
}

// Times returns n times the energy.
func (e Energy) Times(n float64) Energy {
	return Energy{n * e.ActivateJoules, n * e.ReadJoules, n * e.UnitReadJoules, n * e.WriteJoules, n * e.RefreshJoules, n * e.BackgroundJoules}
}

// UnitReads returns the energy where a bank's read for its unit takes a share of one that goes on to the pins.
func (e Energy) UnitReads(share float64) Energy {
	e.UnitReadJoules = float64(e.UnitReadJoules * share)
	return e
}

// Plus returns the sum of two energies.
func (e Energy) Plus(o Energy) Energy {
	return Energy{e.ActivateJoules + o.ActivateJoules, e.ReadJoules + o.ReadJoules, e.UnitReadJoules + o.UnitReadJoules, e.WriteJoules + o.WriteJoules,
		e.RefreshJoules + o.RefreshJoules, e.BackgroundJoules + o.BackgroundJoules}
}

// EnergyMeter counts the energy of commands, by the method of Micron's TN-40-07,
// "Calculating Memory Power for DDR4 SDRAM": each command costs its current
// above the standby that lasts meanwhile, times VDD and its duration; standby, power-down or
// self-refresh is added for the whole time. All dies of a rank count. What open banks add to standby is DRAMPower's
// (see PowerSpec.BankShare). The word-line supply VPP (about 7.5 mW a chip) is not modelled, nor the termination of the
// data bus, which the board decides. Without currents all energy is 0: see PowerSpec.Known.
//
// Commands of several banks count their banks: ACTA as one ACT a bank and MACA, apart from other reads, as one
// read burst a bank: an upper bound since its data does not reach the pins (Energy.UnitReads).
// RDRES and WRBUF move bursts on the rank's bus. They count as RD and WR.
type EnergyMeter struct {
	spec      *Spec
	table     *Standard
	counts    [Slots]int64
	recovery  [Slots]int64 // steps from RDA and WRA to their precharge
	ranks     []rankStandby
	perPseudo int     // ranks of a pseudo-channel
	opened    []int64 // clock of the last ACT of each bank, over all ranks
	closed    []int64 // clock at which each bank last closed, which for an auto-precharge lies ahead
}

// rankStandby tracks how long a rank has had rows open.
type rankStandby struct {
	open   uint64 // banks with an open row
	since  int64  // clock from which on they are not in active
	until  int64  // clock at which the last auto-precharge begins
	active int64  // clocks with a row open before since
	banks  int64  // sum over the banks of the clocks for which a row was open in each, until it closed
	low    lowPower
}

// NewEnergyMeter returns the meter of ranks ranks at clock 0, all precharged.
func NewEnergyMeter(spec *Spec, ranks int) *EnergyMeter {
	m := &EnergyMeter{spec: spec, table: spec.table(), ranks: make([]rankStandby, ranks), perPseudo: max(1, ranks/spec.table().PseudoChannels),
		opened: make([]int64, ranks*spec.Banks()), closed: make([]int64, ranks*spec.Banks())}
	m.recovery[RDA], m.recovery[WRA] = spec.BusSteps(spec.TRTP), spec.BusSteps(spec.WriteRecovery())
	return m
}

// Add counts n commands that leave the open banks as they are.
func (m *EnergyMeter) Add(cmd Command, n int64) { m.counts[cmd] += n }

// Record counts one command. Commands of a rank come in the order of their clocks.
func (m *EnergyMeter) Record(cmd Command, a Address, clock int64) {
	m.counts[cmd&(Slots-1)]++
	action := &m.table.commands[cmd]
	switch action.Leaves {
	case Open:
		m.open(int(a.Rank), m.banks(action.Span, a), clock)
	case Closed:
		if cmd == RDA || cmd == WRA {
			m.autoPrecharge(cmd, a, clock)
			break
		}
		for r, end := action.Span.ranks(m.perPseudo, a.Rank); r < end; r++ {
			m.close(r, m.banks(action.Span, a), clock)
		}
	default:
		for r, end := action.Span.ranks(m.perPseudo, a.Rank); r < end && cmd >= PDE && cmd <= SRX; r++ {
			m.ranks[r].power(cmd, clock)
		}
	}
}

func (m *EnergyMeter) banks(span Span, a Address) uint64 {
	switch span {
	case OneBank:
		return 1 << uint(int(a.BankGroup)*m.spec.BanksPerGroup+int(a.Bank))
	case WholeRank, WholeChannel:
		return ^uint64(0) >> (64 - m.spec.Banks())
	}
	var banks uint64
	bank, stride, end := m.spec.spanned(span, a)
	for ; bank < end; bank += stride {
		banks |= 1 << bank
	}
	return banks
}

// open notes when banks opened: their currents count from there until they close.
func (m *EnergyMeter) open(rank int, banks uint64, clock int64) {
	r := &m.ranks[rank]
	if r.open == 0 {
		r.since = max(clock, r.until) // auto-precharges under way count already
	}
	r.open |= banks
	opened := m.opened[rank*m.spec.Banks():]
	for b := banks; b != 0; b &= b - 1 {
		opened[bits.TrailingZeros64(b)] = clock
	}
}

// autoPrecharge closes a's bank: the device begins the precharge when an explicit one could,
// and not before tRAS is over.
func (m *EnergyMeter) autoPrecharge(cmd Command, a Address, clock int64) {
	clock += m.recovery[cmd&(Slots-1)]
	bank := m.banks(OneBank, a)
	opened := m.opened[int(a.Rank)*m.spec.Banks()+bits.TrailingZeros64(bank)]
	m.close(int(a.Rank), bank, max(clock, opened+m.spec.BusSteps(m.spec.TRAS)))
}

// close takes banks out at the given clock, which for an auto-precharge lies ahead of the commands.
func (m *EnergyMeter) close(rank int, banks uint64, clock int64) {
	r := &m.ranks[rank]
	if banks &= r.open; banks == 0 {
		return
	}
	r.until = max(r.until, clock)
	r.open &^= banks
	base := rank * m.spec.Banks()
	for b := banks; b != 0; b &= b - 1 {
		bank := base + bits.TrailingZeros64(b)
		m.closed[bank] = clock
		r.banks += clock - m.opened[bank]
	}
	if r.open == 0 {
		r.active += max(0, r.until-r.since)
	}
}

// Energy returns the energy of all commands until now and of standby until clock end.
func (m *EnergyMeter) Energy(end int64) Energy {
	s, p := m.spec, &m.spec.Power
	unit := s.joules()
	read := unit * (p.IDD4R - p.IDD3N) * float64(s.BurstClocks())
	write := unit * (p.IDD4W - p.IDD3N) * float64(s.BurstClocks())

	var acts, reads, unitReads, writes int64
	var refreshes float64
	for c, n := range m.counts[:Commands] {
		a, cmd := &m.table.commands[c], Command(c)
		switch {
		case a.Leaves == Open:
			acts += n * m.concerned(a.Span)
		case cmd.IsRead():
			reads += n
		case cmd == MACA:
			unitReads += n * m.concerned(a.Span)
		case cmd.IsWrite():
			writes += n
		case m.table.refreshes(cmd): // each bank costs the same, however few refresh at once
			refreshes += float64(float64(n) * (float64(m.concerned(a.Span)) / float64(s.Banks())))
		}
	}
	e := Energy{
		ActivateJoules: unit * s.activation() * float64(acts),
		ReadJoules:     read * float64(reads),
		UnitReadJoules: read * float64(unitReads),
		WriteJoules:    write * float64(writes),
		// A rank is precharged while it refreshes: its standby is IDD2N. All dies of a stack refresh.
		RefreshJoules: unit * (p.IDD5B - p.IDD2N) * float64(s.TRFC) * refreshes * float64(s.Stack()),
	}
	for i := range m.ranks {
		for state, steps := range m.Standby(i, end) {
			e.BackgroundJoules += s.StandbyJoules(Standby(state), steps, m.OpenBanks(i, end))
		}
	}
	return e
}

// activation returns what ACT and the PRE that follows it take beyond standby with the bank open, in mA of a chip times
// clocks: IDD0 is that of one bank opened every tRC.
func (s *Spec) activation() float64 {
	p := &s.Power
	closed := float64(p.IDD2N * float64(s.TRC-s.TRAS))
	return float64(p.IDD0*float64(s.TRC)) - float64(p.open(1, s.Banks())*float64(s.TRAS)) - closed
}

// concerned returns the banks that a command of that span concerns.
func (m *EnergyMeter) concerned(span Span) int64 {
	switch span {
	case OneBank:
		return 1
	case BankPair:
		return 2
	case SameBanks:
		return int64(m.spec.BankGroups)
	case WholeChannel:
		return int64(m.spec.Banks() * m.perPseudo)
	}
	return int64(m.spec.Banks())
}
