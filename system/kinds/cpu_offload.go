package kinds

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/scheduler/offload"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/hosts"
	"github.com/l3sim/l3sim/units"
)

// cpuOffloadSystem computes part of attention on the host's CPUs.
var cpuOffloadSystem = System{
	Name:     "cpu-offload",
	Others:   []string{"neo", "fastdecode", "offload", "cpu"},
	Hardware: "KV on the GPUs or in the host's memory, a whole request in one place; the host's CPUs compute attention for the latter",
	Schedule: "two sub-batches that overlap the CPUs' attention with the GPUs' work, if faster than the GPUs alone, which batch as gpu-only does",
	Source:   "L3, section 6.1; NEO (Jiang et al., MLSys 2025); FastDecode (He and Zhai, 2024)",
	Sections: "cpu_offload, batching, gpu_only, pcie",
	Host:     true,
	Section:  "cpu_offload", Zero: hosts.CPUOffload{}, KV: flow.Place{Name: "on its GPUs and the host", InGPUs: true}, drafts: true,
	Memory: bothMemories, Assemble: assembleCPUOffload,
	Planning: Planning{Prefill: "gpu_only.policy", Resources: []Resource{dimmMemory, cpuBandwidth, cpuCompute, link}},
	Defaults: `
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

[bands]
cpu_offload.memory_efficiency = [0.7, 0.86] # our choice: up to a fused kernel that reads as fast as STREAM (0.83) on memory that loses less; the CPUs' time
cpu_offload.compute_efficiency = [0.3, 0.8] # our choice, about the assumption; the same
`,
}

// cpuOffload is a system whose host attends for the requests that it holds; the GPUs do all else
// (NEO: Jiang et al., MLSys 2025; FastDecode: He and Zhai, 2024).
type cpuOffload struct {
	gpus.GPUs
	hosts.CPUs
	flow.Flow
	trial          flow.Flow      // for iterations that may not be run
	took, up, down units.Duration // results of Latest
}

// attended returns the sum of the tokens that all heads of the requests on the host attend over
// there, and the batches of heads that attend on the GPUs.
func (e *cpuOffload) attended(requests []scheduler.Decoding, step int64) (tokens int64, near []gpu.DecodeBatch) {
	x := e.Attends.Decode(requests, 0, step)
	for i := range x.Attend {
		c := &x.Attend[i]
		if c.Device != policy.Home {
			continue
		}
		sum := int64(0)
		for _, n := range c.Tokens {
			sum += int64(n)
		}
		tokens += sum * int64(c.Heads) / int64(e.Model.KVHeads)
	}
	return tokens, e.Beside(x)
}

// assembleCPUOffload builds a replica with the scheduler of NEO or FastDecode.
func assembleCPUOffload(n *Setup) Assembly {
	e := &cpuOffload{GPUs: gpus.New(n.Hardware)}
	e.CPUs = hosts.New(n.Hardware, e.GPUs.Attends)
	e.Flow = flow.New(n.Hardware, gpus.BesideGPU("CPU"), n.Running)
	e.trial = flow.New(n.Hardware, gpus.BesideGPU("CPU"), flow.Running{})
	return Assembly{n.offloading(e), e}
}

// offloading returns the scheduler of NEO or FastDecode.
func (n *Setup) offloading(costs offload.Costs) *batching.Scheduler {
	spec, memories := configs.Section[hosts.CPUOffload](n.Hardware.Config), gpus.Memories(n.Hardware)
	memories.HostLedger, memories.AllOnHost = hosts.Ledger(n.Hardware), spec.Policy == hosts.FastDecode
	return n.Continuous(Continuous{Policy: configs.Section[GPUOnly](n.Hardware.Config).Policy, Memories: memories, former: offload.New(costs, spec.MaxDelay)})
}

// bothMemories is the KV memory of one replica on its GPUs and the host, in the same pages. Copies on several GPUs count once.
func bothMemories(h *flow.Hardware) flow.KVMemory {
	both := hosts.Memory(h)
	both.Capacity += gpus.Memory(h).Capacity
	return both
}

// Run runs a batch. With --check the time must be the one that the scheduler was given when it chose
// the batch.
func (e *cpuOffload) Run(b *scheduler.Batch, start units.Duration) (units.Duration, error) {
	down, up := e.fill(&e.Flow, b)
	// A move is booked when it starts.
	e.Flow.Work.Time[flow.OfDown] += down + e.Moved(b.Moves.Down.Tokens)
	e.Flow.Work.Time[flow.OfUp] += up + e.Fetched(b.Moves.Up.Tokens)
	end, err := e.Flow.Run(start)
	if c := e.Check; c != nil && err == nil {
		if told := e.Iteration(b); told != end-start {
			c.Fail(flow.LawIteration, end, "the iteration takes %v, the scheduler was told %v", end-start, told)
		}
	}
	e.took, e.up, e.down = end-start, end-start-up, end-start-down
	return end, err
}

// fill sets the operations of an iteration, and returns the time that its own transfers occupy the
// links. The CPUs' attention occupies the channels.
func (e *cpuOffload) fill(f *flow.Flow, b *scheduler.Batch) (down, up units.Duration) {
	f.Reset()
	down, up = e.transfers(b)
	f.Hide(gpus.OnDown, down+b.Moves.Down.Wait)
	f.Hide(gpus.OnUp, up+b.Moves.Up.Wait)
	for s := range b.Sub {
		sub := &b.Sub[s]
		tokens, near := e.attended(sub.Host, b.Step)
		f.Work.Tokens += int64(e.Model.Layers*e.Model.KVHeads) * tokens
		g := e.Stage(sub, e.DecodeHere(near, sub.Decode, b.Step))
		g.Beside(e.HostAttention(len(sub.Host), tokens), e.Attend(tokens))
		g.Lay(f, s, flow.OpHostAttention)
	}
	if len(f.Iteration.Ops) == 0 { // only moves
		entry := f.Enter(0, gpus.OnGPU, 0, &flow.Use{})
		f.Iteration.Sub[0].Add(f.Iteration.From(entry), 1)
		f.Iteration.Sub[0].Exit = 0
	}
	return down, up
}

// transfers returns the time that an iteration's own transfers occupy the links: down, with vectors
// and prompts that go to the host, and up, with results. Prompts go layer by layer beside the work,
// and the iteration takes at least as long.
func (e *cpuOffload) transfers(b *scheduler.Batch) (down, up units.Duration) {
	prompts := 0
	for s := range b.Sub {
		sub := &b.Sub[s]
		down += e.Down(len(sub.Host))
		up += e.Up(len(sub.Host))
		for i := range sub.Prefill {
			if c := &sub.Prefill[i]; c.Host {
				prompts += c.Tokens
			}
		}
	}
	layers := units.Duration(e.Model.Layers)
	return layers*down + e.Moved(prompts), layers * up
}

// Iteration implements offload.Costs.
func (e *cpuOffload) Iteration(b *scheduler.Batch) units.Duration {
	e.fill(&e.trial, b)
	return e.trial.Engine.Run(&e.trial.Iteration, 0)
}

// Latest implements offload.Costs.
func (e *cpuOffload) Latest() (took, up, down units.Duration) { return e.took, e.up, e.down }

// Linear implements offload.Costs.
func (e *cpuOffload) Linear(tokens int) units.Duration {
	if tokens == 0 {
		return 0
	}
	return e.Sustained(&e.Dense.At(tokens).Block)
}

// Attention implements offload.Costs.
func (e *cpuOffload) Attention(s *scheduler.SubBatch, step int64) units.Duration {
	_, _, w := e.LayerAttention(s, 0, &gpus.Decoding{Batches: e.DecodeHere(e.Batches[:0], s.Decode, step)})
	return e.Sustained(&w)
}

func (e *cpuOffload) Peak() units.Bandwidth { return e.HBMPeak + e.PeakRate }
