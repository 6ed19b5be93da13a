package check

import (
	"fmt"
	"io"
	"math"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// Violation is a broken rule of a command log.
type Violation struct {
	Rule string
	// First is the earlier command that the rule relates Second to; its clock is
	// -1 if the rule concerns Second alone.
	First, Second    Record
	Required, Actual int64 // clocks from First to Second; 0 for a rule of state
	Detail           string
}

// The rules that are no timing of the standard's tables.
const (
	ruleAddress    = "address"     // a part of the address lies outside the device
	ruleState      = "bank state"  // the command does not suit the bank: dram.RD without open row, ACT with one, REF with any
	ruleRow        = "row"         // a column access names another row than the open one
	ruleCommandBus = "command bus" // more than one command a clock
	ruleBurst      = "burst"       // two bursts meet on the data bus
	ruleDebt       = "refresh debt"
	rulePullIn     = "refresh pull-in"
)

// RuleNames returns the names of all rules that the checker knows, as its
// violations and a log's waivers name them.
func RuleNames() []string {
	return []string{"tRCD", "tRP", "tRAS", "tRC", "tRRD_S", "tRRD_L", "tFAW", "tCCD_S", "tCCD_L", "tRTP", "tWR",
		"tWTR_S", "tWTR_L", "tRTW", "tWPRE", "tRTRS", "tRFC", "tRTP+tRP", "tWR+tRP",
		ruleAddress, ruleState, ruleRow, ruleCommandBus, ruleBurst, ruleDebt, rulePullIn}
}

// Checker reads the commands of one channel in order and finds every broken
// rule. It shares nothing but the Spec with State and Controller: what the
// standard asks for is written here a second time, as distances between pairs
// of commands, and every command is compared with the latest ones of each kind.
type Checker struct {
	spec         *dram.Spec
	ranks        []rankHistory
	channelBus   bus
	privateBuses bool
	found        []Violation
	nextDebt     int64 // first clock at which some rank may owe too many REFs
}

// never is a clock so early that no rule reaches from it.
const never = math.MinInt64 / 2

// history is the latest record of each command. The clock of a command that has not
// issued is never.
type history [dram.Commands]Record

func newHistory() history {
	var h history
	for i := range h {
		h[i].Clock = never
	}
	return h
}

// rankHistory is the state of one rank that the rules need.
type rankHistory struct {
	rank      history
	groups    []history
	banks     []history
	rows      []int32 // open row by bank, -1
	acts      [4]int64
	actCount  int
	refreshes int64
	indebted  bool
	bus       bus
}

// burst is one transfer on a data bus.
type burst struct {
	start, end int64
	record     Record
}

// bus is a command bus and the data bus beside it.
type bus struct {
	last   Record
	bursts [8]burst // the latest, in a ring: reads and writes overtake each other by CL - CWL at most
	next   int
}

// NewChecker returns the checker of one channel with all banks precharged.
func NewChecker(spec *dram.Spec, ranks int, privateBuses bool) *Checker {
	c := &Checker{spec: spec, ranks: make([]rankHistory, ranks), privateBuses: privateBuses,
		nextDebt: int64(dram.MaxRefreshDebt+1) * int64(spec.TREFI)}
	c.channelBus = newBus()
	for i := range c.ranks {
		r := &c.ranks[i]
		r.rank, r.bus = newHistory(), newBus()
		for range spec.BankGroups {
			r.groups = append(r.groups, newHistory())
		}
		for range spec.Banks() {
			r.banks = append(r.banks, newHistory())
			r.rows = append(r.rows, -1)
		}
		r.acts = [4]int64{never, never, never, never}
	}
	return c
}

func newBus() bus {
	b := bus{last: Record{Clock: never}}
	for i := range b.bursts {
		b.bursts[i].start, b.bursts[i].end = never, never
	}
	return b
}

// maxViolations bounds what Log holds in memory.
const maxViolations = 1_000_000

// ErrManyViolations says that a log was not read to its end.
var ErrManyViolations = fmt.Errorf("more than %d violations, the rest of the log is not checked", maxViolations)

// Log reads a whole log and returns its violations in order. The log's own
// declarations go before spec and ranks. The error is that of the log's text, or
// ErrManyViolations beyond a million of them.
func Log(l *LogReader, spec *dram.Spec, ranks int) ([]Violation, error) {
	return checkLog(l, spec, ranks, maxViolations)
}

func checkLog(l *LogReader, spec *dram.Spec, ranks, most int) ([]Violation, error) {
	if l.Header.Spec != nil {
		spec = l.Header.Spec
	}
	if l.Header.Ranks > 0 {
		ranks = l.Header.Ranks
	}
	c := NewChecker(spec, ranks, l.Header.PrivateBuses)
	for {
		r, err := l.Next()
		if err == io.EOF {
			return c.found, nil
		}
		if err != nil {
			return c.found, err
		}
		c.Check(r)
		if len(c.found) > most {
			return c.found, ErrManyViolations
		}
	}
}

// KnownRules returns an input error for the first of names that is no rule.
func KnownRules(key string, names []string) error {
	known := map[string]bool{}
	for _, r := range RuleNames() {
		known[r] = true
	}
	for _, n := range names {
		if !known[n] {
			return input.UnknownName(key, n, RuleNames())
		}
	}
	return nil
}

// Violations returns what has been found so far.
func (c *Checker) Violations() []Violation { return c.found }

// report appends a violation without an earlier command.
func (c *Checker) report(rule string, r Record, detail string) {
	c.found = append(c.found, Violation{Rule: rule, First: Record{Clock: -1}, Second: r, Detail: detail})
}

// Check takes the next command; clocks must not go backwards.
func (c *Checker) Check(r Record) {
	if !c.inRange(r) {
		c.report(ruleAddress, r, "outside the device")
		return
	}
	rank := &c.ranks[r.Address.Rank]
	c.checkDebt(r)
	c.checkBuses(rank, r)
	c.checkState(rank, r)
	c.checkDistances(rank, r)
	c.checkWindow(rank, r)
	c.remember(rank, r)
}

// inRange reports whether the parts of the address that the command uses lie
// within the device. Row and column may be absent.
func (c *Checker) inRange(r Record) bool {
	a, s := r.Address, c.spec
	within := func(v int32, n int) bool { return v >= 0 && int(v) < n }
	if !within(a.Rank, len(c.ranks)) || int(a.Row) >= s.Rows || int(a.Column) >= s.RowBursts() {
		return false
	}
	if r.Command == dram.ACT || r.Command == dram.ACTA {
		if a.Row < 0 {
			return false
		}
	}
	return r.Command.AllBank() || within(a.BankGroup, s.BankGroups) && within(a.Bank, s.BanksPerGroup)
}

// checkDebt finds ranks whose postponed REFs exceed what the standard allows,
// counted from clock 0.
func (c *Checker) checkDebt(r Record) {
	if r.Clock < c.nextDebt {
		return
	}
	refi := int64(c.spec.TREFI)
	c.nextDebt = math.MaxInt64
	for i := range c.ranks {
		k := &c.ranks[i]
		limit := (k.refreshes + dram.MaxRefreshDebt + 1) * refi
		late := r.Clock >= limit
		if late && !k.indebted {
			c.report(ruleDebt, r, fmt.Sprintf("rank %d owes %d REFs, at most %d may be postponed", i, r.Clock/refi-k.refreshes, dram.MaxRefreshDebt))
		}
		k.indebted = late
		if !late {
			c.nextDebt = min(c.nextDebt, limit)
		}
	}
}

// checkBuses: one command a clock, and no two bursts at once, with the gap of a
// rank switch between those of different ranks.
func (c *Checker) checkBuses(rank *rankHistory, r Record) {
	b := &c.channelBus
	if c.privateBuses {
		b = &rank.bus
	}
	if b.last.Clock == r.Clock {
		c.found = append(c.found, Violation{ruleCommandBus, b.last, r, 1, 0, ""})
	}
	b.last = r
	latency := c.spec.CL
	if r.Command.IsWrite() {
		latency = c.spec.CWL
	} else if !r.Command.IsRead() {
		return
	}
	n := burst{start: r.Clock + int64(latency), record: r}
	n.end = n.start + int64(c.spec.BurstLength/2)
	for i := range b.bursts {
		o := &b.bursts[i]
		gap, rule := int64(0), ruleBurst
		if o.record.Address.Rank != r.Address.Rank && (n.start >= o.end || o.start >= n.end) {
			gap, rule = int64(c.spec.TRTRS), "tRTRS"
		}
		if n.start < o.end+gap && o.start < n.end+gap {
			// The distance at which the new burst would follow the old one.
			required := o.end + gap - n.start + r.Clock - o.record.Clock
			c.found = append(c.found, Violation{rule, o.record, r, required, r.Clock - o.record.Clock, "bursts on the data bus"})
			break
		}
	}
	b.bursts[b.next] = n
	b.next = (b.next + 1) % len(b.bursts)
}

// checkState: the command must suit the banks that it concerns.
func (c *Checker) checkState(rank *rankHistory, r Record) {
	bank := c.bank(r)
	switch r.Command {
	case dram.ACT:
		if rank.rows[bank] >= 0 {
			c.found = append(c.found, Violation{Rule: ruleState, First: c.opener(rank, bank), Second: r, Detail: "the bank has a row open"})
		}
	case dram.RD, dram.RDA, dram.WR, dram.WRA:
		c.checkOpen(rank, bank, r)
	case dram.MACA:
		for b := range rank.rows {
			if !c.checkOpen(rank, b, r) {
				return
			}
		}
	case dram.ACTA, dram.REF:
		for b, row := range rank.rows {
			if row >= 0 {
				c.found = append(c.found, Violation{Rule: ruleState, First: c.opener(rank, b), Second: r,
					Detail: fmt.Sprintf("bank %d of bank group %d has a row open", b%c.spec.BanksPerGroup, b/c.spec.BanksPerGroup)})
				return
			}
		}
	}
}

// checkOpen: bank must have the row of r open.
func (c *Checker) checkOpen(rank *rankHistory, bank int, r Record) bool {
	switch row := rank.rows[bank]; {
	case row < 0:
		c.report(ruleState, r, fmt.Sprintf("bank %d of bank group %d has no row open", bank%c.spec.BanksPerGroup, bank/c.spec.BanksPerGroup))
		return false
	case r.Address.Row >= 0 && r.Address.Row != row:
		c.found = append(c.found, Violation{Rule: ruleRow, First: c.opener(rank, bank), Second: r,
			Detail: fmt.Sprintf("row %d is open", row)})
		return false
	}
	return true
}

// opener returns the command that opened the bank's row.
func (c *Checker) opener(rank *rankHistory, bank int) Record {
	if act := rank.banks[bank][dram.ACT]; act.Clock >= rank.rank[dram.ACTA].Clock {
		return act
	}
	return rank.rank[dram.ACTA]
}

// bank returns the bank of r within its rank, 0 for all-bank commands.
func (c *Checker) bank(r Record) int {
	if r.Command.AllBank() {
		return 0
	}
	return int(r.Address.BankGroup)*c.spec.BanksPerGroup + int(r.Address.Bank)
}

// checkWindow: at most four activations in tFAW. An ACTA activates all banks at
// one clock.
func (c *Checker) checkWindow(rank *rankHistory, r Record) {
	n := 1
	switch r.Command {
	case dram.ACT:
	case dram.ACTA:
		n = c.spec.Banks()
		c.found = append(c.found, Violation{"tRRD_S", r, r, int64(c.spec.TRRDS), 0, "ACTA activates all banks at once"})
	default:
		return
	}
	reported := false
	for range n {
		oldest := &rank.acts[rank.actCount%len(rank.acts)]
		if gap := r.Clock - *oldest; gap < int64(c.spec.TFAW) && !reported {
			reported = true
			first := r
			first.Clock = *oldest
			first.Command = dram.ACT
			first.Address = dram.Address{Rank: r.Address.Rank, BankGroup: -1, Bank: -1, Row: -1, Column: -1}
			c.found = append(c.found, Violation{"tFAW", first, r, int64(c.spec.TFAW), gap, "the fifth activation"})
		}
		*oldest = r.Clock
		rank.actCount++
	}
}

// remember enters r into the histories and the banks' state.
func (c *Checker) remember(rank *rankHistory, r Record) {
	rank.rank[r.Command] = r
	if r.Command == dram.REF {
		rank.refreshes++
		due := r.Clock/int64(c.spec.TREFI) + 1
		if rank.refreshes-due > dram.MaxRefreshDebt {
			c.report(rulePullIn, r, fmt.Sprintf("%d REFs ahead, at most %d may be pulled in", rank.refreshes-due, dram.MaxRefreshDebt))
		}
		c.nextDebt = min(c.nextDebt, (rank.refreshes+dram.MaxRefreshDebt+1)*int64(c.spec.TREFI))
	}
	if r.Command.AllBank() {
		for b := range rank.rows {
			switch r.Command {
			case dram.ACTA:
				rank.rows[b] = r.Address.Row
			case dram.PREA:
				rank.rows[b] = -1
			}
		}
		return
	}
	bank := c.bank(r)
	rank.groups[r.Address.BankGroup][r.Command] = r
	rank.banks[bank][r.Command] = r
	switch r.Command {
	case dram.ACT:
		rank.rows[bank] = r.Address.Row
	case dram.PRE, dram.RDA, dram.WRA:
		rank.rows[bank] = -1
	}
}
