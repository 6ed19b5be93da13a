package system

import "github.com/l3sim/l3sim/sim"

// Resources of a replica on a timeline. Rankset q is resourceRank + q.
const (
	resourceGPU = iota
	resourceDown
	resourceUp
	resourceRank
)

// Operations of spans on other resources than the GPU, after the GPU's tasks.
const (
	opDecodeDown = int32(taskBlock) + 1 + iota
	opPromptDown
	opResults
	opAttention
	opGPUAttention // of prompts and of requests that decode on the GPUs
)

// Spans records what every resource of a replica does, on a timeline: Kind is a
// gpuTask or one of the operations, A is sub-batch · R + rankset offset (on the
// GPU sub-batch · R), B the layer. A run without one pays a comparison a task.
type Spans struct {
	sim.Timeline
	ranksets int
	running  []int // index of the open span of each rankset
}

// NewSpans returns an empty record for a replica with ranksets ranksets.
func NewSpans(ranksets int) *Spans { return &Spans{ranksets: ranksets, running: make([]int, ranksets)} }

func (s *Spans) gpu(p *pipeline, sub int, task gpuTask, end sim.Time) {
	s.Add(sim.Span{Start: p.now, End: end, Resource: resourceGPU, Kind: int32(task),
		A: int32(sub * s.ranksets), B: int32(p.sub[sub].layer)})
}

func (s *Spans) down(p *pipeline, begin, end sim.Time) {
	t := &p.down.current
	op := opDecodeDown
	if t.prompt {
		op = opPromptDown
	}
	s.Add(sim.Span{Start: begin, End: end, Resource: resourceDown, Kind: op, A: int32(t.group), B: t.layer})
}

// attention begins a span of group g on rankset q, whose end is not known yet.
func (s *Spans) attention(p *pipeline, q int, g int32, start sim.Time) {
	sub, _ := p.split(g)
	s.open(q, sim.Span{Start: start, Resource: int32(resourceRank + q), Kind: opAttention, A: g, B: int32(p.sub[sub].layer)})
}

func (s *Spans) open(q int, span sim.Span) {
	s.running[q] = len(s.Spans)
	s.Add(span)
}

// interrupt ends the open span of rankset q at stop and begins another at
// resume. A span that would have begun at stop begins at resume.
func (s *Spans) interrupt(q int, stop, resume sim.Time) {
	span := &s.Spans[s.running[q]]
	if span.Start >= stop {
		span.Start = resume
		return
	}
	span.End = stop
	again := *span
	again.Start = resume
	s.open(q, again)
}

// results ends the open span of rankset q and records the group's way up.
func (s *Spans) results(p *pipeline, q int, g int32, begin, end sim.Time) {
	s.Spans[s.running[q]].End = p.now
	sub, _ := p.split(g)
	s.Add(sim.Span{Start: begin, End: end, Resource: resourceUp, Kind: opResults, A: g, B: int32(p.sub[sub].layer)})
}
