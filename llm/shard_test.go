package llm

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// grouped returns a model with 28 query heads and 4 KV heads, as in Qwen2-7B.
func grouped(gpus int) Model {
	return Model{
		Layers: 2, Hidden: 64, Heads: 28, KVHeads: 4, HeadDim: 8, FFNHidden: 96, Vocab: 10, ElementBits: 16, TensorParallel: gpus,
	}
}

// TestShards: GPUs that divide the number of KV heads have equal shares. A multiple of that number stores each KV head on several GPUs,
// which share its query heads. GPUs without a query head, or cut KV heads, are refused.
func TestShards(t *testing.T) {
	for _, c := range []struct {
		heads, kv, gpus   int
		query, shard, all int // query and KV heads of a GPU; KV heads of all GPUs
		bad               string
	}{
		{28, 4, 1, 28, 4, 4, ""},
		{28, 4, 4, 7, 1, 4, ""},
		{28, 4, 8, 4, 1, 8, ""},   // 4 and 3 query heads
		{64, 8, 16, 4, 1, 16, ""}, // 4 and 4
		{56, 8, 32, 2, 1, 32, ""}, // NxD Inference's own example: 2, 2, 2 and 1 with padding
		{71, 1, 8, 9, 1, 8, ""},   // seven of 9 and one of 8
		{28, 4, 28, 1, 1, 28, ""},
		{28, 4, 32, 0, 0, 0, "a divisor of kv_heads = 4, or a multiple of it up to heads = 28"},
		{28, 4, 6, 0, 0, 0, "a divisor of kv_heads = 4, or a multiple"},
		{24, 6, 4, 0, 0, 0, "a divisor of kv_heads = 6, or a multiple"},
		{8, 8, 16, 0, 0, 0, "a divisor of kv_heads = 8"},
	} {
		m := grouped(c.gpus)
		m.Heads, m.KVHeads = c.heads, c.kv
		var k input.Check
		m.Check(&k)
		if c.bad != "" {
			if err := k.Err(); err == nil || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%d heads of %d on %d GPUs: %v, want %q", c.heads, c.kv, c.gpus, err, c.bad)
			}
			continue
		}
		query, kv := m.ShardHeads()
		if _, all := m.headsOnGPUs(); query != c.query || kv != c.shard || all != c.all || k.Err() != nil {
			t.Errorf("%d heads of %d on %d GPUs: %d and %d, of all %d: %v; want %d and %d, of all %d", c.heads, c.kv, c.gpus, query, kv, all, k.Err(), c.query, c.shard, c.all)
		}
		if want := units.Bytes(2 * 2 * c.all * 8 * 2); m.KVBytesOnGPUs() != want { // key and value of 2 layers, 8 elements of 2 bytes
			t.Errorf("%d KV heads on %d GPUs take %v a token, want %v", c.kv, c.gpus, m.KVBytesOnGPUs(), want)
		}
	}
}

// TestPadded: replicated KV heads make a model on its GPUs equal to one with that many heads, padding included; its number of parameters
// stays its own.
func TestPadded(t *testing.T) {
	m, padded := grouped(8), grouped(8)
	padded.Heads, padded.KVHeads = 32, 8
	if m.WeightBytes() != padded.WeightBytes() || m.KVBytesOnGPUs() != padded.KVBytesPerToken() {
		t.Errorf("weights of %v and %v a token, padded %v and %v", m.WeightBytes(), m.KVBytesOnGPUs(), padded.WeightBytes(), padded.KVBytesPerToken())
	}
	if m.ActivationBytes(7) != padded.ActivationBytes(7) {
		t.Errorf("activations of %v, padded %v", m.ActivationBytes(7), padded.ActivationBytes(7))
	}
	one := grouped(1)
	if m.LayerParameters() != one.LayerParameters() || m.WeightBytes() <= one.WeightBytes() {
		t.Errorf("%d parameters of %v, on one GPU %d of %v", m.LayerParameters(), m.WeightBytes(), one.LayerParameters(), one.WeightBytes())
	}
	if got := m.SkewedBytes(28 * 10); got != 32*10 {
		t.Errorf("links to GPUs of 4 query heads and of 3 carry 10 bytes of each as if they carried %d, want 320", got)
	}
	if got := one.SkewedBytes(280); got != 280 {
		t.Errorf("one link carries %d of 280 bytes", got)
	}
}
