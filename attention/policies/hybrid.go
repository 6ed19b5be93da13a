package policies

import (
	"github.com/l3sim/l3sim/attention/policy"
	"slices"
)

// hybridCost is the cost of policies with a window on the GPUs and the rest at a home elsewhere. At home, heads attend to all of the rest
// (window) or to its salient tokens (HGCA). The GPUs merge partial outputs. Tokens leave the window in blocks. If a step verifies several
// tokens, all of them attend to the tokens that had left the window before the step, and to all tokens on the GPUs, since salience is
// determined when a token leaves and not by query. After the step, the accepted tokens advance the window.
type hybridCost struct {
	common
	hgcaWindow
	sink    int
	queries int             // queries of a prompt from which salience starts
	share   float64         // share of the evicted tokens that is attended to, without a profile
	profile *policy.Profile // nil: none
	means   []float64       // with a profile: mean shares of a layer's heads, by layer and bucket of contexts
	salient bool            // HGCA: home attends only to a share, and weights are averaged
	all     bool            // keys and values of all evicted tokens are at home
}

// rest returns the memory at home: all tokens except the sink and the minimum window.
func (c *hybridCost) rest() policy.Held {
	h := policy.Held{Device: policy.Home, Heads: c.shape.KVHeads, Bytes: c.shape.Token(), Skip: c.sink}
	if c.Size > 0 {
		h.Skip += c.Size - c.Block
	}
	return h
}

// near adds the memory on the GPUs: sink and window, and the averages of salience.
func (c *hybridCost) near(held []policy.Held) []policy.Held {
	most := c.sink + c.Size
	if most > 0 {
		most += c.shape.Ahead()
		held = append(held, policy.Held{Device: policy.GPU, Heads: c.shape.KVHeads, Bytes: c.shape.Token(), Most: most})
	}
	if most > 0 && c.salient {
		held = append(held, policy.Held{Device: policy.GPU, Heads: c.shape.KVHeads, Bytes: scoreBytes, Most: most, Index: true})
	}
	return held
}

// away returns the number of a context's tokens that are at home before its step; without a window they include the step's own.
func (c *hybridCost) away(context int) int {
	if c.Size == 0 {
		return max(context-c.sink, 0)
	}
	return c.left(context - 1 - c.shape.Ahead())
}

// left returns how many of the first tokens have left the window and the sink.
func (c *hybridCost) left(tokens int) int { return max(c.Evicted(tokens)-c.sink, 0) }

// read reads the shares in the profile. It returns the share of copies over all heads, at the contexts where it is largest. With a profile
// it also returns the largest share of any head and context.
func (c *hybridCost) read() (copies, longest float64) {
	if c.profile == nil {
		return c.share, 0
	}
	heads, buckets := c.shape.KVHeads, len(c.profile.Measured.Contexts)
	c.means, c.runs = make([]float64, c.shape.Layers*buckets), slices.Repeat([]int{1}, c.shape.Layers)
	for bucket := range buckets {
		sum := 0.0
		for i, h := range c.profile.Heads {
			c.means[i/heads*buckets+bucket] += h.Share[bucket] / float64(heads)
			longest = max(longest, h.Share[bucket])
			sum += h.Share[bucket]
		}
		copies = max(copies, sum/float64(len(c.profile.Heads)))
	}
	return copies, longest
}

// mean returns the mean share of a layer's heads in a step with a context. With a profile, a run is one layer.
func (c *hybridCost) mean(run, context int) float64 {
	if c.profile == nil {
		return c.share
	}
	m := &c.profile.Measured
	return c.means[run*len(m.Contexts)+m.Bucket(context)]
}

// Decode returns all heads on the GPUs over sink and window, and at home over the rest.
func (c *hybridCost) Decode(requests []policy.Request, run int) *policy.Step {
	n := len(requests)
	heads, each := c.shape.KVHeads, 0
	if c.profile != nil {
		each = heads
	}
	c.reset(n, 5+each)
	near, away, far, leave, more, perHead := c.take(n), c.take(n), c.take(n), c.take(n), c.take(n), c.take(n*each)
	sum, leaving, arriving, longest, ahead := 0, 0, 0, 0, c.shape.Ahead()
	for i, r := range requests {
		away[i] = c.away(r.Context)
		near[i], far[i] = r.Context-away[i], policy.ShareOf(c.mean(run, r.Context), away[i])
		if each > 0 {
			all := 0
			for head := range each {
				tokens := c.profile.Tokens(run, head, r.Context, away[i])
				perHead[i*each+head] = tokens
				longest, all = max(longest, tokens), all+tokens
			}
			far[i] = (all + each - 1) / each
		}
		leave[i], more[i] = 0, 0
		if c.Size > 0 {
			leave[i] = c.left(r.Context-ahead+r.Accepted) - away[i]
			more[i] = max(0, policy.ShareOf(c.mean(run, r.Context+1+r.Accepted), away[i]+leave[i])-far[i])
		}
		sum += near[i]
		leaving += leave[i]
		arriving += more[i]
		if near[i] > 0 && far[i] > 0 {
			c.step.Merged++
		}
	}
	if sum > 0 {
		c.attend(policy.Class{Device: policy.GPU, Heads: heads, Tokens: near, Weights: c.salient})
	}
	home := policy.Class{Device: policy.Home, Heads: heads, Tokens: far, OnThreads: policy.OnThreads{Whole: c.salient, Longest: longest}}
	if each > 0 {
		home.PerHead = perHead
	}
	c.attend(home)
	if c.salient { // reads weights for each token of the step, reads and writes averages
		c.pass(1, int64(3+ahead)*scoreBytes*int64(sum)*int64(c.shape.QueryHeads), 0)
	}
	if leaving > 0 && c.all {
		c.step.Leave = append(c.step.Leave, policy.Leaving{Heads: heads, From: away, Tokens: leave, Notes: c.notes()})
	}
	if c.salient && leaving+arriving > 0 {
		c.step.Leave = append(c.step.Leave, policy.Leaving{Heads: heads, From: far, Tokens: more, Copies: c.all, Notes: c.notes()})
	}
	return &c.step
}

// Prompt returns causal attention of all heads. Tokens beyond the window are sent home chunk by chunk. HGCA determines at the prompt's end
// which tokens are salient, from the scores of the last queries.
func (c *hybridCost) Prompt(run, chunk, finished int, last bool) *policy.Prompt {
	c.begin(chunk, finished)
	c.prompt.Leave = c.prompt.Leave[:0]
	n := finished + chunk
	if c.all {
		c.send(c.shape.KVHeads, c.after(finished), c.after(n))
		c.prompt.Leave[0].Notes = c.notes()
		if c.salient {
			c.prompt.Away = c.after(finished)
		}
	}
	if last && c.salient {
		c.send(c.shape.KVHeads, 0, policy.ShareOf(c.mean(run, n+1), c.after(n)))
		copies := &c.prompt.Leave[len(c.prompt.Leave)-1]
		copies.Copies, copies.Notes = c.all, c.notes()
		pairs := int64(min(n, c.queries)) * int64(n) * int64(c.shape.QueryHeads)
		c.promptPass(2, 3*scoreBytes*pairs, 2*int64(c.shape.Dim)*pairs)
	}
	return &c.prompt
}

// notes returns the bytes of a token's salience, by query head of a group, sent home with it.
func (c *hybridCost) notes() int64 {
	if !c.salient {
		return 0
	}
	return scoreBytes * int64(c.shape.Group())
}

// after returns the number of tokens at home after the first tokens of a prompt are prefilled.
func (c *hybridCost) after(tokens int) int {
	if c.Size == 0 {
		return c.away(tokens)
	}
	return c.left(tokens)
}

// Vectors returns the bytes of q and of an output with its sum; without a window also those of k and v.
func (c *hybridCost) Vectors() policy.Vectors {
	v := c.shape.Vectors()
	if c.Size > 0 {
		v.New = 0
	}
	if c.Size+c.sink > 0 {
		v.Sums = scoreBytes * int64(c.shape.QueryHeads)
	}
	return v
}
