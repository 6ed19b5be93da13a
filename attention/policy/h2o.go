package policy

// h2oBudget is what a KV head keeps under H2O (Zhang et al., "H2O: Heavy-Hitter Oracle",
// 2023, arXiv:2306.14048): the last tokens, and of the others those that have collected the
// most attention. What it drops is gone for good. Budgets are shares of the prompt, as in
// the released code.
type h2oBudget struct {
	Heavy, Recent int // tokens that are kept between steps, where there are as many
}

// newH2OBudget returns the budgets after a prompt, in tokens; heavy and recent are shares of it.
func newH2OBudget(heavy, recent float64, prompt int) h2oBudget {
	return h2oBudget{Heavy: int(heavy * float64(prompt)), Recent: int(recent * float64(prompt))}
}

// Kept returns how many tokens a KV head keeps after a context, which is the prompt or
// longer.
func (h h2oBudget) Kept(context int) int { return min(context, h.Heavy+h.Recent) }

// Attended returns how many tokens a KV head attends to in a step of that context, its own
// token included: those that were kept and its own.
func (h h2oBudget) Attended(context int) int { return h.Kept(context-1) + 1 }

// h2oState is the values of H2O in one KV head. The weights of a group's query heads add up:
// they share keys.
type h2oState struct {
	wholePrompt           // what collects attention must be computed
	heavy, recent float64 // shares of the prompt
	dim           int
	budget        h2oBudget
	tokens        int       // so far
	kept          []int32   // tokens, ascending, with the step's own from Append to Observe
	collected     []float64 // attention that each of them has collected
	part          [1]Part
}

// newH2OState returns that of a section with own values.
func newH2OState(s *Spec, shape Shape) *h2oState {
	return &h2oState{heavy: s.Heavy, recent: s.Recent, dim: shape.Dim}
}

// Prompt adds up the attention that each token collects from the prompt's queries.
func (s *h2oState) Prompt(q [][]float32, k, _ []float32) {
	s.tokens = len(k) / s.dim
	s.budget = newH2OBudget(s.heavy, s.recent, s.tokens)
	sums := make([]float64, s.tokens)
	promptWeights(q, k, s.dim, 0, func(_ int, weights []float32) {
		for j, w := range weights {
			sums[j] += float64(w)
		}
	})
	most := s.budget.Heavy + s.budget.Recent + 1
	older := max(0, s.tokens-s.budget.Recent)
	s.kept = appendTop(make([]int32, 0, most), sums[:older], s.budget.Heavy, make([]float64, older))
	for j := older; j < s.tokens; j++ {
		s.kept = append(s.kept, int32(j))
	}
	s.collected = make([]float64, len(s.kept), most)
	for i, j := range s.kept {
		s.collected[i] = sums[j]
	}
	s.part[0].Ranges = make([][2]int, 0, most)
}

// Append keeps the step's token for now.
func (s *h2oState) Append(_, _ []float32) {
	s.kept, s.collected = append(s.kept, int32(s.tokens)), append(s.collected, 0)
	s.tokens++
}

// Select returns what is kept.
func (s *h2oState) Select(_ [][]float32) Selection {
	s.part[0].Ranges = appendRanges(s.part[0].Ranges[:0], s.kept)
	return Selection{s.part[:]}
}

// Observe adds what the tokens have collected. Where one is too many it drops that with the
// least. The last Recent tokens stay; of equal ones the newest goes.
func (s *h2oState) Observe(weights [][]float32) {
	for _, head := range weights {
		for i, w := range head {
			s.collected[i] += float64(w)
		}
	}
	if len(s.kept) <= s.budget.Heavy+s.budget.Recent {
		return
	}
	least := 0
	for i, x := range s.collected[:len(s.kept)-s.budget.Recent] {
		if x <= s.collected[least] {
			least = i
		}
	}
	s.kept = append(s.kept[:least], s.kept[least+1:]...)
	s.collected = append(s.collected[:least], s.collected[least+1:]...)
}
