package policies

import (
	"slices"

	"github.com/l3sim/l3sim/attention/policy"
)

// layerHeads is what the KV heads of a layer attend to.
type layerHeads struct {
	streams int  // so many attend to a sink and a window
	paged   bool // the others attend to pages that they choose, else to everything
}

// headsCost is the cost of policies whose heads attend to a sink and a window, to pages that they choose, or to everything.
// What has left a window is dropped: memory is a ring, whose order does not matter to a softmax.
type headsCost struct {
	common
	kinds           []layerHeads  // of each run
	decode, prefill Streaming     // of heads that stream, which may differ
	on              policy.Device // where these attend
	stays           bool          // nothing of these is sent home: that is the GPUs
	chunked         bool          // their window is a chunk of the context, as the model's layers have it
	byLayer         bool          // all heads of a layer stream or none, as the model's layers have it, and have a shape of their own
	local           policy.Shape  // of heads that stream
	pages           paged         // of heads that choose pages
}

// newHeadsCost returns the costs of layers that kind describes. Successive layers that are alike are one run. Each token that a step
// verifies has a window of its own, a token later than that of the one before: all of them together read window + Verified − 1 tokens.
func newHeadsCost(shape policy.Shape, stream policy.StreamSpec, kind func(layer int) layerHeads) *headsCost {
	c := &headsCost{common: newCommon(shape), decode: Streaming{stream.Sink, stream.Window + shape.Ahead()}, prefill: prefillWindow(&stream), local: shape}
	c.runs = c.runs[:0]
	for layer := range shape.Layers {
		if k, n := kind(layer), len(c.runs); n > 0 && k == c.kinds[n-1] {
			c.runs[n-1]++
		} else {
			c.runs, c.kinds = append(c.runs, 1), append(c.kinds, k)
		}
	}
	return c
}

// newSplitCost returns the costs of a policy some of whose heads stream; the others choose pages or attend to everything.
func newSplitCost(u *policy.Use, own *policy.HeadsSpec, paged bool) *headsCost {
	heads := u.Streaming()
	c := newHeadsCost(u.Shape, own.StreamSpec, func(layer int) layerHeads {
		k := layerHeads{paged: paged}
		for _, streams := range heads[layer] {
			if streams {
				k.streams++
			}
		}
		return k
	})
	if u.Shape.Apart && own.StreamDevice == "gpu" {
		c.on = policy.GPU
	}
	return c
}

// Alike returns the first run of the same kind.
func (c *headsCost) Alike(run int) int { return slices.Index(c.kinds, c.kinds[run]) }

// others returns how many heads of a layer do not stream.
func (c *headsCost) others(k *layerHeads) int {
	if c.byLayer && k.streams > 0 {
		return 0
	}
	return c.shape.KVHeads - k.streams
}

func (c *headsCost) Decode(requests []policy.Request, run int) *policy.Step {
	c.reset(len(requests), 1+numbersEach)
	k := c.kinds[run]
	switch others := c.others(&k); {
	case others > 0 && k.paged:
		c.pages.decode(&c.common, others, requests)
	case others > 0:
		c.attend(policy.Class{Device: policy.Home, Heads: others, Tokens: c.contexts(requests)})
	}
	if k.streams > 0 {
		tokens := c.take(len(requests))
		for i := range requests {
			tokens[i] = c.streamed(requests[i].Context)
		}
		c.attend(policy.Class{Device: c.on, Heads: k.streams, Tokens: tokens, Windowed: c.byLayer})
	}
	return &c.step
}

// streamed returns the tokens of heads that stream which a step reads at a context.
func (c *headsCost) streamed(context int) int {
	if c.chunked {
		return c.shape.WindowTokens(context, 1+c.shape.Ahead())
	}
	return c.decode.Tokens(context)
}

// Prompt returns causal attention of the other heads, and that of streaming heads under their mask. What
// these hold goes home at the prompt's end, the others' keys and values with each chunk.
func (c *headsCost) Prompt(run, chunk, finished int, last bool) *policy.Prompt {
	k := c.kinds[run]
	c.prompt.Windowed = c.byLayer && k.streams > 0
	c.prompt.Pieces, c.prompt.Passes, c.prompt.Leave = c.prompt.Pieces[:0], c.prompt.Passes[:0], c.prompt.Leave[:0]
	if others := c.others(&k); others > 0 {
		c.send(others, finished, finished+chunk)
		c.prompt.Pieces = append(c.prompt.Pieces, policy.Piece{Heads: others, Count: 1, Tokens: chunk, Behind: finished})
		if k.paged {
			c.pages.prompt(&c.common, others, chunk, finished)
		}
	}
	if k.streams > 0 {
		if c.chunked {
			c.prompt.Pieces = addPieces(c.prompt.Pieces, c.shape.PromptPieces(chunk, finished), k.streams)
		} else {
			c.prompt.Pieces = c.prefill.pieces(c.prompt.Pieces, k.streams, chunk, finished)
		}
		if last && c.on == policy.Home && !c.stays {
			c.send(k.streams, 0, c.streamed(finished+chunk))
		}
	}
	return &c.prompt
}

// Memory returns keys and values of either, and bounds.
func (c *headsCost) Memory(run int) (decoding, filling []policy.Held) {
	k, kv := c.kinds[run], allTokens(&c.shape)
	c.held, c.filling = c.held[:0], c.filling[:0]
	if kv.Heads = c.others(&k); kv.Heads > 0 {
		c.held, c.filling = append(c.held, kv), append(c.filling, kv)
		if k.paged {
			c.held, c.filling = c.pages.bounds(c.held, &c.shape, kv.Heads), c.pages.bounds(c.filling, &c.shape, kv.Heads)
		}
	}
	if k.streams > 0 { // on the GPUs all of an unfinished prompt is there
		ring := policy.Held{Device: c.on, Heads: k.streams, Bytes: c.local.Token(), Most: c.decode.Sink + c.decode.Window}
		c.held = append(c.held, ring)
		ring.Most = c.prefill.Sink + c.prefill.Window
		c.filling = append(c.filling, ring)
	}
	return c.held, c.filling
}
