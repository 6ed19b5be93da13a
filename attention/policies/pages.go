package policies

import (
	"github.com/l3sim/l3sim/attention/policy"
	"math"
)

// pageCostKeys are the keys of PagesSpec that do not affect which pages are chosen.
var pageCostKeys = []string{"select_device", "top_k_latency", "summary_device", "layout"}

// Pages is attention to the pages with the best scores (Quest: Tang et al., ICML 2024; LServe: Yang et al., MLSys 2025). A list of pages is
// the newest page and the best of the others. Functions take context, the tokens of a step including its own, and prompt, the tokens before
// the first step.
type Pages struct {
	Budget  int // tokens
	Page    int // tokens; a list has Budget/Page pages
	Logical int // tokens that share a minimum and a maximum
	Least   int // minimum number of pages of a list, if the context has as many
	Reuse   int // steps that share a list
	Replace bool
	Skip    int // number of first layers, which attend to everything
}

// Pages returns the number of pages of a context.
func (p *Pages) Pages(context int) int { return (context + p.Page - 1) / p.Page }

func (p *Pages) summaries(context int) int { return (context + p.Logical - 1) / p.Logical }

// selected returns the number of pages of a list made at a context. A context within the budget has all its pages.
func (p *Pages) selected(context int) int {
	pages := p.Pages(context)
	if context <= p.Budget {
		return pages
	}
	return min(max(p.Least, p.Budget/p.Page), pages)
}

// selects reports whether a step makes a list: every Reuse-th one does, and the first after the prompt.
func (p *Pages) selects(prompt, context int) bool { return p.MadeAt(prompt, context) == context }

// MadeAt returns the context at which a step's list was made.
func (p *Pages) MadeAt(prompt, context int) int { return max(prompt+1, context-context%p.Reuse) }

// Tokens returns the number of tokens that a step attends to. The list's newest page may have filled up since the list was made. Pages
// begun since are attended to in addition, or the newest one in place of the list's. A context within the budget is attended to as a whole.
func (p *Pages) Tokens(prompt, context int) int {
	made := p.MadeAt(prompt, context)
	end := p.Pages(made) * p.Page // end of the list's newest page
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

// paged is the cost of heads that attend to selected pages (Quest, LServe).
type paged struct {
	Pages
	perQuery bool // each query head chooses separately
	softmax  bool // each query head's scores are normalised before they are added
	scores   bool // each query head has its own scores
	list     int  // pages of a list, if the context has as many
	device   string
	// byGPU means that the GPUs compute bounds, and atHome that bounds are stored with the keys, away from the GPUs.
	byGPU, atHome bool
	quads         bool
	measured      *pagesProfile // nil: none
}

// newPaged returns the costs of heads that choose pages. pages reports which heads these are; the profile's shares are means over them.
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

const numbersEach = 6 // numbers for each request that decode needs

// decode adds the work of the given number of heads in a step: scoring the bounds of all pages and choosing the best, if a list is made,
// and attention over the lists. The kernel that appends a key also updates the bounds of the open page.
func (p *paged) decode(c *common, heads int, requests []policy.Request) {
	n := len(requests)
	scored, ranked, tokens, down, rows, read := c.take(n), c.take(n), c.take(n), c.take(n), c.take(n), c.take(n)
	keep, selects, lists, sparse, drafts := 0, 0, 0, false, c.shape.Ahead() > 0
	for i, r := range requests {
		scored[i], ranked[i], down[i] = 0, 0, 0
		if p.byGPU { // for each token that ends a part of a page
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
		// Computes Tokens, Selected and Summaries of a list made now, with few divisions.
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
	if sparse || p.quads { // otherwise the lists have all pages in order
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
		if p.softmax && p.device == "" { // two passes over each query head's scores
			c.pass(2, 2*4*int64(selects)*int64(heads)*int64(c.shape.Group()), 0)
		}
	}
	if p.atHome {
		c.step.Bounds = policy.Bounds{Heads: heads, Down: down, Updates: !p.byGPU}
	}
	if p.byGPU {
		c.pass(0, 5*c.shape.Elements(c.shape.Dim)*int64(heads)*int64(len(requests)*(1+c.shape.Ahead())), 0) // reads the key, reads and writes two bounds
	}
}

// join converts a profile's numbers for one list, rows of 512 tokens and tokens in whole pages, to those for several lists together. It
// assumes that rows overlap at least as much as pages.
func (p *paged) join(context, lists int, overlap float64, rows, read *int) {
	*rows = unionOf(*rows, (context+511)/512, lists, overlap)
	if lists > 1 {
		*read = min(context, p.Page*unionOf(p.Pages.Pages(*read), p.Pages.Pages(context), lists, overlap))
	}
}

// prompt adds the bounds of a chunk's pages after finished tokens. Complete ones are sent home.
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

// bounds adds the memory of the given heads' bounds: on the device that scores pages, and for the open page on the GPUs if they compute
// bounds for another device.
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

// pagesProfile has a profile's means over all heads that choose pages, in all layers, by bucket of contexts.
type pagesProfile struct {
	measured    *policy.ProfileMeasured
	rows, share []float64
}

// newPagesProfile returns the means over the heads for which pages(layer, head) is true; nil without a profile or without such heads.
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

// at returns the number of rows that contain a context's attended tokens, and the number of tokens that any query head of a group attends
// to, both rounded up.
func (m *pagesProfile) at(context int) (rows, read int) {
	bucket := m.measured.Bucket(context)
	return int(math.Ceil(m.rows[bucket])), min(context, int(math.Ceil(float64(m.share[bucket]*float64(context)))))
}
