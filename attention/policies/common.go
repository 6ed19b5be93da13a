package policies

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/llm"
)

// common has the behaviour that most policies share: all layers are alike, prompts attend to everything, and all keys and values stay at
// home.
type common struct {
	shape   policy.Shape
	runs    []int
	step    policy.Step
	prompt  policy.Prompt
	held    []policy.Held
	filling []policy.Held // nil: as held
	numbers []int         // scratch memory for the slices of a step, one number a request
	chunks  [8]int        // scratch memory for the slices of a prompt: for each, its tokens and those before it
}

// newCommon returns the costs of a policy whose layers are all alike and that keeps every token at home.
func newCommon(s policy.Shape) common {
	return common{shape: s, runs: []int{s.Layers}, held: []policy.Held{allTokens(&s)}}
}

// allTokens returns the memory of keys and values of all heads and tokens at home.
func allTokens(s *policy.Shape) policy.Held {
	return policy.Held{Device: policy.Home, Heads: s.KVHeads, Bytes: s.Token() + s.ValueCopy}
}

// Runs returns one run of all layers, unless the policy has others.
func (c *common) Runs() []int { return c.runs }

// Prompt returns causal attention of all heads.
func (c *common) Prompt(_, chunk, finished int, _ bool) *policy.Prompt {
	c.begin(chunk, finished)
	return &c.prompt
}

// begin sets the prompt to dense attention.
func (c *common) begin(chunk, finished int) {
	c.prompt.Pieces = append(c.prompt.Pieces[:0], policy.Piece{Heads: c.shape.KVHeads, Count: 1, Tokens: chunk, Behind: finished})
	c.prompt.Passes, c.prompt.Leave, c.prompt.Away = c.prompt.Passes[:0], c.prompt.Leave[:0], 0
	c.prompt.Index, c.prompt.Chosen = llm.Indexing{}, llm.Chosen{}
	c.send(c.shape.KVHeads, finished, finished+chunk)
}

// send adds data to send home to a chunk: heads have have tokens at home, and more follow.
func (c *common) send(heads, have, more int) {
	n := 2 * len(c.prompt.Leave)
	c.chunks[n], c.chunks[n+1] = have, more-have
	c.prompt.Leave = append(c.prompt.Leave, policy.Leaving{Heads: heads, From: c.chunks[n : n+1], Tokens: c.chunks[n+1 : n+2]})
}

func (c *common) Memory(int) (decoding, filling []policy.Held) {
	if c.filling == nil {
		return c.held, c.held
	}
	return c.held, c.filling
}

// KV returns the bytes of 2 · KVHeads · Dim elements a token, and their scales.
func (c *common) KV(tokens int) int64 {
	return int64(tokens) * int64(c.shape.KVHeads) * c.shape.Token()
}

// Vectors returns the bytes of one token's q, k, v and output.
func (c *common) Vectors() policy.Vectors { return c.shape.Vectors() }

// reset begins a step with room for each numbers of every request, and reuses its memory.
func (c *common) reset(requests, each int) {
	s := &c.step
	s.Attend, s.Choose, s.Passes, s.Leave = s.Attend[:0], s.Choose[:0], s.Passes[:0], s.Leave[:0]
	s.Merged, s.Fetched, s.Ahead, s.Bounds.Heads, s.Index = 0, nil, false, 0, llm.Indexing{}
	if n := requests * each; cap(c.numbers) < n {
		c.numbers = make([]int, 0, 2*n)
	}
	c.numbers = c.numbers[:0]
}

// take returns a number for each request, from the step's scratch memory.
func (c *common) take(requests int) []int {
	from := len(c.numbers)
	c.numbers = c.numbers[:from+requests]
	return c.numbers[from : from+requests : from+requests]
}

func (c *common) contexts(requests []policy.Request) []int {
	tokens := c.take(len(requests))
	for i := range requests {
		tokens[i] = requests[i].Context
	}
	return tokens
}

func (c *common) attend(x policy.Class) { c.step.Attend = append(c.step.Attend, x) }

func (c *common) pass(kernels int, bytes, flops int64) {
	c.step.Passes = append(c.step.Passes, policy.Pass{Device: policy.GPU, Kernels: kernels, Bytes: bytes, FLOPs: flops})
}

func (c *common) promptPass(kernels int, bytes, flops int64) {
	c.prompt.Passes = append(c.prompt.Passes, policy.Pass{Device: policy.GPU, Kernels: kernels, Bytes: bytes, FLOPs: flops})
}

type wholePrompt struct{} // embedded by states whose prompts attend to everything

// PromptMask returns 0, 0: no mask.
func (wholePrompt) PromptMask() (sink, window int) { return 0, 0 }

// masked is embedded by states whose selection depends only on the number of tokens.
type masked struct {
	wholePrompt
	tokens, dim int
}

func (m *masked) Prompt(_ [][]float32, k, _ []float32) { m.tokens += len(k) / m.dim }

func (m *masked) Append(_, _ []float32) { m.tokens++ }

func (m *masked) Observe([][]float32) {}

const nothing = "nothing" // text for policies that move nothing
