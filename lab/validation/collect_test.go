package validation

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/dram/controller"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/lab/loop"
	"github.com/l3sim/l3sim/lab/measure"
	"github.com/l3sim/l3sim/lab/requests"
	"github.com/l3sim/l3sim/lab/service"
	"github.com/l3sim/l3sim/lab/whole"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/pcie"
	"github.com/l3sim/l3sim/system"
)

// all returns every anchor, in the order of the page.
func all(t testing.TB) []anchor {
	anchors := kernels(t)
	anchors = append(anchors, iterations(t)...)
	anchors = append(anchors, loops(t)...)
	anchors = append(anchors, services(t)...)
	return append(anchors, memory(t)...)
}

const measured = "../measure/testdata"

// target returns a GPU preset with a suite's attention kernels.
func target(t testing.TB, name string, suite gpu.Suite) *measure.Target {
	t.Helper()
	g, _, err := configs.LoadGPU("gpu", name)
	if err != nil {
		t.Fatal(err)
	}
	own := *g
	own.Suite = suite
	return &measure.Target{GPU: own, Link: pcie.Typical(own.PCIeGeneration)}
}

func model(name string) (*llm.Model, error) {
	m, err := configs.LoadModel("model", name, &gpu.Spec{}, 0)
	if err != nil {
		return nil, err
	}
	own := *m
	return &own, nil
}

// read returns the samples of files; patterns are allowed.
func read(t testing.TB, patterns ...string) []measure.Sample {
	t.Helper()
	var all []measure.Sample
	for _, p := range patterns {
		files, err := filepath.Glob(filepath.Join(measured, p))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", p, err)
		}
		for _, f := range files {
			samples, err := measure.Read(f, model)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, samples...)
		}
	}
	return all
}

// judged returns an anchor of samples.
func judged(t *measure.Target, group, name string, seen fit, samples []measure.Sample) anchor {
	a := anchor{group: group, name: name, seen: seen, unit: "s"}
	if len(samples) > 0 && samples[0].Kind().Joules() {
		a.unit = "J"
	}
	for _, p := range t.Judge(samples).Relative {
		a.pairs = append(a.pairs, pair{p.Sample.String(), p.Sample.Seconds, p.Predicted})
	}
	return a
}

// kernels are GPU kernels and transfers, alone, in graphs and sustained.
func kernels(t testing.TB) (anchors []anchor) {
	for _, f := range []struct {
		gpu   string
		suite gpu.Suite
		where string
		files []string
		drop  []measure.Kind
		seen  fit
	}{
		{"h200-sxm", gpu.SuitePyTorch, "alone", []string{"h200/*.csv"}, []measure.Kind{measure.AllReduce}, fitted},
		{"h200-sxm", gpu.SuiteServer, "alone", []string{"h200_server/decode_attention.csv", "h200_server/prefill_attention.csv"}, nil, fitted},
		{"h200-sxm", gpu.SuitePyTorch, "in graphs", []string{"h200_graph/*_pytorch.csv"}, nil, fitted},
		{"h200-sxm", gpu.SuiteServer, "in graphs", []string{"h200_graph/gemm.csv", "h200_graph/*_attention.csv", "h200_server/all_reduce_graph*.csv"}, nil, fitted},
		{"h200-sxm", gpu.SuiteServer, "page-sparse", []string{"h200_iterations/sparse_attention.csv"}, []measure.Kind{measure.Decode}, fitted},
		{"h200-sxm", gpu.SuiteServer, "in graphs", []string{"h200_extend/*.csv"}, nil, fitted},
		{"h200-sxm", gpu.SuiteServer, "in graphs, other heads", []string{"h200_extend_unseen/*.csv"}, nil, heldOut},
		{"h200-sxm", gpu.SuiteServer, "in graphs, unequal contexts", []string{"h200_unequal/*.csv"}, nil, fitted},
		{"h200-sxm", gpu.SuiteServer, "in graphs, unequal contexts, other heads", []string{"h200_unequal_unseen/*.csv"}, nil, heldOut},
		{"h100-sxm", gpu.SuiteServer, "in graphs, unequal contexts, other heads", []string{"h100_unequal_unseen/*.csv"}, nil, heldOut},
		{"h100-sxm", gpu.SuiteServer, "in graphs", []string{"h100_narrow/*.csv"}, []measure.Kind{measure.Decode, measure.GEMM}, fitted},
		{"h100-sxm", gpu.SuiteServer, "in graphs, other heads", []string{"h100_narrow_unseen/*.csv"}, []measure.Kind{measure.Decode}, heldOut},
		{"h100-sxm", gpu.SuitePyTorch, "alone", []string{"h100/*.csv"}, nil, fitted},
		{"h100-sxm", gpu.SuiteServer, "alone", []string{"h100_server/decode_attention.csv", "h100_server/prefill_attention.csv"}, nil, fitted},
		{"h100-sxm", gpu.SuiteServer, "in graphs", []string{"h100_graph/gemm.csv", "h100_graph/decode_attention.csv"}, nil, fitted},
		{"h100-sxm", gpu.SuiteServer, "in graphs", []string{"h100_extend/*.csv"}, nil, heldOut},
		{"a100-sxm-80gb", gpu.SuiteServer, "alone", []string{"a100_sxm/gemm.csv", "a100_sxm/*_attention.csv"}, nil, fitted},
	} {
		target := target(t, f.gpu, f.suite)
		if d := &target.GPU.Decode; f.gpu == "a100-sxm-80gb" { // measured: vLLM's FlashAttention-2; the preset's kernel splits all contexts
			d.SplitMinGroup, d.SplitLimit, d.WaveQuantization, d.Split = 2, 1.6, true, gpu.SplitFixed
		}
		byKind := measure.ByKind(read(t, f.files...))
		for _, kind := range measure.Kinds() {
			if slices.Contains(f.drop, kind) {
				continue
			}
			byWhere := map[measure.Condition][]measure.Sample{}
			for _, s := range byKind[kind] {
				byWhere[s.Where()] = append(byWhere[s.Where()], s)
			}
			for _, where := range []measure.Condition{measure.Alone, measure.InGraph, measure.Sustained} {
				samples := byWhere[where]
				if len(samples) == 0 {
					continue
				}
				name, seen := fmt.Sprintf("%s, %s, %s", strings.ReplaceAll(string(kind), "_", " "), f.suite, f.where), f.seen
				if where == measure.Sustained {
					name, seen = name+", sustained", heldOut
					if kind == measure.GEMM {
						seen = fitted
					}
				}
				anchors = append(anchors, judged(target, "kernels of "+f.gpu, name, seen, samples))
			}
		}
	}
	return anchors
}

// iterations are whole iterations of models, and their energy.
func iterations(t testing.TB) (anchors []anchor) {
	for _, f := range []struct {
		gpu   string
		suite gpu.Suite
		files string
		seen  fit
	}{
		{"h200-sxm", gpu.SuitePyTorch, "h200_iterations/iterations*.csv", fitted},
		{"h200-sxm", gpu.SuiteServer, "h200_server/iterations*.csv", heldOut},
		{"h100-sxm", gpu.SuitePyTorch, "h100_iterations/iterations*.csv", fitted},
		{"h100-sxm", gpu.SuiteServer, "h100_server/iterations*.csv", partly},
	} {
		target := target(t, f.gpu, f.suite)
		for kind, samples := range inOrder(measure.ByKind(read(t, f.files))) {
			byModel := map[string][]measure.Sample{}
			var names []string
			for _, s := range samples {
				name := s.Model()
				if byModel[name] == nil {
					names = append(names, name)
				}
				byModel[name] = append(byModel[name], s)
			}
			for _, name := range names {
				anchors = append(anchors, judged(target, "iterations on "+f.gpu, fmt.Sprintf("%s, %s, %s", strings.ReplaceAll(string(kind), "_", " "), name, f.suite), f.seen, byModel[name]))
			}
		}
	}
	for _, f := range []struct {
		gpu   string
		files []string
	}{
		{"h200-sxm", []string{"h200_iterations/energy.csv", "h200_server/duty.csv"}},
		{"h100-sxm", []string{"h100_server/duty.csv"}},
	} {
		anchors = append(anchors, judged(target(t, f.gpu, gpu.SuitePyTorch), "energy of kernels that repeat for seconds", f.gpu+", with and without gaps", fitted, read(t, f.files...)))
	}
	return anchors
}

// inOrder ranges over kinds in the order of reports.
func inOrder(byKind map[measure.Kind][]measure.Sample) func(func(measure.Kind, []measure.Sample) bool) {
	return func(yield func(measure.Kind, []measure.Sample) bool) {
		for _, kind := range measure.Kinds() {
			if s := byKind[kind]; len(s) > 0 && !yield(kind, s) {
				return
			}
		}
	}
}

// loops are iterations with a stand-in for attention across PCIe, in rows to which no link parameter was
// fitted separately.
func loops(t testing.TB) (anchors []anchor) {
	t.Helper()
	for _, of := range []struct {
		file, node, models string
		unseen             bool // no parameter was fitted to the file
	}{
		{"h100_tp1.csv", "dgx-h100-l3", "", false}, {"h100_tp1_unseen.csv", "dgx-h100-l3", "OPT-13B, ", true},
		{"h100_tp2_unseen.csv", "dgx-h100-l3", "OPT-66B on two GPUs, ", true}, {"h200_tp2.csv", "dgx-h200-l3", "", false},
	} {
		m, err := loop.Read("../loop/testdata/" + of.file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := loop.Judge(m, configs.Options{Preset: of.node})
		if err != nil {
			t.Fatal(err)
		}
		for _, kernels := range []string{"measured GPU part", "own kernels"} {
			for _, chunks := range []string{"decode", "decode and chunks"} {
				for _, seen := range []fit{fitted, heldOut} {
					if of.unseen && seen == fitted {
						continue
					}
					a := anchor{group: "iterations of l3 on " + of.node, name: fmt.Sprintf("%s%s, %s", of.models, chunks, kernels), seen: seen, unit: "ms"}
					if seen == fitted {
						a.name += ", every fifth row"
					}
					for i := range r.Rows {
						p := &r.Rows[i]
						said := p.WithGPU
						if kernels == "own kernels" {
							said = p.Own
						}
						if (p.Fitted && !of.unseen) == (seen == fitted) && (p.Chunk > 0) == (chunks != "decode") {
							a.pairs = append(a.pairs, pair{fmt.Sprintf("%s %g us", &p.Case, p.PIM), p.MS, said})
						}
					}
					anchors = append(anchors, a)
				}
			}
		}
	}
	return anchors
}

// services are latencies of static batches on real servers, in rows that fit in memory and to which
// no overhead was fitted.
func services(t testing.TB) (anchors []anchor) {
	rows, err := service.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	report, err := service.Judge(t.Context(), rows, service.Options{})
	if err != nil {
		t.Fatal(err)
	}
	index := map[service.Series]int{}
	for _, r := range report.Rows {
		if r.Spills != "" || r.Fitted || r.Predicted == 0 {
			continue
		}
		i, seen := index[r.Series]
		if !seen {
			i = len(anchors)
			index[r.Series] = i
			name := fmt.Sprintf("%s, %s on %d x %s", r.Framework, r.Model, r.GPUs, r.GPU)
			anchors = append(anchors, anchor{group: "services", name: name, seen: heldOut, unit: "s"})
		}
		what := fmt.Sprintf("%d x (%d + %d)", r.Batch, r.Input, r.Output)
		anchors[i].pairs = append(anchors[i].pairs, pair{what, r.Latency, r.Predicted})
	}
	return anchors
}

// wholeServers judges the published servers of large models; package whole has their bars.
func wholeServers(t testing.TB) *whole.Report {
	t.Helper()
	rows, err := whole.Read("../whole/testdata/published.csv")
	if err != nil {
		t.Fatal(err)
	}
	r, err := whole.Judge(t.Context(), "published.csv", rows, whole.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// logs judges the servers' logs of package requests, which has their bars.
func logs(t testing.TB) (all []*requests.Report) {
	t.Helper()
	for _, of := range []struct{ log, gpu string }{
		{"RTX4090_Llama-3.1-8B", "rtx-4090-vllm-0.19"}, {"RTXPRO6000_Llama-3.1-8B", "rtx-pro-6000-server-vllm-0.19"}, {"RTXPRO6000_Qwen3-32B", "rtx-pro-6000-server-vllm-0.19"},
	} {
		log, err := requests.Read(filepath.Join("../requests/testdata/llmservingsim", of.log, "requests.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := requests.Judge(t.Context(), log, configs.Options{Sets: []string{`gpu.preset="` + of.gpu + `"`}})
		if err != nil {
			t.Fatal(err)
		}
		r.Log = of.log
		all = append(all, r)
	}
	return all
}

// memory is the clocks of DRAMsim3 for request traces of one burst each, under the policy that
// makes its decisions.
func memory(t testing.TB) []anchor {
	cfg, err := system.Load(configs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	policy, err := controller.LookupPolicy("dramsim3")
	if err != nil {
		t.Fatal(err)
	}
	setup := &controller.Setup{Spec: &cfg.DRAM.Spec, Policy: policy, Channels: 1, Ranks: 4, RequestBytes: controller.OneBurst}
	a := anchor{group: "DRAM", name: "clocks of DRAMsim3, DDR4-3200", seen: heldOut, unit: "s"}
	table, err := os.ReadFile("../../dram/controller/testdata/dramsim3_results.csv")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(table)), "\n")[1:] {
		fields := strings.Split(line, ",")
		f, err := os.Open(filepath.Join("../../dram/controller/testdata/traces", fields[0]+".trace.gz"))
		if err != nil {
			t.Fatal(err)
		}
		trace, err := controller.ReadTrace(fields[0], f)
		if err != nil {
			t.Fatal(err)
		}
		var clocks float64
		if _, err := fmt.Sscan(fields[2], &clocks); err != nil {
			t.Fatal(err)
		}
		stats, err := setup.Replay(t.Context(), trace, nil)
		if err != nil {
			t.Fatal(err)
		}
		tCK := cfg.DRAM.Spec.TCK.Seconds()
		a.pairs = append(a.pairs, pair{fields[0], clocks * tCK, float64(stats.EndClock) * tCK})
	}
	return []anchor{a}
}
