package policies

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
)

// window is attention to everything: the GPUs attend to a sink and a window, and home attends to the rest.
var window = policy.Policy{
	Name: "window", Source: "our own; the split is HGCA's",
	About: policy.About{Attends: "everything: a sink and a window on the GPUs, the rest elsewhere; merged by log-sum-exp", Stores: "the window on the GPUs, all older tokens elsewhere",
		Moves: "queries down, results and log-sum-exps up; blocks that leave the window, in the background"},
	Homes: policy.InDIMMs | policy.OnHost, Drafts: true,
	Keys: WindowSpec{},
	Defaults: `sink = 0     # our choice: nothing is lost elsewhere
window = 512 # our choice: it fits beside the weights
block = 128  # our choice: the paper gives none
`,
	Costs: newWindowCost,
	Values: func(u *policy.Use) (policy.Values, error) {
		s := u.Keys.(WindowSpec)
		return policy.ValuesFunc(func(_, _, _ int) policy.State { return newWindowState(&s, u.Shape.Dim) }), nil
	},
}

// WindowSpec is the keys of the lossless policy "window".
type WindowSpec struct {
	Sink   int `toml:"sink"`   // first tokens that are always attended to on the GPUs
	Window int `toml:"window"` // newest tokens that the GPUs hold and attend to, including the step's own; 0: all tokens are at home
	Block  int `toml:"block"`  // tokens that leave the window together
}

// Check has the rules of the section [policy.window]. A window of 0 is valid, since the policy is lossless.
func (s WindowSpec) Check(c *input.Check) {
	input.Within(c, "sink", s.Sink, 0, policy.MaxTokens)
	input.Within(c, "window", s.Window, 0, policy.MaxTokens)
	checkBlock(c, s.Block, s.Window, s.Window == 0)
}

// checkBlock has the rules of the block of tokens that leave a window together.
func checkBlock(c *input.Check, block, window int, whole bool) {
	input.Within(c, "block", block, 1, policy.MaxTokens)
	if c.OK() {
		c.That(block <= window || whole, "block", block, "at most %s = %d, which a block leaves", input.Key("window"), window)
	}
}

// GPUTokens returns the window.
func (s WindowSpec) GPUTokens() int { return s.Window }

func newWindowCost(u *policy.Use) policy.Costs {
	s := u.Keys.(WindowSpec)
	c := &hybridCost{common: newCommon(u.Shape), hgcaWindow: hgcaWindow{s.Window, s.Block}, sink: s.Sink, share: 1, all: true}
	c.held = c.near(append(c.held[:0], c.rest()))
	return c
}

// windowState attends to sink and window on the GPUs, and to the other tokens at home. Nothing is lost.
type windowState struct {
	masked
	sink   int
	window hgcaWindow
	parts  [2]policy.Part // on the GPUs, at home
	near   [2][2]int
	home   [1][2]int
}

// newWindowState returns the state of a head that attends to its latest tokens on the GPUs and to all others at home.
func newWindowState(s *WindowSpec, dim int) *windowState {
	w := &windowState{masked: masked{dim: dim}, sink: s.Sink, window: hgcaWindow{Size: s.Window, Block: s.Block}}
	w.parts[0].Device = policy.GPU
	return w
}

// Select returns the two parts, either of which may be empty.
func (w *windowState) Select([][]float32) policy.Selection {
	left := w.tokens // number of tokens that have left the window
	if w.window.Size > 0 {
		left -= w.window.Held(w.tokens)
	}
	near, home := Streaming{w.sink, w.tokens - left}.Ranges(w.near[:0], w.tokens), w.home[:0]
	if left > w.sink {
		home = append(home, [2]int{w.sink, left})
	}
	w.parts[0].Ranges, w.parts[1].Ranges = near, home
	return policy.Selection{Parts: w.parts[:]}
}
