package policy

// Streaming is attention to a sink and a window: the tokens before Sink and the newest Window
// ones (StreamingLLM; Xiao et al., ICLR 2024). Keys keep their original positions.
type Streaming struct{ Sink, Window int }

// newStreaming returns that of a section with own values.
func newStreaming(s *Spec) Streaming { return Streaming{s.Sink, s.Window} }

// Tokens returns the tokens that a step attends to at a context, its own token included.
func (s Streaming) Tokens(context int) int { return min(context, s.Sink+s.Window) }

// Ranges appends these tokens to ranges.
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
