package policies

import (
	"slices"

	"github.com/l3sim/l3sim/attention/policy"
)

// layerHeads describes what the KV heads of a layer attend to.
type layerHeads struct {
	streams int  // number of heads that attend to a sink and a window
	paged   bool // the others attend to chosen pages; else to everything
}

// headsCost is the cost of policies whose heads attend to a sink and a window, to chosen pages, or to everything. Tokens outside a window
// are dropped: its memory is a ring, since the order of keys does not matter to softmax.
type headsCost struct {
	common
	kinds           []layerHeads  // by run
	decode, prefill Streaming     // of streaming heads; the two may differ
	on              policy.Device // device of streaming heads
	stays           bool          // their data is not sent home, since they stay on the GPUs
	chunked         bool          // their window is a chunk of the context, as in the model's layers
	byLayer         bool          // all heads of a layer stream or none, as in the model's layers, and have their own shape
	local           policy.Shape  // of streaming heads
	pages           paged         // for heads that choose pages
}

// newHeadsCost returns the costs of layers as described by kind. Successive equal layers form one run. Each token that a step verifies has
// its own window, one token later than the previous one's: together they read window + Verified − 1 tokens.
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

// newSplitCost returns the costs of a policy in which some heads stream, and the others choose pages or attend to everything.
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

// others returns the number of a layer's heads that do not stream.
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

// streamed returns the number of tokens that streaming heads read in a step at a context.
func (c *headsCost) streamed(context int) int {
	if c.chunked {
		return c.shape.WindowTokens(context, 1+c.shape.Ahead())
	}
	return c.decode.Tokens(context)
}

// Prompt returns causal attention of the other heads, and that of streaming heads under their mask. Streaming heads' tokens are sent home
// at the prompt's end, the others' keys and values with each chunk.
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

// Memory returns keys and values of both kinds of heads, and bounds.
func (c *headsCost) Memory(run int) (decoding, filling []policy.Held) {
	k, kv := c.kinds[run], allTokens(&c.shape)
	c.held, c.filling = c.held[:0], c.filling[:0]
	if kv.Heads = c.others(&k); kv.Heads > 0 {
		c.held, c.filling = append(c.held, kv), append(c.filling, kv)
		if k.paged {
			c.held, c.filling = c.pages.bounds(c.held, &c.shape, kv.Heads), c.pages.bounds(c.filling, &c.shape, kv.Heads)
		}
	}
	if k.streams > 0 { // the GPUs hold all of an unfinished prompt
		ring := policy.Held{Device: c.on, Heads: k.streams, Bytes: c.local.Token(), Most: c.decode.Sink + c.decode.Window}
		c.held = append(c.held, ring)
		ring.Most = c.prefill.Sink + c.prefill.Window
		c.filling = append(c.filling, ring)
	}
	return c.held, c.filling
}
