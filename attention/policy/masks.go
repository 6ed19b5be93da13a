package policy

// wholePrompt is what states share whose prompts attend to everything.
type wholePrompt struct{}

// PromptMask returns 0, 0: no mask.
func (wholePrompt) PromptMask() (sink, window int) { return 0, 0 }

// masked is what states share whose selection depends on the number of tokens alone.
type masked struct {
	wholePrompt
	tokens, dim int
}

// Prompt counts tokens.
func (m *masked) Prompt(_ [][]float32, k, _ []float32) { m.tokens += len(k) / m.dim }

// Append counts a token.
func (m *masked) Append(_, _ []float32) { m.tokens++ }

// Observe does nothing.
func (m *masked) Observe([][]float32) {}

// streamingState attends to sink and window, in prompts as in steps or to a wider one.
type streamingState struct {
	masked
	streaming Streaming
	prefill   Streaming
	part      [1]Part
	ranges    [2][2]int
}

// newStreamingState returns the state of a streaming head. A prompt's window of 0 tokens is that of decoding.
func newStreamingState(s *StreamSpec, dim int) *streamingState {
	return &streamingState{masked: masked{dim: dim}, streaming: newStreaming(s), prefill: prefillWindow(s)}
}

// PromptMask returns those of the section.
func (s *streamingState) PromptMask() (sink, window int) { return s.prefill.Sink, s.prefill.Window }

// Select returns sink and window.
func (s *streamingState) Select([][]float32) Selection {
	s.part[0].Ranges = s.streaming.Ranges(s.ranges[:0], s.tokens)
	return Selection{s.part[:]}
}

// windowState attends to sink and window on the GPUs, and to what has left the window at home.
// Nothing is lost.
type windowState struct {
	masked
	sink   int
	window hgcaWindow
	parts  [2]Part // on the GPUs, at home
	near   [2][2]int
	home   [1][2]int
}

// newWindowState returns the state of a head whose latest tokens are attended to on the GPUs and all others at
// home.
func newWindowState(s *WindowSpec, dim int) *windowState {
	w := &windowState{masked: masked{dim: dim}, sink: s.Sink, window: hgcaWindow{Size: s.Window, Block: s.Block}}
	w.parts[0].Device = GPU
	return w
}

// Select returns the two parts. Either may have no tokens.
func (w *windowState) Select([][]float32) Selection {
	left := w.tokens // that have left the window
	if w.window.Size > 0 {
		left -= w.window.Held(w.tokens)
	}
	near, home := Streaming{w.sink, w.tokens - left}.Ranges(w.near[:0], w.tokens), w.home[:0]
	if left > w.sink {
		home = append(home, [2]int{w.sink, left})
	}
	w.parts[0].Ranges, w.parts[1].Ranges = near, home
	return Selection{w.parts[:]}
}
