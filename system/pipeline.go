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
	// taskPrefillAttention is the prompts' attention in one layer.
	taskPrefillAttention
	// taskBlock is what follows attention, one in-order sequence of kernels:
	// projection, feed-forward, their all-reduces and QKV generation of the next
	// layer; after the last layer, the LM head.
	taskBlock
)

// subState is where a sub-batch is in its layers.
type subState struct {
	active       bool
	finished     bool
	layer        int
	outstanding  int      // groups of the layer whose attention has not finished
	resultsAt    sim.Time // when the results up to now have reached the GPU
	prefillDone  bool     // prefill attention of the layer has finished
	blockWaiting bool     // the block has not been requested yet
}

// gpuState is the GPUs of a replica, which work in lockstep: a task runs, others
// wait in the order in which they became ready. A sub-batch has at most one.
type gpuState struct {
	running  bool
	sub      int
	task     gpuTask
	end      sim.Time
	waiting  [2]gpuRequest
	nWaiting int
}

type gpuRequest struct {
	sub  int
	task gpuTask
}

// rankState is one rankset. Groups run one after another; a transfer that the
// rankset receives interrupts the running one at a boundary.
type rankState struct {
	running  int32 // group, or -1
	finish   sim.Time
	freeAt   sim.Time // no attention before this time: the rankset receives
	waiting  [2]int32
	nWaiting int
}

// work is what the resources of a replica have done, for utilisation.
type work struct {
	gpu, pcieDown, pcieUp, channel sim.Time
	pim                            sim.Time // summed over ranksets
	tasks, events, layers          int64
}

func (w *work) add(d *work, n int64) {
	w.gpu += d.gpu * sim.Time(n)
	w.pcieDown += d.pcieDown * sim.Time(n)
	w.pcieUp += d.pcieUp * sim.Time(n)
	w.channel += d.channel * sim.Time(n)
	w.pim += d.pim * sim.Time(n)
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
// minimum over the resources and no queue of events is needed. Events of one
// instant go in the order ranksets (by group), down link, results, GPU, which
// does not depend on how the ranksets are numbered.
type pipeline struct {
	costs *iterationCosts
	now   sim.Time
	sub   [2]subState
	gpu   gpuState
	down  downLink
	up    sim.Time // the up link is free from here on
	ranks []rankState
	work  work
	exact bool
	past  history
	spans *Spans
}

// newPipeline returns a pipeline over ranksets ranksets. exact runs every layer
// of every iteration; spans, if not nil, records every task and implies exact.
func newPipeline(ranksets int, exact bool, spans *Spans) *pipeline {
	return &pipeline{ranks: make([]rankState, ranksets), exact: exact || spans != nil, spans: spans}
}

// run executes one iteration that starts at start and returns its end.
func (p *pipeline) run(costs *iterationCosts, start sim.Time) sim.Time {
	p.costs, p.now = costs, start
	p.gpu = gpuState{}
	p.down.reset()
	p.up = start
	p.past.reset()
	for q := range p.ranks {
		p.ranks[q] = rankState{running: -1, freeAt: start}
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

// step advances to the next event and handles it; it reports false when nothing
// is left to do.
func (p *pipeline) step() bool {
	at, rank := never, -1
	for q := range p.ranks {
		r := &p.ranks[q]
		if r.running < 0 || r.finish > at {
			continue
		}
		if r.finish < at || r.running < p.ranks[rank].running {
			at, rank = r.finish, q
		}
	}
	what := atRank
	if t := p.down.next(p.now); t < at {
		at, what = t, atDown
	}
	for s := range p.sub {
		if sub := &p.sub[s]; sub.blockWaiting && sub.outstanding == 0 && sub.prefillDone {
			if t := max(sub.resultsAt, p.now); t < at {
				at, what = t, atResults+event(s)
			}
		}
	}
	if p.gpu.running && p.gpu.end < at {
		at, what = p.gpu.end, atGPU
	}
	if at == never {
		return false
	}
	p.now = at
	p.work.events++
	switch what {
	case atRank:
		p.attentionDone(rank)
	case atDown:
		p.stepDown()
	case atGPU:
		p.gpuDone()
	default:
		s := int(what - atResults)
		p.sub[s].blockWaiting = false
		p.requestGPU(s, taskBlock)
	}
	return true
}

// event is what happens next.
type event int

const (
	atRank event = iota
	atDown
	atGPU
	atResults // + sub-batch
)

// group returns the number of a sub-batch's group with an offset.
func (p *pipeline) group(s, offset int) int32 { return int32(s*len(p.ranks) + offset) }

// groupCost returns the cost of group g.
func (p *pipeline) groupCost(g int32) *groupCost {
	return &p.costs.sub[int(g)/len(p.ranks)].groups[int(g)%len(p.ranks)]
}

// rankOf returns the rankset of group g in a layer.
func (p *pipeline) rankOf(g int32, layer int) int {
	offset := int(g) % len(p.ranks)
	if !p.costs.rotate {
		return offset
	}
	return (layer + offset) % len(p.ranks)
}

// requestGPU runs a task on the GPUs, or queues it.
func (p *pipeline) requestGPU(s int, task gpuTask) {
	if p.gpu.running {
		p.gpu.waiting[p.gpu.nWaiting] = gpuRequest{s, task}
		p.gpu.nWaiting++
		return
	}
	p.startGPU(s, task)
}

func (p *pipeline) startGPU(s int, task gpuTask) {
	d := p.gpuDuration(s, task)
	p.gpu.running, p.gpu.sub, p.gpu.task, p.gpu.end = true, s, task, p.now+d
	p.work.gpu += d
	p.work.tasks++
	if task == taskBlock {
		p.queuePrefillTransfers(s)
	}
	if p.spans != nil {
		p.spans.add(resourceGPU, s, p.sub[s].layer, gpuTaskNames[task], -1, p.now, p.now+d)
	}
}

func (p *pipeline) gpuDuration(s int, task gpuTask) sim.Time {
	c := &p.costs.sub[s]
	switch {
	case task == taskEntry:
		return c.entry
	case task == taskPrefillAttention:
		return c.prefillAttention
	case p.sub[s].layer == p.costs.layers-1:
		return c.exit
	}
	return c.block
}

// gpuDone ends the running task and starts the next.
func (p *pipeline) gpuDone() {
	s, task := p.gpu.sub, p.gpu.task
	p.gpu.running = false
	if p.gpu.nWaiting > 0 {
		next := p.gpu.waiting[0]
		p.gpu.waiting[0] = p.gpu.waiting[1]
		p.gpu.nWaiting--
		p.startGPU(next.sub, next.task)
	}
	sub := &p.sub[s]
	switch task {
	case taskPrefillAttention:
		sub.prefillDone = true
		return
	case taskBlock:
		sub.layer++
		if sub.layer == p.costs.layers {
			sub.finished = true
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
	for offset := range c.groups {
		if c.groups[offset].requests > 0 {
			sub.outstanding++
			p.down.queueDecode(p.group(s, offset), sub.layer, p.now+p.costs.latency)
		}
	}
	sub.blockWaiting = true
	sub.prefillDone = c.prefillAttention == 0
	if !sub.prefillDone {
		p.requestGPU(s, taskPrefillAttention)
	}
}

// startAttention runs group g on rankset q, from at on.
func (p *pipeline) startAttention(q int, g int32, at sim.Time) {
	r, c := &p.ranks[q], p.groupCost(g)
	r.running, r.finish = g, at+c.compute
	p.work.pim += c.compute
	p.work.tasks++
	if p.spans != nil {
		s := int(g) / len(p.ranks)
		p.spans.open(q, s, p.sub[s].layer, int(g)%len(p.ranks), at)
	}
}

// attentionDone ends the running group of rankset q, sends its results up and
// starts the next group. The up link serves results in the order in which they
// are done.
func (p *pipeline) attentionDone(q int) {
	r := &p.ranks[q]
	g := r.running
	s := int(g) / len(p.ranks)
	c, sub := p.groupCost(g), &p.sub[s]
	begin := max(p.up, p.now+p.costs.latency)
	p.up = begin + c.up
	p.work.pcieUp += c.up
	p.work.channel += c.upChannel
	p.work.tasks++
	sub.resultsAt = max(sub.resultsAt, p.up)
	sub.outstanding--
	if p.spans != nil {
		p.spans.close(q, p.now)
		p.spans.add(resourceUp, s, sub.layer, "attention results", int(g)%len(p.ranks), begin, p.up)
	}
	r.running = -1
	if r.nWaiting > 0 {
		next := r.waiting[0]
		r.waiting[0] = r.waiting[1]
		r.nWaiting--
		p.startAttention(q, next, max(p.now, r.freeAt))
	}
}
