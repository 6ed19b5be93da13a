package system

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// near says that two numbers are almost equal.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }

// busyFor returns the work of resources that are busy for so many seconds each.
func busyFor(seconds map[int]float64) *flow.Busy {
	b := &flow.Busy{}
	for of, s := range seconds {
		b.Time[of].Add(units.FromSeconds(s))
	}
	return b
}

// TestSharesByHand: in 10 s of two replicas with 16 ranksets each, GPUs work 4 s, ranksets 32 s in all, and links 1, 2 and 3.
func TestSharesByHand(t *testing.T) {
	n := nodeOf(t, "run.system=l3", "run.model=llama-3-8b", "node.gpus=2", "model.tensor_parallel=1")
	ranksets := float64(n.hw.AttentionDevices())
	if n.Replicas() != 2 || ranksets < 2 {
		t.Fatal(n.Replicas(), ranksets)
	}
	const end = 10 * units.Second
	u := n.utilization(busyFor(map[int]float64{flow.OfGPU: 4, flow.OfPIM: 32, flow.OfDown: 1, flow.OfUp: 2, flow.OfChannel: 3}), end)
	if !near(u.GPU, 0.2) || !near(u.PIM, 32/(20*ranksets)) || !near(u.PCIeDown, 0.05) || !near(u.PCIeUp, 0.1) || !near(u.Channel, 0.15) {
		t.Errorf("%+v", u)
	}
	if u := n.utilization(&flow.Busy{}, 0); u != (results.Utilization{}) {
		t.Errorf("of no time %+v", u)
	}
	// One replica iterates for 6 s, the other for 9, so nothing runs for 4 + 1 of 20 s. The GPUs wait 1 s for ranksets, a quarter of it for uneven ones.
	a, b := &replica{}, &replica{}
	a.out.iterating, b.out.iterating = 6*units.Second, 9*units.Second
	a.tallied.busy = *busyFor(map[int]float64{flow.OfPIM: ranksets, flow.OfPIMWaits + int(flow.ForGPU): 2})
	b.tallied.busy = *busyFor(map[int]float64{flow.OfPIM: 3 * ranksets, flow.OfPIMWaits + int(flow.ForUp): 5})
	w := n.waits([]*replica{a, b}, busyFor(map[int]float64{flow.OfPIM: 4 * ranksets, flow.OfUneven: 0.25,
		flow.OfGPUWaits + int(flow.ForPIM): 1, flow.OfGPUWaits + int(flow.ForDown): 2, flow.OfGPUWaits + int(flow.ForUp): 3, flow.OfGPUWaits + int(flow.ForChannel): 4, flow.OfGPUWaits + int(flow.ForHost): 5,
		flow.OfPIMWaits + int(flow.ForGPU): 6, flow.OfPIMWaits + int(flow.ForDown): 7, flow.OfPIMWaits + int(flow.ForUp): 8, flow.OfPIMWaits + int(flow.ForChannel): 9, flow.OfPIMWaits + int(flow.ForHost): 10}), end)
	if want := (results.GPUWaits{PIM: 0.75 / 20, Imbalance: 0.25 / 20, LinkDown: 2. / 20, LinkUp: 3. / 20, Channel: 4. / 20, Host: 5. / 20, NoRequests: 5. / 20}); !near(w.GPU.PIM, want.PIM) || w.GPU.Imbalance != want.Imbalance || w.GPU.LinkDown != want.LinkDown || w.GPU.LinkUp != want.LinkUp || w.GPU.Channel != want.Channel ||
		w.GPU.Host != want.Host || w.GPU.NoRequests != want.NoRequests {
		t.Errorf("GPUs wait %+v, by hand %+v", w.GPU, want)
	}
	// Ranksets wait for other ranksets for 6 − 1 − 2 and 9 − 3 − 5 s.
	want := results.PIMWaits{GPU: 6. / 20, LinkDown: 7. / 20, LinkUp: 8. / 20, Channel: 9. / 20, Host: 10. / 20, Others: 4. / 20, NoRequests: 5. / 20}
	if !near(w.PIM.Others, want.Others) {
		t.Errorf("for other ranksets %v, by hand %v", w.PIM.Others, want.Others)
	}
	if w.PIM.Others = want.Others; w.PIM != want {
		t.Errorf("ranksets wait %+v, by hand %+v", w.PIM, want)
	}
	if k := n.kvBytes(7); k.Capacity != 2*int64(n.memory.Unit)*n.memory.Capacity || k.Peak != 7*int64(n.memory.Unit) {
		t.Errorf("%+v", k)
	}
}

// TestMeansByHand: means over iterations, steps and time.
func TestMeansByHand(t *testing.T) {
	var time units.Total
	time.Add(8 * units.Second)
	got := meanIteration(4, time, busyFor(map[int]float64{flow.OfGPU: 6, flow.OfAttention: 2}))
	if want := (results.Iteration{Mean: 2000, Dense: 1000, Attention: 500, Waiting: 500}); got != want {
		t.Errorf("%+v, by hand %+v ms", got, want)
	}
	if got := meanIteration(0, time, &flow.Busy{}); got != (results.Iteration{}) {
		t.Errorf("of none %+v", got)
	}
	a, b, c := &replica{}, &replica{}, &replica{}
	a.out.batch = steps{at: []units.Duration{0, 2, 6}, value: []int64{1, 3, 0}}
	b.out.batch = steps{at: []units.Duration{5}, value: []int64{4}}
	all := []*replica{a, b, c}
	if got := meanBatch(all, 10); !near(got, (1*2+3*4+4*5)/10.) || meanBatch(all, 0) != 0 {
		t.Errorf("%v requests decode on average", got)
	}
	a.out.decoded, a.out.steps, b.out.decoded, b.out.steps = 9, 3, 10, 4
	if got := stepMean(all); got != 3+2.5 {
		t.Errorf("%v requests a step", got)
	}
	a.out.drafted, b.out.drafted = 4, 1
	a.out.end, b.out.end = 3*units.Second, 5*units.Second
	if got := busySeconds(all); got != 8 {
		t.Errorf("%v s", got)
	}
}

// TestOverTimeByHand: a run of 100 s in two parts of 50. An iteration of 30 s of one replica lies in the first, one of 40 s lies half in each.
func TestOverTimeByHand(t *testing.T) {
	const s = units.Second
	n := nodeOf(t, "run.system=gpu-only", "run.model=llama-3-8b", "node.gpus=2", "model.tensor_parallel=1")
	r := &Result{end: 100*s - 2} // parts are end/2 + 1: 50 s
	r.Iterations = []results.IterationRecord{
		{Start: 0, End: 30 * s, Decoding: 4, FirstTokens: 2, Waiting: 3, InSystem: 9, KV: 100, GPU: 15 * s, PIM: 6 * s, PCIeDown: 3 * s, PCIeUp: 9 * s, Channel: 12 * s, Joules: 300},
		{Start: 30 * s, End: 70 * s, Decoding: 10, Waiting: 1, InSystem: 11, KV: 200, GPU: 40 * s, PIM: 8 * s, PCIeDown: 4 * s, PCIeUp: 16 * s, Channel: 12 * s, Joules: 800},
	}
	r.gaps = []keptGap{{at: 10 * s, gap: 20 * units.Millisecond, requests: 3}, {at: 50 * s, gap: 40 * units.Millisecond, requests: 1}, {at: 50*s + 1, gap: 70 * units.Millisecond, requests: 2}}
	table := r.OverTime(n, 2)
	cell := func(row int, column string) float64 {
		t.Helper()
		c, err := table.Column("", column)
		if err != nil {
			t.Fatal(err)
		}
		v, _ := table.Number(row, c)
		return v
	}
	for column, want := range map[string][2]float64{
		"time_s": {25, 75}, "output_tokens_per_s": {6. / 50, 10. / 50}, "requests_decoding": {(4*30 + 10*20) / 50., 10 * 20 / 50.}, "requests_prefilling": {2 * 30 / 50., 0},
		"requests_waiting": {(3*30 + 20) / 50., 20 / 50.}, "kv_bytes": {(100*30 + 200*20) / 50., 200 * 20 / 50.}, "utilization_gpu": {(15 + 20) / 100., 20 / 100.},
		"utilization_pim": {(6 + 4) / (50. * 2 * float64(n.hw.AttentionDevices())), 4 / (50. * 2 * float64(n.hw.AttentionDevices()))}, "utilization_pcie_down": {(3 + 2) / 100., 2 / 100.}, "utilization_pcie_up": {(9 + 8) / 100., 8 / 100.},
		"utilization_channel": {(12 + 6) / 100., 6 / 100.}, "tbt_p50_ms": {20, 70}, "tbt_max_ms": {40, 70},
	} {
		for row := range want {
			if got := cell(row, column); math.Abs(got-want[row]) > 1e-3*math.Abs(want[row]) {
				t.Errorf("%s of part %d: %v, by hand %v", column, row, got, want[row])
			}
		}
	}
	// While replicas do not iterate, for 50 of 100 and 80 of 100 s, each draws idle power.
	idle := (cell(1, "power_w")*50 - 400) / 80
	if got := cell(0, "power_w"); idle <= 0 || !near(got*50, 300+400+idle*50) {
		t.Errorf("%v W in the first part, idle %v W", got, idle)
	}
	for _, parts := range []int{0, -1} {
		if len(r.OverTime(n, parts).Rows) != 0 {
			t.Errorf("%d parts have rows", parts)
		}
	}
	gaps := (&Result{end: 100*s - 4, betweenTokens: betweenTokens{gaps: []keptGap{{at: 25 * s, gap: 20 * units.Millisecond, requests: 1}, {at: 25*s + 1, gap: 40 * units.Millisecond, requests: 1}, {at: 100*s - 4, gap: 80 * units.Millisecond, requests: 1}}}}).Gaps()
	if len(gaps.Rows) != 300 || gaps.Rows[0][0] != tables.Of("0 to 25% of the run") || gaps.Rows[100][0] != tables.Of("25 to 50% of the run") || gaps.Rows[299][0] != tables.Of("75 to 100% of the run") {
		t.Errorf("%d rows", len(gaps.Rows))
	}
	for row, want := range map[int]float64{0: 20, 99: 20, 100: 40, 299: 80} {
		if got, _ := gaps.Number(row, 1); math.Abs(got-want) > 1e-3*want {
			t.Errorf("row %d: %v ms, by hand %v", row, got, want)
		}
	}
}

// TestOutcomesByHand: of five requests two are turned away. Times count from each arrival.
func TestOutcomesByHand(t *testing.T) {
	const s = units.Second
	served := func(arrival, start, first, finish units.Duration, in, out int, attained bool) results.Request {
		return results.Request{Request: traces.Request{Arrival: arrival * s, Input: in, Output: out}, Start: start * s, FirstToken: first * s, Finish: finish * s, Attained: attained}
	}
	r := &Result{Requests: []results.Request{
		served(1, 2, 4, 8, 10, 5, true), served(2, 6, 8, 9, 20, 2, false), served(3, 3, 5, 11, 40, 7, true),
		{Request: traces.Request{Arrival: s, Input: 500, Output: 500}, Outcome: results.Refused}, {Request: traces.Request{Input: 500, Output: 500}, Outcome: results.TooLarge},
	}}
	o := r.outcomes()
	if o.prompts != 70 || o.attained != 2 || o.good != 12 || o.count[results.Served] != 3 || o.count[results.Refused] != 1 || o.count[results.TooLarge] != 1 {
		t.Errorf("%+v", o)
	}
	for name, c := range map[string]struct {
		of   *results.Distribution
		mean float64 // ms
	}{"queue": {&o.queue, 1000 * (1 + 4 + 0) / 3.}, "TTFT": {&o.ttft, 1000 * (3 + 6 + 2) / 3.}, "E2E": {&o.e2e, 1000 * (7 + 7 + 8) / 3.}, "TPOT": {&o.tpot, 1000 * (1 + 1 + 1) / 3.}} {
		if got := c.of.Milliseconds().Mean; math.Abs(got-c.mean) > 1e-3*c.mean || c.of.Count() != 3 {
			t.Errorf("%s: %v ms of %d, by hand %v", name, got, c.of.Count(), c.mean)
		}
	}
	first := r.FirstTokens()
	if len(first.Rows) != 3 {
		t.Fatalf("%d rows", len(first.Rows))
	}
	for row, want := range [][2]float64{{3000, 1000}, {6000, 4000}, {2000, 0}} {
		a, _ := first.Number(row, 0)
		b, _ := first.Number(row, 1)
		if a != want[0] || b != want[1] {
			t.Errorf("request %d: %v and %v ms, by hand %v", row, a, b, want)
		}
	}
	// Four of them, over 6 s: two attain, with 12 tokens in four gaps of 2 s.
	if m := r.Measured(0, 4, Window{From: 2 * s, To: 8 * s}); m.Requests != 4 || m.Attainment != 0.5 || m.GoodputTokens != 12/8. {
		t.Errorf("%+v", m)
	}
	if m := r.Measured(2, 4, Window{From: 2 * s, To: 2 * s}); m.Requests != 2 || m.Attainment != 0.5 || m.GoodputTokens != 0 {
		t.Errorf("%+v", m)
	}
	trace := &traces.Trace{Requests: []traces.Request{{Arrival: 1}, {Arrival: 3}, {Arrival: 7}, {Arrival: 9}}}
	if w := Middle(trace, 1, 3); w != (Window{From: 3, To: 7}) {
		t.Errorf("%+v", w)
	}
}

// TestMissesByHand: of requests from place 2 to before place 5 one may miss.
func TestMissesByHand(t *testing.T) {
	var told []*results.Request
	m := &Misses{From: 2, To: 5, Most: 1, Missed: func(q *results.Request) { told = append(told, q) }}
	q := make([]results.Request, 6)
	for i, c := range []struct {
		place int
		over  bool
	}{{1, false}, {5, false}, {2, false}, {4, true}, {0, false}, {3, true}} {
		if got := m.more(c.place, &q[i]); got != c.over {
			t.Errorf("place %d: %v", c.place, got)
		}
	}
	if !slices.Equal(told, []*results.Request{&q[2], &q[3], &q[5]}) {
		t.Errorf("%d were told", len(told))
	}
	if quiet := (&Misses{To: 1}); !quiet.more(0, &q[0]) {
		t.Error("none may miss")
	}
}

// TestAPIServerByHand: work waits for earlier work, and requests leave in the order of arrival.
func TestAPIServerByHand(t *testing.T) {
	a := &apiServer{request: 10, token: 3}
	if (*apiServer)(nil).ready() != never || a.ready() != never {
		t.Error("nothing is ready")
	}
	a.take(traces.Request{ID: 1}, 1, 100)
	a.take(traces.Request{ID: 2}, 2, 105)
	if got := a.work(112, a.token, 4); got != 132 { // after the second request
		t.Errorf("tokens are done at %d", got)
	}
	if got := a.work(200, a.token, 2); got != 206 || a.busy != 10+10+12+6 {
		t.Errorf("tokens are done at %d, busy %d", got, a.busy)
	}
	if a.inside.Picoseconds() != 10+15 { // from each arrival to its end
		t.Errorf("%v", a.inside)
	}
	for _, want := range []struct {
		at units.Duration
		id int
	}{{110, 1}, {120, 2}} {
		if at := a.ready(); at != want.at {
			t.Errorf("ready at %d, want %d", at, want.at)
		}
		if p := a.next(); p.request.ID != want.id || int(p.place) != want.id || p.at != want.at {
			t.Errorf("%+v, want %+v", p, want)
		}
	}
}

// TestGapsByHand: steps end at 10, 20 and 30. Two, three and three requests decode, with no, one and two drafts; the window takes gaps that end from
// 20 to 30. The first gap begins at 0.
func TestGapsByHand(t *testing.T) {
	g, d := newGaps(3, 0), &diary{}
	g.diary, g.measure = d, &Window{From: 20, To: 30}
	for i, c := range []struct{ n, drafted int }{{2, 0}, {3, 1}, {3, 2}} {
		g.decoded(units.Duration(10*(i+1)), c.n, c.drafted)
	}
	g.decoded(31, 1, 0)
	g.decoded(50, 0, 0) // nothing decodes
	if want := []keptGap{{10, 10, 2}, {20, 10, 3}, {20, 0, 1}, {30, 10, 3}, {30, 0, 2}, {31, 1, 1}}; !slices.Equal(d.gaps, want) {
		t.Errorf("%v, want %v", d.gaps, want)
	}
	if g.measured.Count() != 9 || g.measured.Sum() != 60 || g.decode.Count() != 12 || g.decode.Sum() != 81 {
		t.Errorf("%d gaps of %v are measured, %d of %v in all", g.measured.Count(), g.measured.Sum(), g.decode.Count(), g.decode.Sum())
	}
}

// TestContextsByHand: a request of 10 and 4 tokens decodes over 11, 12 and 13. Tokens recomputed after a preemption, as a prompt, belong to
// no step.
func TestContextsByHand(t *testing.T) {
	for _, c := range []struct {
		in, out int
		want    float64
	}{{10, 4, 36}, {10, 1, 0}, {10, 2, 11}, {1, 3, 5}} {
		if got := contexts(c.in, c.out); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
		b := bounds{kvToken: 8}
		if got := b.reads(c.in, c.out); got != 8*c.want {
			t.Errorf("%+v: %v B", c, got)
		}
	}
	r := &replica{}
	r.assembly.Batcher = &batching.Scheduler{}
	r.assembly.Batcher.Recomputed = 12
	r.out.requests = []results.Request{{Request: traces.Request{Input: 10, Output: 4}}, {Request: traces.Request{Input: 500, Output: 4}, Outcome: results.Refused}, {Request: traces.Request{Input: 1, Output: 3}}}
	if got := r.decodedContexts(); got != 36+5-12 {
		t.Errorf("%v tokens", got)
	}
	r.out.decoded, r.out.drafted = 3, 1
	if got := denseContext([]*replica{r}); got != 29./4 {
		t.Errorf("a mean context of %v", got)
	}
}

// TestWindowsByHand: a chosen window has two iterations, and starts again with an iteration of at least a quarter more weight. The weight is
// the number of decoding requests, twice that without prompts. A given window has all iterations that overlap it.
func TestWindowsByHand(t *testing.T) {
	batch := func(decoding, prompt int) *scheduler.Batch {
		b := &scheduler.Batch{Sub: []scheduler.SubBatch{{Decode: make([]scheduler.Decoding, decoding)}}}
		if prompt > 0 {
			b.Sub[0].Prefill = []scheduler.Chunk{{Tokens: prompt}}
		}
		return b
	}
	r := &Recording{chooses: true, parts: map[units.Duration][]gpus.Part{}, phases: map[int][]phase{}}
	for i, c := range []struct {
		decoding, prompt int
		admitted         bool
		from, to         units.Duration // of the window then
		samples          int            // with this one
	}{
		{0, 9, true, 0, 10, 1}, {8, 9, true, 10, 20, 1}, {9, 9, true, 10, 30, 2}, {9, 9, false, 10, 30, 2}, {10, 9, true, 40, 50, 1}, {6, 0, true, 40, 60, 2}, {6, 0, false, 40, 60, 2}, {7, 0, true, 70, 80, 1}, {7, 0, true, 70, 90, 2},
		{17, 9, false, 70, 90, 2}, {18, 9, true, 100, 110, 1},
	} {
		if got := r.admits(units.Duration(10*i), units.Duration(10*i+10), batch(c.decoding, c.prompt)); got != c.admitted {
			t.Errorf("iteration %d: admitted %v", i, got)
		}
		if c.admitted {
			r.Samples = append(r.Samples, Sample{})
		}
		if r.From != c.from || r.To != c.to || len(r.Samples) != c.samples {
			t.Errorf("iteration %d: %d to %d with %d samples, by hand %+v", i, r.From, r.To, len(r.Samples), c)
		}
	}
	given := &Recording{Window: Window{From: 100, To: 200}}
	for _, c := range []struct {
		start, end units.Duration
		want       bool
	}{{50, 100, false}, {50, 101, true}, {100, 200, true}, {199, 300, true}, {200, 300, false}, {120, 130, true}} {
		if given.admits(c.start, c.end, batch(1, 0)) != c.want {
			t.Errorf("%+v", c)
		}
	}
}

// TestExtrapolationByHand: shares of kernels of each kind, as text from one percent on.
func TestExtrapolationByHand(t *testing.T) {
	for _, c := range []struct {
		share [gpu.Kinds]float64
		want  string
	}{
		{[gpu.Kinds]float64{}, ""}, {[gpu.Kinds]float64{0.0049, 0.005}, ""}, {[gpu.Kinds]float64{0.005, 0.005}, "take 1.0% of the GPUs' time: "}, {[gpu.Kinds]float64{0.25, 0.125}, "take 37.5% of the GPUs' time: "},
		{[gpu.Kinds]float64{0.25}, fmt.Sprintf("take 25.0%% of the GPUs' time: %s 25.0%% ('l3sim", gpu.Kind(0))},
	} {
		r := &Result{used: used{extrapolated: c.share}}
		note, all := r.extrapolationNote("mine")
		if !near(all, c.share[0]+c.share[1]) || !strings.Contains(note, c.want) || (note == "") != (c.want == "") {
			t.Errorf("%v: %q, %v", c.share, note, all)
		}
	}
	for ranksets, want := range map[int]int{1: 1, 2: 1, 3: 2, 4: 2, 5: 3} { // of two ranks each
		cfg := &configs.Config{}
		cfg.Node.Ranksets, cfg.Energy.RanksPerDIMM = ranksets, 2
		if got := DIMMsPerChannel(cfg); got != want {
			t.Errorf("%d ranks: %d DIMMs", ranksets, got)
		}
	}
}
