package controller

import (
	"cmp"
	"slices"

	"github.com/l3sim/l3sim/dram"
)

// Wait is the time for which data buses stood idle while requests waited, attributed to the timing rule that last delayed the next access.
type Wait struct {
	Rule     string `json:"rule"`     // JEDEC's term, as in the standards' tables
	Accesses int64  `json:"accesses"` // number of bursts delayed by it
	Clocks   int64  `json:"clocks"`   // over all data buses
	cause    cause
	steps    int64
}

// cause is a rule's meaning for the delayed requests.
type cause uint8

const (
	ownGroup    cause = iota // the previous access went to the same bank group
	writesFirst              // reads follow writes
	readsFirst               // writes follow reads
	otherRank                // the previous access went to another rank
	rowOpens                 // the row is being opened
	bankRow                  // the bank had another row open
	activates                // the rank may not open another row yet
	refreshes
	wakes // the rank leaves a power state
	otherwise
)

// waitRule is a rule compiled for the command that it delays.
type waitRule struct {
	from   uint8 // slot of the command that sets it
	scope  dram.Scope
	window uint8 // 0 for none
	steps  int64
	wait   int16 // index of its Wait
}

// lastSlots is the number of command slots in lastSteps, a power of two. Commands that no rule names share the last slot, which is never
// read.
const lastSlots = 16

// lastSteps are the steps of the latest command of each kind in a bank, a bank group or a rank.
type lastSteps [lastSlots]int64

// maxWindow bounds the windows of activations: GDDR6 has one of 32.
const maxWindow = 32

// latestActs are the steps of the latest activations of a rank, or of a pseudo-channel whose ranks share windows.
type latestActs struct {
	steps [maxWindow]int64
	next  uint8 // index of the next
}

// waits tracks what data buses wait for. Each access that leaves its bus idle is compared with the rules set by the latest commands.
type waits struct {
	channel *channel
	rules   [needReadRow + 1][dram.SameRank + 1][]waitRule // by need, and by the level of their state: bank, group, rank
	slots   [dram.Slots]uint8
	spans   [dram.Slots]dram.Span
	list    []Wait

	banks, groups, ranks []lastSteps
	acts                 []latestActs
	actsOf               []int   // by rank: index in acts for its windows
	rowWait              []int16 // by bank: the Wait that delayed its row, or -1
	busEnds              []int64 // by data bus: end of the last burst
	busOf                []int   // by rank
}

// newWaits returns the state in which nothing waits.
func newWaits(channel *channel, policy *Policy, busOf []int) waits {
	spec, ranks := channel.spec, len(busOf)
	w := waits{channel: channel, busOf: busOf, busEnds: make([]int64, ranks), acts: make([]latestActs, ranks), actsOf: make([]int, ranks),
		banks: newLastSteps(ranks * spec.Banks()), groups: newLastSteps(ranks * spec.BankGroups), ranks: newLastSteps(ranks),
		rowWait: slices.Repeat([]int16{-1}, ranks*spec.Banks())}
	for i := range w.acts {
		w.actsOf[i] = i
		for j := range w.acts[i].steps {
			w.acts[i].steps[j] = longAgo
		}
	}
	w.compile(policy)
	return w
}

// compile groups the rules by the command that they delay, narrow scopes first.
func (w *waits) compile(policy *Policy) {
	table, given, used := w.channel.spec.Rules(), asked(w.channel.spec, policy), uint8(0)
	for i := range w.slots {
		w.slots[i] = lastSlots - 1
	}
	for i := range w.spans[:dram.Commands] {
		w.spans[i] = table.Action(dram.Command(i)).Span
	}
	rows := slices.DeleteFunc(w.channel.spec.Constraints(), func(row dram.Constraint) bool {
		return row.Next != dram.RD && row.Next != dram.WR && row.Next != dram.ACT || !slices.Contains(given, row.Command) || row.Window > maxWindow
	})
	slices.SortStableFunc(rows, func(a, b dram.Constraint) int { return int(a.Scope) - int(b.Scope) })
	for _, row := range rows {
		slot := &w.slots[row.Command]
		if *slot == lastSlots-1 && used < lastSlots-1 {
			*slot = used
			used++
		}
		if row.Window > 1 && row.Scope > dram.SameRank {
			for rank, bus := range w.busOf {
				w.actsOf[rank] = slices.Index(w.busOf, bus)
			}
		}
		for n := range w.rules {
			if needCommands[n] == row.Next {
				at := &w.rules[n][min(row.Scope, dram.SameRank)]
				*at = append(*at, waitRule{*slot, row.Scope, uint8(row.Window), int64(row.Clocks), w.number(row)})
			}
		}
	}
}

// longAgo is a step so early that no rule extends beyond it, even after any number of shifts.
const longAgo = -forever / 2

func newLastSteps(n int) []lastSteps {
	list := make([]lastSteps, n)
	for i := range list {
		for j := range list[i] {
			list[i][j] = longAgo
		}
	}
	return list
}

// number returns the index of the rule's Wait, which rules of the same name and cause share.
func (w *waits) number(row dram.Constraint) int16 {
	of := causeOf(w.channel.spec.Rules(), row)
	i := slices.IndexFunc(w.list, func(k Wait) bool { return k.Rule == row.Rule && k.cause == of })
	if i < 0 {
		i = len(w.list)
		w.list = append(w.list, Wait{Rule: row.Rule, cause: of})
	}
	return int16(i)
}

// causeOf returns the meaning of a rule between two commands for the requests that it delays.
func causeOf(table *dram.Standard, row dram.Constraint) cause {
	from, action := row.Command, table.Action(row.Command)
	switch {
	case from == dram.PDX || from == dram.SRX:
		return wakes
	case action.Needs == dram.Closed && action.Leaves == dram.AnyState:
		return refreshes
	case row.Next == dram.ACT && row.Scope == dram.SameBank:
		return bankRow
	case row.Next == dram.ACT && from == dram.ACT:
		return activates
	case from == dram.ACT:
		return rowOpens
	case !from.IsRead() && !from.IsWrite() || row.Next == dram.ACT:
		return otherwise
	case row.Scope == dram.OtherRank:
		return otherRank
	case from.IsWrite() && row.Next.IsRead():
		return writesFirst
	case from.IsRead() && row.Next.IsWrite():
		return readsFirst
	case row.Scope == dram.SameBankGroup:
		return ownGroup
	}
	return otherwise
}

// command records a command that the channel has taken at t.
func (w *waits) command(cmd dram.Command, a dram.Address, t int64) {
	slot := w.slots[cmd&(dram.Slots-1)] & (lastSlots - 1)
	if a.Bank < 0 || w.spans[cmd&(dram.Slots-1)] != dram.OneBank {
		w.several(cmd, a, slot, t)
		return
	}
	bank := int(a.Rank)*w.channel.banksPerRank + int(a.BankGroup)<<w.channel.groupShift + int(a.Bank)
	w.banks[bank][slot], w.groups[bank>>w.channel.groupShift][slot], w.ranks[a.Rank][slot] = t, t, t
	if cmd == dram.ACT {
		of := &w.acts[w.actsOf[a.Rank]]
		of.steps[of.next] = t
		of.next = (of.next + 1) % maxWindow
	}
}

// several is command for one that acts on several banks or ranks.
func (w *waits) several(cmd dram.Command, a dram.Address, slot uint8, t int64) {
	first, end := int(a.Rank), int(a.Rank)+1
	if span := w.spans[cmd]; span == dram.SameBanksAll || span == dram.WholeChannel {
		each := len(w.ranks) / w.channel.spec.Rules().PseudoChannels
		first = first / each * each
		end = first + each
	}
	for rank := first; rank < end; rank++ {
		w.ranks[rank][slot] = t
		if a.Bank < 0 {
			continue
		}
		bank, stride, last := w.channel.spec.Spanned(cmd, a)
		for ; bank < last; bank += stride {
			i := rank*w.channel.banksPerRank + bank
			w.banks[i][slot], w.groups[i>>w.channel.groupShift][slot] = t, t
		}
	}
}

// rule returns the Wait of the rule that first allows the command of n in bank at exactly step, or -1.
func (w *waits) rule(n need, bank int, step int64) int16 {
	cmd, rank, group := needCommands[n]&(dram.Slots-1), int(w.channel.places[bank].Rank), bank>>w.channel.groupShift
	rules := &w.rules[n]
	if w.channel.bankNodes[bank][cmd] == step {
		for i := range rules[dram.SameBank] {
			if r := &rules[dram.SameBank][i]; w.banks[bank][r.from]+r.steps == step {
				return r.wait
			}
		}
	}
	if w.channel.groupNodes[group][cmd] == step {
		for i := range rules[dram.SameBankGroup] {
			if r := &rules[dram.SameBankGroup][i]; w.groups[group][r.from]+r.steps == step {
				return r.wait
			}
		}
	}
	if w.channel.rankNodes[rank][cmd] == step {
		for i := range rules[dram.SameRank] {
			if r := &rules[dram.SameRank][i]; w.lastOf(r, rank)+r.steps == step {
				return r.wait
			}
		}
	}
	return -1
}

// lastOf returns the step from which a rule of a rank counts.
func (w *waits) lastOf(r *waitRule, rank int) int64 {
	switch {
	case r.window > 1:
		of := &w.acts[w.actsOf[rank]]
		return of.steps[(of.next+maxWindow-r.window)%maxWindow]
	case r.scope == dram.SameRank:
		return w.ranks[rank][r.from]
	}
	last := int64(longAgo)
	for other := range w.ranks {
		if r.scope == dram.SameChannel || w.busOf[other] == w.busOf[rank] && (other != rank || r.scope == dram.SamePseudoChannel) {
			last = max(last, w.ranks[other][r.from])
		}
	}
	return last
}

// row records what delayed the opening of a bank's row for a request that came at queued. It must be called before the ACT.
func (w *waits) row(bank int, queued int64) {
	w.rowWait[bank] = -1
	if step := w.channel.earliest(needReadRow, bank); step > queued {
		w.rowWait[bank] = w.rule(needReadRow, bank, step)
	}
}

// column counts a column access at t whose data ends at end, for a request that came at arrived. It must be called before the command.
func (w *waits) column(n need, bank int, arrived, t, end int64) {
	bus := w.busOf[w.channel.places[bank].Rank]
	burst := w.channel.burstSteps
	idle := end - burst - w.busEnds[bus]
	w.busEnds[bus] = end
	if idle <= 0 {
		return
	}
	step := w.channel.earliest(n, bank)
	late := step - max(t-idle, arrived) // steps by which the rule delays the access
	if late <= 0 {
		return
	}
	wait := w.rule(n, bank, step)
	if wait < 0 {
		return
	}
	if of := w.rowWait[bank]; w.list[wait].cause == rowOpens && of >= 0 {
		wait = of
	}
	w.list[wait].Accesses++
	w.list[wait].steps += late
}

// shift moves the recorded commands by steps.
func (w *waits) shift(steps int64) {
	for _, list := range [...][]lastSteps{w.banks, w.groups, w.ranks} {
		for i := range list {
			for j := range list[i] {
				list[i][j] += steps
			}
		}
	}
	for i := range w.acts {
		for j := range w.acts[i].steps {
			w.acts[i].steps[j] += steps
		}
	}
}

// result returns the waits, in the order of the rules.
func (w *waits) result() []Wait {
	var list []Wait
	for _, k := range w.list {
		if k.Clocks, k.steps = w.channel.clocks(k.steps), 0; k.Accesses > 0 {
			list = append(list, k)
		}
	}
	return list
}

// addWaits merges both lists, most clocks first.
func addWaits(a, b []Wait) []Wait {
	sum := slices.Clone(a)
	for _, k := range b {
		if i := slices.IndexFunc(sum, func(o Wait) bool { return o.Rule == k.Rule && o.cause == k.cause }); i >= 0 {
			sum[i].Accesses += k.Accesses
			sum[i].Clocks += k.Clocks
		} else {
			sum = append(sum, k)
		}
	}
	slices.SortStableFunc(sum, func(a, b Wait) int { return cmp.Compare(b.Clocks, a.Clocks) })
	return sum
}
