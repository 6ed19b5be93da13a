package dataflow

import (
	"math"

	"github.com/l3sim/l3sim/units"
)

// Time is simulated time in picoseconds.
type Time = units.Duration

// never is the time of an event that is not due.
const never = Time(math.MaxInt64)

// Discipline says how a resource serves its operations.
type Discipline uint8

const (
	// FIFO serves one operation at a time, in the order in which they become ready: GPUs in lockstep,
	// the host's CPUs, units in HBM, results on their way up.
	FIFO Discipline = iota
	// Link serves the lowest class first, in whole pieces. A link may claim lanes: a
	// lane computes nothing while it receives.
	Link
	// Lanes serve operations in parallel, one at a time on each lane: ranksets.
	Lanes
)

// Resource is something that operations occupy. At one instant lanes go first, in the order of
// their operations; then links and then ends on FIFOs, both in the order of the list of resources.
type Resource struct {
	Name       string
	Discipline Discipline
	Latency    Time // from the end of what an operation waits for to its start

	Reason uint8 // the system's code for why others wait for this resource, below Reasons
	Device bool  // its waits are added up, too; at most one resource

	Count   int  // number of lanes
	Rotates bool // an operation of the model's layer l runs on lane (Op.Lane + l) mod Count
	// A claim stops a computing lane at a boundary. Vacate is the time to stop, Reactivate the time to
	// resume.
	Vacate, Reactivate Time
	Boundaries         Boundaries

	// Twin is 1 + the index of a resource that shares this one's bus, so that only one of the two
	// carries data at a time: a FIFO and a Link. 0 for none.
	Twin int
}

// Flags of an operation.
const (
	// NextLayer: the layer ends with the operation.
	NextLayer = 1 << iota
	// OnStart: the operation waits for the starts, not the ends, of its predecessors.
	OnStart
	// Stream: each piece waits for the same piece of the single predecessor.
	Stream
	// ClaimAll: the operation claims all lanes, not only its own.
	ClaimAll
)

// Op is an operation of a layer. It has no pointers, so that a system can fill
// thousands a millisecond.
type Op struct {
	Time, Last  Time  // of a piece on the resource, and of the last piece
	Open, Close Time  // of a claim: before the data of each piece; after it, until the lane can compute
	After       Range // of Iteration.After: operations of the same layer that must have ended
	Parts       Range // of Iteration.Parts: boundaries at which a claim may interrupt
	Pieces      int32 // at least 1; more than 1 on a link only
	Lane        int16 // of its own resource or of the one that it claims
	Resource    int8
	Claims      int8 // 1 + index of the resource whose lane it claims; 0 for none
	Class       uint8
	Flags       uint8
	Kind        uint8 // the system's code, for spans and names
	Group       int16 // the system's code, for spans and names
	Bus         Time  // time that memory channels carry its data, for all pieces: booked, not scheduled
}

// duration returns the time of all pieces.
func (o *Op) duration() Time { return Time(o.Pieces-1)*o.Time + o.Last }

// Range is the part [From, To) of a slice.
type Range struct{ From, To int32 }

// Layers is all layers of a sub-batch with the same operations, one of which has the flag
// NextLayer.
type Layers struct {
	Range       // of Iteration.Ops
	Count int32 // at least 1
}

// Run is successive layers of one kind.
type Run struct{ Kind, Count int32 }

// SubBatch is the layers of one sub-batch, empty if it takes no part. The work before the model's
// first layer is a layer of its own. Layers with the same operations are of one kind: whatever does
// not depend on their order is computed once for each kind.
type SubBatch struct {
	Kinds []Layers // in the order of first occurrence
	Order []Run    // of all layers: as many of each kind as in Kinds
	// Exit replaces Last of the operation that ends the last layer: the model's head follows in place
	// of another layer.
	Exit Time
}

// Add appends successive layers with the same operations.
func (s *SubBatch) Add(ops Range, count int32) {
	kind := 0
	for kind < len(s.Kinds) && s.Kinds[kind].Range != ops {
		kind++
	}
	if kind == len(s.Kinds) {
		s.Kinds = append(s.Kinds, Layers{Range: ops})
	}
	s.Kinds[kind].Count += count
	s.Order = append(s.Order, Run{int32(kind), count})
}

// last returns the kind of the last layer.
func (s *SubBatch) last() *Layers { return &s.Kinds[s.Order[len(s.Order)-1].Kind] }

// total returns the number of layers.
func (s *SubBatch) total() int32 {
	var n int32
	for i := range s.Kinds {
		n += s.Kinds[i].Count
	}
	return n
}

// Iteration is the work of one or two sub-batches. Its memory is reused for every iteration, after
// Reset.
type Iteration struct {
	Ops   []Op
	After []int32 // indices of Ops
	Parts []int64 // clocks of one head of each request, in their order
	Sub   [2]SubBatch

	totals Totals
}

// Reset empties the iteration and keeps its memory.
func (it *Iteration) Reset() {
	it.Ops, it.After, it.Parts = it.Ops[:0], it.After[:0], it.Parts[:0]
	for s := range it.Sub {
		it.Sub[s].Kinds, it.Sub[s].Order = it.Sub[s].Kinds[:0], it.Sub[s].Order[:0]
	}
}

// From returns the operations from index first on.
func (it *Iteration) From(first int32) Range { return Range{first, int32(len(it.Ops))} }

// Add appends an operation of one piece and returns it and its index. It is valid until
// the next call. The caller sets the other fields in place: see doc.go.
func (it *Iteration) Add(resource int8, time Time) (*Op, int32) {
	n := len(it.Ops)
	if n == cap(it.Ops) {
		it.Ops = append(it.Ops, Op{})
	}
	it.Ops = it.Ops[:n+1]
	o := &it.Ops[n]
	*o = Op{Resource: resource, Last: time, Pieces: 1}
	return o, int32(n)
}

// Wait stores the operations that an operation waits for, and returns them as Op.After.
func (it *Iteration) Wait(after ...int32) Range {
	from := int32(len(it.After))
	it.After = append(it.After, after...)
	return Range{from, int32(len(it.After))}
}

// Totals sums up an iteration.
type Totals struct {
	ByKind  [kindsOfOps]Time // over all resources, by Op.Kind
	Bus     Time             // time that memory channels carry data
	Pieces  int64
	Longest Time // bound on the longest operation: at least its time, and less than twice that
}

// kindsOfOps is the number of distinct kinds of operations.
const kindsOfOps = 32

// Totals adds up all operations. It is valid until the next call.
func (it *Iteration) Totals() *Totals {
	t := &it.totals
	*t = Totals{}
	for s := range it.Sub {
		sub := &it.Sub[s]
		for _, r := range sub.Kinds {
			t.add(it.Ops[r.From:r.To], r.Count)
		}
		if len(sub.Order) > 0 {
			last := sub.last()
			for j := last.From; j < last.To; j++ {
				if o := &it.Ops[j]; o.Flags&NextLayer != 0 {
					t.Longest |= sub.Exit
					t.ByKind[o.Kind%kindsOfOps] += sub.Exit - o.Last
				}
			}
		}
	}
	return t
}

// add adds the operations of a number of layers.
func (t *Totals) add(ops []Op, layers int32) {
	n := Time(layers)
	for j := range ops {
		o := &ops[j]
		all := o.Last
		if o.Pieces > 1 {
			all = o.duration()
			long := float64(o.Pieces) * (float64(o.Time) + float64(o.Open) + float64(o.Close))
			t.Longest |= min(units.FromPicoseconds(long), Longest)
		}
		t.Longest |= o.Last | o.Open | o.Close
		t.ByKind[o.Kind%kindsOfOps] += n * all
		t.Bus += n * o.Bus
		t.Pieces += int64(n) * int64(o.Pieces)
	}
}
