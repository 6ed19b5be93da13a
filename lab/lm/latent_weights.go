package lm

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/llm"
)

// results are the first words of names of tensors that are no weights: a text and a model's results for it (latent_case.go).
var results = []string{"tokens", "positions", "nll", "attn", "chosen", "gap"}

// latentDims are the dimensions in the metadata of a model with latent attention.
type latentDims struct {
	vocab, width, layers, heads     int
	rank, latent, nope, rope, value int
	indexHeads, indexDim, topK      int
	dense, experts, chosen, shared  int
	expertWidth                     int
	context                         int
	expertScale, base, epsilon      float64
}

// readLatentWeights returns the model of a file whose metadata has kv_lora. The metadata has vocab, hidden, layers, heads, q_lora, kv_lora,
// nope, rope, v, base, eps, and T, the longest sequence. If layers have the tensor gate, it has dense_width; if layers have router (for
// experts), it has experts, chosen, shared, width and scale; if layers have index_q, it has index_heads, index_dim and topk. Layers without
// it share the choice of the latest layer that has it.
func readLatentWeights(file *attention.Safetensors) (*Weights, error) {
	d, err := readLatentDims(file)
	if err != nil {
		return nil, err
	}
	w := &Weights{epsilon: d.epsilon, Shape: Shape{
		Layers: d.layers, Width: d.width, Heads: d.heads, HeadDim: d.value, Hidden: d.dense, Context: d.context, Vocab: d.vocab,
		Latent: LatentShape{
			Latent: attention.Latent{Heads: d.heads, Latent: d.latent, Rope: d.rope, Nope: d.nope, Value: d.value}, Rank: d.rank, Base: d.base,
		},
	}}
	if d.topK > 0 {
		w.Latent.Indexer = llm.Indexer{IndexHeads: d.indexHeads, IndexDim: d.indexDim, IndexTopK: d.topK}
		if w.Latent.Layers, err = sharedLayers(file, d.layers); err != nil {
			return nil, err
		}
	}
	r := tensorReader{file: file, known: map[string]bool{}}
	for _, t := range file.Tensors {
		first, _, _ := strings.Cut(t.Name, ".")
		r.known[t.Name] = slices.Contains(results, first)
	}
	w.embedding, w.head, w.norm = r.vector("embed", d.vocab, d.width), r.matrix("head", d.vocab, d.width), r.vector("norm", d.width)
	for i := 0; i < d.layers && r.err == nil; i++ {
		w.layers = append(w.layers, r.latentLayer(i, w, d))
	}
	return w, r.end(d.layers)
}

// latentLayer reads a layer.
func (r *tensorReader) latentLayer(i int, w *Weights, d *latentDims) layer {
	name := func(part string) string { return fmt.Sprintf("layer.%d.%s", i, part) }
	s := &w.Latent
	y := &latentLayer{
		queryDown: r.matrix(name("q_a"), s.Rank, w.Width), queryNorm: r.vector(name("q_norm"), s.Rank), queryUp: r.matrix(name("q_b"), s.Heads*s.Key(), s.Rank),
		row: r.matrix(name("kv_a"), s.Row(), w.Width), rowNorm: r.vector(name("kv_norm"), d.latent), expand: r.vector(name("kv_b"), s.Heads*(s.Nope+s.Value), d.latent),
	}
	if s.IndexTopK > 0 && (s.Layers == "" || s.Layers[i] == llm.Indexed) {
		y.index = &indexLayer{
			queries: r.matrix(name("index_q"), s.IndexHeads*s.IndexDim, s.Rank), key: r.matrix(name("index_k"), s.IndexDim, w.Width),
			keyNorm: r.vector(name("index_k_norm"), s.IndexDim), bias: r.vector(name("index_k_bias"), s.IndexDim), weights: r.matrix(name("index_w"), s.IndexHeads, w.Width),
		}
	}
	return layer{
		attentionNorm: r.vector(name("norm1"), w.Width), networkNorm: r.vector(name("norm2"), w.Width),
		latent: y, output: r.matrix(name("o"), w.Width, s.Heads*s.Value), network: r.network(name, w.Width, d),
	}
}

// network reads the network of a layer, which is dense if the file has its gate.
func (r *tensorReader) network(name func(string) string, width int, d *latentDims) network {
	one := func(first string, hidden int) gated {
		return gated{r.matrix(name(first+"gate"), hidden, width), r.matrix(name(first+"up"), hidden, width), r.matrix(name(first+"down"), width, hidden)}
	}
	if r.file.Tensor(name("gate")) != nil || r.file.Tensor(name("router")) == nil {
		return network{always: []gated{one("", d.dense)}}
	}
	n := network{routed: routed{router: r.matrix(name("router"), d.experts, width), bias: r.vector(name("router_bias"), d.experts), chosen: d.chosen, scale: d.expertScale}}
	if d.shared > 0 {
		n.always = []gated{one("shared_", d.shared*d.expertWidth)}
	}
	gate, up := r.vector(name("expert_gate"), d.experts, d.expertWidth, width), r.vector(name("expert_up"), d.experts, d.expertWidth, width)
	down := r.vector(name("expert_down"), d.experts, width, d.expertWidth)
	if r.err != nil {
		return network{}
	}
	size := d.expertWidth * width
	for e := range d.experts {
		part := func(x []float32, rows, columns int) blas32.General {
			return blas32.General{Rows: rows, Cols: columns, Stride: columns, Data: x[e*size : (e+1)*size]}
		}
		n.experts = append(n.experts, gated{part(gate, d.expertWidth, width), part(up, d.expertWidth, width), part(down, width, d.expertWidth)})
	}
	return n
}

// readLatentDims reads the dimensions that the file's tensors need, and checks their consistency.
func readLatentDims(file *attention.Safetensors) (*latentDims, error) {
	d := &latentDims{}
	dense, experts, index := hasPart(file, "gate"), hasPart(file, "router"), hasPart(file, "index_q")
	for _, f := range []struct {
		key        string
		needed     bool
		field      *int
		least, top int
	}{
		{"vocab", true, &d.vocab, 2, maxContext}, {"hidden", true, &d.width, 1, maxWidth}, {"layers", true, &d.layers, 1, maxLayers},
		{"heads", true, &d.heads, 1, maxLayers}, {"q_lora", true, &d.rank, 1, maxWidth}, {"kv_lora", true, &d.latent, 1, maxWidth},
		{"nope", true, &d.nope, 1, maxWidth}, {"rope", true, &d.rope, 0, maxWidth}, {"v", true, &d.value, 1, maxWidth}, {"T", true, &d.context, 2, maxContext},
		{"index_heads", index, &d.indexHeads, 1, maxLayers}, {"index_dim", index, &d.indexDim, 1, maxWidth}, {"topk", index, &d.topK, 1, maxContext},
		{"dense_width", dense, &d.dense, 1, maxWidth}, {"experts", experts, &d.experts, 1, maxWidth}, {"chosen", experts, &d.chosen, 1, maxWidth},
		{"shared", experts, &d.shared, 0, maxLayers}, {"width", experts, &d.expertWidth, 1, maxWidth},
	} {
		text := file.Metadata(f.key)
		n, err := strconv.Atoi(text)
		if f.needed && (err != nil || n < f.least || n > f.top) {
			return nil, badMetadata(f.key, text, fmt.Sprintf(`"%d" to "%d"`, f.least, f.top))
		}
		*f.field = n
	}
	for _, f := range []struct {
		key    string
		needed bool
		field  *float64
	}{{"scale", experts, &d.expertScale}, {"base", true, &d.base}, {"eps", true, &d.epsilon}} {
		text := file.Metadata(f.key)
		x, err := strconv.ParseFloat(text, 64)
		if f.needed && (err != nil || !(x > 0) || math.IsInf(x, 0)) {
			return nil, badMetadata(f.key, text, "a positive number")
		}
		*f.field = x
	}
	bad := func(key, expected string, of ...any) error {
		return badMetadata(key, file.Metadata(key), fmt.Sprintf(expected, of...))
	}
	switch {
	case d.rope%2 != 0:
		return nil, bad("rope", "an even number: positions rotate pairs")
	case index && d.rope > d.indexDim:
		return nil, bad("index_dim", "at least rope = %d, the elements of an index key that are rotated", d.rope)
	case experts && d.chosen > d.experts:
		return nil, bad("chosen", "at most experts = %d", d.experts)
	}
	return d, nil
}

// sharedLayers returns the letters of layers if some share the choice of an indexer, otherwise "".
func sharedLayers(file *attention.Safetensors, layers int) (string, error) {
	letters := bytes.Repeat([]byte{llm.Shared}, layers)
	for i := range letters {
		if file.Tensor(fmt.Sprintf("layer.%d.index_q", i)) != nil {
			letters[i] = llm.Indexed
		}
	}
	switch {
	case letters[0] != llm.Indexed:
		return "", &input.Error{Key: "layer.0.index_q", Expected: "a tensor of that name: layers without an indexer share the choice of one below them"}
	case bytes.IndexByte(letters, llm.Shared) < 0:
		return "", nil
	}
	return string(letters), nil
}

// hasPart says that a layer of the file has a part.
func hasPart(file *attention.Safetensors, part string) bool {
	return slices.ContainsFunc(file.Tensors, func(t *attention.Tensor) bool {
		words := strings.Split(t.Name, ".")
		return len(words) == 3 && words[0] == "layer" && words[2] == part
	})
}

func badMetadata(key, text, expected string) error {
	return &input.Error{Key: "__metadata__." + key, Value: strconv.Quote(text), Expected: expected}
}

// names returns the names of a file's tensors.
func names(file *attention.Safetensors) []string {
	return list.Map(file.Tensors, func(t *attention.Tensor) string { return t.Name })
}
