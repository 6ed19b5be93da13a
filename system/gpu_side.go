package system

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// kernelSum is work on the GPUs, with the time that it takes for moments in whole
// picoseconds, so that sums do not depend on their order.
type kernelSum struct {
	gpu.Work
	time units.Duration
}

func sumOf(w gpu.Work) kernelSum { return kernelSum{w, taskTime(w.Seconds)} }

// plus returns both, one after the other.
func (k kernelSum) plus(o kernelSum) kernelSum {
	return kernelSum{k.Plus(o.Work), min(k.time+o.time, longestTask)}
}

// took returns the time where the power limit slows the GPUs down so much.
func (k *kernelSum) took(slow float64) units.Duration {
	if slow == 1 {
		return k.time
	}
	return taskTime(float64(k.Seconds * slow))
}

// dense is what a number of tokens takes on the GPUs beside attention and the LM head.
type dense struct {
	entry kernelSum // embedding, QKV generation of layer 0
	block kernelSum // projection to the next layer's QKV generation
	end   kernelSum // projection of the last layer to its feed-forward
	all   gpu.Work  // over all layers
}

// memo keeps what a cost is by a count: an iteration's batch differs from the one before
// by few tokens.
type memo[T any] struct {
	known []bool
	costs []T
	cost  func(n int) T
}

// at returns the cost of n, which stays valid until the next call.
func (m *memo[T]) at(n int) *T {
	if n >= len(m.known) {
		m.known = append(m.known, make([]bool, n+1-len(m.known))...)
		m.costs = append(m.costs, make([]T, n+1-len(m.costs))...)
	}
	if !m.known[n] {
		m.known[n], m.costs[n] = true, m.cost(n)
	}
	return &m.costs[n]
}

// gpuSide is the GPUs of one replica, which work in lockstep: what the operations
// of a sub-batch take on them. Every system has it.
type gpuSide struct {
	*attends
	hw    *hardware
	model *llm.Model
	gpu   *gpu.ModelCost
	// appends says that a chunk's tokens attend at home over what has left the GPUs.
	appends bool
	dense   memo[dense]     // by tokens
	head    memo[kernelSum] // by tokens that emit
	// Scratch, by run of layers.
	decoding []decoding
	attended []attended
	staged   stage
	gpus     []gpu.DecodeBatch
	// hbmPeak is the bandwidth of all GPUs of the replica.
	hbmPeak units.Bandwidth
	// What requests share, where the GPUs read it once, and scratch for the rest.
	grouping grouping
	rest     [1]gpu.DecodeBatch
}

// newGPUSide returns the costs of a model's dense layers, each computed once for each number of tokens.
func newGPUSide(h *hardware) gpuSide {
	s, m := &h.GPU.Spec, &h.Model
	cost, attends := gpu.NewModelCost(s, m), newAttends(h)
	runs := len(attends.runs)
	return gpuSide{
		attends: attends, decoding: make([]decoding, runs), attended: make([]attended, runs), staged: stage{layers: make([]layerCost, runs)}, hw: h, model: m, gpu: cost, hbmPeak: units.Bandwidth(m.TensorParallel) * s.MemoryBandwidth,
		head: memo[kernelSum]{cost: func(n int) kernelSum { return sumOf(cost.LMHead(n)) }},
		dense: memo[dense]{cost: func(tokens int) dense {
			qkv, ffn := sumOf(cost.QKV(tokens)), sumOf(cost.ProjectionFFN(tokens))
			d := dense{entry: sumOf(cost.Embedding(tokens)).plus(qkv), block: ffn.plus(qkv), end: ffn}
			d.all = d.entry.Plus(d.block.Times(m.Layers - 1)).Plus(d.end.Work)
			return d
		}},
	}
}

// Side returns the GPUs of the system that this is a part of.
func (d *gpuSide) Side() *gpuSide { return d }

// decoding is the GPUs' part of decode attention in one layer: batches of heads that
// attend, kernels beside them, which choose and keep statistics, and after all attention the
// merge with what another device has found.
type decoding struct {
	batches       []gpu.DecodeBatch
	shared        *gpu.Cost // of what requests share, in a kernel of its own; nil: nothing
	beside, merge gpu.Work
	chooses       gpu.Work // kernels that choose pages for another device, before anything goes there
}

// attended is attention of one layer on the GPUs, that of prompts in it, the merge, and what chooses pages.
type attended struct{ all, prompts, merge, chooses kernelSum }

// stage returns what a sub-batch costs on the GPUs, which decode these batches of heads in
// every layer.
func (d *gpuSide) stage(sub *scheduler.SubBatch, decode []gpu.DecodeBatch) *stage {
	for run := range d.decoding {
		d.decoding[run] = decoding{batches: decode}
	}
	return d.stageRuns(sub)
}

// stageRuns is stage with the GPUs' part of decoding as d.decoding has it for each run of
// layers. The power limit slows all of it down alike. What it returns is valid until the next
// call.
func (d *gpuSide) stageRuns(sub *scheduler.SubBatch) *stage {
	tokens, g := sub.Tokens(), &d.staged
	if tokens == 0 {
		clear(g.layers)
		*g = stage{layers: g.layers}
		return g
	}
	w, head := d.dense.at(tokens), d.head.at(sub.Emitting())
	var phases [2]gpu.Work // prefill and decode attention of all layers
	var attention gpu.Work
	for run, layers := range d.runs {
		prefill, decoding, all := d.layerAttention(sub, run, &d.decoding[run])
		a := &d.attended[run]
		a.all, a.prompts = all, prefill
		a.merge, a.chooses = sumOf(d.decoding[run].merge), sumOf(d.decoding[run].chooses)
		if a.merge.Seconds > 0 || a.chooses.Seconds > 0 {
			all.Work, decoding.Work = all.Plus(a.merge.Work).Plus(a.chooses.Work), decoding.Plus(a.merge.Work).Plus(a.chooses.Work)
		}
		phases[0], phases[1] = phases[0].Plus(prefill.Times(layers)), phases[1].Plus(decoding.Times(layers))
		attention = attention.Plus(all.Times(layers))
	}
	total := w.all.Plus(attention).Plus(head.Work)
	seconds, joules := d.hw.GPU.Sustained(total)
	slow := 1.0
	if seconds > total.Seconds {
		slow = seconds / total.Seconds
	}
	last := w.end.plus(*head)
	g.active, g.entry, g.block, g.exit = true, w.entry.took(slow), w.block.took(slow), last.took(slow)
	g.slow, g.joules = slow, d.joules(sub, joules, total.Seconds, attention.Seconds, phases[0].Seconds, phases[1].Seconds)
	for run, layers := range d.runs {
		a, l := &d.attended[run], &g.layers[run]
		*l = layerCost{count: int32(layers)}
		l.attention, l.prompts, l.merge, l.chooses = a.all.took(slow), a.prompts.took(slow), a.merge.took(slow), a.chooses.took(slow)
	}
	return g
}

// decodeRuns sets what decoding requests take where the GPUs do all of it.
func (d *gpuSide) decodeRuns(requests []scheduler.Decoding, step int64) {
	d.gpus = d.gpus[:0]
	for run := range d.runs {
		x := d.decode(requests, run, step)
		d.count(x, run)
		from := len(d.gpus)
		d.gpus = addBatches(d.gpus, x.Attend)
		to := &d.decoding[run]
		to.chooses, to.shared = gpu.Work{}, nil
		to.batches, to.beside, to.merge = d.gpus[from:], d.choices(x).Plus(d.passes(x, policy.GPU)).Plus(d.passes(x, policy.Home)), d.gpu.Merge(x.Merged)
	}
}

// choices returns the GPUs' kernels of a step that choose.
func (d *gpuSide) choices(x *policy.Step) (w gpu.Work) {
	for i := range x.Choose {
		if c := &x.Choose[i]; c.Device == "" {
			w = w.Plus(d.gpu.Select(selection(c)))
		}
	}
	return w
}

// passes returns a device's passes of a step as kernels of the GPUs.
func (d *gpuSide) passes(x *policy.Step, on policy.Device) (w gpu.Work) {
	for _, p := range x.Passes {
		if p.Device == on {
			w = w.Plus(d.gpu.Pass(p.Kernels, float64(p.Bytes), float64(p.FLOPs)))
		}
	}
	return w
}

// selection returns a choice as kernels see it.
func selection(c *policy.Choice) gpu.Selection {
	scores := gpu.PageScores{Pages: batchOf(c.Scored, c.Heads), PerQueryHead: c.PerQueryHead}
	return gpu.Selection{PageScores: scores, Ranked: batchOf(c.Ranked, c.Heads), Keep: c.Keep}
}

// sustained returns the time of work that goes on by itself.
func (d *gpuSide) sustained(k *kernelSum) units.Duration { return k.took(d.hw.GPU.Slowdown(k.Work)) }

// layerAttention returns the GPUs' work in one layer of a run for the prompts of a sub-batch,
// for what decodes, and for all of it.
func (d *gpuSide) layerAttention(sub *scheduler.SubBatch, run int, decode *decoding) (prefill, decoded, all kernelSum) {
	a := d.gpu.Attention()
	for i := range sub.Prefill {
		prefill = prefill.plus(d.promptAttention(&a, &sub.Prefill[i], run))
	}
	for i := range decode.batches {
		decoded = decoded.plus(sumOf(a.Decoding(decode.batches[i])))
	}
	if decode.shared != nil {
		decoded = decoded.plus(sumOf(d.gpu.Kernel(*decode.shared)))
	}
	if decode.beside.Seconds > 0 {
		decoded = decoded.plus(sumOf(decode.beside))
	}
	all = prefill.plus(decoded)
	if prefill.Seconds > 0 && decoded.Seconds > 0 {
		apart := all.Seconds
		all.Work = a.Total(prefill.Work, decoded.Work, sub.Tokens())
		all.time += taskTime(all.Seconds - apart) // that joining outputs takes
	}
	return prefill, decoded, all
}

// promptAttention returns what attention of one more chunk of a prompt takes in one layer of a run.
func (d *gpuSide) promptAttention(a *gpu.Attention, c *scheduler.Chunk, run int) (k kernelSum) {
	p := d.policy.Prompt(run, c.Tokens, c.Finished, c.Last)
	for _, part := range p.Pieces {
		behind := part.Behind
		if d.appends {
			behind -= p.Away
		}
		if d.prefixStays {
			behind -= c.Prefix
		}
		k = k.plus(sumOf(a.Prompts(part.Count, part.Tokens, behind, part.Heads)))
	}
	if d.scores(c) {
		k = k.plus(sumOf(d.gpu.Merge(c.Tokens)))
	}
	for _, pass := range p.Passes {
		k = k.plus(sumOf(d.gpu.Pass(pass.Kernels, float64(pass.Bytes), float64(pass.FLOPs))))
	}
	return k
}

// GPU implements scheduler.Predictor with the costs themselves (L3, equation 6).
func (d *gpuSide) GPU(s *scheduler.SubBatch, _ int64) units.Duration {
	for run := range d.decoding {
		d.decoding[run] = decoding{}
	}
	return d.gpuTime(s)
}

// gpuTime returns the GPUs' time of a sub-batch with their part of decoding as d.decoding has it.
func (d *gpuSide) gpuTime(s *scheduler.SubBatch) units.Duration {
	return d.whole(d.stageRuns(s))
}

// parts returns the steps of a task on the GPUs, for a timeline. All-reduces are part of
// the step that they end.
func (d *gpuSide) parts(kind uint8, tokens, emitting, layer int, use gpuUse) []part {
	step := func(name string, w gpu.Work) part { return part{name, taskTime(float64(w.Seconds * use.slow))} }
	var choice []part
	if use.chooses > 0 {
		choice = []part{{"page choice", use.chooses / units.Duration(d.model.Layers)}}
	}
	switch kind {
	case opEntry:
		return append([]part{step("embedding", d.gpu.Embedding(tokens)), step("QKV generation", d.gpu.QKV(tokens))}, choice...)
	case opBlock:
		var steps []part
		if use.merge > 0 {
			steps = append(steps, part{"merge", use.merge / units.Duration(d.model.Layers)})
		}
		steps = append(steps,
			step("projection, all-reduce", d.gpu.Projection(tokens)),
			step("feed-forward, all-reduce", d.gpu.FFN(tokens)))
		if layer == d.model.Layers-1 {
			return append(steps, step("LM head", d.head.at(emitting).Work))
		}
		return append(append(steps, step("QKV generation", d.gpu.QKV(tokens))), choice...)
	}
	return nil
}

// part is one step of a task on the GPU.
type part struct {
	name     string
	duration units.Duration
}
