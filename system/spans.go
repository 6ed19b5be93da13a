package system

import "github.com/l3sim/l3sim/sim"

// Resources of a replica on a timeline. Rankset q is resourceRank + q.
const (
	resourceGPU = iota
	resourceDown
	resourceUp
	resourceRank
)

var gpuTaskNames = [...]string{taskEntry: "embedding, qkv", taskPrefillAttention: "prefill attention", taskBlock: "block"}

// Span is one task, or one uninterrupted part of it, on one resource.
type Span struct {
	Resource   int
	Sub        int // sub-batch
	Layer      int
	Name       string
	Offset     int // rankset offset of the group, -1 on the GPU
	Start, End sim.Time
}

// Spans records what every resource of a replica does. It is for timelines and
// for checking schedules; a run without one pays a comparison a task.
type Spans struct {
	List []Span
	// running[q] is the index of the open span of rankset q.
	running []int
}

// NewSpans returns an empty record for a replica with ranksets ranksets.
func NewSpans(ranksets int) *Spans { return &Spans{running: make([]int, ranksets)} }

func (s *Spans) add(resource, sub, layer int, name string, offset int, start, end sim.Time) {
	s.List = append(s.List, Span{resource, sub, layer, name, offset, start, end})
}

// open begins a span of attention on rankset q, whose end is not known yet.
func (s *Spans) open(q, sub, layer, offset int, start sim.Time) {
	s.running[q] = len(s.List)
	s.add(resourceRank+q, sub, layer, "decode attention", offset, start, never)
}

// interrupt ends the open span of rankset q at stop and begins another at
// resume. A span that would have begun at stop begins at resume.
func (s *Spans) interrupt(q int, stop, resume sim.Time) {
	open := s.List[s.running[q]]
	if open.Start >= stop {
		s.List[s.running[q]].Start = resume
		return
	}
	s.close(q, stop)
	s.open(q, open.Sub, open.Layer, open.Offset, resume)
}

// close ends the open span of rankset q.
func (s *Spans) close(q int, end sim.Time) { s.List[s.running[q]].End = end }
