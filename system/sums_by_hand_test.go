package system

import (
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// twoReplicas returns a node of two replicas that have served six requests, with a record of each
// iteration.
func twoReplicas(t *testing.T, sets ...string) (*Node, *traces.Trace, []*replica) {
	t.Helper()
	n := nodeOf(t, append([]string{"run.model=llama-3-8b", "node.gpus=2", "model.tensor_parallel=1"}, sets...)...)
	trace := fewRequests(6)
	all := n.divide(trace, Options{Iterations: true, Timeline: &Window{To: 1 << 62}}, false)
	for _, r := range all {
		if err := r.run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return n, trace, all
}

// TestSumsOfReplicasByHand: a run's results are the sums over its replicas.
func TestSumsOfReplicasByHand(t *testing.T) {
	n, trace, all := twoReplicas(t, "run.system=l3")
	var want struct {
		iterations, tokens, decode, stalls int64
		gaps, spans                        int
		unfilled                           float64
	}
	tasks := int64(0)
	for i, r := range all {
		k := int64(i)
		b := r.assembly.Batcher
		b.Preemptions, b.WholePrompts, b.LongestWhole, b.SpareTokens = 3+k, 5+k, 900-300*i, 7+k
		r.out.fragmentation = float64(2 + i)
		want.iterations, want.tokens = want.iterations+r.out.iterations, want.tokens+r.out.tokens
		want.decode, want.stalls = want.decode+r.gaps.decode.Count(), want.stalls+r.gaps.stalls.Count()
		want.gaps, want.spans = want.gaps+len(r.observers.diary.gaps), want.spans+len(r.observers.diary.iterations)
		tasks += int64(r.assembly.Engine.Core().Work.Tasks)
		want.unfilled += float64(2 + i)
	}
	ends := [2]units.Duration{all[0].out.end, all[1].out.end}
	r := n.result(trace, all)
	if r.iterations != want.iterations || r.tokens != want.tokens || r.preemptions != 3+4 || r.wholePrompts != 5+6 || r.longestWhole != 900 || r.spareTokens != 7+8 || r.end != max(ends[0], ends[1]) || int64(r.Tasks) != tasks || tasks == 0 {
		t.Errorf("%+v, by hand %+v", r.scheduling, want)
	}
	if len(r.Iterations) != want.spans || len(r.gaps) != want.gaps || want.gaps == 0 || len(r.Recordings) != 2 || r.tbt.Count() != want.decode+want.stalls || r.stall.Count != want.stalls {
		t.Errorf("%d iterations, %d kept gaps, %d gaps, %d stalls; by hand %+v", len(r.Iterations), len(r.gaps), r.tbt.Count(), r.stall.Count, want)
	}
	if got := want.unfilled / (ends[0] + ends[1]).Seconds(); !near(r.fragmentation, got) {
		t.Errorf("%v of the rows are not filled, by hand %v", r.fragmentation, got)
	}
	var imbalance flow.Imbalance
	for _, r := range all {
		x := r.assembly.Engine.Ranksets()
		imbalance.Join(&x)
	}
	if r.imbalance != imbalance.Ratio(n.hw.AttentionDevices()) || r.imbalance < 1 {
		t.Errorf("the busiest rankset has %v times the mean", r.imbalance)
	}
	s, err := r.Summary(n.cfg)
	if err != nil || s.KVFragmentation != r.fragmentation || s.RanksetImbalance != r.imbalance || s.Preemptions != 7 || s.Iterations != want.iterations || s.KVBytes != r.kv || s.Utilization != r.busy || s.Waits != r.waits {
		t.Errorf("%+v; %v", s, err)
	}
}

// TestSaturationOfReplicas: two replicas with equal growth are as saturated as one with all their
// requests.
func TestSaturationOfReplicas(t *testing.T) {
	for _, c := range []struct {
		quarters [4]float64 // mean requests in each quarter of the first replica; the second has three times as many
		want     bool
	}{{[4]float64{1, 10, 30, 50}, true}, {[4]float64{1, 50, 30, 10}, false}, {[4]float64{1, 10, 10, 10}, false}, {[4]float64{1, 10, 11, 11.4}, false}} {
		var all []*replica
		for k := range 2 {
			r := &replica{}
			r.tallied.population.span = 400
			for q, mean := range c.quarters {
				if k == 1 {
					mean *= 3
				}
				r.tallied.population.quarters[q].AddTimes(1, int64(math.Round(100*mean)))
			}
			for range 100 {
				r.out.requests = append(r.out.requests, results.Request{})
			}
			all = append(all, r)
		}
		if got := saturated(all); got != c.want {
			t.Errorf("%v: saturated %t", c.quarters, got)
		}
	}
	// With two replicas whose means rise by 4 each, the sum rises by 8, for 300 requests in half of the time: less than three times the root of 9. With a rise of 5 it is
	// enough.
	for rise, want := range map[int64]bool{4: false, 5: true} {
		var all []*replica
		for range 2 {
			r := &replica{}
			r.tallied.population.span = 400
			for q, add := range []int64{0, 0, rise / 2, rise} {
				r.tallied.population.quarters[q].AddTimes(100, 4+add)
			}
			r.out.requests = make([]results.Request, 50)
			all = append(all, r)
		}
		if got := saturated(all); got != want { // from 8 to 8 + 2·rise; 3·√8 is 8.5
			t.Errorf("a rise of %d each: saturated %t", rise, got)
		}
	}
}

// TestDiaryByHand: an iteration of two sub-batches: prompts of both, tokens from the cache when a prompt begins, and first tokens.
func TestDiaryByHand(t *testing.T) {
	r := nodeOf(t, "run.system=l3", "run.model=llama-3-8b").divide(&traces.Trace{}, Options{Iterations: true}, false)[0]
	r.iteration.batch = &scheduler.Batch{Sub: []scheduler.SubBatch{
		{Decode: make([]scheduler.Decoding, 2), Prefill: []scheduler.Chunk{{Tokens: 10, Finished: 512, Prefix: 512}, {Tokens: 20, Finished: 600, Prefix: 512, Last: true}}},
		{Decode: make([]scheduler.Decoding, 3), Prefill: []scheduler.Chunk{{Tokens: 40, Finished: 1024, Prefix: 1024, Last: true}, {Tokens: 5}}},
	}}
	var did flow.Work
	did.Time[flow.OfGPU], did.Time[flow.OfPIM], did.Time[flow.OfDown], did.Time[flow.OfUp], did.Time[flow.OfChannel] = 1, 2, 3, 4, 5
	d := diary{replica: 7}
	d.add(r, 100, 300, &did)
	x := d.iterations[0]
	if x.Replica != 7 || x.Start != 100 || x.End != 300 || x.Decoding != 5 || x.PromptTokens != 10+20+40+5 || x.PrefixTokens != 512+1024 || x.FirstTokens != 2 || x.GPU != 1 || x.PIM != 2 || x.PCIeDown != 3 || x.PCIeUp != 4 || x.Channel != 5 ||
		!near(x.Joules, r.observers.power.Joules(&did, 200)) {
		t.Errorf("%+v", x)
	}
}

// TestReadOfBatchesByHand: if steps verify drafts, a batch reads the keys and values of each of its requests once, wherever they
// are.
func TestReadOfBatchesByHand(t *testing.T) {
	d := func(context int64) scheduler.Decoding { return scheduler.Decoding{Base: context - 5, Prompt: 10} }
	batch := &scheduler.Batch{Step: 5, Grouped: 900, Sub: []scheduler.SubBatch{{Decode: []scheduler.Decoding{d(100), d(200)}, Host: []scheduler.Decoding{d(300)}}, {Near: []scheduler.Decoding{d(400)}}}}
	b := bounds{kvToken: 8}
	b.follow(batch)
	if b.read != 8*1000 {
		t.Errorf("%v B are read, by hand 8,000", b.read)
	}
	n := nodeOf(t, "run.system=gpu-only", "run.model=llama-3-8b", "policy.name=streaming")
	b = bounds{attends: flow.NewAttends(n.hw)}
	want := 0.0
	for _, context := range []int{100, 200, 300, 400} {
		want += flow.NewAttends(n.hw).Read(policy.Request{Prompt: 10, Context: context})
	}
	if b.follow(batch); !near(b.read, want) || want == 0 {
		t.Errorf("%v B are read, by hand %v", b.read, want)
	}
}

// TestHashesOfTraces: a trace gives the number of tokens of its hashes: prompts that differ in the sixth hash of 16 tokens do not share a block of
// 512.
func TestHashesOfTraces(t *testing.T) {
	n := nodeOf(t, "run.system=gpu-only", "run.model=llama-3-8b", "cache.prefix=true", "cache.block=512", "node.gpus=1", "model.tensor_parallel=1")
	for differs, hit := range map[int]int64{5: 0, 40: 512, 63: 512} {
		trace := &traces.Trace{Name: "hashes", HashTokens: 16}
		for i := range 2 {
			q := traces.Request{ID: i, Input: 1024, Output: 3, Arrival: units.Duration(i) * 100 * units.Second}
			for k := range 64 {
				q.Hashes = append(q.Hashes, uint64(100+k))
			}
			q.Hashes[differs] += uint64(1000 * i)
			trace.Requests = append(trace.Requests, q)
		}
		r, err := n.Run(t.Context(), trace, Options{})
		if err != nil || r.cache.HitTokens != hit || r.cache.HitTokens+r.cache.MissTokens != 2048 || r.cache.HitRate != float64(hit)/2048 {
			t.Errorf("hash %d differs: %+v; %v", differs, r.cache, err)
		}
	}
}

// TestPricesInNotes: notes name a list of prices older than the newest, and the targets that a run misses.
func TestPricesInNotes(t *testing.T) {
	cfg, err := everything().Load(configs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(Notes(cfg), "\n"); strings.Contains(notes, "price list") {
		t.Error(notes)
	}
	mine := *cfg
	mine.Prices.Prices.Date = "2020-01-02"
	newest, date := configs.NewestPrices()
	if notes := strings.Join(Notes(&mine), "\n"); !strings.Contains(notes, "is of 2020-01-02; "+newest+" is of "+date+" (--prices "+newest+")") {
		t.Error(notes)
	}
	// Missed targets of a run are notes of it.
	s := &results.Summary{SLO: results.NewSLO(&scheduler.SLO{P90: scheduler.Tail{TTFT: units.Second}})}
	s.TTFT = results.Latency{Mean: 5000, P50: 5000, P90: 5000, P95: 5000, P99: 5000, Max: 5000}
	all := (&Result{trace: &traces.Trace{}}).remarks(cfg, s)
	if want := s.SLO.Missed(&s.TTFT, &s.TBT, &s.TPOT, &s.E2E); len(want) != 1 || !strings.Contains(strings.Join(all.notes, "\n"), want[0]) {
		t.Errorf("%v, want %v", all.notes, want)
	}
}

// TestTokensOfDrafts: emitted tokens are first tokens, one per step of a request, and accepted drafts.
func TestTokensOfDrafts(t *testing.T) {
	_, trace, all := twoReplicas(t, "run.system=gpu-only", "serving.verified_tokens=3", "serving.acceptance=0.7")
	want, drafted := 0, int64(0)
	for _, q := range trace.Requests {
		want += q.Output - 1
	}
	decoded := int64(0)
	for _, r := range all {
		if r.out.tokens != r.out.decoded+r.out.drafted+int64(len(r.out.requests)) {
			t.Errorf("%d tokens of %d requests, %d in steps and %d drafts", r.out.tokens, len(r.out.requests), r.out.decoded, r.out.drafted)
		}
		decoded, drafted = decoded+r.out.decoded, drafted+r.out.drafted
	}
	if decoded+drafted != int64(want) || drafted <= 0 || decoded <= 0 {
		t.Errorf("%d tokens in steps and %d drafts, by hand %d together", decoded, drafted, want)
	}
}
