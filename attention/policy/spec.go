package policy

import (
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Unset is the value of a number that a configuration leaves to the policy. Texts that are
// left to it are empty.
const Unset = -1

// Spec is the section [policy] of a configuration. Every policy has its own keys, with
// its own defaults (keys.go). It refuses the keys of others.
type Spec struct {
	Name string `toml:"name"` // what attention attends to, see 'l3sim config policies'

	Budget      int    `toml:"budget"`       // tokens that a decode step attends to; -1: the policy's own
	Page        int    `toml:"page"`         // tokens of a page, which is attended to whole; -1: the policy's own
	LogicalPage int    `toml:"logical_page"` // tokens that share a minimum and a maximum of keys, a divisor of Page; -1: the policy's own
	Reuse       int    `toml:"reuse"`        // steps that share a list of pages; -1: the policy's own
	Newest      string `toml:"newest"`       // a page that begins while a list is reused is attended to in addition ("append") or in place of the page before it ("replace"); "": the policy's own
	SkipLayers  int    `toml:"skip_layers"`  // first layers that attend to everything; -1: the policy's own

	StaticSparsity float64 `toml:"static_sparsity"` // share of the KV heads that attend to Sink and Window alone; -1: the policy's own
	// Gates is a file with a line of numbers for each layer, one for each KV head, from 0 to 1, or with these as arrays in
	// JSON; DuoAttention's full_attention_heads.tsv is one: the heads with the lowest ones attend to Sink and Window alone. "": the last heads of each layer, spread evenly over layers.
	Gates         string `toml:"gates"`
	Sink          int    `toml:"sink"`           // first tokens that are always attended to; -1: the policy's own
	Window        int    `toml:"window"`         // newest tokens that are always attended to, the step's own among them; -1: the policy's own
	PrefillWindow int    `toml:"prefill_window"` // Window of the prompt's tokens; 0: as in decode steps; -1: the policy's own

	StreamDevice string `toml:"stream_device"` // where heads attend to Sink and Window, where keys and values are on DIMMs: on the "gpu" or where the others do, at "home"; "": the policy's own

	SelectDevice    string `toml:"select_device"`    // where pages are scored: "gpu", "bank" or "rank"; "": the policy's own
	TopKLatency     int    `toml:"top_k_latency"`    // clocks from a rank's last score to its list of pages: a register for each entry, filled in passing; -1: the policy's own
	SelectGroup     string `toml:"select_group"`     // how the query heads of a KV head choose: by the "sum" of their page scores, by the sum of their softmax ("softmax-sum"), by the "max", or each for itself ("per-head"); "": the policy's own
	SelectPrecision string `toml:"select_precision"` // of page scores: "fp32" or "fp16"; "": the policy's own
	SummaryDevice   string `toml:"summary_device"`   // what computes minima and maxima of pages, where keys and values are on DIMMs: "gpu" or "rank"; "": the policy's own
	Layout          string `toml:"layout"`           // of pages on DIMMs: "row" over all banks or "quad" in four of them; "": the policy's own

	Heavy  float64 `toml:"heavy"`  // share of the prompt's tokens that are kept for their weight; -1: the policy's own
	Recent float64 `toml:"recent"` // share of the prompt's tokens that are kept as the newest; -1: the policy's own

	Beta          float64 `toml:"beta"`           // a token stays in attention where its average weight exceeds Beta times the mean; -1: the policy's own
	Alpha         float64 `toml:"alpha"`          // of the moving average of weights: what the newest step counts; -1: the policy's own
	Block         int     `toml:"block"`          // tokens that leave the window at once; -1: the policy's own
	PromptQueries int     `toml:"prompt_queries"` // last queries of the prompt from which average weights start; -1: the policy's own
	PinSinks      int     `toml:"pin_sinks"`      // first tokens that stay in attention whatever their weight; -1: the policy's own
	KeepAll       bool    `toml:"keep_all"`       // all keys and values stay beside the copies of the salient ones
	// Share is the share of the tokens beyond the window that is salient, where no
	// profile says it; -1: the policy's own.
	Share float64 `toml:"share"`

	HostOverhead units.Duration `toml:"host_overhead"` // of a parallel region on the host's cores

	Subspaces    int     `toml:"subspaces"`     // parts of a head's dimensions with centroids of their own; -1: the policy's own
	Centroids    int     `toml:"centroids"`     // of a subspace; -1: the policy's own
	Iterations   int     `toml:"iterations"`    // of k-means; -1: the policy's own
	TableShare   float64 `toml:"table_share"`   // share of the prompt's tokens in a centroid's table; -1: the policy's own
	SelectShare  float64 `toml:"select_share"`  // share of the prompt's tokens that a step attends to; -1: the policy's own
	RecentTokens int     `toml:"recent_tokens"` // newest tokens that a step attends to in addition; -1: the policy's own
	Weight       string  `toml:"weight"`        // of a subspace's scores: "one" or the query's "norm" in it; "": the policy's own
	Search       string  `toml:"search"`        // with the step's query ("causal") or with that of the step before ("lagged"); "": the policy's own
	Period       int     `toml:"period"`        // steps that share a search; -1: the policy's own
	Mode         string  `toml:"mode"`          // where tables, keys and values are: "gpu" or "host"; "": the policy's own

	Profile string `toml:"profile"` // file of counts that depend on data, as 'l3lab eval --profile' writes it; "": none

	// What Gates and Profile hold, nil before ReadFiles and where they name none.
	gates   *file[*gates]
	profile *file[*Profile]
}

// most bounds counts of tokens.
const most = 1 << 24

// Check has the rules of the section [policy].
func (s *Spec) Check(c *input.Check) {
	input.OneOf(c, "name", s.Name, Names()...)
	for _, n := range []struct {
		key       string
		v         int
		low, high int
	}{
		{"budget", s.Budget, 1, most}, {"top_k_latency", s.TopKLatency, 0, 1 << 12}, {"page", s.Page, 1, 1 << 16}, {"logical_page", s.LogicalPage, 1, 1 << 16},
		{"reuse", s.Reuse, 1, 1 << 16}, {"skip_layers", s.SkipLayers, 0, 1 << 16},
		{"sink", s.Sink, 0, most}, {"window", s.Window, 0, most}, {"prefill_window", s.PrefillWindow, 0, most},
		{"block", s.Block, 1, most}, {"prompt_queries", s.PromptQueries, 1, most}, {"pin_sinks", s.PinSinks, 0, most},
		{"subspaces", s.Subspaces, 1, 512}, {"centroids", s.Centroids, 1, 1 << 16}, {"iterations", s.Iterations, 0, 1000},
		{"recent_tokens", s.RecentTokens, 1, most}, {"period", s.Period, 1, 1 << 16},
	} {
		c.That(n.v == Unset || n.v >= n.low && n.v <= n.high, n.key, n.v, "%d to %d, or -1 for the policy's own", n.low, n.high)
	}
	for _, n := range []struct {
		key  string
		v    float64
		high float64
	}{
		{"static_sparsity", s.StaticSparsity, 1}, {"heavy", s.Heavy, 1}, {"recent", s.Recent, 1}, {"beta", s.Beta, 1e6}, {"alpha", s.Alpha, 1},
		{"share", s.Share, 1}, {"table_share", s.TableShare, 1}, {"select_share", s.SelectShare, 1},
	} {
		c.That(n.v == Unset || n.v >= 0 && n.v <= n.high, n.key, n.v, "0 to %v, or -1 for the policy's own", n.high)
	}
	for _, n := range []struct{ key, v, valid string }{
		{"newest", s.Newest, "append replace"}, {"stream_device", s.StreamDevice, "gpu home"}, {"select_device", s.SelectDevice, "gpu bank rank"}, {"select_group", s.SelectGroup, "sum softmax-sum max per-head"},
		{"select_precision", s.SelectPrecision, "fp32 fp16"}, {"summary_device", s.SummaryDevice, "gpu rank"}, {"layout", s.Layout, "row quad"},
		{"weight", s.Weight, "one norm"}, {"search", s.Search, "causal lagged"}, {"mode", s.Mode, "gpu host"},
	} {
		if n.v != "" { // the policy's own
			input.OneOf(c, n.key, n.v, strings.Fields(n.valid)...)
		}
	}
	c.That(s.HostOverhead >= 0, "host_overhead", s.HostOverhead, "at least 0ps")
	if c.OK() {
		s.checkOwn(c)
	}
	if c.OK() {
		s.Own().checkTogether(c)
	}
}

// checkOwn refuses keys of other policies.
func (s *Spec) checkOwn(c *input.Check) {
	own := keysOf(s.Name)
	for _, k := range strangers(s) {
		c.Fails(k.Name, &input.Error{Value: written(k.Get(s)), Nearest: input.Nearest(k.Name, own), Expected: "to be left out with policy.name = \"" +
			s.Name + "\", whose keys are " + strings.Join(own, ", ") + "; it is a key of " + strings.Join(policiesWith(k.Name), ", ")})
	}
}

// checkTogether has the rules between the keys of a policy, which all have values.
func (s *Spec) checkTogether(c *input.Check) {
	has := func(key string) bool { return hasKey(s.Name, key) }
	if has("budget") {
		c.That(s.Budget >= s.Page, "budget", s.Budget, "at least policy.page = %d: a page is attended to whole", s.Page)
	}
	if has("select_device") && s.SelectDevice == "gpu" {
		c.That(s.SummaryDevice == "gpu", "summary_device", s.SummaryDevice, "\"gpu\" with policy.select_device = \"gpu\", whose memory has the summaries")
	}
	if has("logical_page") {
		c.That(s.Page%s.LogicalPage == 0, "logical_page", s.LogicalPage, "a divisor of policy.page = %d", s.Page)
	}
	switch s.Name {
	case "streaming", "lserve", "duo":
		c.That(s.Window >= 1, "window", s.Window, "at least 1: a token attends to itself")
	case "window", "hgca":
		// No window at all is legal for the lossless policy: everything is elsewhere then.
		ok := s.Block <= s.Window || s.Name == "window" && s.Window == 0
		c.That(ok, "block", s.Block, "at most policy.window = %d, which a block leaves", s.Window)
	case "h2o":
		c.That(s.Heavy+s.Recent <= 1, "recent", s.Recent, "at most 1 together with policy.heavy = %v", s.Heavy)
	}
}
