package dataflow

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// planted is a change to a schedule and the resulting violations in order of time: the law, the time, and the beginning of the
// message, in which "5 of 1.2" is operation 5 of sub-batch 1 in layer 2.
type planted struct {
	name string
	set  func(s *schedule)
	want []string
}

// schedule is the part of an iteration that a plant may change.
type schedule struct {
	spans      []Span
	start, end Time
}

// of returns the span of an operation's nth piece in a layer.
func (s *schedule) of(op, layer int32, nth int) *Span {
	for i := range s.spans {
		if x := &s.spans[i]; x.Op == op && x.Layer == layer && !x.Claim {
			if nth--; nth < 0 {
				return x
			}
		}
	}
	return nil
}

// move shifts spans by a time.
func move(by Time, spans ...*Span) {
	for _, x := range spans {
		x.Start, x.End = x.Start+by, x.End+by
	}
}

// operations maps operations to their names in messages.
var operations = regexp.MustCompile(`operation (\d+) \(kind 0, group 0\) of sub-batch (\d+), layer (-?\d+), on \w+`)

// checkPlanted plants each change in the schedule of an iteration that starts at 100, and compares the violations
// that Verify finds.
func checkPlanted(t *testing.T, e *Engine, it *Iteration, plants []planted) {
	for _, p := range plants {
		s := &schedule{start: 100}
		s.spans = slices.Clone(e.Record(it, 100))
		s.end = e.end
		if p.set != nil {
			p.set(s)
		}
		slices.SortStableFunc(s.spans, byStart)
		var got []string
		for _, v := range e.Verify(it, s.spans, s.start, s.end) {
			got = append(got, fmt.Sprintf("%s at %d: %s", v.Law, v.Time, operations.ReplaceAllString(v.Detail, "$1 of $2.$3")))
		}
		if !slices.EqualFunc(got, p.want, strings.HasPrefix) {
			t.Errorf("%s:\ngot  %s\nwant %s", p.name, strings.Join(got, "\n     "), strings.Join(p.want, "\n     "))
		}
	}
}

// turns is two sub-batches of two layers on a GPU and a device with 3 ps of latency. Sub-batch 0 has operations 0 (before the
// first layer, 4 ps), 1 (device, 10) and 2 (GPU, 5, ends the layer; 7 in the last). Sub-batch 1 has 3 (2 ps), 4 (device, 6) and
// 5 (GPU, 5; 1 in the last).
//
//	GPU     0 [100,104] 3 [104,106]                        2 [117,122] 5 [123,128]           2 [135,142] 5 [142,143]
//	device                          1 [107,117] 4 [117,123]           1 [125,135] 4 [135,141]
func turns() (*Engine, *Iteration) {
	it := &Iteration{}
	b := builder{it}
	for s, time := range [2][4]Time{{4, 10, 5, 7}, {2, 6, 5, 1}} {
		b.op(Op{Last: time[0], Flags: NextLayer})
		entry := b.since(len(it.Ops) - 1)
		d := b.op(Op{Last: time[1], Resource: 1})
		b.op(Op{Last: time[2], Flags: NextLayer}, d)
		b.layers(s, 2, entry, b.since(int(d)), time[3])
	}
	return New([]Resource{{Name: "GPU"}, {Name: "device", Latency: 3}}), it
}

// TestPlantedInTurns breaks the laws of FIFOs, layers and durations one by one.
func TestPlantedInTurns(t *testing.T) {
	e, it := turns()
	last := func(s *schedule) *Span { return s.of(5, 2, 0) }
	checkPlanted(t, e, it, []planted{
		{"nothing", nil, nil},
		{"an end before its start", func(s *schedule) { last(s).End = 141 },
			[]string{"traffic at 141: 5 of 1.2 takes -1ps in 1 pieces, not 1ps in 1", "exclusive at 142: 5 of 1.2 ends at 141ps, before it starts",
				"iteration at 143: the iteration ends at 143ps, its last operation at 142ps"}},
		{"a layer that there is not", func(s *schedule) { last(s).Layer = 3 },
			[]string{"traffic at 142: 5 of 1.3 is no operation", "traffic at 143: 5 of 1.2 is not done"}},
		{"a layer before the first", func(s *schedule) { last(s).Layer = -1 },
			[]string{"traffic at 142: 5 of 1.-1 is no operation", "traffic at 143: 5 of 1.2 is not done"}},
		{"a layer before all", func(s *schedule) { s.of(2, 2, 0).Layer = -1 },
			[]string{"traffic at 135: 2 of 0.-1 is no operation", "traffic at 143: 2 of 0.2 is not done"}},
		{"a layer and an operation of the other sub-batch", func(s *schedule) {
			x := s.of(2, 2, 0)
			x.Op, x.Layer = 5, 4
		}, []string{"traffic at 135: 5 of 0.4 is no operation", "traffic at 143: 2 of 0.2 is not done"}},
		{"a layer of the other sub-batch", func(s *schedule) { s.of(2, 2, 0).Layer = 4 },
			[]string{"traffic at 135: 2 of 0.4 is no operation", "traffic at 143: 2 of 0.2 is not done"}},
		{"an operation of a later layer", func(s *schedule) { s.of(0, 0, 0).Op = 1 },
			[]string{"traffic at 100: 1 of 0.0 is no operation", "idle at 103: 1 of 0.1 could start at 103ps and starts at 107ps",
				"traffic at 143: 0 of 0.0 is not done"}},
		{"an operation of an earlier layer", func(s *schedule) { last(s).Op = 3 },
			[]string{"traffic at 142: 3 of 1.2 is no operation", "traffic at 143: 5 of 1.2 is not done"}},
		{"an operation of the other sub-batch", func(s *schedule) { s.of(2, 2, 0).Op = 3 },
			[]string{"traffic at 135: 3 of 0.2 is no operation", "traffic at 143: 2 of 0.2 is not done"}},
		{"left out", func(s *schedule) {
			s.spans = slices.DeleteFunc(s.spans, func(x Span) bool { return x.Op == 5 && x.Layer == 2 })
			s.end = 142
		}, []string{"traffic at 142: 5 of 1.2 is not done"}},
		{"shorter", func(s *schedule) { last(s).Start++ },
			[]string{"idle at 142: 5 of 1.2 could start at 142ps and starts at 143ps", "traffic at 143: 5 of 1.2 takes 0ps in 1 pieces, not 1ps in 1"}},
		{"in two pieces", func(s *schedule) {
			again := *last(s)
			again.Start = again.End
			s.spans = append(s.spans, again)
		}, []string{"traffic at 143: 5 of 1.2 takes 1ps in 2 pieces, not 1ps in 1"}},
		{"before what it waits for", func(s *schedule) { move(-2, last(s)); s.end -= 2 },
			[]string{"causality at 140: 5 of 1.2 starts before 141ps", "exclusive at 140: 5 of 1.2 starts before GPU is free at 142ps",
				"iteration at 141: the iteration ends at 141ps, its last operation at 142ps"}},
		{"before the latency is over", func(s *schedule) { move(-1, s.of(1, 1, 0)) },
			[]string{"causality at 106: 1 of 0.1 starts before 107ps", "idle at 116: 2 of 0.1 could start at 116ps and starts at 117ps",
				"idle at 116: 4 of 1.1 could start at 116ps and starts at 117ps"}},
		{"before the layer before has ended", func(s *schedule) { move(-1, s.of(1, 2, 0)) },
			[]string{"causality at 124: 1 of 0.2 starts before 125ps", "idle at 134: 2 of 0.2 could start at 134ps and starts at 135ps",
				"idle at 134: 4 of 1.2 could start at 134ps and starts at 135ps"}},
		{"before the iteration", func(s *schedule) { move(-1, s.of(0, 0, 0)) },
			[]string{"causality at 99: 0 of 0.0 starts before 100ps", "exclusive at 99: 0 of 0.0 starts before GPU is free at 100ps",
				"idle at 103: 3 of 1.0 could start at 103ps and starts at 104ps", "idle at 106: 1 of 0.1 could start at 106ps and starts at 107ps"}},
		{"while its resource works", func(s *schedule) { move(-1, s.of(4, 1, 0)) },
			[]string{"exclusive at 116: 4 of 1.1 starts before device is free at 117ps",
				"idle at 122: 5 of 1.1 could start at 122ps and starts at 123ps"}},
		{"late", func(s *schedule) { move(1, last(s)); s.end++ }, []string{"idle at 142: 5 of 1.2 could start at 142ps and starts at 143ps"}},
		{"out of turn", func(s *schedule) { // sub-batch 1 is ready for the device at 106, sub-batch 0 at 104
			first, second := s.of(1, 1, 0), s.of(4, 1, 0)
			second.Start, second.End, first.Start, first.End = 109, 115, 115, 125
		},
			[]string{"idle at 115: 1 of 0.1 is ready at 104ps and goes after 4 of 1.1, ready at 106ps", "causality at 117: 2 of 0.1 starts before 125ps",
				"idle at 122: 5 of 1.1 could start at 122ps and starts at 123ps",
				"idle at 123: 5 of 1.1 is ready at 115ps and goes after 2 of 0.1, ready at 125ps"}},
		{"an early end", func(s *schedule) { s.end-- }, []string{"iteration at 142: the iteration ends at 142ps, its last operation at 143ps"}},
		{"a late end", func(s *schedule) { s.end++ }, []string{"iteration at 144: the iteration ends at 144ps, its last operation at 143ps"}},
		{"an end before the device's 32 ps", func(s *schedule) { s.end = 131 },
			[]string{"iteration at 131: the iteration ends at 131ps, its last operation at 143ps",
				"iteration at 131: the iteration takes 31ps, device is busy for 32ps"}},
		{"an end with the device's 32 ps", func(s *schedule) { s.end = 132 },
			[]string{"iteration at 132: the iteration ends at 132ps, its last operation at 143ps"}},
		// 24 ps on the GPU, four operations of 32 ps on the device, each after 3 ps.
		{"an end behind all in turn", func(s *schedule) { s.end = 169 },
			[]string{"iteration at 169: the iteration ends at 169ps, its last operation at 143ps",
				"iteration at 169: the iteration takes 69ps, all operations in turn 68ps"}},
		{"an end with all in turn", func(s *schedule) { s.end = 168 },
			[]string{"iteration at 168: the iteration ends at 168ps, its last operation at 143ps"}},
	})
}

// Resources of behindBus, whose ranksets are not the first lanes.
const (
	busOthers = iota
	busRanks
	busDown
	busUp
	busGPU
	busWriter
)

// behindBus is a layer on two ranksets behind links that share a bus. The entry is 0 (GPU, 10 ps). 1 goes down to rankset 0 in pieces of 4 and 5
// ps; rows open for 2 ps before each and close for 3 after it. Then 2 computes for 40 ps. 3 (2 ps) brings its results up, and 4 (GPU, 20; 15 in
// the last layer) ends the layer. 5 (8 ps) goes down to rankset 1 once 4 and 3 have started. After 1, 6 goes down in pieces of 3, 3 and 2 ps; 7
// forwards each to rankset 1, 1 ps later, where 9 then computes for 1 ps. 8 computes for 30 ps on other ranksets. down 1 [113,117] [122,127] 6
// [128,131] [131,134] [134,136] 5 [176,184] ranks 2 [130,170] 9 [155,156] writer 7 [134,137] [142,145] [150,152] up 3 [171,173] GPU 0 [100,110] 4
// [173,188] others 8 [110,140]
func behindBus() (*Engine, *Iteration) {
	it := &Iteration{Parts: []int64{20, 1}}
	b := builder{it}
	b.op(Op{Last: 10, Resource: busGPU, Flags: NextLayer})
	d := b.op(Op{Time: 4, Last: 5, Pieces: 2, Resource: busDown, Claims: busRanks + 1})
	a := b.op(Op{Last: 40, Resource: busRanks, Parts: Range{0, 1}}, d)
	up := b.op(Op{Last: 2, Resource: busUp}, a)
	last := b.op(Op{Last: 20, Resource: busGPU, Flags: NextLayer}, up)
	b.op(Op{Last: 8, Resource: busDown, Claims: busRanks + 1, Lane: 1, Class: 1, Flags: OnStart}, last, up)
	pieces := b.op(Op{Time: 3, Last: 2, Pieces: 3, Resource: busDown, Class: 1}, d)
	written := b.op(Op{Time: 3, Last: 2, Pieces: 3, Resource: busWriter, Claims: busRanks + 1, Lane: 1, Flags: Stream}, pieces)
	b.op(Op{Last: 30, Resource: busOthers, Lane: 1})
	b.op(Op{Last: 1, Resource: busRanks, Lane: 1, Parts: Range{1, 2}}, written)
	b.layers(0, 1, Range{0, 1}, b.since(1), 15)
	r := append([]Resource{{Name: "others", Discipline: Lanes, Count: 3}}, handResources()...)
	r[busDown].Twin, r[busUp].Twin = busUp+1, busDown+1
	return New(append(r, Resource{Name: "writer", Discipline: Link, Latency: 1})), it
}

// TestPlantedBehindBus breaks the laws of links, lanes and a bus one by one.
func TestPlantedBehindBus(t *testing.T) {
	e, it := behindBus()
	late := func(s *schedule, op int32, nth int, by Time) {
		x := s.of(op, 1, nth)
		move(by, x)
		s.end = max(s.end, x.End)
	}
	checkPlanted(t, e, it, []planted{
		{"nothing", nil, nil},
		{"up while data go down", func(s *schedule) { move(177-171, s.of(3, 1, 0)) },
			[]string{"causality at 173: 4 of 0.1 starts before 179ps", "causality at 176: 5 of 0.1 starts before 178ps",
				"exclusive at 177: 3 of 0.1 starts while the bus of up and down is busy until 184ps"}},
		{"down while results come up", func(s *schedule) { s.of(3, 1, 0).Start = 135 },
			[]string{"causality at 135: 3 of 0.1 starts before 171ps",
				"exclusive at 135: 3 of 0.1 starts while the bus of up and down is busy until 136ps",
				"traffic at 173: 3 of 0.1 takes 38ps in 1 pieces, not 2ps in 1"}},
		{"down while long results come up", func(s *schedule) { s.of(3, 1, 0).Start, s.of(3, 1, 0).End = 129, 177 },
			[]string{"causality at 129: 3 of 0.1 starts before 171ps",
				"exclusive at 129: 3 of 0.1 starts while the bus of up and down is busy until 131ps",
				"exclusive at 131: 6 of 0.1 starts while the bus of down and up is busy until 177ps",
				"exclusive at 134: 6 of 0.1 starts while the bus of down and up is busy until 177ps", "causality at 173: 4 of 0.1 starts before 177ps",
				"exclusive at 176: 5 of 0.1 starts while the bus of down and up is busy until 177ps",
				"traffic at 177: 3 of 0.1 takes 48ps in 1 pieces, not 2ps in 1"}},
		{"a receiving rankset computes", func(s *schedule) { s.of(2, 1, 0).Start = 126 },
			[]string{"causality at 126: 2 of 0.1 starts before 127ps", "exclusive at 126: 2 of 0.1 starts before ranksets is free at 127ps",
				"traffic at 170: 2 of 0.1 takes 44ps in 1 pieces, not 40ps in 1"}},
		{"a transfer to a rankset that ends before it starts", func(s *schedule) {
			i := slices.IndexFunc(s.spans, func(x Span) bool { return x.Claim })
			s.spans[i].End = 112
		}, []string{"exclusive at 113: 1 of 0.1 ends at 112ps, before it starts"}},
		{"another rankset", func(s *schedule) { s.of(2, 1, 0).Lane = 1 },
			[]string{"traffic at 130: 2 of 0.1 is on lane 1, not 0", "exclusive at 134: 7 of 0.1 starts before ranksets is free at 170ps",
				"exclusive at 142: 7 of 0.1 starts before ranksets is free at 170ps", "exclusive at 150: 7 of 0.1 starts before ranksets is free at 170ps",
				"exclusive at 155: 9 of 0.1 starts before ranksets is free at 170ps"}},
		{"another resource", func(s *schedule) { s.of(2, 1, 0).Resource = busWriter },
			[]string{"idle at 128: 2 of 0.1 could start at 128ps and starts at 130ps", "traffic at 130: 2 of 0.1 is done on writer",
				"exclusive at 134: 7 of 0.1 starts before writer is free at 170ps", "exclusive at 142: 7 of 0.1 starts before writer is free at 170ps",
				"exclusive at 150: 7 of 0.1 starts before writer is free at 170ps"}},
		{"a rankset that computes before its data", func(s *schedule) { move(-4, s.of(2, 1, 0)) },
			[]string{"causality at 126: 2 of 0.1 starts before 127ps", "exclusive at 126: 2 of 0.1 starts before ranksets is free at 127ps"}},
		// The rows of its transfer close in 3 ps, and then it needs 4 to be active again.
		{"a rankset that is late", func(s *schedule) { move(3+4-3+1, s.of(2, 1, 0)) },
			[]string{"idle at 127: 2 of 0.1 could start at 127ps and starts at 135ps", "causality at 171: 3 of 0.1 starts before 176ps"}},
		{"a rankset as late as can be", func(s *schedule) { move(3+4-3, s.of(2, 1, 0)) }, []string{"causality at 171: 3 of 0.1 starts before 175ps"}},
		{"a rankset that waits between heads", func(s *schedule) {
			again := *s.of(2, 1, 0)
			s.of(2, 1, 0).End = 150
			again.Start, again.End = 151, 171
			s.spans = append(s.spans, again)
		}, []string{"causality at 171: 3 of 0.1 starts before 172ps"}},
		{"a piece before the piece that it hands on", func(s *schedule) { move(-8, s.of(7, 1, 1)) },
			[]string{"causality at 134: 7 of 0.1 starts before 135ps", "exclusive at 134: 7 of 0.1 starts before writer is free at 137ps"}},
		{"a piece as soon as it is there", func(s *schedule) { move(-2, s.of(7, 1, 0)) }, nil},
		{"a piece before the one before", func(s *schedule) { s.of(6, 1, 1).End = 137 },
			[]string{"exclusive at 134: 6 of 0.1 starts before down is free at 137ps",
				"exclusive at 134: 6 of 0.1 starts while the bus of down and up is busy until 137ps",
				"traffic at 137: 6 of 0.1 takes 11ps in 3 pieces, not 8ps in 3"}},
		{"a piece of another operation", func(s *schedule) { s.of(6, 1, 1).Op = 5 },
			[]string{"causality at 131: 5 of 0.1 starts before 174ps", "traffic at 136: 6 of 0.1 takes 5ps in 2 pieces, not 8ps in 3",
				"traffic at 184: 5 of 0.1 takes 11ps in 2 pieces, not 8ps in 1"}},
		{"with no start to wait for", func(s *schedule) { move(-4, s.of(5, 1, 0)) },
			[]string{"causality at 172: 5 of 0.1 starts before 174ps",
				"exclusive at 172: 5 of 0.1 starts while the bus of down and up is busy until 173ps"}},
		{"without latency behind a start", func(s *schedule) { move(-3, s.of(5, 1, 0)) }, []string{"causality at 173: 5 of 0.1 starts before 174ps"}},
		// Latest start of a transfer down: 1 to leave, 2 to open, 4 to be active, 40 of work and 3 to close. The bus adds 2 up, and
		// a gap of less than 8 before it. The writer, which may hold the ranksets, adds 50 and 8.
		{"down as late as can be", func(s *schedule) { late(s, 5, 0, 174+50+10+58-176) }, nil},
		{"down too late", func(s *schedule) { late(s, 5, 0, 174+50+10+58-176+1) },
			[]string{"idle at 174: 5 of 0.1 could start at 174ps and starts at 293ps"}},
		// Latest start of a transfer up: 25 down, 50 for a piece that waits for ranksets, and six gaps of
		// less than 2.
		{"up as late as can be", func(s *schedule) { late(s, 3, 0, 25+50+12) },
			[]string{"causality at 173: 4 of 0.1 starts before 260ps", "causality at 176: 5 of 0.1 starts before 259ps"}},
		{"up too late", func(s *schedule) { late(s, 3, 0, 25+50+12+1) },
			[]string{"idle at 171: 3 of 0.1 could start at 171ps and starts at 259ps", "causality at 173: 4 of 0.1 starts before 261ps",
				"causality at 176: 5 of 0.1 starts before 260ps"}},
		// Latest start of the writer: its own wait of 50; the longest transfer, which may hold ranksets
		// for 50; the bus for 2 and 9; and 9.
		{"the writer as late as can be", func(s *schedule) { late(s, 7, 2, 145+50+70-150) }, []string{"causality at 155: 9 of 0.1 starts before 267ps"}},
		{"the writer too late", func(s *schedule) { late(s, 7, 2, 145+50+70-150+1) },
			[]string{"idle at 145: 7 of 0.1 could start at 145ps and starts at 266ps", "causality at 155: 9 of 0.1 starts before 268ps"}},
		// Sequential time: 131 ps of work; six pieces down start after 1 ps and may each wait 50 for ranksets, as may three of
		// the writer; results wait 1.
		{"an end with all in turn", func(s *schedule) { s.end = 100 + 30 + 41 + 25 + 6*51 + 3 + 25 + 8 + 3*51 },
			[]string{"iteration at 691: the iteration ends at 691ps, its last operation at 188ps"}},
		{"an end behind all in turn", func(s *schedule) { s.end = 100 + 30 + 41 + 25 + 6*51 + 3 + 25 + 8 + 3*51 + 1 },
			[]string{"iteration at 692: the iteration ends at 692ps, its last operation at 188ps",
				"iteration at 692: the iteration takes 592ps, all operations in turn 591ps"}},
	})
}

// TestPlantedElsewhere breaks laws in an iteration with skipped layers, in a sub-batch that is alone in second place, and on an engine
// that has verified an iteration whose ranksets take longer after a transfer.
func TestPlantedElsewhere(t *testing.T) {
	e, it := turns()
	for s := range it.Sub {
		it.Sub[s].more(50 - it.Sub[s].last().Count)
	}
	checkPlanted(t, e, it, []planted{
		{"layers left out", nil, nil},
		{"an operation of the first layers left out", func(s *schedule) { s.spans = slices.Delete(s.spans, 2, 3) },
			[]string{"idle at 934: 2 of 0.47 could start at 934ps and starts at 945ps", "idle at 937: 4 of 1.47 could start at 937ps and starts at 945ps",
				"traffic at 1007: 1 of 0.47 is not done"}},
	})
	it = &Iteration{}
	b := builder{it}
	b.op(Op{Last: 1000})
	b.op(Op{Last: 3})
	b.op(Op{Last: 4, Flags: NextLayer}, 1)
	b.op(Op{Last: 5, Flags: NextLayer})
	b.layers(1, 1, Range{1, 3}, Range{3, 4}, 6)
	checkPlanted(t, e, it, []planted{{"alone", nil, nil}, {"longer", func(s *schedule) { s.of(2, 0, 0).End++ },
		[]string{"causality at 107: 3 of 1.1 starts before 108ps", "exclusive at 107: 3 of 1.1 starts before GPU is free at 108ps",
			"traffic at 108: 2 of 1.0 takes 5ps in 1 pieces, not 4ps in 1"}}})
	e, it = behindBus()
	for i := range it.Ops {
		it.Ops[i].Close *= 1000
	}
	e.Check(it, 0)
	_, it = behindBus()
	checkPlanted(t, e, it, []planted{{"a rankset that is late after another iteration", func(s *schedule) { move(3+4-3+1, s.of(2, 1, 0)) },
		[]string{"idle at 127: 2 of 0.1 could start at 127ps and starts at 135ps", "causality at 171: 3 of 0.1 starts before 176ps"}}})
}
