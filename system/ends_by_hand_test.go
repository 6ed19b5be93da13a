package system

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/timeline"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// endedReplica returns a replica that has served the requests, and is checked.
func endedReplica(t *testing.T, trace *traces.Trace, sets ...string) *replica {
	t.Helper()
	r := nodeOf(t, append(sets, "run.system=gpu-only", "run.model=llama-3-8b", "node.gpus=1", "model.tensor_parallel=1")...).divide(trace, Options{Check: true}, false)[0]
	if err := r.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLawsAtTheEndByHand: each law of a whole run finds a single wrong number, and says which and that it is at the end of the run.
func TestLawsAtTheEndByHand(t *testing.T) {
	trace := &traces.Trace{Requests: []traces.Request{{ID: 7, Input: 40, Output: 3}, {ID: 8, Input: 60, Output: 5}}}
	for what, c := range map[string]struct {
		change func(r *replica)
		law    flow.Law
		want   string
	}{
		"nothing":   {func(*replica) {}, "", ""},
		"tokens":    {func(r *replica) { r.out.tokens++ }, flow.LawTokens, "9 tokens and 6 gaps, want 8 and 6"},
		"too few":   {func(r *replica) { r.out.tokens-- }, flow.LawTokens, "7 tokens and 6 gaps, want 8 and 6"},
		"a gap":     {func(r *replica) { r.gaps.stalls.Add(0, 1) }, flow.LawTokens, "8 tokens and 7 gaps, want 8 and 6"},
		"a length":  {func(r *replica) { r.out.requests[0].Request.Output++ }, flow.LawTokens, "8 tokens and 6 gaps, want 9 and 7"},
		"rejected":  {func(r *replica) { r.out.requests[0].Outcome = results.TooLarge }, flow.LawTokens, "8 tokens and 6 gaps, want 5 and 4"},
		"first":     {func(r *replica) { r.out.requests[1].FirstToken = 0 }, flow.LawTokens, "request 8 arrives at 0ps, emits its first token at 0ps and its last at "},
		"last":      {func(r *replica) { r.out.requests[0].Finish = r.out.requests[0].FirstToken - 1 }, flow.LawTokens, "request 7 arrives at 0ps, emits its first token at "},
		"router":    {func(r *replica) { r.load.kv = 3 }, flow.LawRequests, "a router sees tokens after the last request: {kv:3 outstanding:0}"},
		"decode":    {func(r *replica) { r.out.requests[0].Finish += units.Second }, flow.LawTokens, "s in all, from first tokens to last ones it is 1."},
		"bandwidth": {func(r *replica) { r.bounds.kvToken = 1 << 50 }, flow.LawThroughput, "reading all keys and values takes "},
		"memory":    {func(r *replica) { leak(t, r) }, flow.LawMemory, " allocation units are in use after the last request"},
		"weights":   {func(r *replica) { r.bounds.weights = 1 << 50 }, flow.LawThroughput, "reading the weights "},
	} {
		r := endedReplica(t, trace)
		if c.change(r); what == "decode" {
			r.out.end += units.Second
		}
		err := r.checkEnd()
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		at := fmt.Sprintf("law %q is broken at %v: ", c.law, r.out.end)
		if got := fmt.Sprint(err); !strings.Contains(got, c.want) || !strings.Contains(got, at) {
			t.Errorf("%s: %s, want %q and %q", what, got, at, c.want)
		}
	}
}

// leak reserves memory that belongs to no request.
func leak(t *testing.T, r *replica) {
	if _, ok := r.assembly.Batcher.Ledger.Reserve(memory.Prompted(16), nil, 0, nil); !ok {
		t.Fatal("no room")
	}
}

// TestLawsOfIterations: a broken law of an iteration fails the run, with the law and the time: a request that decodes beyond its memory, and one that waits although
// there is room.
func TestLawsOfIterations(t *testing.T) {
	trace := &traces.Trace{Requests: []traces.Request{{Input: 40, Output: 3}, {ID: 1, Input: 60, Output: 5}}}
	for law, change := range map[string]func(r *replica){
		"": func(*replica) {}, string(flow.LawMemory): func(r *replica) { r.assembly.Batcher.Enter(scheduler.Decoding{Base: 5000}) },
		string(flow.LawAdmission): func(r *replica) {
			r.assembly.Batcher.Add(0)
			r.assembly.Batcher.Queue.Blocked = true
		},
	} {
		r := endedReplica(t, trace)
		change(r)
		r.checkIteration(7 * units.Second)
		if want := fmt.Sprintf("law %q is broken at 7s: ", law); (r.fault == nil) != (law == "") || law != "" && !strings.Contains(r.fault.Error(), want) {
			t.Errorf("%v, want %q", r.fault, want)
		}
	}
}

// TestThroughputLawByHand: 2 requests read contexts of 41 + 42 and 61 + … + 64 tokens, and each iteration all weights.
func TestThroughputLawByHand(t *testing.T) {
	trace := &traces.Trace{Requests: []traces.Request{{Input: 40, Output: 3}, {ID: 1, Input: 60, Output: 5}}}
	r := endedReplica(t, trace)
	const contexts = 41 + 42 + 61 + 62 + 63 + 64
	if got := r.decodedContexts(); got != contexts {
		t.Errorf("%v tokens of contexts, by hand %d", got, contexts)
	}
	if got, want := r.bounds.reads(60, 5), 250.*float64(r.bounds.kvToken); got != want || r.bounds.kvToken != 32*4096 {
		t.Errorf("%v B are read, by hand %v", got, want)
	}
	kv := units.FromSeconds(contexts * 32 * 4096 / float64(r.assembly.Engine.Peak()))
	weights := units.FromSeconds(float64(r.out.iterations) * float64(r.bounds.weights) / float64(r.bounds.hbm))
	for _, c := range []struct {
		end, kvToken units.Duration
		want         string
	}{
		{weights + 1, 1, ""}, {weights - 2, 1, fmt.Sprintf("reading the weights %d times takes %.6f s at the peak of HBM, the run %.6f s", r.out.iterations, weights.Seconds(), (weights - 2).Seconds())},
	} {
		r.check, r.out.end = &flow.Checker{}, c.end
		r.checkThroughput()
		if got := fmt.Sprint(r.check.Err()); (r.check.Err() == nil) != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("ends at %v: %s, want %q", c.end, got, c.want)
		}
	}
	r.bounds.weights = 0
	for less, fails := range map[units.Duration]bool{-1: false, 2: true} {
		r.check, r.out.end = &flow.Checker{}, kv-less
		r.checkThroughput()
		want := fmt.Sprintf("reading all keys and values takes %.6f s at the peak of decode attention, the run %.6f s", kv.Seconds(), r.out.end.Seconds())
		if got := fmt.Sprint(r.check.Err()); strings.Contains(got, want) != fails || (r.check.Err() == nil) == fails {
			t.Errorf("%v less: %s", less, got)
		}
	}
	// 100 recomputed tokens, and tokens that a group shares, are not read.
	r.assembly.Batcher.Recomputed, r.assembly.Engine.Side().Attends.Spared = 100, 33
	if got := r.decodedContexts(); got != contexts-100 {
		t.Errorf("%v tokens of contexts with 100 computed again", got)
	}
	least := units.FromSeconds((contexts - 133) * 32 * 4096 / float64(r.assembly.Engine.Peak()))
	for less, fails := range map[units.Duration]bool{-1: false, 2: true} {
		r.check, r.out.end = &flow.Checker{}, least-less
		if r.checkThroughput(); (r.check.Err() != nil) != fails {
			t.Errorf("%v less than %v: %v", less, least, r.check.Err())
		}
	}
	// If steps verify drafts, reads are those of the batches, without the 33 tokens shared by a group.
	drafts := *r.serving
	drafts.VerifiedTokens, r.serving, r.bounds.read = 3, &drafts, 200*32*4096
	least = units.FromSeconds((200 - 33) * 32 * 4096 / float64(r.assembly.Engine.Peak()))
	for less, fails := range map[units.Duration]bool{-1: false, 2: true} {
		r.check, r.out.end = &flow.Checker{}, least-less
		if r.checkThroughput(); (r.check.Err() != nil) != fails {
			t.Errorf("of drafts, %v less than %v: %v", less, least, r.check.Err())
		}
	}
}

// TestCacheLawByHand: with a cache every token of a prompt was either found or not.
func TestCacheLawByHand(t *testing.T) {
	trace := &traces.Trace{Requests: []traces.Request{{Input: 40, Output: 3}, {ID: 1, Input: 60, Output: 5}}}
	r := endedReplica(t, trace, "cache.prefix=true")
	n := r.assembly.Batcher.Ledger.CacheCounts()
	if n.Hit+n.Miss != 100 {
		t.Fatalf("%+v", n)
	}
	r.out.requests[1].Request.Input = 61
	r.check = &flow.Checker{}
	r.checkCache()
	want := fmt.Sprintf("at %v: of prompts of 101 tokens %d were found in the cache and %d were not", r.out.end, n.Hit, n.Miss)
	if got := fmt.Sprint(r.check.Err()); !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	// Hits, transfers and savings of two replicas add up.
	node := nodeOf(t, "run.system=gpu-only", "run.model=llama-3-8b", "cache.prefix=true")
	other := endedReplica(t, &traces.Trace{Requests: []traces.Request{{Input: 30, Output: 2}}}, "cache.prefix=true")
	for i, r := range []*replica{r, other} {
		r.assembly.Engine.Side().Attends.Fetched, r.assembly.Engine.Side().Attends.Spared = units.Bytes(10+i), int64(20+i)
	}
	c := node.cacheOf([]*replica{r, other})
	if c.HitTokens+c.MissTokens != 130 || c.Transferred != 21 || c.Spared != 41 || !near(c.HitRate, float64(c.HitTokens)/130) {
		t.Errorf("%+v", c)
	}
	if c := nodeOf(t, "run.system=gpu-only", "run.model=llama-3-8b").cacheOf([]*replica{r, other}); c != (results.Cache{}) {
		t.Errorf("without a cache %+v", c)
	}
}

// TestPopulationLawByHand: the scheduler has as many requests as have arrived and not left.
func TestPopulationLawByHand(t *testing.T) {
	r := endedReplica(t, fewRequests(2))
	r.check = &flow.Checker{Here: 2}
	r.settle(5 * units.Second)
	if got := fmt.Sprint(r.fault); !strings.Contains(got, "at 5s: the scheduler has 0 requests, 2 have come and not left") {
		t.Error(got)
	}
	r.fault, r.check = nil, &flow.Checker{}
	if r.settle(5 * units.Second); r.fault != nil {
		t.Error(r.fault)
	}
}

// TestMissesEndARun: requests miss their targets if they are turned away, their first token is late, or they end late; each counts once. The
// run ends with the first miss beyond the allowed number, among the requests that count.
func TestMissesEndARun(t *testing.T) {
	trace := fewRequests(6)
	n := nodeOf(t, "run.system=gpu-only", "run.model=llama-3-8b", "slo.ttft=1ns")
	for _, c := range []struct {
		from, to int
		most     int64
		missed   int
		ends     bool
	}{{0, 6, 6, 6, false}, {0, 6, 5, 6, true}, {2, 5, 3, 3, false}, {2, 5, 2, 3, true}, {6, 9, 0, 0, false}} {
		var ids []int
		m := &Misses{From: c.from, To: c.to, Most: c.most, Missed: func(q *results.Request) { ids = append(ids, q.Request.ID) }}
		_, err := n.Run(t.Context(), trace, Options{Misses: m})
		if errors.Is(err, ErrMissed) != c.ends || err != nil && !c.ends || len(ids) != c.missed || m.Came != 6 {
			t.Errorf("%+v: %v miss, %d came; %v", c, ids, m.Came, err)
		}
	}
	// With targets that all attain none misses; requests that only end late are each reported once.
	for target, want := range map[string]int{"slo.ttft=1000s": 0, "slo.tpot=1ns": 6, "slo.e2e=1ns": 6} {
		count := 0
		m := &Misses{To: 6, Most: 6, Missed: func(*results.Request) { count++ }}
		if _, err := nodeOf(t, "run.system=gpu-only", "run.model=llama-3-8b", "slo.tbt=0s", target).Run(t.Context(), trace, Options{Misses: m}); err != nil || count != want {
			t.Errorf("%s: %d miss, want %d; %v", target, count, want, err)
		}
	}
	r := &replica{slo: &scheduler.SLO{TTFT: 10}}
	for first, late := range map[units.Duration]bool{15: false, 16: true} {
		if q := (&results.Request{Request: traces.Request{Arrival: 5}, FirstToken: first, Finish: 1000}); r.firstLate(q) != late {
			t.Errorf("a first token at %v after 5 and a target of 10 is late: %t", first, !late)
		}
	}
	if r.slo.TTFT = 0; r.firstLate(&results.Request{FirstToken: 1000}) {
		t.Error("late without a target")
	}
	away := 0
	m := &Misses{To: 6, Most: 9, Missed: func(q *results.Request) {
		if q.Outcome == results.TooLong {
			away++
		}
	}}
	if _, err := nodeOf(t, "run.system=gpu-only", "run.model=llama-3-8b", "slo.ttft=1000s", "model.context=1000", "serving.beyond_context=refuse").Run(t.Context(), trace, Options{Misses: m}); err != nil || away != 2 {
		t.Errorf("%d of two requests of 1,500 tokens miss; %v", away, err)
	}
}

// TestMeasuredByHand: of four requests two are measured, which arrive within 4 s: one gap of 4 s between two stands for 8 s
// of both.
func TestMeasuredByHand(t *testing.T) {
	const s = units.Second
	r := &Result{}
	r.saturated = true
	for i := range 4 {
		r.Requests = append(r.Requests, results.Request{Request: traces.Request{Input: 5, Output: 10 * (i + 1), Arrival: units.Duration(i) * 4 * s}, Start: units.Duration(i) * 4 * s, FirstToken: units.Duration(i)*4*s + s, Finish: units.Duration(i)*4*s + 2*s, Attained: i != 1})
	}
	m := r.Measured(1, 3, Middle(&traces.Trace{Requests: []traces.Request{{}, {Arrival: 4 * s}, {Arrival: 8 * s}, {}}}, 1, 3))
	if m.Requests != 2 || m.Attainment != 0.5 || !near(m.GoodputTokens, 30./8) || !m.Saturated || !near(m.TTFT.Mean, 1000) || !near(m.E2E.Mean, 2000) {
		t.Errorf("%+v", m)
	}
	for _, c := range [][2]int{{-1, 2}, {2, 2}, {3, 2}, {0, 5}, {4, 5}} {
		if got := r.Measured(c[0], c[1], Window{To: s}); !reflect.DeepEqual(got, Measured{}) {
			t.Errorf("%v: %+v", c, got)
		}
	}
	if got := r.Measured(0, 4, Window{}); got.Requests != 4 || got.GoodputTokens != 0 {
		t.Errorf("in no time %+v", got)
	}
	var none *Result
	n := nodeOf(t, "run.system=gpu-only", "run.model=llama-3-8b")
	if len(none.OverTime(n, 3).Rows)+len(r.OverTime(nil, 3).Rows) != 0 || !reflect.DeepEqual(none.Batch(), results.Batch{}) {
		t.Error("of no run there is something")
	}
	if _, err := none.Summary(n.cfg); err == nil {
		t.Error("a summary of no run")
	}
	if _, err := (&Result{}).Summary(n.cfg); err == nil {
		t.Error("a summary of an empty run")
	}
	done, err := n.Run(t.Context(), fewRequests(2), Options{})
	if err != nil {
		t.Fatal(err)
	}
	done.Wall, done.preemptions = 0, 17
	if s, err := done.Summary(n.cfg); err != nil || s.Preemptions != 17 {
		t.Errorf("%+v; %v", s, err)
	}
}

// TestDecodeLoadsByHand: requests by sub-batch and place: on ranksets by their offsets, separate from those on the host or in the spare
// memory.
func TestDecodeLoadsByHand(t *testing.T) {
	r := &replica{}
	r.observers.recording = &Recording{ranksets: 3}
	d := func(offset int32, base int64) scheduler.Decoding {
		return scheduler.Decoding{Offset: offset, Base: base}
	}
	r.iteration.batch = &scheduler.Batch{Step: 5, Grouped: 1000, Sub: []scheduler.SubBatch{
		{Decode: []scheduler.Decoding{d(1, 10), d(4, 20), d(2, 30)}, Host: []scheduler.Decoding{d(0, 100), d(0, 200)}, Prefill: []scheduler.Chunk{{Tokens: 7}, {Tokens: 8}}},
		{Decode: []scheduler.Decoding{d(0, 40)}, Near: []scheduler.Decoding{d(0, 300)}, Prefill: []scheduler.Chunk{{Tokens: 9}}},
	}}
	loads, prompts := r.decodeLoads()
	want := []decodeLoad{{}, {2, 40}, {1, 35}, {1, 45}, {}, {}, {2, 310}, {1, 305}}
	if !reflect.DeepEqual(loads, want) || prompts != [2]int{15, 9} {
		t.Errorf("%v and %v, by hand %v", loads, prompts, want)
	}
	x := Sample{loads: loads, prompts: prompts}
	for sub, want := range []timeline.Args{{"decoding requests": 5, "context tokens": int64(385), "prompt tokens": 15}, {"decoding requests": 2, "context tokens": int64(350), "prompt tokens": 9}} {
		args := timeline.Args{}
		if x.describe(args, sub, 3); !reflect.DeepEqual(args, want) {
			t.Errorf("sub-batch %d: %v, by hand %v", sub, args, want)
		}
	}
}

// TestPhasesByHand: iterations without a gap in which a request does the same are one phase.
func TestPhasesByHand(t *testing.T) {
	r := &Recording{phases: map[int][]phase{}}
	for _, p := range []phase{{"prefill", 1, 3, 10}, {"prefill", 3, 4, 20}, {"decode", 4, 6, 1}, {"decode", 6, 7, 1}, {"decode", 8, 9, 1}, {"prefill", 9, 10, 5}} {
		r.phase(4, p)
	}
	r.phase(2, phase{"decode", 1, 2, 1})
	want := map[int][]phase{4: {{"prefill", 1, 4, 30}, {"decode", 4, 7, 2}, {"decode", 8, 9, 1}, {"prefill", 9, 10, 5}}, 2: {{"decode", 1, 2, 1}}}
	if !reflect.DeepEqual(r.phases, want) || !reflect.DeepEqual(r.order, []int{4, 2}) {
		t.Errorf("%v in the order %v", r.phases, r.order)
	}
}

// TestSpansByHand: a span's arguments for requests on a rankset, on the CPUs and on the GPUs. Attention of the CPUs is of the host's
// requests, if it has any.
func TestSpansByHand(t *testing.T) {
	r := &Recording{ranksets: 2, Run: "mine", Replica: 3, Window: Window{To: 1000}, parts: map[units.Duration][]gpus.Part{}}
	r.Samples = []Sample{{At: 0, End: 100, loads: []decodeLoad{{1, 11}, {2, 22}, {3, 33}, {4, 44}, {0, 0}, {5, 55}}, prompts: [2]int{6, 7}}}
	span := func(kind uint8, resource, a int32) flow.Span {
		return flow.Span{Kind: int32(kind), Resource: resource, A: a, B: 9, Start: 10, End: 20}
	}
	for _, c := range []struct {
		span flow.Span
		want string
	}{
		{span(flow.OpHostAttention, flow.TrackRank, 3), `"context tokens":55,"decoding requests":5,"layer":9,"offset":1,"sub-batch":"B"`},
		{span(flow.OpHostAttention, flow.TrackRank, 1), `"context tokens":22,"decoding requests":2,"layer":9,"offset":1,"sub-batch":"A"`},
		{span(flow.OpAttention, flow.TrackRank, 3), `"context tokens":44,"decoding requests":4,"layer":9,"offset":1,"sub-batch":"B"`},
		{span(flow.OpDecodeDown, flow.TrackDown, 2), `"context tokens":33,"decoding requests":3,"layer":9,"offset":0,"sub-batch":"B"`},
		{span(flow.OpPromptDown, flow.TrackDown, 3), `"layer":9,"offset":1,"sub-batch":"B"`},
		{span(flow.OpBlock, flow.TrackGPU, 2), `"context tokens":132,"decoding requests":12,"layer":9,"prompt tokens":7,"sub-batch":"B"`},
	} {
		var text strings.Builder
		w := timeline.NewWriter(&text)
		r.Spans = []flow.Span{c.span}
		tw := traceWriter{Writer: w}
		tw.span(r, &r.Samples[0], c.span)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(text.String(), " ", ""); !strings.Contains(got, strings.ReplaceAll(c.want, " ", "")) {
			t.Errorf("%+v: %s, want %s", c.span, text.String(), c.want)
		}
	}
	var text strings.Builder
	w := timeline.NewWriter(&text)
	WriteTimeline(w, []*Recording{r})
	if err := w.Close(); err != nil || !strings.Contains(text.String(), "mine, replica 3") {
		t.Errorf("%s; %v", &text, err)
	}
}

// TestNodesOfCallers: invalid nodes return errors, and replicas get their requests in turns.
func TestNodesOfCallers(t *testing.T) {
	var none *Node
	for _, n := range []*Node{none, {}} {
		if _, err := n.Run(t.Context(), fewRequests(1), Options{}); err == nil {
			t.Error("no node runs")
		}
		if _, err := n.Profile(t.Context(), fewRequests(1), 1); err == nil {
			t.Error("no node has a profile")
		}
	}
	if _, err := NewNode(&configs.Config{}); err == nil {
		t.Error("a configuration that no loader made is taken")
	}
	n := nodeOf(t, "run.system=gpu-only", "run.model=llama-3-8b", "node.gpus=2", "model.tensor_parallel=1")
	trace := &traces.Trace{HashTokens: 16, Requests: []traces.Request{{Input: 1, Output: 1}, {ID: 1, Input: 2, Output: 1, Arrival: 7}, {ID: 2, Input: 3, Output: 1, Arrival: 5}}}
	all := n.divide(trace, Options{}, false)
	if got := [][]int32{all[0].out.places, all[1].out.places}; !reflect.DeepEqual(got, [][]int32{{0, 2}, {1}}) || all[0].tallied.population.span != 7 || all[1].requests[0].Input != 2 {
		t.Errorf("places %v", got)
	}
	if _, err := n.Run(t.Context(), &traces.Trace{Requests: []traces.Request{{Input: 0, Output: 1}}}, Options{}); err == nil {
		t.Error("a request without a prompt runs")
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := n.Run(over, fewRequests(1), Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
