package policies

import (
	"github.com/l3sim/l3sim/attention/policy"
	"slices"
)

// hybridCost is the cost of policies with a window on the GPUs and the rest at a home elsewhere.
// At home they attend to all of it (window) or to its salient tokens (HGCA). Partial outputs are merged on
// the GPUs. Tokens leave the window in blocks. All tokens of a step that verifies several attend to what has left the window before it, and to all
// that is on the GPUs: what is salient is known when a token leaves, not by query. After the step what it accepts moves the window on.
type hybridCost struct {
	common
	hgcaWindow
	sink    int
	queries int             // of a prompt from which salience starts
	share   float64         // of what has left the window that is attended to, without a profile
	profile *policy.Profile // nil: none
	means   []float64       // with a profile: shares of the heads of a layer, by layer and bucket of contexts
	salient bool            // HGCA: home attends to a share alone, and weights are averaged
	all     bool            // keys and values of all that has left the window are at home
}

// rest is all that is at home: tokens beyond the sink and what of the window stays at least.
func (c *hybridCost) rest() policy.Held {
	h := policy.Held{Device: policy.Home, Heads: c.shape.KVHeads, Bytes: c.shape.Token(), Skip: c.sink}
	if c.Size > 0 {
		h.Skip += c.Size - c.Block
	}
	return h
}

// near adds what the GPUs hold: sink and window, and the averages of what is salient there.
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

// away returns how many tokens of a context are at home before its step; without a window
// the step's own are among them.
func (c *hybridCost) away(context int) int {
	if c.Size == 0 {
		return max(context-c.sink, 0)
	}
	return c.left(context - 1 - c.shape.Ahead())
}

// left returns how many of so many tokens have left the window and the sink.
func (c *hybridCost) left(tokens int) int { return max(c.Evicted(tokens)-c.sink, 0) }

// read reads the shares of the profile. It returns the share of copies over all heads, in the
// contexts in which it is largest. With a profile it also returns the largest of all heads and contexts.
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

// mean returns the mean share of a layer's heads in a step with a context. With a profile a
// run is a layer.
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
	if c.salient { // weights of each token of the step in, averages in and out
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

// Prompt returns causal attention of all heads. What is beyond the window goes home chunk by
// chunk. HGCA knows at the prompt's end what is salient, from the scores of the last queries.
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

// notes returns the bytes of a token's salience, by query head of a group, which goes home with it.
func (c *hybridCost) notes() int64 {
	if !c.salient {
		return 0
	}
	return scoreBytes * int64(c.shape.Group())
}

// after returns how many tokens are at home once that many of a prompt are prefilled.
func (c *hybridCost) after(tokens int) int {
	if c.Size == 0 {
		return c.away(tokens)
	}
	return c.left(tokens)
}

// Vectors returns the bytes of q and of an output with its sum; without a window those of k
// and v too.
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
