package plan

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/system"
)

// TestDoubled: what is doubled alone to see whether it binds. A growing queue doubles every target, a missed target only itself, each
// percentile apart. Knobs are doubled if no search chooses them.
func TestDoubled(t *testing.T) {
	cfg, err := system.Load(configs.Options{Sets: []string{"run.system=gpu-only", "run.model=llama-3-8b", "gpu.preset=a100-sxm-80gb", "node.gpus=4", "model.tensor_parallel=2", "batching.max_num_seqs=64",
		"batching.max_num_batched_tokens=1024", "slo.ttft=2s", "slo.tbt=100ms", "slo.p50.e2e=20s", "slo.p90.e2e=30s", "slo.p95.tpot=40ms", "slo.p99.tbt=300ms"}})
	if err != nil {
		t.Fatal(err)
	}
	knobs := []string{"batch limit: batching.max_num_seqs=128", "prefill chunk: batching.max_num_batched_tokens=2048", "smaller chunk: batching.max_num_batched_tokens=256"}
	all := []string{"target TTFT: slo.ttft=4s", "target TBT: slo.tbt=200ms", "target E2E p50: slo.p50.e2e=40s", "target E2E p90: slo.p90.e2e=60s", "target TPOT p95: slo.p95.tpot=80ms", "target TBT p99: slo.p99.tbt=600ms"}
	for _, x := range []struct {
		fails []Failure
		want  []string
	}{
		{nil, all},
		{[]Failure{{queueGrows, 0}}, all},
		{[]Failure{{"TTFT", 0.1}, {queueGrows, 0}}, all},
		{[]Failure{{"TTFT", 0.1}}, all[:1]},
		{[]Failure{{"TBT", 0.1}, {"TPOT", 0.1}}, []string{all[1], all[4], all[5]}},
		{[]Failure{{"E2E p90 is 31000 ms, above its target of 30000 ms", 0}}, all[2:4]},
		{[]Failure{{turnedAway, 0.5}}, nil},
	} {
		for _, searched := range []bool{false, true} {
			var resources, got []string
			for i, m := range doubled(cfg, x.fails, !searched) {
				if i < 4 {
					resources = append(resources, m.name)
				} else {
					got = append(got, m.name+": "+strings.Join(m.sets, " "))
				}
			}
			if names := list.Map(got, func(text string) string { name, _, _ := strings.Cut(text, ":"); return name }); len(names) != len(slices.Compact(slices.Sorted(slices.Values(names)))) {
				t.Errorf("%v: two of %q have one name", x.fails, names)
			}
			want := x.want
			if !searched {
				want = slices.Concat(knobs, want)
			}
			if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(resources, []string{"GPU memory", "GPU compute", "GPU bandwidth", "GPU links"}) {
				t.Errorf("%v: %v and %q, want %q", x.fails, resources, got, want)
			}
		}
	}
}

// TestOwn: the resources of L3 are those of its GPUs and its own.
func TestOwn(t *testing.T) {
	cfg, err := system.Load(configs.Options{Sets: []string{"run.system=l3", "node.ranksets=4", "slo.ttft=2s"}})
	if err != nil {
		t.Fatal(err)
	}
	names := list.Map(doubled(cfg, nil, false), func(m more) string { return m.name })
	if want := []string{"GPU memory", "GPU compute", "GPU bandwidth", "GPU links", "DIMM memory", "ranksets", "link", "target TTFT"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}
