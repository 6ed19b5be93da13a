package llm

import (
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Windows says which layers attend to the newest tokens alone. The zero value has none that do.
type Windows struct {
	// Window is the newest tokens to which a layer with a window attends, the token's own among them; 0: every layer
	// attends to the whole context.
	Window int `toml:"window"`
	// FullEvery is the layers of a group whose last one attends to the whole context and whose others have the window: 2 in
	// Gemma 2 and gpt-oss, 6 in Gemma 3; 0: every layer has the window.
	FullEvery int `toml:"full_every"`
	// WindowPattern says which layers have the window, in any order: a letter for each layer of a group, G (global) for one that attends to the whole context, L
	// (local) for one with the window; groups follow each other until the layers end. "GLLL" in Step 3.7. "": full_every says it.
	WindowPattern string `toml:"window_pattern"`
	// WindowChunked says that windows do not move with the token: the context is cut into chunks of window tokens, and a token attends
	// to those of its own chunk up to itself, between 1 and window of them (Llama 4). Memory counts a whole chunk, an upper bound.
	WindowChunked bool `toml:"window_chunked"`
}

func (w *Windows) check(c *input.Check, layers int) {
	input.Within(c, "window", w.Window, 0, 1<<24)
	input.Within(c, "full_every", w.FullEvery, 0, 1<<24)
	c.That(w.FullEvery != 1 || w.Window == 0, "full_every", w.FullEvery, "0, or at least 2 with %s = %d: with 1 no layer has the window", input.Key("model.window"), w.Window)
	c.That(w.Window > 0 || !w.WindowChunked, "window_chunked", w.WindowChunked, "false with %s = 0, or the tokens of a chunk there", input.Key("model.window"))
	if p := w.WindowPattern; p != "" {
		c.That(strings.Trim(p, "GL") == "" && strings.Contains(p, "L"), "window_pattern", p, `the letters L, for a layer with a window, and G, for one without, such as "GLLL"; L at least once`)
		c.That(len(p) <= layers, "window_pattern", p, "at most a letter for each of %s = %d, not %d", input.Key("layers"), layers, len(p))
		c.That(w.FullEvery == 0, "window_pattern", p, "\"\" with %s = %d: either says which layers have the window", input.Key("model.full_every"), w.FullEvery)
	}
}

// Windowed says that a layer, from 0 on, attends to the window alone.
func (w *Windows) Windowed(layer int) bool {
	if p := w.WindowPattern; p != "" {
		return w.Window > 0 && p[layer%len(p)] == 'L'
	}
	return w.Window > 0 && (w.FullEvery == 0 || (layer+1)%w.FullEvery != 0)
}

// WindowedLayers returns how many of the layers attend to the window alone.
func (m *Model) WindowedLayers() (n int) {
	for layer := range m.Layers {
		if m.Windowed(layer) {
			n++
		}
	}
	return n
}

// KVBytes returns the KV cache of a request of that many tokens, of which layers with a window keep the window.
func (m *Model) KVBytes(tokens int) units.Bytes {
	windowed := m.WindowedLayers()
	kept := int64(windowed)*int64(min(tokens, m.Window)) + int64(m.Layers-windowed)*int64(tokens)
	return units.Bytes(kept) * m.KVBytesPerTokenLayer()
}

// WindowTokens returns how many tokens a layer with a window reads for the last tokens of a context, which attend each to its own: in
// chunks from the beginning of the chunk of the first of them.
func (w *Windows) WindowTokens(context, last int) int {
	if w.WindowChunked {
		return context - max(context-last, 0)/w.Window*w.Window
	}
	return min(context, w.Window+last-1)
}

// PromptPieces returns a chunk of a prompt after finished tokens as pieces, as a layer with a window attends to it.
func (w *Windows) PromptPieces(chunk, finished int) [3]Piece {
	if w.WindowChunked {
		return chunkPieces(w.Window, chunk, finished)
	}
	return WindowPieces(w.Window, chunk, finished)
}

// Piece is Count equal parts of a chunk of a prompt: Tokens tokens each, which attend causally over themselves and to
// Behind tokens before them.
type Piece struct{ Count, Tokens, Behind int }

// WindowPieces returns a chunk after finished tokens as pieces, where no token attends to more than n, its own among them:
// causal attention until a token attends to n, and then pieces of up to n tokens as long as attention with n for each, to
// half a token: t tokens that attend causally and to n − (t+1)/2 before have t·n pairs. Pieces may be of no tokens.
func WindowPieces(n, chunk, finished int) (p [3]Piece) {
	if first := min(chunk, max(n-finished, 0)); first > 0 {
		p[0] = Piece{1, first, finished}
		chunk -= first
	}
	if whole := chunk / n; whole > 0 {
		p[1] = Piece{whole, n, n - (n+1)/2}
	}
	if rest := chunk % n; rest > 0 {
		p[2] = Piece{1, rest, n - (rest+1)/2}
	}
	return p
}

// chunkPieces returns a chunk of a prompt after finished tokens as pieces, where tokens attend causally within every n tokens of the
// context: what is left of the n that it begins in, those that it has whole, and what it has of the last.
func chunkPieces(n, chunk, finished int) (p [3]Piece) {
	begun := finished % n
	first := min(chunk, n-begun)
	p[0] = Piece{1, first, begun}
	p[1] = Piece{(chunk - first) / n, n, 0}
	p[2] = Piece{1, (chunk - first) % n, 0}
	return p
}
