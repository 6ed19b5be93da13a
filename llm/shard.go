package llm

import (
	"fmt"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Tensor parallelism distributes attention heads over GPUs. If there are fewer KV heads than GPUs, KV heads are replicated: as in vLLM,
// equally many GPUs hold each and share its query heads. If the query heads do not divide evenly, some GPUs have one more, or others
// compute zeros (NxD Inference pads: gqa.py, REPLICATE_TO_TP_DEGREE; vLLM refuses). In both cases the GPU with the most heads sets the
// time, and every GPU counts as much memory as that one.

// SplitsOver reports whether a number of GPUs can share the heads: it divides the KV heads, or is a multiple of them that leaves a query
// head for each GPU.
func (m *Model) SplitsOver(gpus int) bool {
	if m.AttentionParallel == DataAttention {
		return gpus > 0
	}
	splits := func(kv int) bool { return kv%gpus == 0 || gpus%kv == 0 && gpus <= m.Heads }
	return gpus > 0 && splits(m.KVHeads) && splits(m.HeadsOf(true).KV)
}

// Splits lists, for an error, the numbers of GPUs that can share the heads.
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

// KVReplicas returns the number of GPUs of a replica that hold each KV head.
func (m *Model) KVReplicas() int {
	if m.DataParallel() {
		return 1
	}
	return max(1, m.TensorParallel/max(1, m.KVHeads))
}

// ShardHeads returns the query and KV heads of the GPU with the most.
func (m *Model) ShardHeads() (query, kv int) { return m.ShardOf(m.KVHeads) }

// ShardOf is ShardHeads for layers with kvHeads KV heads.
func (m *Model) ShardOf(kvHeads int) (query, kv int) {
	if m.DataParallel() {
		return m.Heads, kvHeads
	}
	if n := m.TensorParallel / max(1, kvHeads); n > 1 {
		return (m.Heads/max(1, kvHeads) + n - 1) / n, 1
	}
	return m.Heads / m.TensorParallel, kvHeads / m.TensorParallel
}

// headsOnGPUs returns the query and KV heads of all GPUs of a replica, as if each had as many as the GPU with the most.
func (m *Model) headsOnGPUs() (query, kv int) { return m.onGPUs(m.KVHeads) }

// onGPUs is headsOnGPUs for layers with kvHeads KV heads.
func (m *Model) onGPUs(kvHeads int) (query, kv int) {
	if m.TensorParallel/max(1, kvHeads) <= 1 {
		return m.Heads, kvHeads
	}
	query, kv = m.ShardOf(kvHeads)
	return query * m.TensorParallel, kv * m.TensorParallel
}

// SkewedBytes returns the bytes that all links to a replica's GPUs would carry if each carried as much as the link of the GPU with the most
// heads. n is the bytes of all query heads.
func (m *Model) SkewedBytes(n int64) int64 {
	if m.DataParallel() {
		return n
	}
	query, _ := m.headsOnGPUs()
	return n * int64(query) / int64(m.Heads)
}

// KVBytesOnGPUs returns the KV cache bytes of one token over all layers on the GPUs: each KV head counts once for each GPU that holds it.
func (m *Model) KVBytesOnGPUs() units.Bytes {
	return units.Bytes(m.KVReplicas()) * m.KVBytesPerToken()
}
