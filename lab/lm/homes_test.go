package lm

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/llm"
)

// edit returns what changes the keys of a policy.
func edit[T input.Checked](change func(keys *T)) func(s *policy.Spec) {
	return func(s *policy.Spec) { policy.Edit(s, change) }
}

// homePolicies are policies of which DIMMs are the home, with settings that choose early.
func homePolicies() map[string]*Attends {
	all := map[string]*Attends{}
	add := func(key, name string, set func(s *policy.Spec)) *llm.Widths {
		a := &Attends{Policy: named(name)}
		set(a.Policy)
		all[key] = a
		return &a.Widths
	}
	as := func(*policy.Spec) {}
	lserve := edit(func(l *policies.LServeSpec) { l.Page, l.LogicalPage, l.Budget, l.Sink, l.Window = 32, 16, 128, 5, 40 })
	window := edit(func(w *policies.WindowSpec) { *w = policies.WindowSpec{Sink: 5, Window: 40, Block: 8} })
	hgca := edit(func(h *policies.HGCASpec) { h.Window, h.Block = 64, 16 })
	quest := edit(func(q *policies.QuestSpec) { q.Budget, q.SkipLayers = 48, 1 })
	duo := edit(func(d *policies.DuoSpec) { d.Sink, d.Window = 5, 40 })
	add("dense", "dense", as)
	add("window", "window", window)
	add("window of none", "window", edit(func(w *policies.WindowSpec) { w.Sink, w.Window = 3, 0 }))
	add("hgca", "hgca", hgca)
	add("quest", "quest", quest)
	add("duo", "duo", duo)
	add("lserve", "lserve", lserve)
	add("duo at home", "duo", edit(func(d *policies.DuoSpec) { d.Sink, d.Window, d.StreamDevice = 5, 145, "home" })) // the ring fills up during decoding
	*add("lserve at home, 8 bits", "lserve", func(s *policy.Spec) {
		lserve(s)
		policy.Edit(s, func(l *policies.LServeSpec) { l.StreamDevice, l.Sink = "home", 0 })
	}) = llm.Widths{KVBits: 8}
	for _, by := range []string{"bank", "rank"} {
		add("quest, scored by "+by, "quest", edit(func(q *policies.QuestSpec) { q.Budget, q.SkipLayers, q.SelectDevice = 96, 0, by }))
	}
	add("lserve, scored by bank", "lserve", func(s *policy.Spec) {
		lserve(s)
		policy.Edit(s, func(l *policies.LServeSpec) { l.SelectDevice, l.StaticSparsity = "bank", 0 })
	})
	*add("dense, 8 bits", "dense", as) = llm.Widths{KVBits: 8}
	*add("dense, 4 bits by channel", "dense", as) = llm.Widths{KVBits: 4, KVScales: llm.ChannelScales}
	*add("duo, 8 bits by channel", "duo", duo) = llm.Widths{KVBits: 8, KVScales: llm.ChannelScales}
	*add("dense, FP8", "dense", as) = llm.Widths{KVFormat: llm.FP8}
	*add("quest, FP8", "quest", quest) = llm.Widths{KVFormat: llm.FP8}
	*add("hgca, 4 bits", "hgca", hgca) = llm.Widths{KVBits: 4}
	*add("window, 4 bits by tensor", "window", window) = llm.Widths{KVBits: 4, KVScales: llm.TensorScales}
	*add("quest, 8 bits by tensor", "quest", quest) = llm.Widths{KVBits: 8, KVScales: llm.TensorScales}
	*add("lserve, 4 bits", "lserve", lserve) = llm.Widths{KVBits: 4}
	return all
}

// homeTolerance returns the bound of lab/docs/model-dimm.md on a head's result, with all stages in FP32 or with scores
// in FP16 of at most score. Key scales by element are part of q in FP16, whose rounding moves scores.
func homeTolerance(precision string, score float64, scales llm.KVScales) float64 {
	if precision == "fp32" && scales == llm.ChannelScales {
		return max(5e-5, 4*attention.HalfEpsilon*score)
	} else if precision == "fp32" {
		return 5e-5
	}
	return max(1e-2, min(4*attention.HalfEpsilon*score, 5e-2))
}

// TestPoliciesInDIMMs: the joint result of ranks and GPUs is float64 attention to the same tokens, within the
// formats' tolerance. The tokens are those of a state that scores pages in float64, unless a rank's scores
// differ by less than the formats' resolution.
func TestPoliciesInDIMMs(t *testing.T) {
	deep.Heavy(t)
	m := builtin(t, 2)
	prompt, steps := 140, deep.Of(24, 24, 700)
	if quick() {
		prompt, steps = 132, 6
	}
	text := SampleText()[20_000:]
	few := []string{"dense, FP8, paper", "duo, 8 bits by channel, fp32", "window, fp32", "hgca, fp32", "quest, scored by bank, fp32", "duo at home, fp32", "lserve at home, 8 bits, fp32", "dense, paper", "lserve, scored by bank, paper"}
	for name, a := range homePolicies() {
		spec := a.Policy
		for _, precision := range []string{"fp32", "paper"} {
			if !deep.On() && !slices.Contains(few, name+", "+precision) {
				continue
			}
			t.Run(name+", "+precision, func(t *testing.T) {
				v, err := policy.NewValues(spec, m.Attention())
				if err != nil {
					t.Fatal(err)
				}
				d, c, err := newChosen[float32](m, v, prompt+steps)
				if err != nil {
					t.Fatal(err)
				}
				c.attended = newAttended(m, prompt+steps, steps)
				if c.narrow, err = newNarrowing(m, &a.Widths, spec); err != nil {
					t.Fatal(err)
				}
				if err := newHomes(c, desk(t, "pim.precision.preset="+precision), spec, prompt+steps); err != nil {
					t.Fatal(err)
				}
				if _, err := d.Prefill(0, text[:prompt]); err != nil {
					t.Fatal(err)
				}
				w := newTwins(m, v, c, prompt+steps)
				c.watch = w.watch
				for i := range steps {
					if _, err := d.Step([]int{0}, text[prompt+i:][:1]); err != nil {
						t.Fatal(err)
					}
				}
				largest, relative := c.homes.errors()
				t.Logf("largest error %.2g, relative %.2g; %d of %d lists differ", largest, relative, w.differ, w.lists)
				if tolerance := homeTolerance(precision, w.largest, a.Widths.KVScales); !(relative > 0 && relative <= tolerance) {
					t.Errorf("relative error %g, tolerance %g", relative, tolerance)
				}
				most := 0 // lists that may differ
				scored := spec.Pages() != nil && spec.Pages().SelectDevice != "gpu"
				switch {
				case scored && precision == "paper":
					most = w.lists / 20
				case scored, spec.Name == "hgca": // averages of weights in float32
					most = w.lists / 200
				}
				if w.differ > most {
					t.Errorf("%d of %d lists differ from those of exact scores", w.differ, w.lists)
				}
			})
		}
	}
}

// twins are states that see the same heads as c, and attend in float64.
type twins struct {
	c             *chosen[float32]
	states        []policy.State
	attender      *policy.Attender
	out, scores   []float64
	lists, differ int
	largest       float64 // score
}

// newTwins returns the twins of heads that have computed a prompt, and gives them the prompt.
func newTwins(m *Model, v policy.Values, c *chosen[float32], limit int) *twins {
	w := &twins{c: c, states: make([]policy.State, len(c.heads)), attender: policy.NewAttender(limit, m.HeadDim),
		out: make([]float64, m.HeadDim), scores: make([]float64, limit)}
	var queries [][]float32
	for i := range c.heads {
		queries = append(queries, slices.Clone(c.heads[i].queries))
	}
	for layer := range m.Layers {
		c.begin(layer)
	}
	for i := range w.states {
		h := &c.heads[i]
		w.states[i] = v.NewState(i/m.Heads, i%m.Heads, limit)
		w.states[i].Prompt(queries[i:i+1], h.keys, h.values)
	}
	return w
}

func (w *twins) watch(layer, head, context int, s policy.Selection) {
	at, last := layer*w.c.model.Heads+head, (context-1)*w.c.model.HeadDim
	h, twin := &w.c.heads[at], w.states[at]
	twin.Append(h.keys[last:], h.values[last:])
	want := twin.Select(h.query)
	policy.Scores(w.scores, h.query[0], h.keys, [][2]int{{0, context}})
	for _, x := range w.scores[:context] {
		w.largest = max(w.largest, math.Abs(x))
	}
	_, weights := w.attender.Attend(w.out, &want, 0, w.scores, h.values)
	twin.Observe([][]float32{weights})
	w.lists++
	if !slices.Equal(tokensOf(s), tokensOf(want)) {
		w.differ++
	}
}

// tokensOf returns the tokens of a selection.
func tokensOf(s policy.Selection) (tokens []int) {
	for _, p := range s.Parts {
		for _, r := range p.Ranges {
			for i := r[0]; i < r[1]; i++ {
				tokens = append(tokens, i)
			}
		}
	}
	slices.Sort(tokens)
	return tokens
}

// TestSideBySidePolicies: the number of workers and channels, rotation, and decoding at each read change no bit.
func TestSideBySidePolicies(t *testing.T) {
	deep.Heavy(t)
	text, prompt, steps := SampleText(), 60, 4
	usual := []string{"quest, scored by rank", "lserve at home, 8 bits", "dense, 4 bits by channel", "window", "hgca"}
	if quick() {
		usual, prompt, steps = usual[:deep.Of(1, 3, 3)], 30, 2
	}
	for name, a := range homePolicies() {
		if !deep.Long() && !slices.Contains(usual, name) {
			continue
		}
		run := func(workers int, on *Node) []float64 {
			e, err := EvaluatePolicy(t.Context(), builtin(t, workers), on, a, text, prompt, steps, nil)
			if err != nil {
				t.Fatal(name, err)
			}
			return append(e.NLL, e.MaxError, e.Attended.Layers[5].KeptMass)
		}
		onRanks := desk(t, fp32, "pim.processing_unit=rank")
		want := run(1, desk(t, fp32))
		for what, got := range map[string][]float64{
			"three workers": run(3, desk(t, fp32)), "decoded at each read": run(2, &Node{Config: desk(t, fp32).Config, Exact: true}),
			"two channels": run(2, desk(t, fp32, "node.channels=2")), "no rotation": run(2, desk(t, fp32, "comm.rotation=false")),
		} {
			if !slices.Equal(got, want) {
				t.Errorf("%s, %s: %v, want %v", name, what, got, want)
			}
		}
		if got, want := run(3, onRanks), run(1, onRanks); !slices.Equal(got, want) {
			t.Errorf("%s, units at the ranks: %v with three workers, %v with one", name, got, want)
		}
	}
}

// TestPolicyPlants: each mistake on the path changes predictions, also with a policy.
func TestPolicyPlants(t *testing.T) {
	deep.Turn(t, 2, 4)
	m, text := builtin(t, 2), SampleText()[20_000:]
	names := []string{"window", "lserve, scored by bank", "hgca", "quest", "dense, 8 bits"}
	if quick() {
		names = names[:deep.Of(1, 2, 2)]
	}
	for _, name := range names {
		a, steps := homePolicies()[name], deep.Of(60, 20, 60)
		if name == "hgca" {
			steps = 60 // few of its tokens are at home
		}
		nll := func(plant Plant) float64 {
			on := desk(t, fp32)
			on.Plant = plant
			e, err := EvaluatePolicy(t.Context(), m, on, a, text, 150, steps, nil)
			if err != nil {
				t.Fatal(name, plant, err)
			}
			return e.Mean()
		}
		right := nll("")
		for _, plant := range Plants()[:deep.Of(2, len(Plants()), len(Plants()))] {
			got := nll(Plant(plant))
			t.Logf("%s, %s: %.4f nats, %.4f without", name, plant, got, right)
			if !(math.Abs(got-right) > 0.005) {
				t.Errorf("%s: %s changes %.5f nats to %.5f", name, plant, right, got)
			}
		}
	}
}

// TestHomesRefused: policies and pages that DIMMs cannot hold are refused by key.
func TestHomesRefused(t *testing.T) {
	m := builtin(t, 1)
	pages, home, quads := named("quest"), named("duo"), named("quest")
	policy.Edit(pages, func(q *policies.QuestSpec) { q.Page = 24 })
	policy.Edit(home, func(d *policies.DuoSpec) { d.StreamDevice = "home" })
	policy.Edit(quads, func(q *policies.QuestSpec) { q.Layout = "quad" })
	for want, a := range map[string]*Attends{
		"policy.name = h2o": {Policy: named("h2o")}, "policy.quest.page = 24": {Policy: pages}, `policy.quest.layout = "quad"`: {Policy: quads},
		`model.kv_scales = "channel"`:       {Policy: named("quest"), Widths: llm.Widths{KVBits: 4, KVScales: llm.ChannelScales}},
		`policy.duo.stream_device = "home"`: {Policy: home, Widths: llm.Widths{KVBits: 4, KVScales: llm.ChannelScales}},
	} {
		_, err := EvaluatePolicy(t.Context(), m, desk(t, fp32), a, SampleText(), 9, 9, nil)
		if got := fmt.Sprint(err); !strings.HasPrefix(got, want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
