package plan

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// TestHolds: a run that stops at the first miss too many gives the verdict of the whole run. Requests that are refused, dropped or
// too large miss their targets.
func TestHolds(t *testing.T) {
	ended, held := 0, 0
	deep.Until(t, func() bool { return ended > 0 && held > 0 }, func(t *rapid.T) {
		cfg, err := system.Load(configs.Options{Sets: []string{
			"run.system=" + rapid.SampledFrom([]string{"gpu-only", "l3"}).Draw(t, "system"), "run.model=llama-3-8b", "arrivals.kind=poisson",
			"model.tensor_parallel=" + rapid.SampledFrom([]string{"2", "4"}).Draw(t, "parallel"),
			"slo.ttft=" + rapid.SampledFrom([]string{"100ms", "400ms", "2s"}).Draw(t, "ttft"), "slo.tbt=" + rapid.SampledFrom([]string{"0s", "15ms", "40ms"}).Draw(t, "tbt"),
			"slo.attainment=" + rapid.SampledFrom([]string{"0.5", "0.9", "0.97", "1"}).Draw(t, "attainment"),
			"serving.max_waiting=" + rapid.SampledFrom([]string{"0", "3"}).Draw(t, "waiting"), "serving.deadline=" + rapid.SampledFrom([]string{"0s", "300ms"}).Draw(t, "deadline"),
		}})
		if err != nil {
			t.Fatal(err)
		}
		trace := &traces.Trace{Requests: make([]traces.Request, rapid.IntRange(20, 120).Draw(t, "requests"))}
		for i := range trace.Requests {
			trace.Requests[i] = traces.Request{ID: i, Input: rapid.IntRange(1, 4000).Draw(t, "input"), Output: rapid.IntRange(1, 40).Draw(t, "output")}
		}
		n := len(trace.Requests)
		edges := []int{n/10 - 1, n / 10, n - n/10 - 1, n - n/10} // of the measured requests
		trace.Requests[rapid.SampledFrom(edges).Draw(t, "large")].Input = rapid.SampledFrom([]int{10, 1 << 28}).Draw(t, "length")
		j, err := NewJudge(cfg, trace, nil)
		if err != nil {
			t.Fatal(err)
		}
		rate := rapid.OneOf(rapid.Just(0.01), rapid.Float64Range(0.5, 200)).Draw(t, "rate")
		whole, err := j.run(context.Background(), rate, false)
		if err != nil {
			t.Fatal(err)
		}
		v, err := j.run(context.Background(), rate, true)
		met, requests := v.Met, v.came
		if err != nil || met != whole.Met || requests > int64(len(trace.Requests)) || met && requests != int64(len(trace.Requests)) {
			t.Fatalf("%v after %d of %d requests, %v; the whole run %v with an attainment of %v", met, requests, len(trace.Requests), err, whole.Met, whole.Attainment)
		}
		if met == (len(v.Fails) > 0) || whole.Met == (len(whole.Fails) > 0) {
			t.Fatalf("met %v for %v; the whole run %v for %v", met, v.Fails, whole.Met, whole.Fails)
		}
		if met {
			held++
		} else if requests < int64(len(trace.Requests)) {
			ended++
		}
	})
}
