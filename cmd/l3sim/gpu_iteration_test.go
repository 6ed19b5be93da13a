package main

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"testing"

	"github.com/l3sim/l3sim/internal/lab/measure"
)

// measuredIterations are of both suites and of one and four GPUs.
const measuredIterations = "../../internal/lab/measure/testdata/h200_iterations"

// object runs a command and reads the JSON object that it prints.
func object(t *testing.T, into any, args ...string) {
	t.Helper()
	var out, messages bytes.Buffer
	if code := run(t.Context(), append([]string{"--quiet"}, args...), &out, &messages); code != exitOK {
		t.Fatalf("%v: exit code %d: %s", args, code, messages.String())
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// near says that two numbers are equal but for rounding.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }

// TestIterationsOfAFile: every row is the iteration that the flags of its shape describe,
// whose parts add up to it, and the errors are those of validate.
func TestIterationsOfAFile(t *testing.T) {
	target := []string{"--gpu", "h200-sxm", "--suite", "pytorch", "--json"}
	var all struct {
		Rows   []measure.Iteration
		Decode measure.Errors `json:"decode_iteration"`
		Energy measure.Errors `json:"iteration_energy"`
	}
	object(t, &all, append([]string{"gpu", "iteration", "--measured", measuredIterations}, target...)...)
	decodes, sum := 0, 0.0
	for _, row := range all.Rows {
		var one iteration
		number := strconv.Itoa
		object(t, &one, append([]string{"gpu", "iteration", "--model", row.Model, "--tp", number(row.GPUs), "--all-reduce", "nccl",
			"--batch", number(row.Batch), "--context", number(row.Context), "--chunk", number(row.Chunk), "--finished", number(row.Finished)}, target...)...)
		parts := 0.0
		for _, ms := range one.Parts {
			parts += ms
		}
		if !near(parts, one.MS) || one.MS != row.MS || one.Joules != row.Joules {
			t.Errorf("%+v: alone %g ms, %g J, parts of %g ms", row, one.MS, one.Joules, parts)
		}
		if !near(row.Error, row.MS/row.MeasuredMS-1) || row.MeasuredJoules == nil || !near(*row.JoulesError, row.Joules / *row.MeasuredJoules - 1) {
			t.Errorf("%+v: wrong errors", row)
		}
		if row.Kind == measure.DecodeIteration {
			decodes++
			sum += row.Error
		}
	}
	if len(all.Rows) != 108 || all.Energy.Points != 108 || decodes != 52 || all.Decode.Points != 52 || !near(all.Decode.Bias, sum/52) {
		t.Errorf("%d rows, %d decode: %+v", len(all.Rows), decodes, all.Decode)
	}
	var judged map[measure.Kind]measure.Errors
	object(t, &judged, append([]string{"gpu", "validate", "--measured", measuredIterations}, target...)...)
	got := judged[measure.DecodeIteration]
	if got.MAPE != all.Decode.MAPE || judged[measure.IterationEnergy].P90 != all.Energy.P90 || judged[measure.Power].Points != 16 {
		t.Errorf("validate: %+v, iteration: %+v", got, all.Decode)
	}
}

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
