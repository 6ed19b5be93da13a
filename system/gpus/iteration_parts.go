package gpus

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// IterationPart is a category of the GPUs' work in an iteration.
type IterationPart int

// The categories. Passes are a policy's kernels beside attention, scores and choices: statistics of
// pages, tables, sums of weights.
const (
	PartProducts IterationPart = iota // products with weights
	PartSmall                         // embedding, norms, activations, copies into the cache
	PartAllReduce
	PartPrefillAttention
	PartDecodeAttention
	PartScores // of pages
	PartChoice // the best pages or tokens of a row of scores
	PartPasses
	PartMerge // of the attention of two devices
	partCount
)

// String returns the category's name.
func (p IterationPart) String() string {
	return [partCount]string{"products", "small kernels", "all-reduce", "prefill attention", "decode attention", "page scores", "choice", "passes", "merge"}[p]
}

// IterationParts returns all categories.
func IterationParts() []IterationPart {
	all := make([]IterationPart, partCount)
	for i := range all {
		all[i] = IterationPart(i)
	}
	return all
}

// GPUIteration is the time of an iteration by category. The categories sum to the time of a run's
// iteration, to the picosecond.
type GPUIteration [partCount]units.Duration

// Total returns the iteration's time.
func (x *GPUIteration) Total() (t units.Duration) {
	for _, part := range x {
		t += part
	}
	return t
}

// share adds a task's time, divided in proportion to the seconds of its categories.
func (x *GPUIteration) share(took units.Duration, seconds *[partCount]float64) {
	all, sum := 0.0, 0.0
	for _, s := range seconds {
		all += s
	}
	if all == 0 {
		return
	}
	// Rounding applies to the ends of categories, not their lengths, so that the last one ends the
	// task.
	var before units.Duration
	for i, s := range seconds {
		sum += s
		end := units.Duration(float64(took) * (sum / all))
		x[i] += end - before
		before = end
	}
	x[partCount-1] += took - before
}

// GPUIterations splits iterations of the system gpu-only into categories. It is not safe for
// concurrent use.
type GPUIterations struct{ side GPUs }

// IterationsOf returns the GPUIterations of a node.
func IterationsOf(h *flow.Hardware) *GPUIterations { return &GPUIterations{New(h)} }

// Parts returns an iteration of a replica by category: a decode step of requests, and chunks of
// prompts.
func (g *GPUIterations) Parts(decode []policy.Request, prompts ...scheduler.Chunk) (x GPUIteration) {
	d := &g.side
	sub := scheduler.SubBatch{Prefill: prompts, Verified: d.hw.Config.Serving.Verified()}
	for _, r := range decode {
		sub.Decode = append(sub.Decode, scheduler.Decoding{Base: int64(r.Context), Prompt: int32(r.Prompt)})
	}
	if sub.Tokens() == 0 {
		return x
	}
	d.DecodeRuns(sub.Decode, 0)
	stage := d.StageRuns(&sub)
	entry, block, exit := d.ModelCost.TaskParts(sub.Tokens(), sub.Sampled())
	x.share(stage.Entry, grouped(&entry))
	x.share(units.Duration(d.Model.Layers-1)*stage.Block, grouped(&block))
	x.share(stage.Exit, grouped(&exit))
	for _, r := range stage.order[1:] {
		layer, n := &stage.Layers[r.Kind-1], units.Duration(r.Count)
		x.share(n*layer.Attention, d.attentionParts(&sub, d.Attends.Kinds[r.Kind-1]))
		x[PartMerge] += n * layer.Merge
	}
	return x
}

// grouped returns the seconds of kernels by category.
func grouped(p *gpu.Parts) *[partCount]float64 {
	var seconds [partCount]float64
	for g, w := range p {
		to := PartProducts
		switch gpu.Group(g) {
		case gpu.Embedding, gpu.SmallKernels:
			to = PartSmall
		case gpu.AllReduce:
			to = PartAllReduce
		}
		seconds[to] += w.Seconds
	}
	return &seconds
}

// attentionParts returns the seconds by category in one layer of a run, without the merge. Chunks and
// decoding requests in a common kernel share its time.
func (d *GPUs) attentionParts(sub *scheduler.SubBatch, run int) *[partCount]float64 {
	var seconds [partCount]float64
	add := func(p IterationPart, w gpu.Work) { seconds[p] += w.Seconds }
	a := d.ModelCost.Attention()
	pass := func(p policy.Pass) { add(PartPasses, d.ModelCost.Pass(p.Kernels, float64(p.Bytes), float64(p.FLOPs))) }
	index := func(x llm.Indexing) {
		all := d.ModelCost.Index(x)
		x.Keep = 0
		scores := d.ModelCost.Index(x)
		add(PartScores, scores)
		seconds[PartChoice] += all.Seconds - scores.Seconds
	}
	for _, c := range sub.Prefill {
		p := d.Attends.Policy.Prompt(run, c.Tokens, c.Finished, c.Last)
		for _, part := range p.Pieces {
			add(PartPrefillAttention, a.PromptsOf(part.Count, part.Tokens, part.Behind, part.Heads, p.Windowed))
		}
		for _, x := range p.Passes {
			pass(x)
		}
		add(PartPrefillAttention, d.ModelCost.Chosen(p.Chosen))
		index(p.Index)
	}
	x := d.Attends.Decode(sub.Decode, run, 0)
	for _, b := range addBatches(nil, x.Attend) {
		add(PartDecodeAttention, a.Decoding(b))
	}
	for i := range x.Choose {
		s := selection(&x.Choose[i])
		all := d.ModelCost.Select(s)
		s.Keep = 0
		scores := d.ModelCost.Select(s)
		add(PartScores, scores)
		seconds[PartChoice] += all.Seconds - scores.Seconds
	}
	index(x.Index)
	for _, p := range x.Passes { // the GPUs store keys and values
		pass(p)
	}
	return &seconds
}
