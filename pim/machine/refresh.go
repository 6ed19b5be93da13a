package machine

import (
	"fmt"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
)

// refreshManager is the buffer unit's refresh manager (L3, section 4.4), which owes one REF every tREFI. It issues REFs where all banks are
// closed anyway: between two heads or two rows. At each such boundary it issues the REFs that keep the debt within the limit until the next
// boundary. Before a head it plans as if the head had no row boundaries, so that it interrupts a head only when necessary.
type refreshManager struct {
	On       bool
	limit    int64 // largest number of postponed REFs
	ahead    int64 // REFs that may be pulled in; needed only if a row takes longer than tREFI times the limit
	interval int64 // tREFI

	done    int64 // REFs issued
	pending int64 // REFs to issue before the bank sequencer's next instruction
	checked bool  // pending has been decided for that instruction
	maxDebt int64
}

func (r *refreshManager) Init(spec *pim.Spec, d *dram.Spec) {
	rules := d.Rules()
	r.limit, r.interval = int64(min(spec.PostponedRefreshes, rules.Postpone)), int64(d.TREFI)
	r.ahead = int64(rules.PullIn)
}

func (r *refreshManager) reset() {
	r.done, r.pending, r.checked, r.maxDebt = 0, 0, false, 0
}

// due decides, once at each boundary, how many REFs precede the bank sequencer's next instruction, and reports whether any is left.
func (r *refreshManager) due(m *Machine) bool {
	if r.checked {
		return r.pending > 0
	}
	r.checked = true
	in := m.queues[BankSequencer].front()
	if in.boundary == noBoundary {
		return false
	}
	at := max(m.free, m.state.Earliest(dram.REF, allBankAddress))
	r.pending = r.toPay(at, r.owed(at), m.program.boundarySpan(in, false), m.program.boundarySpan(in, true))
	return r.pending > 0
}

// owed returns the REFs owed at clock.
func (r *refreshManager) owed(clock int64) int64 { return clock/r.interval - r.done }

func (r *refreshManager) pay(clock int64) {
	r.maxDebt = max(r.maxDebt, r.owed(clock))
	r.done++
}

// late refuses a run, ending at clock end, in which more REFs were owed than the standard allows: the bounds of rows were wrong.
func (r *refreshManager) late(end int64, d *dram.Spec, queries int) error {
	rules := d.Rules()
	most := max(r.maxDebt, r.owed(end))
	if most <= int64(rules.Postpone) {
		return nil
	}
	return &input.Error{Key: "dram.tREFI", Value: fmt.Sprint(d.TREFI), Expected: fmt.Sprintf(
		"more clocks: with %d query heads the rank came to owe %d REFs before its banks closed, and %s lets %d wait; or fewer query heads, or more sets of multipliers (pim.macs_per_read)", queries, most, rules.Name, rules.Postpone), OtherKeys: []string{"pim.macs_per_read"}}
}

// toPay returns the REFs to issue at clock so that the debt stays within the limit over the next row and, if one payment suffices for that,
// over the whole head.
func (r *refreshManager) toPay(clock, owed, row, head int64) int64 {
	over := func(span int64) int64 { return owed + (clock%r.interval+span)/r.interval - r.limit }
	if n := over(head); n <= owed {
		return max(n, 0)
	}
	return max(min(over(row), owed+r.ahead), 0) // fewer if some were pulled in already
}

// allBankAddress is the address of commands to the whole rank.
var allBankAddress = dram.Address{BankGroup: -1, Bank: -1, Row: -1, Column: -1}

// refreshReady returns a bound on the clock of the next REF: after the read-out of results that are ready, since nothing else may issue
// within tRFC.
func (m *Machine) refreshReady() int64 {
	if t := m.ready(ResultSequencer); t < blocked {
		return t + 1
	}
	return max(m.free, m.state.Earliest(dram.REF, allBankAddress))
}

func (m *Machine) issueRefresh(clock int64) {
	m.Refresh.pay(clock)
	m.state.Issue(dram.REF, allBankAddress, clock)
	m.Refresh.pending--
	m.take(dram.REF, clock)
	m.Counters.Commands[dram.REF]++
	if m.Observe != nil {
		m.Observe(clock, dram.REF, allBankAddress, nil)
	}
}
