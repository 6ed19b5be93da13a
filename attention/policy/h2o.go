package policy

// H2OBudget is what a KV head keeps under H2O (Zhang et al., "H2O: Heavy-Hitter Oracle",
// 2023, arXiv:2306.14048): the last tokens, and of the others those that have collected the
// most attention. What it drops is gone for good. Budgets are shares of the prompt, as in
// the released code.
type H2OBudget struct {
	Heavy, Recent int // tokens that are kept between steps, where there are as many
}

// NewH2OBudget returns the budgets after a prompt, in tokens; heavy and recent are shares of it.
func NewH2OBudget(heavy, recent float64, prompt int) H2OBudget {
	return H2OBudget{Heavy: int(heavy * float64(prompt)), Recent: int(recent * float64(prompt))}
}

// Kept returns how many tokens a KV head keeps after a context, which is the prompt or
// longer.
func (h H2OBudget) Kept(context int) int { return min(context, h.Heavy+h.Recent) }

// Attended returns over how many tokens a KV head attends in the step whose context has so
// many, its own token included: those that were kept and its own.
func (h H2OBudget) Attended(context int) int { return h.Kept(context-1) + 1 }
