package policy

// Pages is attention to the pages with the best scores (Quest: Tang et al., ICML 2024;
// LServe: Yang et al., MLSys 2025). A list of pages is the newest page and the best of the
// others. All functions are of context, the tokens of a step with its own included, and of
// prompt, the tokens before the first step.
type Pages struct {
	Budget  int // tokens
	Page    int // tokens; a list has Budget/Page pages
	Logical int // tokens with a minimum and a maximum of their own
	Least   int // pages of a list, where there are as many
	Reuse   int // steps that share a list
	Replace bool
	Skip    int // first layers, which attend to everything
}

// NewPages returns those of a section with own values.
func NewPages(s *Spec) Pages {
	if s.Name == "quest" {
		return Pages{Budget: s.Budget, Page: s.Page, Logical: s.Page, Least: 1, Reuse: 1, Skip: s.SkipLayers}
	}
	return Pages{Budget: s.Budget, Page: s.Page, Logical: s.LogicalPage, Least: 3, Reuse: s.Reuse, Replace: s.Newest == "replace"}
}

// Pages returns the pages that a context has.
func (p *Pages) Pages(context int) int { return (context + p.Page - 1) / p.Page }

// Summaries returns the logical pages that a context has.
func (p *Pages) Summaries(context int) int { return (context + p.Logical - 1) / p.Logical }

// Selected returns the pages of a list that is made at a context. A context within the
// budget has all.
func (p *Pages) Selected(context int) int {
	pages := p.Pages(context)
	if context <= p.Budget {
		return pages
	}
	return min(max(p.Least, p.Budget/p.Page), pages)
}

// Selects says that a step makes a list: each Reuse-th, and the first after the prompt.
func (p *Pages) Selects(prompt, context int) bool { return p.MadeAt(prompt, context) == context }

// MadeAt returns the context at which the list of a step was made.
func (p *Pages) MadeAt(prompt, context int) int { return max(prompt+1, context-context%p.Reuse) }

// Tokens returns the tokens that a step attends to. The list's newest page may have been filled up
// since the list was made. Pages that have begun since are attended to in addition, or
// the newest one in place of the list's. A context within the budget is attended to whole.
func (p *Pages) Tokens(prompt, context int) int {
	made := p.MadeAt(prompt, context)
	end := p.Pages(made) * p.Page // of the list's newest page
	others := (p.Selected(made) - 1) * p.Page
	switch {
	case context <= p.Budget:
		return context
	case context <= end:
		return others + context - (end - p.Page)
	case p.Replace:
		return others + context - (p.Pages(context)-1)*p.Page
	}
	return others + p.Page + context - end
}
