package check

import (
	"fmt"
	"slices"

	"github.com/l3sim/l3sim/dram"
)

// judge decides whether a short log is legal, independently of tables, State and checker: it has the timings of one part in clocks, written
// by hand, and compares every pair of commands. It knows all commands except those of power-down and self-refresh.
type judge struct {
	part                            string
	ranks, perPseudo                int // of the channel, of a pseudo-channel
	groups, banks                   int // bank groups of a rank, banks of a group
	cl, cwl, burst                  int
	rcdRead, rcdWrite, ras, rc      int
	rp, rpAll                       int // after a precharge of all banks
	rrdShort, rrdLong, faw          int
	ccdShort, ccdLong, ccdWrite     int // ccdWrite: write to write in a group
	rtp, wr, wtrShort, wtrLong, rtw int
	ppd                             int
	rankGap                         int  // between bursts of two ranks
	writesMeet                      bool // the gap does not apply between writes
	ccdRank                         int  // read to read of another rank, if that has its own rule
	rfc, rfcOne, afterOne, oneToOne int  // REF; REFsb or REFpb to ACT of its banks, of others, to the next
	actToOne                        int
	steps                           map[dram.Command]int // on the bus, if not 1
	rows                            []dram.Command       // commands of the row bus, if there are two buses
	half                            bool                 // a step is half a clock
	late                            bool                 // the device takes a command with its last step
	pairs                           bool                 // REFpb refreshes a pair
	oneCounts                       bool                 // REFpb counts in tFAW
	wck                             bool
	second                          int  // steps until the second half of ACT
	wholePseudo                     bool // activations, columns and refreshes count together for all ranks of a pseudo-channel
	groupBurst                      int  // clocks by which a burst is longer within its bank group, for tWTR
}

// banksOf returns the banks of its rank that the command concerns, as bits.
func (j *judge) banksOf(r Record) (set uint64) {
	a := r.Address
	own := int(a.BankGroup)*j.banks + int(a.Bank)
	for i := range j.groups * j.banks {
		in := false
		switch {
		case r.Command.AllBank():
			in = true
		case r.Command == dram.REFsb || r.Command == dram.PREsb:
			in = i%j.banks == int(a.Bank)
		case r.Command == dram.REFpb && j.pairs:
			in = (i-own)%(j.groups*j.banks/2) == 0
		default:
			in = i == own
		}
		if in {
			set |= 1 << i
		}
	}
	return set
}

// groupsOf returns the bank groups of banks.
func (j *judge) groupsOf(set uint64) (groups uint64) {
	for i := range j.groups * j.banks {
		groups |= set >> i & 1 << (i / j.banks)
	}
	return groups
}

func (j *judge) clock() int {
	if j.half {
		return 2
	}
	return 1
}

// length returns the steps of c on its bus.
func (j *judge) length(c dram.Command) int { return max(1, j.steps[c]) }

// effect returns the step at which the command takes effect in the device.
func (j *judge) effect(r Record) int64 {
	if j.late {
		return r.Clock + int64(j.length(r.Command)) - 1
	}
	return r.Clock
}

func (j *judge) one(c dram.Command) bool { return c == dram.REFsb || c == dram.REFpb }
func (j *judge) closes(c dram.Command) bool {
	return c == dram.PRE || c == dram.PREA || c == dram.PREsb
}
func (j *judge) reads(c dram.Command) bool  { return c == dram.RD || c == dram.RDA }
func (j *judge) writes(c dram.Command) bool { return c == dram.WR || c == dram.WRA }

// need returns the required clocks from the effect of a to that of b.
func (j *judge) need(a, b Record) int {
	if int(a.Address.Rank)/j.perPseudo != int(b.Address.Rank)/j.perPseudo {
		return 0
	}
	sameRank := a.Address.Rank == b.Address.Rank || j.wholePseudo && (a.Command.AllBank() || b.Command.AllBank())
	near := sameRank || j.wholePseudo // shared by the SIDs of a pseudo-channel
	shared := sameRank && j.banksOf(a)&j.banksOf(b) != 0
	group := sameRank && j.groupsOf(j.banksOf(a))&j.groupsOf(j.banksOf(b)) != 0
	data := j.cwl + j.burst
	most := 0
	rule := func(holds bool, clocks int) {
		if holds {
			most = max(most, clocks)
		}
	}
	opens := b.Command == dram.ACT || b.Command == dram.REF || j.one(b.Command)
	precharge := j.rp
	if a.Command == dram.PREA {
		precharge = j.rpAll
	}
	rule(shared && opens && a.Command == dram.ACT, j.rc)
	rule(shared && opens && j.closes(a.Command), precharge)
	rule(shared && opens && a.Command == dram.RDA, j.rtp+j.rp)
	rule(shared && opens && a.Command == dram.WRA, data+j.wr+j.rp)
	rule(shared && a.Command == dram.ACT && j.reads(b.Command), j.rcdRead)
	rule(shared && a.Command == dram.ACT && j.writes(b.Command), j.rcdWrite)
	rule(shared && a.Command == dram.ACT && j.closes(b.Command), j.ras)
	rule(shared && j.reads(a.Command) && j.closes(b.Command), j.rtp)
	rule(shared && j.writes(a.Command) && j.closes(b.Command), data+j.wr)
	rule(near && j.closes(a.Command) && j.closes(b.Command), j.ppd)

	acts := a.Command == dram.ACT && b.Command == dram.ACT
	rule(near && acts, j.rrdShort)
	rule(group && acts, j.rrdLong)

	rule(near && j.reads(a.Command) && j.reads(b.Command), j.ccdShort)
	rule(near && j.writes(a.Command) && j.writes(b.Command), j.ccdShort)
	rule(group && j.reads(a.Command) && j.reads(b.Command), j.ccdLong)
	rule(group && j.writes(a.Command) && j.writes(b.Command), j.ccdWrite)
	rule(near && j.reads(a.Command) && j.writes(b.Command), j.rtw)
	rule(near && j.writes(a.Command) && j.reads(b.Command), data+j.wtrShort)
	rule(group && j.writes(a.Command) && j.reads(b.Command), data+j.groupBurst+j.wtrLong)
	rule(!sameRank && j.reads(a.Command) && j.reads(b.Command), j.ccdRank)

	refreshed := a.Command == dram.REF
	rule(near && refreshed && b.Command != dram.CAS || refreshed && sameRank, j.rfc)
	rule(shared && j.one(a.Command) && b.Command == dram.ACT, j.rfcOne)
	rule(near && j.one(a.Command) && b.Command == dram.ACT, j.afterOne)
	rule(near && j.one(a.Command) && b.Command == dram.REF, j.rfcOne)
	rule(near && j.one(a.Command) && j.one(b.Command), j.oneToOne)
	rule(shared && j.one(a.Command) && j.one(b.Command), j.rfcOne)
	rule(near && a.Command == dram.ACT && j.one(b.Command), j.actToOne)
	return most
}

// legal returns "" for a legal log, or the fault.
func (j *judge) legal(log []Record) string {
	if wrong := j.states(log); wrong != "" {
		return wrong
	}
	k := int64(j.clock())
	for i, b := range log {
		for _, a := range log[:i] {
			if need := j.need(a, b); need > 0 && j.effect(b)-j.effect(a) < int64(need)*k {
				return fmt.Sprintf("%v, %v: %d clocks", a, b, need)
			}
		}
	}
	for _, check := range []func([]Record) string{j.window, j.bus, j.data, j.dataClock} {
		if wrong := check(log); wrong != "" {
			return wrong
		}
	}
	return ""
}

// states checks the states of the banks.
func (j *judge) states(log []Record) string {
	rows := make([]int32, j.ranks*j.groups*j.banks)
	for i := range rows {
		rows[i] = -1
	}
	for _, r := range log {
		for rank := range j.ranks {
			if rank != int(r.Address.Rank) && (!j.wholePseudo || !r.Command.AllBank() || rank/j.perPseudo != int(r.Address.Rank)/j.perPseudo) {
				continue
			}
			for i := range j.groups * j.banks {
				row := &rows[rank*j.groups*j.banks+i]
				if j.banksOf(r)>>i&1 == 0 {
					continue
				}
				switch c := r.Command; {
				case c == dram.ACT || c == dram.REF || j.one(c):
					if *row >= 0 {
						return fmt.Sprint(r, " with a row open")
					}
					if c == dram.ACT {
						*row = r.Address.Row
					}
				case j.closes(c):
					*row = -1
				case j.reads(c) || j.writes(c):
					if *row != r.Address.Row {
						return fmt.Sprint(r, " with row ", *row)
					}
					if c == dram.RDA || c == dram.WRA {
						*row = -1
					}
				}
			}
		}
	}
	return ""
}

// window checks the activations in tFAW.
func (j *judge) window(log []Record) string {
	for i, last := range log {
		for _, kind := range []func(dram.Command) bool{func(c dram.Command) bool { return c == dram.ACT }, func(c dram.Command) bool { return j.oneCounts && j.one(c) }} {
			if last.Command != dram.ACT && !(j.oneCounts && j.one(last.Command)) {
				continue
			}
			n := 0
			for _, r := range log[:i] {
				place := r.Address.Rank == last.Address.Rank || j.wholePseudo && int(r.Address.Rank)/j.perPseudo == int(last.Address.Rank)/j.perPseudo
				if place && kind(r.Command) && j.effect(last)-j.effect(r) < int64(j.faw*j.clock()) {
					n++
				}
			}
			if n >= 4 {
				return fmt.Sprint(last, ": four before it in tFAW")
			}
		}
	}
	return ""
}

// bus requires that every step of a command bus has at most one command, and that every second half of an ACT finds a free step.
func (j *judge) bus(log []Record) string {
	for _, row := range []bool{false, true} {
		taken := map[int64]bool{}
		for _, r := range log {
			if slices.Contains(j.rows, r.Command) != row {
				continue
			}
			if falls := j.half && (r.Command == dram.PRE || r.Command == dram.PREA); r.Clock%int64(j.clock()) != 0 && !falls {
				return fmt.Sprint(r, " on a falling edge")
			}
			for s := range int64(j.length(r.Command)) {
				if taken[r.Clock+s] {
					return fmt.Sprint(r, ": the bus is taken")
				}
				taken[r.Clock+s] = true
			}
		}
		if j.second == 0 {
			continue
		}
		for _, r := range log { // oldest first, each takes the first free step
			if r.Command != dram.ACT {
				continue
			}
			found := false
			for s := r.Clock + 1; s <= r.Clock+int64(j.second) && !found && !row; s++ {
				if !taken[s] {
					taken[s], found = true, true
				}
			}
			if !found && !row {
				return fmt.Sprint(r, ": no step for its second half")
			}
		}
	}
	return ""
}

// data requires that bursts do not overlap, and that those of two ranks have the gap between them.
func (j *judge) data(log []Record) string {
	type burst struct {
		from int
		r    Record
	}
	var bursts []burst
	for _, r := range log {
		latency := j.cl
		if j.writes(r.Command) {
			latency = j.cwl
		} else if !j.reads(r.Command) {
			continue
		}
		n := burst{int(r.Clock) + latency*j.clock(), r}
		for _, o := range bursts {
			if int(o.r.Address.Rank)/j.perPseudo != int(r.Address.Rank)/j.perPseudo {
				continue
			}
			gap := j.burst
			if o.r.Address.Rank != r.Address.Rank && !(j.writesMeet && j.writes(o.r.Command) && j.writes(r.Command)) {
				gap += j.rankGap
			}
			if d := n.from - o.from; d < gap*j.clock() && -d < gap*j.clock() {
				return fmt.Sprint(o.r, r, ": their bursts")
			}
		}
		bursts = append(bursts, n)
	}
	return ""
}

// dataClock requires that WCK runs.
func (j *judge) dataClock(log []Record) string {
	for i, r := range log {
		if !j.wck || !j.reads(r.Command) && !j.writes(r.Command) {
			continue
		}
		runs := false
		for _, o := range log[:i] {
			after := r.Clock - o.Clock
			same := o.Address.Rank == r.Address.Rank
			runs = runs || same && (o.Command == dram.CAS && after <= 1 || (j.reads(o.Command) || j.writes(o.Command)) && after <= int64(j.cl+j.burst+1))
		}
		if !runs {
			return fmt.Sprint(r, ": WCK does not run")
		}
	}
	return ""
}
