package main

import (
	"math"
	"strings"
	"testing"
)

// TestKernelTimes: a kernel alone takes longest, and one that reaches the power limit is slower for
// seconds than for milliseconds, at exactly that power.
func TestKernelTimes(t *testing.T) {
	for _, c := range []struct {
		name      string
		args      []string
		throttled bool
	}{
		{"large product", []string{"--op", "gemm", "--m", "4096", "--n", "8192", "--k", "8192"}, true},
		{"small product", []string{"--op", "gemm", "--m", "1", "--n", "4096", "--k", "4096"}, false},
		{"decode", []string{"--op", "decode", "--batch", "1", "--context", "512", "--heads", "32", "--kv-heads", "8"}, false},
	} {
		var p prediction
		object(t, &p, append([]string{"gpu", "predict", "--gpu", "h200-sxm", "--json"}, c.args...)...)
		watts := p.Joules / p.Sustained * 1e6
		if p.Time <= p.Graph || p.Sustained < p.Graph || (p.Sustained > p.Graph) != c.throttled || c.throttled != (math.Abs(watts-700) < 5) || watts < 100 || watts > 710 {
			t.Errorf("%s: %+v, %g W", c.name, p, watts)
		}
	}
}

// TestIterationEnergy: joules are each GPU's watts times the time, and the parts add up.
func TestIterationEnergy(t *testing.T) {
	for _, gpus := range []string{"2", "4"} {
		var r iteration
		object(t, &r, "gpu", "iteration", "--gpu", "h200-sxm", "--model", "llama-3-70b", "--tp", gpus, "--batch", "64", "--context", "2048", "--json")
		parts := 0.0
		for _, ms := range r.Parts {
			parts += ms
		}
		if r.GPUs < 2 || !near(r.Joules*1e3, float64(r.GPUs)*r.Watts*r.MS) || !near(parts, r.MS) || r.Watts < 100 || r.Watts > 710 {
			t.Errorf("%+v", r)
		}
	}
}

// TestModelEnergy: joules are each GPU's watts times the time; a token has its share; one token
// more takes one more decode iteration.
func TestModelEnergy(t *testing.T) {
	var r staticBatch
	object(t, &r, "gpu", "model", "--gpu", "h200-sxm", "--model", "opt-66b", "--batch", "16", "--in", "128", "--out", "32", "--json")
	seconds := r.Prefill + r.Decode
	if r.GPUs < 2 || !near(r.Joules, float64(r.GPUs)*r.Watts*seconds) || !near(r.TokenJ*16*32, r.Joules) || r.Watts < 100 || r.Watts > 710 {
		t.Errorf("%+v", r)
	}
	var more staticBatch
	object(t, &more, "gpu", "model", "--gpu", "h200-sxm", "--model", "opt-66b", "--batch", "16", "--in", "128", "--out", "33", "--json")
	var step iteration
	object(t, &step, "gpu", "iteration", "--gpu", "h200-sxm", "--model", "opt-66b", "--batch", "16", "--context", "160", "--all-reduce", "direct", "--json")
	if math.Abs(more.Joules-r.Joules-step.Joules) > 1e-9*r.Joules || math.Abs(more.Decode-r.Decode-step.MS/1e3) > 1e-9*r.Decode {
		t.Errorf("33 tokens %+v, 32 tokens %+v, a step %+v", more, r, step)
	}
}

// TestExtrapolated: kernels, and groups of an iteration, beyond the measured range are named with their share of the time.
func TestExtrapolated(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"predict --op decode --batch 257 --context 4096 --heads 32", "257 requests that decode: measured up to 256"},
		{"predict --op decode --batch 256 --context 4096 --heads 32", ""},
		{"predict --op gemm --m 8193 --n 4096 --k 4096", "8193 rows of a product: measured up to 8192"},
		{"predict --op prefill --chunk 512 --finished 70000 --heads 32", "70512 tokens of a prompt: measured up to 69632"},
		{"iteration --model llama-2-7b --batch 300 --context 512", "decode_attention: 300 requests that decode: measured up to 256"},
	} {
		out := stdout(t, append(append([]string{"gpu"}, strings.Fields(c.args)...), "--gpu", "h200-sxm")...)
		if !strings.Contains(out, c.want) || strings.Contains(out, "extrapolated") != (c.want != "") {
			t.Errorf("%s: %s, want %q", c.args, out, c.want)
		}
	}
	var r iteration
	object(t, &r, "gpu", "iteration", "--gpu", "h200-sxm", "--model", "llama-2-7b", "--batch", "8", "--context", "200000", "--json")
	if want := "200000 tokens of a context: measured up to 131072"; r.Beyond["decode_attention"] != want || r.Beyond["qkv"] != "" {
		t.Errorf("%v, want decode attention's contexts", r.Beyond)
	}
}
