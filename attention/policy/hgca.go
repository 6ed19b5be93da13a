package policy

// hgcaWindow is the window of HGCA (hybrid GPU-CPU attention): the last tokens, which the
// GPUs hold and attend over densely. Tokens leave it in whole blocks, oldest first. The
// paper's Algorithm 2 prints the size of an eviction with the sign of (l_max − l_cur),
// which would be negative from the second token on; this is the law with the sign turned.
type hgcaWindow struct {
	Size, Block int // tokens; Block is 1 to Size
}

// Evicted returns how many tokens have left the window by the time of that context:
// at the end of the prompt or after the step. It does not depend on where the prompt
// ended. Size−Block to Size−1 tokens stay, or all of a shorter context.
func (w hgcaWindow) Evicted(context int) int {
	if context < w.Size {
		return 0
	}
	return (context-w.Size)/w.Block*w.Block + w.Block
}

// Held returns how many tokens the window holds in a step of that context, its
// own token included: at most Size.
func (w hgcaWindow) Held(context int) int { return context - w.Evicted(context-1) }

// hgcaState is the values of HGCA in one KV head. A token's salience is its attention weight times
// the number of tokens that share the weight, 1 in the mean; the paper compares the weight
// with β over that number. Salience is averaged over the query heads of the group, which
// share the tokens that stay.
type hgcaState struct {
	wholePrompt
	window               hgcaWindow
	beta, alpha          float32
	queries, pinned, dim int
	tokens, first        int       // so far; the oldest of the window
	average              []float32 // salience of the window's tokens, by token modulo Size
	salient              []int32   // tokens that have left the window and stay, ascending
	parts                [2]Part   // salient, window
	windowRange          [1][2]int
}

// newHGCAState returns the state of one KV head.
func newHGCAState(s *HGCASpec, shape Shape, limit int) *hgcaState {
	h := &hgcaState{
		window: hgcaWindow{Size: s.Window, Block: s.Block}, beta: float32(s.Beta), alpha: float32(s.Alpha),
		queries: s.PromptQueries, pinned: s.PinSinks, dim: shape.Dim,
	}
	h.average, h.salient = make([]float32, min(s.Window, limit)), make([]int32, 0, limit)
	h.parts[0].Ranges = make([][2]int, 0, limit/2+1)
	h.parts[1].Device = GPU
	return h
}

// Prompt sets the average salience of each token to that of the last queries that see it.
func (s *hgcaState) Prompt(q [][]float32, k, _ []float32) {
	s.tokens = len(k) / s.dim
	average, from := make([]float64, s.tokens), max(0, s.tokens-s.queries)
	promptWeights(q, k, s.dim, from, func(token int, weights []float32) {
		for j, w := range weights {
			average[j] += float64(float64(w) * float64(token+1))
		}
	})
	for j := range average {
		average[j] /= float64(len(q) * (s.tokens - max(from, j)))
	}
	s.evict(func(token int) float32 { return float32(average[token]) })
	for j := s.first; j < s.tokens; j++ {
		s.average[j%s.window.Size] = float32(average[j])
	}
}

// evict moves the oldest tokens out of the window, as many as leave it after the latest
// token.
func (s *hgcaState) evict(average func(token int) float32) {
	end := s.window.Evicted(s.tokens)
	if s.first == end {
		return
	}
	for ; s.first < end; s.first++ {
		// Without rounding every weight is more than 0.
		if s.first < s.pinned || s.beta == 0 || average(s.first) > s.beta {
			s.salient = append(s.salient, int32(s.first))
		}
	}
	s.parts[0].Ranges = appendRanges(s.parts[0].Ranges[:0], s.salient)
}

// Append lets blocks leave after the step before, and adds the step's token to the window.
func (s *hgcaState) Append(_, _ []float32) {
	s.evict(func(token int) float32 { return s.average[token%s.window.Size] })
	s.tokens++
}

// Select returns the salient tokens at home, if there are any, and the window on the GPUs.
func (s *hgcaState) Select(_ [][]float32) Selection {
	s.windowRange[0] = [2]int{s.first, s.tokens}
	s.parts[1].Ranges = s.windowRange[:]
	if len(s.salient) == 0 {
		return Selection{s.parts[1:]}
	}
	return Selection{s.parts[:]}
}

// Observe moves the averages on by the weights of the window, where the step's own token
// begins with its first salience.
func (s *hgcaState) Observe(weights [][]float32) {
	held := s.tokens - s.first
	scale := float32(held) / float32(len(weights))
	for j := s.first; j < s.tokens; j++ {
		var sum float32
		for _, head := range weights {
			sum += head[len(head)-held+j-s.first]
		}
		average := &s.average[j%s.window.Size]
		if salience := sum * scale; j == s.tokens-1 {
			*average = salience
		} else {
			*average = float32((1-s.alpha)*(*average)) + float32(s.alpha*salience)
		}
	}
}
