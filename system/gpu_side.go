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
	works []gpu.Work
	cost  func(n int) gpu.Work
}

// unknown marks costs that have not been computed yet.
const unknown = -1

func (m *memo) at(n int) gpu.Work {
	for n >= len(m.works) {
		m.works = append(m.works, gpu.Work{Seconds: unknown})
	}
	if m.works[n].Seconds == unknown {
		m.works[n] = whole(m.cost(n))
	}
	return m.works[n]
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

// gpuWork is what a sub-batch is for the GPUs. Attention is that of one layer.
type gpuWork struct {
	entry     gpu.Work // embedding, QKV generation of layer 0
	attention gpu.Work // of prompts, and of requests that decode there
	block     gpu.Work // projection to the next layer's QKV generation
	exit      gpu.Work // projection of the last layer to the LM head
}

// total returns the work over all layers.
func (w *gpuWork) total(layers int) gpu.Work {
	return w.entry.Plus(w.attention.Times(layers)).Plus(w.block.Times(layers - 1)).Plus(w.exit)
}

// whole returns work of whole picoseconds, so that sums do not depend on the order.
func whole(w gpu.Work) gpu.Work {
	w.Seconds = taskTime(w.Seconds).Seconds()
	return w
}

// of returns what a sub-batch is for the GPUs, without attention.
func (d *gpuSide) of(sub *scheduler.SubBatch) gpuWork {
	tokens := sub.Tokens()
	ffn, qkv := d.ffn.at(tokens), d.qkv.at(tokens)
	return gpuWork{entry: d.embedding.at(tokens).Plus(qkv), block: ffn.Plus(qkv), exit: ffn.Plus(d.head.at(sub.Emitting()))}
}

// stage returns what a sub-batch costs on the GPUs, which decode these batches of heads.
// The power limit slows all of it down alike.
func (d *gpuSide) stage(sub *scheduler.SubBatch, decode []gpu.DecodeBatch) stage {
	if sub.Tokens() == 0 {
		return stage{}
	}
	w, layers := d.of(sub), d.model.Layers
	prefill, decoding, attention := d.attention(sub, decode)
	w.attention = attention
	total := w.total(layers)
	slow := d.cfg.GPU.Slowdown(total)
	return stage{
		active: true, entry: took(w.entry, slow), attention: took(w.attention, slow), block: took(w.block, slow), exit: took(w.exit, slow),
		gpuUse: gpuUse{slow, d.joules(sub, total, w.attention.Times(layers), prefill, decoding)},
	}
}

// took returns the time of work that the power limit slows down.
func took(w gpu.Work, slow float64) units.Duration { return taskTime(float64(w.Seconds * slow)) }

// attention returns the GPUs' work in one layer for the prompts of a sub-batch, for these
// batches that decode, and for all of it.
func (d *gpuSide) attention(sub *scheduler.SubBatch, decode []gpu.DecodeBatch) (prefill, decoding, all gpu.Work) {
	a := d.gpu.Attention()
	for i := range sub.Prefill {
		c := &sub.Prefill[i]
		prefill = prefill.Plus(whole(a.Prompts(1, c.Tokens, d.policy.Behind(c.Finished))))
	}
	for _, b := range decode {
		decoding = decoding.Plus(whole(a.Decoding(b)))
	}
	return prefill, decoding, whole(a.Total(prefill, decoding, sub.Tokens()))
}

// GPU implements scheduler.Predictor with the costs themselves (L3, equation 6).
func (d *gpuSide) GPU(s *scheduler.SubBatch) units.Duration {
	g := d.stage(s, nil)
	return g.entry + g.exit + units.Duration(d.model.Layers-1)*g.block + units.Duration(d.model.Layers)*g.attention
}

// parts returns the steps of a task on the GPUs, for a timeline. All-reduces are part of
// the step that they end.
func (d *gpuSide) parts(kind uint8, tokens, emitting, layer int, slow float64) []part {
	step := func(name string, w gpu.Work) part { return part{name, took(w, slow)} }
	qkv := step("QKV generation", d.qkv.at(tokens))
	switch kind {
	case opEntry:
		return []part{step("embedding", d.embedding.at(tokens)), qkv}
	case opBlock:
		steps := []part{
			step("projection, all-reduce", d.gpu.Projection(tokens)),
			step("feed-forward, all-reduce", d.gpu.FFN(tokens)),
		}
		if layer == d.model.Layers-1 {
			return append(steps, step("LM head", d.head.at(emitting)))
		}
		return append(steps, qkv)
	}
	return nil
}
