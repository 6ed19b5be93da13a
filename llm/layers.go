package llm

import (
	"cmp"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// LayerKinds gives the kind of each layer: how far back its tokens attend, and whether an indexer chooses the tokens. In the zero value,
// all layers attend to the whole context.
type LayerKinds struct {
	// LayerPattern has a letter for each layer of a group, and the groups repeat to the last layer. G (global) attends to the whole
	// context. L (local) attends to the newest window tokens, including the token itself. C (chunk) cuts the context into chunks of window
	// tokens, and attends to its own chunk up to the token itself. I (indexed) attends to the index_top_k tokens that the layer's indexer
	// chooses. S (shared) attends to those that the latest I has chosen. Examples: "LG" in gpt-oss, "LLLLLG" in Gemma 3, "CCCG" in Llama 4.
	// "": all layers are L with a window, I with an indexer, else G.
	LayerPattern string `toml:"layer_pattern,optional"`
	// Window is the number of newest tokens to which a layer L attends, or the tokens of a chunk of a layer C; memory counts a whole chunk,
	// an upper bound. 0: no layer has either.
	Window int `toml:"window,optional"`
	// WindowKVHeads and WindowHeadDim are the KV heads and the elements of a key in layers L and C, if they differ from kv_heads and
	// head_dim, which the other layers have; 0: no difference. MiMo-V2 has 8 and 4 heads, Gemma 4 heads of 256 and 512 elements.
	WindowKVHeads int `toml:"window_kv_heads,optional"`
	WindowHeadDim int `toml:"window_head_dim,optional"`
	Indexer
}

// The letters of LayerPattern.
const (
	Global  = 'G'
	Local   = 'L'
	Chunk   = 'C'
	Indexed = 'I'
	Shared  = 'S'
)

func (k *LayerKinds) check(c *input.Check, m *Model) {
	input.Within(c, "window", k.Window, 0, 1<<24)
	k.Indexer.check(c, m)
	k.checkHeads(c, m)
	p := k.LayerPattern
	if p == "" {
		return
	}
	c.That(strings.Trim(p, "GLCIS") == "", "layer_pattern", p, `letters G (global), L (local), C (chunk), I (indexed) and S (shared), such as "LLLG"`)
	c.That(len(p) <= m.Layers, "layer_pattern", p, "at most a letter for each of %s = %d, not %d", input.Key("layers"), m.Layers, len(p))
	local, chunk := strings.ContainsRune(p, Local), strings.ContainsRune(p, Chunk)
	c.That(!local || !chunk, "layer_pattern", p, "L or C, not both: one window serves all layers")
	c.That((local || chunk) == (k.Window > 0), "layer_pattern", p, "a letter L or C with %s above 0, none with 0: it is %d", input.Key("model.window"), k.Window)
	first := strings.IndexAny(p, "IS")
	c.That((first >= 0) == (k.IndexTopK > 0), "layer_pattern", p, "a letter I with %s above 0, neither I nor S with 0: it is %d", input.Key("model.index_top_k"), k.IndexTopK)
	c.That(first < 0 || p[first] == Indexed, "layer_pattern", p, "I before the first S, which shares the choice of an I")
}

// checkHeads has the rules of the heads of layers with a window.
func (k *LayerKinds) checkHeads(c *input.Check, m *Model) {
	input.Within(c, "window_kv_heads", k.WindowKVHeads, 0, 1<<24)
	c.That(k.WindowHeadDim == 0 || k.WindowHeadDim >= 8 && k.WindowHeadDim <= 512, "window_head_dim", k.WindowHeadDim, "0 for %s, or 8 to 512", input.Key("model.head_dim"))
	for _, x := range []struct {
		key   string
		value int
	}{{"window_kv_heads", k.WindowKVHeads}, {"window_head_dim", k.WindowHeadDim}} {
		c.That(x.value == 0 || k.Window > 0, x.key, x.value, "0 without %s", input.Key("model.window"))
	}
	c.That(k.WindowKVHeads == 0 || m.Heads%k.WindowKVHeads == 0, "window_kv_heads", k.WindowKVHeads, "a divisor of %s = %d", input.Key("heads"), m.Heads)
}

// Heads are the KV heads of a layer, and the elements of a key and of a value.
type Heads struct{ KV, Dim, Value int }

// HeadsOf returns the heads of layers with or without a window, as stored and as a decode step attends to them. A latent is key and value
// of one head.
func (m *Model) HeadsOf(windowed bool) Heads {
	h := Heads{KV: m.KVHeads, Dim: m.HeadDim}
	if windowed {
		h = Heads{KV: cmp.Or(m.WindowKVHeads, h.KV), Dim: cmp.Or(m.WindowHeadDim, h.Dim)}
	}
	h.Value = cmp.Or(m.LatentDim, m.ValueDim, h.Dim)
	return h
}

// HeadsDiffer reports whether layers with a window have other heads than the others.
func (m *Model) HeadsDiffer() bool {
	n := m.WindowedLayers()
	return n > 0 && n < m.Layers && m.HeadsOf(true) != m.HeadsOf(false)
}

// Kind returns the letter of a layer, counted from 0.
func (k *LayerKinds) Kind(layer int) byte {
	switch p := k.LayerPattern; {
	case p != "":
		return p[layer%len(p)]
	case k.Window > 0:
		return Local
	case k.IndexTopK > 0:
		return Indexed
	}
	return Global
}

// Windowed reports whether a layer attends only to a window or a chunk.
func (k *LayerKinds) Windowed(layer int) bool {
	kind := k.Kind(layer)
	return kind == Local || kind == Chunk
}

// Chunked reports whether the model has layers of kind C, whose windows do not move with the token.
func (k *LayerKinds) Chunked() bool { return strings.ContainsRune(k.LayerPattern, Chunk) }

// CountLayers returns the number of layers of the given kinds.
func (m *Model) CountLayers(kinds string) (n int) {
	group := max(1, min(len(m.LayerPattern), m.Layers))
	for i := range group { // layers i, i + group, ... are alike
		if strings.IndexByte(kinds, m.Kind(i)) >= 0 {
			n += (m.Layers - i + group - 1) / group
		}
	}
	return n
}

// WindowedLayers returns the number of layers that attend only to a window or a chunk.
func (m *Model) WindowedLayers() int { return m.CountLayers("LC") }

// WindowTokens returns the number of tokens that a layer with a window reads for the last tokens of a context, each with its own window;
// with chunks, from the beginning of the chunk of the first of them.
func (k *LayerKinds) WindowTokens(context, last int) int {
	if k.Chunked() {
		return context - max(context-last, 0)/k.Window*k.Window
	}
	return min(context, k.Window+last-1)
}

// PromptPieces splits a chunk of a prompt after finished tokens into pieces, as a layer with a window attends to it.
func (k *LayerKinds) PromptPieces(chunk, finished int) [3]Piece {
	if k.Chunked() {
		return chunkPieces(k.Window, chunk, finished)
	}
	return WindowPieces(k.Window, chunk, finished)
}

// Piece is Count equal parts of a chunk of a prompt, of Tokens tokens each. They attend causally to themselves, and to Behind tokens before
// them.
type Piece struct{ Count, Tokens, Behind int }

// WindowPieces splits a chunk after finished tokens into pieces, where each token attends to at most n tokens including itself. The first
// piece is causal attention until a token attends to n. The next pieces have up to n tokens each. Their cost equals attention of n pairs
// for each token, to half a token: t tokens that attend causally, and to n − (t+1)/2 tokens before them, have t·n pairs. Pieces may be
// empty.
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

// chunkPieces splits a part of a prompt after finished tokens into pieces, where tokens attend causally within each chunk of n tokens of
// the context: the rest of the chunk that it begins in, the whole chunks, and the beginning of the last chunk.
func chunkPieces(n, chunk, finished int) (p [3]Piece) {
	begun := finished % n
	first := min(chunk, n-begun)
	p[0] = Piece{1, first, begun}
	p[1] = Piece{(chunk - first) / n, n, 0}
	p[2] = Piece{1, (chunk - first) % n, 0}
	return p
}
