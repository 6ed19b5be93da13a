package lm

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/input"
)

// tinyLM is a byte-level model, trained for this project on the source code of Go's standard
// library. Weights are FP16.
//
//go:embed data/tiny_lm.safetensors
var tinyLM []byte

// sampleText is source code of Go's standard library that the model was not trained on
// (data/LICENSE-Go).
//
//go:embed data/tiny_lm_text.bin
var sampleText []byte

// Builtin returns the built-in model.
func Builtin() (*Weights, error) {
	file, err := attention.ParseSafetensors(tinyLM)
	if err != nil {
		return nil, err
	}
	return ReadWeights(file)
}

// SampleText returns the built-in text. Callers must not change it.
func SampleText() []byte { return sampleText }

// Shape is the architecture of a model: every layer is RMSNorm, attention with rotary positions, RMSNorm, and a gated network
// (SwiGLU) or experts that are such networks.
type Shape struct {
	Layers, Width, Heads, HeadDim, Hidden int // HeadDim is the width of a head's result, Hidden that of the SwiGLU
	Context                               int // longest sequence, in tokens
	Vocab                                 int // number of tokens; 256 for a byte-level model
	Latent                                LatentShape
}

const vocabulary = 256 // tokens of a byte-level model

// Weights are a model's parameters, widened to float32. Matrices are [outputs, inputs].
type Weights struct {
	Shape
	epsilon   float64        // of RMSNorm
	embedding []float32      // [Vocab, Width]
	norm      []float32      // before head
	head      blas32.General // [Vocab, Width]
	layers    []layer
}

// layer is the parameters of one layer.
type layer struct {
	attentionNorm, networkNorm []float32
	qkv                        [3]blas32.General // q, k, v: [Heads·HeadDim, Width]; empty with latent attention
	latent                     *latentLayer      // nil: each head has its own keys and values
	output                     blas32.General    // [Width, Heads·HeadDim]
	network
}

// Bounds of a model, beyond which a file is taken to be wrong.
const (
	maxLayers  = 1 << 10
	maxWidth   = 1 << 16
	maxContext = 1 << 20
)

// OpenWeights reads a safetensors file; its errors are of type input.Error.
func OpenWeights(path string) (*Weights, error) {
	file, err := attention.OpenSafetensors(path)
	if err != nil {
		return nil, err
	}
	w, err := ReadWeights(file)
	if err != nil {
		return nil, input.FileError(path, err)
	}
	return w, nil
}

// ReadWeights returns the model of a file. Its metadata gives the shape: layers, d_model, heads,
// head_dim, ffn, context, and vocab (256), rope ("rotate-half, base 10000") and rms_eps (1e-5), which
// only have these values. Its tensors are those of tinyLM, of F16, BF16 or F32. A file with kv_lora in
// its metadata is a model with latent attention (latent_weights.go). Any other file returns an
// input.Error.
func ReadWeights(file *attention.Safetensors) (*Weights, error) {
	if file.Metadata("kv_lora") != "" {
		return readLatentWeights(file)
	}
	w := &Weights{epsilon: normEpsilon, Shape: Shape{Vocab: vocabulary}}
	if err := w.readShape(file); err != nil {
		return nil, err
	}
	r := tensorReader{file: file, known: map[string]bool{}}
	w.embedding = r.vector("embedding.weight", vocabulary, w.Width)
	w.head = r.matrix("head.weight", vocabulary, w.Width)
	w.norm = r.vector("norm.weight", w.Width)
	inner := w.Heads * w.HeadDim
	for i := range w.Layers {
		if r.err != nil {
			break
		}
		name := func(part string) string { return fmt.Sprintf("layers.%d.%s.weight", i, part) }
		w.layers = append(w.layers, layer{
			attentionNorm: r.vector(name("attn_norm"), w.Width), networkNorm: r.vector(name("ffn_norm"), w.Width),
			qkv: [3]blas32.General{
				r.matrix(name("wq"), inner, w.Width), r.matrix(name("wk"), inner, w.Width), r.matrix(name("wv"), inner, w.Width),
			},
			output: r.matrix(name("wo"), w.Width, inner),
			network: network{always: []gated{{
				gate: r.matrix(name("w_gate"), w.Hidden, w.Width), up: r.matrix(name("w_up"), w.Hidden, w.Width),
				down: r.matrix(name("w_down"), w.Width, w.Hidden),
			}}},
		})
	}
	return w, r.end(w.Layers)
}

func (w *Weights) readShape(file *attention.Safetensors) error {
	for _, fixed := range []struct{ key, value string }{
		{"vocab", strconv.Itoa(vocabulary)}, {"rope", "rotate-half, base 10000"}, {"rms_eps", "1e-5"},
	} {
		if got := file.Metadata(fixed.key); got != fixed.value {
			return &input.Error{Key: "__metadata__." + fixed.key, Value: strconv.Quote(got), Expected: strconv.Quote(fixed.value)}
		}
	}
	for _, f := range []struct {
		key        string
		field      *int
		least, top int
	}{
		{"layers", &w.Layers, 1, maxLayers}, {"d_model", &w.Width, 1, maxWidth}, {"heads", &w.Heads, 1, maxLayers},
		{"head_dim", &w.HeadDim, 8, 512}, {"ffn", &w.Hidden, 1, maxWidth}, {"context", &w.Context, 2, maxContext},
	} {
		text := file.Metadata(f.key)
		n, err := strconv.Atoi(text)
		if err != nil || n < f.least || n > f.top {
			return &input.Error{Key: "__metadata__." + f.key, Value: strconv.Quote(text), Expected: fmt.Sprintf(`"%d" to "%d"`, f.least, f.top)}
		}
		*f.field = n
	}
	if w.HeadDim%2 != 0 {
		return &input.Error{Key: "__metadata__.head_dim", Value: strconv.Itoa(w.HeadDim), Expected: "an even number: positions rotate pairs"}
	}
	return nil
}

// tensorReader reads tensors and keeps the first error.
type tensorReader struct {
	file  *attention.Safetensors
	known map[string]bool // names that were read
	err   error
}

// end returns the first error, or an error if the file has an unknown tensor.
func (r *tensorReader) end(layers int) error {
	for _, t := range r.file.Tensors {
		if r.err == nil && !r.known[t.Name] {
			return &input.Error{Key: t.Name, Expected: fmt.Sprintf("only tensors of a model of %d layers", layers)}
		}
	}
	return r.err
}

func (r *tensorReader) vector(name string, shape ...int) []float32 {
	if r.err != nil {
		return nil
	}
	r.known[name] = true
	t := r.file.Tensor(name)
	if t == nil {
		r.err = &input.Error{Key: name, Expected: "a tensor of that name", Nearest: input.Nearest(name, names(r.file))}
		return nil
	}
	if !slices.Equal(t.Shape, shape) {
		r.err = &input.Error{Key: name, Value: fmt.Sprint(t.Shape), Expected: "shape " + fmt.Sprint(shape)}
		return nil
	}
	x, err := t.Float32s()
	if err != nil {
		r.err = err
		return nil
	}
	for _, v := range x {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			r.err = &input.Error{Key: name, Value: fmt.Sprint(v), Expected: "finite elements"}
			return nil
		}
	}
	return x
}

func (r *tensorReader) matrix(name string, rows, columns int) blas32.General {
	return blas32.General{Rows: rows, Cols: columns, Stride: columns, Data: r.vector(name, rows, columns)}
}
