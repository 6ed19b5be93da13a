package main

import (
	"math"
	"testing"
)

// TestKernelTimes: alone takes longest, and for seconds what draws the limit's power is
// slower than for milliseconds, at just that power.
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

// TestModelEnergy: joules are watts of each GPU by time, a token's its share, and one
// token more takes one decode iteration's.
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
