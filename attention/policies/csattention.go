package policies

import (
	"math"
	"strconv"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
)

// csattention is attention to the newest tokens, and to tokens found by a search in tables of the query's nearest centroids.
var csattention = policy.Policy{
	Name: "csattention", Lossy: true, Source: "CSAttention, 2025",
	About: policy.About{Attends: "the tokens that tables of the query's nearest centroids find, and the newest", Stores: "keys and values of all tokens, tables of about three times as much",
		Moves: "nothing with mode \"gpu\"; selected keys and values up with \"host\""},
	Homes: policy.OnGPUs | policy.OnHost, Drafts: true,
	Keys: CSAttentionSpec{},
	Defaults: `subspaces = 8          # CSAttention, appendix D
centroids = 128        # CSAttention, appendix D
iterations = 10        # CSAttention: 10 to 20
table_share = 0.25     # CSAttention, appendix D
select_share = 0.05    # CSAttention, appendix D
recent_tokens = 32     # CSAttention, appendix D
select_group = "mean"  # CSAttention, appendix D: parameters are of a KV head; how its query heads share a search is our reading
weight = "one"         # as published
search = "causal"      # our choice: a step's query depends on the step before
period = 1             # CSAttention: a search a step
mode = "gpu"           # CSAttention's fastest
token_overlap = 0.4    # a byte model's text, 0.33 to 0.47 by select_share: lab/docs/sparse.md; tokens that a step attends to with serving.verified_tokens > 1
list_overlap = 0.16    # the same text, 0.13 to 0.21 by centroids: lab/docs/sparse.md; entries that a step reads with serving.verified_tokens > 1
`,
	CostKeys: []string{"mode", "token_overlap", "list_overlap"},
	CheckAt: func(keys input.Checked, at policy.Place, c *input.Check) {
		want := "gpu"
		if at.Apart {
			want = "host"
		}
		mode := keys.(CSAttentionSpec).Mode
		c.That(mode == want, "mode", mode, "%q with %s = %s, whose keys and values are %s", want, input.Key("run.system"), at.System, at.Where)
	},
	Costs: newCSACost,
	Values: func(u *policy.Use) (policy.Values, error) {
		s := u.Keys.(CSAttentionSpec)
		if u.Shape.Dim%s.Subspaces != 0 {
			return nil, &input.Error{Key: "policy.csattention.subspaces", Value: strconv.Itoa(s.Subspaces), Expected: "a divisor of the model's head dimension, " + strconv.Itoa(u.Shape.Dim)}
		}
		return policy.ValuesFunc(func(layer, kvHead, limit int) policy.State { return newCSAState(&s, u.Shape, layer, kvHead, limit) }), nil
	},
}

// CSAttentionSpec is the keys of CSAttention.
type CSAttentionSpec struct {
	Subspaces    int     `toml:"subspaces"`     // parts of a head's dimensions, each with its own centroids
	Centroids    int     `toml:"centroids"`     // number of centroids of a subspace
	Iterations   int     `toml:"iterations"`    // of k-means
	TableShare   float64 `toml:"table_share"`   // share of the prompt's tokens in a centroid's table
	SelectShare  float64 `toml:"select_share"`  // share of the prompt's tokens that a step attends to
	RecentTokens int     `toml:"recent_tokens"` // newest tokens that a step attends to in addition
	SelectGroup  string  `toml:"select_group"`  // what searches: the "mean" of a KV head's queries, or each query head for itself ("per-head")
	Weight       string  `toml:"weight"`        // of a subspace's scores: "one" or the query's "norm" in it
	Search       string  `toml:"search"`        // with the step's query ("causal") or with that of the step before ("lagged")
	Period       int     `toml:"period"`        // steps that share a search; tokens, if a step verifies several
	Mode         string  `toml:"mode"`          // where tables, keys and values are: "gpu" or "host"

	// TokenOverlap is used if a step verifies several tokens (serving.verified_tokens). It is the share of the tokens found by one token's
	// search that another's is certain to find: 1 if all find the same, 0 if results agree only by chance.
	TokenOverlap float64 `toml:"token_overlap"`
	// ListOverlap is the same share for the lists of the tables that are searched: 1 if the queries have the same nearest centroids.
	ListOverlap float64 `toml:"list_overlap"`
}

// Check has the rules of the section [policy.csattention].
func (s CSAttentionSpec) Check(c *input.Check) {
	input.Within(c, "subspaces", s.Subspaces, 1, 512)
	input.Within(c, "centroids", s.Centroids, 1, 1<<16)
	input.Within(c, "iterations", s.Iterations, 0, 1000)
	input.Within(c, "table_share", s.TableShare, 0, 1)
	input.Within(c, "select_share", s.SelectShare, 0, 1)
	input.Within(c, "recent_tokens", s.RecentTokens, 1, policy.MaxTokens)
	input.OneOf(c, "select_group", s.SelectGroup, "mean", "per-head")
	input.OneOf(c, "weight", s.Weight, "one", "norm")
	input.OneOf(c, "search", s.Search, "causal", "lagged")
	input.Within(c, "period", s.Period, 1, 1<<16)
	input.OneOf(c, "mode", s.Mode, "gpu", "host")
	for _, x := range [...]struct {
		key   string
		share float64
	}{{"token_overlap", s.TokenOverlap}, {"list_overlap", s.ListOverlap}} {
		c.That(x.share >= 0 && x.share <= 1, x.key, x.share, "0 (as by chance) to 1 (the searches of a step's tokens are alike)")
	}
}

// csaEntryBytes is the size of an entry in CSAttention's tables: a token's index (int32) and a score (FP16).
const csaEntryBytes = 6

const csaElementBytes = 2 // size of a centroid's element: FP16

// CSATables has the sizes of CSAttention's tables for one KV head, and of a search in them. The lists keep their length after the prompt:
// later tokens replace others.
type CSATables struct {
	Subspaces, Centroids int // centroids of a subspace
	Entries              int // entries of a list; there is one list for each centroid
	Selected             int // maximum number of tokens that a search finds
	Recent               int // newest tokens, which are always attended to
}

// Tables returns the sizes after a prompt of the given tokens, with group query heads for each KV head. There are at most as many centroids
// as queries in the prompt. A list has at least one entry, a search finds at least one token, and the step's own token is always recent.
func (s *CSAttentionSpec) Tables(prompt, group int) CSATables {
	return CSATables{
		Subspaces: s.Subspaces, Centroids: min(s.Centroids, prompt*group),
		Entries:  max(1, int(s.TableShare*float64(prompt))),
		Selected: max(1, int(s.SelectShare*float64(prompt))),
		Recent:   max(1, s.RecentTokens),
	}
}

// attended returns the largest number of tokens that a query head attends to in a step with the given number of searches. The context is
// that of the step's last token, which follows ahead others. It is exact for one search if a list has Selected + Recent entries: a search
// then never runs out of tokens.
func (t CSATables) attended(context, ahead, searches int, overlap float64) int {
	return min(context, t.found(context, ahead, searches, overlap)+t.Recent+ahead)
}

// found returns the number of tokens before the recent ones of the step's first token that at least one of several searches finds.
func (t CSATables) found(context, ahead, searches int, overlap float64) int {
	return unionOf(t.Selected, max(0, context-ahead-t.Recent), searches, overlap)
}

// bytes returns the bytes of a KV head's tables and centroids, for heads of dim elements.
func (t CSATables) bytes(dim int) int64 {
	lists := int64(t.Subspaces) * int64(t.Centroids)
	return lists*int64(t.Entries)*csaEntryBytes + t.centroidBytes(dim)
}

// centroidBytes returns the bytes of a KV head's centroids.
func (t CSATables) centroidBytes(dim int) int64 {
	return csaElementBytes * int64(t.Centroids) * int64(dim)
}

// Gathered returns the number of entries that a search reads and adds up by token.
func (t CSATables) Gathered() int64 { return int64(t.Subspaces) * int64(t.Entries) }

// read returns the number of entries in the lists that at least one of several searches reads, one list for each search and subspace.
func (t CSATables) read(searches int, overlap float64) int64 {
	if searches == 0 {
		return 0
	}
	return int64(unionOf(t.Subspaces, t.Subspaces*t.Centroids, searches, overlap)) * int64(t.Entries)
}

// centroidFLOPs returns the operations to find a query's nearest centroids. Comparing a new key with all lists takes as many, plus
// Subspaces · Centroids comparisons.
func (t CSATables) centroidFLOPs(dim int) int64 { return 2 * int64(t.Centroids) * int64(dim) }

// buildFLOPs returns the operations to cluster a prompt's queries in the given iterations, and to score its keys against all centroids. It
// excludes the selection of the lists' entries: Subspaces · Centroids selections over prompt scores.
func (t CSATables) buildFLOPs(dim, iterations, prompt, group int) int64 {
	return t.centroidFLOPs(dim) * int64(prompt) * (int64(iterations)*int64(group) + 1)
}

// csaCost is the cost of CSAttention. A search finds a query's nearest centroid in each subspace, adds up the entries of their lists by
// token, and takes the best tokens. Each new key is compared with all lists. In mode "gpu" the GPUs do all of this. In mode "host" the
// host's CPUs search, and the found keys and values are sent to the GPUs, which attend. The paper does not have steps that verify drafts;
// csaStep defines them.
type csaCost struct {
	common
	CSAttentionSpec
	host bool
}

// ofPrompt returns h with a share of the prompt's tokens, or with least if the share is 0, since a share of 0 in Held means all.
func ofPrompt(h policy.Held, share float64, least int) policy.Held {
	if h.OfPrompt, h.Share = true, min(1, share); share == 0 {
		h.Most = least
	}
	return h
}

// newCSACost lists CSAttention's memory: keys and values, tables and centroids, and, with a lagged search, the tokens that the next step
// attends to.
func newCSACost(u *policy.Use) policy.Costs {
	s, shape := u.Keys.(CSAttentionSpec), u.Shape
	c := &csaCost{common: newCommon(shape), CSAttentionSpec: s, host: s.Mode == "host"}
	lists := int64(s.Subspaces) * int64(s.Centroids)
	c.held = append(c.held,
		ofPrompt(policy.Held{Device: policy.Home, Heads: shape.KVHeads, Bytes: lists * csaEntryBytes, Index: true}, s.TableShare, 1),
		policy.Held{Device: policy.Home, Heads: shape.KVHeads, Bytes: csaElementBytes * int64(s.Centroids) * int64(shape.Dim), Index: true, OfPrompt: true, Most: 1})
	if c.host && s.Search == "lagged" { // tokens that the next step attends to
		lists := float64(c.lists()) * unionTimes(1+shape.Ahead(), s.TokenOverlap)
		c.held = append(c.held,
			ofPrompt(policy.Held{Device: policy.GPU, Heads: shape.KVHeads, Bytes: shape.Token()}, s.SelectShare*lists, int(math.Ceil(lists))),
			policy.Held{Device: policy.GPU, Heads: shape.KVHeads, Bytes: shape.Token(), Most: s.RecentTokens + shape.Ahead()})
	}
	return c
}

// tables returns the sizes of a KV head's tables after a prompt of the given tokens.
func (c *csaCost) tables(prompt int) CSATables { return c.Tables(prompt, c.shape.Group()) }

// lists returns the number of searches of a KV head, each with its own list.
func (c *csaCost) lists() int {
	if c.SelectGroup == "mean" {
		return 1
	}
	return c.shape.Group()
}

// csaWork is the work of a step's searches and updates, over all requests and, unless noted, for one head.
type csaWork struct {
	read     int64 // entries of lists, each read once
	gathered int64 // entries added to sums
	scores   int64 // sums by token
	searches int64 // operations for products of queries with centroids
	tried    int64 // operations for products of new keys with centroids
	updates  int64 // bytes of centroids, and of the lowest entry of each list
	keep     int   // tokens found by a search
	most     int   // largest number of searches of a request
}

// add adds a request. It returns the number of sums from which each of its searches takes the best.
func (w *csaWork) add(c *csaCost, r *policy.Request, t *CSATables, made int) (ranked int) {
	w.tried += t.centroidFLOPs(c.shape.Dim) * int64(1+r.Accepted)
	w.updates += t.centroidBytes(c.shape.Dim) + csaEntryBytes*int64(t.Subspaces)*int64(t.Centroids)
	if made == 0 {
		return 0
	}
	n := int64(made)
	w.read += t.read(made, c.ListOverlap)
	w.gathered += n * t.Gathered()
	w.scores += n * int64(r.Context)
	w.searches += n * t.centroidFLOPs(c.shape.Dim)
	w.keep, w.most = max(w.keep, t.Selected), max(w.most, made)
	return r.Context
}

// Decode returns one class, in which each KV head or query head has its own tokens, with the searches and the updates of the lists.
func (c *csaCost) Decode(requests []policy.Request, _ int) *policy.Step {
	c.reset(len(requests), 3)
	tokens, ranked, found := c.take(len(requests)), c.take(len(requests)), c.take(len(requests))
	ahead, perHead := c.shape.Ahead(), c.SelectGroup == "per-head"
	var w csaWork
	var up int64
	for i := range requests {
		r := &requests[i]
		t, s := c.tables(r.Prompt), c.together(r)
		tokens[i], ranked[i] = t.attended(r.Context, ahead, s.lists, c.TokenOverlap), w.add(c, r, &t, s.made)
		// Searches of one KV head may find different tokens, except the last ones.
		found[i] = min(r.Context, c.lists()*t.found(r.Context, ahead, s.fetched, c.TokenOverlap)+t.Recent+ahead)
		up += c.KV(found[i])
	}
	kv, heads := int64(c.shape.KVHeads), int64(c.shape.KVHeads*c.lists())
	flops, updates := w.tried*kv+w.searches*heads, w.updates*kv
	class := policy.Class{Device: policy.Home, Heads: c.shape.KVHeads, Tokens: tokens, Paged: policy.Paged{Page: 1, PerQueryHead: perHead}}
	if c.host {
		class.Device = policy.GPU
		c.attend(class)
		// Sums by token stay in a core's caches. A search reads entries from memory and adds each to a sum, clears the sums and scans them
		// twice for the best. What it finds is copied to memory that links can read.
		c.step.Passes = append(c.step.Passes, policy.Pass{Device: policy.Home, Kernels: 1, FLOPs: flops,
			Bytes:    updates + csaEntryBytes*w.read*heads + 2*up,
			Elements: (w.gathered + 3*w.scores) * heads})
		c.step.Fetched, c.step.Ahead = found, c.Search == "lagged"
		return &c.step
	}
	c.attend(class)
	c.pass(1, updates, flops)
	if w.most > 0 {
		// Sums by token are cleared; each entry is read, and added to one sum of each search that uses its list.
		c.pass(2, (scoreBytes*w.scores+csaEntryBytes*w.read+2*scoreBytes*w.gathered)*heads, 0)
		choice := policy.Choice{Heads: c.shape.KVHeads, Ranked: ranked, Keep: w.keep, PerQueryHead: perHead}
		if ahead > 0 {
			choice.Lists = w.most
		}
		c.step.Choose = append(c.step.Choose, choice)
	}
	return &c.step
}

// Prompt returns causal attention and, at the prompt's end, the construction of the tables: clusters of its queries, scores of its keys for
// each centroid, and the best keys of each centroid.
func (c *csaCost) Prompt(_, chunk, finished int, last bool) *policy.Prompt {
	c.begin(chunk, finished)
	if n := finished + chunk; last {
		t, heads := c.tables(n), int64(c.shape.KVHeads)
		scores := int64(t.Subspaces) * int64(t.Centroids) * int64(n) * heads
		queries := int64(c.Iterations) * c.shape.Elements(c.shape.QueryHeads*c.shape.Dim) * int64(n)
		c.prompt.Leave[0].Index = t.bytes(c.shape.Dim)
		c.promptPass(2*c.Iterations+3, (1+radixPasses)*scoreBytes*scores+queries+t.bytes(c.shape.Dim)*heads,
			t.buildFLOPs(c.shape.Dim, c.Iterations, n, c.shape.Group())*heads)
	}
	return &c.prompt
}

// Vectors returns the bytes of q, k and v; in mode "host" no outputs are sent up.
func (c *csaCost) Vectors() policy.Vectors {
	v := c.shape.Vectors()
	if c.host {
		v.Results = 0
	}
	return v
}
