package dram

import (
	"math"
	"slices"
	"sync"
)

// Slots is the number of entries of a Node: the number of commands rounded up to a power of two, so that an index masked with Slots-1 needs
// no bounds check.
const Slots = 32

// Node holds, for each command, the first step that the constraints on one bank, bank group or rank allow.
type Node [Slots]int64

// step is one constraint, compiled for the command that sets it.
type step struct {
	next   uint8
	clocks int64
}

// window is a constraint over the last size commands of one kind in a rank, or in all ranks of a pseudo-channel or channel. In the latter
// cases the first rank holds the ring.
type window struct {
	next   uint8
	scope  Scope
	size   int
	clocks int64
	ring   int // offset of its ring in a rank's rings
	index  int // index of its next entry in a rank's positions
}

// program is the effect of issuing one command, by scope.
type program struct {
	bank, group, rank    []step
	other, pseudo, whole []step // other ranks, all of the pseudo-channel, all of the channel
	windows              []window
	wide                 bool // any of the two lines above is set
	span                 Span
	leaves               BankState
	keeps                int64 // steps for which the data clock continues after it
	clocked              bool  // it needs the data clock
}

// State is the timing state of all ranks of one channel: the open row of each bank, and the first step at which each command is allowed. It
// does not check its arguments, since it is the inner loop of the controller and of PIM programs: addresses must lie within the spec.
//
// The caller handles the command buses (CommandBuses, or one command a clock), and the data bus beyond the table's rules. The caller also
// ensures that a command is legal in the bank's state: a RD needs its row open, and the data clock if the standard has one (ClockRuns).
//
// Clocks are steps of the standard, in most a clock of CK.
type State struct {
	spec *Spec
	*compiled
	running []int64 // by rank: step until which the data clock runs
	ranks   []Node
	groups  []Node
	banks   []Node
	rows    []int32 // open row of each bank, or -1
	rings   []int64 // issue clocks for windows, by rank
	ringPos []int   // next entry of each window's ring, by rank

	groupsPerRank, banksPerGroup, banksPerRank, ranksPerPseudo int
}

const never = math.MinInt64 / 2 // a clock so early that no constraint extends beyond it

// NewState returns the state of the given number of idle ranks at clock 0, with all banks closed. Earliest may only be called for the
// listed commands, or for all if the list is empty. Issue is faster for a shorter list.
func NewState(spec *Spec, ranks int, asked ...Command) *State {
	if len(asked) == 0 {
		asked = spec.table().Commands()
	}
	s := &State{
		spec:           spec,
		ranks:          make([]Node, ranks),
		groups:         make([]Node, ranks*spec.BankGroups),
		banks:          make([]Node, ranks*spec.Banks()),
		rows:           make([]int32, ranks*spec.Banks()),
		running:        make([]int64, ranks),
		ranksPerPseudo: max(1, ranks/spec.table().PseudoChannels),
		groupsPerRank:  spec.BankGroups, banksPerGroup: spec.BanksPerGroup, banksPerRank: spec.Banks(),
	}
	s.compiled = compiledFor(spec, asked)
	s.rings = make([]int64, ranks*s.ringSize)
	s.ringPos = make([]int, ranks*s.windows)
	s.Reset()
	return s
}

// compiled is the compiled rules of a spec for the asked commands. States share it.
type compiled struct {
	programs [Slots]program
	used     int // entries of a Node that any command changes
	ringSize int // entries of all rings of one rank
	windows  int // windows of one rank
}

// compiledKey determines a compiled value. asked has one bit for each command.
type compiledKey struct {
	spec  Spec
	asked uint32
}

// compilations caches the compiled rules of recent specs: tables of a PIM program make thousands of states.
var compilations struct {
	sync.Mutex
	kept map[compiledKey]*compiled
}

const maxCompilations = 64 // bounds the cache

func compiledFor(spec *Spec, asked []Command) *compiled {
	key := compiledKey{spec: *spec}
	for _, c := range asked {
		key.asked |= 1 << c
	}
	compilations.Lock()
	defer compilations.Unlock()
	p := compilations.kept[key]
	if p == nil {
		p = compile(spec, key.asked)
		if compilations.kept == nil || len(compilations.kept) == maxCompilations {
			compilations.kept = map[compiledKey]*compiled{}
		}
		compilations.kept[key] = p
	}
	return p
}

// compile groups the rows for the asked commands by the command that sets them. Among rows that differ only in distance, the longest
// counts.
func compile(spec *Spec, asked uint32) *compiled {
	s := &compiled{}
	for c := range s.programs[:Commands] {
		p, a := &s.programs[c], spec.table().commands[c]
		p.span, p.leaves, p.keeps = a.Span, a.Leaves, spec.DataClockKeeps(Command(c))
		p.clocked = p.keeps > 0 && (Command(c).IsRead() || Command(c).IsWrite())
	}
	for _, c := range spec.Constraints() {
		if asked>>c.Next&1 == 0 {
			continue
		}
		p := &s.programs[c.Command]
		s.used = max(s.used, int(c.Next)+1)
		p.wide = p.wide || c.Window > 1 || c.Scope > SameRank
		if c.Window > 1 {
			p.windows = append(p.windows, window{uint8(c.Next), c.Scope, c.Window, int64(c.Clocks), s.ringSize, s.windows})
			s.ringSize += c.Window
			s.windows++
			continue
		}
		list := [...]*[]step{&p.bank, &p.group, &p.rank, &p.other, &p.pseudo, &p.whole}[c.Scope]
		*list = addStep(*list, step{uint8(c.Next), int64(c.Clocks)})
	}
	return s
}

// addStep adds n to list, and keeps one step for each next command.
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
	for i := range s.running {
		s.running[i] = -1
	}
	for i := range s.rows {
		s.rows[i] = -1
	}
	for i := range s.rings {
		s.rings[i] = never
	}
}

// Nodes returns the clocks over which Earliest takes the maximum: by rank, by bank group and by bank, each over all ranks. Issue updates
// them; the caller must only read.
func (s *State) Nodes() (ranks, groups, banks []Node) { return s.ranks, s.groups, s.banks }

// Rows returns the open row of each bank over all ranks, or -1. Issue updates it; the caller must only read.
func (s *State) Rows() []int32 { return s.rows }

// Shift adds clocks to every clock of the state, so that relative times stay the same.
func (s *State) Shift(clocks int64) {
	for _, nodes := range [][]Node{s.ranks, s.groups, s.banks} {
		for i := range nodes {
			used := nodes[i][:s.used]
			for j := range used {
				used[j] += clocks
			}
		}
	}
	for i := range s.running {
		s.running[i] += clocks
	}
	for i := range s.rings {
		s.rings[i] += clocks
	}
}

// AppendRelative appends the parts of the state that affect commands after now, in clocks relative to now. Two states that append the same
// allow the same further commands at the same distances, whatever the rows.
func (s *State) AppendRelative(dst []int64, now int64) []int64 {
	for _, nodes := range [...][]Node{s.ranks, s.groups, s.banks} {
		for i := range nodes {
			n := len(dst)
			dst = slices.Grow(dst, s.used)[:n+s.used]
			for j, clock := range nodes[i][:s.used] {
				dst[n+j] = max(clock-now, 0)
			}
		}
	}
	for _, clock := range s.running {
		dst = append(dst, max(clock-now, -1))
	}
	for c := range s.programs {
		for i := range s.programs[c].windows {
			w := &s.programs[c].windows[i]
			for rank := range s.ranks {
				ring, oldest := s.rings[rank*s.ringSize+w.ring:][:w.size], s.ringPos[rank*s.windows+w.index]
				for k := range ring {
					dst = append(dst, max(ring[(oldest+k)%w.size]+w.clocks-now, 0))
				}
			}
		}
	}
	return dst
}

// Spec returns the spec of the state.
func (s *State) Spec() *Spec { return s.spec }

// Earliest returns the first clock, at least 0, at which the constraints set by issued commands allow cmd at a. It ignores the command
// buses.
func (s *State) Earliest(cmd Command, a Address) int64 {
	c := cmd & (Slots - 1)
	t := s.ranks[a.Rank][c]
	if a.Bank < 0 {
		return t
	}
	if span := s.programs[c].span; span != OneBank {
		for r, last := span.ranks(s.ranksPerPseudo, a.Rank); r < last; r++ {
			t = max(t, s.ranks[r][c])
			bank, stride, end := s.spec.spanned(span, a)
			for ; bank < end; bank += stride {
				b := r*s.banksPerRank + bank
				t = max(t, s.groups[b/s.banksPerGroup][c], s.banks[b][c])
			}
		}
		return t
	}
	g := int(a.Rank)*s.groupsPerRank + int(a.BankGroup)
	return max(t, s.groups[g][c], s.banks[g*s.banksPerGroup+int(a.Bank)][c])
}

// ranks returns the ranks that a command acts on, from first up to, excluding, end.
func (s Span) ranks(perPseudo int, rank int32) (first, end int) {
	if s != SameBanksAll && s != WholeChannel {
		return int(rank), int(rank) + 1
	}
	first = int(rank) / perPseudo * perPseudo
	return first, first + perPseudo
}

// spanned returns the banks that a command of several banks acts on: every stride-th number within the rank, from first up to, excluding,
// end.
func (s *Spec) spanned(span Span, a Address) (first, stride, end int) {
	if span == BankPair {
		half := s.Banks() / 2
		return (int(a.BankGroup)*s.BanksPerGroup + int(a.Bank)) % half, half, s.Banks()
	}
	return int(a.Bank), s.BanksPerGroup, s.Banks()
}

// Issue records that cmd issues at a at the given clock, and updates constraints and open rows. Commands of a kind that a window constrains
// (ACT) must come in the order of their clocks; others may come in any order.
func (s *State) Issue(cmd Command, a Address, clock int64) {
	p := &s.programs[cmd&(Slots-1)]
	s.ranks[a.Rank].apply(p.rank, clock)
	switch {
	case a.Bank < 0:
		if p.leaves != AnyState {
			s.setRank(p, int(a.Rank), a.Row)
		}
	case p.span == OneBank:
		g := int(a.Rank)*s.groupsPerRank + int(a.BankGroup)
		s.issueBank(p, g, g*s.banksPerGroup+int(a.Bank), a.Row, clock)
	default:
		for r, last := p.span.ranks(s.ranksPerPseudo, a.Rank); r < last; r++ {
			s.ranks[r].apply(p.rank, clock)
			bank, stride, end := s.spec.spanned(p.span, a)
			for ; bank < end; bank += stride {
				b := r*s.banksPerRank + bank
				s.issueBank(p, b/s.banksPerGroup, b, a.Row, clock)
			}
		}
	}
	if p.wide {
		s.issueWide(p, int(a.Rank), clock)
	}
	if p.keeps > 0 {
		s.running[a.Rank] = max(s.running[a.Rank], clock+p.keeps)
	}
}

// issueBank is Issue for bank b in bank group g, both counted over all ranks.
func (s *State) issueBank(p *program, g, b int, row int32, clock int64) {
	s.groups[g].apply(p.group, clock)
	s.banks[b].apply(p.bank, clock)
	switch p.leaves {
	case Open:
		s.rows[b] = row
	case Closed:
		s.rows[b] = -1
	}
}

// issueWide is Issue for effects beyond the rank, and for windows.
func (s *State) issueWide(p *program, rank int, clock int64) {
	first, end := 0, len(s.ranks)
	if s.ranksPerPseudo < end {
		first = rank - rank%s.ranksPerPseudo
		end = first + s.ranksPerPseudo
	}
	for r := first; r < end && len(p.other)+len(p.pseudo) > 0; r++ {
		if r != rank {
			s.ranks[r].apply(p.other, clock)
		}
		s.ranks[r].apply(p.pseudo, clock)
	}
	if len(p.whole) > 0 {
		for r := range s.ranks {
			s.ranks[r].apply(p.whole, clock)
		}
	}
	for i := range p.windows {
		w := &p.windows[i]
		switch w.scope {
		case SameRank:
			s.pushWindow(w, rank, rank+1, clock)
		case SamePseudoChannel:
			s.pushWindow(w, first, end, clock)
		default:
			s.pushWindow(w, 0, len(s.ranks), clock)
		}
	}
}

// ClockRuns reports whether the data clock runs at the given clock, if cmd needs it. If not, the standard's DataClockCommand must issue
// early enough that its steps are over.
func (s *State) ClockRuns(cmd Command, rank int, clock int64) bool {
	return !s.programs[cmd&(Slots-1)].clocked || clock <= s.running[rank]
}

// apply raises the clocks of n by the steps of a command at clock.
func (n *Node) apply(steps []step, clock int64) {
	for _, st := range steps {
		e := &n[st.next&(Slots-1)]
		*e = max(*e, clock+st.clocks)
	}
}

// pushWindow enters clock into the window's ring. The ring's oldest entry then bounds the next command of the ranks first to end-1.
func (s *State) pushWindow(w *window, first, end int, clock int64) {
	pos := &s.ringPos[first*s.windows+w.index]
	ring := s.rings[first*s.ringSize+w.ring:][:w.size]
	ring[*pos] = clock
	if *pos++; *pos == w.size {
		*pos = 0
	}
	bound := ring[*pos] + w.clocks
	for r := first; r < end; r++ {
		e := &s.ranks[r][w.next&(Slots-1)]
		*e = max(*e, bound)
	}
}

// setRank sets the open rows after a command of a rank, or of all ranks of its pseudo-channel.
func (s *State) setRank(p *program, rank int, row int32) {
	if p.leaves != Open {
		row = -1
	}
	first, end := p.span.ranks(s.ranksPerPseudo, int32(rank))
	rows := s.rows[first*s.banksPerRank : end*s.banksPerRank]
	for i := range rows {
		rows[i] = row
	}
}
