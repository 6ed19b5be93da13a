package system

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// coming returns the trace with the arrivals of a configuration.
func coming(t testing.TB, cfg *configs.Config, requests []traces.Request) *traces.Trace {
	t.Helper()
	trace, err := (&traces.Trace{Name: "x", Requests: requests}).Arrive(cfg.Arrivals, cfg.Run.Seed)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// drawRequests draws requests of short lengths.
func drawRequests(t *rapid.T, most int) []traces.Request {
	requests := make([]traces.Request, rapid.IntRange(1, most).Draw(t, "requests"))
	longest := rapid.SampledFrom([]int{3000, 60}).Draw(t, "longest")
	for i := range requests {
		requests[i] = traces.Request{ID: i, Input: rapid.IntRange(1, longest).Draw(t, "in"), Output: rapid.SampledFrom([]int{1, 20, 60, 400, 1000, 1400}).Draw(t, "out")}
	}
	return requests
}

// drawOnline draws arrivals of requests and limits of a server.
func drawOnline(t *rapid.T) []string {
	var sets []string
	set := func(key string, value any) { sets = append(sets, fmt.Sprintf("%s=%v", key, value)) }
	switch kind := rapid.SampledFrom([]string{"all-at-once", "poisson", "gamma", "closed-loop"}).Draw(t, "kind"); kind {
	case "closed-loop":
		set("arrivals.users", rapid.IntRange(1, 12).Draw(t, "users"))
		set("arrivals.think_time", rapid.SampledFrom([]string{"0s", "20ms", "3s"}).Draw(t, "think"))
		set("arrivals.think_distribution", rapid.SampledFrom([]string{"fixed", "exponential"}).Draw(t, "thinking"))
		set("arrivals.kind", kind)
	case "all-at-once":
		set("arrivals.kind", kind)
	default:
		set("arrivals.kind", kind)
		set("arrivals.rate_per_s", rapid.Float64Range(0.1, 200).Draw(t, "rate"))
		set("arrivals.cv", rapid.SampledFrom([]float64{0.3, 1, 3}).Draw(t, "cv"))
	}
	set("serving.router", rapid.SampledFrom([]string{"round-robin", "least-kv", "least-outstanding"}).Draw(t, "router"))
	set("serving.max_waiting", rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "waiting"))
	set("serving.deadline", rapid.SampledFrom([]string{"0s", "0s", "1ms", "400ms"}).Draw(t, "deadline"))
	set("serving.prefill_streak", rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "streak"))
	set("serving.api_request", rapid.SampledFrom([]string{"0s", "0s", "1ms", "40ms"}).Draw(t, "API request"))
	set("serving.api_token", rapid.SampledFrom([]string{"0s", "0s", "70us", "3ms"}).Draw(t, "API token"))
	set("slo.tbt", rapid.SampledFrom([]string{"0s", "40ms", "100ms"}).Draw(t, "tbt"))
	set("slo.ttft", rapid.SampledFrom([]string{"0s", "300ms"}).Draw(t, "ttft"))
	return sets
}

// residence returns the time that requests spent in the system, added up.
func residence(r *Result) (sum units.Total) {
	for i := range r.Requests {
		sum.Add(r.Requests[i].Finish - r.Requests[i].Request.Arrival)
	}
	return sum
}

// TestOnlineLaws: for any system, small memories, arrivals, router and limits, every request is
// served to its end or turned away, and laws hold. Over a run, which begins and ends empty, the sum
// of requests' times in the system equals the integral of the number that the schedulers count, to
// the picosecond (Little, "A proof for the queuing formula L = λW", 1961).
func TestOnlineLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		system := rapid.SampledFrom(everyName()).Draw(t, "system")
		sets := append(drawOnline(t), "run.system="+system, "run.model=llama-2-7b",
			"memory.admission="+rapid.SampledFrom([]string{"final", "current"}).Draw(t, "admission"),
			fmt.Sprint("memory.history=", rapid.SampledFrom([]int{0, 1000}).Draw(t, "history")),
			fmt.Sprint("batching.max_num_seqs=", rapid.SampledFrom([]int{0, 1, 4}).Draw(t, "seats")),
			fmt.Sprint("node.gpus=", rapid.SampledFrom([]int{1, 2}).Draw(t, "gpus")), "batching.max_num_batched_tokens=2048",
			fmt.Sprint("gpu.memory_reserve=", rapid.SampledFrom([]string{"1GiB", "64GiB", "65GiB"}).Draw(t, "reserve")),
			fmt.Sprint("node.memory_capacity=", rapid.SampledFrom([]string{"4GiB", "8GiB", "2TiB"}).Draw(t, "capacity")))
		if system == "gpu-only" {
			sets = append(sets, fmt.Sprint("gpu_only.async_scheduling=", rapid.Bool().Draw(t, "ahead")))
		}
		cfg, err := everything().Load(configs.Options{Sets: sets})
		if err != nil {
			t.Fatal(err)
		}
		trace, err := (&traces.Trace{Name: "x", Requests: drawRequests(t, 30)}).Arrive(cfg.Arrivals, cfg.Run.Seed)
		if err != nil {
			t.Fatal(err)
		}
		r, err := mustNode(t, cfg).Run(context.Background(), trace, Options{Check: true})
		if _, none := err.(*RejectedError); none {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		checkOnline(t, cfg, r)
	})
}

// TestDeadlineAhead: a scheduler that forms iterations ahead drops requests that have waited too long, even ones that it has not seen
// yet, and serves the next.
func TestDeadlineAhead(t *testing.T) {
	for _, ahead := range []bool{false, true} {
		cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=gpu-only", "run.model=llama-2-7b", "arrivals.kind=trace", "serving.deadline=50ms", "serving.api_request=40ms", fmt.Sprint("gpu_only.async_scheduling=", ahead)}})
		if err != nil {
			t.Fatal(err)
		}
		requests := []traces.Request{{Input: 100, Output: 5}, {ID: 1, Input: 100, Output: 5}, {ID: 2, Input: 100, Output: 5, Arrival: units.Second}}
		r, err := mustNode(t, cfg).Run(context.Background(), &traces.Trace{Name: "x", Requests: requests}, Options{Check: true})
		if err != nil {
			t.Fatal(err)
		}
		checkOnline(t, cfg, r)
		for i, want := range []results.Outcome{results.Served, results.Expired, results.Served} { // the second one is with the scheduler after 80 ms
			if got := r.Requests[i].Outcome; got != want {
				t.Errorf("ahead %v: request %d is %v, want %v", ahead, i, got, want)
			}
		}
	}
}

// checkOnline verifies that requests begin, and are dropped, in time and in order, and Little's law.
func checkOnline(t interface {
	Helper()
	Fatalf(string, ...any)
}, cfg *configs.Config, r *Result) {
	t.Helper()
	if want := residence(r); r.inSystem != want {
		t.Fatalf("%v requests · ps in the system, requests spent %v", r.inSystem.Picoseconds(), want.Picoseconds())
	}
	for i := range r.Requests {
		q := &r.Requests[i]
		if q.Outcome == results.Served && (q.Start < q.Request.Arrival || q.FirstToken <= q.Start || q.Finish < q.FirstToken) {
			t.Fatalf("%+v", q)
		}
		if d := cfg.Serving.Deadline; d > 0 && q.Outcome == results.Served && q.Start-q.Request.Arrival > d {
			t.Fatalf("request %d begins after %v", i, q.Start-q.Request.Arrival)
		}
		if d := cfg.Serving.Deadline; q.Outcome == results.Expired && (d == 0 || q.Finish-q.Request.Arrival <= d) {
			t.Fatalf("request %d is dropped after %v", i, q.Finish-q.Request.Arrival)
		}
	}
}

// TestOnlineWithoutMemory: the same with requests that arrive over time at memories that hold only some
// of them, and lose their memory as others grow.
func TestOnlineWithoutMemory(t *testing.T) {
	deep.Only(t)
	for _, system := range []string{"l3", "gpu-only", "hbm-pim", "rank-pim", "cpu-offload", "gpu+cpu"} {
		cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=" + system, "run.model=llama-2-7b", "node.gpus=2", "batching.max_num_batched_tokens=2048",
			"memory.admission=current", "memory.history=0", "gpu.memory_reserve=66GiB", "node.memory_capacity=3GiB", "serving.router=least-kv",
			"serving.deadline=60s", "arrivals.kind=gamma", "arrivals.rate_per_s=10", "arrivals.cv=2"}})
		if err != nil {
			t.Fatal(err)
		}
		requests := equalLengths(80, 20, 900)
		for i := range requests {
			requests[i].Output += 7 * i
		}
		r := mustRun(t, mustNode(t, cfg), coming(t, cfg, requests), false)
		if r.preemptions == 0 && system != "cpu-offload" { // it swaps out to the host
			t.Errorf("%s: no request loses its memory", system)
		}
		checkOnline(t, cfg, r)
	}
}

// TestTogetherIsApart: with a round-robin router and no API server, replicas in one loop and each in its own give
// the same bytes.
func TestTogetherIsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sets := append(drawOnline(t), "run.system="+rapid.SampledFrom(everyName()).Draw(t, "system"), "run.model=llama-2-7b", "serving.router=round-robin", "serving.api_request=0s", "serving.api_token=0s")
		cfg, err := everything().Load(configs.Options{Sets: sets})
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Arrivals.Kind == traces.ArrivalsClosed {
			return
		}
		trace, err := (&traces.Trace{Name: "x", Requests: drawRequests(t, 40)}).Arrive(cfg.Arrivals, cfg.Run.Seed)
		if err != nil {
			t.Fatal(err)
		}
		node := mustNode(t, cfg)
		var want string
		for _, together := range []bool{false, true} {
			r, err := node.run(context.Background(), trace, Options{}, together)
			if err != nil {
				t.Fatal(err)
			}
			got := written(t, cfg, r)
			if want == "" {
				want = got
			}
			if got != want {
				t.Fatalf("apart\n%s\ntogether\n%s", want, got)
			}
		}
	})
}

// written returns the files of a run.
func written(t *rapid.T, cfg *configs.Config, r *Result) string {
	s, err := r.Summary(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := s.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	if err := results.WriteRequests(&b, r.Requests); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestAloneAtLowRates: if requests arrive so rarely that none meets another, each takes its time
// alone.
func TestAloneAtLowRates(t *testing.T) {
	deep.Heavy(t)
	for _, system := range everyName() {
		cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=" + system, "run.model=llama-3-8b", "arrivals.kind=poisson", "arrivals.rate_per_s=0.001"}})
		if err != nil {
			t.Fatal(err)
		}
		node := mustNode(t, cfg)
		requests := unevenLengths(6)
		r := mustRun(t, node, coming(t, cfg, requests), false)
		for i := range r.Requests {
			q := &r.Requests[i]
			alone := requests[i]
			alone.Arrival = 0
			a := &mustRun(t, node, &traces.Trace{Requests: []traces.Request{alone}}, false).Requests[0]
			if q.FirstToken-q.Request.Arrival != a.FirstToken || q.Finish-q.Request.Arrival != a.Finish {
				t.Errorf("%s: request %d takes %v and %v, alone %v and %v", system, i, q.FirstToken-q.Request.Arrival, q.Finish-q.Request.Arrival, a.FirstToken, a.Finish)
			}
		}
	}
}

// serverOf returns a node of gpu-only that serves one request at a time on each of its
// replicas, and the time that it takes for one of the given lengths.
func serverOf(t testing.TB, replicas, in, out int, sets ...string) (*configs.Config, *Node, units.Duration) {
	t.Helper()
	cfg, err := everything().Load(configs.Options{Sets: append(sets, "run.system=gpu-only", "run.model=llama-3-8b", fmt.Sprint("node.gpus=", replicas), "batching.max_num_seqs=1",
		"serving.router=least-outstanding")})
	if err != nil {
		t.Fatal(err)
	}
	node := mustNode(t, cfg)
	r := mustRun(t, node, &traces.Trace{Requests: equalLengths(1, in, out)}, false)
	return cfg, node, r.Requests[0].Finish
}

func equalLengths(n, in, out int) []traces.Request {
	requests := make([]traces.Request, n)
	for i := range requests {
		requests[i] = traces.Request{ID: i, Input: in, Output: out}
	}
	return requests
}

// TestDeterministicServers: with fixed lengths, one request at a time and Poisson arrivals, c replicas behind one queue begin each
// request when it arrives or when the one c requests before it ends, whichever is later. This holds to the picosecond if c is 1,
// and within 0.5% of the mean wait if a router guesses which of several servers ends first. The mean wait by that recursion is
// that of M/D/1 (Pollaczek and Khinchine: ρD / 2(1 − ρ)) and of M/D/c (Crommelin, "Delay probability formulae when the holding
// times are constant", 1932, by the recursion of the queue at multiples of D), within 1.5%, the precision of hundreds of thousands
// of requests; a long run serves them all.
func TestDeterministicServers(t *testing.T) {
	deep.Only(t)
	t.Parallel()
	const n, in = 300_000, 1
	simulated := deep.Of(0, 20_000, n)
	for _, c := range []struct {
		servers int
		rho     float64
		out     int // by their tokens a router sees how far servers are
	}{{1, 0.5, 3}, {1, 0.7, 3}, {2, 0.6, 12}, {4, 0.7, 12}} {
		cfg, node, service := serverOf(t, c.servers, in, c.out)
		cfg.Arrivals.Kind, cfg.Arrivals.RatePerS = traces.ArrivalsPoisson, c.rho*float64(c.servers)/service.Seconds()
		all := coming(t, cfg, equalLengths(n, in, c.out))
		starts := startsOf(all.Requests, c.servers, service)
		r := mustRun(t, node, &traces.Trace{Name: all.Name, Requests: all.Requests[:simulated]}, false)
		var served []units.Duration
		for i := range r.Requests {
			q := &r.Requests[i]
			if took := q.Finish - q.Start; took != service {
				t.Fatalf("request %d is served in %v, alone in %v", i, took, service)
			}
			if c.servers == 1 && q.Start != starts[i] {
				t.Fatalf("one server at %v: request %d begins at %v, want %v", c.rho, i, q.Start, starts[i])
			}
			served = append(served, q.Start)
		}
		waits := func(starts []units.Duration) float64 {
			var waited units.Total
			for i, start := range starts {
				waited.Add(start - all.Requests[i].Arrival)
			}
			return waited.Picoseconds() / float64(len(starts)) / float64(service)
		}
		if got, want := waits(served), waits(starts[:simulated]); math.Abs(got/want-1) > 0.005 {
			t.Errorf("%d servers at %v: a mean wait of %.4f services, by the recursion %.4f", c.servers, c.rho, got, want)
		}
		got := waits(starts)
		want := waitMDc(c.servers, c.rho)
		if c.servers == 1 {
			if exact := c.rho / 2 / (1 - c.rho); math.Abs(want/exact-1) > 1e-6 {
				t.Fatalf("the recursion gives %v for M/D/1, want %v", want, exact)
			}
		}
		if math.Abs(got/want-1) > 0.015 {
			t.Errorf("M/D/%d at %v: a mean wait of %.4f services, want %.4f", c.servers, c.rho, got, want)
		}
	}
}

// startsOf returns when servers behind one queue begin each request, with equal service times.
func startsOf(requests []traces.Request, servers int, service units.Duration) []units.Duration {
	starts := make([]units.Duration, len(requests))
	for i := range requests {
		starts[i] = requests[i].Arrival
		if i >= servers {
			starts[i] = max(starts[i], starts[i-servers]+service)
		}
	}
	return starts
}

// waitMDc returns the mean wait of M/D/c in service times. The number in the system at t + D is the
// number at t beyond c, plus the arrivals in between; the stationary distribution is found by
// iteration, and Little's law gives the wait from the mean queue.
func waitMDc(c int, rho float64) float64 {
	const most = 400
	lambda := rho * float64(c)
	poisson := make([]float64, most)
	poisson[0] = math.Exp(-lambda)
	for k := 1; k < most; k++ {
		poisson[k] = poisson[k-1] * lambda / float64(k)
	}
	p := make([]float64, most)
	p[0] = 1
	for range 2000 {
		next := make([]float64, most)
		for i, x := range p {
			if x < 1e-18 {
				continue
			}
			left := max(i-c, 0)
			for k := 0; left+k < most && k < 120; k++ {
				next[left+k] += x * poisson[k]
			}
		}
		p = next
	}
	queue := 0.0
	for i, x := range p {
		queue += float64(max(i-c, 0)) * x
	}
	return queue / lambda
}

// TestSaturated: single servers at 80% of their capacity are never reported saturated, at 110%
// always; closed loops and full queues never.
func TestSaturated(t *testing.T) {
	deep.Heavy(t)
	t.Parallel()
	const n, in, out = 2000, 1, 12
	cfg, node, service := serverOf(t, 1, in, out)
	at := func(kind string, rho float64, seed uint64) bool {
		c := *cfg
		c.Run.Seed, c.Arrivals.Kind, c.Arrivals.Users = seed, kind, 20
		if kind == traces.ArrivalsPoisson {
			c.Arrivals.RatePerS = rho / service.Seconds()
		}
		return mustRun(t, node, coming(t, &c, equalLengths(n, in, out)), false).saturated
	}
	seeds := uint64(deep.Of(2, 40, 40))
	if testing.Short() {
		seeds = 6
	}
	for seed := range seeds {
		if at(traces.ArrivalsPoisson, 0.8, seed) {
			t.Errorf("seed %d: saturated at 80%%", seed)
		}
		if !at(traces.ArrivalsPoisson, 1.1, seed) {
			t.Errorf("seed %d: not saturated at 110%%", seed)
		}
	}
	if at(traces.ArrivalsClosed, 0, 1) || at(traces.ArrivalsAtOnce, 0, 1) {
		t.Error("a closed loop or a full queue is saturated")
	}
}

// TestTurnedAwayIsSaturated: a queue that cannot grow, since requests are refused or dropped, hides
// no overload.
func TestTurnedAwayIsSaturated(t *testing.T) {
	const n, in, out = 500, 1, 12
	for _, set := range []string{"serving.max_waiting=2", "serving.deadline=100ms"} {
		cfg, node, service := serverOf(t, 1, in, out, set, "arrivals.kind=poisson", "arrivals.rate_per_s=1")
		cfg.Arrivals.RatePerS = 1.5 / service.Seconds()
		r := mustRun(t, node, coming(t, cfg, equalLengths(n, in, out)), false)
		if !r.saturated || r.rejected < n/5 {
			t.Errorf("%s: %d of %d turned away, saturated %v", set, r.rejected, n, r.saturated)
		}
	}
}

// unevenLengths returns n requests of very different lengths.
func unevenLengths(n int) []traces.Request {
	rng := rand.New(rand.NewPCG(1, 2))
	var requests []traces.Request
	for i := range n {
		requests = append(requests, traces.Request{ID: i, Input: 1 + rng.IntN(3000), Output: 1 + rng.IntN(60)})
	}
	return requests
}
