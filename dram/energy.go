package dram

import "math/bits"

// Energy is the energy that ranks drew, in joules.
type Energy struct {
	ActivateJoules   float64 // ACT and the PRE that follows it
	ReadJoules       float64 // read bursts, without the bus's termination
	UnitReadJoules   float64 // banks' reads for their processing units, as read bursts: an upper bound, see UnitReads
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

// UnitReads returns the energy when a bank's read for its unit takes only a share of a read to the pins.
func (e Energy) UnitReads(share float64) Energy {
	e.UnitReadJoules = float64(e.UnitReadJoules * share)
	return e
}

// Plus returns the sum of two energies.
func (e Energy) Plus(o Energy) Energy {
	return Energy{e.ActivateJoules + o.ActivateJoules, e.ReadJoules + o.ReadJoules, e.UnitReadJoules + o.UnitReadJoules, e.WriteJoules + o.WriteJoules,
		e.RefreshJoules + o.RefreshJoules, e.BackgroundJoules + o.BackgroundJoules}
}

// EnergyMeter counts the energy of commands with the method of Micron's TN-40-07, "Calculating Memory Power for DDR4 SDRAM". Each command
// costs its current above standby, times VDD and its duration. Standby, power-down or self-refresh is added for the whole time. All dies of
// a rank count. The additional standby current of open banks follows DRAMPower (see PowerSpec.BankShare). The word-line supply VPP (about
// 7.5 mW a chip) is not modelled, nor the termination of the data bus, which depends on the board. Without currents all energy is 0: see
// PowerSpec.Known.
//
// Commands of several banks count each bank: ACTA as one ACT a bank, and MACA, counted separately, as one read burst a bank. That is an
// upper bound, since its data does not reach the pins (Energy.UnitReads). RDRES and WRBUF move bursts on the rank's bus, and count as RD
// and WR.
type EnergyMeter struct {
	spec      *Spec
	table     *Standard
	counts    [Slots]int64
	recovery  [Slots]int64 // steps from RDA and WRA to their precharge
	ranks     []rankStandby
	perPseudo int     // ranks of a pseudo-channel
	opened    []int64 // clock of the last ACT of each bank, over all ranks
	closed    []int64 // clock at which each bank last closed; in the future for an auto-precharge
}

// rankStandby tracks how long a rank has had rows open.
type rankStandby struct {
	open   uint64 // banks with an open row
	since  int64  // clock from which the open time is not yet in active
	until  int64  // clock at which the last auto-precharge begins
	active int64  // clocks before since with a row open
	banks  int64  // sum over the banks of the clocks with a row open, up to their closing
	low    lowPower
}

// NewEnergyMeter returns the meter of ranks ranks at clock 0, all precharged.
func NewEnergyMeter(spec *Spec, ranks int) *EnergyMeter {
	m := &EnergyMeter{spec: spec, table: spec.table(), ranks: make([]rankStandby, ranks), perPseudo: max(1, ranks/spec.table().PseudoChannels),
		opened: make([]int64, ranks*spec.Banks()), closed: make([]int64, ranks*spec.Banks())}
	m.recovery[RDA], m.recovery[WRA] = spec.BusSteps(spec.TRTP), spec.BusSteps(spec.WriteRecovery())
	return m
}

// Add counts n commands that do not open or close banks.
func (m *EnergyMeter) Add(cmd Command, n int64) { m.counts[cmd] += n }

// Record counts one command. Commands of a rank must come in the order of their clocks.
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

// open records the opening of banks, whose current counts until they close.
func (m *EnergyMeter) open(rank int, banks uint64, clock int64) {
	r := &m.ranks[rank]
	if r.open == 0 {
		r.since = max(clock, r.until) // time until the last auto-precharge is counted already
	}
	r.open |= banks
	opened := m.opened[rank*m.spec.Banks():]
	for b := banks; b != 0; b &= b - 1 {
		opened[bits.TrailingZeros64(b)] = clock
	}
}

// autoPrecharge closes a's bank. The device begins the precharge as early as an explicit one could, but not before tRAS has passed.
func (m *EnergyMeter) autoPrecharge(cmd Command, a Address, clock int64) {
	clock += m.recovery[cmd&(Slots-1)]
	bank := m.banks(OneBank, a)
	opened := m.opened[int(a.Rank)*m.spec.Banks()+bits.TrailingZeros64(bank)]
	m.close(int(a.Rank), bank, max(clock, opened+m.spec.BusSteps(m.spec.TRAS)))
}

// close closes banks at the given clock, which may be in the future for an auto-precharge.
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

// Energy returns the energy of all commands so far, and of standby until clock end.
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
		case m.table.refreshes(cmd): // each bank costs the same, however few refresh together
			refreshes += float64(float64(n) * (float64(m.concerned(a.Span)) / float64(s.Banks())))
		}
	}
	e := Energy{
		ActivateJoules: unit * s.activation() * float64(acts),
		ReadJoules:     read * float64(reads),
		UnitReadJoules: read * float64(unitReads),
		WriteJoules:    write * float64(writes),
		// A refreshing rank is precharged, so its standby is IDD2N. All dies of a stack refresh.
		RefreshJoules: unit * (p.IDD5B - p.IDD2N) * float64(s.TRFC) * refreshes * float64(s.Stack()),
	}
	for i := range m.ranks {
		for state, steps := range m.Standby(i, end) {
			e.BackgroundJoules += s.StandbyJoules(Standby(state), steps, m.OpenBanks(i, end))
		}
	}
	return e
}

// activation returns the charge of ACT and the following PRE beyond standby with the bank open, in mA of a chip times clocks. IDD0 is the
// current of one bank opened every tRC.
func (s *Spec) activation() float64 {
	p := &s.Power
	closed := float64(p.IDD2N * float64(s.TRC-s.TRAS))
	return float64(p.IDD0*float64(s.TRC)) - float64(p.open(1, s.Banks())*float64(s.TRAS)) - closed
}

// concerned returns the number of banks in a span.
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
