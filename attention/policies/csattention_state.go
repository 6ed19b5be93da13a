package policies

import (
	"math/rand/v2"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/attention/policy"
)

// csaState is the values of CSAttention in one KV head. The prompt's queries of all query heads
// of the group are clustered together; the mean of the group's queries searches, or each query head for itself. A key is tried
// against the lists after the step that it belongs to, as published.
type csaState struct {
	wholePrompt
	spec      *CSAttentionSpec
	dim, part int // elements of a head, and of a subspace
	random    *rand.Rand
	sizes     CSATables
	tokens    int // so far
	steps     int
	centroids []float32     // [subspaces, sizes.Centroids, part]
	found     []int         // centroids of each subspace: fewer where queries are alike
	table     csaTable      // list of centroid c of subspace b: b·sizes.Centroids + c
	newest    []float32     // key that the lists have not seen; empty where they have seen all
	heads     []csaHead     // one for all query heads of the group, or one for each
	mean      []float32     // of the step's queries, where one search is for all
	parts     []policy.Part // selected tokens by search, and recent ones
	recent    [1][2]int     // the last part's range
	products  []float32     // with the centroids of a subspace

	// What a search needs, as long as the longest sequence:
	estimate   []float32 // of a token's product with the query
	listed     []bool    // tokens that are in a list
	candidates []int32   // these tokens
	scores     []float32 // their estimates
	other      []float32
}

// csaHead is what is known of a search: of a query head, or of all of the group.
type csaHead struct {
	index    []uint16  // of the query head; nil for all
	query    []float32 // of the step before
	selected []int32   // found by the last search, ascending
	lists    []int32   // in which it looked, ascending
	before   int       // it looked for tokens before this one
	ranges   [][2]int
}

func newCSAState(s *CSAttentionSpec, shape policy.Shape, layer, kvHead, limit int) *csaState {
	group, own := shape.QueryHeads/shape.KVHeads, s.SelectGroup == "per-head"
	if !own {
		group = 1
	}
	c := &csaState{
		spec: s, dim: shape.Dim, part: shape.Dim / s.Subspaces, random: rand.New(rand.NewPCG(uint64(layer), uint64(kvHead))),
		heads: make([]csaHead, group), parts: make([]policy.Part, group+1), newest: make([]float32, 0, shape.Dim),
		estimate: make([]float32, limit), listed: make([]bool, limit), candidates: make([]int32, limit), scores: make([]float32, limit),
		other: make([]float32, limit),
	}
	for i := range c.heads {
		c.heads[i].query = make([]float32, shape.Dim)
		if own {
			c.heads[i].index = []uint16{uint16(i)}
		}
	}
	if !own {
		c.mean = make([]float32, shape.Dim)
	}
	return c
}

// Prompt clusters the queries and fills the lists.
func (s *csaState) Prompt(q [][]float32, k, _ []float32) {
	s.tokens = len(k) / s.dim
	s.sizes = s.spec.Tables(s.tokens, len(q))
	s.centroids, s.found = make([]float32, s.sizes.Centroids*s.dim), make([]int, s.sizes.Subspaces)
	s.products = make([]float32, s.sizes.Centroids)
	s.table = newCSATable(s.sizes.Subspaces*s.sizes.Centroids, s.sizes.Entries)
	directions, keys := make([]float32, len(q)*s.tokens*s.part), make([]float32, s.tokens*s.part)
	scores := make([]float32, s.tokens)
	for b := range s.sizes.Subspaces {
		clear(directions)
		for h, head := range q {
			for i := range s.tokens {
				unit(directions[(h*s.tokens+i)*s.part:][:s.part], s.inSubspace(head[i*s.dim:(i+1)*s.dim], b))
			}
		}
		for i := range s.tokens {
			copy(keys[i*s.part:], s.inSubspace(k[i*s.dim:(i+1)*s.dim], b))
		}
		centroids := s.subspace(b)
		s.found[b] = sphericalKMeans(centroids, directions, s.part, s.spec.Iterations, s.random)
		for c := range s.found[b] {
			policy.Products(scores, keys, centroids[c*s.part:(c+1)*s.part])
			s.table.build(b*s.sizes.Centroids+c, scores, s.other)
		}
	}
	for h := range s.heads {
		copy(s.heads[h].query, s.asks(h, q, s.tokens-1))
		s.heads[h].selected = make([]int32, 0, s.sizes.Selected)
		s.heads[h].lists = make([]int32, 0, s.sizes.Subspaces)
		s.heads[h].ranges = make([][2]int, 0, s.sizes.Selected)
	}
}

// asks returns the query of a search at a token: that of a query head, or the mean of all.
func (s *csaState) asks(h int, q [][]float32, token int) []float32 {
	if s.mean == nil {
		return q[h][token*s.dim : (token+1)*s.dim]
	}
	for j := range s.mean {
		sum := float32(0)
		for _, head := range q {
			sum += head[token*s.dim+j]
		}
		s.mean[j] = sum / float32(len(q))
	}
	return s.mean
}

func (s *csaState) inSubspace(x []float32, b int) []float32 { return x[b*s.part : (b+1)*s.part] }

func (s *csaState) subspace(b int) []float32 {
	n := s.sizes.Centroids * s.part
	return s.centroids[b*n : (b+1)*n]
}

// Append tries the key of the step before against all lists, and keeps the step's own.
func (s *csaState) Append(k, _ []float32) {
	if len(s.newest) > 0 {
		for b, n := range s.found {
			scores := s.products[:n]
			policy.Products(scores, s.subspace(b), s.inSubspace(s.newest, b))
			for c, score := range scores {
				s.table.insert(b*s.sizes.Centroids+c, int32(s.tokens-1), score)
			}
		}
	}
	s.newest = append(s.newest[:0], k...)
	s.tokens++
}

// Select searches where a search is due, with the step's queries or those of the step
// before. It returns what each search found last, and the recent tokens.
func (s *csaState) Select(q [][]float32) policy.Selection {
	from := max(0, s.tokens-s.sizes.Recent)
	s.recent[0] = [2]int{from, s.tokens}
	due := s.steps%s.spec.Period == 0
	s.steps++
	n := 0
	for i := range s.heads {
		h, asks := &s.heads[i], s.asks(i, q, 0)
		if s.spec.Search == "causal" {
			copy(h.query, asks)
		}
		if due {
			s.search(h, from)
			h.ranges = policy.AppendRanges(h.ranges[:0], h.selected)
		}
		copy(h.query, asks)
		if len(h.ranges) > 0 {
			s.parts[n] = policy.Part{Heads: h.index, Ranges: h.ranges}
			n++
		}
	}
	s.parts[n] = policy.Part{Ranges: s.recent[:]}
	return policy.Selection{Parts: s.parts[:n+1]}
}

// search finds the tokens before end whose estimated products with the query are highest.
func (s *csaState) search(h *csaHead, end int) {
	estimate, listed := s.estimate[:end], s.listed[:end]
	clear(estimate)
	clear(listed)
	h.lists, h.before = h.lists[:0], end
	for b, n := range s.found {
		if n == 0 {
			continue
		}
		query, weight := s.inSubspace(h.query, b), float32(1)
		if s.spec.Weight == "norm" {
			weight = float32(norm(query))
		}
		list := b*s.sizes.Centroids + s.nearest(b, query)
		h.lists = append(h.lists, int32(list))
		tokens, values := s.table.list(list)
		for i, token := range tokens {
			if int(token) < end {
				estimate[token] += float32(weight * values[i])
				listed[token] = true
			}
		}
	}
	candidates, scores := s.candidates[:0], s.scores[:0]
	for token, in := range listed {
		if in {
			candidates, scores = append(candidates, int32(token)), append(scores, estimate[token])
		}
	}
	h.selected = policy.AppendTop(h.selected[:0], scores, s.sizes.Selected, s.other)
	for i, n := range h.selected {
		h.selected[i] = candidates[n]
	}
}

// Searched returns what the last search of a query head found, of the tokens before one, and the lists in which it looked, of as many.
func (s *csaState) Searched(head int) (tokens []int32, before int, lists []int32, of int) {
	h := &s.heads[head%len(s.heads)]
	return h.selected, h.before, h.lists, s.sizes.Subspaces * s.sizes.Centroids
}

// nearest returns the centroid of a subspace with the highest product with a query.
func (s *csaState) nearest(b int, query []float32) int {
	scores := s.products[:s.found[b]]
	policy.Products(scores, s.subspace(b), query)
	best := 0
	for c, score := range scores {
		if score > scores[best] {
			best = c
		}
	}
	return best
}

func (s *csaState) Observe(_ [][]float32) {}

// csaTable is the lists of CSAttention of one KV head: for each centroid the tokens whose keys
// have the highest products with it, which are held in FP16. Of equal products the earlier
// token's counts as higher. A list is a heap with its lowest entry first.
type csaTable struct {
	entries int // of a list
	tokens  []int32
	values  []float32
}

func newCSATable(lists, entries int) csaTable {
	return csaTable{entries, make([]int32, lists*entries), make([]float32, lists*entries)}
}

// list returns the entries of a list.
func (t *csaTable) list(n int) (tokens []int32, values []float32) {
	return t.tokens[n*t.entries : (n+1)*t.entries], t.values[n*t.entries : (n+1)*t.entries]
}

// build fills a list from the products of a centroid with the keys of all tokens so far, at
// least as many as a list has entries. It rounds products; scratch is as long.
func (t *csaTable) build(n int, products, scratch []float32) {
	for i, p := range products {
		products[i] = attention.RoundHalf(p)
	}
	tokens, values := t.list(n)
	for i, token := range policy.AppendTop(tokens[:0], products, t.entries, scratch) {
		values[i] = products[token]
	}
	for i := t.entries/2 - 1; i >= 0; i-- {
		settle(tokens, values, i)
	}
}

// insert tries a token that is later than all others: it replaces the lowest entry if its
// product is higher.
func (t *csaTable) insert(n int, token int32, product float32) {
	tokens, values := t.list(n)
	if product = attention.RoundHalf(product); product > values[0] {
		tokens[0], values[0] = token, product
		settle(tokens, values, 0)
	}
}

// settle moves an entry of a heap down to where no entry below it is lower.
func settle(tokens []int32, values []float32, i int) {
	lower := func(a, b int) bool { return values[a] < values[b] || values[a] == values[b] && tokens[a] > tokens[b] }
	for {
		lowest := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(values); child++ {
			if lower(child, lowest) {
				lowest = child
			}
		}
		if lowest == i {
			return
		}
		tokens[i], tokens[lowest] = tokens[lowest], tokens[i]
		values[i], values[lowest] = values[lowest], values[i]
		i = lowest
	}
}
