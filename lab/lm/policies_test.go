package lm

import (
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
)

// referencePolicies are those of testdata/policies_reference.safetensors: results of independent
// float64 programs, made for this project, on the first 6,144 bytes of the sample text, of which
// 2,048 are the prompt.
var referencePolicies = []string{
	"dense",
	"quest_1024_skip2", "quest_1024_skip0", "quest_512_skip2", "quest_512_skip0", "quest_256_skip2", "quest_256_skip0",
	"lserve_64_16_1024_r1", "lserve_128_16_1024_r1", "lserve_256_16_1024_r1", "lserve_512_16_1024_r1",
	"lserve_64_16_512_r1", "lserve_64_64_512_r1", "lserve_64_16_512_r4_append", "lserve_64_16_512_r4",
	"lserve_64_16_512_r1_half", "lserve_64_16_512_r4_half", "lserve_64_16_512_r4_half_append",
	"streaming_4_508", "streaming_128_256", "streaming_4_508_dense_prompt", "streaming_128_256_dense_prompt",
	"h2o_204_204", "hgca_512_128_beta0.5", "hgca_512_128_beta1", "oracle_512", "oracle_256",
}

const (
	referencePrompt = 2048
	referenceSteps  = 4096
)

// referenceSpec returns the policy section for a name.
func referenceSpec(t *testing.T, name string) policy.Spec {
	number := func(text string) int {
		n, err := strconv.Atoi(strings.TrimLeft(text, "skipr"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	f := strings.Split(name, "_")
	s := policies.New(f[0])
	switch f[0] {
	case "quest":
		policy.Edit(&s, func(q *policies.QuestSpec) { q.Budget, q.SkipLayers = number(f[1]), number(f[2]) })
	case "lserve":
		policy.Edit(&s, func(l *policies.LServeSpec) {
			l.Page, l.LogicalPage, l.Budget, l.Reuse = number(f[1]), number(f[2]), number(f[3]), number(f[4])
			l.StaticSparsity, l.PrefillWindow, l.Newest = 0, 8192, "replace" // prompts attend to everything
			if slices.Contains(f, "half") {
				l.StaticSparsity = 0.5
			}
			if slices.Contains(f, "append") {
				l.Newest = "append"
			}
		})
	case "streaming":
		policy.Edit(&s, func(k *policy.StreamSpec) {
			if k.Sink, k.Window = number(f[1]), number(f[2]); len(f) > 3 {
				k.PrefillWindow = 8192
			}
		})
	case "hgca":
		policy.Edit(&s, func(h *policies.HGCASpec) {
			if h.Window, h.Block, h.Beta = 512, 128, 1; strings.HasSuffix(name, "0.5") {
				h.Beta = 0.5
			}
		})
	}
	if err := input.Validate(&s); err != nil && f[0] != "oracle" {
		t.Fatal(name, err)
	}
	return s
}

// TestReferencePolicies compares 27 policies with independent results: predictions, attended
// tokens, their effect, the tokens of single steps. Both compute in float64 and agree up to the
// float32 in which predictions are stored here. One different choice, or one element that rounds to
// another FP16 value, shows.
func TestReferencePolicies(t *testing.T) {
	deep.Only(t)
	const pageEnds = 70 // steps in which a page of 64 tokens ends
	most, names := deep.Of(pageEnds, pageEnds, referenceSteps), referencePolicies
	kinds := []string{"dense", "quest_512_skip2", "lserve_512_16_1024_r1", "lserve_64_16_512_r4_half_append", "lserve_64_16_512_r4", "streaming_128_256_dense_prompt",
		"h2o_204_204", "hgca_512_128_beta1", "oracle_256"} // one of each
	if testing.Short() {
		most, names = 17, kinds
	} else if !deep.Long() { // without the masked prompt, computed for one policy only: TestMaskedPrompt
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "streaming_4_508" || name == "streaming_128_256" })
	}
	file, err := attention.OpenSafetensors("testdata/policies_reference.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	m := builtin(t, runtime.GOMAXPROCS(0))
	prompt := newPrefilled(t, m, most)
	for _, name := range names {
		steps := most
		if most == pageEnds && !slices.Contains(kinds, name) {
			steps = 17
		}
		t.Run(name, func(t *testing.T) {
			spec := referenceSpec(t, name)
			r := policyReference{T: t, file: file, name: name, steps: steps, pages: pagesOf(&spec)}
			var values policy.Values
			if budget, oracle := strings.CutPrefix(name, "oracle_"); oracle {
				n, _ := strconv.Atoi(budget)
				values = oracleValues{n, m.HeadDim}
			} else if values, err = policy.NewValues(&spec, m.Attention()); err != nil {
				t.Fatal(err)
			}
			var s *decoder[float64]
			if strings.HasPrefix(name, "streaming") && policy.Section[policy.StreamSpec](&spec).PrefillWindow == 0 {
				s = prompt.masked(t, values, &r)
			} else {
				s = prompt.fork(t, values, &r)
			}
			r.run(s)
		})
	}
}

// pagesOf returns the lists of pages of a policy that has them.
func pagesOf(s *policy.Spec) (p policies.Pages) {
	switch s.Name {
	case "quest":
		p = policy.Section[policies.QuestSpec](s).Lists()
	case "lserve":
		p = policy.Section[policies.LServeSpec](s).Lists()
	}
	return p
}

// policyReference compares one policy.
type policyReference struct {
	*testing.T
	file     *attention.Safetensors
	name     string
	steps    int
	pages    policies.Pages
	attended *Attended
	chosen   map[[3]int][]int // tokens, or pages, by sampled step, layer and head
}

func (r *policyReference) tensor(name string) []float64 {
	x, err := r.file.Tensor(r.name + "." + name).Float64s()
	if err != nil {
		r.Fatal(name, err)
	}
	return x
}

func (r *policyReference) ints(name string) []int {
	x, err := r.file.Tensor(name).Ints()
	if err != nil {
		r.Fatal(name, err)
	}
	return x
}

// watch records the choices of sampled steps: pages without the list's newest, then the newest; or
// tokens.
func (r *policyReference) watch(samples []int) Watch {
	r.chosen = map[[3]int][]int{}
	return func(layer, head, context int, s policy.Selection) {
		step := context - 1 - referencePrompt
		if !slices.Contains(samples, step) {
			return
		}
		var chosen []int
		for _, part := range s.Parts {
			for _, tokens := range part.Ranges {
				for at := tokens[0]; at < tokens[1]; at++ {
					chosen = append(chosen, at)
				}
			}
		}
		if r.pages.Page > 0 { // the policy chooses pages
			for i := range chosen {
				chosen[i] /= r.pages.Page
			}
			chosen = slices.Compact(chosen)
			if n := len(chosen); !r.pages.Replace && r.pages.Pages(context) > r.pages.Pages(r.pages.MadeAt(referencePrompt, context)) {
				chosen = slices.Delete(chosen, n-2, n-1) // the list's newest, attended to in addition
			}
		}
		r.chosen[[3]int{step, layer, head}] = chosen
	}
}

// run decodes and compares.
func (r *policyReference) run(s *decoder[float64]) {
	samples := r.ints("sample_steps")
	s.step.(*chosen[float64]).watch = r.watch(samples)
	text, nll := SampleText(), make([]float64, r.steps)
	for i := range nll {
		logits, err := s.Step([]int{0}, text[referencePrompt+i:][:1])
		if err != nil {
			r.Fatal(err)
		}
		nll[i] = nllOf(logits[0], text[referencePrompt+i+1])
	}
	r.attended.finish()
	r.compareNLL(nll)
	if r.file.Tensor(r.name+".selected") != nil {
		r.compareSelected(samples)
	}
	if r.steps == referenceSteps {
		r.compareLayers()
		if strings.HasPrefix(r.name, "hgca") {
			r.compareSalient(s)
		}
	}
}

// atMost fails if a value exceeds its bound.
func (r *policyReference) atMost(what string, got, most float64) {
	r.Helper()
	if !(got <= most) {
		r.Errorf("%s is off by %.3g, expected at most %g", what, got, most)
	}
}

func (r *policyReference) compareNLL(nll []float64) {
	want := r.tensor("nll")
	off, sum := make([]float64, len(nll)), 0.0
	for i, x := range nll {
		off[i] = math.Abs(x - want[i])
		sum += x - want[i]
	}
	d := sum / float64(len(nll))
	r.Logf("%s: mean nll %.6f off by %.1e, median %.1e, p99 %.1e, largest %.1e", r.name, mean(nll), d, quantile(off, 0.5), quantile(off, 0.99), slices.Max(off))
	r.atMost("mean nll", math.Abs(d), 1e-7)
	r.atMost("median nll", quantile(off, 0.5), 1e-8)
	r.atMost("largest nll", slices.Max(off), 1e-5)
}

// compareSelected compares lists of pages or kept tokens.
func (r *policyReference) compareSelected(samples []int) {
	want := r.ints(r.name + ".selected")
	const layers, heads = 6, 4
	n := len(want) / (len(samples) * layers * heads)
	for i, step := range samples {
		for at := range layers * heads {
			list := want[(i*layers*heads+at)*n:][:n]
			got, seen := r.chosen[[3]int{step, at / heads, at % heads}]
			if list = slices.DeleteFunc(list, func(x int) bool { return x < 0 }); seen && len(list) > 0 && !slices.Equal(got, list) {
				r.Errorf("step %d, layer %d, head %d: %v, want %v", step, at/heads, at%heads, got, list)
			}
		}
	}
}

// compareLayers compares means and quantiles over all steps.
func (r *policyReference) compareLayers() {
	for _, c := range []struct {
		name string
		most float64
		of   func(*LayerAttended) float64
	}{
		{"kept_mass", 1e-9, func(l *LayerAttended) float64 { return l.KeptMass }},
		{"recall", 1e-9, func(l *LayerAttended) float64 { return l.Recall }},
		{"out_rel_l2", 1e-6, func(l *LayerAttended) float64 { return l.OutputRelativeL2 }},
		{"tokens", 0, func(l *LayerAttended) float64 { return l.Tokens }},
		{"dropped_mass_p99", 1e-9, func(l *LayerAttended) float64 { return l.DroppedMassP99 }},
		{"out_rel_l2_p99", 1e-5, func(l *LayerAttended) float64 { return l.OutputRelativeL2P99 }},
	} {
		want, worst := r.tensor(c.name), 0.0
		for i := range r.attended.Layers {
			worst = max(worst, math.Abs(c.of(&r.attended.Layers[i])-want[i]))
		}
		r.Logf("%s: %s off by %.1e", r.name, c.name, worst)
		r.atMost(c.name, worst, c.most)
	}
}

// compareSalient compares the tokens that HGCA has kept by the last step.
func (r *policyReference) compareSalient(s *decoder[float64]) {
	want := r.ints(r.name + ".salient")
	m := s.model
	n := len(want) / (m.Layers * m.Heads)
	for layer := range m.Layers {
		wrong := 0
		for head := range m.Heads {
			at := layer*m.Heads + head
			salient := make([]int, n)
			for _, p := range s.step.(*chosen[float64]).heads[at].state.Select(nil).Parts {
				for _, tokens := range p.Ranges {
					for i := tokens[0]; p.Device == policy.Home && i < tokens[1]; i++ {
						salient[i] = 1
					}
				}
			}
			for i, x := range salient {
				if x != want[at*n+i] {
					wrong++
				}
			}
		}
		r.Logf("%s, layer %d: %d of %d salient tokens differ", r.name, layer, wrong, m.Heads*n)
		r.atMost("the number of salient tokens", float64(wrong), 0)
	}
}
