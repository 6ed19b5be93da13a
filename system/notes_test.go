package system

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// summaryOf returns a run of a few requests, and its summary.
func summaryOf(t *testing.T, trace *traces.Trace, sets ...string) (*Result, *results.Summary) {
	t.Helper()
	cfg, err := everything().Load(configs.Options{Sets: sets})
	if err != nil {
		t.Fatal(err)
	}
	r, err := mustNode(t, cfg).Run(t.Context(), trace, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Summary(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r, s
}

// notesOf returns the notes of a run of a few requests, joined.
func notesOf(t *testing.T, trace *traces.Trace, sets ...string) string {
	t.Helper()
	_, s := summaryOf(t, trace, sets...)
	notes := strings.Join(slices.Concat(s.Doubts, s.Notes), "; ")
	if s.BeyondBoards != strings.Contains(notes, "DIMMs on a channel") || s.BeyondBoards && !strings.Contains(notes, fmt.Sprintf(" are %d DIMMs", s.DIMMsPerChannel)) || s.DIMMsPerChannel == 0 {
		t.Errorf("%d DIMMs on a channel, beyond boards %v: %s", s.DIMMsPerChannel, s.BeyondBoards, notes)
	}
	return notes
}

// TestNotes: a run's notes name the assumptions behind its numbers, and nothing else.
func TestNotes(t *testing.T) {
	deep.Heavy(t)
	long := &traces.Trace{Name: "long", Requests: []traces.Request{{Input: 100, Output: 9}, {ID: 1, Input: 17_500, Output: 4}, {ID: 2, Input: 18_000, Output: 4}}}
	small := []string{"run.model=opt-66b", "model.context=0", "model.tensor_parallel=2"} // 36 GiB of the GPUs for a cut prompt
	var measured []string                                                                // all kinds of kernels
	for _, key := range []string{"product_rows", "prefill_tokens", "all_reduce_gpus", "small_rows"} {
		measured = append(measured, "gpu.measured."+key+"=1000000")
	}
	for i, c := range []struct {
		trace *traces.Trace
		sets  []string
		want  []string // in the notes; none: no notes
	}{
		{fewRequests(3), nil, nil},
		{fewRequests(3), []string{"run.system=sparse-offload", "policy.name=quest", "run.model=llama-3-8b", "sparse_offload.hit_rate=0.9"},
			[]string{"sparse_offload.hit_rate = 0.9 is an assumption, in a band of 0.7 to 0.98", "10 of 100 chosen rows are fetched in each step and layer of contexts beyond 4096 tokens"}},
		{fewRequests(3), []string{"node.ranksets=6", "dram.preset=ddr4-2933-8gb-x8"}, nil},
		{fewRequests(3), []string{"node.ranksets=6"}, []string{"node.ranksets = 6 are 3 DIMMs on a channel"}},
		{fewRequests(3), []string{"node.ranksets=6", "energy.ranks_per_dimm=1"}, []string{"node.ranksets = 6 are 6 DIMMs on a channel (energy.ranks_per_dimm = 1)"}},
		{fewRequests(3), []string{"node.ranksets=64"}, []string{"node.ranksets = 64 are 32 DIMMs on a channel (energy.ranks_per_dimm = 2): boards of servers have 2 at DDR4-3200 and DDR5, at most 3"}},
		{fewRequests(3), []string{"gpu.preset=h200-sxm", "gpu.name=b300", "gpu.memory_capacity=192GB"}, []string{
			"GPU b300 was never measured: it is h200-sxm with memory_capacity changed ('l3sim run --dry-run' says more)",
			"has no GPU b300: it costs what h200-sxm does, "}},
		{fewRequests(3), append(measured, "gpu.preset=h200-sxm", "gpu.memory_capacity=192GB"), nil}, // the title says it
		{fewRequests(3), []string{"pim.multipliers=8"}, []string{"pim.multipliers = 8 changes nothing: a set of 4 takes a read of 16-bit elements as fast; pim.macs_per_read is"}},
		{fewRequests(3), []string{"pim.multipliers=8", "model.kv_bits=8"}, nil},
		{fewRequests(3), []string{"pim.multipliers=16", "model.kv_bits=8"}, []string{"pim.multipliers = 16 changes nothing: a set of 8 takes a read of 8-bit elements as fast"}},
		{fewRequests(3), []string{"pim.multipliers=3", "model.kv_bits=8"}, nil}, // fewer than are built
		{fewRequests(3), []string{"pim.multipliers=8", "run.system=rank-pim"}, []string{"pim.multipliers = 8 changes nothing: a set of 4 takes"}},
		{fewRequests(3), []string{"pim.multipliers=8", "run.system=gpu-only"}, nil},
		{fewRequests(3), []string{"pim.multipliers=2"}, nil},
		{fewRequests(3), []string{"gpu.preset=h200-sxm"}, []string{"kernels beyond what h200-sxm was measured at take 20.2% of the GPUs' time: all-reduce 20.2% ("}},
		{long, slices.Concat(measured, small, []string{"gpu.memory_capacity=120GiB"}), nil},
		{long, append(small, "scheduler.chunking=false"), []string{"kernels beyond what a100-sxm-80gb was measured at take 91.1% of the GPUs' time: products 69.5%, prefill attention 17.1%, small kernels 4.6% ("}},
		{long, small, []string{"2 prompts of up to 18000 tokens ran whole, as the GPUs have no room for keys and values of a cut one: all that decodes waits for them, TBT p99 "}},
		{long, slices.Concat(measured, small, []string{"scheduler.chunking=false"}), nil}, // nothing would have been cut
	} {
		if len(c.trace.Requests) == 3 && c.trace != long && !strings.Contains(strings.Join(c.want, ""), "kernels beyond") { // known before a run
			cfg, err := everything().Load(configs.Options{Sets: c.sets})
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(Notes(cfg), "; ")
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q: before a run got %q, want %q", c.sets, got, want)
				}
			}
			if len(c.want) == 0 && got != "" {
				t.Errorf("%q: before a run got %s", c.sets, got)
			}
		}
		if !deep.Case(i, 3) {
			continue
		}
		got := notesOf(t, c.trace, c.sets...)
		if len(c.want) == 0 && got != "" {
			t.Errorf("%q: got %s", c.sets, got)
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%q: got %q, want %q", c.sets, got, want)
			}
		}
	}
}

// TestNotesByHand: the note on a GPU that is not in any price list, unless the user gives its price; and the note on prompts that ran whole,
// with the 99th percentile of the gaps.
func TestNotesByHand(t *testing.T) {
	for price, said := range map[string]bool{"0": true, "50000": false} {
		cfg, err := everything().Load(configs.Options{Sets: []string{"gpu.preset=h200-sxm", "gpu.name=b300", "gpu.price=" + price}})
		if err != nil {
			t.Fatal(err)
		}
		if notes := strings.Join(Notes(cfg), "\n"); strings.Contains(notes, "has no GPU b300: it costs what h200-sxm does") != said {
			t.Errorf("at %s USD: %s", price, notes)
		}
	}
	// Notes on further assumptions, and when they are absent: latents, prompts from elsewhere, KV heads for channels, and old prices.
	const latent = "run.model=llama-3-8b model.kv_heads=1 model.head_dim=576 model.latent_dim=512 model.nope_dim=128 model.value_dim=128"
	for _, c := range []struct {
		sets, want string
		said       bool
	}{
		{"run.system=gpu-only gpu.preset=a100-sxm-80gb " + latent, "kernels of latent attention take the parameters of grouped attention", true},
		{"run.system=gpu-only gpu.preset=a100-sxm-80gb run.model=llama-3-8b", "latent attention", false},
		{"run.system=gpu-only run.model=llama-3-8b gpu.fit=h100-sxm.vllm-0.24 model.weight_bits=8", "model.weight_bits = 8 leaves inputs of products at 16 bits (W8A16)", true},
		{"run.system=gpu-only run.model=llama-3-8b gpu.fit=h100-sxm.vllm-0.24 model.weight_bits=8 model.activation_bits=8", "W8A16", false},
		{"run.system=gpu-only run.model=llama-3-8b gpu.fit=h100-sxm.vllm-0.24", "W8A16", false},
		{"run.system=gpu-only run.model=llama-3-8b gpu.preset=a100-sxm-80gb model.weight_bits=8", "W8A16", false},
		{"run.system=gpu-only run.model=llama-3-8b serving.prefill=elsewhere serving.prefill_bandwidth=50GB/s", "prompts are prefilled elsewhere: TTFT is from when a prompt is done there until its keys and values are here, over 50GB/s", true},
		{"run.system=l3 run.model=llama-3-8b model.kv_heads=4 node.channels=8 model.tensor_parallel=1 node.gpus=1", "llama-3-8b has 4 KV heads for the 8 channels of a replica, so that a request has the units of 4: comm.stripe = \"channels\" spreads", true},
		{"run.system=l3 run.model=llama-3-8b model.kv_heads=8 node.channels=8 model.tensor_parallel=1 node.gpus=1", "KV heads for the", false},
		{"run.system=l3 run.model=llama-3-8b model.kv_heads=4 node.channels=8 model.tensor_parallel=1 node.gpus=1 comm.stripe=channels", "KV heads for the", false},
		{"run.system=gpu-only run.model=llama-3-8b model.kv_heads=4 node.channels=8 model.tensor_parallel=1 node.gpus=1", "KV heads for the", false},
		{"gpu.preset=h200-sxm gpu.name=b300 gpu.memory_capacity=192GB gpu.peak_8bit=1PFLOP/s gpu.memory_bandwidth=5TB/s gpu.peak_16bit=1PFLOP/s", "it is h200-sxm with ", true},
		{"gpu.preset=h200-sxm gpu.name=b300 gpu.memory_capacity=192GB gpu.peak_8bit=1PFLOP/s gpu.memory_bandwidth=5TB/s gpu.peak_16bit=1PFLOP/s", "keys changed", false},
		{"gpu.preset=h200-sxm gpu.name=b300 gpu.memory_capacity=192GB gpu.peak_8bit=1PFLOP/s gpu.memory_bandwidth=5TB/s gpu.peak_16bit=1PFLOP/s gpu.sms=100", "it is h200-sxm with 5 keys changed", true},
	} {
		cfg, err := everything().Load(configs.Options{Sets: strings.Fields(c.sets)})
		if err != nil {
			t.Fatal(err)
		}
		if notes := strings.Join(Notes(cfg), "\n"); strings.Contains(notes, c.want) != c.said {
			t.Errorf("%s: %q, %q %v", c.sets, notes, c.want, c.said)
		}
	}
	cfg, err := everything().Load(configs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &Result{trace: &traces.Trace{Name: "x"}}
	r.wholePrompts, r.longestWhole = 2, 18_000
	s := &results.Summary{}
	s.TBT = results.Latency{Mean: 1, P50: 2, P90: 3, P95: 4, P99: 1500, Max: 2750}
	if notes := strings.Join(r.remarks(cfg, s).notes, "\n"); !strings.Contains(notes, "2 prompts of up to 18000 tokens ran whole, ") || !strings.Contains(notes, "waits for them, TBT p99 1.5 s, at most 2.75 s") {
		t.Errorf("%s", notes)
	}
}

// TestTightMemory: if weights take more than 0.75 of a server's usable GPU memory, and keys and values are there, a note has both
// numbers. Of an A100, 79.6 GiB are usable: Llama-2-70B in 8 bits takes 64.7.
func TestTightMemory(t *testing.T) {
	tight := []string{"run.model=llama-2-70b", "model.tensor_parallel=1", "model.weight_bits=8", "node.gpus=1"}
	for _, c := range []struct {
		sets []string
		want string // "" for no note
	}{
		{[]string{"run.system=gpu-only"}, ""},
		{append(tight, "run.system=gpu-only"), "64.7 GiB, "},
		{append(tight, "run.system=cpu-offload"), "64.7 GiB, "},
		{append(tight, "run.system=hbm-pim", "hbm_pim.capacity_share=1"), "64.7 GiB, "},
		{append(tight, "run.system=hbm-pim", "hbm_pim.memory_beside=200GiB"), ""}, // keys and values are in the stacks beside
		{append(tight, "run.system=gpu+cpu"), ""},
		{append(tight, "run.system=gpu-only", "gpu.memory_capacity=94GiB"), ""},
	} {
		cfg, err := everything().Load(configs.Options{Sets: c.sets})
		if err != nil {
			t.Fatalf("%q: %v", c.sets, err)
		}
		got := tightMemory(cfg)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q: %q, want %q", c.sets, got, c.want)
		}
		if got == "" {
			continue
		}
		var weights, share, left float64
		if _, err := fmt.Sscanf(got, "weights take %f GiB, %f%% of the GPU memory that a replica may use, and leave %f GiB", &weights, &share, &left); err != nil {
			t.Fatal(err)
		}
		usable := float64(cfg.GPUMemory(1)) / float64(units.GiB)
		activations := float64(cfg.Model.ActivationBytes(cfg.Batching.MaxBatchTokens)) / float64(units.GiB)
		if math.Abs(share-100*weights/usable) > 0.6 || math.Abs(left-(usable-weights-activations)) > 0.11 {
			t.Errorf("%s: of %.2f GiB, with %.2f of activations", got, usable, activations)
		}
	}
}

// TestExtrapolationNote: shares of the GPUs' time by hand, in every system. If nothing was measured, all time of GPU kernels
// counts; if a kind's range ends below its kernels, only that kind counts, with its time. Runs of every layer give the same.
func TestExtrapolationNote(t *testing.T) {
	deep.Heavy(t)
	trace := &traces.Trace{Name: "one", Requests: []traces.Request{{Input: 700, Output: 40}}}
	nothing := []string{"product_rows", "product_width", "decode_requests", "decode_context", "prefill_tokens", "all_reduce_gpus", "all_reduce_bytes", "small_rows"}
	for _, system := range densely() {
		shares := func(o Options, keys ...string) (share [gpu.Kinds]float64, all float64, note string) {
			sets := []string{"run.system=" + system.Name, "pcie.join=0ps"}
			for _, k := range keys {
				sets = append(sets, "gpu.measured."+k+"=1") // a step of one request is one row: measured
			}
			cfg, err := everything().Load(configs.Options{Sets: sets})
			if err != nil {
				t.Fatal(err)
			}
			r, err := mustNode(t, cfg).Run(t.Context(), trace, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range r.extrapolated {
				all += s
			}
			note, sum := r.extrapolationNote("it")
			if sum != all {
				t.Errorf("a share of %g, not %g", sum, all)
			}
			return r.extrapolated, all, note
		}
		if _, all, note := shares(Options{}); all != 0 || note != "" {
			t.Errorf("%s: within what was measured %g, %q", system.Name, all, note)
		}
		every, all, note := shares(Options{}, nothing...)
		if all <= 0.01 || all > 1 || !strings.HasPrefix(note, "kernels beyond what it was measured at take ") {
			t.Errorf("%s: nothing was measured, %g, %q", system.Name, all, note)
		}
		if exact, _, same := shares(Options{Exact: true}, nothing...); exact != every || same != note {
			t.Errorf("%s: %v, layer by layer %v", system.Name, every, exact)
		}
		for k, key := range map[gpu.Kind]string{gpu.PrefillKernels: "prefill_tokens", gpu.AllReduces: "all_reduce_gpus", gpu.Products: "product_width", gpu.SmallOnes: "small_rows"} {
			alone, sum, _ := shares(Options{}, key)
			if alone[k] != sum || alone[k] != every[k] || sum == 0 {
				t.Errorf("%s: %s alone %v, with all others %v", system.Name, key, alone, every)
			}
		}
	}
}

// TestAllExtrapolated: on a GPU without measurements all kernels exceed the range, and the shares sum to 1.
func TestAllExtrapolated(t *testing.T) {
	cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=gpu-only", "run.model=llama-3-8b", "gpu.preset=rtx-a6000", "model.tensor_parallel=2"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := mustNode(t, cfg).Run(t.Context(), &traces.Trace{Name: "one", Requests: []traces.Request{{Input: 700, Output: 40}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, share := range r.extrapolated {
		sum += share
	}
	if math.Abs(sum-1) > 1e-6 {
		t.Errorf("%v add up to %g", r.extrapolated, sum)
	}
}

// TestDoubts: doubts are separate from mere explanations: kernels far beyond the measured range, requests longer than the model's context,
// a user's GPU (one short sentence), and kinds of models that were never measured.
func TestDoubts(t *testing.T) {
	for _, c := range []struct {
		sets          []string
		doubts, notes string // joined
	}{
		{nil, "", ""},
		{[]string{"node.ranksets=6"}, "", "node.ranksets = 6 are 3 DIMMs"},
		{[]string{"gpu.preset=h200-sxm"}, "kernels beyond what h200-sxm was measured at take 20.2%", ""},
		{[]string{"gpu.preset=h200-sxm", "gpu.name=x", "gpu.memory_capacity=192GB", "gpu.sms=99", "gpu.memory_bandwidth=9TB/s", "gpu.power.idle_w=1", "gpu.power.limit_w=999"},
			"GPU x was never measured: it is h200-sxm with 5 keys changed ('l3sim run --dry-run' says more)", "price list prices-2026-06 has no GPU x"},
		{[]string{"run.model=mixtral-8x7b", "run.system=gpu-only", "gpu.preset=h200-sxm", "gpu.fit=h200-sxm.vllm-0.24"}, "", ""},
		{[]string{"run.model=mixtral-8x7b"}, "of the GPUs' time is of kernels that were never measured on any GPU here ('l3sim support' lists them)", ""},
		{[]string{"run.model=mixtral-8x7b", "model.expert_bits=4"}, "of kernels that were never measured", ""},
	} {
		_, s := summaryOf(t, fewRequests(3), c.sets...)
		doubts, notes := strings.Join(s.Doubts, "; "), strings.Join(s.Notes, "; ")
		if !strings.Contains(doubts, c.doubts) || (doubts == "") != (c.doubts == "") || !strings.Contains(notes, c.notes) {
			t.Errorf("%q: doubts %q, notes %q", c.sets, doubts, notes)
		}
		for _, text := range s.Doubts {
			if len(text) > 240 {
				t.Errorf("%d characters: %s", len(text), text)
			}
		}
	}
}
