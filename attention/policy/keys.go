package policy

import "github.com/l3sim/l3sim/input"

// Interfaces by which a policy's keys declare features. Keys implement them by embedding a struct of this package, or directly.
type (
	// choosesPages is implemented by keys that embed PagesSpec: the policy chooses pages to attend to.
	choosesPages interface{ PageKeys() *PagesSpec }
	// splitsHeads is implemented by keys that embed HeadsSpec: some heads stream, and the policy uses policy.gates.
	splitsHeads interface{ HeadKeys() *HeadsSpec }
	// hasWindow is implemented by keys of a policy that keeps the newest tokens on the GPUs when all others are in
	// another memory.
	hasWindow interface{ GPUTokens() int }
	// hasBlocks is implemented by keys of a policy whose tokens at home stay the same for some steps: they change at contexts from +
	// i·width.
	hasBlocks interface{ Blocks() (width, from int) }
)

func (p *Policy) splits() bool {
	_, ok := p.Keys.(splitsHeads)
	return ok
}

// PagesSpec has the keys of policies that choose pages.
type PagesSpec struct {
	Budget          int    `toml:"budget"`           // tokens that a decode step attends to
	Page            int    `toml:"page"`             // tokens of a page, which is attended to as a whole
	SelectDevice    string `toml:"select_device"`    // where pages are scored: "gpu", "bank" or "rank"
	TopKLatency     int    `toml:"top_k_latency"`    // clocks from a rank's last score to its list of pages; registers for the list's entries are filled as scores arrive
	SelectGroup     string `toml:"select_group"`     // how the query heads of a KV head choose: by the "sum" of their page scores, by the sum of their softmax ("softmax-sum"), by the "max", or each for itself ("per-head")
	SelectPrecision string `toml:"select_precision"` // of page scores: "fp32" or "fp16"
	SummaryDevice   string `toml:"summary_device"`   // what computes minima and maxima of pages, where keys and values are on DIMMs: "gpu" or "rank"
	Layout          string `toml:"layout"`           // of pages on DIMMs: "row" over all banks or "quad" in four of them
}

// Check has the rules of a choice of pages.
func (s PagesSpec) Check(c *input.Check) {
	input.Within(c, "budget", s.Budget, 1, MaxTokens)
	input.Within(c, "page", s.Page, 1, 1<<16)
	input.OneOf(c, "select_device", s.SelectDevice, "gpu", "bank", "rank")
	input.Within(c, "top_k_latency", s.TopKLatency, 0, 1<<12)
	input.OneOf(c, "select_group", s.SelectGroup, "sum", "softmax-sum", "max", "per-head")
	input.OneOf(c, "select_precision", s.SelectPrecision, "fp32", "fp16")
	input.OneOf(c, "summary_device", s.SummaryDevice, "gpu", "rank")
	input.OneOf(c, "layout", s.Layout, "row", "quad")
	if c.OK() {
		c.That(s.Budget >= s.Page, "budget", s.Budget, "at least %s = %d: a page is attended to whole", input.Key("page"), s.Page)
		c.That(s.SelectDevice != "gpu" || s.SummaryDevice == "gpu", "summary_device", s.SummaryDevice, "\"gpu\" with %s = \"gpu\", whose memory has the summaries", input.Key("select_device"))
	}
}

// PageKeys returns the keys.
func (s PagesSpec) PageKeys() *PagesSpec { return &s }

// HeadsSpec has the keys of policies with heads that attend only to a sink and a window.
type HeadsSpec struct {
	StaticSparsity float64 `toml:"static_sparsity"` // share of the KV heads that attend only to sink and window: those with the lowest policy.gates
	StreamSpec
	StreamDevice string `toml:"stream_device"` // where these heads attend if keys and values are on DIMMs: on the "gpu", or at "home" like the others
}

// Check has the rules of streaming heads and their share.
func (s HeadsSpec) Check(c *input.Check) {
	input.Within(c, "static_sparsity", s.StaticSparsity, 0, 1)
	s.StreamSpec.Check(c)
	input.OneOf(c, "stream_device", s.StreamDevice, "gpu", "home")
}

// HeadKeys returns the keys.
func (s HeadsSpec) HeadKeys() *HeadsSpec { return &s }

// GPUTokens returns the number of newest tokens that streaming heads keep on the GPUs.
func (s HeadsSpec) GPUTokens() int { return s.Window }

// StreamSpec has the keys of heads that attend only to a sink and a window.
type StreamSpec struct {
	Sink          int `toml:"sink"`           // first tokens that are always attended to
	Window        int `toml:"window"`         // newest tokens that are always attended to, including the step's own
	PrefillWindow int `toml:"prefill_window"` // window of the prompt's tokens; 0: the same as in decode steps
}

// Check has the rules of a sink and a window.
func (s StreamSpec) Check(c *input.Check) {
	input.Within(c, "sink", s.Sink, 0, MaxTokens)
	c.That(s.Window >= 1 && s.Window <= MaxTokens, "window", s.Window, "1 to %d: a token attends to itself", MaxTokens)
	input.Within(c, "prefill_window", s.PrefillWindow, 0, MaxTokens)
}
