package dram

// Scope says which later commands a constraint concerns, relative to the
// command that sets it.
type Scope uint8

// The scopes, innermost first. An all-bank command sets and obeys constraints
// of SameRank and OtherRank only.
const (
	SameBank Scope = iota
	SameBankGroup
	SameRank
	OtherRank // the other ranks of the channel
)

// String returns the scope in words.
func (s Scope) String() string {
	switch s {
	case SameBank:
		return "bank"
	case SameBankGroup:
		return "bank group"
	case SameRank:
		return "rank"
	case OtherRank:
		return "other rank"
	}
	return "scope(?)"
}

// Constraint is one timing rule: after Command, Next must not issue in Scope
// before Clocks have passed. With Window w > 1 the distance counts from the
// w-th latest Command instead of the latest: tFAW is a window of four.
type Constraint struct {
	Rule    string // JEDEC term, "tRCD", or the bus rule's name; what a log's waiver names
	Scope   Scope
	Command Command
	Next    Command
	Clocks  int
	Window  int
}

// Commands by their effect, for the rows that concern a whole kind.
var (
	anyRead    = []Command{RD, RDA}
	anyWrite   = []Command{WR, WRA}
	anyColumn  = []Command{RD, RDA, WR, WRA}
	anyCommand = []Command{ACT, ACTA, PRE, PREA, RD, RDA, WR, WRA, REF, MACA, RDRES, WRBUF}
)

// constraintTable collects rows.
type constraintTable []Constraint

// add appends a row for each pair of a command and a next command; rules that
// forbid nothing (distance below one clock) are left out.
func (t *constraintTable) add(rule string, scope Scope, from, to []Command, clocks int) {
	if clocks < 1 {
		return
	}
	for _, c := range from {
		for _, n := range to {
			*t = append(*t, Constraint{Rule: rule, Scope: scope, Command: c, Next: n, Clocks: clocks, Window: 1})
		}
	}
}

// Constraints returns the rules of s as rows: DDR4's, from the command
// descriptions of JESD79-4C, and those of the PIM commands.
func (s *Spec) Constraints() []Constraint {
	var t constraintTable
	s.bankRules(&t)
	s.activateRules(&t)
	s.columnRules(&t)
	s.rankSwitchRules(&t)
	s.refreshRules(&t)
	s.pimRules(&t)
	return t
}

// WriteRecovery returns write command to precharge: WL + BL/2 + tWR.
func (s *Spec) WriteRecovery() int { return s.CWL + s.BurstClocks() + s.TWR }

// readToWrite returns read to write in one rank, so that the bus turns
// around between the bursts: RL + BL/2 + 2 - WL (JESD79-4, "Read to Write").
func (s *Spec) readToWrite() int { return s.CL + s.BurstClocks() + turnaroundClocks - s.CWL }

// bankRules are the life of one bank's row, and the same for all banks under
// the all-bank precharge.
func (s *Spec) bankRules(t *constraintTable) {
	act, pre, prea := []Command{ACT}, []Command{PRE}, []Command{PREA}
	t.add("tRCD", SameBank, act, anyColumn, s.TRCD)
	t.add("tRAS", SameBank, act, pre, s.TRAS)
	t.add("tRC", SameBank, act, act, s.TRC)
	t.add("tRP", SameBank, pre, act, s.TRP)
	t.add("tRTP", SameBank, anyRead, pre, s.TRTP)
	t.add("tWR", SameBank, anyWrite, pre, s.WriteRecovery())
	// Auto-precharge begins when an explicit one could ("Precharge Command").
	t.add("tRTP+tRP", SameBank, []Command{RDA}, act, s.TRTP+s.TRP)
	t.add("tWR+tRP", SameBank, []Command{WRA}, act, s.WriteRecovery()+s.TRP)

	t.add("tRAS", SameRank, act, prea, s.TRAS)
	t.add("tRTP", SameRank, anyRead, prea, s.TRTP)
	t.add("tWR", SameRank, anyWrite, prea, s.WriteRecovery())
	t.add("tRP", SameRank, prea, act, s.TRP)
}

// activateRules limit the current that activations draw.
func (s *Spec) activateRules(t *constraintTable) {
	act := []Command{ACT}
	t.add("tRRD_L", SameBankGroup, act, act, s.TRRDL)
	t.add("tRRD_S", SameRank, act, act, s.TRRDS)
	*t = append(*t, Constraint{Rule: "tFAW", Scope: SameRank, Command: ACT, Next: ACT, Clocks: s.TFAW, Window: 4})
}

// columnRules space the column accesses of a rank.
func (s *Spec) columnRules(t *constraintTable) {
	t.add("tCCD_L", SameBankGroup, anyRead, anyRead, s.TCCDL)
	t.add("tCCD_L", SameBankGroup, anyWrite, anyWrite, s.TCCDL)
	t.add("tCCD_S", SameRank, anyRead, anyRead, s.TCCDS)
	t.add("tCCD_S", SameRank, anyWrite, anyWrite, s.TCCDS)
	t.add("tWTR_L", SameBankGroup, anyWrite, anyRead, s.CWL+s.BurstClocks()+s.TWTRL)
	t.add("tWTR_S", SameRank, anyWrite, anyRead, s.CWL+s.BurstClocks()+s.TWTRS)
	t.add("tRTW", SameRank, anyRead, anyWrite, s.readToWrite())
}

// rankSwitchRules leave tRTRS between the bursts of two ranks on the channel's
// data bus.
func (s *Spec) rankSwitchRules(t *constraintTable) {
	gap := s.BurstClocks() + s.TRTRS
	t.add("tRTRS", OtherRank, anyRead, anyRead, gap)
	t.add("tRTRS", OtherRank, anyWrite, anyWrite, gap)
	t.add("tRTRS", OtherRank, anyRead, anyWrite, s.CL+gap-s.CWL)
	t.add("tRTRS", OtherRank, anyWrite, anyRead, s.CWL+gap-s.CL)
}

// refreshRules: all banks are precharged before REF, and nothing but deselect
// follows within tRFC (JESD79-4, "Refresh Command").
func (s *Spec) refreshRules(t *constraintTable) {
	ref := []Command{REF}
	t.add("tRC", SameRank, []Command{ACT, ACTA}, ref, s.TRC)
	t.add("tRP", SameRank, []Command{PRE, PREA}, ref, s.TRP)
	t.add("tRTP+tRP", SameRank, []Command{RDA}, ref, s.TRTP+s.TRP)
	t.add("tWR+tRP", SameRank, []Command{WRA}, ref, s.WriteRecovery()+s.TRP)
	t.add("tRFC", SameRank, ref, anyCommand, s.TRFC)
}

// pimRules: an all-bank activation and an all-bank read obey what each bank
// would; the buffers' commands share the rank's data bus but not the banks.
func (s *Spec) pimRules(t *constraintTable) {
	acta, maca := []Command{ACTA}, []Command{MACA}
	t.add("tRC", SameRank, acta, []Command{ACT, ACTA}, s.TRC)
	t.add("tRC", SameRank, []Command{ACT}, acta, s.TRC)
	t.add("tRAS", SameRank, acta, []Command{PRE, PREA}, s.TRAS)
	t.add("tRP", SameRank, []Command{PRE, PREA}, acta, s.TRP)
	t.add("tRTP+tRP", SameRank, []Command{RDA}, acta, s.TRTP+s.TRP)
	t.add("tWR+tRP", SameRank, []Command{WRA}, acta, s.WriteRecovery()+s.TRP)
	t.add("tRCD", SameRank, acta, anyColumn, s.TRCD)

	t.add("tRCD", SameRank, []Command{ACT, ACTA}, maca, s.TRCD)
	t.add("tRTP", SameRank, maca, []Command{PRE, PREA}, s.TRTP)
	t.add("tCCD_L", SameRank, maca, []Command{MACA, RD, RDA, WR, WRA}, s.TCCDL)
	t.add("tCCD_L", SameRank, anyRead, maca, s.TCCDL)
	t.add("tWTR_L", SameRank, anyWrite, maca, s.CWL+s.BurstClocks()+s.TWTRL)

	// RDRES and WRBUF pass the banks: only their bursts must not meet on the
	// rank's data bus.
	rdres, wrbuf := []Command{RDRES}, []Command{WRBUF}
	reads, writes := []Command{RD, RDA, RDRES}, []Command{WR, WRA, WRBUF}
	t.add("burst", SameRank, rdres, reads, s.BurstClocks())
	t.add("burst", SameRank, anyRead, rdres, s.BurstClocks())
	t.add("burst", SameRank, wrbuf, writes, s.BurstClocks())
	t.add("burst", SameRank, anyWrite, wrbuf, s.BurstClocks())
	t.add("tRTW", SameRank, rdres, writes, s.readToWrite())
	t.add("tRTW", SameRank, anyRead, wrbuf, s.readToWrite())
	writeToRead := s.CWL + s.BurstClocks() + turnaroundClocks - s.CL
	t.add("burst", SameRank, wrbuf, reads, writeToRead)
	t.add("burst", SameRank, anyWrite, rdres, writeToRead)
}
