package system

import (
	"fmt"
	"math"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// TestMemoryShare: every system has gpu.memory_share of what the reserve leaves of its GPUs' memory, less the weights; where
// keys and values are there, they have what the activations of the largest iteration leave, in pages of a layer and head.
func TestMemoryShare(t *testing.T) {
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

// TestMemoryShareBounds: no system has more in its GPUs' memory than the share of it, and a server with a smaller share has no more
// room.
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
