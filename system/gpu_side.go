package system

import (
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// memo keeps a cost by token count: an iteration's batch differs from the one
// before by few tokens.
type memo struct {
	times []units.Duration
	cost  func(n int) float64 // seconds
}

// unknown marks costs that have not been computed yet.
const unknown units.Duration = -1

func (m *memo) at(n int) units.Duration {
	for n >= len(m.times) {
		m.times = append(m.times, unknown)
	}
	if m.times[n] == unknown {
		m.times[n] = taskTime(m.cost(n))
	}
	return m.times[n]
}

// gpuSide is the GPUs of one replica, which work in lockstep: what the operations
// of a sub-batch take on them. Every system has it.
type gpuSide struct {
	*attends
	cfg   *configs.Config
	model *llm.Model
	gpu   *gpu.ModelCost
	// By tokens; head by those that emit.
	embedding, qkv, ffn, head memo
	hbmPeak                   units.Bandwidth // of all GPUs of the replica
}

func newGPUSide(cfg *configs.Config) gpuSide {
	s, m := &cfg.GPU.Spec, &cfg.Model
	cost := gpu.NewModelCost(s, m)
	return gpuSide{
		attends: newAttends(m), cfg: cfg, model: m, gpu: cost, hbmPeak: units.Bandwidth(m.TensorParallel) * s.MemoryBandwidth,
		embedding: memo{cost: cost.Embedding}, qkv: memo{cost: cost.QKV}, ffn: memo{cost: cost.ProjectionFFN}, head: memo{cost: cost.LMHead},
	}
}

// prefillAttention returns the GPU's time for the prompts of a sub-batch in one
// layer.
func (d *gpuSide) prefillAttention(s *scheduler.SubBatch) units.Duration {
	var t units.Duration
	chunks := d.gpu.Prefills()
	for _, c := range s.Prefill {
		t = min(t+taskTime(chunks.Add(c.Tokens, d.policy.Behind(c.Finished))), longestTask)
	}
	return t
}

// GPU implements scheduler.Predictor with the costs themselves (L3, equation 6).
func (d *gpuSide) GPU(s *scheduler.SubBatch) units.Duration {
	tokens := s.Tokens()
	if tokens == 0 {
		return 0
	}
	layers := units.Duration(d.model.Layers)
	return d.embedding.at(tokens) + d.head.at(s.Emitting()) +
		layers*(d.qkv.at(tokens)+d.ffn.at(tokens)+d.prefillAttention(s))
}

// parts returns the steps of a task on the GPUs, for a timeline. All-reduces are
// part of the step that they end.
func (d *gpuSide) parts(kind uint8, tokens, emitting, layer int) []part {
	qkv := part{"QKV generation", d.qkv.at(tokens)}
	switch kind {
	case opEntry:
		return []part{{"embedding", d.embedding.at(tokens)}, qkv}
	case opBlock:
		steps := []part{
			{"projection, all-reduce", units.FromSeconds(d.gpu.Projection(tokens))},
			{"feed-forward, all-reduce", units.FromSeconds(d.gpu.FFN(tokens))},
		}
		if layer == d.model.Layers-1 {
			return append(steps, part{"LM head", d.head.at(emitting)})
		}
		return append(steps, qkv)
	}
	return nil
}
