package kinds

import (
	"slices"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/llm"
)

// Planning is what a planner of servers needs of a system: the keys that an operator chooses, and the hardware that can be scarce.
// What all systems have need not be named: tensor parallelism, batch limit, admission, and a GPU's memory, compute, bandwidth and
// links.
type Planning struct {
	Prefill   string     // key of the policy that batches prompts, with the values of BatchingPolicies; "" if there is no choice
	Chunk     string     // key of the prompt tokens in an iteration; "" for batching.max_num_batched_tokens
	Knobs     []Knob     // further keys to choose
	Resources []Resource // beside those of the GPUs
	VLLM      bool       // the system is a GPU server that vLLM's flags describe
}

// Knob is a key that an operator chooses, with the values to try.
type Knob struct {
	Key    string
	Values []string
}

// Layouts returns how a replica's GPUs may divide a model other than by heads and columns, as servers do: mixtures by whole experts;
// mixtures and latents, which each GPU would hold whole, also by requests.
func (s *System) Layouts(m *llm.Model) (all []Knob) {
	if s == nil || m == nil {
		return nil
	}
	if s.Home == policy.OnGPUs && (m.LatentDim > 0 || m.Experts > 0) {
		all = append(all, Knob{"model.attention_parallel", []string{llm.TensorAttention, llm.DataAttention}})
	}
	if m.Experts > 0 {
		all = append(all, Knob{"model.expert_parallel", []string{"false", "true"}})
	}
	return all
}

// Resource is hardware of which more may help: keys to be doubled together.
type Resource struct {
	Name string
	Keys []string
}

// chunkKey is the key of the prompt tokens in an iteration for systems that name none.
const chunkKey = "batching.max_num_batched_tokens"

// ChunkKey returns the key of the prompt tokens in an iteration.
func (p *Planning) ChunkKey() string {
	if p.Chunk != "" {
		return p.Chunk
	}
	return chunkKey
}

// gpuResources are those of every system.
var gpuResources = []Resource{
	{"GPU memory", []string{"gpu.memory_capacity"}},
	{"GPU compute", []string{"gpu.peak_16bit", "gpu.peak_8bit"}},
	{"GPU bandwidth", []string{"gpu.memory_bandwidth"}},
	{"GPU links", []string{"gpu.all_reduce.small_bandwidth", "gpu.all_reduce.second_shot_bandwidth", "gpu.all_reduce.flagged_bandwidth", "gpu.all_reduce.bandwidth"}},
}

// Resources of several systems with keys and values on the host's side.
var (
	dimmMemory   = Resource{"DIMM memory", []string{"node.memory_capacity"}}
	ranksets     = Resource{"ranksets", []string{"node.ranksets"}}
	link         = Resource{"link", []string{"pcie.lanes"}}
	cpuBandwidth = Resource{"CPU bandwidth", []string{"node.channels"}}
	cpuCompute   = Resource{"CPU compute", []string{"cpu_offload.cores"}}
)

// AllResources returns all hardware that can be scarce.
func (p *Planning) AllResources() []Resource { return slices.Concat(gpuResources, p.Resources) }

// Uses says whether a key of hardware can matter; of the hardware outside the GPUs, only what the system names
// does.
func (s *System) Uses(key string) bool {
	named := func(r Resource) bool { return slices.Contains(r.Keys, key) }
	switch key {
	case "node.memory_capacity":
		return s.Host
	case "node.ranksets":
		return slices.ContainsFunc(s.Planning.Resources, named)
	}
	return true
}
