package lm

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
)

// TestPyTorch compares the model with PyTorch's results at each position, without and with DIMMs: f32 is float32
// throughout, kv16 rounds q, k and v to FP16, as the DIMMs store them. An error of 1e-6 changes the FP16 rounding of one
// element in a thousand, and layers amplify that: the order of float32 sums alone moves single positions by more than
// 5e-3. Only few positions of the text may do so, and none by more than rounding to FP16 itself.
func TestPyTorch(t *testing.T) {
	deep.Heavy(t)
	n := deep.Of(700, 700, 8192)
	if quick() {
		n = 100
	}
	m := builtin(t, runtime.GOMAXPROCS(0))
	for _, c := range []struct {
		name        string
		on          *Node
		each, whole float64
		beyond      int     // positions that may exceed each
		most        float64 // bound on these
	}{
		{"f32", nil, 1e-3, 1e-5, 0, 0},
		{"kv16", desk(t, fp32), 5e-3, 2e-5, n / 4096, 0.012},
	} {
		want := reference(t, c.name+".nll")
		e := evaluate(t, m, c.on, 1, n-1)
		worst, mean, beyond := 0.0, 0.0, 0
		for i, x := range e.NLL {
			off := x - float64(want[i+1])
			worst = max(worst, math.Abs(off))
			if math.Abs(off) > c.each {
				beyond++
				t.Logf("%s: position %d is off by %g", c.name, i+1, off)
			}
			mean += off / float64(len(e.NLL))
		}
		t.Logf("%s: %d positions, worst %.2g, mean %.2g, attention %.2g, %.4f bits", c.name, len(e.NLL), worst, mean, e.MaxError, e.BitsPerByte())
		if beyond > c.beyond || !(worst <= max(c.each, c.most)) || !(math.Abs(mean) <= c.whole) {
			t.Errorf("%s: worst %g, mean %g, expected at most %g and %g", c.name, worst, mean, c.each, c.whole)
		}
		if c.on != nil && (e.MaxError == 0 || e.MaxError > 5e-5) {
			t.Errorf("attention is off by %g", e.MaxError)
		}
	}
}

// TestLastPosition compares logits and each layer's attention at the last of 8,192 positions.
func TestLastPosition(t *testing.T) {
	if !deep.Long() {
		t.Skip("8,191 tokens to prefill: .ci/long; TestPyTorch and TestGreedy compare shorter texts")
	}
	m := builtin(t, runtime.GOMAXPROCS(0))
	s, err := NewSession(m, desk(t, fp32), []int{8192})
	if err != nil {
		t.Fatal(err)
	}
	text := SampleText()
	if _, err := s.Prefill(0, text[:8188]); err != nil {
		t.Fatal(err)
	}
	want := reference(t, "kv16.logits_last")
	for i := range 4 {
		lane := &spy{attender: s.dimms}
		s.lanes[0].position, s.lanes[0].token, s.lanes[0].withLogits = 8188+i, int(text[8188+i]), true
		if err := forward[float32](m, s.lanes[:1], lane); err != nil {
			t.Fatal(err)
		}
		compare(t, fmt.Sprintf("logits %d", i), s.lanes[0].logits, want[i*vocabulary:(i+1)*vocabulary], 5e-3)
		for layer, got := range lane.attended {
			if i == 3 {
				most := 1e-3
				if layer == m.Layers-1 {
					most = 2e-3 // an FP16 step between 2 and 4: one element of a value rounds differently
				}
				compare(t, fmt.Sprintf("layer %d", layer), got, reference(t, fmt.Sprintf("kv16.layer%d.attention_out_last", layer)), most)
			}
		}
	}
}

// spy records the result of each layer's attention on a single lane.
type spy struct {
	attender[float32]
	attended [][]float32
}

func (s *spy) attend(layer int, lanes []*lane[float32]) error {
	err := s.attender.attend(layer, lanes)
	s.attended = append(s.attended, append([]float32(nil), lanes[0].attended...))
	return err
}

func compare(t *testing.T, name string, got, want []float32, most float64) {
	t.Helper()
	worst := 0.0
	for i, x := range got {
		worst = max(worst, math.Abs(float64(x-want[i])))
	}
	t.Logf("%s: %.2g", name, worst)
	if !(worst <= most) {
		t.Errorf("%s: off by %g, expected at most %g", name, worst, most)
	}
}

// TestGreedy: the likeliest bytes after the first 2,049 are PyTorch's.
func TestGreedy(t *testing.T) {
	if quick() {
		t.Skip("a prompt of 2,049 tokens")
	}
	want, err := referenceFile(t).Tensor("kv16.greedy_after_2049").Ints()
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	_, err = Generate(t.Context(), builtin(t, runtime.GOMAXPROCS(0)), desk(t, fp32), [][]byte{SampleText()[:2049]}, len(want),
		[]*Sampler{NewSampler(0, 1, 0)}, func(_ int, token byte) error { got = append(got, int(token)); return nil })
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}
