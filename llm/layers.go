package llm

import (
	"cmp"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// LayerKinds says of which kind each layer is: how far back its tokens attend, and who chooses what they attend to. The zero value has
// layers that attend to the whole context.
type LayerKinds struct {
	// LayerPattern has a letter for each layer of a group; groups follow each other until the layers end. G (global) attends to the whole
	// context; L (local) to the newest window tokens, the token's own among them; C (chunk) to the tokens of its own chunk up to itself,
	// of a context that is cut into chunks of window tokens; I (indexed) to the index_top_k tokens that the layer's indexer chooses;
	// S (shared) to those that the latest I has chosen. "LG" in gpt-oss, "LLLLLG" in Gemma 3, "CCCG" in Llama 4. "": all layers are L
	// with a window, I with an indexer, else G.
	LayerPattern string `toml:"layer_pattern,optional"`
	// Window is the newest tokens to which a layer L attends, or the tokens of a chunk of a layer C, of which memory counts all, an upper
	// bound; 0: no layer has either.
	Window int `toml:"window,optional"`
	// WindowKVHeads and WindowHeadDim are the KV heads of layers L and C and the elements of a key of theirs, where these differ from
	// kv_heads and head_dim, which the others have; 0: they do not. MiMo-V2 has 8 and 4 heads, Gemma 4 heads of 256 and 512.
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

// Heads are the heads of a layer: KV heads, and the elements of a key and of a value.
type Heads struct{ KV, Dim, Value int }

// HeadsOf returns those of layers with a window, or of others, as they are stored and a decode step attends to them. A latent is key and value of one head.
func (m *Model) HeadsOf(windowed bool) Heads {
	h := Heads{KV: m.KVHeads, Dim: m.HeadDim}
	if windowed {
		h = Heads{KV: cmp.Or(m.WindowKVHeads, h.KV), Dim: cmp.Or(m.WindowHeadDim, h.Dim)}
	}
	h.Value = cmp.Or(m.LatentDim, m.ValueDim, h.Dim)
	return h
}

// HeadsDiffer says that layers with a window have other heads than layers without one.
func (m *Model) HeadsDiffer() bool {
	n := m.WindowedLayers()
	return n > 0 && n < m.Layers && m.HeadsOf(true) != m.HeadsOf(false)
}

// Kind returns the letter of a layer, from 0 on.
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

// Windowed says that a layer attends to the window alone, or to its chunk.
func (k *LayerKinds) Windowed(layer int) bool {
	kind := k.Kind(layer)
	return kind == Local || kind == Chunk
}

// Chunked says that windows do not move with the token: layers are of kind C.
func (k *LayerKinds) Chunked() bool { return strings.ContainsRune(k.LayerPattern, Chunk) }

// CountLayers returns how many of the layers are of one of the kinds.
func (m *Model) CountLayers(kinds string) (n int) {
	group := max(1, min(len(m.LayerPattern), m.Layers))
	for i := range group { // layers i, i + group and so on are alike
		if strings.IndexByte(kinds, m.Kind(i)) >= 0 {
			n += (m.Layers - i + group - 1) / group
		}
	}
	return n
}

// WindowedLayers returns how many of the layers attend to the window or a chunk alone.
func (m *Model) WindowedLayers() int { return m.CountLayers("LC") }

// WindowTokens returns how many tokens a layer with a window reads for the last tokens of a context, which attend each to its own: in
// chunks from the beginning of the chunk of the first of them.
func (k *LayerKinds) WindowTokens(context, last int) int {
	if k.Chunked() {
		return context - max(context-last, 0)/k.Window*k.Window
	}
	return min(context, k.Window+last-1)
}

// PromptPieces returns a chunk of a prompt after finished tokens as pieces, as a layer with a window attends to it.
func (k *LayerKinds) PromptPieces(chunk, finished int) [3]Piece {
	if k.Chunked() {
		return chunkPieces(k.Window, chunk, finished)
	}
	return WindowPieces(k.Window, chunk, finished)
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
