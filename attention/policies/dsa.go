package policies

import (
	"slices"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/llm"
)

// dsa is attention to the tokens that the model's own indexer chooses.
var dsa = policy.Policy{
	Name: "dsa", Others: []string{"deepseek", "indexer", "nsa"}, Source: "DeepSeek-V3.2 (2025)",
	About: policy.About{Attends: "the tokens with the highest scores of the model's own indexer; everything in layers without one",
		Stores: "keys and values of all tokens, an index key a token in layers that have an indexer", Moves: "the choice, where keys and values are not on the GPUs"},
	Homes: policy.OnGPUs | policy.InHBM | policy.InDIMMs | policy.Fetched, Indexed: true, Lossy: true, Drafts: true,
	Costs:  func(u *policy.Use) policy.Costs { return newIndexedCost(u.Shape) },
	Values: indexedValues,
}

// indexedCost is the cost of layers with an indexer, of layers that share its choice, and of others.
type indexedCost struct {
	common
	kinds []byte // by run
}

func newIndexedCost(s policy.Shape) *indexedCost {
	c := &indexedCost{common: newCommon(s)}
	c.runs = c.runs[:0]
	for layer := range s.Layers {
		if k, n := s.Kind(layer), len(c.runs); n > 0 && k == c.kinds[n-1] {
			c.runs[n-1]++
		} else {
			c.runs, c.kinds = append(c.runs, 1), append(c.kinds, k)
		}
	}
	return c
}

// Alike returns the first run of the same kind.
func (c *indexedCost) Alike(run int) int { return slices.Index(c.kinds, c.kinds[run]) }

// Decode returns one class of all heads, over the chosen tokens of contexts that exceed the number of choices. Each token of a step
// chooses, and their union is read once. If the first one attends to its whole context, the union is everything.
func (c *indexedCost) Decode(requests []policy.Request, run int) *policy.Step {
	c.reset(len(requests), 1)
	class := policy.Class{Device: policy.Home, Heads: c.shape.KVHeads, Tokens: c.contexts(requests)}
	if kind := c.kinds[run]; kind != llm.Global {
		for i, n := range class.Tokens {
			if n <= c.shape.IndexTopK {
				continue
			}
			choices := c.shape.Ahead() + 1
			class.Page, class.Chosen = 1, c.shape.IndexTopK
			if n-c.shape.Ahead() > c.shape.IndexTopK {
				class.Tokens[i] = unionOf(c.shape.IndexTopK, n, choices, c.shape.Overlap)
			}
			if kind == llm.Indexed {
				c.shape.Indexer.Add(&c.step.Index, n, choices)
			}
		}
	}
	c.attend(class)
	return &c.step
}

// Prompt returns causal attention if the chunk ends within the number of choices, otherwise attention of each token to its own choice.
func (c *indexedCost) Prompt(run, chunk, finished int, _ bool) *policy.Prompt {
	c.begin(chunk, finished)
	if kind := c.kinds[run]; kind != llm.Global {
		if chosen, scores := c.shape.Indexer.Prompt(chunk, finished); chosen.Rows > 0 {
			c.prompt.Pieces, c.prompt.Chosen = c.prompt.Pieces[:0], chosen
			if kind == llm.Indexed {
				c.prompt.Index = scores
			}
		}
	}
	return &c.prompt
}

// Memory returns keys and values of all tokens, and the indexer's keys, which every GPU of a replica holds.
func (c *indexedCost) Memory(run int) (decoding, filling []policy.Held) {
	c.held = append(c.held[:0], allTokens(&c.shape))
	if c.kinds[run] == llm.Indexed {
		index := policy.Held{Device: policy.Home, Heads: 1, Bytes: c.shape.IndexBytes(), Index: true}
		if c.shape.Apart { // the GPUs choose
			index.Device = policy.GPU
		}
		c.held = append(c.held, index)
	}
	return c.held, c.held
}
