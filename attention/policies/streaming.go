package policies

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/llm"
)

// streaming is attention of every head to the first tokens and the newest.
var streaming = policy.Policy{
	Name: "streaming", Others: []string{"streamingllm", "streaming-llm", "sink"}, Lossy: true, Source: "StreamingLLM (Xiao et al., ICLR 2024)",
	About: policy.About{Attends: "the first tokens and the newest", Stores: "keys and values of these", Moves: nothing},
	Homes: policy.OnGPUs | policy.InHBM, Drafts: true,
	Keys: policy.StreamSpec{},
	Defaults: `sink = 4           # StreamingLLM
window = 508       # our choice: 512 tokens with the sink, a unit of DIMM-PIM memory
prefill_window = 0 # as in decode steps
`,
	Costs: func(u *policy.Use) policy.Costs {
		c := newHeadsCost(u.Shape, u.Keys.(policy.StreamSpec), func(int) layerHeads { return layerHeads{streams: u.Shape.KVHeads} })
		c.stays = true
		return c
	},
	Values: func(u *policy.Use) (policy.Values, error) {
		s := u.Keys.(policy.StreamSpec)
		return policy.ValuesFunc(func(_, _, _ int) policy.State { return newStreamingState(&s, u.Shape.Dim) }), nil
	},
}

// Streaming is attention to a sink and a window: the tokens before Sink and the newest Window
// ones (StreamingLLM; Xiao et al., ICLR 2024). Keys keep their original positions.
type Streaming struct{ Sink, Window int }

// Tokens returns the number of tokens that a step attends to at a context, including its own token.
func (s Streaming) Tokens(context int) int { return min(context, s.Sink+s.Window) }

// Ranges appends the attended tokens to ranges.
func (s Streaming) Ranges(ranges [][2]int, context int) [][2]int {
	from := max(context-s.Window, 0)
	if from <= s.Sink {
		return append(ranges, [2]int{0, context})
	}
	if s.Sink > 0 {
		ranges = append(ranges, [2]int{0, s.Sink})
	}
	if from < context {
		ranges = append(ranges, [2]int{from, context})
	}
	return ranges
}

// prefillWindow returns the sink and window of a prompt's tokens.
func prefillWindow(s *policy.StreamSpec) Streaming {
	if s.PrefillWindow == 0 {
		return Streaming{s.Sink, s.Window}
	}
	return Streaming{s.Sink, s.PrefillWindow}
}

// pieces appends the attention of some heads for a chunk under the mask, in which a token attends to up to Sink + Window tokens.
func (s Streaming) pieces(to []policy.Piece, heads, chunk, finished int) []policy.Piece {
	return addPieces(to, llm.WindowPieces(s.Sink+s.Window, chunk, finished), heads)
}

// addPieces appends pieces for some heads.
func addPieces(to []policy.Piece, pieces [3]llm.Piece, heads int) []policy.Piece {
	for _, p := range pieces {
		if p.Count*p.Tokens > 0 {
			to = append(to, policy.Piece{Heads: heads, Count: p.Count, Tokens: p.Tokens, Behind: p.Behind})
		}
	}
	return to
}

// streamingState attends to sink and window; in prompts the window may be wider.
type streamingState struct {
	masked
	streaming Streaming
	prefill   Streaming
	part      [1]policy.Part
	ranges    [2][2]int
}

// newStreamingState returns the state of a streaming head. A prompt's window of 0 tokens means that of decoding.
func newStreamingState(s *policy.StreamSpec, dim int) *streamingState {
	return &streamingState{masked: masked{dim: dim}, streaming: Streaming{s.Sink, s.Window}, prefill: prefillWindow(s)}
}

func (s *streamingState) PromptMask() (sink, window int) { return s.prefill.Sink, s.prefill.Window }

func (s *streamingState) Select([][]float32) policy.Selection {
	s.part[0].Ranges = s.streaming.Ranges(s.ranges[:0], s.tokens)
	return policy.Selection{Parts: s.part[:]}
}
