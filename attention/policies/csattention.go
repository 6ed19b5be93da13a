package policies

import (
	"strconv"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// csattention is attention to tokens that a search in tables of the query's nearest centroids finds, and the newest.
var csattention = policy.Policy{
	Name: "csattention", Lossy: true, Source: "CSAttention, 2025",
	About: policy.About{Attends: "the tokens that tables of the query's nearest centroids find, and the newest", Stores: "keys and values of all tokens, tables of about three times as much",
		Moves: "nothing with mode \"gpu\"; selected keys and values up with \"host\""},
	Homes: policy.OnGPUs | policy.OnHost,
	Keys:  CSAttentionSpec{},
	Defaults: `host_overhead = "20us" # as cpu-offload's
subspaces = 8          # CSAttention, appendix D
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
`,
	CostKeys: []string{"host_overhead", "mode"},
	CheckAt: func(keys input.Checked, at policy.Place, c *input.Check) {
		want := "gpu"
		if at.Apart {
			want = "host"
		}
		mode := keys.(CSAttentionSpec).Mode
		c.That(mode == want, "mode", mode, "%q with run.system = %s, whose keys and values are %s", want, at.System, at.Where)
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
	HostOverhead units.Duration `toml:"host_overhead"` // of a parallel region on the host's cores

	Subspaces    int     `toml:"subspaces"`     // parts of a head's dimensions with centroids of their own
	Centroids    int     `toml:"centroids"`     // of a subspace
	Iterations   int     `toml:"iterations"`    // of k-means
	TableShare   float64 `toml:"table_share"`   // share of the prompt's tokens in a centroid's table
	SelectShare  float64 `toml:"select_share"`  // share of the prompt's tokens that a step attends to
	RecentTokens int     `toml:"recent_tokens"` // newest tokens that a step attends to in addition
	SelectGroup  string  `toml:"select_group"`  // what searches: the "mean" of a KV head's queries, or each query head for itself ("per-head")
	Weight       string  `toml:"weight"`        // of a subspace's scores: "one" or the query's "norm" in it
	Search       string  `toml:"search"`        // with the step's query ("causal") or with that of the step before ("lagged")
	Period       int     `toml:"period"`        // steps that share a search
	Mode         string  `toml:"mode"`          // where tables, keys and values are: "gpu" or "host"
}

// Check has the rules of the section [policy.csattention].
func (s CSAttentionSpec) Check(c *input.Check) {
	c.That(s.HostOverhead >= 0, "host_overhead", s.HostOverhead, "at least 0ps")
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
}

// Overhead returns the time of a parallel region on the host's cores.
func (s CSAttentionSpec) Overhead() units.Duration { return s.HostOverhead }

// csaEntryBytes is what an entry of CSAttention's tables takes: a token's index (int32) and a
// score (FP16).
const csaEntryBytes = 6

const csaElementBytes = 2 // what an element of a centroid takes: FP16

// CSATables is the sizes of CSAttention's tables of one KV head and of what a search in
// them does. The lists keep their length after the prompt: later tokens displace others.
type CSATables struct {
	Subspaces, Centroids int // centroids of a subspace
	Entries              int // of a list: there is one for each centroid
	Selected             int // tokens that a search finds, at most
	Recent               int // last tokens, which are attended over in any case
}

// Tables returns the sizes after a prompt of prompt tokens, with group query heads a KV head. There are no more
// centroids than queries in the prompt; a list has an entry at least, a search finds a token at least, and the step's own token is
// recent.
func (s *CSAttentionSpec) Tables(prompt, group int) CSATables {
	return CSATables{
		Subspaces: s.Subspaces, Centroids: min(s.Centroids, prompt*group),
		Entries:  max(1, int(s.TableShare*float64(prompt))),
		Selected: max(1, int(s.SelectShare*float64(prompt))),
		Recent:   max(1, s.RecentTokens),
	}
}

// attended returns the most tokens that a query head attends to in a step of that context. It is
// exact where a list has Selected + Recent entries: a search then never runs out of tokens.
func (t CSATables) attended(context int) int { return min(context, t.Selected+t.Recent) }

// bytes returns what the tables and the centroids of a KV head take, for heads of dim elements.
func (t CSATables) bytes(dim int) int64 {
	lists := int64(t.Subspaces) * int64(t.Centroids)
	return lists*int64(t.Entries)*csaEntryBytes + t.centroidBytes(dim)
}

// centroidBytes returns what the centroids of a KV head take.
func (t CSATables) centroidBytes(dim int) int64 {
	return csaElementBytes * int64(t.Centroids) * int64(dim)
}

// Gathered returns the entries that a search reads and adds up by token.
func (t CSATables) Gathered() int64 { return int64(t.Subspaces) * int64(t.Entries) }

// centroidFLOPs returns the operations of finding a query's nearest centroids; trying a new
// key against all lists takes as many, and Subspaces · Centroids comparisons.
func (t CSATables) centroidFLOPs(dim int) int64 { return 2 * int64(t.Centroids) * int64(dim) }

// buildFLOPs returns the operations of clustering the queries of a prompt, in that many
// iterations, and of scoring its keys against all centroids. The selection of the lists'
// entries comes on top: Subspaces · Centroids times over prompt scores.
func (t CSATables) buildFLOPs(dim, iterations, prompt, group int) int64 {
	return t.centroidFLOPs(dim) * int64(prompt) * (int64(iterations)*int64(group) + 1)
}

// csaCost is the cost of CSAttention. A search finds a query's nearest centroid of each
// subspace, adds up the entries of their lists by token, and takes the best tokens. Each new key is
// tried against all lists. In mode "gpu" the GPUs do all of it, in mode "host" the host's CPUs
// search, and the keys and values that they find go up to the GPUs, which attend.
type csaCost struct {
	common
	CSAttentionSpec
	host bool
}

// ofPrompt returns h of a share of the prompt's tokens, or of the least where that is 0: a Held with a share of 0 is all of them.
func ofPrompt(h policy.Held, share float64, least int) policy.Held {
	if h.OfPrompt, h.Share = true, min(1, share); share == 0 {
		h.Most = least
	}
	return h
}

// newCSACost lists what CSAttention keeps in memory: keys and values, tables and centroids, and with a lagged
// search what the next step attends over.
func newCSACost(u *policy.Use) policy.Costs {
	s, shape := u.Keys.(CSAttentionSpec), u.Shape
	c := &csaCost{common: newCommon(shape), CSAttentionSpec: s, host: s.Mode == "host"}
	lists := int64(s.Subspaces) * int64(s.Centroids)
	c.held = append(c.held,
		ofPrompt(policy.Held{Device: policy.Home, Heads: shape.KVHeads, Bytes: lists * csaEntryBytes, Index: true}, s.TableShare, 1),
		policy.Held{Device: policy.Home, Heads: shape.KVHeads, Bytes: csaElementBytes * int64(s.Centroids) * int64(shape.Dim), Index: true, OfPrompt: true, Most: 1})
	if c.host && s.Search == "lagged" { // what the next step attends over
		c.held = append(c.held,
			ofPrompt(policy.Held{Device: policy.GPU, Heads: shape.KVHeads, Bytes: shape.Token()}, s.SelectShare*float64(c.lists()), c.lists()),
			policy.Held{Device: policy.GPU, Heads: shape.KVHeads, Bytes: shape.Token(), Most: s.RecentTokens})
	}
	return c
}

// tables returns the sizes of the tables of a KV head after a prompt of that many tokens.
func (c *csaCost) tables(prompt int) CSATables { return c.Tables(prompt, c.shape.Group()) }

// lists returns how many searches, each with a list of its own, a KV head has.
func (c *csaCost) lists() int {
	if c.SelectGroup == "mean" {
		return 1
	}
	return c.shape.Group()
}

// searches says that a step searches: the first after the prompt, and each Period-th from there.
func (s *CSAttentionSpec) searches(r policy.Request) bool {
	return (r.Context-r.Prompt-1)%s.Period == 0
}

// Decode returns one class, in which each KV head or query head has tokens of its own, the searches and the
// updates of the lists.
func (c *csaCost) Decode(requests []policy.Request, _ int) *policy.Step {
	c.reset(len(requests), 3)
	tokens, ranked, found := c.take(len(requests)), c.take(len(requests)), c.take(len(requests))
	keep, searches, heads, perHead := 0, int64(0), int64(c.shape.KVHeads*c.lists()), c.SelectGroup == "per-head"
	var gathered, scores, flops, updates, up int64
	for i, r := range requests {
		t := c.tables(r.Prompt)
		tokens[i], ranked[i] = t.attended(r.Context), 0
		// Searches of one KV head may find tokens that differ, but for the last ones.
		found[i] = min(r.Context, c.lists()*t.Selected+t.Recent)
		up += c.KV(found[i])
		flops += t.centroidFLOPs(c.shape.Dim) * int64(c.shape.KVHeads)
		updates += t.centroidBytes(c.shape.Dim) + csaEntryBytes*int64(t.Subspaces)*int64(t.Centroids) // a list's least entry
		if c.searches(r) {
			searches++
			ranked[i], keep = r.Context, max(keep, t.Selected)
			gathered += t.Gathered()
			scores += int64(r.Context)
			flops += t.centroidFLOPs(c.shape.Dim) * heads
		}
	}
	updates *= int64(c.shape.KVHeads)
	class := policy.Class{Device: policy.Home, Heads: c.shape.KVHeads, Tokens: tokens, Paged: policy.Paged{Page: 1, PerQueryHead: perHead}}
	if c.host {
		class.Device = policy.GPU
		c.attend(class)
		// Sums by token stay in a core's caches: a search reads entries from memory, adds each to a
		// sum, clears the sums and goes through them twice for the best. What it finds is copied
		// to where links read it.
		c.step.Passes = append(c.step.Passes, policy.Pass{Device: policy.Home, Kernels: 1, FLOPs: flops,
			Bytes:    updates + csaEntryBytes*gathered*heads + 2*up,
			Elements: (gathered + 3*scores) * heads})
		c.step.Fetched, c.step.Ahead = found, c.Search == "lagged"
		return &c.step
	}
	c.attend(class)
	c.pass(1, updates, flops)
	if searches > 0 {
		// Sums by token are cleared; each entry is read and added to one.
		c.pass(2, (scoreBytes*scores+(csaEntryBytes+2*scoreBytes)*gathered)*heads, 0)
		c.step.Choose = append(c.step.Choose, policy.Choice{Heads: c.shape.KVHeads, Ranked: ranked, Keep: keep, PerQueryHead: perHead})
	}
	return &c.step
}

// Prompt returns causal attention, and at the prompt's end the tables: clusters of its queries,
// scores of its keys by centroid, and the best of each centroid.
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

// Vectors returns the bytes of q, k and v; in mode "host" no results come up.
func (c *csaCost) Vectors() policy.Vectors {
	v := c.shape.Vectors()
	if c.host {
		v.Results = 0
	}
	return v
}
