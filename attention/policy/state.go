package policy

// Values is the numerical side of a policy: it chooses tokens for a real model's heads.
type Values interface {
	// NewState returns the state of one KV head of a layer for an empty sequence that will have at most limit tokens.
	NewState(layer, kvHead, limit int) State
}

// ValuesFunc implements Values with a function.
type ValuesFunc func(layer, kvHead, limit int) State

// NewState calls the function.
func (f ValuesFunc) NewState(layer, kvHead, limit int) State { return f(layer, kvHead, limit) }

// State is a policy's state for one KV head of a sequence. Vectors have Shape.Dim elements. A decode step is Append, Select, attention over
// the selection, Observe. The caller may change slices after passing them; a selection is valid until the next Append. Steps do not
// allocate.
type State interface {
	// PromptMask returns the mask of a prompt's tokens: they attend to the first sink tokens and the newest window ones, including
	// themselves. A window of 0 is everything.
	PromptMask() (sink, window int)
	// Prompt passes the queries [n, Dim] of each query head of the group, and keys and values [n, Dim], of a whole prompt, after rotation
	// and rounding. It is called once, before any step.
	Prompt(q [][]float32, k, v []float32)
	// Append passes key and value of the step's own token.
	Append(k, v []float32)
	// Select returns the tokens that the step attends to, for the group's queries [Dim], which are not scaled by 1/√Dim. The step's own
	// token is in exactly one part for each query head.
	Select(q [][]float32) Selection
	// Observe passes the step's attention weights. Each query head has the weights of its first part's tokens, in the order of the ranges,
	// then those of the next part. The weights of each part add up to 1, since a device only knows its own part.
	Observe(weights [][]float32)
}

// Selection is the tokens that a step attends to, in parts. The parts of a query head are disjoint; its result merges all of them.
type Selection struct{ Parts []Part }

// Part is the tokens that one device attends to.
type Part struct {
	Device Device
	Heads  []uint16 // query heads of the group that attend to it, ascending; nil: all
	Ranges [][2]int // ascending, each from its first token up to, excluding, its second, none empty
}

// For reports whether a query head of the group attends to the part.
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
