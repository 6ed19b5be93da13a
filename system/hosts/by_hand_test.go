package hosts_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/system/flow"
	. "github.com/l3sim/l3sim/system/hosts"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/units"
)

// hostOf returns the host of Llama 2 7B (32 heads of 128 elements, 32 layers) and its hardware. It has 64 cores of 10 GFLOP/s, of which attention
// reaches half, 320 GFLOP/s in all. It has eight channels of 25.6 GB/s, of which attention reaches 0.8, 163.84 GB/s.
func hostOf(t *testing.T, sets ...string) (CPUs, *flow.Hardware) {
	t.Helper()
	cfg, err := kinds.Loader().Load(configs.Options{Sets: append([]string{"run.system=cpu-offload", "run.model=llama-2-7b", "node.gpus=1", "model.tensor_parallel=1", "node.channels=8", "dram.preset=ddr4-3200-8gb-x8",
		"cpu_offload.cores=64", "cpu_offload.core_flops=10GFLOP/s", "cpu_offload.compute_efficiency=0.5", "cpu_offload.memory_efficiency=0.8", "cpu_offload.element_time=0ps", `cpu_offload.overhead="3us"`}, sets...)})
	if err != nil {
		t.Fatal(err)
	}
	h := kinds.Of(cfg).Derive(cfg)
	return New(h, flow.NewAttends(h)), h
}

// TestHostAttentionByHand: in a layer, a token has 16 KiB of keys and values and takes 4·4,096
// FLOPs.
func TestHostAttentionByHand(t *testing.T) {
	near := func(what string, got units.Duration, want float64) {
		t.Helper()
		if math.Abs(got.Seconds()-want) > 1e-9*want+2e-12 {
			t.Errorf("%s: %v, by hand %v s", what, got, want)
		}
	}
	c, _ := hostOf(t)
	near("memory", c.Attend(1000), 16.384e6/163.84e9)
	near("new tokens", c.AttendNew(7, 1000), 7*4*4096*1000/320e9)
	near("one new token", c.AttendNew(1, 1000), 16.384e6/163.84e9)
	near("bytes of a pass", c.Pass(&policy.Pass{Bytes: 163_840_000, FLOPs: 1000}), 1e-3)
	near("operations of a pass", c.Pass(&policy.Pass{Bytes: 1000, FLOPs: 320_000_000}), 1e-3)
	class := policy.Class{Heads: 32, Tokens: []int{1000, 1, 1}}
	near("a class", c.AttendClass(&class), 1002*16384/163.84e9)
	const one = 4. * 4096 / 320e9 * 64 / 32 // seconds of a token and head on a core
	class.Whole = true                      // 96 tasks on 64 cores: two of some
	near("whole heads", c.AttendClass(&class), 2*1000*one)
	class.Tokens[2] = 0 // 64 tasks
	near("one head each", c.AttendClass(&class), 1000*one)
	class.Longest = 5000
	near("one longer head", c.AttendClass(&class), 5000*one)
	slow, _ := hostOf(t, "cpu_offload.core_flops=1GFLOP/s")
	near("slow cores", slow.Attend(1000), 4*4096*1000/32e9)
	narrow, _ := hostOf(t, `cpu_offload.element_time="10ns"`)
	near("elements", narrow.Attend(1000), 1000*8192*10e-9/64)
	near("elements of a pass", narrow.Pass(&policy.Pass{FLOPs: 320_000, Elements: 64_000}), 1e-6+64_000*10e-9/64)
	drafts, _ := hostOf(t, "serving.verified_tokens=4", "serving.acceptance=0.5")
	near("verified tokens", drafts.Attend(1000), 4*4*4096*1000/320e9)
	near("new tokens beside drafts", drafts.AttendNew(7, 1000), 7*4*4096*1000/320e9)
	two, _ := hostOf(t, "node.gpus=2") // replicas
	near("half of the memory", two.Attend(1000), 2*16.384e6/163.84e9)
	near("half of the cores", two.AttendNew(7, 1000), 2*7*4*4096*1000/320e9)
	shared, _ := hostOf(t, "node.gpus=2", `cpu_offload.element_time="10ns"`)
	near("elements on half of the cores", shared.Attend(1000), 1000*8192*10e-9/32)
}

// TestHostLinksByHand: q, k and v of a request have 3·4,096 elements of two bytes, its result a third of that. A token has 16 KiB in each of 32
// layers.
func TestHostLinksByHand(t *testing.T) {
	c, h := hostOf(t, `pcie.latency="2us"`)
	over := func(bytes units.Bytes) units.Duration { return flow.TransferTime(c.Link, bytes) }
	if c.Link != h.Links() || c.Latency != 2*units.Microsecond || c.Overhead != 3*units.Microsecond || c.Around != 2*c.Latency+h.Config.PCIe.Wake+h.Join() {
		t.Errorf("%+v", c)
	}
	for what, x := range map[string][2]units.Duration{
		"down": {c.Down(5), over(5 * 24576)}, "up": {c.Up(5), over(5 * 8192)}, "moved": {c.Moved(7), over(7 * 32 * 16384)}, "fetched": {c.Fetched(7), over(7 * 32 * 16384)},
		"move": {c.Move(7), 2*units.Microsecond + over(7*32*16384)}, "fetch": {c.Fetch(7), 2*units.Microsecond + over(7*32*16384)},
		"attention": {c.HostAttention(5, 1000), c.Around + over(5*24576) + 3*units.Microsecond + c.Attend(1000) + over(5*8192)}, "nothing": {c.HostAttention(0, 1000), 0},
	} {
		if x[0] != x[1] {
			t.Errorf("%s: %v, by hand %v", what, x[0], x[1])
		}
	}
	// A model with one KV head on two GPUs: both hold it, and what moves up goes to both.
	twice, g := hostOf(t, "node.gpus=2", "model.tensor_parallel=2", "model.kv_heads=1")
	if copies := g.Config.Model.KVReplicas(); copies != 2 || twice.Fetched(1<<20) < 2*twice.Moved(1<<20)-1 || twice.Fetched(1<<20) > 2*twice.Moved(1<<20)+1 {
		t.Errorf("%d copies: %v up, %v down", copies, twice.Fetched(1<<20), twice.Moved(1<<20))
	}
}

// TestHostPagesByHand: a quarter of 64 GiB has 2 Mi pages of 8 KiB, each of 16 tokens of a head and layer. Each of two replicas has half
// of the pages.
func TestHostPagesByHand(t *testing.T) {
	for replicas := int64(1); replicas <= 2; replicas++ {
		_, h := hostOf(t, "node.memory_capacity=64GiB", "cpu_offload.host_memory_share=0.25", "batching.page_tokens=16", fmt.Sprint("node.gpus=", replicas))
		want := int64(2<<20) / replicas
		if got := Pages(h); got != want || Memory(h) != (flow.KVMemory{Unit: 8 * units.KiB, Capacity: want}) || Ledger(h).Capacity() != want {
			t.Errorf("%d replicas: %d pages, %+v, by hand %d", replicas, got, Memory(h), want)
		}
	}
}

// TestOffloadKeys: each key out of its range is an error of its own.
func TestOffloadKeys(t *testing.T) {
	for key, change := range map[string]func(s *CPUOffload){
		"": func(*CPUOffload) {}, "policy": func(s *CPUOffload) { s.Policy = "all" }, "cores": func(s *CPUOffload) { s.Cores = 0 }, "core_flops": func(s *CPUOffload) { s.CoreFLOPS = 0 },
		"compute_efficiency": func(s *CPUOffload) { s.ComputeEfficiency = 1.1 }, "memory_efficiency": func(s *CPUOffload) { s.MemoryEfficiency = -1 }, "element_time": func(s *CPUOffload) { s.ElementTime = -1 },
		"overhead": func(s *CPUOffload) { s.Overhead = -1 }, "host_memory_share": func(s *CPUOffload) { s.HostMemory = 1.5 }, "max_delay": func(s *CPUOffload) { s.MaxDelay = 2 },
	} {
		s := CPUOffload{Policy: NEO, Cores: 1, CoreFLOPS: 1, ComputeEfficiency: 1, MemoryEfficiency: 1, ElementTime: units.Second, HostMemory: 1, MaxDelay: 1}
		change(&s)
		if faults := input.Faults(s); (len(faults) == 0) != (key == "") || len(faults) > 0 && faults[0].Key != key {
			t.Errorf("%+v: %v, want %q", s, faults, key)
		}
	}
}
