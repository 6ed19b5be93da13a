package lm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/pim"
)

// TestEvaluationText: a line for each step from the prompt's length on, in all digits; means in nats and bits.
func TestEvaluationText(t *testing.T) {
	e := &Evaluation{Prompt: 7, Steps: 3, NLL: []float64{math.Ln2, 0.1, 2 * math.Ln2}}
	var text strings.Builder
	if err := e.WriteNLL(&text); err != nil || text.String() != "position,nll_nats\n7,0.6931471805599453\n8,0.1\n9,1.3862943611198906\n" {
		t.Errorf("%v, %q", err, text.String())
	}
	e.NLL[1] = 0
	if math.Abs(e.Mean()-math.Ln2) > 1e-15 || math.Abs(e.BitsPerByte()-1) > 1e-15 {
		t.Errorf("means %v, %v", e.Mean(), e.BitsPerByte())
	}
}

// TestEvaluationLengths: prompt and steps have at least one byte each, leave a byte of the text to predict, and fit the context of 64.
func TestEvaluationLengths(t *testing.T) {
	w, err := readSmall(small(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	m, text := NewModel(w, 1), SampleText()[:70]
	for _, c := range []struct {
		bytes, prompt, steps int
		good                 bool
	}{{70, 1, 1, true}, {70, 0, 1, false}, {70, 1, 0, false}, {70, 60, 4, true}, {70, 60, 5, false}, {70, 61, 4, false}, {10, 5, 4, true}, {9, 5, 4, false}, {10, 6, 4, false}} {
		var seen []int
		e, err := Evaluate(t.Context(), m, nil, text[:c.bytes], c.prompt, c.steps, func(i int) { seen = append(seen, i) })
		if (err == nil) != c.good {
			t.Errorf("%+v: %v", c, err)
		}
		want := fmt.Sprintf("a prompt of %d and %d steps in a text of %d bytes: expected at least 1 each, together less than the text and at most 64, the model's context", c.prompt, c.steps, c.bytes)
		if err != nil && err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if err == nil && (e.Prompt != c.prompt || e.Steps != c.steps || len(e.NLL) != c.steps || len(seen) != c.steps || seen[0] != c.prompt || seen[c.steps-1] != c.prompt+c.steps-1) {
			t.Errorf("%+v: %+v, seen %v", c, e, seen)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Evaluate(ended, m, nil, text, 5, 4, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	// An embedding beyond the formats' range gives no finite prediction; the error names the position.
	for i := range w.norm {
		w.norm[i] = float32(math.Inf(1))
	}
	if _, err := Evaluate(t.Context(), m, nil, text, 5, 4, nil); err == nil || err.Error() != "position 5: the prediction is not finite: the precision's formats do not hold this model" {
		t.Errorf("got %v", err)
	}
	prompts := [][]byte{text[:5], text[:6]}
	emit := func(int, byte) error { return nil }
	if _, err := Generate(t.Context(), m, nil, prompts, 2, []*Sampler{NewSampler(0, 1, 0), NewSampler(0, 1, 1)}, emit); err == nil ||
		err.Error() != "sequence 1: a prediction is not finite: the precision's formats do not hold this model" {
		t.Errorf("got %v", err)
	}
}

// TestSequencesOfSession: each sequence takes one prompt, up to its own limit, and steps by index and length.
func TestSequencesOfSession(t *testing.T) {
	w, err := readSmall(small(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	m, text := NewModel(w, 1), SampleText()
	s, err := NewSession(m, nil, []int{5, 6, 9})
	if err != nil {
		t.Fatal(err)
	}
	refused := func(want string, err error) {
		t.Helper()
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	prefill := func(n, tokens int) error { _, err := s.Prefill(n, text[:tokens]); return err }
	refused("a prompt of 0 tokens for a sequence with 0 of 6", prefill(1, 0))
	refused("a prompt of 7 tokens for a sequence with 0 of 6", prefill(1, 7))
	for n, tokens := range []int{1, 5, 9} { // the last one is full
		if err := prefill(n, tokens); err != nil {
			t.Fatal(err)
		}
	}
	refused("a prompt of 1 tokens for a sequence with 5 of 6", prefill(1, 1))
	_, err = s.Step([]int{2}, text[:1])
	refused("sequence 3 has its 9 tokens", err)
	// Sequences in another order give each the same logits as alone.
	both, err := s.Step([]int{1, 0}, []byte{text[5], text[1]})
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range []int{5, 1} {
		one, err := NewSession(m, nil, []int{9})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := one.Prefill(0, text[:n]); err != nil {
			t.Fatal(err)
		}
		want, err := one.Step([]int{0}, text[n:n+1])
		if err != nil || !slices.Equal(both[i], want[0]) {
			t.Errorf("the sequence of %d tokens: %v, %v, want %v", n, err, both[i][:3], want[0][:3])
		}
	}
	_, err = s.Step([]int{1}, text[:1])
	refused("sequence 2 has its 6 tokens", err)
	if s.MaxError() != 0 {
		t.Errorf("an error of %v without DIMMs", s.MaxError())
	}
}

// TestFitOfTensors: a layer's keys have one scale, from the largest magnitude over all heads; values have their own. With 4 bits it is a
// seventh or an eighth of the magnitude, with FP8 the magnitude over the largest number, 448.
func TestFitOfTensors(t *testing.T) {
	heads := []chosenHead{{keys: []float32{1, -2}, values: []float32{3, 16}}, {keys: []float32{-8, 4}, values: []float32{-1, 0}}, {keys: []float32{5, 6}, values: []float32{-2, 1}}}
	for order := range 3 {
		all := slices.Concat(heads[order:], heads[:order])
		n := &narrowing{bits: 4, scales: llm.TensorScales, tensor: make([][2]pim.Scales, 3)}
		n.fit(1, all)
		if want := [2]pim.Scales{pim.FitTensor(8, 4), pim.FitTensor(16, 4)}; n.tensor[1] != want || n.tensor[0] != n.tensor[2] || want[0] == want[1] {
			t.Errorf("scales %+v, want %+v", n.tensor, want)
		}
		n.bits, n.fp8 = 8, true
		n.fit(2, all)
		if want := [2]pim.Scales{pim.FitFP8(8), pim.FitFP8(16)}; n.tensor[2] != want || n.tensor[0] == n.tensor[2] {
			t.Errorf("scales of FP8 %+v, want %+v", n.tensor[2], want)
		}
	}
}

// TestShapesOfNarrowHeads: the shape that ranks store for a head of each width: groups of 128 keys only with
// scales by channel.
func TestShapesOfNarrowHeads(t *testing.T) {
	w, err := readSmall(small(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	m := NewModel(w, 1)
	plain := pim.HeadShape{HeadDim: 8, Queries: 1, ElementBits: 16}
	of := func(bits int, fp8 bool, group int) pim.HeadShape {
		s := plain
		s.KVBits, s.KVFloat, s.KeyGroup = bits, fp8, group
		return s
	}
	for _, c := range []struct {
		widths llm.Widths
		want   pim.HeadShape
	}{
		{llm.Widths{}, plain}, {llm.Widths{KVBits: 16}, plain}, {llm.Widths{KVBits: 8}, of(8, false, 0)}, {llm.Widths{KVBits: 4, KVScales: llm.TensorScales}, of(4, false, 0)},
		{llm.Widths{KVBits: 4, KVScales: llm.ChannelScales}, of(4, false, 128)}, {llm.Widths{KVFormat: llm.FP8}, of(8, true, 0)},
	} {
		n, err := newNarrowing(m, &c.widths, named("dense"))
		if err != nil {
			t.Fatal(err)
		}
		if got := m.headShape(n); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.widths, got, c.want)
		}
	}
}

// TestLatentComparison: two positions of two layers with two elements: the largest difference of attention; mean and largest difference
// of predictions; and the choices that differ, with the largest gap.
func TestLatentComparison(t *testing.T) {
	c := &LatentCase{
		Model:     &Weights{Shape: Shape{Layers: 2, Heads: 2, HeadDim: 1}},
		Tokens:    make([]int, 4),
		Positions: []int{1, 3},
		NLL:       map[string][]float64{"dense": {1, 2, 3, 4}, "dsa": {5, 6, 7, 8}},
		Attention: map[string][][]float64{"dense": {{1, 2, 3, 4}, {5, 6, 7, 8}}, "dsa": {{1, 2, 3, 4}, {5, 6, 7, 8.5}}},
		Chosen:    [][][]int{{{0, 1}, {2, 3}}, {{0, 1}, {1, 3}}},
		Gap:       [][]float64{{9, 0.5, 9, 0.25}, {9, 0.75, 9, 0.125}},
	}
	r := &LatentRun{
		NLL:       []float64{1.5, 2, 2, 4},
		Attention: [][]float64{{1, 2, 3, 4.25}, {5, 6.5, 7, 8}},
		Chosen:    [][][]int32{{nil, {0, 1}, nil, {1, 3}}, {nil, {0, 1}, nil, {1, 2}}},
	}
	if d := c.Compare("dense", r); d != (LatentDifference{NLLMax: 1, NLLMean: -0.125, AttentionMax: 0.5}) {
		t.Errorf("dense: %+v", d)
	}
	if d := c.Compare("dsa", r); d != (LatentDifference{NLLMax: 5, NLLMean: -4.125, AttentionMax: 0.5, Choices: 4, Differing: 2, Gap: 0.25}) {
		t.Errorf("dsa: %+v", d)
	}
	// With only three tokens, position 3 is left out.
	r.NLL, r.Attention[1][1] = r.NLL[:3], 6
	if d := c.First(3).Compare("dsa", r); math.Abs(d.NLLMean+12.5/3) > 1e-12 || d.Choices != 2 || d.Differing != 0 || d.AttentionMax != 0 {
		t.Errorf("of the first three tokens: %+v", d)
	}
}
