package lm

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention"
)

// small returns the tensors and metadata of a model of one layer; change may corrupt them.
func small(tb testing.TB, change func(shapes map[string][]int, metadata map[string]string)) []byte {
	tb.Helper()
	shapes := map[string][]int{"embedding.weight": {256, 4}, "head.weight": {256, 4}, "norm.weight": {4}}
	for name, shape := range map[string][]int{
		"attn_norm": {4}, "ffn_norm": {4}, "wq": {16, 4}, "wk": {16, 4}, "wv": {16, 4}, "wo": {4, 16}, "w_gate": {6, 4}, "w_up": {6, 4}, "w_down": {4, 6},
	} {
		shapes["layers.0."+name+".weight"] = shape
	}
	metadata := map[string]string{
		"vocab": "256", "rope": "rotate-half, base 10000", "rms_eps": "1e-5",
		"layers": "1", "d_model": "4", "heads": "2", "head_dim": "8", "ffn": "6", "context": "64",
	}
	if change != nil {
		change(shapes, metadata)
	}
	var tensors []*attention.Tensor
	for name, shape := range shapes {
		n := 1
		for _, s := range shape {
			n *= s
		}
		x := make([]float64, n)
		for i := range x {
			x[i] = float64(i%7) / 8
		}
		tensor, err := attention.NewTensor(name, "F16", shape, x)
		if err != nil {
			tb.Fatal(err)
		}
		tensors = append(tensors, tensor)
	}
	var file bytes.Buffer
	if err := attention.WriteSafetensors(&file, tensors, metadata); err != nil {
		tb.Fatal(err)
	}
	return file.Bytes()
}

func readSmall(data []byte) (*Weights, error) {
	file, err := attention.ParseSafetensors(data)
	if err != nil {
		return nil, err
	}
	return ReadWeights(file)
}

// TestReadWeights: a model of another shape also decodes, with heads of 8 padded to a burst, and errors name the
// mistake.
func TestReadWeights(t *testing.T) {
	w, err := readSmall(small(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	m := NewModel(w, 1)
	want, got := evaluate(t, m, nil, 3, 40), evaluate(t, m, desk(t, fp32), 3, 40)
	if d := want.Mean() - got.Mean(); d > 1e-3 || d < -1e-3 {
		t.Errorf("%g nats without DIMMs, %g with", want.Mean(), got.Mean())
	}
	for _, c := range []struct {
		want   string
		change func(shapes map[string][]int, metadata map[string]string)
	}{
		{`norm.weight: expected a tensor of that name; did you mean "norms.weight"?`, func(s map[string][]int, _ map[string]string) {
			s["norms.weight"] = s["norm.weight"]
			delete(s, "norm.weight")
		}},
		{"layers.0.wo.weight = [16 4]: expected shape [4 16]", func(s map[string][]int, _ map[string]string) { s["layers.0.wo.weight"] = []int{16, 4} }},
		{"layers.1.wq.weight: expected only tensors of a model of 1 layers", func(s map[string][]int, _ map[string]string) { s["layers.1.wq.weight"] = []int{1} }},
		{`__metadata__.layers = "x": expected "1" to "1024"`, func(_ map[string][]int, m map[string]string) { m["layers"] = "x" }},
		{`__metadata__.rope = "": expected "rotate-half, base 10000"`, func(_ map[string][]int, m map[string]string) { delete(m, "rope") }},
		{`__metadata__.head_dim = 9: expected an even number`, func(_ map[string][]int, m map[string]string) { m["head_dim"] = "9" }},
	} {
		if _, err := readSmall(small(t, c.change)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	if _, err := OpenWeights("data/tiny_lm_text.bin"); err == nil || !strings.Contains(err.Error(), "tiny_lm_text.bin") {
		t.Errorf("got %v", err)
	}
}

// FuzzReadWeights: any file is a model or an error.
func FuzzReadWeights(f *testing.F) {
	f.Add(small(f, nil))
	f.Add(small(f, func(_ map[string][]int, m map[string]string) { m["layers"] = "1000" }))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := readSmall(data)
		if err == nil && len(w.layers) != w.Layers {
			t.Errorf("%d layers of %d", len(w.layers), w.Layers)
		}
	})
}

// TestShapeLimits: each size of a model is accepted at its limits, and refused one beyond them.
func TestShapeLimits(t *testing.T) {
	for _, c := range []struct {
		key         string
		least, most int
		field       func(*Weights) int
	}{
		{"layers", 1, maxLayers, func(w *Weights) int { return w.Layers }}, {"d_model", 1, maxWidth, func(w *Weights) int { return w.Width }},
		{"heads", 1, maxLayers, func(w *Weights) int { return w.Heads }}, {"head_dim", 8, 512, func(w *Weights) int { return w.HeadDim }},
		{"ffn", 1, maxWidth, func(w *Weights) int { return w.Hidden }}, {"context", 2, maxContext, func(w *Weights) int { return w.Context }},
	} {
		for n, ok := range map[int]bool{c.least - 1: false, c.least: true, c.most: true, c.most + 1: false} {
			file, err := attention.ParseSafetensors(small(t, func(_ map[string][]int, m map[string]string) { m[c.key] = strconv.Itoa(n) }))
			if err != nil {
				t.Fatal(err)
			}
			w := &Weights{}
			want := fmt.Sprintf(`__metadata__.%s = "%d": expected "%d" to "%d"`, c.key, n, c.least, c.most)
			if err := w.readShape(file); ok && (err != nil || c.field(w) != n) || !ok && (err == nil || err.Error() != want) {
				t.Errorf("%s = %d: %v", c.key, n, err)
			}
		}
	}
}
