package policies

import (
	"github.com/l3sim/l3sim/attention/policy"
	"math"
)

// pageCostKeys are the keys of a choice of pages that choose none.
var pageCostKeys = []string{"select_device", "top_k_latency", "summary_device", "layout"}

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

// Pages returns the pages that a context has.
func (p *Pages) Pages(context int) int { return (context + p.Page - 1) / p.Page }

func (p *Pages) summaries(context int) int { return (context + p.Logical - 1) / p.Logical }

// selected returns the pages of a list that is made at a context. A context within the
// budget has all.
func (p *Pages) selected(context int) int {
	pages := p.Pages(context)
	if context <= p.Budget {
		return pages
	}
	return min(max(p.Least, p.Budget/p.Page), pages)
}

// selects says that a step makes a list: each Reuse-th, and the first after the prompt.
func (p *Pages) selects(prompt, context int) bool { return p.MadeAt(prompt, context) == context }

// MadeAt returns the context at which the list of a step was made.
func (p *Pages) MadeAt(prompt, context int) int { return max(prompt+1, context-context%p.Reuse) }

// Tokens returns the tokens that a step attends to. The list's newest page may have been filled up
// since the list was made. Pages that have begun since are attended to in addition, or
// the newest one in place of the list's. A context within the budget is attended to whole.
func (p *Pages) Tokens(prompt, context int) int {
	made := p.MadeAt(prompt, context)
	end := p.Pages(made) * p.Page // of the list's newest page
	others := (p.selected(made) - 1) * p.Page
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
func newPaged(u *policy.Use, s *policy.PagesSpec, of Pages, pages func(layer, head int) bool) paged {
	p := paged{
		Pages: of, perQuery: s.SelectGroup == "per-head", softmax: s.SelectGroup == "softmax-sum", scores: s.SelectGroup != "sum",
		byGPU: s.SummaryDevice == "gpu", quads: s.Layout == "quad", measured: newPagesProfile(u.Profile, pages),
	}
	if s.SelectDevice != "gpu" {
		p.device, p.atHome = s.SelectDevice, u.Shape.Apart
	}
	p.list = max(p.Least, p.Budget/p.Page)
	return p
}

const numbersEach = 6 // how many numbers of each request decode takes

// decode adds the work of that many heads in a step: scores of the bounds of all pages and the best
// pages, where a list is made, and attention over the lists. The bounds of the open page change
// with each token, in the kernel that appends its key.
func (p *paged) decode(c *common, heads int, requests []policy.Request) {
	n := len(requests)
	scored, ranked, tokens, down, rows, read := c.take(n), c.take(n), c.take(n), c.take(n), c.take(n), c.take(n)
	keep, selects, lists, sparse, drafts := 0, 0, 0, false, c.shape.Ahead() > 0
	for i, r := range requests {
		scored[i], ranked[i], down[i] = 0, 0, 0
		if p.byGPU { // of each token that ends a part of a page
			down[i] = r.Context/p.Logical - max(0, r.Context-1-c.shape.Ahead())/p.Logical
		}
		if p.measured != nil {
			rows[i], read[i] = p.measured.at(r.Context)
		}
		if r.Context <= p.Budget {
			tokens[i] = r.Context
			continue
		}
		sparse = true
		if drafts {
			v := p.together(r.Prompt, r.Context, &c.shape)
			tokens[i] = v.tokens
			if p.measured != nil {
				p.join(r.Context, v.lists, c.shape.Overlap, &rows[i], &read[i])
			}
			if v.made > 0 {
				ranked[i], scored[i] = p.Pages.Pages(r.Context), p.summaries(r.Context)
				keep, lists = max(keep, p.selected(r.Context)-1), max(lists, v.made)
				selects += scored[i] * v.made
			}
			continue
		}
		if p.Reuse > 1 && !p.selects(r.Prompt, r.Context) {
			tokens[i] = p.Tokens(r.Prompt, r.Context)
			continue
		}
		// What Tokens, Selected and Summaries say of a list that is made now, with few divisions.
		pages := p.Pages.Pages(r.Context)
		n := min(p.list, pages)
		tokens[i], scored[i], ranked[i] = r.Context-(pages-n)*p.Page, pages, pages
		if p.Logical != p.Page {
			scored[i] = p.summaries(r.Context)
		}
		keep = max(keep, n-1)
		selects += scored[i]
	}
	class := policy.Class{Device: policy.Home, Heads: heads, Tokens: tokens}
	if sparse || p.quads { // else the lists have all pages in order
		class.Paged, class.Quads = policy.Paged{Page: p.Page, PerQueryHead: p.perQuery}, p.quads
		if p.measured != nil {
			class.Rows, class.Read = rows, read
		}
	}
	c.attend(class)
	if keep > 0 {
		c.step.Choose = append(c.step.Choose, policy.Choice{
			Device: p.device, Heads: heads, Scored: scored, Ranked: ranked, Keep: keep, Lists: lists, PerQueryHead: p.perQuery, PerQueryScores: p.scores, Softmax: p.softmax,
		})
		if p.softmax && p.device == "" { // two passes over the scores of each query head
			c.pass(2, 2*4*int64(selects)*int64(heads)*int64(c.shape.Group()), 0)
		}
	}
	if p.atHome {
		c.step.Bounds = policy.Bounds{Heads: heads, Down: down, Updates: !p.byGPU}
	}
	if p.byGPU {
		c.pass(0, 5*c.shape.Elements(c.shape.Dim)*int64(heads)*int64(len(requests)*(1+c.shape.Ahead())), 0) // the key in, two bounds in and out
	}
}

// join has what a profile says of one list say it of several together: rows of 512 tokens, and tokens in whole pages. Rows have no less in common than
// pages do.
func (p *paged) join(context, lists int, overlap float64, rows, read *int) {
	*rows = unionOf(*rows, (context+511)/512, lists, overlap)
	if lists > 1 {
		*read = min(context, p.Page*unionOf(p.Pages.Pages(*read), p.Pages.Pages(context), lists, overlap))
	}
}

// prompt adds the bounds of a chunk's pages after finished tokens. Those that are complete go home.
func (p *paged) prompt(c *common, heads, chunk, finished int) {
	if !p.byGPU {
		return
	}
	vector := c.shape.Elements(c.shape.Dim) * int64(heads)
	c.promptPass(1, vector*int64(chunk)+2*vector*int64(p.summaries(chunk)), 0)
	if have := finished / p.Logical; p.atHome {
		c.send(heads, have, (finished+chunk)/p.Logical)
		c.prompt.Leave[len(c.prompt.Leave)-1].Bounds = true
	}
}

// bounds adds the memory of the bounds of that many heads: where pages are scored, and those of the open
// page on the GPUs where these make them for another place.
func (p *paged) bounds(held []policy.Held, s *policy.Shape, heads int) []policy.Held {
	all := policy.Held{Device: policy.Home, Heads: heads, Bytes: max(1, 2*s.Elements(s.Dim)/int64(p.Logical)), Index: true}
	if s.Apart && !p.atHome {
		all.Device = policy.GPU
	}
	if held = append(held, all); p.atHome && p.byGPU {
		held = append(held, policy.Held{Device: policy.GPU, Heads: heads, Bytes: 2 * s.Elements(s.Dim), Most: 1, Index: true})
	}
	return held
}

// pagesProfile is what a profile says of heads that choose pages: means over these heads of all
// layers, by bucket of contexts.
type pagesProfile struct {
	measured    *policy.ProfileMeasured
	rows, share []float64
}

// newPagesProfile returns the means over the heads for which pages(layer, head) is true; nil without a
// profile or without a head that chooses pages.
func newPagesProfile(p *policy.Profile, pages func(layer, head int) bool) *pagesProfile {
	if p == nil {
		return nil
	}
	n := len(p.Measured.Contexts)
	m, heads := &pagesProfile{&p.Measured, make([]float64, n), make([]float64, n)}, 0
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
	bucket := m.measured.Bucket(context)
	return int(math.Ceil(m.rows[bucket])), min(context, int(math.Ceil(float64(m.share[bucket]*float64(context)))))
}
