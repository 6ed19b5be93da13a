package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
)

// TestLayouts: for a mixture with latent attention a search tries expert parallelism and data-parallel attention on the GPUs, and chooses both if they
// give a higher rate than heads and columns over the GPUs.
func TestLayouts(t *testing.T) {
	deep.Heavy(t)
	o := configs.Options{Sets: []string{
		"run.system=gpu-only", "run.model=deepseek-v3", "model.layers=5", "model.dense_layers=1", "gpu.preset=h200-sxm", "node.gpus=8", "model.tensor_parallel=8", "run.requests=400",
		"gpu_only.policy=chunked-prefill", "batching.max_num_batched_tokens=4096", "batching.max_num_seqs=1024", "memory.admission=max", "arrivals.kind=poisson",
		"slo.ttft=2s", "slo.tbt=100ms", "run.trace=synthetic", "traces.input_mean=1000", "traces.input_std=300", "traces.output_mean=100", "traces.output_std=30",
	}}
	best := func(sets ...string) *Row {
		t.Helper()
		o := o
		o.Sets = slices.Concat(o.Sets, sets)
		return rowOf(t, &Search{Precision: 0.02, Tune: true}, o)
	}
	const heads, columns = "model.attention_parallel=tensor", "model.expert_parallel=false"
	found, plain := best(), best(heads, columns)
	t.Log(found.Highest, plain.Highest, found.Sets)
	if found.Highest < 1.1*plain.Highest || len(plain.Sets) > 0 || len(found.Sets) != 3 || found.Sets[2] != "gpu.memory_share=0.9" || slices.Contains(found.Sets, heads) || slices.Contains(found.Sets, columns) {
		t.Errorf("%v: %.4g requests/s, and %.4g with heads and columns over the GPUs", found.Sets, found.Highest, plain.Highest)
	}
	if want := "--tensor-parallel-size 1 --max-num-batched-tokens 512 --max-num-seqs 128 --gpu-memory-utilization 0.9 --kv-cache-dtype auto --data-parallel-size 8 --enable-expert-parallel"; !strings.HasPrefix(found.VLLM, want) {
		t.Error(found.VLLM)
	}
	if slices.ContainsFunc(found.Notes, func(note string) bool { return strings.Contains(note, "a server of vLLM by itself") }) {
		t.Errorf("of one replica: %q", found.Notes)
	}
}

// TestServersOfMixture: replicas of a mixture are separate servers, since vLLM's data parallelism shares its experts; those of a dense model are one.
func TestServersOfMixture(t *testing.T) {
	for model, want := range map[string]int{"qwen3-30b-a3b": 1, "llama-3-8b": 0} {
		o := configs.Options{Sets: []string{
			"run.system=gpu-only", "run.model=" + model, "model.layers=1", "node.gpus=2", "model.tensor_parallel=1", "run.requests=50", "arrivals.kind=poisson", "arrivals.rate_per_s=1", "slo.ttft=2s",
			"run.trace=synthetic", "traces.input_mean=100", "traces.output_mean=10",
		}}
		row := rowOf(t, &Search{Precision: 0.5}, o)
		count := 0
		for _, note := range row.Notes {
			if strings.HasSuffix(note, "each of the 2 replicas of a mixture is a server of vLLM by itself") {
				count++
			}
		}
		if count != want {
			t.Errorf("%s: %q", model, row.Notes)
		}
	}
}
