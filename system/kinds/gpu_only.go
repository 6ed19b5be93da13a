package kinds

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/units"
)

// gpuOnlySystem is the GPUs alone.
var gpuOnlySystem = System{
	Name:     "gpu-only",
	Others:   []string{"vllm", "sglang", "tgi", "tensorrt-llm", "orca", "sarathi", "sarathi-serve", "gpu", "gpus", "baseline"},
	Hardware: "KV in pages in the GPU memory that the weights leave; all work on the GPUs",
	Schedule: "continuous batching, prefill first or chunked",
	Source:   "L3, section 6.1; vLLM (Kwon et al., SOSP 2023); Sarathi-Serve (Agrawal et al., OSDI 2024)",
	Sections: "gpu_only, batching",
	Home:     policy.OnGPUs,
	Section:  "gpu_only", Zero: GPUOnly{}, KV: kvOnGPUs, drafts: true, receives: true,
	budget: func(cfg *configs.Config) units.Bytes { return configs.Section[GPUOnly](cfg).kvBudget(cfg) },
	Memory: gpus.Memory, Assemble: assembleGPUOnly, Planning: Planning{Prefill: "gpu_only.policy", VLLM: true},
	Defaults: `
[gpu_only]
policy = "prefill-first" # L3, section 6.1; "chunked-prefill" is what servers do now: TBT, throughput of long prompts
kv_memory = "0B"         # all that gpu.memory_share leaves; a server that was measured logs its own; requests in memory
kv_tokens = 0            # the same in tokens
async_scheduling = false # the paper's systems know what an iteration did when they form the next; TTFT
`,
}

// GPUOnly is the section [gpu_only].
type GPUOnly struct {
	PrefillSpec
	// KVMemory and KVTokens limit the keys and values of a replica within gpu.memory_share, in bytes or in tokens; 0: all that
	// weights and activations leave.
	KVMemory units.Bytes `toml:"kv_memory"`
	KVTokens int         `toml:"kv_tokens"`
	// AsyncScheduling forms each iteration while the one before it runs. Requests that arrive meanwhile, and
	// seats and memory of those that end, count from the next iteration but one.
	AsyncScheduling bool `toml:"async_scheduling"`
}

// Check has the rules of the section [gpu_only].
func (s GPUOnly) Check(c *input.Check) {
	s.PrefillSpec.Check(c)
	c.That(s.KVMemory >= 0, "kv_memory", s.KVMemory, "at least 0B")
	c.That(s.KVTokens >= 0 && s.KVTokens <= 1<<32, "kv_tokens", s.KVTokens, "0 to %d", 1<<32)
	c.That(s.KVMemory == 0 || s.KVTokens == 0, "kv_tokens", s.KVTokens, "0 with %s = %v", input.Key("gpu_only.kv_memory"), s.KVMemory)
}

// kvBudget returns the memory that the configuration gives a replica for keys and values, 0 for all that is free.
func (s GPUOnly) kvBudget(cfg *configs.Config) units.Bytes {
	return max(s.KVMemory, units.Bytes(s.KVTokens)*cfg.Model.KVBytesOnGPUs())
}

// gpuOnly is a system that does everything on the GPUs of a replica.
type gpuOnly struct {
	gpus.GPUs
	flow.Flow
	tier gpus.Tier
}

// assembleGPUOnly builds a replica with continuous batching.
func assembleGPUOnly(n *Setup) Assembly {
	e := &gpuOnly{GPUs: gpus.New(n.Hardware)}
	e.tier = gpus.NewTier(n.Hardware, e.Attends)
	e.Flow = flow.New(n.Hardware, e.tier.Beside("", gpus.OnDevice), n.Running)
	spec := configs.Section[GPUOnly](n.Hardware.Config)
	s := n.Continuous(Continuous{Policy: spec.Policy, Memories: gpus.Memories(n.Hardware), ahead: spec.AsyncScheduling})
	if n.Hardware.GroupReads() {
		s.GroupPrefixes()
	}
	return Assembly{s, e}
}

// Continuous is the parts of continuous batching that differ between systems.
type Continuous struct {
	Policy   string // PrefillFirst or ChunkedPrefill
	Memories batching.Memories
	random   bool            // requests go to random rankset offsets; else to the least loaded
	former   batching.Former // of two sub-batches; nil: the policy's, of one
	adaptive bool            // two sub-batches may run as one
	ahead    bool            // an iteration is formed while the one before runs
}

// batchingPolicy returns a policy of continuous batching by its name.
func batchingPolicy(name string) scheduler.Policy {
	if name == ChunkedPrefill {
		return scheduler.PolicyChunkedPrefill
	}
	return scheduler.PolicyPrefillFirst
}

// Continuous returns a scheduler of continuous batching.
func (n *Setup) Continuous(c Continuous) *batching.Scheduler {
	cfg := n.Hardware.Config
	spec, comm, policy, former := cfg.Scheduler, cfg.Comm, batchingPolicy(c.Policy), c.former
	spec.SubBatches, spec.Adaptive, spec.Chunking, comm.Balance = 2, c.adaptive, true, scheduler.BalanceLeastLoaded
	spec.ChunkMultiple = min(spec.ChunkMultiple, cfg.Batching.MaxBatchTokens)
	if former == nil {
		spec.SubBatches, former = 1, batching.FormerOf(policy, nil)
	}
	if c.random {
		comm.Balance = scheduler.BalanceRandom
	}
	share := 0
	if cfg.Model.DataParallel() {
		share = (cfg.Batching.MaxBatchTokens + cfg.Model.TensorParallel - 1) / cfg.Model.TensorParallel
	}
	return batching.New(batching.Config{
		PromptShare: share, Policy: policy, Scheduler: &spec, Memory: &cfg.Memory, Comm: &comm, Batching: &cfg.Batching,
		PrefillStreak: cfg.Serving.PrefillStreak, Prefilled: prefilled(n.Hardware), Ahead: c.ahead, Speculation: cfg.Serving.Speculation(cfg.Run.Seed), Random: n.stream(streamBalance),
	}, c.Memories, n.Requests, former)
}

// Run runs a batch: first the transfers between memories, then both sub-batches on the GPUs.
func (e *gpuOnly) Run(b *scheduler.Batch, start units.Duration) (units.Duration, error) {
	e.Reset()
	e.tier.Swap(&e.Flow, &b.Moves, start)
	e.tier.Hide(&e.Flow)
	for s := range b.Sub {
		e.DecodeRuns(b.Sub[s].Decode, b.Step)
		g := e.StageRuns(&b.Sub[s])
		if b.Grouped > 0 {
			g = e.StageGroups(&b.Sub[s], b, g)
		}
		g.Lay(&e.Flow, s, flow.OpAttention)
	}
	end, err := e.Flow.Run(start)
	e.tier.Idle = end
	return end, err
}

func (e *gpuOnly) Peak() units.Bandwidth { return e.HBMPeak }
