package policies

import (
	"math/rand/v2"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/attention/policy"
)

// csaState is the values of CSAttention for one KV head. The prompt's queries of all the group's query heads are clustered together. Either
// the mean of the group's queries searches, or each query head by itself. A key is compared with the lists after its step, as published.
type csaState struct {
	wholePrompt
	spec      *CSAttentionSpec
	dim, part int // elements of a head, and of a subspace
	random    *rand.Rand
	sizes     CSATables
	tokens    int // number so far
	steps     int
	centroids []float32     // [subspaces, sizes.Centroids, part]
	found     []int         // number of centroids of each subspace; smaller if queries are alike
	table     csaTable      // list of centroid c of subspace b: b·sizes.Centroids + c
	newest    []float32     // key not yet compared with the lists; empty if there is none
	heads     []csaHead     // one for all query heads of the group, or one for each
	mean      []float32     // mean of the step's queries, if one search serves all
	parts     []policy.Part // selected tokens by search, followed by recent ones
	recent    [1][2]int     // the last part's range
	products  []float32     // products with the centroids of a subspace

	// Scratch memory of a search, as long as the longest sequence:
	estimate   []float32 // estimated products of tokens with the query
	listed     []bool    // tokens that are in a list
	candidates []int32   // these tokens
	scores     []float32 // estimates of the candidates
	other      []float32
}

// csaHead is the state of a search: for a query head, or for all of the group.
type csaHead struct {
	index    []uint16  // number of the query head; nil for all
	query    []float32 // query of the previous step
	selected []int32   // tokens found by the last search, ascending
	lists    []int32   // lists that it used, ascending
	before   int       // end of the tokens that it searched
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

// Append compares the previous step's key with all lists, and keeps the step's own key.
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

// Select searches if a search is due, with the step's queries or those of the previous step. It returns the tokens that each search found
// last, and the recent tokens.
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

// search finds the tokens before end with the highest estimated products with the query.
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

// Searched returns the tokens that a query head's last search found among those before before, and the lists that it used, of of lists.
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

// csaTable is the lists of CSAttention for one KV head. For each centroid, a list has the tokens whose keys have the highest products with
// it, stored in FP16; ties go to the earlier token. A list is a heap with its lowest entry first.
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

// build fills a list from the products of a centroid with the keys of all tokens so far, which must be at least as many as a list's
// entries. It rounds products; scratch must be as long.
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

// insert adds a token that is later than all others: it replaces the lowest entry if its product is higher.
func (t *csaTable) insert(n int, token int32, product float32) {
	tokens, values := t.list(n)
	if product = attention.RoundHalf(product); product > values[0] {
		tokens[0], values[0] = token, product
		settle(tokens, values, 0)
	}
}

// settle moves an entry down a heap until no entry below it is lower.
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
