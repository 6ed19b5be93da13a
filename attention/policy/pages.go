package policy

import (
	"math"
	"slices"
)

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

// NewPages returns those of a section whose policy chooses pages.
func NewPages(s *Spec) Pages {
	if q := &s.Quest; s.Name == "quest" {
		return Pages{Budget: q.Budget, Page: q.Page, Logical: q.Page, Least: 1, Reuse: 1, Skip: q.SkipLayers}
	}
	l := &s.LServe
	return Pages{Budget: l.Budget, Page: l.Page, Logical: l.LogicalPage, Least: 3, Reuse: l.Reuse, Replace: l.Newest == "replace"}
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

// paged is heads that attend to selected pages (Quest, LServe).
type paged struct {
	Pages
	perQuery bool // each query head chooses for itself
	softmax  bool // each query head's scores are normalised before they are added up
	scores   bool // each query head has scores
	list     int  // pages of a list, where there are as many
	device   string
	// byGPU says that the GPUs make bounds, at home that these are with the keys, which are not there.
	byGPU, atHome bool
	quads         bool
	measured      *pagesProfile // nil: none
}

// newPaged returns the costs of heads that choose pages. pages says which heads these are; the profile's shares
// are means over them.
func newPaged(spec *Spec, shape *Shape, pages func(layer, head int) bool) paged {
	s := spec.Pages()
	p := paged{
		Pages: NewPages(spec), perQuery: s.SelectGroup == "per-head", softmax: s.SelectGroup == "softmax-sum", scores: s.SelectGroup != "sum",
		byGPU: s.SummaryDevice == "gpu", quads: s.Layout == "quad", measured: newPagesProfile(spec.measured(), pages),
	}
	if s.SelectDevice != "gpu" {
		p.device, p.atHome = s.SelectDevice, shape.Apart
	}
	p.list = max(p.Least, p.Budget/p.Page)
	return p
}

// numbersEach is how many numbers of each request decode takes.
const numbersEach = 6

// decode adds the work of that many heads in a step: scores of the bounds of all pages and the best
// pages, where a list is made, and attention over the lists. The bounds of the open page change
// with each token, in the kernel that appends its key.
func (p *paged) decode(c *common, heads int, requests []Request) {
	n := len(requests)
	scored, ranked, tokens, down, rows, read := c.take(n), c.take(n), c.take(n), c.take(n), c.take(n), c.take(n)
	keep, selects, sparse := 0, 0, false
	for i, r := range requests {
		scored[i], ranked[i], down[i] = 0, 0, 0
		if p.byGPU && r.Context%p.Logical == 0 {
			down[i] = 1
		}
		if p.measured != nil {
			rows[i], read[i] = p.measured.at(r.Context)
		}
		if r.Context <= p.Budget {
			tokens[i] = r.Context
			continue
		}
		sparse = true
		if p.Reuse > 1 && !p.Selects(r.Prompt, r.Context) {
			tokens[i] = p.Tokens(r.Prompt, r.Context)
			continue
		}
		// What Tokens, Selected and Summaries say of a list that is made now, with few divisions.
		pages := p.Pages.Pages(r.Context)
		n := min(p.list, pages)
		tokens[i], scored[i], ranked[i] = r.Context-(pages-n)*p.Page, pages, pages
		if p.Logical != p.Page {
			scored[i] = p.Summaries(r.Context)
		}
		keep = max(keep, n-1)
		selects += scored[i]
	}
	class := Class{Device: Home, Heads: heads, Tokens: tokens}
	if sparse || p.quads { // else the lists have all pages in order
		class.Page, class.PerQueryHead, class.Quads = p.Page, p.perQuery, p.quads
		if p.measured != nil {
			class.Rows, class.Read = rows, read
		}
	}
	c.attend(class)
	if keep > 0 {
		c.step.Choose = append(c.step.Choose, Choice{
			Device: p.device, Heads: heads, Scored: scored, Ranked: ranked, Keep: keep, PerQueryHead: p.perQuery, PerQueryScores: p.scores, Softmax: p.softmax,
		})
		if p.softmax && p.device == "" { // two passes over the scores of each query head
			c.pass(2, 2*4*int64(selects)*int64(heads)*int64(c.shape.group()), 0)
		}
	}
	if p.atHome {
		c.step.Bounds = Bounds{Heads: heads, Down: down, Updates: !p.byGPU}
	}
	if p.byGPU {
		c.pass(0, 5*c.shape.elements(c.shape.Dim)*int64(heads)*int64(len(requests)), 0) // the key in, two bounds in and out
	}
}

// prompt adds the bounds of a chunk's pages after finished tokens. Those that are complete go home.
func (p *paged) prompt(c *common, heads, chunk, finished int) {
	if !p.byGPU {
		return
	}
	vector := c.shape.elements(c.shape.Dim) * int64(heads)
	c.promptPass(1, vector*int64(chunk)+2*vector*int64(p.Summaries(chunk)), 0)
	if have := finished / p.Logical; p.atHome {
		c.send(heads, have, (finished+chunk)/p.Logical)
		c.prompt.Leave[len(c.prompt.Leave)-1].Bounds = true
	}
}

// bounds adds the memory of the bounds of that many heads: where pages are scored, and those of the open
// page on the GPUs where these make them for another place.
func (p *paged) bounds(held []Held, s *Shape, heads int) []Held {
	all := Held{Device: Home, Heads: heads, Bytes: max(1, 2*s.elements(s.Dim)/int64(p.Logical)), Index: true}
	if s.Apart && !p.atHome {
		all.Device = GPU
	}
	if held = append(held, all); p.atHome && p.byGPU {
		held = append(held, Held{Device: GPU, Heads: heads, Bytes: 2 * s.elements(s.Dim), Most: 1, Index: true})
	}
	return held
}

// questCost is the cost of Quest: all heads choose pages, but for the first layers.
type questCost struct {
	common
	pages paged
	skip  int // layers of the first run, which attend to everything
}

// newQuestCost returns the costs of Quest: its first layers attend to everything, all others to pages.
func newQuestCost(s *Spec, shape Shape) Policy {
	c := &questCost{common: newCommon(s.Name, shape), skip: min(s.Quest.SkipLayers, shape.Layers)}
	c.pages = newPaged(s, &shape, func(layer, _ int) bool { return layer >= c.skip })
	c.runs = successive(shape.Layers, func(layer int) bool { return layer < c.skip })
	return c
}

// successive returns runs of layers that are alike.
func successive[T comparable](layers int, of func(layer int) T) (runs []int) {
	for layer := range layers {
		if layer > 0 && of(layer) == of(layer-1) {
			runs[len(runs)-1]++
			continue
		}
		runs = append(runs, 1)
	}
	return runs
}

// dense reports whether the layers of a run attend to everything.
func (c *questCost) dense(run int) bool { return run == 0 && c.skip > 0 }

// Decode returns dense attention in the first layers, and pages in the others.
func (c *questCost) Decode(requests []Request, run int) *Step {
	c.reset(len(requests), numbersEach)
	if c.dense(run) {
		c.attend(Class{Device: Home, Heads: c.shape.KVHeads, Tokens: c.contexts(requests)})
	} else {
		c.pages.decode(&c.common, c.shape.KVHeads, requests)
	}
	return &c.step
}

// Prompt returns causal attention, and the bounds of pages.
func (c *questCost) Prompt(run, chunk, finished int, _ bool) *Prompt {
	c.begin(chunk, finished)
	if !c.dense(run) {
		c.pages.prompt(&c.common, c.shape.KVHeads, chunk, finished)
	}
	return &c.prompt
}

// Memory returns keys, values and bounds.
func (c *questCost) Memory(run int) (decoding, filling []Held) {
	c.held = append(c.held[:0], c.shape.everything())
	if !c.dense(run) {
		c.held = c.pages.bounds(c.held, &c.shape, c.shape.KVHeads)
	}
	return c.held, c.held
}

// pagesProfile is what a profile says of heads that choose pages: means over these heads of all
// layers, by bucket of contexts.
type pagesProfile struct {
	contexts    []int
	rows, share []float64
}

// newPagesProfile returns the means over the heads for which pages(layer, head) is true; nil without a
// profile or without a head that chooses pages.
func newPagesProfile(p *Profile, pages func(layer, head int) bool) *pagesProfile {
	if p == nil {
		return nil
	}
	n := len(p.Measured.Contexts)
	m, heads := &pagesProfile{p.Measured.Contexts, make([]float64, n), make([]float64, n)}, 0
	for i := range p.Heads {
		if !pages(i/p.Model.KVHeads, i%p.Model.KVHeads) {
			continue
		}
		heads++
		for bucket := range n {
			m.rows[bucket] += p.Heads[i].Rows[bucket]
			m.share[bucket] += p.Heads[i].Share[bucket]
		}
	}
	if heads == 0 {
		return nil
	}
	for bucket := range n {
		m.rows[bucket] /= float64(heads)
		m.share[bucket] /= float64(heads)
	}
	return m
}

// at returns the rows that the attended tokens of a context lie in, and how many of them any query
// head of a group attends to, both rounded up.
func (m *pagesProfile) at(context int) (rows, read int) {
	bucket, found := slices.BinarySearch(m.contexts, context)
	if !found {
		bucket = max(0, bucket-1)
	}
	return int(math.Ceil(m.rows[bucket])), min(context, int(math.Ceil(float64(m.share[bucket]*float64(context)))))
}
