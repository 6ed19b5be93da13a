package system

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/forming"
	"github.com/l3sim/l3sim/scheduler/offload"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/units"
)

// cpuOffloadSystem has part of attention on the host's CPUs.
var cpuOffloadSystem = System{
	Name:     "cpu-offload",
	Hardware: "KV on the GPUs or in the host's memory, a request whole; the host's CPUs attend for what is there",
	Schedule: "two sub-batches, the CPUs' attention under the GPUs' work, where that is faster than the GPUs alone, which batch as gpu-only does",
	Source:   "L3, section 6.1; NEO (Jiang et al., MLSys 2025); FastDecode (He and Zhai, 2024)",
	Sections: "cpu_offload, batching, gpu_only, pcie",
	Host:     true,
	section:  "cpu_offload", zero: CPUOffload{}, kv: place{name: "on its GPUs and the host", inGPUs: true},
	memory: bothMemories, assemble: assembleCPUOffload,
	defaults: `
[cpu_offload]
policy = "neo"            # Jiang et al., MLSys 2025; "fastdecode" has all decode attention on the CPUs
cores = 128               # DGX A100: two EPYC 7742 of 64 cores; compute of decode attention, which memory bounds
core_flops = "72GFLOP/s"  # 2.25 GHz x 2 FMA units x 8 FP32 lanes x 2 (AMD EPYC 7742, Zen 2); the same
compute_efficiency = 0.5  # our assumption; the same
element_time = "390ps"    # BF16 by PyTorch's kernel on 16 cores of a Xeon (host_cpu.csv; its FP16 takes 631ps); KV of 8 bits, as long as it takes less than reading
memory_efficiency = 0.8   # STREAM's 339 of 410 GB/s on two EPYC 7742 (VMware, September 2020) times the 0.95 that FP32 attention reaches of a stream (host_cpu.csv); the CPUs' time
overhead = "20us"         # our assumption: waking and joining the threads of a parallel region, at most 324us by host_cpu.csv; small CPU batches
host_memory_share = 1.0   # of node.memory_capacity, for KV; requests that the CPUs can hold; 0 leaves the GPUs alone
max_delay = 0.03          # our assumption: an operator hardly sees this delay; how often requests of the host that do not hide get a token
`,
}

// cpuOffload is a system whose host attends for the requests that it holds, beside
// the GPUs, which do all else (NEO: Jiang et al., MLSys 2025; FastDecode: He and
// Zhai, 2024).
type cpuOffload struct {
	gpuSide
	hostCPUs
	flow
	trial flow // of iterations that may not be run
}

// attended returns the tokens that all heads of the requests on the host attend over
// there, added up, and the batches of heads that attend on the GPUs.
func (e *cpuOffload) attended(requests []scheduler.Decoding, step int64) (tokens int64, near []gpu.DecodeBatch) {
	x := e.decode(requests, 0, step)
	for i := range x.Attend {
		c := &x.Attend[i]
		if c.Device != policy.Home {
			continue
		}
		sum := int64(0)
		for _, n := range c.Tokens {
			sum += int64(n)
		}
		tokens += sum * int64(c.Heads) / int64(e.model.KVHeads)
	}
	return tokens, e.beside(x)
}

// assembleCPUOffload puts together a replica with the scheduler of NEO or FastDecode.
func assembleCPUOffload(n *setup) assembly {
	e := &cpuOffload{gpuSide: newGPUSide(n.hardware)}
	e.hostCPUs = newHostCPUs(n.hardware, e.gpuSide.attends)
	e.flow = newFlow(n.hardware, besideGPU("CPU"), n.running)
	e.trial = newFlow(n.hardware, besideGPU("CPU"), running{})
	return assembly{n.offloading(e), e}
}

// offloading returns the scheduler of NEO or FastDecode.
func (n *setup) offloading(costs offload.Costs) *forming.Scheduler {
	spec, memories := configs.Section[CPUOffload](n.Config), gpuMemories(n.hardware)
	memories.HostLedger, memories.AllOnHost = hostLedger(n.hardware), spec.Policy == FastDecode
	return n.continuous(continuous{policy: configs.Section[GPUOnly](n.Config).Policy, memories: memories, former: offload.New(costs, spec.MaxDelay)})
}

// bothMemories is the KV memory of one replica on its GPUs and the host, in the same
// pages.
func bothMemories(h *hardware) kvMemory {
	near := gpuMemory(h)
	return kvMemory{near.unit, near.capacity + hostPages(h)}
}

// Run runs a batch. Under --check the time must be what the scheduler was told when it chose the batch.
func (e *cpuOffload) Run(b *scheduler.Batch, start units.Duration) (units.Duration, error) {
	down, up := e.fill(&e.flow, b)
	// A move is counted where it starts.
	e.flow.work.time[ofDown] += down + e.moves(&b.Moves.Down)
	e.flow.work.time[ofUp] += up + e.moves(&b.Moves.Up)
	end, err := e.flow.run(start)
	if c := e.check; c != nil && err == nil {
		if told := e.Iteration(b); told != end-start {
			c.fail(LawIteration, end, "the iteration takes %v, the scheduler was told %v", end-start, told)
		}
	}
	return end, err
}

// fill sets the operations of an iteration, and returns for how long its own transfers
// keep the links busy. The CPUs' attention keeps the channels busy.
func (e *cpuOffload) fill(f *flow, b *scheduler.Batch) (down, up units.Duration) {
	f.reset()
	down, up = e.transfers(b)
	f.hide(onDown, down+b.Moves.Down.Wait)
	f.hide(onUp, up+b.Moves.Up.Wait)
	for s := range b.Sub {
		sub := &b.Sub[s]
		tokens, near := e.attended(sub.Host, b.Step)
		f.work.tokens += int64(e.model.Layers*e.model.KVHeads) * tokens
		g := e.stage(sub, e.decodeHere(near, sub.Decode, b.Step))
		g.beside(e.HostAttention(len(sub.Host), tokens), e.attend(tokens))
		g.lay(f, s, opHostAttention)
	}
	if len(f.it.Ops) == 0 { // nothing but moves
		entry := f.enter(0, onGPU, 0, &gpuUse{})
		f.it.Sub[0].Layers = append(f.it.Sub[0].Layers, dataflow.Layers{Range: dataflow.Range{From: entry, To: int32(len(f.it.Ops))}, Count: 1})
		f.it.Sub[0].Exit = 0
	}
	return down, up
}

// transfers returns how long an iteration keeps the links busy with its own: down with
// vectors and prompts that go to the host, up with results. Prompts go beside the
// work, layer by layer, and the iteration takes at least as long.
func (e *cpuOffload) transfers(b *scheduler.Batch) (down, up units.Duration) {
	prompts := 0
	for s := range b.Sub {
		sub := &b.Sub[s]
		down += e.down(len(sub.Host))
		up += e.up(len(sub.Host))
		for i := range sub.Prefill {
			if c := &sub.Prefill[i]; c.Host {
				prompts += c.Tokens
			}
		}
	}
	layers := units.Duration(e.model.Layers)
	return layers*down + e.moved(prompts), layers * up
}

// moves returns the time of requests on the links.
func (e *cpuOffload) moves(m *scheduler.Move) units.Duration {
	return e.moved(m.Tokens)
}

// Iteration implements scheduler.OffloadCosts.
func (e *cpuOffload) Iteration(b *scheduler.Batch) units.Duration {
	e.fill(&e.trial, b)
	return e.trial.engine.Run(&e.trial.it, 0)
}

// Idle implements scheduler.OffloadCosts.
func (e *cpuOffload) Idle(b *scheduler.Batch) (up, down units.Duration) {
	took := e.Iteration(b)
	busyDown, busyUp := e.transfers(b)
	return took - busyUp, took - busyDown
}

// Linear implements scheduler.OffloadCosts.
func (e *cpuOffload) Linear(tokens int) units.Duration {
	if tokens == 0 {
		return 0
	}
	return e.sustained(&e.dense.at(tokens).block)
}

// Attention implements scheduler.OffloadCosts.
func (e *cpuOffload) Attention(s *scheduler.SubBatch, step int64) units.Duration {
	_, _, w := e.layerAttention(s, 0, &decoding{batches: e.decodeHere(e.gpus[:0], s.Decode, step)})
	return e.sustained(&w)
}

func (e *cpuOffload) Peak() units.Bandwidth { return e.hbmPeak + e.peakRate }
