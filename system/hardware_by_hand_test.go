package system

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestHardwareByHand: two replicas of four GPUs share the node. Requests of 1,000 tokens in and 25 out keep 1,024 tokens at their end.
func TestHardwareByHand(t *testing.T) {
	n := nodeOf(t, "run.system=l3", "run.model=llama-3-8b", "node.gpus=8", "model.tensor_parallel=4")
	h := n.Hardware(traces.Moments{InputMean: 1000, OutputMean: 25})
	cfg := n.cfg
	kv := 2 * units.Bytes(n.memory.Capacity) * n.memory.Unit
	tokens := n.memory.Tokens(kv, 32*4096)
	if h.Replicas != 2 || h.GPUs != 4 || h.Channels != cfg.Node.Channels/2 || h.Ranksets != cfg.Node.Ranksets || h.KV != kv || h.KVTokens != tokens || !near(h.MeanRequests, float64(tokens)/1024) || tokens == 0 {
		t.Errorf("%+v", h)
	}
	peak := 2 * n.assemble(0, nil, false, nil).Engine.Peak()
	if h.HBM != 8*cfg.GPU.MemoryBandwidth || h.Attention != peak || h.Channel != units.Bandwidth(cfg.Node.Channels)*cfg.DRAM.Spec.Bandwidth() || h.PCIe != 8*n.hw.LinkShare() || h.Weights != cfg.Model.WeightBytes() || h.FreeGPU != n.FreeGPUMemory() {
		t.Errorf("%+v, by hand peaks of %v", h, peak)
	}
	if none := n.Hardware(traces.Moments{}); none.MeanRequests != 0 || none.KVTokens != tokens {
		t.Errorf("without a trace %+v", none)
	}
	gpuOnly := nodeOf(t, "run.system=gpu-only", "run.model=llama-3-8b").Hardware(traces.Moments{InputMean: 1})
	if gpuOnly.Channels != 0 || gpuOnly.Ranksets != 0 || gpuOnly.Channel != 0 || gpuOnly.PCIe != 0 || gpuOnly.MeanRequests != 0 || gpuOnly.HBM == 0 {
		t.Errorf("GPUs alone: %+v", gpuOnly)
	}
	if one := nodeOf(t, "run.system=gpu-only", "run.model=llama-3-8b").Hardware(traces.Moments{InputMean: 1, OutputMean: 1}); one.MeanRequests != float64(one.KVTokens) {
		t.Errorf("requests of one token: %v of %d", one.MeanRequests, one.KVTokens)
	}
	// Of 2,048 tokens a layer with a window of 1,024 keeps 1,024, so the memory holds twice the tokens.
	windows := nodeOf(t, "run.system=gpu-only", "run.model=llama-3-8b", "model.window=1024")
	h = windows.Hardware(traces.Moments{InputMean: 2000, OutputMean: 49})
	bytes := float64(windows.kvBytes(0).Capacity) / float64(1+windows.memory.More)
	if want := int64(bytes / (1024 * 32 * 4096) * 2048); h.KVTokens < want-2048 || h.KVTokens > want+2048 || !near(h.MeanRequests, float64(h.KVTokens)/2048) {
		t.Errorf("with windows %d tokens, by hand %d; %v requests", h.KVTokens, want, h.MeanRequests)
	}
	var empty *Node
	if got := empty.Hardware(traces.Moments{InputMean: 5}); got.Schema != HardwareSchema || got.Replicas != 0 || empty.Replicas() != 0 || (&Node{}).Replicas() != 0 || (&Node{}).FreeGPUMemory() != 0 {
		t.Errorf("of no node %+v", got)
	}
}

// TestHardwareTextByHand: GiB are 1024³ bytes, GB/s 10⁹ bytes per second.
func TestHardwareTextByHand(t *testing.T) {
	h := Hardware{System: "l3", Model: "m", GPU: "g", Replicas: 2, GPUs: 4, Channels: 8, Ranksets: 3, Weights: 3 * units.GiB / 2, FreeGPU: 5 * units.GiB, KV: 7 * units.GiB, KVTokens: 9000, MeanRequests: 8.8,
		HBM: 1.5e12, Attention: 2.5e12, Channel: 4e11, PCIe: 6e10, Widths: "8 bits", Notes: []string{"one", "two"}}
	const want = `system            l3
model             m
GPU               g
replicas          2 of 4 GPUs, 8 channels and 3 ranksets
GPU memory        1.5 GiB of weights a replica, 5.0 GiB left
weights           8 bits
KV memory         7.0 GiB, 9000 tokens, 8.8 requests of the trace's mean final length
HBM               1500.0 GB/s
decode attention  2500.0 GB/s
DRAM channels     400.0 GB/s
PCIe              60.0 GB/s in each direction
note              one
note              two
`
	var text strings.Builder
	if err := h.WriteText(&text); err != nil || text.String() != want {
		t.Errorf("%s\nwant\n%s; %v", &text, want, err)
	}
	h.Channels, h.Widths, h.Notes = 0, "", nil
	short := strings.NewReplacer(", 8 channels and 3 ranksets", "", "weights           8 bits\n", "", "DRAM channels     400.0 GB/s\nPCIe              60.0 GB/s in each direction\nnote              one\nnote              two\n", "").Replace(want)
	text.Reset()
	if err := h.WriteText(&text); err != nil || text.String() != short {
		t.Errorf("%s\nwant\n%s; %v", &text, short, err)
	}
	if err := h.WriteText(full{}); err == nil {
		t.Error("a full disk is no error")
	}
}

// full is a writer that accepts nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, os.ErrInvalid }

// TestNotesOfModels: the notes of a configuration on its model, prices and GPU, and when they are absent.
func TestNotesOfModels(t *testing.T) {
	for _, c := range []struct{ sets, note, want string }{
		{"run.model=llama-3-8b", "latent attention", ""},
		{"run.system=gpu-only run.model=llama-2-7b model.kv_heads=1 model.latent_dim=512 model.nope_dim=128 model.value_dim=128 model.head_dim=576", "latent attention", "kernels of latent attention take the parameters of grouped attention"},
		{"gpu.preset=h200-sxm gpu.name=b300 gpu.memory_capacity=192GB gpu.memory_bandwidth=5TB/s gpu.sms=150 gpu.memory_reserve=1GiB gpu.peak_8bit=2PFLOP/s", "was never measured", "with 5 keys"},
	} {
		cfg, err := everything().Load(configs.Options{Sets: strings.Fields(c.sets)})
		if err != nil {
			t.Error(err)
			continue
		}
		if notes := strings.Join(Notes(cfg), "\n"); strings.Contains(notes, c.note) != (c.want != "") || !strings.Contains(notes, c.want) {
			t.Errorf("%s: %s", c.sets, notes)
		}
	}
	changed := "changed in GPU b300: memory_capacity; what is not changed"
	for sets, said := range map[string]bool{"gpu.preset=h200-sxm gpu.name=b300 gpu.memory_capacity=192GB": true, "gpu.preset=h200-sxm gpu.name=b300": false, "gpu.preset=h200-sxm": false} {
		if notes := strings.Join(nodeOf(t, strings.Fields(sets)...).Hardware(traces.Moments{}).Notes, "\n"); strings.Contains(notes, changed) != said || strings.Contains(notes, "changed in GPU") != said {
			t.Errorf("%s: %s", sets, notes)
		}
	}
	cfg := nodeOf(t, "memory.spare=decode", "run.model=llama-3-8b").cfg
	r := &Result{trace: &traces.Trace{Name: "mine", Notes: []string{"odd times"}}}
	r.tokens, r.spareTokens = 8, 2
	all := r.remarks(cfg, &results.Summary{})
	if notes := strings.Join(all.notes, "\n"); !strings.Contains(notes, "spare memory decodes 25.0% of the tokens") || !strings.Contains(strings.Join(all.doubts, "\n"), "mine: odd times") {
		t.Errorf("%+v", all)
	}
	// Gaps of more than ten times the median are named where decoding waits for prompts that come one by one.
	const waits = "decoding waits for new prompts (gpu_only.policy = \"prefill-first\"), up to 0.51 s; servers of today cut prompts into chunks (\"chunked-prefill\")"
	for _, c := range []struct {
		sets, arrivals string
		longest        float64
		said           bool
	}{
		{"", traces.ArrivalsPoisson, 510, true}, {"", traces.ArrivalsPoisson, 500, false}, {"", traces.ArrivalsAtOnce, 510, false},
		{"gpu_only.policy=chunked-prefill", traces.ArrivalsPoisson, 510, false}, {"run.system=l3", traces.ArrivalsPoisson, 510, false},
		{"serving.prefill=elsewhere serving.prefill_bandwidth=1GB/s", traces.ArrivalsPoisson, 510, false},
	} {
		cfg := nodeOf(t, append([]string{"run.system=gpu-only", "run.model=llama-3-8b"}, strings.Fields(c.sets)...)...).cfg
		var summary results.Summary
		summary.TBT, summary.Arrivals.Kind = results.Latency{P50: 50, Max: c.longest}, c.arrivals
		text := promptsFirst(cfg, &summary)
		if (text == waits) != c.said || text != "" && text != waits {
			t.Errorf("%+v: %q", c, text)
		}
	}
	r.extrapolated[0], r.extrapolated[1] = 0.06, 0.04
	note, share := r.extrapolationNote("g")
	if !strings.Contains(note, "beyond what g was measured at take 10.0% of the GPUs' time: ") || !near(share, 0.1) {
		t.Errorf("%s, %v", note, share)
	}
	if all := r.remarks(cfg, &results.Summary{}); !strings.Contains(strings.Join(all.doubts, "\n"), "take 10.0% of") {
		t.Errorf("a tenth of the time beyond measurements is no doubt: %+v", all)
	}
	r.extrapolated[1] = 0.0399
	if all := r.remarks(cfg, &results.Summary{}); !strings.Contains(strings.Join(all.notes, "\n"), "time: ") || strings.Contains(strings.Join(all.doubts, "\n"), "% of the GPUs' time") {
		t.Errorf("less than a tenth is a doubt: %+v", all)
	}
	for third, said := range map[float64]bool{0.009: false, 0.01: true} {
		r.extrapolated[0], r.extrapolated[1] = third, 0
		if note, _ := r.extrapolationNote("g"); (note != "") != said {
			t.Errorf("%v of the time: %q", third, note)
		}
	}
}

// TestPoliciesByHand: each policy names the systems that run it, and those that do not.
func TestPoliciesByHand(t *testing.T) {
	if n := len(Policies(kinds.Loader())); n != len(kinds.Loader().Policies().Names()) {
		t.Errorf("%d policies", n)
	}
	for _, p := range Policies(kinds.Loader()) {
		all := append(append([]string{}, p.Systems...), p.Refused...)
		if len(all) != len(kinds.In(kinds.Loader())) {
			t.Errorf("%s: %v", p.Name, all)
		}
		for _, s := range kinds.In(kinds.Loader()) {
			cfg := []string{"run.system=" + s.Name, "policy.name=" + p.Name}
			if p.Name == "dsa" {
				cfg = append(cfg, policySets(p.Name)...)
			}
			_, err := kinds.Loader().Load(configs.Options{Sets: cfg})
			refused := err != nil && (strings.Contains(err.Error(), "policy.name = ") || strings.Contains(err.Error(), "model.latent_dim = ")) // which "dsa" needs
			if refused == strings.Contains(" "+strings.Join(p.Systems, " ")+" ", " "+s.Name+" ") {
				t.Errorf("%s on %s: %v, %v", p.Name, s.Name, err, p.Systems)
			}
		}
	}
	p := PolicyHelp{Description: policy.Description{Name: "x", Lossy: true, Keys: []policy.Key{{Name: "a", Default: "1", Source: "p"}, {Name: "b", Default: "2", Source: "q"}}}, Systems: []string{"l3", "gpu-only"}, Refused: []string{"hbm-pim"}}
	p.Attends, p.Stores, p.Moves, p.Source = "to some", "all", "nothing", "a paper"
	const want = "x (lossy)\n  attends   to some\n  stores    all\n  moves     nothing\n  systems   l3, gpu-only\n  refused   hbm-pim\n  keys      a = 1 (p)\n            b = 2 (q)\n  source    a paper\n\n"
	var b strings.Builder
	if err := p.WriteText(&b); err != nil || b.String() != want {
		t.Errorf("%q, want %q; %v", b.String(), want, err)
	}
	p.Lossy, p.Systems, p.Refused, p.Keys = false, nil, nil, nil
	b.Reset()
	const short = "x (exact)\n  attends   to some\n  stores    all\n  moves     nothing\n  systems   none\n  source    a paper\n\n"
	if err := p.WriteText(&b); err != nil || b.String() != short {
		t.Errorf("%q, want %q; %v", b.String(), short, err)
	}
	if _, err := Extend(Extension{Policies: []policy.Policy{{}}}); err == nil {
		t.Error("a policy without a name is taken")
	}
}

// TestTracesOfConfigurations: which requests a configuration names, and their moments.
func TestTracesOfConfigurations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.jsonl")
	text := `{"timestamp": 0, "input_length": 100, "output_length": 10, "hash_ids": []}
{"timestamp": 1000, "input_length": 9000, "output_length": 20, "hash_ids": []}
{"timestamp": 2000, "input_length": 300, "output_length": 30, "hash_ids": []}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		sets          string
		requests      int
		input, output float64
		refused       string
	}{
		{"run.trace=" + path, 3, 9400. / 3, 20, ""}, {"run.requests=2 run.trace=" + path, 2, 4550, 15, ""},
		{"run.model=llama-3-8b serving.beyond_context=clip run.trace=" + path, 3, 0, 0, ""},
		{"run.columns=input=a run.trace=openr1", 0, 0, 0, "run.columns"},
		{"traces.prefix_tokens=100 run.trace=" + path, 0, 0, 0, "traces.prefix_tokens"},
		{"run.columns=a run.trace=" + path, 0, 0, 0, "KEY=NAME"},
		{"run.trace=" + path + ".not", 0, 0, 0, "mine.jsonl.not"},
		{"traces.distribution=empirical run.requests=7 run.trace=" + path, 7, 0, 0, ""},
		{"run.trace=openr1 run.requests=50", 50, 0, 0, ""},
		{"run.trace=openr1", DefaultRequests, 0, 0, ""},
		{"arrivals.kind=trace run.trace=openr1", 0, 0, 0, "arrivals.kind"},
	} {
		cfg, err := everything().Load(configs.Options{Sets: strings.Fields(c.sets)})
		if err == nil {
			var m traces.Moments
			var trace *traces.Trace
			if trace, err = LoadTrace(cfg); err == nil {
				m, err = TraceMoments(cfg)
				if len(trace.Requests) != c.requests || m.Requests != c.requests || err != nil {
					t.Errorf("%s: %d requests, moments of %d, want %d; %v", c.sets, len(trace.Requests), m.Requests, c.requests, err)
				}
				if whole := trace.Moments(); !near(m.InputMean, whole.InputMean) || !near(m.OutputMean, whole.OutputMean) || c.input > 0 && (!near(m.InputMean, c.input) || !near(m.OutputMean, c.output)) {
					t.Errorf("%s: %+v, want %+v", c.sets, m, whole)
				}
				if cfg.Serving.BeyondContext == scheduler.BeyondClip && trace.Requests[1].Input+trace.Requests[1].Output != cfg.Model.Context {
					t.Errorf("%+v, clipped to %d tokens", trace.Requests[1], cfg.Model.Context)
				}
			} else if _, same := TraceMoments(cfg); fmt.Sprint(same) != fmt.Sprint(err) {
				t.Errorf("%s: the moments say %v, the trace %v", c.sets, same, err)
			}
		}
		if c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s: %v", c.sets, err)
		} else if c.refused == "" && err != nil {
			t.Error(err)
		}
	}
	// Both systems must hold a request, and the model's context must allow it.
	sets := []string{"run.model=llama-3-8b", "run.trace=" + path, "run.common_to=l3,gpu-only"}
	for more, want := range map[string]int{"model.context=0": 3, "model.context=9020": 3, "model.context=9019": 2, "model.context=330": 2, "model.context=329": 1} {
		cfg, err := everything().Load(configs.Options{Sets: append(sets, more, "serving.beyond_context=refuse")})
		if err != nil {
			t.Fatal(err)
		}
		trace, err := LoadRequests(cfg)
		if err != nil || len(trace.Requests) != want {
			t.Errorf("%s: %+v, want %d requests; %v", more, trace, want, err)
		}
	}
	cfg, err := everything().Load(configs.Options{Sets: append(sets, "model.context=50", "serving.beyond_context=refuse")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LoadRequests(cfg); err == nil || !strings.Contains(err.Error(), "one of the 3 requests of ") {
		t.Error(err)
	}
}
