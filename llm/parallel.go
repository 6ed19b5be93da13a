package llm

import "github.com/l3sim/l3sim/input"

// Parallel says how the GPUs of a replica share layers. The zero value is tensor parallelism: heads, columns of networks and columns of
// each expert are divided over all GPUs.
type Parallel struct {
	// AttentionParallel is "tensor" (also "") or "data". With "data", each GPU computes attention for its own requests: it has all heads
	// and attention weights, and only its requests' keys and values (SGLang's --enable-dp-attention). The GPU with the most requests sets
	// the time. Networks stay divided, unless experts are parallel: then each GPU has dense networks and shared experts whole.
	AttentionParallel string `toml:"attention_parallel,optional"`
	// ExpertParallel assigns whole experts to GPUs, instead of columns of each (vLLM's --enable-expert-parallel). The GPU with the most
	// rows sets the time. With attention_parallel = "data", tokens go to the GPUs of their experts and back in all-to-all transfers.
	ExpertParallel bool `toml:"expert_parallel,optional"`
}

// Values of AttentionParallel.
const (
	TensorAttention = "tensor"
	DataAttention   = "data"
)

func (p *Parallel) check(c *input.Check, m *Model) {
	if p.AttentionParallel != "" {
		input.OneOf(c, "attention_parallel", p.AttentionParallel, TensorAttention, DataAttention)
	}
	c.That(!p.ExpertParallel || m.Experts > 0, "expert_parallel", p.ExpertParallel, "false without %s", input.Key("model.experts"))
	c.That(!p.ExpertParallel || m.Experts%max(1, m.TensorParallel) == 0, "expert_parallel", p.ExpertParallel, "false with %s = %d, which does not divide %s = %d",
		input.Key("tensor_parallel"), m.TensorParallel, input.Key("experts"), m.Experts)
}

// DataParallel reports whether each GPU computes attention for its own requests.
func (m *Model) DataParallel() bool {
	return m.AttentionParallel == DataAttention && m.TensorParallel > 1
}

// WholeNetworks reports whether each GPU has dense networks and shared experts whole.
func (m *Model) WholeNetworks() bool { return m.DataParallel() && m.ExpertParallel }

// expertShards returns the number of GPUs over which the columns of an expert are divided.
func (m *Model) expertShards() int {
	if m.ExpertParallel {
		return 1
	}
	return m.TensorParallel
}
