package policy

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
func newPaged(s *Spec, shape *Shape, profile *Profile, pages func(layer, head int) bool) paged {
	p := paged{
		Pages: NewPages(s), perQuery: s.SelectGroup == "per-head", softmax: s.SelectGroup == "softmax-sum", scores: s.SelectGroup != "sum",
		byGPU: s.SummaryDevice == "gpu", quads: s.Layout == "quad", measured: newPagesProfile(profile, pages),
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
func newQuestCost(s *Spec, shape Shape, profile *Profile) *questCost {
	c := &questCost{common: newCommon(s.Name, shape), skip: min(s.SkipLayers, shape.Layers)}
	c.pages = newPaged(s, &shape, profile, func(layer, _ int) bool { return layer >= c.skip })
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
