package policy

// HGCAWindow is the window of HGCA (hybrid GPU-CPU attention): the last tokens, which the
// GPUs hold and attend over densely. Tokens leave it in whole blocks, oldest first. The
// paper's Algorithm 2 prints the size of an eviction with the sign of (l_max − l_cur),
// which would be negative from the second token on; this is the law with the sign turned.
type HGCAWindow struct {
	Size, Block int // tokens; Block is 1 to Size
}

// Evicted returns how many tokens have left the window once a context has so many tokens:
// at the end of the prompt or after the step. It does not depend on where the prompt
// ended. Size−Block to Size−1 tokens stay, where there have been as many.
func (w HGCAWindow) Evicted(context int) int {
	if context < w.Size {
		return 0
	}
	return (context-w.Size)/w.Block*w.Block + w.Block
}

// Held returns how many tokens the window holds in the step whose context has so many, its
// own token included: at most Size.
func (w HGCAWindow) Held(context int) int { return context - w.Evicted(context-1) }

// Leaving returns how many tokens leave after the step whose context has so many: 0 or a
// block. What leaves at the end of a prompt is Evicted.
func (w HGCAWindow) Leaving(context int) int { return w.Evicted(context) - w.Evicted(context-1) }
