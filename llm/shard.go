package llm

import (
	"fmt"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Tensor parallelism deals the heads of attention to GPUs. KV heads that are fewer than the GPUs are replicated: as
// many GPUs hold each, as vLLM has it, and share its query heads. Where these do not divide, a GPU has one more than
// another, or zeros in their place (NxD Inference pads: gqa.py, REPLICATE_TO_TP_DEGREE; vLLM refuses). Either way
// the GPU with most heads sets the time, and the memory of all counts as much as its own.

// SplitsOver says whether a number of GPUs can share the heads: it divides the KV heads, or is a multiple of them
// that leaves a query head for each GPU.
func (m *Model) SplitsOver(gpus int) bool {
	if m.AttentionParallel == DataAttention {
		return gpus > 0
	}
	splits := func(kv int) bool { return kv%gpus == 0 || gpus%kv == 0 && gpus <= m.Heads }
	return gpus > 0 && splits(m.KVHeads) && splits(m.HeadsOf(true).KV)
}

// Splits says in an error which numbers of GPUs can share the heads.
func (m *Model) Splits() string {
	format, args := m.splits()
	return fmt.Sprintf(format, args...)
}

func (m *Model) splits() (format string, args []any) {
	format, args = "a divisor of %s = %d", []any{input.Key("kv_heads"), m.KVHeads}
	if m.Heads < 2*m.KVHeads {
		return format, args
	}
	return format + ", or a multiple of it up to %s = %d", append(args, input.Key("heads"), m.Heads)
}

// KVReplicas returns how many GPUs of a replica of the model hold each KV head.
func (m *Model) KVReplicas() int {
	if m.DataParallel() {
		return 1
	}
	return max(1, m.TensorParallel/max(1, m.KVHeads))
}

// ShardHeads returns the query and KV heads of the GPU that has most of them.
func (m *Model) ShardHeads() (query, kv int) { return m.ShardOf(m.KVHeads) }

// ShardOf is ShardHeads of layers with so many KV heads.
func (m *Model) ShardOf(kvHeads int) (query, kv int) {
	if m.DataParallel() {
		return m.Heads, kvHeads
	}
	if n := m.TensorParallel / max(1, kvHeads); n > 1 {
		return (m.Heads/max(1, kvHeads) + n - 1) / n, 1
	}
	return m.Heads / m.TensorParallel, kvHeads / m.TensorParallel
}

// headsOnGPUs returns the query and KV heads of all GPUs of a replica of the model, as if each had most.
func (m *Model) headsOnGPUs() (query, kv int) { return m.onGPUs(m.KVHeads) }

// onGPUs is headsOnGPUs of layers with so many KV heads.
func (m *Model) onGPUs(kvHeads int) (query, kv int) {
	if m.TensorParallel/max(1, kvHeads) <= 1 {
		return m.Heads, kvHeads
	}
	query, kv = m.ShardOf(kvHeads)
	return query * m.TensorParallel, kv * m.TensorParallel
}

// SkewedBytes returns what a link to each of a replica's GPUs carries of n bytes of all query heads where all wait for
// the GPU with most heads, times these links.
func (m *Model) SkewedBytes(n int64) int64 {
	if m.DataParallel() {
		return n
	}
	query, _ := m.headsOnGPUs()
	return n * int64(query) / int64(m.Heads)
}

// KVBytesOnGPUs returns the KV cache of one token over all layers where it is on the GPUs: that of each KV head on as
// many GPUs as hold it.
func (m *Model) KVBytesOnGPUs() units.Bytes {
	return units.Bytes(m.KVReplicas()) * m.KVBytesPerToken()
}
