package measure

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/llm"
)

// TestNamesOfSamples: a sample is named by its sizes, and by the shape that it shares with others.
func TestNamesOfSamples(t *testing.T) {
	heads := gpu.Heads{Query: 32, KV: 8, Dim: 128}
	model := &llm.Model{Name: "llm", TensorParallel: 4}
	iteration := Sample{batch: 2, context: 30, chunk: 400, finished: 5000, whole: whole{model: model}}
	for _, c := range []struct {
		kind         Kind
		s            Sample
		shape, whole string
	}{
		{GEMM, Sample{m: 1, n: 2, k: 3}, "n=2 k=3", "m=1 n=2 k=3"},
		{NVFP4GEMM, Sample{m: 1, n: 2, k: 3}, "n=2 k=3", "m=1 n=2 k=3"},
		{NarrowGEMM, Sample{op: "int8", m: 1, n: 2, k: 3}, "n=2 k=3", "int8 m=1 n=2 k=3"},
		{Decode, Sample{batch: 4, context: 50, heads: heads}, "heads=32 kv=8 d=128", "batch=4 context=50 heads=32 kv=8 d=128"},
		{Decode, Sample{op: "fixed", batch: 4, context: 50, tokens: 99, heads: heads}, "heads=32 kv=8 d=128", "fixed batch=4 tokens=99 longest=50 heads=32 kv=8 d=128"},
		{NarrowDecode, Sample{op: "int4", batch: 4, context: 50, heads: heads}, "heads=32 kv=8 d=128", "int4 batch=4 context=50 heads=32 kv=8 d=128"},
		{Extend, Sample{op: "split", chunk: 6, finished: 7, heads: heads}, "heads=32 kv=8 d=128", "split chunk=6 finished=7 heads=32 kv=8 d=128"},
		{FP8Prefill, Sample{batch: 5, chunk: 6, finished: 7, heads: heads}, "heads=32 kv=8 d=128", "batch=5 chunk=6 finished=7 heads=32 kv=8 d=128"},
		{PageSparse, Sample{op: "topk", batch: 5, context: 6, paged: paged{7, 8}, heads: heads}, "heads=32 kv=8 d=128", "topk batch=5 context=6 page=7 pages=8 heads=32 kv=8 d=128"},
		{AllReduce, Sample{op: "nccl", gpus: 4, bytes: 1024}, "gpus=4", "nccl gpus=4 bytes=1024"},
		{PCIe, Sample{op: "h2d", bytes: 2048}, "h2d", "h2d bytes=2048"},
		{PCIe, Sample{op: "d2h", bytes: 2048}, "d2h", "d2h bytes=2048"},
		{Elementwise, Sample{op: "add", m: 3, n: 64}, "add d=64", "m=3 add d=64"},
		{Small, Sample{op: "choice", m: 3, whole: whole{model: model}}, "choice llm on 4", "m=3 choice llm on 4"},
		{MixedIteration, iteration, "llm", "llm on 4 batch=2 context=30 chunk=400 finished=5000"},
		{Power, Sample{op: "gemm", m: 1, n: 2, k: 3, batch: 4, context: 5, chunk: 6, powered: powered{busy: 7.25e-6}}, "gemm", "gemm m=1 n=2 k=3 batch=4 context=5 chunk=6 busy=7.2us"},
	} {
		c.s.kind = c.kind
		if c.s.shape() != c.shape || c.s.String() != c.whole || c.s.Kind() != c.kind {
			t.Errorf("%s: shape %q, %q; want %q, %q", c.kind, c.s.shape(), c.s.String(), c.shape, c.whole)
		}
	}
	experts := Sample{kind: Int4Experts}
	experts.row, experts.ffn.Hidden, experts.ffn.Width, experts.shares.experts, experts.shares.parallel, experts.shares.active = "the row", 1, 2, 3, 4, 5
	if experts.shape() != "hidden=1 width=2 experts=3/4 active=5" || experts.String() != "the row" {
		t.Errorf("experts: %q, %q", experts.shape(), experts.String())
	}
	if iteration.Model() != "llm on 4" || (&Sample{}).Model() != "" || (&Sample{where: InGraph}).Where() != InGraph {
		t.Errorf("model %q", iteration.Model())
	}
}

// TestUnitsOfKinds: the unit of each kind in reports, and which kinds are iterations or attention.
func TestUnitsOfKinds(t *testing.T) {
	for _, k := range Kinds() {
		unit, scale := "us", 1e6
		switch k {
		case IterationEnergy, Power:
			unit, scale = "J", 1
		case DecodeIteration, PrefillIteration, MixedIteration:
			unit, scale = "ms", 1e3
		}
		gotUnit, gotScale := k.Unit()
		if gotUnit != unit || gotScale != scale || k.Joules() != (unit == "J") {
			t.Errorf("%s: %v %s", k, gotScale, gotUnit)
		}
		attends := strings.Contains(string(k), "decode") || strings.Contains(string(k), "prefill") || strings.HasSuffix(string(k), "_layer") || k == MixedIteration
		if k.Attends() != attends || k.Iteration() != (strings.HasSuffix(string(k), "_iteration") || k == IterationEnergy) {
			t.Errorf("%s: attends %v, iteration %v", k, k.Attends(), k.Iteration())
		}
	}
}

// TestValidationByHand: errors by kind in the order of reports, the worst rows with their places, and the kinds above a limit.
func TestValidationByHand(t *testing.T) {
	target := h200(t)
	sample := func(kind Kind, m, line int, off float64) Sample {
		s := Sample{kind: kind, File: "f.csv", Line: line, m: m, n: 4096, k: 4096, op: "add", where: InGraph}
		s.Seconds = target.Predict(&s) / off
		return s
	}
	v := Validate(target, []Sample{sample(Elementwise, 4096, 5, 0.5), sample(GEMM, 4096, 2, 1.25), sample(GEMM, 4096, 3, 1)})
	if g, e := v.Errors[GEMM], v.Errors[Elementwise]; len(v.kinds) != 2 || v.kinds[0] != GEMM || v.kinds[1] != Elementwise || g.Points != 2 || e.Points != 1 || g.MAPE < 0.1249 || g.MAPE > 0.1251 || e.Bias > -0.499 {
		t.Fatalf("got %v, %+v", v.kinds, v.Errors)
	}
	var b strings.Builder
	if err := v.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	joined := strings.Join(lines, "\n")
	for _, want := range []string{target.GPU.Name + " points mean median p90 bias\n" + string(GEMM) + " 2 12.5% ", "\n" + string(Elementwise) + " 1 50.0% 50.0% 50.0% -50.0%\n", "\nworst of " + string(GEMM) + "\n+25% predicted ",
		" us m=4096 n=4096 k=4096 f.csv:2\n", " us m=4096 n=4096 k=4096 f.csv:3\n", "\nworst of " + string(Elementwise) + "\n-50% predicted "} {
		if !strings.Contains(joined, want) {
			t.Errorf("without %q in\n%s", want, joined)
		}
	}
	for limit, want := range map[float64]string{
		0.6: "", 0.3: "mean absolute percentage error above 0.3: " + string(Elementwise) + " 0.5000", 0.1: "mean absolute percentage error above 0.1: " + string(GEMM) + " 0.1250, " + string(Elementwise) + " 0.5000",
	} {
		got := ""
		if err := v.Above(limit); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("above %v: %s, want %s", limit, got, want)
		}
	}
}

// TestEntriesByHand: a fit's file has percentages, without errors if nothing was held out; ranges are those of the samples' sizes.
func TestEntriesByHand(t *testing.T) {
	f := Fitted{Samples: 7, Range: "m 1 to 2", Held: Errors{MAPE: 0.05, Median: 0.03, P90: 0.125, Bias: 0.5}}
	if got := f.Entry(); got != (configs.FitKind{Rows: 7, Range: "m 1 to 2"}) {
		t.Errorf("nothing held out: %+v", got)
	}
	f.HeldOut = true
	if got := f.Entry(); got != (configs.FitKind{Rows: 7, Range: "m 1 to 2", Mean: 5, Median: 3, P90: 12.5}) {
		t.Errorf("got %+v", got)
	}
	a, b := Sample{m: 3, n: 8, k: 5, batch: 2, context: 9, chunk: 4, finished: 0}, Sample{m: 1, n: 8, k: 6, batch: 7, context: 2, chunk: 4, finished: 11}
	if got := rangeOf([]Sample{a, b}); got != "m 1 to 3, n 8 to 8, k 5 to 6, batch 2 to 7, context 2 to 9, prompt 4 to 4, prefix 0 to 11" {
		t.Errorf("range %s", got)
	}
	var x Sample
	x.shares.tokens, x.ffn.Hidden, x.ffn.Width, x.shares.experts = 1, 2, 3, 4
	if got := rangeOf([]Sample{x}); got != "tokens 1 to 1, hidden 2 to 2, width 3 to 3, experts 4 to 4" {
		t.Errorf("range %s", got)
	}
	if got := (Card{GPU: "g", VLLM: "0.1"}).String(); got != "g, vLLM 0.1" {
		t.Errorf("card %s", got)
	}
}

// TestOriginsByHand: the origin of each value in a fit's file.
func TestOriginsByHand(t *testing.T) {
	moved := map[string]bool{"gpu.gemm.overhead": true, "gpu.decode_attention.ridge": true}
	for _, c := range [][3]string{
		{"gpu.gemm.overhead", "1us", "fit"}, {"gpu.gemm.ridge", "1", "of the base"}, {"gpu.decode_attention.ridge", "1", "fit"},
		{"gpu.measured.product_rows", "7", "the rows of the fit"}, {"gpu.measured.product_rows", "0", "not measured on this GPU"}, {"gpu.measured.decode_requests", "7", "of the base"},
		{"gpu.scale.products", `"1 ± 20%, an assumption"`, "not measured: a spread of 20%"}, {"gpu.scale.products", "1", "errors on shapes held out of the fit, 10th to 90th percentile of a log-normal"},
		{"gpu.scale.prefill_attention", "1", "of the base"},
	} {
		if got := origin(c[0], c[1], moved, "base"); got != c[2] {
			t.Errorf("%s = %s: %s, want %s", c[0], c[1], got, c[2])
		}
	}
}
