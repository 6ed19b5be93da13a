package policy

// Values is the value side of a policy: it chooses the tokens of a real model's heads.
type Values interface {
	// NewState returns the state of one KV head of a layer, for a sequence that has no tokens
	// yet and will have at most limit.
	NewState(layer, kvHead, limit int) State
}

// ValuesFunc is Values by their one method.
type ValuesFunc func(layer, kvHead, limit int) State

// NewState calls the function.
func (f ValuesFunc) NewState(layer, kvHead, limit int) State { return f(layer, kvHead, limit) }

// State is what a policy knows of one KV head of a sequence. Vectors have Shape.Dim elements. A
// decode step is Append, Select, attention over what was selected, Observe. Slices that a
// state is given may change after the call; a selection is valid until the next Append. Steps
// allocate nothing.
type State interface {
	// PromptMask returns what a prompt's tokens attend to: the first sink tokens and the
	// newest window ones, their own among them. A window of 0 is everything.
	PromptMask() (sink, window int)
	// Prompt gives the queries [n, Dim] of each query head of the group, keys and values [n,
	// Dim] of a whole prompt, after rotation and rounding. It is called once, before any step.
	Prompt(q [][]float32, k, v []float32)
	// Append gives key and value of the step's own token.
	Append(k, v []float32)
	// Select returns what the step attends to, for the queries [Dim] of the group, which are
	// not scaled by 1/√Dim. The step's own token is in exactly one part for each query head.
	Select(q [][]float32) Selection
	// Observe gives the weights of the step: for each query head, those of the tokens of
	// its parts in turn, in the order of the ranges. The weights of each part add up to 1: a device
	// knows no other.
	Observe(weights [][]float32)
}

// Selection is the tokens that a step attends to, in parts. The parts of a query head share
// no token. Its result is that over all of them.
type Selection struct{ Parts []Part }

// Part is tokens that one device attends to.
type Part struct {
	Device Device
	Heads  []uint16 // query heads of the group that attend to it, ascending; nil: all
	Ranges [][2]int // tokens from the first to before the second, ascending, none empty
}

// For says that a query head of the group attends to the part.
func (p *Part) For(head int) bool {
	if p.Heads == nil {
		return true
	}
	for _, h := range p.Heads {
		if int(h) == head {
			return true
		}
	}
	return false
}

// Tokens returns the number of tokens of the part.
func (p *Part) Tokens() int {
	n := 0
	for _, r := range p.Ranges {
		n += r[1] - r[0]
	}
	return n
}
