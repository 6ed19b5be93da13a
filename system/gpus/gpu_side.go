package gpus

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// kernelSum is work on the GPUs, with its unlimited time in whole picoseconds, so that sums do not
// depend on their order.
type kernelSum struct {
	gpu.Work
	time units.Duration
}

func sumOf(w gpu.Work) kernelSum { return kernelSum{w, flow.TaskTime(w.Seconds)} }

// plus returns the work of both in sequence.
func (k kernelSum) plus(o kernelSum) kernelSum {
	return kernelSum{k.Plus(o.Work), min(k.time+o.time, flow.LongestTask)}
}

// Took returns the time if the power limit slows the GPUs down by a factor.
func (k *kernelSum) Took(slow float64) units.Duration {
	if slow == 1 {
		return k.time
	}
	return flow.TaskTime(float64(k.Seconds * slow))
}

// dense is the GPUs' work for a number of tokens, except attention and the LM head.
type dense struct {
	entry kernelSum         // embedding, QKV generation of layer 0
	Block kernelSum         // projection to the next layer's QKV generation
	end   kernelSum         // projection of the last layer to its feed-forward
	all   gpu.Work          // over all layers
	far   *gpu.Extrapolated // extrapolated time over all layers; nil: none
	helped
}

// headCost is the work of the LM head.
type headCost struct {
	kernelSum
	far *gpu.Extrapolated
}

// GPUs is the GPUs of one replica, which work in lockstep; it computes the costs of a sub-batch's
// operations on them. Every system has it.
type GPUs struct {
	Attends   *flow.Attends // what attention on the GPUs reads
	hw        *flow.Hardware
	Model     *llm.Model
	ModelCost *gpu.ModelCost
	// Spare computes costs of requests whose keys and values are in the GPUs' spare memory, if all others are
	// elsewhere; nil: there are none.
	Spare *GPUs
	// Appends says that a chunk's tokens attend on another device over keys and values that have left
	// the GPUs.
	Appends bool
	Dense   Memo[dense]    // by tokens
	head    Memo[headCost] // by number of emitted tokens
	least   Times          // of AtLeast
	plain   []stage        // by number of decoding requests that attend elsewhere; without layers
	// Scratch, by run of layers; only the first run of each kind is used. attended is by kind of layers.
	Decoding []Decoding
	attended []attended
	decoded  []lastDecoded
	anew     *anew // see Anew
	Staged   stage
	Batches  []gpu.DecodeBatch
	NotRead  float64 // bytes of weights that a device beside the GPUs has multiplied, over all iterations
	// HBMPeak is the bandwidth of all GPUs of the replica.
	HBMPeak units.Bandwidth
	// Groups of requests with a shared prefix that the GPUs read once, and scratch for the rest.
	Grouping Grouping
	rest     [1]gpu.DecodeBatch
	extrapolating
}

// New returns the GPUs of a replica. The costs of dense layers are computed once for each number of
// tokens.
func New(h *flow.Hardware) GPUs {
	s, m := &h.Config.GPU.Spec, &h.Config.Model
	cost, attends, verified := gpu.NewModelCost(s, m), flow.NewAttends(h), h.Config.Serving.Verified()
	cost.Verify(verified)
	known := lately.of(&costed{*s, *m, verified})
	runs, kinds, anew := len(attends.Runs), len(attends.Kinds), &anew{}
	return GPUs{
		anew:    anew,
		Attends: attends, Decoding: make([]Decoding, runs), attended: make([]attended, kinds), decoded: make([]lastDecoded, runs), Staged: stage{Layers: make([]layerCost, kinds)}, hw: h, Model: m, ModelCost: cost, HBMPeak: units.Bandwidth(m.TensorParallel) * s.MemoryBandwidth,
		extrapolating: extrapolating{measured: s.Range(), farther: make([][]farther, runs)},
		head: Memo[headCost]{anew: anew, Cost: func(n int) *headCost {
			return known.head.at(n, anew.on(), func() headCost {
				w, far := cost.Head(n)
				return headCost{sumOf(w), far}
			})
		}},
		Dense: Memo[dense]{anew: anew, Cost: func(tokens int) *dense {
			return known.dense.at(tokens, anew.on(), func() dense {
				embedding, q, rest, far := cost.Layers(tokens)
				qkv, ffn := sumOf(q), sumOf(rest)
				d := dense{entry: sumOf(embedding).plus(qkv), Block: ffn.plus(qkv), end: ffn, far: far}
				d.all = d.entry.Plus(d.Block.Times(m.Layers - 1)).Plus(d.end.Work)
				return d
			})
		}},
	}
}

// Anew disables all caches of costs, those shared with other nodes included. Times stay the same.
func (d *GPUs) Anew() {
	d.anew.set = true
	d.ModelCost.Anew()
	if d.Spare != nil {
		d.Spare.Anew()
	}
}

// Side returns the GPUs of the system that embeds them.
func (d *GPUs) Side() *GPUs { return d }

// Decoding is the GPUs' part of decode attention in one layer: batches of heads that attend,
// kernels beside them (choice of pages, statistics), and the merge with another device's results
// after all attention.
type Decoding struct {
	Batches       []gpu.DecodeBatch
	Shared        *gpu.Cost // of shared prefixes, in a kernel of its own; nil: none
	Beside, Merge gpu.Work
	Chooses       gpu.Work // kernels that choose pages for another device, before it starts
}

// attended is the work of attention in one layer on the GPUs: all of it, and its prompts, merge and choice
// of pages.
type attended struct {
	all, prompts, merge, chooses kernelSum
	whole, decoding              gpu.Work // with merge and choice: of all requests, and of decoding ones
}

// lastDecoded is the last first batch of a layer of a run without prompts. That of a window stays the same from step to step.
type lastDecoded struct {
	of gpu.DecodeBatch
	kernelSum
}

// Stage returns the costs of a sub-batch on the GPUs, with these batches of heads decoding in every
// layer.
func (d *GPUs) Stage(sub *scheduler.SubBatch, decode []gpu.DecodeBatch) *stage {
	for run := range d.Decoding {
		d.Decoding[run] = Decoding{Batches: decode}
	}
	return d.StageRuns(sub)
}

// StageRuns is Stage with d.Decoding as the GPUs' part of decoding in each run of layers. The power
// limit slows all kernels alike. The result is valid until the next call.
func (d *GPUs) StageRuns(sub *scheduler.SubBatch) *stage {
	tokens, g := sub.Tokens(), &d.Staged
	if tokens == 0 {
		clear(g.Layers)
		*g = stage{Layers: g.Layers}
		return g
	}
	plain := len(sub.Prefill) == 0 && d.idle() && !d.anew.on()
	if plain && tokens < len(d.plain) && d.plain[tokens].active {
		layers := g.Layers
		*g = d.plain[tokens]
		g.Layers = layers
		for k, run := range d.Attends.Kinds {
			layers[k] = layerCost{Count: int32(d.Attends.LayersLike(run))}
		}
		return g
	}
	w, head := d.Dense.At(tokens), d.head.At(sub.Sampled())
	for k := range d.Attends.Kinds {
		d.attend(sub, k)
	}
	attention, prefill, decode := d.inAllLayers()
	total := w.all.Plus(attention).Plus(head.Work)
	seconds, joules := d.hw.Config.GPU.Sustained(total)
	slow := 1.0
	if seconds > total.Seconds {
		slow = seconds / total.Seconds
	}
	last := w.end.plus(head.kernelSum)
	g.order = d.Attends.Order
	g.active, g.Entry, g.Block, g.Exit = true, w.entry.Took(slow), w.Block.Took(slow), last.Took(slow)
	g.Shared = w.helped.took(slow)
	g.Slow, g.Joules = slow, d.joules(sub, joules, total.Seconds, attention.Seconds, prefill, decode)
	g.Extrapolated = d.extrapolated(w.far, head.far, slow)
	for k, run := range d.Attends.Kinds {
		a, l := &d.attended[k], &g.Layers[k]
		*l = layerCost{Count: int32(d.Attends.LayersLike(run))}
		l.Attention, l.Prompts, l.Merge, l.Chooses = a.all.Took(slow), a.prompts.Took(slow), a.merge.Took(slow), a.chooses.Took(slow)
	}
	if plain {
		for len(d.plain) <= tokens {
			d.plain = append(d.plain, stage{})
		}
		d.plain[tokens] = *g
		d.plain[tokens].Layers, d.plain[tokens].Extrapolated = nil, g.Extrapolated.Kept()
	}
	return g
}

// attend sets the attention of a layer of a kind.
func (d *GPUs) attend(sub *scheduler.SubBatch, kind int) {
	a, run := &d.attended[kind], d.Attends.Kinds[kind]
	d.farther[run] = d.farther[run][:0]
	prefill, decoding, all := d.LayerAttention(sub, run, &d.Decoding[run])
	a.all, a.prompts, a.whole, a.decoding = all, prefill, all.Work, decoding.Work
	a.merge, a.chooses = sumOf(d.Decoding[run].Merge), sumOf(d.Decoding[run].Chooses)
	if a.merge.Seconds > 0 || a.chooses.Seconds > 0 {
		a.whole, a.decoding = all.Plus(a.merge.Work).Plus(a.chooses.Work), decoding.Plus(a.merge.Work).Plus(a.chooses.Work)
	}
}

// inAllLayers sums attention over all layers, and the seconds of prompts and of decoding requests in it. It follows the order of layers, on
// which a sum of fractions depends.
func (d *GPUs) inAllLayers() (all gpu.Work, prompts, decoding float64) {
	for _, r := range d.Attends.Order[1:] {
		a, n := &d.attended[r.Kind-1], float64(r.Count)
		all = all.Plus(a.whole.Times(int(r.Count)))
		prompts += float64(n * a.prompts.Seconds)
		decoding += float64(n * a.decoding.Seconds)
	}
	d.addFarther()
	return all, prompts, decoding
}

// idle says that the GPUs take no part in decode attention.
func (d *GPUs) idle() bool {
	for _, run := range d.Attends.Kinds {
		o := &d.Decoding[run]
		if len(o.Batches) > 0 || o.Shared != nil || o.Beside.Seconds > 0 || o.Merge.Seconds > 0 || o.Chooses.Seconds > 0 {
			return false
		}
	}
	return true
}

// DecodeRuns sets the attention of decoding requests, all of which the GPUs compute.
func (d *GPUs) DecodeRuns(requests []scheduler.Decoding, step int64) {
	d.Batches = d.Batches[:0]
	d.Attends.Ask(requests, step)
	for _, run := range d.Attends.Kinds {
		x := d.Attends.Policy.Decode(d.Attends.Requests, run)
		d.Attends.Count(x, run)
		from := len(d.Batches)
		d.Batches = addBatches(d.Batches, x.Attend)
		to := &d.Decoding[run]
		to.Chooses, to.Shared = gpu.Work{}, nil
		to.Batches, to.Beside, to.Merge = d.Batches[from:], d.besides(x), d.ModelCost.Merge(x.Merged)
	}
}

// Absorb adds to a layer of a run the products around latent attention, for requests whose attention another device
// computes.
func (d *GPUs) Absorb(run, requests int) {
	if to := &d.Decoding[run]; d.Model.LatentDim > 0 {
		to.Chooses, to.Merge = to.Chooses.Plus(d.ModelCost.AbsorbKeys(requests)), to.Merge.Plus(d.ModelCost.AbsorbValues(requests))
	}
}

// besides returns the kernels of a step other than attention that run on the GPUs alone.
func (d *GPUs) besides(x *policy.Step) gpu.Work {
	return d.Choices(x).Plus(d.Passes(x, policy.GPU)).Plus(d.Passes(x, policy.Home))
}

// DecodeSpare adds the attention of requests in the spare memory to the GPUs' part of decoding in a layer of a run. The batches
// of the layer are those from index from on. With count it also counts their attended tokens.
func (d *GPUs) DecodeSpare(requests []scheduler.Decoding, from, run int, step int64, count bool) {
	x, to := d.Spare.Attends.Decode(requests, run, step), &d.Decoding[run]
	if count {
		d.Spare.Attends.Count(x, run)
	}
	d.Batches = addBatches(d.Batches, x.Attend)
	to.Batches = d.Batches[from:]
	to.Beside, to.Merge = to.Beside.Plus(d.besides(x)), to.Merge.Plus(d.ModelCost.Merge(x.Merged))
}

// Choices returns the work of the choosing kernels of a step on the GPUs.
func (d *GPUs) Choices(x *policy.Step) (w gpu.Work) {
	for i := range x.Choose {
		if c := &x.Choose[i]; c.Device == "" {
			w = w.Plus(d.ModelCost.Select(selection(c)))
		}
	}
	return w.Plus(d.ModelCost.Index(x.Index))
}

// Passes returns a device's passes of a step as work of GPU kernels.
func (d *GPUs) Passes(x *policy.Step, on policy.Device) (w gpu.Work) {
	for _, p := range x.Passes {
		if p.Device == on {
			w = w.Plus(d.ModelCost.Pass(p.Kernels, float64(p.Bytes), float64(p.FLOPs)))
		}
	}
	return w
}

func selection(c *policy.Choice) gpu.Selection {
	scores := gpu.PageScores{Pages: batchOf(c.Scored, c.Heads), PerQueryHead: c.PerQueryHead, Lists: c.Times()}
	return gpu.Selection{PageScores: scores, Ranked: batchOf(c.Ranked, c.Heads), Keep: c.Keep}
}

// Sustained returns the time of work if it runs continuously.
func (d *GPUs) Sustained(k *kernelSum) units.Duration {
	return k.Took(d.hw.Config.GPU.Slowdown(k.Work))
}

// LayerAttention returns the GPUs' attention work in one layer of a run: for the prompts of a
// sub-batch, for its decoding requests, and for all.
func (d *GPUs) LayerAttention(sub *scheduler.SubBatch, run int, decode *Decoding) (prefill, decoded, all kernelSum) {
	a := d.ModelCost.Attention()
	for i := range sub.Prefill {
		of := d
		if sub.Prefill[i].Near {
			of = d.Spare
		}
		prefill = prefill.plus(of.PromptAttention(&a, &sub.Prefill[i], run))
		if of != d {
			d.farther[run], of.farther[run] = append(d.farther[run], of.farther[run]...), of.farther[run][:0]
		}
	}
	for i := range decode.Batches {
		b := &decode.Batches[i]
		w := &d.decoded[run]
		if len(sub.Prefill) > 0 || i > 0 || d.anew.on() { // prompts may share a kernel with decoding requests
			w = &lastDecoded{kernelSum: sumOf(a.Decoding(*b))}
		} else if *b != w.of || b.Requests == 0 {
			w.of, w.kernelSum = *b, sumOf(a.Decoding(*b))
		}
		if b.Requests > d.measured.DecodeRequests || b.Longest > d.measured.DecodeContext {
			d.beyond(gpu.DecodeKernels, w.Seconds, run)
		}
		decoded = decoded.plus(w.kernelSum)
	}
	if decode.Shared != nil {
		decoded = decoded.plus(sumOf(d.ModelCost.Kernel(*decode.Shared)))
	}
	if decode.Beside.Seconds > 0 {
		decoded = decoded.plus(sumOf(decode.Beside))
	}
	all = prefill.plus(decoded)
	if prefill.Seconds > 0 && decoded.Seconds > 0 {
		apart := all.Seconds
		all.Work = a.Total(prefill.Work, decoded.Work, sub.Tokens())
		all.time += flow.TaskTime(all.Seconds - apart) // time to join outputs
	}
	return prefill, decoded, all
}

// PromptAttention returns the attention work of one more chunk of a prompt in one layer of a run.
func (d *GPUs) PromptAttention(a *gpu.Attention, c *scheduler.Chunk, run int) (k kernelSum) {
	p := d.Attends.Policy.Prompt(run, c.Tokens, c.Finished, c.Last)
	for _, part := range p.Pieces {
		behind := d.behind(p, part.Behind, c)
		w := a.PromptsOf(part.Count, part.Tokens, behind, part.Heads, p.Windowed)
		if part.Tokens+behind > d.measured.PrefillTokens {
			d.beyond(gpu.PrefillKernels, w.Seconds, run)
		}
		k = k.plus(sumOf(w))
	}
	if d.Attends.Scores(c) {
		k = k.plus(sumOf(d.ModelCost.Merge(c.Tokens)))
	}
	if p.Chosen.Rows > 0 {
		k = k.plus(sumOf(a.Chosen(p.Chosen, p.Index)))
	}
	for _, pass := range p.Passes {
		k = k.plus(sumOf(d.ModelCost.Pass(pass.Kernels, float64(pass.Bytes), float64(pass.FLOPs))))
	}
	return k
}

// behind returns how many tokens before a piece of a chunk the GPUs attend over.
func (d *GPUs) behind(p *policy.Prompt, tokens int, c *scheduler.Chunk) int {
	if d.Appends {
		tokens -= p.Away
	}
	if d.Attends.PrefixStays {
		tokens -= c.Prefix
	}
	return tokens
}

// LeastAttention returns a time below which the attention of a chunk never is in all layers, if no requests decode on the GPUs.
func (d *GPUs) LeastAttention(c *scheduler.Chunk) (t units.Duration) {
	for _, run := range d.Attends.Kinds {
		p, seconds := d.Attends.Policy.Prompt(run, c.Tokens, c.Finished, c.Last), 0.0
		for _, part := range p.Pieces {
			seconds += d.ModelCost.LeastPrompts(part.Count, part.Tokens, d.behind(p, part.Behind, c), part.Heads, p.Windowed)
		}
		t += units.Duration(d.Attends.LayersLike(run)) * (flow.TaskTime(seconds) - units.Nanosecond)
	}
	return max(t, 0)
}

// LeastPerToken returns picoseconds that AtLeast and LeastAttention together take at least for each token of a chunk of this prompt, of any
// length, but for two nanoseconds a layer. The attention of layers with windows is left out.
func (d *GPUs) LeastPerToken(c *scheduler.Chunk) (t float64) {
	for _, run := range d.Attends.Kinds {
		p, finished, heads := d.Attends.Policy.Prompt(run, 1, c.Finished, c.Last), 0, 0
		if len(p.Pieces) == 1 && !p.Windowed && p.Pieces[0].Count == 1 && p.Pieces[0].Behind == c.Finished && !d.Appends {
			finished, heads = max(0, d.behind(p, c.Finished, c)), p.Pieces[0].Heads
		}
		t += float64(float64(d.Attends.LayersLike(run)) * d.ModelCost.LeastPerToken(finished, heads, false) * float64(units.Second))
	}
	return t
}

// GPU implements batching.Predictor with the costs themselves (L3, equation 6).
func (d *GPUs) GPU(s *scheduler.SubBatch, _ int64) units.Duration {
	for run := range d.Decoding {
		d.Decoding[run] = Decoding{}
	}
	return d.GPUTime(s)
}

// AtLeast returns a time below which GPU never is for a sub-batch of so many tokens: without attention and the LM head, at full clock. Times are
// rounded kernel by kernel here and once under a power limit: a nanosecond a layer is more than that can differ.
func (d *GPUs) AtLeast(tokens int) units.Duration {
	if d.least.of == nil {
		d.least = d.Times(func(tokens int) units.Duration {
			w, layers := d.Dense.At(tokens), units.Duration(d.Model.Layers)
			return w.entry.time + (layers-1)*w.Block.time + w.end.time - layers*units.Nanosecond
		})
	}
	return d.least.At(tokens)
}

// Times returns a cache of times by a count.
func (d *GPUs) Times(of func(n int) units.Duration) Times { return Times{of: of, anew: d.anew} }

// GPUTime returns the GPUs' time of a sub-batch with d.Decoding as their part of decoding.
func (d *GPUs) GPUTime(s *scheduler.SubBatch) units.Duration {
	return d.Whole(d.StageRuns(s))
}

// Parts returns the steps of a task on the GPUs, for a timeline. An all-reduce is part of the step
// before it.
func (d *GPUs) Parts(kind uint8, tokens, emitting, layer int, use flow.Use) []Part {
	step := func(name string, w gpu.Work) Part { return Part{name, flow.TaskTime(float64(w.Seconds * use.Slow))} }
	var choice []Part
	if use.Chooses > 0 {
		choice = []Part{{"page choice", use.Chooses / units.Duration(d.Model.Layers)}}
	}
	switch kind {
	case flow.OpEntry:
		return append([]Part{step("embedding", d.ModelCost.Embedding(tokens)), step("QKV generation", d.ModelCost.QKV(tokens))}, choice...)
	case flow.OpBlock:
		if columns, _ := d.Helps(tokens); columns > 0 {
			return nil // the projection and the network are operations of their own
		}
		var steps []Part
		if use.Merge > 0 {
			steps = append(steps, Part{"merge", use.Merge / units.Duration(d.Model.Layers)})
		}
		steps = append(steps,
			step("projection, all-reduce", d.ModelCost.Projection(tokens)),
			step("feed-forward, all-reduce", d.ModelCost.FFN(tokens)))
		if layer == d.Model.Layers-1 {
			return append(steps, step("LM head", d.head.At(emitting).Work))
		}
		return append(append(steps, step("QKV generation", d.ModelCost.QKV(tokens))), choice...)
	}
	return nil
}

// Part is one step of a task on the GPU.
type Part struct {
	Name     string
	Duration units.Duration
}
