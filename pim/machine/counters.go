package machine

import "github.com/l3sim/l3sim/dram"

const ops = int(OpReadScale) + 1 // the number of operations

// counters are the counts of a run. All fields are sums, so that skipped repetitions can be added.
type counters struct {
	Commands [dram.WRBUF + 1]int64 // by command
	ops      [ops]int64            // by operation
	open     int64                 // clocks with a row open in any bank
	phases   Phases
}

// Phases divides the clocks of one head, without append, by what the rank waited for, from clock 0 to the head's end.
type Phases struct {
	// Load: activation of the first row and load of q, up to the first MACA.
	Load int64 `json:"load"`
	// Score and Context: tCCD_L for each MACA, plus the time in which bank PUs waited for partial sums and weights on the rank's bus
	// (Stall).
	Score   int64 `json:"score"`
	Context int64 `json:"context"`
	// RowSwitches: precharge and activation between two rows, including the switches from keys to values.
	RowSwitches int64 `json:"row_switches"`
	// Drain: read-out of the context after the last MACA.
	Drain int64 `json:"drain"`
	// ReadOut: the wait of a segment's first context read for read-out and softmax of the last chunk, beyond the row switch.
	ReadOut int64 `json:"readout"`
	// Stall is the part of Score and Context in which the bank PUs were idle.
	Stall int64 `json:"-"`
}

// add adds n times the difference of other and base.
func (c *counters) add(n int64, other, base *counters) {
	for i := range c.Commands {
		c.Commands[i] += n * (other.Commands[i] - base.Commands[i])
	}
	c.open += n * (other.open - base.open)
	for i := range c.ops {
		c.ops[i] += n * (other.ops[i] - base.ops[i])
	}
	p, o, b := &c.phases, &other.phases, &base.phases
	p.Load += n * (o.Load - b.Load)
	p.Score += n * (o.Score - b.Score)
	p.Context += n * (o.Context - b.Context)
	p.RowSwitches += n * (o.RowSwitches - b.RowSwitches)
	p.ReadOut += n * (o.ReadOut - b.ReadOut)
	p.Drain += n * (o.Drain - b.Drain)
	p.Stall += n * (o.Stall - b.Stall)
}

// openBanks tracks which banks have a row open. The rank is open while any bank is.
type openBanks struct {
	banks uint64
	since int64 // clock up to which the time is counted
}

func (m *Machine) bankMask(in *Instruction) uint64 {
	if in.Bank < 0 {
		return 1<<m.Device.Banks() - 1
	}
	return 1 << uint(int(in.Bank)*m.Device.BankGroups+int(in.BankGroup))
}

func (o *openBanks) activate(banks uint64, clock int64) {
	if o.banks == 0 {
		o.since = clock
	}
	o.banks |= banks
}

func (o *openBanks) precharge(banks uint64, c *counters, clock int64) {
	o.add(c, clock)
	o.banks &^= banks
}

// add counts the time until clock.
func (o *openBanks) add(c *counters, clock int64) {
	if o.banks != 0 {
		c.open += clock - o.since
	}
	o.since = clock
}

// headClock tracks the phases of the running head.
type headClock struct {
	lastRead int64 // clock of the latest MACA, -1 before the head's first
	lastOp   Operation
	switched bool // banks were precharged since

	columnGap int64 // tCCD_L, times the number of passes of the multipliers
	reopen    int64 // row switch: from the last MACA of one row to the first of the next
	resultLag int64 // from RDRES to its last beat
	closeLag  int64 // from PREA to banks precharged
}

// reset starts a head, with the program's gaps in clocks.
func (h *headClock) reset(p *Program, d *dram.Spec) {
	*h = headClock{
		lastRead: -1, columnGap: int64(p.multiplierPasses * d.TCCDL),
		reopen:    int64(d.TRTP+d.TRP+d.TRCD) + p.activateSpan,
		resultLag: int64(d.CL + d.BurstClocks()), closeLag: int64(d.TRP),
	}
	if p.RankLevel {
		h.columnGap, h.reopen = int64(p.multiplierPasses*d.TCCDS), int64(d.TRTP+d.TRP+d.TRCD)
	}
}

func (m *Machine) count(in *Instruction, clock int64) {
	m.Counters.Commands[in.Command]++
	m.Counters.ops[in.Op]++
	switch in.Op {
	case OpScore, OpContext:
		m.heads.read(&m.Counters.phases, in.Op, clock)
	case OpActivate:
		m.open.activate(m.bankMask(in), clock+m.Repeats.skipped)
	case OpPrecharge:
		m.open.precharge(m.bankMask(in), &m.Counters, clock+m.Repeats.skipped)
		m.heads.switched = true
		m.done(in, clock+m.heads.closeLag)
	case OpReadContext:
		m.done(in, clock+m.heads.resultLag)
	case OpReadPartials:
		if m.program.Heads[in.Head].Scores {
			m.done(in, clock+m.heads.resultLag)
		}
	case OpReadKey:
		m.heads.read(&m.Counters.phases, OpScore, clock)
		if m.program.Heads[in.Head].Scores {
			m.done(in, clock+m.heads.resultLag)
		}
	case OpReadValue:
		m.heads.read(&m.Counters.phases, OpContext, clock)
		m.done(in, clock+m.heads.resultLag)
	}
}

// read assigns the clocks since the previous MACA to phases.
func (h *headClock) read(p *Phases, op Operation, clock int64) {
	if h.lastRead < 0 {
		p.Load += clock
	} else {
		rest := clock - h.lastRead - h.columnGap
		if h.switched {
			row := min(rest, max(0, h.reopen-h.columnGap))
			p.RowSwitches += row
			if op != h.lastOp {
				p.ReadOut += rest - row
				rest = 0
			} else {
				rest -= row
			}
		}
		p.Stall += rest
		*h.phase(p, op) += rest
	}
	*h.phase(p, op) += h.columnGap
	h.lastRead, h.lastOp, h.switched = clock, op, false
}

func (h *headClock) phase(p *Phases, op Operation) *int64 {
	if op == OpScore {
		return &p.Score
	}
	return &p.Context
}

// done moves the end of the instruction's head to clock.
func (m *Machine) done(in *Instruction, clock int64) {
	clock += m.Repeats.skipped
	if int(in.Head) == len(m.ends) {
		m.ends = append(m.ends, 0)
	}
	end := &m.ends[in.Head]
	*end = max(*end, clock)
}
