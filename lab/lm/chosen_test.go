package lm

import (
	"math"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/internal/deep"
)

// BenchmarkPolicy decodes with comparisons at a context of 4,096 on one core.
func BenchmarkPolicy(b *testing.B) {
	m := builtin(b, 1)
	const context, limit = 4096, 8192
	d, c, err := newChosen[float64](m, valuesOf(b, m, "quest"), limit)
	if err != nil {
		b.Fatal(err)
	}
	c.attended = newAttended(m, limit, 0)
	for i := range c.heads { // arbitrary keys and values
		h := &c.heads[i]
		for j := range context * m.HeadDim {
			h.keys, h.values = append(h.keys, float32(j%7)/7), append(h.values, float32(j%5))
		}
		h.queries = h.keys
	}
	d.reads[0].length = context
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Step([]int{0}, []byte("x")); err != nil {
			b.Fatal(err)
		}
	}
}

// TestPolicySessions: every policy runs after any prompt, also if windows, budgets and pages are
// longer than the text; any number of workers gives the same bits; and if nothing is dropped,
// predictions equal those of full attention.
func TestPolicySessions(t *testing.T) {
	w, err := readSmall(small(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	text := SampleText()[:64]
	for _, prompt := range []int{1, 2, 17, 40} {
		steps := min(20, len(text)-1-prompt)
		run := func(name string, workers int) *Evaluation {
			m := NewModel(w, workers)
			e, err := EvaluatePolicy(t.Context(), m, nil, &Attends{Policy: named(name)}, text, prompt, steps, nil)
			if err != nil {
				t.Fatal(name, err)
			}
			return e
		}
		dense := run("dense", 1)
		for _, name := range policies.Builtin().Names() {
			if named(name).Indexed() {
				continue // the model has no indexer
			}
			one, three := run(name, 1), run(name, 3)
			if !slices.Equal(one.NLL, three.NLL) || one.Attended.Layers[0].KeptMass != three.Attended.Layers[0].KeptMass {
				t.Errorf("%s after %d: three workers give other results", name, prompt)
			}
			l := &one.Attended.Layers[0]
			if !(l.KeptMass > 0 && l.KeptMass <= 1 && l.Recall > 0 && l.Recall <= 1 && l.Tokens >= 1 && l.Rows == 1 && l.OutputRelativeL2 >= 0 && l.DroppedMassP99 >= 0) {
				t.Errorf("%s after %d: %+v", name, prompt, l)
			}
			if name == "h2o" || name == "csattention" {
				continue
			}
			for i, x := range one.NLL {
				if math.Abs(x-dense.NLL[i]) > 1e-12 || l.KeptMass < 1-1e-12 || l.DroppedMassP99 > 1e-12 || l.OutputRelativeL2 > 1e-6 {
					t.Fatalf("%s after %d: step %d has %g, attention to everything %g; %+v", name, prompt, i, x, dense.NLL[i], l)
				}
			}
		}
		m := NewModel(w, 1)
		e, err := Evaluate(t.Context(), m, nil, text, prompt, steps, nil)
		if err != nil || math.Abs(e.Mean()-dense.Mean()) > 1e-3 {
			t.Errorf("float32 has %g nats, %v, float64 %g", e.Mean(), err, dense.Mean())
		}
	}
}

// TestMaskedPrompt: a prompt under a policy's mask gives the same as its tokens in decode steps of that policy
// (TestReferencePolicies checks its choices independently); without the mask it differs.
func TestMaskedPrompt(t *testing.T) {
	deep.Turn(t, 0, 4)
	const tokens, steps = 150, 10
	m, text := builtin(t, 2), SampleText()[20_000:]
	nll := func(prefillWindow, prompt int) []float64 {
		s := policies.New("streaming")
		policy.Edit(&s, func(k *policy.StreamSpec) { k.Sink, k.Window, k.PrefillWindow = 4, 28, prefillWindow })
		v, err := policy.NewValues(&s, m.Attention())
		if err != nil {
			t.Fatal(err)
		}
		d, _, err := newChosen[float64](m, v, tokens+steps)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Prefill(0, text[:prompt]); err != nil {
			t.Fatal(err)
		}
		var all []float64
		for i := prompt; i < tokens+steps; i++ {
			logits, err := d.Step([]int{0}, text[i:][:1])
			if err != nil {
				t.Fatal(err)
			}
			if i >= tokens {
				all = append(all, nllOf(logits[0], text[i+1]))
			}
		}
		return all
	}
	masked, decoded, whole := nll(0, tokens), nll(0, 1), nll(8192, tokens)
	most := 0.0
	for i, x := range masked {
		if math.Abs(x-decoded[i]) > 1e-9 {
			t.Errorf("step %d: %.12f after a masked prompt, %.12f after as many steps", i, x, decoded[i])
		}
		most = max(most, math.Abs(x-whole[i]))
	}
	if most < 1e-3 {
		t.Errorf("attention to all of the prompt moves no prediction by more than %g nats", most)
	}
}

// TestPolicyLengths: lengths that do not fit the text or the model are refused.
func TestPolicyLengths(t *testing.T) {
	m := builtin(t, 1)
	for _, c := range [][2]int{{0, 1}, {1, 0}, {8192, 1}, {5, 6}} {
		text := SampleText()
		if c[0] == 5 {
			text = text[:11]
		}
		if _, err := EvaluatePolicy(t.Context(), m, nil, &Attends{Policy: named("quest")}, text, c[0], c[1], nil); err == nil {
			t.Errorf("%v: no error", c)
		}
	}
}

// TestAttendedByHand checks recall, rows and quantiles.
func TestAttendedByHand(t *testing.T) {
	w := &attendedWork{other: make([]float64, 9)}
	scores := []float64{5, 1, 3, 3, 3, 0, 4}
	parts := func(ranges ...[2]int) []policy.Part { return []policy.Part{{Ranges: ranges}} }
	for _, c := range []struct {
		parts []policy.Part
		n     int
		want  float64
	}{
		{parts([2]int{0, 7}), 7, 1}, {parts([2]int{0, 1}, [2]int{6, 7}), 2, 1}, {parts([2]int{0, 3}), 3, 2. / 3}, {parts([2]int{3, 4}, [2]int{5, 7}), 3, 1. / 3}, {parts([2]int{1, 2}, [2]int{5, 6}), 2, 0},
	} {
		if got := recall(c.parts, c.n, scores, w); got != c.want {
			t.Errorf("%v: recall %g, want %g", c.parts, got, c.want)
		}
	}
	for _, c := range []struct {
		parts []policy.Part
		want  int
	}{{parts([2]int{0, 512}), 1}, {parts([2]int{0, 513}), 2}, {parts([2]int{0, 1}, [2]int{5, 600}, [2]int{700, 701}, [2]int{2000, 2001}), 3}, {parts([2]int{511, 513}, [2]int{1023, 1025}), 3},
		{append(parts([2]int{0, 9}), parts([2]int{20, 30}, [2]int{1024, 1025})...), 2}} {
		if got := touched(c.parts, 512, make([]bool, 9)); got != c.want {
			t.Errorf("%v: %d rows, want %d", c.parts, got, c.want)
		}
	}
	if got := quantile([]float64{3, 1, 2}, 0.75); got != 2.5 {
		t.Errorf("quantile %g", got)
	}
	if bounded(math.Inf(1)) != 1 || bounded(1) != 0.5 || bounded(0) != 0 {
		t.Error("bounds")
	}
}

// named returns a policy with its own settings.
func named(name string) *policy.Spec {
	s := policies.New(name)
	return &s
}
