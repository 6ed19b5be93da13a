package flow

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/pim/hbm"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestBookByHand: each kind of operation takes a different power of two, so that a sum shows its
// terms.
func TestBookByHand(t *testing.T) {
	var f Flow
	totals := dataflow.Totals{Bus: 1 << 30, Pieces: 7}
	at := func(kind uint8) units.Duration { return 1 << kind }
	for kind := range opKinds {
		totals.ByKind[kind] = at(kind)
	}
	waits := dataflow.Waits{Uneven: 1 << 40}
	for i := range dataflow.Reasons {
		waits.Main[i], waits.Device[i] = units.Duration(100+i), units.Duration(200+i)
	}
	f.Uses = [2]Use{
		{Merge: 1 << 41, Chooses: 1 << 42, Joules: Joules{3, 5}, Extrapolated: &Extrapolated{1, 2}},
		{Merge: 1 << 43, Chooses: 1 << 44, Joules: Joules{7, 11}},
	}
	attention := at(OpPrefillAttention) + at(OpWindow) + at(OpGPUAttention)
	want := Work{Tasks: 7, Effort: Effort{Joules: Joules{10, 16}}}
	want.Time[OfGPU] = at(OpEntry) + at(OpBlock) + at(OpProjection) + at(OpFeedForward) + attention
	want.Time[OfAttention] = attention + 1<<41 + 1<<42 + 1<<43 + 1<<44
	want.Time[OfPIM] = at(OpAttention) + at(OpUnitFeedForward)
	want.Time[OfDown], want.Time[OfUp] = at(OpDecodeDown)+at(OpPromptDown)+at(OpLeaving), at(OpResults)+at(OpPrefixUp)+at(OpFetch)
	want.Time[OfChannel], want.Time[OfUneven] = 1<<30, 1<<40
	for i := range dataflow.Reasons {
		want.Time[OfGPUWaits+i], want.Time[OfPIMWaits+i] = units.Duration(100+i), units.Duration(200+i)
	}
	f.book(&totals, &waits)
	if f.Work != want {
		t.Errorf("%+v, by hand %+v", f.Work, want)
	}
	before := f.Work
	f.book(&totals, &waits) // the same once more
	if did := f.Work.Since(&before); did != want {
		t.Errorf("%+v, by hand %+v", did, want)
	}
	if a, b := f.Extrapolated[0].Picoseconds(), f.Extrapolated[1].Picoseconds(); a != 2 || b != 4 {
		t.Errorf("extrapolated kernels take %v and %v ps", a, b)
	}
}

// TestPauseByHand: GPUs and devices wait for the host.
func TestPauseByHand(t *testing.T) {
	var f Flow
	if got := f.Pause(9) + f.Pause(4); got != 13 {
		t.Errorf("pauses of 9 and 4 ps take %v", got)
	}
	if want := (Work{Time: [Booked]units.Duration{OfGPUWaits + int(ForHost): 13, OfPIMWaits + int(ForHost): 13}}); f.Work != want {
		t.Errorf("%+v, by hand %+v", f.Work, want)
	}
}

// TestWorkAddsUp: all parts of the work are added to a run and to another replica, and subtracted again.
func TestWorkAddsUp(t *testing.T) {
	w := Work{Tasks: 2, Effort: Effort{Joules: Joules{3, 5}, Tokens: 7, Ranks: machine.Activity{Activates: 11, UnitReads: 13, Reads: 17, Writes: 19, Open: 23, Clocks: 29}, HBM: hbm.Tally{Rows: 31, Reads: 37, Queries: 41, Moves: 43}}}
	for i := range w.Time {
		w.Time[i] = units.Duration(1000 + i)
	}
	if did := w.Since(&Work{}); did != w {
		t.Errorf("%+v, want %+v", did, w)
	}
	if did := w.Since(&w); did != (Work{}) {
		t.Errorf("nothing is done, but %+v", did)
	}
	var a, b Busy
	a.Did(&w)
	b.Did(&w)
	b.Did(&w)
	a.Join(&b)
	thrice := Effort{Joules: Joules{9, 15}, Tokens: 21, Ranks: w.Ranks.Plus(w.Ranks, 2), HBM: w.HBM.Plus(w.HBM, 2)}
	if a.Effort != thrice {
		t.Errorf("%+v, want %+v", a.Effort, thrice)
	}
	for i := range a.Time {
		if got := a.Time[i].Picoseconds(); got != 3*float64(1000+i) {
			t.Errorf("time %d: %v ps", i, got)
		}
	}
}

// TestWaitsByHand: the time of all iterations is what GPUs work and wait. The rest of it, ranksets wait for others.
func TestWaitsByHand(t *testing.T) {
	var b Busy
	add := func(on int, d units.Duration) { b.Time[on].Add(d) }
	add(OfGPU, 60)
	add(OfGPUWaits+int(ForPIM), 25)
	add(OfGPUWaits+dataflow.Reasons-1, 15)
	add(OfPIM, 150) // of 400 in four ranksets
	add(OfPIMWaits, 30)
	add(OfPIMWaits+dataflow.Reasons-1, 10)
	if err := b.Waited(100, 4); err != nil {
		t.Error(err)
	}
	rest := b.Others(100, 4)
	if got := rest.Picoseconds(); got != 400-150-4*30-4*10 {
		t.Errorf("%v ps, by hand 90", got)
	}
	for iterating, want := range map[units.Duration]string{99: "GPUs work and wait for 100 ps of 99, ranksets for others for 86 ps", 101: "GPUs work and wait for 100 ps of 101, ranksets for others for 94 ps"} { // 4 more or less than 90
		if err := b.Waited(iterating, 4); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("of %v: %v, by hand %s", iterating, err, want)
		}
	}
	add(OfPIM, 90)
	if err := b.Waited(100, 4); err != nil {
		t.Error(err)
	}
	if add(OfPIM, 1); b.Waited(100, 4) == nil {
		t.Error("ranksets work and wait for longer than there is")
	}
}

// twoLayers returns a flow of GPUs and one device, with an iteration of two layers. It has the entry on the GPUs, then in each layer
// attention on the device and a block; the exit replaces the last block.
func twoLayers(t *testing.T, entry, attention, block, exit units.Duration) *Flow {
	h := hardware(t)
	h.Config.Model.Layers = 2
	f := New(h, []Resource{
		{dataflow.Resource{Name: "GPUs", Reason: ForGPU}, TrackGPU},
		{dataflow.Resource{Name: "units", Reason: ForPIM, Device: true}, TrackRank},
		{dataflow.Resource{Name: "hidden", Reason: ForUp}, NoTrack},
	}, Running{Check: &Checker{}})
	layers(&f, entry, attention, block, exit)
	return &f
}

func layers(f *Flow, entry, attention, block, exit units.Duration) {
	f.Reset()
	from := f.Enter(0, 0, entry, &Use{Joules: Joules{1, 2}})
	first := int32(len(f.Iteration.Ops))
	f.Waits = f.Waits[:0]
	f.Wait(0, 1, OpAttention, attention)
	o, _ := f.Iteration.Add(0, block)
	o.Kind, o.Flags = OpBlock, dataflow.NextLayer
	o.After = dataflow.Range{From: int32(len(f.Iteration.After))}
	f.Iteration.After = append(f.Iteration.After, f.Waits...)
	o.After.To = int32(len(f.Iteration.After))
	f.Layers(0, from, first, exit)
}

// TestRunByHand: an iteration of 5 + 7 + 11 + 7 + 13 ps.
func TestRunByHand(t *testing.T) {
	f := twoLayers(t, 5, 7, 11, 13)
	if end, err := f.Try(100); end != 143 || err != nil || f.Work != (Work{}) {
		t.Errorf("tried: %v, %v, and books %+v", end, err, f.Work)
	}
	end, err := f.Run(100)
	if end != 143 || err != nil || f.Check.Err() != nil {
		t.Errorf("%v, %v, %v", end, err, f.Check.Err())
	}
	want := Work{Tasks: 5, Effort: Effort{Joules: Joules{1, 2}}}
	want.Time[OfGPU], want.Time[OfPIM] = 5+11+13, 7+7
	want.Time[OfGPUWaits+int(ForPIM)], want.Time[OfPIMWaits+int(ForGPU)] = 7+7, 5+11+13
	if f.Work != want {
		t.Errorf("%+v, by hand %+v", f.Work, want)
	}
	spans, end := f.Record(100)
	shown := []Span{ // layers from 0; the entry is of the first
		{100, 105, TrackGPU, int32(OpEntry), 0, 0}, {105, 112, TrackRank, int32(OpAttention), 0, 0}, {112, 123, TrackGPU, int32(OpBlock), 0, 0},
		{123, 130, TrackRank, int32(OpAttention), 0, 1}, {130, 143, TrackGPU, int32(OpBlock), 0, 1},
	}
	slices.SortFunc(spans, func(a, b Span) int { return int(a.Start - b.Start) })
	if end != 143 || !reflect.DeepEqual(spans, shown) || f.Engine.Exact {
		t.Errorf("%+v until %v, by hand %+v", spans, end, shown)
	}
	// Transfers in the background make an iteration at least as long as they are, count once, and are
	// not shown.
	f.Hide(2, 60)
	f.Hide(2, 0)
	layers(f, 5, 7, 11, 13)
	if end, err := f.Try(100); end != 160 || err != nil || len(f.Iteration.Ops) != 4 {
		t.Errorf("%v, %v with a transfer of 60 ps; %d operations", end, err, len(f.Iteration.Ops))
	}
	f.Uses[1].Joules.Decode = 4 // of a second sub-batch, which the next iteration does not have
	if spans, end := f.Record(100); end != 160 || len(spans) != 5 {
		t.Errorf("%d spans are shown until %v", len(spans), end)
	}
	if layers(f, 5, 7, 11, 13); len(f.Iteration.Ops) != 3 {
		t.Error("a transfer is hidden twice")
	}
	if end, err := f.Run(0); end != 43 || err != nil || f.Work.Joules != (Joules{2, 4}) {
		t.Errorf("%v, %v; GPUs take %v", end, err, f.Work.Joules)
	}
}

// TestAllLayersAreRecorded: a timeline has the entry, and attention and a block of each of 60 layers, even if a run skips repeated layers.
func TestAllLayersAreRecorded(t *testing.T) {
	h := hardware(t)
	h.Config.Model.Layers = 60
	f := New(h, []Resource{{dataflow.Resource{Name: "GPUs"}, TrackGPU}, {dataflow.Resource{Name: "units", Device: true}, TrackRank}}, Running{})
	layers(&f, 5, 7, 11, 13)
	const end = 5 + 60*7 + 59*11 + 13
	if spans, at := f.Record(0); len(spans) != 1+2*60 || at != end || spans[len(spans)-1].End != end {
		t.Errorf("%d spans until %v", len(spans), at)
	}
}

// TestUseIsCopied: everything known of the GPUs' work for a sub-batch, with a different value for each
// part.
func TestUseIsCopied(t *testing.T) {
	want := Use{Slow: 2, Merge: 3, Chooses: 5, Joules: Joules{7, 11}, Extrapolated: &Extrapolated{13}}
	for i, v := 0, reflect.ValueOf(want); i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("%s has no value here", v.Type().Field(i).Name)
		}
	}
	got := Use{Slow: 1, Merge: 1, Chooses: 1, Joules: Joules{1, 1}}
	if got.Set(&want); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestClaimsAreNotShown: a transfer that claims a lane is a span of the link; the lane shows only its own work. Spans of zero length do not
// exist.
func TestClaimsAreNotShown(t *testing.T) {
	h := hardware(t)
	h.Config.Model.Layers = 1
	f := New(h, []Resource{
		{dataflow.Resource{Name: "GPUs"}, TrackGPU}, {dataflow.Resource{Name: "ranks", Discipline: dataflow.Lanes, Count: 2}, TrackRank}, {dataflow.Resource{Name: "down", Discipline: dataflow.Link}, TrackDown},
	}, Running{})
	if spans, end := f.Record(100); len(spans) != 0 || end != 100 {
		t.Errorf("%d spans until %v of nothing", len(spans), end)
	}
	from := f.Enter(0, 0, 5, &Use{})
	first := int32(len(f.Iteration.Ops))
	o := f.Wait(0, 2, OpPromptDown, 7)
	o.Claims, o.Lane = 2, 1
	f.Wait(0, 1, OpAttention, 3).Lane = 1 // behind the transfer, on the second lane's track
	o, _ = f.Iteration.Add(0, 11)
	o.Kind, o.Flags, o.After = OpBlock, dataflow.NextLayer, dataflow.Range{From: 0, To: 2}
	f.Iteration.After = append(f.Iteration.After, f.Waits...)
	f.Layers(0, from, first, 11)
	spans, end := f.Record(100)
	want := []Span{{100, 105, TrackGPU, int32(OpEntry), 0, 0}, {105, 112, TrackDown, int32(OpPromptDown), 0, 0}, {112, 115, TrackRank + 1, int32(OpAttention), 0, 0}, {115, 126, TrackGPU, int32(OpBlock), 0, 0}}
	slices.SortFunc(spans, func(a, b Span) int { return int(a.Start - b.Start) })
	if !slices.Equal(spans, want) || end != 126 {
		t.Errorf("%+v until %v, by hand %+v", spans, end, want)
	}
}

// TestTimesAreCut: no task takes longer than the longest allowed.
func TestTimesAreCut(t *testing.T) {
	if a, b := TaskTime(2e-6), TaskTime(1e9); a != 2*units.Microsecond || b != LongestTask {
		t.Errorf("%v and %v", a, b)
	}
	if a, b := TransferTime(units.Bandwidth(1e9), 3000), TransferTime(units.Bandwidth(1e9), 1<<60); a != 3*units.Microsecond || b != LongestTask {
		t.Errorf("%v and %v", a, b)
	}
}

// TestLongIterations: half of the longest task, 2^51 ps, fits 2,047 times. An iteration has six tasks for each piece and four
// more, so that 340 pieces fit: an entry and 339 blocks. A resource's latency counts like a task's time.
func TestLongIterations(t *testing.T) {
	const half = LongestTask / 2
	for _, c := range []struct {
		layers                            int
		time, latency, vacate, reactivate units.Duration
		fits                              bool
	}{
		{339, half, 0, 0, 0, true}, {340, half, 0, 0, 0, false}, {339, 1, half, 0, 0, true}, {340, 1, half, 0, 0, false}, {340, 1, 0, half, 0, false}, {340, 1, 0, 0, half, false}, {340, 1, 1, 1, 1, true},
	} {
		h := hardware(t)
		h.Config.Model.Layers = c.layers
		f := New(h, []Resource{{dataflow.Resource{Latency: c.latency, Vacate: c.vacate, Reactivate: c.reactivate}, TrackGPU}}, Running{})
		from := f.Enter(0, 0, 1, &Use{})
		first := int32(len(f.Iteration.Ops))
		o, _ := f.Iteration.Add(0, c.time)
		o.Kind, o.Flags = OpBlock, dataflow.NextLayer
		f.Layers(0, from, first, c.time)
		_, tried := f.Try(0)
		if _, err := f.Run(0); (err == nil) != c.fits || (tried == nil) != c.fits {
			t.Errorf("%+v: %v, %v", c, err, tried)
		}
	}
}

// TestChecksOfIterations: an iteration whose end or waits differ from an event-by-event run breaks a
// law.
func TestChecksOfIterations(t *testing.T) {
	f := twoLayers(t, 5, 7, 11, 13)
	end, err := f.Run(100)
	if err != nil {
		t.Fatal(err)
	}
	f.Check.schedule(f, 100, end+1)
	if err := f.Check.Err(); err == nil || !strings.Contains(err.Error(), "the iteration takes 44ps, and 43ps event by event") {
		t.Error(err)
	}
	f = twoLayers(t, 5, 7, 11, 13)
	if _, err = f.Run(100); err != nil {
		t.Fatal(err)
	}
	layers(f, 5, 9, 9, 11) // the same length: 5 + 9 + 9 + 9 + 11
	f.Check.schedule(f, 100, end)
	if err := f.Check.Err(); err == nil || !strings.Contains(err.Error(), "the iteration waits") {
		t.Error(err)
	}
	if f := twoLayers(t, 5, 7, 11, 13); f.Check.Err() != nil {
		t.Error(f.Check.Err())
	}
	// Run has its schedule checked, which names the law and what breaks it: a block takes less than no time.
	f = twoLayers(t, 5, 7, -3, 13)
	if _, err = f.Run(100); err != nil {
		t.Fatal(err)
	}
	want := "operation 2 (kind 3, group 0) of sub-batch 0, layer 1, on GPUs ends at 109ps, before it starts"
	if err := f.Check.Err(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	f = twoLayers(t, 5, 7, -3, 13)
	f.Check = nil
	if _, err = f.Run(100); err != nil {
		t.Error(err)
	}
}

// TestProgressByHand: prompts with more tokens than all requests have, 10 + 5 and 20 + 7, never end. An emitted token restarts the count.
func TestProgressByHand(t *testing.T) {
	var c Checker
	c.Comes(&traces.Request{Input: 10, Output: 5})
	c.Comes(&traces.Request{Input: 20, Output: 7})
	if c.Here != 2 {
		t.Errorf("%d requests", c.Here)
	}
	for i, step := range []struct {
		tokens [2]int // of each sub-batch
		last   bool
		broken bool
	}{{[2]int{20, 22}, false, false}, {[2]int{}, true, false}, {[2]int{42, 0}, false, false}, {[2]int{0, 1}, false, true}} {
		b := scheduler.Batch{Sub: []scheduler.SubBatch{{Prefill: []scheduler.Chunk{{Tokens: step.tokens[0]}}}, {Prefill: []scheduler.Chunk{{Tokens: step.tokens[1], Last: step.last}}}}}
		if c.Progress(&b, 0); (c.Err() != nil) != step.broken {
			t.Errorf("step %d: %v", i, c.Err())
		}
	}
	if want := "prompts of 43 tokens emit nothing, all requests have 42"; !strings.Contains(c.Err().Error(), want) {
		t.Errorf("%v, want %s", c.Err(), want)
	}
}
