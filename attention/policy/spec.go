package policy

import (
	"strings"
	"sync"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Spec is the section [policy] of a configuration: which policy runs, and a section for each policy that has keys, [policy.quest]
// and so on. Only the section of the policy that runs counts.
type Spec struct {
	Name string `toml:"name"` // what attention attends to, see 'l3sim config policies'
	// Gates is a file with a line of numbers for each layer, one for each KV head, from 0 to 1, with brackets as
	// in JSON or without; DuoAttention's full_attention_heads.tsv is one: the heads with the lowest ones stream. "": the last heads of each layer, spread evenly over layers.
	Gates   string `toml:"gates"`
	Profile string `toml:"profile"` // file of counts that depend on data, as 'l3lab eval --profile' writes it; "": none

	Window      WindowSpec      `toml:"window"`
	Streaming   StreamSpec      `toml:"streaming"`
	H2O         H2OSpec         `toml:"h2o"`
	Quest       QuestSpec       `toml:"quest"`
	LServe      LServeSpec      `toml:"lserve"`
	Duo         HeadsSpec       `toml:"duo"`
	HGCA        HGCASpec        `toml:"hgca"`
	CSAttention CSAttentionSpec `toml:"csattention"`

	// What Gates and Profile hold, nil before ReadFiles and where they name none.
	gates   *file[*gates]
	profile *file[*Profile]
}

// WindowSpec is the keys of the lossless policy "window".
type WindowSpec struct {
	Sink   int `toml:"sink"`   // first tokens that are always attended to on the GPUs
	Window int `toml:"window"` // newest tokens that the GPUs hold and attend to, the step's own among them; 0: all tokens are elsewhere
	Block  int `toml:"block"`  // tokens that leave the window at once
}

// StreamSpec is the keys of heads that attend to a sink and a window alone.
type StreamSpec struct {
	Sink          int `toml:"sink"`           // first tokens that are always attended to
	Window        int `toml:"window"`         // newest tokens that are always attended to, the step's own among them
	PrefillWindow int `toml:"prefill_window"` // window of the prompt's tokens; 0: as in decode steps
}

// H2OSpec is the keys of H2O.
type H2OSpec struct {
	Heavy  float64 `toml:"heavy"`  // share of the prompt's tokens that are kept for their weight
	Recent float64 `toml:"recent"` // share of the prompt's tokens that are kept as the newest
}

// PagesSpec is the keys of policies that choose pages.
type PagesSpec struct {
	Budget          int    `toml:"budget"`           // tokens that a decode step attends to
	Page            int    `toml:"page"`             // tokens of a page, which is attended to whole
	SelectDevice    string `toml:"select_device"`    // where pages are scored: "gpu", "bank" or "rank"
	TopKLatency     int    `toml:"top_k_latency"`    // clocks from a rank's last score to its list of pages: a register for each entry, filled in passing
	SelectGroup     string `toml:"select_group"`     // how the query heads of a KV head choose: by the "sum" of their page scores, by the sum of their softmax ("softmax-sum"), by the "max", or each for itself ("per-head")
	SelectPrecision string `toml:"select_precision"` // of page scores: "fp32" or "fp16"
	SummaryDevice   string `toml:"summary_device"`   // what computes minima and maxima of pages, where keys and values are on DIMMs: "gpu" or "rank"
	Layout          string `toml:"layout"`           // of pages on DIMMs: "row" over all banks or "quad" in four of them
}

// QuestSpec is the keys of Quest.
type QuestSpec struct {
	PagesSpec
	SkipLayers int `toml:"skip_layers"` // first layers that attend to everything
}

// HeadsSpec is the keys of policies some of whose heads attend to a sink and a window alone.
type HeadsSpec struct {
	StaticSparsity float64 `toml:"static_sparsity"` // share of the KV heads that attend to sink and window alone: those with the lowest policy.gates
	StreamSpec
	StreamDevice string `toml:"stream_device"` // where these heads attend, where keys and values are on DIMMs: on the "gpu" or where the others do, at "home"
}

// LServeSpec is the keys of LServe.
type LServeSpec struct {
	PagesSpec
	LogicalPage int    `toml:"logical_page"` // tokens that share a minimum and a maximum of keys, a divisor of page
	Reuse       int    `toml:"reuse"`        // steps that share a list of pages
	Newest      string `toml:"newest"`       // a page that begins while a list is reused is attended to in addition ("append") or in place of the page before it ("replace")
	HeadsSpec
}

// HGCASpec is the keys of HGCA.
type HGCASpec struct {
	Window        int     `toml:"window"`         // newest tokens that the GPUs hold and attend to, the step's own among them
	Beta          float64 `toml:"beta"`           // a token stays in attention where its average weight exceeds beta times the mean
	Alpha         float64 `toml:"alpha"`          // of the moving average of weights: what the newest step counts
	Block         int     `toml:"block"`          // tokens that leave the window at once
	PromptQueries int     `toml:"prompt_queries"` // last queries of the prompt from which average weights start
	PinSinks      int     `toml:"pin_sinks"`      // first tokens that stay in attention whatever their weight
	KeepAll       bool    `toml:"keep_all"`       // all keys and values stay beside the copies of the salient ones
	Share         float64 `toml:"share"`          // share of the tokens beyond the window that is salient, where no profile says it

	HostOverhead units.Duration `toml:"host_overhead"` // of a parallel region on the host's cores
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
	Weight       string  `toml:"weight"`        // of a subspace's scores: "one" or the query's "norm" in it
	Search       string  `toml:"search"`        // with the step's query ("causal") or with that of the step before ("lagged")
	Period       int     `toml:"period"`        // steps that share a search
	Mode         string  `toml:"mode"`          // where tables, keys and values are: "gpu" or "host"
}

// most bounds counts of tokens.
const most = 1 << 24

// New returns the section of a policy with all defaults.
func New(name string) Spec {
	s := defaults()
	s.Name = name
	return s
}

var defaults = sync.OnceValue(func() Spec {
	var all struct{ Policy Spec }
	_, _ = input.DecodeTOML("", Defaults, &all) // TestDefaults has it without an error
	return all.Policy
})

// Pages returns the keys of the policy's choice of pages, nil for a policy that chooses none.
func (s *Spec) Pages() *PagesSpec {
	switch s.Name {
	case "quest":
		return &s.Quest.PagesSpec
	case "lserve":
		return &s.LServe.PagesSpec
	}
	return nil
}

// Heads returns the keys of a policy some of whose heads stream, nil for other policies.
func (s *Spec) Heads() *HeadsSpec {
	switch s.Name {
	case "lserve":
		return &s.LServe.HeadsSpec
	case "duo":
		return &s.Duo
	}
	return nil
}

// GPUWindow returns the key of the window that the GPUs hold, and its tokens. It is policy.name and 0 for a policy without one.
func (s *Spec) GPUWindow() (key string, tokens int) {
	switch h := s.Heads(); {
	case h != nil:
		tokens = h.Window
	case s.Name == "window":
		tokens = s.Window.Window
	case s.Name == "hgca":
		tokens = s.HGCA.Window
	default:
		return "policy.name", 0
	}
	return "policy." + s.Name + ".window", tokens
}

// Overhead returns the policy's key host_overhead. It is false where the policy has none.
func (s *Spec) Overhead() (units.Duration, bool) {
	switch s.Name {
	case "hgca":
		return s.HGCA.HostOverhead, true
	case "csattention":
		return s.CSAttention.HostOverhead, true
	}
	return 0, false
}

// Check has the rules of the section [policy].
func (s *Spec) Check(c *input.Check) {
	input.OneOf(c, "name", s.Name, Names()...)
	c.That(s.Gates == "" || s.Heads() != nil, "gates", s.Gates, "to be left out with policy.name = %q: some heads stream with lserve and duo", s.Name)
	c.That(s.Profile == "" || s.Name != "dense", "profile", s.Profile, "to be left out with policy.name = %q, which attends to everything", s.Name)
	for _, section := range []struct {
		name string
		input.Checked
	}{
		{"window", &s.Window}, {"streaming", &s.Streaming}, {"h2o", &s.H2O}, {"quest", &s.Quest},
		{"lserve", &s.LServe}, {"duo", &s.Duo}, {"hgca", &s.HGCA}, {"csattention", &s.CSAttention},
	} {
		c.In(section.name, section)
	}
}

// oneOf is the rule that v is one of the words of valid.
func oneOf(c *input.Check, key, v, valid string) { input.OneOf(c, key, v, strings.Fields(valid)...) }

// Check has the rules of the section [policy.window]. No window at all is legal for a policy that loses nothing.
func (s *WindowSpec) Check(c *input.Check) {
	input.Within(c, "sink", s.Sink, 0, most)
	input.Within(c, "window", s.Window, 0, most)
	checkBlock(c, s.Block, s.Window, s.Window == 0)
}

// checkBlock has the rules of what leaves a window at once.
func checkBlock(c *input.Check, block, window int, whole bool) {
	input.Within(c, "block", block, 1, most)
	if c.OK() {
		c.That(block <= window || whole, "block", block, "at most window = %d, which a block leaves", window)
	}
}

// Check has the rules of a sink and a window.
func (s *StreamSpec) Check(c *input.Check) {
	input.Within(c, "sink", s.Sink, 0, most)
	c.That(s.Window >= 1 && s.Window <= most, "window", s.Window, "1 to %d: a token attends to itself", most)
	input.Within(c, "prefill_window", s.PrefillWindow, 0, most)
}

// Check has the rules of the section [policy.h2o].
func (s *H2OSpec) Check(c *input.Check) {
	input.Within(c, "heavy", s.Heavy, 0, 1)
	input.Within(c, "recent", s.Recent, 0, 1)
	if c.OK() {
		c.That(s.Heavy+s.Recent <= 1, "recent", s.Recent, "at most 1 together with heavy = %v", s.Heavy)
	}
}

// Check has the rules of a choice of pages.
func (s *PagesSpec) Check(c *input.Check) {
	input.Within(c, "budget", s.Budget, 1, most)
	input.Within(c, "page", s.Page, 1, 1<<16)
	oneOf(c, "select_device", s.SelectDevice, "gpu bank rank")
	input.Within(c, "top_k_latency", s.TopKLatency, 0, 1<<12)
	oneOf(c, "select_group", s.SelectGroup, "sum softmax-sum max per-head")
	oneOf(c, "select_precision", s.SelectPrecision, "fp32 fp16")
	oneOf(c, "summary_device", s.SummaryDevice, "gpu rank")
	oneOf(c, "layout", s.Layout, "row quad")
	if c.OK() {
		c.That(s.Budget >= s.Page, "budget", s.Budget, "at least page = %d: a page is attended to whole", s.Page)
		c.That(s.SelectDevice != "gpu" || s.SummaryDevice == "gpu", "summary_device", s.SummaryDevice, "\"gpu\" with select_device = \"gpu\", whose memory has the summaries")
	}
}

// Check has the rules of the section [policy.quest].
func (s *QuestSpec) Check(c *input.Check) {
	s.PagesSpec.Check(c)
	input.Within(c, "skip_layers", s.SkipLayers, 0, 1<<16)
}

// Check has the rules of heads that stream and of their share.
func (s *HeadsSpec) Check(c *input.Check) {
	input.Within(c, "static_sparsity", s.StaticSparsity, 0, 1)
	s.StreamSpec.Check(c)
	oneOf(c, "stream_device", s.StreamDevice, "gpu home")
}

// Check has the rules of the section [policy.lserve].
func (s *LServeSpec) Check(c *input.Check) {
	s.PagesSpec.Check(c)
	input.Within(c, "logical_page", s.LogicalPage, 1, 1<<16)
	input.Within(c, "reuse", s.Reuse, 1, 1<<16)
	oneOf(c, "newest", s.Newest, "append replace")
	s.HeadsSpec.Check(c)
	if c.OK() {
		c.That(s.Page%s.LogicalPage == 0, "logical_page", s.LogicalPage, "a divisor of page = %d", s.Page)
	}
}

// Check has the rules of the section [policy.hgca].
func (s *HGCASpec) Check(c *input.Check) {
	input.Within(c, "window", s.Window, 0, most)
	checkBlock(c, s.Block, s.Window, false)
	input.Within(c, "beta", s.Beta, 0, 1e6)
	input.Within(c, "alpha", s.Alpha, 0, 1)
	input.Within(c, "prompt_queries", s.PromptQueries, 1, most)
	input.Within(c, "pin_sinks", s.PinSinks, 0, most)
	input.Within(c, "share", s.Share, 0, 1)
	c.That(s.HostOverhead >= 0, "host_overhead", s.HostOverhead, "at least 0ps")
}

// Check has the rules of the section [policy.csattention].
func (s *CSAttentionSpec) Check(c *input.Check) {
	c.That(s.HostOverhead >= 0, "host_overhead", s.HostOverhead, "at least 0ps")
	input.Within(c, "subspaces", s.Subspaces, 1, 512)
	input.Within(c, "centroids", s.Centroids, 1, 1<<16)
	input.Within(c, "iterations", s.Iterations, 0, 1000)
	input.Within(c, "table_share", s.TableShare, 0, 1)
	input.Within(c, "select_share", s.SelectShare, 0, 1)
	input.Within(c, "recent_tokens", s.RecentTokens, 1, most)
	oneOf(c, "weight", s.Weight, "one norm")
	oneOf(c, "search", s.Search, "causal lagged")
	input.Within(c, "period", s.Period, 1, 1<<16)
	oneOf(c, "mode", s.Mode, "gpu host")
}
