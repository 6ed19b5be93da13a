package dram

const maxBuses = 4 // bounds the command buses of a channel

const maxHalves = 16 // bounds the pending second halves of commands on a bus

// CommandBuses tracks when the command buses of one channel are free. Commands of one bus must be taken in the order of their steps. The
// zero value with a standard is idle.
//
// Some commands have a second half (ACT-2 of LPDDR5). It issues in the first step that no other command takes, or in its last allowed step
// before any other command.
type CommandBuses struct {
	Standard *Standard
	buses    [maxBuses]commandBus
}

// commandBus is one bus: it is free from step free on, except for pending second halves.
type commandBus struct {
	free   int64
	last   [maxHalves]int64 // the last allowed step of each pending half, oldest first
	halves int
}

// passed returns the bus at a step, after idle steps up to it have issued pending halves.
func (b commandBus) passed(step int64) commandBus {
	served := int(max(0, min(int64(b.halves), step-b.free)))
	copy(b.last[:], b.last[served:b.halves])
	b.halves -= served
	b.free = max(b.free, step)
	return b
}

// Earliest returns the first step, at or after step, at which c may begin on its bus.
func (b *CommandBuses) Earliest(c Command, step int64) int64 {
	a := &b.Standard.commands[c]
	bus := &b.buses[a.Bus]
	step = max(step, bus.free)
	n := int64(b.Standard.StepsPerClock)
	if !a.AnyStep {
		step = (step + n - 1) / n * n
	}
	if bus.halves == 0 {
		return step
	}
	for !bus.fits(a, step) {
		step++
	}
	return step
}

// fits reports whether a command may begin at step without making a pending half, or its own, miss its last step.
func (b *commandBus) fits(a *Action, step int64) bool {
	at := b.passed(step)
	end := step + int64(a.Steps)
	for i, last := range at.last[:at.halves] {
		if end+int64(i) > last {
			return false
		}
	}
	return at.halves < maxHalves && (a.Second == 0 || end+int64(at.halves) <= step+int64(a.Second))
}

// Take gives the bus to c from step on.
func (b *CommandBuses) Take(c Command, step int64) {
	a := &b.Standard.commands[c]
	bus := &b.buses[a.Bus]
	if bus.halves > 0 {
		*bus = bus.passed(step)
	}
	bus.free = step + int64(a.Steps)
	if a.Second > 0 {
		bus.last[bus.halves] = step + int64(a.Second)
		bus.halves++
	}
}

// Sequence issues commands one after another, each at the first step that the rules, its command bus and the data clock allow.
type Sequence struct {
	State *State
	buses CommandBuses
	// Issued, if not nil, is called for every command, including those that start the data clock.
	Issued func(step int64, c Command, a Address)
}

// NewSequence returns an idle channel of ranks ranks.
func NewSequence(spec *Spec, ranks int) *Sequence {
	return &Sequence{State: NewState(spec, ranks), buses: CommandBuses{Standard: spec.Rules()}}
}

// Earliest returns the first step, at or after from, at which c may issue at a. If the data clock must be started first, it returns the
// step of the command that starts it.
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
