package dram

import (
	"math"
	"slices"
)

// Slots is the number of entries of a Node: commands rounded up to a power of
// two, so that an index masked by Slots-1 needs no bounds check.
const Slots = 16

// Node holds, for each command, the first clock at which the constraints seen
// by one bank, bank group or rank allow it.
type Node [Slots]int64

// step is one constraint compiled for the command that sets it.
type step struct {
	next   uint8
	clocks int64
}

// window is a constraint over the last size commands of one kind in a rank.
type window struct {
	next   uint8
	size   int
	clocks int64
	ring   int // offset of the ring in a rank's rings
}

// program is what issuing one command does, by scope.
type program struct {
	bank, group, rank, other []step
	windows                  []window
}

// State is the timing state of all ranks of one channel: which row each bank
// holds open and from when on each command is allowed. Without bounds checks
// of its arguments it is the inner loop of controller and PIM programs:
// addresses must lie within the spec.
//
// The command bus (one command a clock) and the data bus beyond what the rows
// say are the caller's. So is the legality of a command in the bank's state: a RD
// needs its row open.
type State struct {
	spec     *Spec
	programs [Slots]program
	ranks    []Node
	groups   []Node
	banks    []Node
	rows     []int32 // open row of each bank, or -1
	rings    []int64 // issue clocks for windows, by rank
	ringPos  []int   // next entry of each window's ring, by rank
	ringSize int     // entries of all rings of one rank
	windows  int     // windows of one rank

	groupsPerRank, banksPerGroup, banksPerRank int
}

// never is a clock so early that no constraint reaches from it.
const never = math.MinInt64 / 2

// NewState returns the state of ranks idle ranks at clock 0, all banks closed.
// Earliest may be asked of the listed commands only, of all if none is listed;
// Issue is cheaper the fewer there are.
func NewState(spec *Spec, ranks int, asked ...Command) *State {
	if len(asked) == 0 {
		asked = anyCommand
	}
	s := &State{
		spec:          spec,
		ranks:         make([]Node, ranks),
		groups:        make([]Node, ranks*spec.BankGroups),
		banks:         make([]Node, ranks*spec.Banks()),
		rows:          make([]int32, ranks*spec.Banks()),
		groupsPerRank: spec.BankGroups, banksPerGroup: spec.BanksPerGroup, banksPerRank: spec.Banks(),
	}
	s.compile(slices.DeleteFunc(spec.Constraints(), func(c Constraint) bool { return !slices.Contains(asked, c.Next) }))
	s.rings = make([]int64, ranks*s.ringSize)
	s.ringPos = make([]int, ranks*s.windows)
	s.Reset()
	return s
}

// compile sorts the rows by the command that sets them. Of rows that differ in
// distance only the longest one counts.
func (s *State) compile(rows []Constraint) {
	for _, c := range rows {
		p := &s.programs[c.Command]
		if c.Window > 1 {
			p.windows = append(p.windows, window{uint8(c.Next), c.Window, int64(c.Clocks), s.ringSize})
			s.ringSize += c.Window
			s.windows++
			continue
		}
		list := &p.bank
		switch c.Scope {
		case SameBankGroup:
			list = &p.group
		case SameRank:
			list = &p.rank
		case OtherRank:
			list = &p.other
		}
		*list = addStep(*list, step{uint8(c.Next), int64(c.Clocks)})
	}
}

// addStep adds n to list, keeping one step for each next command.
func addStep(list []step, n step) []step {
	for i := range list {
		if list[i].next == n.next {
			list[i].clocks = max(list[i].clocks, n.clocks)
			return list
		}
	}
	return append(list, n)
}

// Reset returns the state to clock 0 with all banks closed.
func (s *State) Reset() {
	clear(s.ranks)
	clear(s.groups)
	clear(s.banks)
	clear(s.ringPos)
	for i := range s.rows {
		s.rows[i] = -1
	}
	for i := range s.rings {
		s.rings[i] = never
	}
}

// Nodes returns the clocks that Earliest takes the maximum of, by rank, by bank group over
// all ranks and by bank over all ranks. They follow Issue; the caller only reads.
func (s *State) Nodes() (ranks, groups, banks []Node) { return s.ranks, s.groups, s.banks }

// Rows returns the open row of each bank over all ranks, or -1. It follows Issue; the
// caller only reads.
func (s *State) Rows() []int32 { return s.rows }

// Shift moves every clock of the state on: relative to it nothing changes.
func (s *State) Shift(clocks int64) {
	for _, nodes := range [][]Node{s.ranks, s.groups, s.banks} {
		for i := range nodes {
			for j := range nodes[i] {
				nodes[i][j] += clocks
			}
		}
	}
	for i := range s.rings {
		s.rings[i] += clocks
	}
}

// Spec returns the spec that the state was made for.
func (s *State) Spec() *Spec { return s.spec }

// bankIndex returns the index of a's bank over all ranks.
func (s *State) bankIndex(a Address) int {
	return (int(a.Rank)*s.groupsPerRank+int(a.BankGroup))*s.banksPerGroup + int(a.Bank)
}

// Earliest returns the first clock, at least 0, at which the constraints set by
// the issued commands allow cmd at a. The command bus is not counted.
func (s *State) Earliest(cmd Command, a Address) int64 {
	c := cmd & (Slots - 1)
	t := s.ranks[a.Rank][c]
	if a.Bank < 0 {
		return t
	}
	g := int(a.Rank)*s.groupsPerRank + int(a.BankGroup)
	return max(t, s.groups[g][c], s.banks[g*s.banksPerGroup+int(a.Bank)][c])
}

// Issue records that cmd issues at a at the given clock: constraints and the
// bank's open row follow. Commands of one kind that a window constrains (ACT)
// must come in the order of their clocks; others may come in any order.
func (s *State) Issue(cmd Command, a Address, clock int64) {
	p := &s.programs[cmd&(Slots-1)]
	s.ranks[a.Rank].apply(p.rank, clock)
	if a.Bank >= 0 {
		g := int(a.Rank)*s.groupsPerRank + int(a.BankGroup)
		s.groups[g].apply(p.group, clock)
		s.banks[g*s.banksPerGroup+int(a.Bank)].apply(p.bank, clock)
	}
	if len(p.other) > 0 {
		for r := range s.ranks {
			if r != int(a.Rank) {
				s.ranks[r].apply(p.other, clock)
			}
		}
	}
	for i := range p.windows {
		s.pushWindow(&p.windows[i], i, int(a.Rank), clock)
	}
	s.setRow(cmd, a)
}

// apply raises the clocks of n by the steps of a command at clock.
func (n *Node) apply(steps []step, clock int64) {
	for _, st := range steps {
		e := &n[st.next&(Slots-1)]
		*e = max(*e, clock+st.clocks)
	}
}

// pushWindow enters clock into the window's ring, whose oldest entry then
// bounds the next command.
func (s *State) pushWindow(w *window, index, rank int, clock int64) {
	pos := &s.ringPos[rank*s.windows+index]
	ring := s.rings[rank*s.ringSize+w.ring:][:w.size]
	ring[*pos] = clock
	if *pos++; *pos == w.size {
		*pos = 0
	}
	e := &s.ranks[rank][w.next&(Slots-1)]
	*e = max(*e, ring[*pos]+w.clocks)
}

// setRow tracks the open rows.
func (s *State) setRow(cmd Command, a Address) {
	switch cmd {
	case ACT:
		s.rows[s.bankIndex(a)] = a.Row
	case PRE, RDA, WRA:
		s.rows[s.bankIndex(a)] = -1
	case ACTA:
		s.fillRows(a.Rank, a.Row)
	case PREA:
		s.fillRows(a.Rank, -1)
	}
}

// fillRows sets the open row of all banks of a rank.
func (s *State) fillRows(rank, row int32) {
	rows := s.rows[int(rank)*s.banksPerRank:][:s.banksPerRank]
	for i := range rows {
		rows[i] = row
	}
}
