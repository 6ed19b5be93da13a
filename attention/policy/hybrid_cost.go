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
	all     bool // keys and values of all that has left the window are at home
}

func newHybridCost(s *Spec, shape Shape) *hybridCost {
	c := &hybridCost{common: newCommon(s.Name, shape), HGCAWindow: HGCAWindow{s.Window, s.Block}, sink: max(s.Sink, 0), share: 1, all: true}
	rest := Held{Device: Home, Heads: shape.KVHeads, Bytes: shape.token(), Skip: c.sink}
	if c.Size > 0 {
		rest.Skip += c.Size - c.Block // that stay at least
	}
	c.held = []Held{rest}
	if s.Name == "hgca" {
		c.hgca, c.all, c.share, c.queries = true, s.KeepAll, s.Share, s.PromptQueries
		copies := rest
		if copies.Share = s.Share; s.Share == 0 {
			copies.Bytes = 0
		}
		c.held[0] = copies
		if c.all {
			c.held = append(c.held, rest)
		}
	}
	if most := c.sink + c.Size; most > 0 {
		c.held = append(c.held, Held{Device: GPU, Heads: shape.KVHeads, Bytes: shape.token(), Most: most})
		if c.hgca { // their averages
			c.held = append(c.held, Held{Device: GPU, Heads: shape.KVHeads, Bytes: scoreBytes, Most: most, Index: true})
		}
	}
	return c
}

// away returns how many tokens of a context are at home before its step; without a window
// the step's own is among them.
func (c *hybridCost) away(context int) int {
	if c.Size == 0 {
		return max(context-c.sink, 0)
	}
	return max(c.Evicted(context-1)-c.sink, 0)
}

// attended returns how many of so many tokens at home are attended to.
func (c *hybridCost) attended(away int) int {
	if !c.hgca {
		return away
	}
	return int(math.Ceil(float64(c.share * float64(away))))
}

// Decode returns all heads on the GPUs over sink and window, and at home over the rest.
func (c *hybridCost) Decode(requests []Request, _ int) *Step {
	n := len(requests)
	c.reset(n, 5)
	near, away, far, leave, more := c.take(n), c.take(n), c.take(n), c.take(n), c.take(n)
	sum, leaving := 0, 0
	for i, r := range requests {
		away[i] = c.away(r.Context)
		near[i], far[i] = r.Context-away[i], c.attended(away[i])
		leave[i], more[i] = 0, 0
		if c.Size > 0 {
			leave[i] = c.away(r.Context+1) - away[i]
		}
		if leave[i] > 0 {
			more[i] = c.attended(away[i]+leave[i]) - far[i]
		}
		sum += near[i]
		leaving += leave[i]
		if near[i] > 0 && far[i] > 0 {
			c.step.Merged++
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
	if leaving > 0 && c.all {
		c.step.Leave = append(c.step.Leave, Leaving{Heads: heads, From: away, Tokens: leave})
	}
	if leaving > 0 && c.hgca {
		c.step.Leave = append(c.step.Leave, Leaving{Heads: heads, From: far, Tokens: more, Copies: c.all})
	}
	return &c.step
}

// Prompt returns causal attention of all heads. What is beyond the window goes home chunk by
// chunk. HGCA knows at the prompt's end what is salient, from the scores of the last queries.
func (c *hybridCost) Prompt(_, chunk, finished int, last bool) *Prompt {
	c.begin(chunk, finished)
	c.prompt.Leave = c.prompt.Leave[:0]
	n := finished + chunk
	if c.all {
		c.send(c.shape.KVHeads, c.after(finished), c.after(n))
	}
	if last && c.hgca {
		c.send(c.shape.KVHeads, 0, c.attended(c.after(n)))
		c.prompt.Leave[len(c.prompt.Leave)-1].Copies = c.all
		pairs := int64(min(n, c.queries)) * int64(n) * int64(c.shape.QueryHeads)
		c.promptPass(2, 3*scoreBytes*pairs, 2*int64(c.shape.Dim)*pairs)
	}
	return &c.prompt
}

// after returns how many tokens are at home after so many of a prompt.
func (c *hybridCost) after(tokens int) int {
	if c.Size == 0 {
		return c.away(tokens)
	}
	return c.away(tokens + 1)
}

// Vectors returns the bytes of q and of an output with its sum; without a window those of k
// and v too.
func (c *hybridCost) Vectors() Vectors {
	v := c.shape.vectors()
	if c.Size > 0 {
		v.New = 0
	}
	if c.Size+c.sink > 0 {
		v.Sums = scoreBytes * int64(c.shape.QueryHeads)
	}
	return v
}
