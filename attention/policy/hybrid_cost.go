package policy

import "math"

// hybridCost is the cost of policies with a window on the GPUs and the rest at home, which is
// elsewhere: all of it (window) or what is salient of it (HGCA). Partial outputs are merged on
// the GPUs. Tokens leave the window in blocks.
type hybridCost struct {
	common
	HGCAWindow
	sink    int
	queries int     // of a prompt from which salience starts
	share   float64 // of what has left the window that is attended to
	hgca    bool
}

func newHybridCost(s *Spec, shape Shape) *hybridCost {
	c := &hybridCost{common: newCommon(s.Name, shape), HGCAWindow: HGCAWindow{s.Window, s.Block}, sink: max(s.Sink, 0), share: 1}
	rest := Held{Device: Home, Heads: shape.KVHeads, Bytes: shape.token(), Skip: max(c.sink+s.Window-s.Block, 0)}
	window := Held{Device: GPU, Heads: shape.KVHeads, Bytes: shape.token(), Most: c.sink + s.Window}
	c.held = []Held{window, rest}
	if s.Name == "hgca" {
		c.hgca, c.share, c.queries = true, s.Share, s.PromptQueries
		copies := rest
		copies.Share = s.Share
		c.held = []Held{window, copies}
		if s.KeepAll {
			c.held = append(c.held, rest)
		}
	}
	return c
}

// away returns how many tokens of a request are at home before a step.
func (c *hybridCost) away(r Request) int {
	if c.Size == 0 { // no window: the step's own token is at home too
		return r.Context
	}
	return max(c.Evicted(r.Context-1)-c.sink, 0)
}

// Decode returns all heads on the GPUs over the window, and at home over the rest.
func (c *hybridCost) Decode(requests []Request, _ int) *Step {
	c.reset(len(requests), 3)
	near, far, leave := c.take(len(requests)), c.take(len(requests)), c.take(len(requests))
	sum, leaving, merged := 0, 0, 0
	for i, r := range requests {
		away := c.away(r)
		near[i], far[i] = r.Context-away, away
		if c.hgca {
			far[i] = int(math.Ceil(float64(c.share * float64(away))))
		}
		if c.Size > 0 {
			leave[i] = c.away(Request{r.Prompt, r.Context + 1}) - away
		}
		sum += near[i]
		leaving += leave[i]
		if near[i] > 0 && far[i] > 0 {
			merged++
		}
	}
	heads := c.shape.KVHeads
	if sum > 0 {
		c.attend(Class{Device: GPU, Heads: heads, Tokens: near, Weights: c.hgca})
	}
	c.attend(Class{Device: Home, Heads: heads, Tokens: far})
	if c.hgca { // weights in, averages in and out
		c.pass(1, 3*scoreBytes*int64(sum)*int64(c.shape.QueryHeads), 0)
	}
	c.step.Merge = merged > 0
	if leaving > 0 {
		c.step.Leave = leave
	}
	return &c.step
}

// Prompt returns causal attention of all heads; for HGCA at its end the salience of its tokens,
// from the scores of the last queries.
func (c *hybridCost) Prompt(_, chunk, finished int, last bool) *Prompt {
	c.begin(chunk, finished)
	if n := finished + chunk; last && c.hgca {
		pairs := int64(min(n, c.queries)) * int64(n) * int64(c.shape.QueryHeads)
		c.promptPass(2, 3*scoreBytes*pairs, 2*int64(c.shape.Dim)*pairs)
	}
	return &c.prompt
}
