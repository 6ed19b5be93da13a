package dram

// Part is a part of a channel that a command keeps busy.
type Part uint8

// The parts, and what Busy.Index refers to.
const (
	OnCommandBus Part = iota // command buses
	OnDataBus                // the rank that transfers
	OnBank                   // bank, over all ranks: a row is open, or the bank alone refreshes
	OnRank                   // rank that refreshes
)

// Busy is an interval in which a command keeps a part busy, from step From up to, excluding, To.
type Busy struct {
	Part     Part
	Index    int
	From, To int64
	Command  Command
	Address  Address
}

// Occupancy follows the commands of a channel and reports the busy intervals, in order of time for each part.
type Occupancy struct {
	Tell    func(Busy)
	spec    *Spec
	perRank int             // ranks of a pseudo-channel
	open    []Busy          // by bank, over all ranks; To is 0 while a row is open
	after   [Commands]int64 // steps from a refresh to its end, or from an access with auto-precharge to the precharge
}

// NewOccupancy returns an idle channel of ranks ranks.
func NewOccupancy(s *Spec, ranks int, tell func(Busy)) *Occupancy {
	o := &Occupancy{Tell: tell, spec: s, perRank: max(1, ranks/s.Rules().PseudoChannels), open: make([]Busy, ranks*s.Banks())}
	for _, row := range s.Constraints() {
		c := s.Rules().Action(row.Command)
		if row.Next != ACT || row.Window > 1 || row.Scope > SameBank && c.Span < WholeRank {
			continue
		}
		switch {
		case c.Needs == Closed && c.Leaves == AnyState:
			o.after[row.Command] = max(o.after[row.Command], int64(row.Clocks))
		case row.Command.IsColumn() && c.Leaves == Closed:
			o.after[row.Command] = max(o.after[row.Command], int64(row.Clocks)-s.BusSteps(s.TRP))
		}
	}
	return o
}

// Command records the next command, at step at.
func (o *Occupancy) Command(at int64, c Command, a Address) {
	s := o.spec
	action := s.Rules().Action(c)
	o.Tell(Busy{OnCommandBus, action.Bus, at, at + int64(action.Steps), c, a})
	if c.IsRead() || c.IsWrite() {
		end := at + s.DataEnd(c)
		o.Tell(Busy{OnDataBus, int(a.Rank), end - s.BusSteps(s.BurstClocks()), end, c, a})
	}
	refreshes := action.Needs == Closed && action.Leaves == AnyState && o.after[c] > 0
	for rank, last := action.Span.ranks(o.perRank, a.Rank); rank < last; rank++ {
		if refreshes && action.Span >= WholeRank {
			o.Tell(Busy{OnRank, rank, at, at + o.after[c], c, a})
			continue
		}
		bank, stride, end := s.Spanned(c, a)
		for ; bank < end; bank += stride {
			i := rank*s.Banks() + bank
			switch row := &o.open[i]; {
			case refreshes:
				o.Tell(Busy{OnBank, i, at, at + o.after[c], c, a})
			case action.Leaves == Open && row.To == 0:
				*row = Busy{OnBank, i, at, MaxClock, c, a}
			case action.Leaves == Closed && row.To != 0:
				row.To = at + o.after[c]
				o.Tell(*row)
				row.To = 0
			}
		}
	}
}

// Close ends the intervals of rows still open at step end.
func (o *Occupancy) Close(end int64) {
	for i := range o.open {
		if row := &o.open[i]; row.To != 0 {
			row.To = end
			o.Tell(*row)
			row.To = 0
		}
	}
}
