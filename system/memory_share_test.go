package system

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// TestMemoryShare: every system has gpu.memory_share of its GPUs' memory after the reserve, minus the weights. If keys and
// values are there, they get what the activations of the largest iteration leave, in pages of a layer and head.
func TestMemoryShare(t *testing.T) {
	deep.Heavy(t)
	for _, name := range []string{"l3", "gpu-only", "hbm-pim", "rank-pim", "cpu-offload", "gpu+cpu"} {
		for _, share := range []float64{1, 0.9} {
			sets := []string{"run.system=" + name, "run.model=llama-3-8b", "node.gpus=2", "model.tensor_parallel=2", fmt.Sprint("gpu.memory_share=", share)}
			if name == "gpu+cpu" {
				sets = append(sets, "policy.name=window")
			}
			cfg := mustLoad(t, sets...)
			n := mustNode(t, cfg)
			m, usable := &cfg.Model, cfg.GPU.MemoryCapacity-cfg.GPU.MemoryReserve
			if share < 1 {
				usable = units.Bytes(float64(usable) * share)
			}
			free := 2*usable - m.WeightBytes()
			if got := n.FreeGPUMemory(); got != free {
				t.Errorf("%s with a share of %v: %v free beside the weights, want %v", name, share, got, free)
			}
			if name != "gpu-only" && name != "hbm-pim" {
				continue
			}
			page := units.Bytes(cfg.Batching.PageTokens) * m.KVBytesPerToken() / units.Bytes(m.Layers*m.KVHeads)
			if got, want := n.memory.Capacity, int64((free-m.ActivationBytes(cfg.Batching.MaxBatchTokens))/page); got != want || n.memory.Unit != page {
				t.Errorf("%s with a share of %v: %d pages of %v, want %d of %v", name, share, got, n.memory.Unit, want, page)
			}
		}
	}
}

// TestSampler: gpt-oss-120b on one H100 of 79.1 GiB, from servers' logs: 65.97 GiB loaded, and 1.71 GiB left for keys and values with
// a share of 0.95 and 1,024 tokens an iteration. vLLM 0.10 has 1,024 requests on an H100, and sorts their logits over 201,088 tokens.
// The sampler's tensors take 7.29 GiB, more than the activations of 1,024 and of 8,192 tokens, which reuse that memory.
func TestSampler(t *testing.T) {
	oss := []string{"run.system=gpu-only", "node.gpus=1", "gpu.preset=h100-sxm", "model.name=gpt-oss-120b", "model.layers=36", "model.hidden=2880", "model.heads=64", "model.kv_heads=8",
		"model.head_dim=64", "model.ffn_hidden=2880", "model.gated_ffn=true", "model.experts=128", "model.active_experts=4", "model.expert_bits=4", "model.vocab=201088",
		"model.tied_embedding=false", "model.max_positions=0", "model.context=131072", "model.tensor_parallel=1", "model.expert_tile_hidden=256", "model.expert_tile_ffn=128",
		"gpu.memory_share=0.95"}
	left := func(tokens, requests, bytes int) float64 {
		n := mustNode(t, mustLoad(t, append(oss, fmt.Sprint("batching.max_num_batched_tokens=", tokens), fmt.Sprint("batching.max_num_seqs=", requests), fmt.Sprint("batching.sampler_bytes=", bytes))...))
		return float64(n.memory.Capacity) * float64(n.memory.Unit) / float64(units.GiB)
	}
	const sampler = 1024. * 201088 * 38 / (1 << 30)
	free := left(1, 1, 0)
	for _, c := range []struct {
		tokens, requests, bytes int
		want                    float64
	}{
		{1024, 1024, 38, free - sampler}, {8192, 1024, 38, free - sampler}, {8192, 256, 38, free - sampler/4}, {512, 1024, 38, free - sampler/2}, {1024, 0, 38, free - sampler}, // no limit: one for each token
	} {
		if got := left(c.tokens, c.requests, c.bytes); math.Abs(got-c.want) > 0.01 {
			t.Errorf("%+v: %.3f GiB left", c, got)
		}
	}
	if got := left(1024, 1024, 38); math.Abs(got-1.71) > 0.6 {
		t.Errorf("%.2f GiB left, logged 1.71", got)
	}
	if few, many := left(1024, 1024, 0), left(8192, 1024, 0); few < 9 || many >= few {
		t.Errorf("without a sampler %.2f and %.2f GiB left", few, many)
	}
	if _, err := everything().Load(configs.Options{Sets: append(oss, "batching.max_num_seqs=2048", "batching.max_num_batched_tokens=2048", "batching.sampler_bytes=38")}); err == nil || !strings.Contains(err.Error(), "batching.sampler_bytes = 38: expected tensors of a sampler of batching.max_num_seqs requests that leave room") {
		t.Error(err)
	}
}

// TestMemoryShareOfUnits: units that take a quarter of the memory leave the server a share of the rest; the stacks beside the
// GPUs have no share.
func TestMemoryShareOfUnits(t *testing.T) {
	of := func(sets ...string) *Node {
		return mustNode(t, mustLoad(t, append([]string{"run.system=hbm-pim", "run.model=llama-3-8b", "node.gpus=1", "gpu.memory_share=0.9", "hbm_pim.capacity_share=0.75"}, sets...)...))
	}
	n := of()
	g := &n.cfg.GPU
	left := units.Bytes(float64(units.Bytes(float64(g.MemoryCapacity)*0.75)-g.MemoryReserve) * 0.9)
	if got, want := n.FreeGPUMemory(), left-n.cfg.Model.WeightBytes(); got != want {
		t.Errorf("%v free, want %v", got, want)
	}
	if some, all := of("hbm_pim.memory_beside=80GiB").memory, of("hbm_pim.memory_beside=80GiB", "gpu.memory_share=1").memory; some != all {
		t.Errorf("beside the GPUs: %+v, with all of the GPUs' memory %+v", some, all)
	}
}

// TestMemoryShareBounds: no system uses more of its GPUs' memory than the share, and a smaller share never leaves more room.
func TestMemoryShareBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawBaseline(t)
		name := rapid.SampledFrom([]string{"l3", "gpu-only", "hbm-pim", "rank-pim", "cpu-offload"}).Draw(t, "system")
		share := rapid.Float64Range(0.3, 1).Draw(t, "share")
		whole := d.node(t, name)
		sets := append(d.sets, "run.system="+name, fmt.Sprint("gpu.memory_share=", share))
		cfg, err := everything().Load(configs.Options{Sets: sets})
		if err != nil {
			return // the weights alone take more
		}
		n, err := NewNode(cfg)
		if err != nil {
			t.Fatal(err)
		}
		used := cfg.Model.WeightBytes() + cfg.Model.ActivationBytes(cfg.Batching.MaxBatchTokens)
		if n.system.KV.InGPUs {
			used += units.Bytes(n.memory.Capacity) * n.memory.Unit
		} else {
			used = cfg.Model.WeightBytes() + n.FreeGPUMemory()
		}
		most := float64(cfg.Model.TensorParallel) * share * float64(cfg.GPU.MemoryCapacity)
		if float64(used) > math.Nextafter(most, math.Inf(1)) || n.FreeGPUMemory() > whole.FreeGPUMemory() || n.memory.Capacity > whole.memory.Capacity {
			t.Fatalf("%s uses %v of %v, with a share of %v", name, used, units.Bytes(most), share)
		}
	})
}
