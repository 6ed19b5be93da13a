package system

import (
	"math"

	"github.com/l3sim/l3sim/sim"
)

// never is the time of what is not due.
const never = sim.Time(math.MaxInt64)

// gpuTask is one of the three things that a sub-batch does on the GPUs.
type gpuTask uint8

const (
	// taskEntry is embedding and QKV generation of layer 0.
	taskEntry gpuTask = iota
	// taskAttention is the prompts' attention in one layer.
	taskAttention
	// taskBlock is what follows attention, one in-order sequence of kernels:
	// projection, feed-forward, their all-reduces and QKV generation of the next
	// layer; after the last layer, the LM head.
	taskBlock
)

// job is a task of a sub-batch, as the GPU resource knows it.
func job(s int, task gpuTask) int32 { return int32(s)<<8 | int32(task) }

// subState is where a sub-batch is in its layers.
type subState struct {
	active      bool
	layer       int
	outstanding int      // groups of the layer whose attention has not finished
	prompts     int      // prompt transfers that the block waits for
	resultsAt   sim.Time // when the results up to now have reached the GPU
	prefillDone bool     // prefill attention of the layer has finished
}

// rankState is one rankset. Groups run one after another; a transfer that the
// rankset receives interrupts the running one at a boundary. When the running
// group finishes is in the pipeline's due times.
type rankState struct {
	running  int32    // group, or none
	freeAt   sim.Time // no attention before this time: the rankset receives
	stop     sim.Time // when it left its work for the transfer in progress
	active   bool     // it had begun that work
	waiting  [2]int32
	nWaiting int
}

// none is the group of an idle rankset.
const none = int32(-1)

// work is what the resources of a replica have done, for utilisation and for
// the laws.
type work struct {
	gpu, pcieDown, pcieUp, channel sim.Time
	attention                      sim.Time // of gpu, what attention takes there
	pim                            sim.Time // summed over ranksets
	// What was moved: requests whose vectors went down and whose results came up,
	// and prompt tokens, each counted once a layer.
	requestsDown, requestsUp, promptTokens int64
	tasks                                  int64
	events, layers                         int64 // simulated one by one, without those skipped
}

// since returns the work done since before.
func (w *work) since(before *work) work {
	return work{
		gpu: w.gpu - before.gpu, attention: w.attention - before.attention, pcieDown: w.pcieDown - before.pcieDown, pcieUp: w.pcieUp - before.pcieUp,
		channel: w.channel - before.channel, pim: w.pim - before.pim,
		requestsDown: w.requestsDown - before.requestsDown, requestsUp: w.requestsUp - before.requestsUp,
		promptTokens: w.promptTokens - before.promptTokens, tasks: w.tasks - before.tasks,
	}
}

// add adds d, n times; nothing of it was simulated.
func (w *work) add(d *work, n int64) {
	w.gpu += d.gpu * sim.Time(n)
	w.attention += d.attention * sim.Time(n)
	w.pcieDown += d.pcieDown * sim.Time(n)
	w.pcieUp += d.pcieUp * sim.Time(n)
	w.channel += d.channel * sim.Time(n)
	w.pim += d.pim * sim.Time(n)
	w.requestsDown += d.requestsDown * n
	w.requestsUp += d.requestsUp * n
	w.promptTokens += d.promptTokens * n
	w.tasks += d.tasks * n
}

// pipeline runs the layers of one iteration: the tasks of Fig 7 of the L3 paper
// on GPU, PCIe, channels and ranksets, both sub-batches in flight.
//
// A group is the decoding requests of one sub-batch with one rankset offset:
// their q, k and v go down together, their attention runs on rankset
// (layer + offset) mod R, and their results come up together. Group numbers,
// sub-batch · R + offset, do not change from layer to layer.
//
// Every resource has at most one task in progress, so the next event is the
// minimum over the resources' due times and no queue of events is needed. Events
// of one instant go in the order ranksets (by group), writer, down link, results,
// GPU, which does not depend on how the ranksets are numbered.
type pipeline struct {
	costs  *iterationCosts
	now    sim.Time
	due    []sim.Time // of ranksets, then dueWriter ... dueGPU after them; never where nothing is
	sub    [2]subState
	gpu    sim.Resource
	down   downLink
	writer writer
	up     upLink
	ranks  []rankState
	work   work
	exact  bool
	past   history
	waves  waves
	spans  *Spans   // nil without a timeline
	check  *checker // nil without checks
}

// newPipeline returns a pipeline over ranksets ranksets. exact runs every layer
// of every iteration.
func newPipeline(ranksets int, exact bool) *pipeline {
	return &pipeline{ranks: make([]rankState, ranksets), due: make([]sim.Time, ranksets+dueOthers), exact: exact, waves: newWaves(ranksets)}
}

// run executes one iteration that starts at start and returns its end.
func (p *pipeline) run(costs *iterationCosts, start sim.Time) sim.Time {
	p.costs, p.now = costs, start
	if !p.exact && p.waves.apply(costs) {
		return p.runWaves(start)
	}
	p.gpu.Reset()
	p.down.reset()
	p.writer.reset()
	p.up = upLink{begin: start, end: start}
	p.past.reset()
	for q := range p.ranks {
		p.ranks[q] = rankState{running: none, freeAt: start}
	}
	for i := range p.due {
		p.due[i] = never
	}
	for s := range p.sub {
		p.sub[s] = subState{active: s < len(costs.sub) && costs.sub[s].active}
	}
	for s := range p.sub {
		if p.sub[s].active {
			p.requestGPU(s, taskEntry)
		}
	}
	for p.step() {
	}
	return p.now
}

// runWaves executes an iteration to which the recurrence applies.
func (p *pipeline) runWaves(start sim.Time) sim.Time {
	for s := range p.sub {
		p.sub[s].active = s < len(p.costs.sub) && p.costs.sub[s].active
	}
	p.waves.check = p.check
	p.now = p.waves.run(p.costs, start)
	done := p.costs.decodeWork()
	p.work.add(&done, 1)
	p.work.events += p.waves.steps
	p.work.layers += p.waves.layers
	return p.now
}

// Places in the due times, after the ranksets.
const (
	dueWriter  = iota // a piece is written
	dueDown           // the down link's piece ends, or the next can start
	dueResults        // the results and all else that the block of sub-batch 0 waits for are there
	_                 // of sub-batch 1
	dueGPU            // the GPU's task ends
	dueOthers
)

// step advances to the next event and handles it; it reports false when nothing
// is left to do.
func (p *pipeline) step() bool {
	at, next := never-1, -1
	ranksets := len(p.ranks)
	for i, t := range p.due {
		if t < at || t == at && i < ranksets && p.ranks[i].running < p.ranks[next].running {
			at, next = t, i
		}
	}
	if next < 0 {
		return false
	}
	if p.check != nil && at > p.now {
		p.check.idle(p)
	}
	p.now = at
	p.work.events++
	switch next - ranksets {
	case dueWriter:
		p.written()
	case dueDown:
		p.stepDown()
	case dueResults, dueResults + 1:
		p.due[next] = never
		p.requestGPU(next-ranksets-dueResults, taskBlock)
	case dueGPU:
		p.gpuDone()
	default:
		p.attentionDone(next)
	}
	return true
}

// set sets one of the due times after the ranksets'.
func (p *pipeline) set(what int, at sim.Time) { p.due[len(p.ranks)+what] = at }

// awaitBlock sets when the block of sub-batch s can be requested, once all that
// it waits for has a time.
func (p *pipeline) awaitBlock(s int) {
	if sub := &p.sub[s]; sub.outstanding == 0 && sub.prompts == 0 && sub.prefillDone {
		p.set(dueResults+s, max(sub.resultsAt, p.now))
	}
}

// split returns sub-batch and rankset offset of group g.
func (p *pipeline) split(g int32) (s, offset int) {
	if int(g) < len(p.ranks) {
		return 0, int(g)
	}
	return 1, int(g) - len(p.ranks)
}

// rankOf returns the rankset of a rankset offset in a layer.
func (p *pipeline) rankOf(offset, layer int) int {
	if !p.costs.rotate {
		return offset
	}
	return (layer + offset) % len(p.ranks)
}

// requestGPU runs a task on the GPUs, or queues it: they work in lockstep, one
// task after another in the order in which the tasks became ready.
func (p *pipeline) requestGPU(s int, task gpuTask) {
	if _, started := p.gpu.Enqueue(p.now, job(s, task), p.gpuDuration(s, task)); started {
		p.gpuStarted(s, task)
	}
}

func (p *pipeline) gpuDuration(s int, task gpuTask) sim.Time {
	c := &p.costs.sub[s]
	switch {
	case task == taskEntry:
		return c.entry
	case task == taskAttention:
		return c.prefillAttention
	case p.sub[s].layer == p.costs.layers-1:
		return c.exit
	}
	return c.block
}

func (p *pipeline) gpuStarted(s int, task gpuTask) {
	end, _ := p.gpu.End()
	p.set(dueGPU, end)
	p.work.gpu += end - p.now
	if task == taskAttention {
		p.work.attention += end - p.now
	}
	p.work.tasks++
	if task == taskBlock && p.costs.asyncPrefill && p.queuePrompts(s) > 0 {
		p.wakeDown()
	}
	if p.check != nil {
		p.check.gpu(p, s, task, end)
	}
	if p.spans != nil {
		p.spans.gpu(p, s, task, end)
	}
}

// gpuDone ends the running task and starts the next.
func (p *pipeline) gpuDone() {
	ended, _, _ := p.gpu.InService()
	p.set(dueGPU, never)
	if next, _, started := p.gpu.Complete(p.now); started {
		p.gpuStarted(int(next>>8), gpuTask(next&0xff))
	}
	s := int(ended >> 8)
	sub := &p.sub[s]
	switch gpuTask(ended & 0xff) {
	case taskAttention:
		sub.prefillDone = true
		p.awaitBlock(s)
		return
	case taskBlock:
		sub.layer++
		if sub.layer == p.costs.layers {
			return
		}
	}
	p.startLayer(s)
	p.skipRepeats(s)
}

// startLayer sends what QKV generation made: decode vectors to the ranksets,
// prompts to attention on the GPU.
func (p *pipeline) startLayer(s int) {
	p.work.layers++
	sub, c := &p.sub[s], &p.costs.sub[s]
	sub.outstanding, sub.resultsAt = 0, p.now
	t := p.transfer(s, 0, 0)
	for offset := range c.groups {
		if g := &c.groups[offset]; g.requests > 0 {
			sub.outstanding++
			t.pieces = int32(g.decode.pieces)
			p.down.decode.push(t)
		}
		t.group++
		if t.rank++; int(t.rank) == len(p.ranks) {
			t.rank = 0
		}
	}
	if !p.costs.asyncPrefill {
		sub.prompts = p.queuePrompts(s)
	}
	sub.prefillDone = c.prefillAttention == 0
	if !sub.prefillDone {
		p.requestGPU(s, taskAttention)
	}
	p.awaitBlock(s)
	p.wakeDown()
}

// startAttention runs group g on rankset q, from at on.
func (p *pipeline) startAttention(q int, g int32, at sim.Time) {
	r, c := &p.ranks[q], &p.costs.groups[g]
	r.running, p.due[q] = g, at+c.compute
	p.work.pim += c.compute
	p.work.tasks++
	if p.check != nil {
		p.check.attention(p, q, g, at)
	}
	if p.spans != nil {
		p.spans.attention(p, q, g, at)
	}
}

// attentionDone ends the running group of rankset q, sends its results up and
// starts the next group.
func (p *pipeline) attentionDone(q int) {
	r := &p.ranks[q]
	g := r.running
	s, _ := p.split(g)
	sub := &p.sub[s]
	begin, end := p.sendUp(&p.costs.groups[g])
	sub.resultsAt = max(sub.resultsAt, end)
	sub.outstanding--
	p.awaitBlock(s)
	if p.check != nil {
		p.check.results(p, q, g, begin, end)
	}
	if p.spans != nil {
		p.spans.results(p, q, g, begin, end)
	}
	r.running, p.due[q] = none, never
	if r.nWaiting > 0 {
		next := r.waiting[0]
		r.waiting[0] = r.waiting[1]
		r.nWaiting--
		p.startAttention(q, next, max(p.now, r.freeAt))
	}
}
