package check

import (
	"fmt"
	"io"
	"iter"
	"math"
	"slices"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// Violation is a broken rule of a command log.
type Violation struct {
	Rule    string `json:"rule"`
	Allowed bool   `json:"allowed"` // the rule is waived by the log's reader
	// First is the earlier command to which the rule relates Second; its clock is -1 if the rule is about Second alone.
	First    Record `json:"first"`
	Second   Record `json:"second"`
	Required int64  `json:"required_clocks"` // steps from First to Second; 0 for rules of state
	Actual   int64  `json:"actual_clocks"`
	Detail   string `json:"detail"`
}

// Rules that are not timing rules of the standards' tables.
const (
	ruleCommand    = "command"            // the standard has no such command
	ruleAddress    = "address"            // a part of the address is outside the device
	ruleState      = "bank state"         // the command does not match the bank's state: RD without an open row, ACT with one, REF with any
	ruleRow        = "row"                // a column access names a row other than the open one
	rulePower      = "power state"        // a command in power-down or self-refresh, or an exit outside both
	ruleCommandBus = "command bus"        // two commands at once, or one on the wrong edge
	ruleBurst      = "burst"              // two bursts overlap on the data bus
	ruleDataClock  = "data clock"         // an access while the data clock does not run
	ruleManagement = "refresh management" // more activations of a bank than the device allows without RFM
	ruleDebt       = "refresh debt"
	rulePullIn     = "refresh pull-in"
)

// RuleNames returns the names of all rules that the checker knows for standards (if none is given, for all shipped ones), as used in
// violations and in a log's waivers.
func RuleNames(standards ...*dram.Standard) []string {
	if len(standards) == 0 {
		standards = dram.Standards()
	}
	var all, names []string
	for _, s := range standards {
		all = append(all, s.RuleNames()...)
	}
	all = append(all, ruleCommand, ruleAddress, ruleState, ruleRow, rulePower, ruleCommandBus, ruleBurst, ruleDataClock, ruleManagement, ruleDebt, rulePullIn)
	for _, n := range all {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// Checker reads the commands of one channel in order and finds every broken rule. It shares only the part's tables with State and
// controllers. It keeps the latest commands of each kind by bank, bank group, rank and beyond, and applies the rows of the standard to
// these histories.
type Checker struct {
	spec         *dram.Spec
	standard     *dram.Standard
	rows         [dram.Commands][]dram.Constraint // by the later command
	windows      []*windowHistory
	channel      history
	pseudo       []history // by pseudo-channel
	ranks        []rankHistory
	ranksEach    int   // of a pseudo-channel
	buses        []bus // of the channel, and of each rank
	privateBuses bool
	managed      [2]int // Spec.Managed
	found        []Violation
	nextDebt     int64 // first step at which a rank may exceed its refresh debt
}

const never = math.MinInt64 / 2 // a clock so early that no rule extends beyond it

// history is the latest record of each command; its clock is never if the command has not issued.
type history [dram.Commands]Record

// newHistory returns an empty history.
func newHistory() history {
	var h history
	for i := range h {
		h[i].Clock = never
	}
	return h
}

// NewChecker returns the checker of one channel with all banks precharged.
func NewChecker(spec *dram.Spec, ranks int, privateBuses bool) *Checker {
	c := &Checker{spec: spec, standard: spec.Rules(), channel: newHistory(), privateBuses: privateBuses}
	c.ranksEach = max(1, ranks/c.standard.PseudoChannels)
	c.managed[0], c.managed[1] = spec.Managed()
	for _, row := range spec.Constraints() {
		if row.Window > 1 {
			c.windows = append(c.windows, &windowHistory{Constraint: row, rings: map[int][]Record{}})
		} else {
			c.rows[row.Next] = append(c.rows[row.Next], row)
		}
	}
	for i := range ranks {
		if i%c.ranksEach == 0 {
			c.pseudo = append(c.pseudo, newHistory())
		}
		c.ranks = append(c.ranks, newRankHistory(spec))
	}
	for range ranks + 1 {
		c.buses = append(c.buses, newBus())
	}
	c.nextDebt = c.ranks[0].debtLimit(c.standard, spec)
	return c
}

const maxViolations = 1_000_000 // bounds the violations that Log keeps in memory

// ErrManyViolations means that a log was not read to its end.
var ErrManyViolations = fmt.Errorf("more than %d violations, the rest of the log is not checked", maxViolations)

// Log reads a whole log and returns its violations in order. The log's own declarations override spec and ranks. The error is that of the
// log's text, or ErrManyViolations after a million violations.
func Log(l *LogReader, spec *dram.Spec, ranks int) ([]Violation, error) {
	switch {
	case l == nil || l.reader == nil:
		return nil, &input.Error{Key: "log", Expected: "one that NewLogReader returned"}
	case l.Header.Ranks < 1 && ranks < 1:
		return nil, &input.Error{Key: "ranks", Value: fmt.Sprint(ranks), Expected: "at least 1"}
	case l.Header.Spec == nil:
		if err := spec.Given(); err != nil {
			return nil, err
		}
	}
	return checkLog(l, spec, ranks, maxViolations)
}

// checkLog is Log with a bound on the number of violations.
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

// KnownRules returns an input error for the first of names that is not a rule of standards; if none is given, of the shipped ones.
func KnownRules(key string, names []string, standards ...*dram.Standard) error {
	known := RuleNames(standards...)
	for _, n := range names {
		if !slices.Contains(known, n) {
			return input.UnknownName(key, n, known)
		}
	}
	return nil
}

// Violations returns the violations found so far.
func (c *Checker) Violations() []Violation { return c.found }

// report appends a violation without an earlier command.
func (c *Checker) report(rule string, r Record, detail string) {
	c.found = append(c.found, Violation{Rule: rule, First: Record{Clock: -1}, Second: r, Detail: detail})
}

// Check checks the next command; clocks must not go backwards.
func (c *Checker) Check(r Record) {
	if int(r.Command) >= dram.Commands || !c.standard.Action(r.Command).Known {
		c.report(ruleCommand, r, "not a command of "+c.standard.Name)
		return
	}
	if !c.inRange(r) {
		c.report(ruleAddress, r, "outside the device")
		return
	}
	rank := &c.ranks[r.Address.Rank]
	c.checkDebt(r)
	met := c.checkBuses(r)
	c.checkPower(rank, r)
	c.checkState(r)
	c.checkDistances(r, met)
	c.checkWindows(r)
	c.checkManagement(r)
	c.remember(rank, r)
}

// inRange reports whether the parts of the address that the command uses are within the device. Row and column may be absent.
func (c *Checker) inRange(r Record) bool {
	a, s := r.Address, c.spec
	within := func(v int32, n int) bool { return v >= 0 && int(v) < n }
	if !within(a.Rank, len(c.ranks)) || int(a.Row) >= s.RankRows() || int(a.Column) >= s.RowBursts() {
		return false
	}
	action := c.standard.Action(r.Command)
	if action.Leaves == dram.Open && a.Row < 0 {
		return false
	}
	return action.Span >= dram.WholeRank || within(a.Bank, s.BanksPerGroup) && (action.Span >= dram.SameBanks || within(a.BankGroup, s.BankGroups))
}

// banks returns the banks on which r acts in its rank, or in each of its ranks.
func (c *Checker) banks(r Record) iter.Seq[int] {
	return func(yield func(int) bool) {
		bank, stride, end := c.spec.Spanned(r.Command, r.Address)
		for ; bank < end && yield(bank); bank += stride {
		}
	}
}

// remember enters r into the histories and the banks' state.
func (c *Checker) remember(rank *rankHistory, r Record) {
	action := c.standard.Action(r.Command)
	c.channel[r.Command] = r
	c.pseudo[int(r.Address.Rank)/c.ranksEach][r.Command] = r
	ranks := c.spannedRanks(r)
	for i := range ranks {
		k := &ranks[i]
		k.rank[r.Command] = r
		for bank := range c.banks(r) {
			if action.Span < dram.WholeRank {
				k.groups[bank/c.spec.BanksPerGroup][r.Command] = r
				k.banks[bank][r.Command] = r
			}
			switch action.Leaves {
			case dram.Open:
				k.rows[bank] = r.Address.Row
			case dram.Closed:
				k.rows[bank] = -1
			}
		}
	}
	for i := range ranks {
		ranks[i].power(r)
	}
	if keeps := c.spec.DataClockKeeps(r.Command); keeps > 0 {
		rank.clockUntil = max(rank.clockUntil, r.Clock+keeps)
	}
	c.countRefresh(ranks, r)
}
