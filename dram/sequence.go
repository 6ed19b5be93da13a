package dram

// Sequence issues commands one after another, each at the first step at which the rules, its
// command bus and the data clock let it.
type Sequence struct {
	State *State
	buses CommandBuses
	// Issued, if not nil, is told of every command, those that start the data clock included.
	Issued func(step int64, c Command, a Address)
}

// NewSequence returns an idle channel of ranks ranks.
func NewSequence(spec *Spec, ranks int) *Sequence {
	return &Sequence{State: NewState(spec, ranks), buses: CommandBuses{Standard: spec.Rules()}}
}

// Earliest returns the first step, at or after from, at which c may issue at a. Where the data
// clock must be started first, it is the step of the command that does so.
func (q *Sequence) Earliest(c Command, a Address, from int64) int64 {
	return q.buses.Earliest(c, max(from, q.State.Earliest(c, a)))
}

// Issue issues c at a at the first step at or after from, and returns that step. Commands of
// one bus issue in the order of the calls.
func (q *Sequence) Issue(c Command, a Address, from int64) int64 {
	at := q.Earliest(c, a, from)
	if !q.State.ClockRuns(c, int(a.Rank), at) {
		starts, _ := q.State.Spec().Rules().DataClockCommand()
		all := Address{a.Rank, -1, -1, -1, -1}
		q.Issue(starts, all, at)
		at = q.Earliest(c, a, at)
	}
	q.State.Issue(c, a, at)
	q.buses.Take(c, at)
	if q.Issued != nil {
		q.Issued(at, c, a)
	}
	return at
}
