package dram

// maxBuses bounds the command buses of a channel.
const maxBuses = 4

// CommandBuses is when the command buses of one channel are free. Commands of one bus are
// taken in the order of their steps. The zero value with a standard is idle.
type CommandBuses struct {
	Standard *Standard
	free     [maxBuses]int64 // the first free step
}

// Earliest returns the first step, at or after step, at which c may begin on its bus.
func (b *CommandBuses) Earliest(c Command, step int64) int64 {
	a := &b.Standard.commands[c]
	step = max(step, b.free[a.Bus])
	if !a.AnyStep {
		n := int64(b.Standard.StepsPerClock)
		step = (step + n - 1) / n * n
	}
	return step
}

// Take gives the bus to c from step on.
func (b *CommandBuses) Take(c Command, step int64) {
	a := &b.Standard.commands[c]
	b.free[a.Bus] = step + int64(a.Steps)
}
