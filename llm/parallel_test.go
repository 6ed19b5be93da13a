package llm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// TestParallelByHand: weights, copies of keys and values and shards of DeepSeek V3 on eight GPUs. With data-parallel attention each GPU has
// all of attention's weights; with expert parallelism each has whole dense networks and shared experts, too.
func TestParallelByHand(t *testing.T) {
	m := publishedModel(t, "deepseek-ai/DeepSeek-V3")
	m.WeightBits, m.ActivationBits, m.AttentionBits, m.KeptAttention, m.KeptNetwork, m.WeightBlock = 16, 16, 0, 0, 0, 0
	one := m.WeightBytes()
	const (
		attention = 7168*1536 + 1536*128*192 + 7168*576 + 512*128*256 + 128*128*7168
		dense     = 3 * 3 * 7168 * 18432
		shared    = 58 * 3 * 7168 * 2048
		copied    = 61 * (7168*1536 + 7168*576) // weights that tensor parallelism copies to every GPU
	)
	m.TensorParallel = 8
	for _, c := range []struct {
		p      Parallel
		more   int64 // weights beyond those of one GPU
		copies int
	}{
		{Parallel{}, 7 * copied, 8},
		{Parallel{AttentionParallel: "tensor", ExpertParallel: true}, 7 * copied, 8},
		{Parallel{AttentionParallel: "data"}, 7 * 61 * attention, 1},
		{Parallel{AttentionParallel: "data", ExpertParallel: true}, 7 * (61*attention + dense + shared), 1},
	} {
		m.Parallel = c.p
		if got := int64(m.WeightBytes() - one); got != 2*c.more {
			t.Errorf("%+v: %d bytes more on eight GPUs, want %d", c.p, got, 2*c.more)
		}
		if m.KVReplicas() != c.copies || m.KVBytesOnGPUs() != units.Bytes(61*1152*c.copies) {
			t.Errorf("%+v: %d copies, %d bytes of a token, want %d copies", c.p, m.KVReplicas(), m.KVBytesOnGPUs(), c.copies)
		}
		if faults := input.Faults(m); len(faults) > 0 {
			t.Errorf("%+v: %v", c.p, faults)
		}
	}
	heads := Model{Heads: 8, KVHeads: 4, TensorParallel: 3}
	if heads.SplitsOver(3) {
		t.Error("four KV heads split over three GPUs")
	}
	if heads.AttentionParallel = "data"; !heads.SplitsOver(3) || heads.KVReplicas() != 1 {
		t.Error("requests apart need heads that split")
	}
	for want, change := range map[string]func(m *Model){
		`attention_parallel = "rows": expected one of data, tensor`:                                            func(m *Model) { m.AttentionParallel = "rows" },
		`expert_parallel = true: expected false without model.experts`:                                         func(m *Model) { m.Experts, m.ActiveExperts, m.Beside, m.ExpertParallel = 0, 0, Beside{}, true },
		`expert_parallel = true: expected false with tensor_parallel = 3, which does not divide experts = 256`: func(m *Model) { m.TensorParallel = 3 },
	} {
		x := *m
		if change(&x); !strings.Contains(fmt.Sprint(input.Faults(&x)), want) {
			t.Errorf("%v\nwant %s", input.Faults(&x), want)
		}
	}
}
