package lm

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/values"
	"pgregory.net/rapid"
)

// Models with latent attention and PyTorch's results in float64: the reference; one of other sizes, with more layers, shared experts and
// kinds of tokens; and one whose layers 1, 2 and 4 share the choices of layers 0 and 3, computed by testdata/latent_shared.py.
const (
	latentReference = "testdata/latent_reference.safetensors"
	latentOther     = "testdata/latent_other.safetensors"
	latentShared    = "testdata/latent_shared.safetensors"
)

func latentCase(tb testing.TB, path string) *LatentCase {
	tb.Helper()
	file, err := attention.OpenSafetensors(path)
	if err != nil {
		tb.Fatal(err)
	}
	c, err := ReadLatentCase(file)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// shortCase is the case of a text of the length that a test affords.
func shortCase(tb testing.TB, path string) *LatentCase {
	c := latentCase(tb, path)
	if quick() {
		c = c.First(min(160, len(c.Tokens)))
	}
	return c
}

// TestLatentReference compares tokens, heads' results and choices with PyTorch's, expanded and absorbed.
func TestLatentReference(t *testing.T) {
	deep.Heavy(t)
	for _, path := range []string{latentReference, latentOther, latentShared} {
		c := shortCase(t, path)
		for _, way := range c.Ways() {
			for _, expanded := range []bool{false, true} {
				r, err := c.Run(t.Context(), way, "float64", expanded, 2)
				if err != nil {
					t.Fatal(err)
				}
				d := c.Compare(way, r)
				t.Logf("%s, %s, expanded %v: %+v", path, way, expanded, d)
				if len(r.NLL) != len(c.Tokens)-1 || !(d.NLLMax <= 1e-10) || !(d.AttentionMax <= 1e-11) || d.Differing > 0 || way == "dsa" && d.Choices == 0 {
					t.Errorf("%s, %s, expanded %v: %d tokens, %+v", path, way, expanded, len(r.NLL), d)
				}
			}
		}
	}
}

// TestLatentSingle is TestLatentReference in float32. A choice may differ if scores are off by at least half of the gap between the
// last chosen token and the next.
func TestLatentSingle(t *testing.T) {
	deep.Heavy(t)
	for _, path := range []string{latentReference, latentOther, latentShared} {
		c := shortCase(t, path)
		for i, way := range c.Ways() {
			wide, narrow := scoresOf[float64](t, c, way, i == 0), scoresOf[float32](t, c, way, i == 0)
			d := c.Compare(way, narrow.LatentRun)
			t.Logf("%s, %s in float32: %+v", path, way, d)
			if !(d.NLLMax <= 1e-4) || d.NLLMax == 0 || !(math.Abs(d.NLLMean) <= 1e-6) {
				t.Errorf("%s, %s in float32: %+v", path, way, d)
			}
			for layer := range wide.scores {
				for token, exact := range wide.scores[layer] {
					off := 0.0
					for s, x := range narrow.scores[layer][token] {
						off = max(off, math.Abs(x-exact[s]))
					}
					if gap := c.Gap[layer][token]; gap > 2*off && !slices.Equal(wide.Chosen[layer][token], narrow.Chosen[layer][token]) {
						t.Errorf("%s: layer %d, token %d: another choice, with scores off by %g and a gap of %g", path, layer, token, off, gap)
					}
					if off > 1e-4 {
						t.Errorf("%s: layer %d, token %d: scores off by %g", path, layer, token, off)
					}
				}
			}
		}
	}
}

// scored is a run with the scores of the indexer, by layer and token.
type scored struct {
	*LatentRun
	scores [][][]float64
}

func scoresOf[T real](t *testing.T, c *LatentCase, way string, expanded bool) scored {
	s := scored{scores: make([][][]float64, c.Model.Layers)}
	var err error
	s.LatentRun, err = runCase[T](t.Context(), c, way, LatentForm{Expanded: expanded}, 1, func(layer int, _ *lane[T], state policy.State) {
		if x, ok := state.(interface{ Scores() []float64 }); ok {
			s.scores[layer] = append(s.scores[layer], slices.Clone(x.Scores()))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLatentRowsOf16Bits bounds the effect of rounding rows to 16 bits. In the first layer queries and rows are the same with and without
// rounding. With δ the error of a row's element, at most u times the element, a head's score is off by at most ε, the largest sum of
// |q|·δ over a row times the scale; weights change by factors within e^±2ε; and a result, the weighted sum of latents c with mean o, by
// at most e^2ε·Σ p·δ + (e^2ε − 1)·Σ p·|c − o|, which passes through the absolute values of kv_b's value half. Later layers are nearly
// linear: bfloat16's unit is 8 times FP16's, and so is a token's median difference.
func TestLatentRowsOf16Bits(t *testing.T) {
	deep.Heavy(t)
	c := shortCase(t, latentReference)
	exact := boundsOf(t, c)
	for _, f := range []struct {
		rows string
		unit float64
	}{{"fp16", 1.0 / (1 << 11)}, {"bf16", 1.0 / (1 << 8)}} {
		run, err := c.Run(t.Context(), "dense", f.rows, false, 2)
		if err != nil {
			t.Fatal(err)
		}
		other, err := c.Run(t.Context(), "dense", f.rows, true, 2)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range run.NLL {
			if math.Abs(x-other.NLL[i]) > 1e-9 {
				t.Fatalf("%s: token %d: %g nats absorbed, %g expanded", f.rows, i, x, other.NLL[i])
			}
		}
		nearest := math.Inf(1)
		for i, x := range run.Attention[0][:len(exact.positions)*c.Model.Heads*c.Model.HeadDim] {
			off, most := math.Abs(x-exact.attention[i]), exact.bound(c.Model, i, f.unit)
			if off > most {
				t.Errorf("%s: element %d is off by %g, expected at most %g", f.rows, i, off, most)
			}
			nearest = min(nearest, most/max(off, 1e-300))
		}
		d, median := c.Compare("dense", run), medianOff(run.NLL, exact.nll)
		t.Logf("%s: median %.3g, most %.3g nats; the bound is %.3g times the difference at least", f.rows, median, d.NLLMax, nearest)
		if nearest > 100 {
			t.Errorf("%s: the bound is %g times the largest difference", f.rows, nearest)
		}
		if unit := median / f.unit; unit < exact.perUnit/2 || unit > exact.perUnit*2 {
			t.Errorf("%s: the median token is off by %g units, expected about %g, as with FP16", f.rows, unit, exact.perUnit)
		}
	}
}

// rowBounds is the first layer of a run with unrounded rows.
type rowBounds struct {
	attention []float64
	nll       []float64
	perUnit   float64 // the median token's difference with FP16 rows, over FP16's unit
	positions []int
	rows      [][]float64 // by token
	queries   [][]float64 // absorbed, by position
}

func boundsOf(t *testing.T, c *LatentCase) *rowBounds {
	b := &rowBounds{positions: slices.DeleteFunc(slices.Clone(c.Positions), func(p int) bool { return p >= len(c.Tokens) })} // the last ones of all
	run, err := runCase(t.Context(), c, "dense", LatentForm{}, 2, func(layer int, l *lane[float64], _ policy.State) {
		if layer > 0 {
			return
		}
		b.rows = append(b.rows, slices.Clone(l.latent.row))
		if slices.Contains(c.Positions, l.position) {
			b.queries = append(b.queries, slices.Clone(l.latent.absorbed))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	b.attention, b.nll = run.Attention[0], run.NLL
	half, err := c.Run(t.Context(), "dense", "fp16", false, 2)
	if err != nil {
		t.Fatal(err)
	}
	b.perUnit = medianOff(half.NLL, b.nll) * (1 << 11)
	return b
}

// bound returns the largest possible error of element i of the first layer's results, [positions, heads, value], for a unit
// of rounding.
func (b *rowBounds) bound(w *Weights, i int, unit float64) float64 {
	s := &w.Latent
	at, head, e := i/(s.Heads*s.Value), i/s.Value%s.Heads, i%s.Value
	q, n := b.queries[at][head*s.Row():(head+1)*s.Row()], b.positions[at]+1
	delta := func(x float64) float64 { return float64(unit*math.Abs(x)) + 0x1p-25 } // half of FP16's smallest number below its normal ones
	scores, epsilon, top := make([]float64, n), 0.0, math.Inf(-1)
	for t, row := range b.rows[:n] {
		off := 0.0
		for j, x := range row {
			scores[t] += float64(q[j] * x)
			off += float64(math.Abs(q[j]) * delta(x))
		}
		scores[t] *= s.Scale()
		epsilon, top = max(epsilon, off*s.Scale()), max(top, scores[t])
	}
	sum := 0.0
	for t, x := range scores {
		scores[t] = math.Exp(x - top)
		sum += scores[t]
	}
	matrix := w.layers[0].latent.expand[(head*(s.Nope+s.Value)+s.Nope+e)*s.Latent.Latent:][:s.Latent.Latent]
	total, factor := 0.0, math.Exp(2*epsilon)
	for j, m := range matrix {
		mean, rounding, spread := 0.0, 0.0, 0.0
		for t, row := range b.rows[:n] {
			mean += float64(scores[t] / sum * row[j])
			rounding += float64(scores[t] / sum * delta(row[j]))
		}
		for t, row := range b.rows[:n] {
			spread += float64(scores[t] / sum * math.Abs(row[j]-mean))
		}
		total += float64(math.Abs(float64(m)) * (float64(factor*rounding) + float64((factor-1)*spread)))
	}
	return total
}

func medianOff(x, y []float64) float64 {
	off := make([]float64, len(x))
	for i, v := range x {
		off[i] = math.Abs(v - y[i])
	}
	slices.Sort(off)
	return off[len(off)/2]
}

// TestSharedLayers: layers without index tensors share choices, in steps and in prompts, and a file whose first layer has none is
// refused.
func TestSharedLayers(t *testing.T) {
	c := latentCase(t, latentShared)
	if got := c.Model.Attention(); got.LayerPattern != "ISSIS" || c.Model.layers[0].latent.index == nil || c.Model.layers[1].latent.index != nil {
		t.Fatalf("layers %+v", got.LayerKinds)
	}
	r, err := c.Run(t.Context(), "dsa", "float64", false, 2)
	if err != nil {
		t.Fatal(err)
	}
	other := 0
	for token := range c.Tokens {
		for layer, leader := range []int{0, 0, 0, 3, 3} {
			if !slices.Equal(r.Chosen[layer][token], r.Chosen[leader][token]) {
				t.Errorf("token %d: layer %d attends to %v, layer %d to %v", token, layer, r.Chosen[layer][token], leader, r.Chosen[leader][token])
			}
		}
		if !slices.Equal(r.Chosen[0][token], r.Chosen[3][token]) {
			other++
		}
	}
	if other < len(c.Tokens)/2 {
		t.Errorf("layers 0 and 3 choose otherwise for %d tokens", other)
	}
}

// textOf returns the case's text, whose tokens are bytes.
func textOf(c *LatentCase) []byte {
	text := make([]byte, len(c.Tokens))
	for i, x := range c.Tokens {
		text[i] = byte(x)
	}
	return text
}

// TestLatentSteps: decode steps after a prompt give the same as the whole text at once, in float32 and under policies. Policies that
// drop nothing equal dense attention, and "dsa" on FP16 rows equals its own prompt's result.
func TestLatentSteps(t *testing.T) {
	deep.Heavy(t)
	c := latentCase(t, latentReference).First(130)
	text, m := textOf(c), NewModel(c.Model, 2)
	const prompt = 90
	steps := len(text) - 1 - prompt
	whole, err := c.Run(t.Context(), "dense", "float32", false, 2)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Evaluate(t.Context(), m, nil, text, prompt, steps, nil)
	if err != nil || !near(e.NLL, whole.NLL[prompt:], 1e-4) {
		t.Errorf("in float32 steps give %v (%v), the whole text %v", e, err, whole.NLL[prompt:])
	}
	all := *c.Model
	all.Latent.IndexTopK = 4096
	lossless, quest := policies.New("window"), policies.New("quest")
	policy.Edit(&lossless, func(s *policies.WindowSpec) { s.Sink, s.Window, s.Block = 3, 40, 7 })
	policy.Edit(&quest, func(s *policies.QuestSpec) { s.Budget, s.SkipLayers = 4096, 0 })
	for _, x := range []struct {
		way  string
		of   *Model
		spec policy.Spec
	}{{"dense", m, policies.New("dense")}, {"dense", m, lossless}, {"dense", m, quest}, {"dense", NewModel(&all, 2), policies.New("dsa")}, {"dsa", m, policies.New("dsa")}} {
		want, err := c.Run(t.Context(), x.way, "fp16", false, 2)
		if err != nil {
			t.Fatal(err)
		}
		e, err := EvaluatePolicy(t.Context(), x.of, nil, &Attends{Policy: &x.spec}, text, prompt, steps, nil)
		if err != nil || !near(e.NLL, want.NLL[prompt:], 1e-9) {
			t.Errorf("%s: steps give %v (%v), the whole text %v", x.spec.Name, e, err, want.NLL[prompt:])
		}
	}
	policy.Edit(&quest, func(s *policies.QuestSpec) { s.Budget = 32 })
	dense, err := c.Run(t.Context(), "dense", "fp16", false, 2)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := EvaluatePolicy(t.Context(), m, nil, &Attends{Policy: &quest}, text, prompt, steps, nil); err != nil || near(e.NLL, dense.NLL[prompt:], 1e-3) {
		t.Errorf("quest with 32 tokens is dense: %v", err)
	}
}

// TestRoundIndex: an FP8 key has its largest element at E4M3's largest number and no element off by more than half of E4M3's unit there.
// The scale is a normal float32, so a key whose largest element is below E4M3Max x 2^-126 (about 5e-36) has E4M3's own relative error, 1/16.
func TestRoundIndex(t *testing.T) {
	x := []float64{1, -0.3001, 1e-5, 3.1415926}
	for format, want := range map[string][]float64{"": x, "bf16": {1, -0.30078125, 1.0013580322265625e-05, 3.140625}} {
		got := slices.Clone(x)
		if roundIndex(got, format); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", format, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 40).Draw(t, "key")
		got, most := slices.Clone(x), 0.0
		for _, v := range x {
			most = max(most, math.Abs(v))
		}
		roundIndex(got, "fp8")
		bound, exact := most/28, most >= attention.E4M3Max*0x1p-126
		if !exact {
			bound = max(most/16, 0x1p-136) // half of E4M3's smallest step, 2^-9, at the smallest scale
		}
		for i, v := range x {
			if off := math.Abs(got[i] - v); off > float64(bound*(1+1e-6)) || exact && math.Abs(v) == most && off > 1e-6*most {
				t.Fatalf("%v is stored as %v beside %v", v, got[i], most)
			}
		}
	})
}

func near(x, y []float64, most float64) bool {
	return slices.EqualFunc(x, y, func(a, b float64) bool { return math.Abs(a-b) <= most })
}

// TestLatentRefused: the error names the option that does not fit latent attention, or a model
// without it.
func TestLatentRefused(t *testing.T) {
	c, plain := latentCase(t, latentReference).First(20), builtin(t, 1)
	m, text := NewModel(c.Model, 1), textOf(c)
	attends := func(name string) *Attends { s := policies.New(name); return &Attends{Policy: &s} }
	other := NewModel(latentCase(t, latentOther).Model, 1)
	for want, run := range map[string]func() error{
		"a model with latent attention: its rows": func() error { _, err := Evaluate(t.Context(), m, desk(t), text, 4, 4, nil); return err },
		"latent attention: its rows are not": func() error {
			_, err := EvaluatePolicy(t.Context(), m, desk(t), attends("dense"), text, 4, 4, nil)
			return err
		},
		`model.kv_bits = 8: expected 16`: func() error {
			a := attends("dense")
			a.Widths.KVBits = 8
			_, err := EvaluatePolicy(t.Context(), m, nil, a, text, 4, 4, nil)
			return err
		},
		`policy.name = "dsa": expected another policy, such as "dense" or "quest": the model has no indexer, whose heads`: func() error {
			_, err := EvaluatePolicy(t.Context(), plain, nil, attends("dsa"), SampleText(), 4, 4, nil)
			return err
		},
		`__metadata__.vocab = "300": expected "256"`: func() error { _, err := NewSession(other, nil, []int{4}); return err },
		`index = "fp16": expected one of`: func() error {
			_, _, err := newLatentDecoder[float32](m, LatentForm{Index: "fp16"}, nil, []int{3})
			return err
		},
		`rows = "fp8": expected one of`: func() error {
			_, _, err := newLatentDecoder[float32](m, LatentForm{Rows: "fp8"}, nil, []int{3})
			return err
		},
		`format = "float16"`: func() error { _, err := c.Run(t.Context(), "dense", "float16", false, 1); return err },
		`expected the absorbed form`: func() error {
			s := policies.New("quest")
			v, err := policy.NewValues(&s, m.Attention())
			if err != nil {
				return nil
			}
			d, _, err := newLatentDecoder[float32](m, LatentForm{Expanded: true}, v, []int{8})
			if err != nil {
				return nil
			}
			_, err = d.Prefill(0, text[:4])
			return err
		},
	} {
		if err := run(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestReadLatentWeights: errors in a file name the tensor or key.
func TestReadLatentWeights(t *testing.T) {
	file, err := attention.OpenSafetensors(latentOther)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want   string
		change func(tensors map[string]*attention.Tensor, metadata map[string]string)
	}{
		{"", func(map[string]*attention.Tensor, map[string]string) {}},
		{"layer.1.kv_b: expected a tensor of that name", func(x map[string]*attention.Tensor, _ map[string]string) { delete(x, "layer.1.kv_b") }},
		{"layer.0.index_k_bias: expected a tensor of that name", func(x map[string]*attention.Tensor, _ map[string]string) { delete(x, "layer.0.index_k_bias") }},
		{"layer.0.index_q: expected a tensor of that name: layers without an indexer share the choice of one below them", func(x map[string]*attention.Tensor, _ map[string]string) { delete(x, "layer.0.index_q") }},
		{"expected only tensors of a model", func(x map[string]*attention.Tensor, _ map[string]string) { delete(x, "layer.1.index_q") }},
		{"layer.1.gate: expected a tensor of that name", func(x map[string]*attention.Tensor, _ map[string]string) { delete(x, "layer.1.router") }},
		{"layer.1.router_bias: expected a tensor of that name", func(x map[string]*attention.Tensor, _ map[string]string) { delete(x, "layer.1.router_bias") }},
		{"nll.dsa: expected a tensor of that name", func(x map[string]*attention.Tensor, _ map[string]string) { delete(x, "nll.dsa") }},
		{"expected only tensors of a model of 2 layers", func(_ map[string]*attention.Tensor, m map[string]string) { m["layers"] = "2" }},
		{"layer.3.q_a: expected a tensor", func(_ map[string]*attention.Tensor, m map[string]string) { m["layers"] = "4" }},
		{"layer.0.kv_a = [44 48]: expected shape [57 48]", func(_ map[string]*attention.Tensor, m map[string]string) { m["kv_lora"] = "49" }},
		{"layer.0.q_b = [90 24]: expected shape [108 24]", func(_ map[string]*attention.Tensor, m map[string]string) { m["heads"] = "6" }},
		{`__metadata__.q_lora = "": expected "1" to "65536"`, func(_ map[string]*attention.Tensor, m map[string]string) { delete(m, "q_lora") }},
		{`__metadata__.q_lora = "0": expected "1" to`, func(_ map[string]*attention.Tensor, m map[string]string) { m["q_lora"] = "0" }},
		{`__metadata__.rope = "7": expected an even number`, func(_ map[string]*attention.Tensor, m map[string]string) { m["rope"] = "7" }},
		{`__metadata__.index_dim = "6": expected at least rope = 8`, func(_ map[string]*attention.Tensor, m map[string]string) { m["index_dim"] = "6" }},
		{`__metadata__.chosen = "6": expected at most experts = 5`, func(_ map[string]*attention.Tensor, m map[string]string) { m["chosen"] = "6" }},
		{`__metadata__.topk = "0": expected "1" to`, func(_ map[string]*attention.Tensor, m map[string]string) { m["topk"] = "0" }},
		{`chosen.0 = 136 elements: expected`, func(_ map[string]*attention.Tensor, m map[string]string) { m["topk"] = "18" }},
		{`__metadata__.eps = "-1": expected a positive number`, func(_ map[string]*attention.Tensor, m map[string]string) { m["eps"] = "-1" }},
		{`__metadata__.base = "": expected a positive number`, func(_ map[string]*attention.Tensor, m map[string]string) { delete(m, "base") }},
		{`tokens = 220 elements: expected 219`, func(_ map[string]*attention.Tensor, m map[string]string) { m["T"] = "219" }},
	} {
		tensors, metadata := map[string]*attention.Tensor{}, map[string]string{}
		for _, x := range file.Tensors {
			tensors[x.Name] = x
		}
		for _, key := range latentKeys {
			metadata[key] = file.Metadata(key)
		}
		c.change(tensors, metadata)
		var all []*attention.Tensor
		for _, x := range tensors {
			all = append(all, x)
		}
		var data bytes.Buffer
		if err := attention.WriteSafetensors(&data, all, metadata); err != nil {
			t.Fatal(err)
		}
		changed, err := attention.ParseSafetensors(data.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadLatentCase(changed); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	plain, err := attention.OpenSafetensors("data/tiny_lm.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadLatentCase(plain); err == nil || !strings.Contains(err.Error(), "latent attention") {
		t.Error(err)
	}
}

// TestLatentOnRank makes the units of a rank attend to the reference model's rows, each stored once: 80 elements are the key, the first
// 64 the value, with six queries in a group. Against float64 on the same FP16 numbers the result is within the bound of FP32 units
// (lab/docs/model-dimm.md), and after kv_b within the effect of rounding rows and queries to FP16 on PyTorch's result.
func TestLatentOnRank(t *testing.T) {
	c := latentCase(t, latentReference).First(160)
	exact, s, on := boundsOf(t, c), &c.Model.Latent, desk(t, fp32)
	shape := pim.HeadShape{HeadDim: s.Row(), ValueDim: s.Latent.Latent, ValueInKey: true, Queries: s.Heads, ElementBits: 16}
	g, err := pim.NewGeometry(&on.Config.DRAM.Spec, shape)
	if err != nil {
		t.Fatal(err)
	}
	rank, err := values.NewHostRank(&on.Config.PIM, &on.Config.DRAM.Spec, shape, g.Rows(len(c.Tokens)), 1, true)
	if err != nil {
		t.Fatal(err)
	}
	var rows []float32
	for token, row := range exact.rows {
		rows = narrow(rows, row)
		if err := rank.Store(0, token, values.EncodeHalf(nil, rows[token*s.Row():]), nil); err != nil {
			t.Fatal(err)
		}
	}
	for at, position := range exact.positions {
		h, queries := values.DecodeHead{Context: position + 1, Scale: float32(s.Scale())}, make([][]float32, s.Heads)
		for head := range queries {
			queries[head] = narrow(nil, exact.queries[at][head*s.Row():(head+1)*s.Row()])
			h.Query = append(h.Query, values.EncodeHalf(nil, queries[head]))
		}
		out, _, err := rank.Attend(0, &h)
		if err != nil {
			t.Fatal(err)
		}
		latents, got := make([]float64, 0, s.Heads*s.Latent.Latent), make([]float64, s.Heads*s.Value)
		for head, q := range queries {
			want, own := make([]float64, s.Latent.Latent), make([]float64, s.Latent.Latent)
			attention.RowsReference(want, q, rows[:(position+1)*s.Row()], s.Scale())
			widen64(own, out[head])
			if e := attention.Compare(own, want); e.RelativeL2 > 5e-5 || e.NonFinite > 0 {
				t.Errorf("position %d, head %d: %+v", position, head, e)
			}
			latents = append(latents, own...)
		}
		attention.Project(&s.Latent, got, c.Model.layers[0].latent.expand, latents)
		for e, x := range got {
			i := at*len(got) + e
			// Queries are rounded, too: scores are off by as much again, and units by 5e-5 of a result of at most the bound's size.
			if off, most := math.Abs(x-c.Attention["dense"][0][i]), 2*exact.bound(c.Model, i, 1.0/(1<<11))+1e-3; off > most {
				t.Errorf("position %d, element %d is off by %g from PyTorch's, expected at most %g", position, e, off, most)
			}
		}
	}
}
