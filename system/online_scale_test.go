package system

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// slower is an engine that takes times times as long.
type slower struct {
	kinds.Engine
	times units.Duration
}

func (e slower) Run(b *scheduler.Batch, start units.Duration) (units.Duration, error) {
	end, err := e.Engine.Run(b, start)
	return start + e.times*(end-start), err
}

// TestScaledAlike: if arrivals and a node's times all scale by k, results scale by k, to the
// picosecond. (cpu-offload and gpu+cpu plan by times that their schedulers know from other
// sources.)
func TestScaledAlike(t *testing.T) {
	deep.Only(t)
	const k = 7
	for _, system := range []string{"l3", "gpu-only", "hbm-pim", "rank-pim"} {
		for _, router := range []string{"round-robin", "least-kv"} {
			cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=" + system, "run.model=llama-3-8b", "arrivals.kind=gamma", "arrivals.rate_per_s=40", "arrivals.cv=2", "serving.router=" + router}})
			if err != nil {
				t.Fatal(err)
			}
			node := mustNode(t, cfg)
			run := func(times units.Duration) []*replica {
				trace := coming(t, cfg, unevenLengths(60))
				for i := range trace.Requests {
					trace.Requests[i].Arrival *= times
				}
				together := node.together(trace)
				replicas := node.divide(trace, Options{}, together)
				for _, r := range replicas {
					r.assembly.Engine = slower{r.assembly.Engine, times}
				}
				if err := node.serve(context.Background(), trace, replicas, together); err != nil {
					t.Fatal(err)
				}
				return replicas
			}
			once, slow := run(1), run(k)
			for i, r := range once {
				for j := range r.out.requests {
					a, b := &r.out.requests[j], &slow[i].out.requests[j]
					if b.Start != k*a.Start || b.FirstToken != k*a.FirstToken || b.Finish != k*a.Finish {
						t.Fatalf("%s, %s: %+v, and %d times slower %+v", system, router, a, k, b)
					}
				}
			}
		}
	}
}

// TestSaturatedThroughput: an overloaded node in steady state has the throughput of a full queue.
func TestSaturatedThroughput(t *testing.T) {
	deep.Only(t)
	t.Parallel()
	for _, system := range everyName() {
		cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=" + system, "run.model=llama-2-7b", "node.gpus=1", "batching.max_num_seqs=48"}})
		if err != nil {
			t.Fatal(err)
		}
		node := mustNode(t, cfg)
		requests := unevenLengths(2400)
		// steady returns the output tokens per second between the ends of the first and the second third
		// of the requests, in the order of their ends.
		steady := func() (rate, served float64) {
			r := mustRun(t, node, coming(t, cfg, requests), false)
			first, last := ends(r, 800), ends(r, 1600)
			tokens := 0
			for i := range r.Requests {
				if f := r.Requests[i].Finish; f > first && f <= last {
					tokens += r.Requests[i].Request.Output
				}
			}
			return float64(tokens) / (last - first).Seconds(), 2400 / r.end.Seconds()
		}
		closed, served := steady()
		cfg.Arrivals.Kind, cfg.Arrivals.RatePerS = traces.ArrivalsPoisson, 1.5*served
		open, _ := steady()
		if math.Abs(open/closed-1) > 0.03 {
			t.Errorf("%s: %.1f tokens/s where too many come, %.1f of a full queue", system, open, closed)
		}
	}
}

// ends returns when the n-th request ends.
func ends(r *Result, n int) units.Duration {
	low, high := units.Duration(0), r.end
	for low < high {
		mid := (low + high) / 2
		ended := 0
		for i := range r.Requests {
			if r.Requests[i].Finish <= mid {
				ended++
			}
		}
		if ended >= n {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// TestRouters: a load-aware router sends the next request to the replica with the fewest tokens;
// round-robin does not.
func TestRouters(t *testing.T) {
	// One long request, followed by short ones, on two replicas.
	requests := equalLengths(9, 100, 20)
	requests[0].Input, requests[0].Output = 8000, 2000
	for router, want := range map[string]int{"round-robin": 4, "least-kv": 0, "least-outstanding": 0} {
		cfg, err := everything().Load(configs.Options{Sets: []string{"run.model=llama-3-8b", "node.gpus=2", "run.system=gpu-only", "serving.router=" + router, "arrivals.kind=poisson", "arrivals.rate_per_s=50"}})
		if err != nil {
			t.Fatal(err)
		}
		node := mustNode(t, cfg)
		trace := coming(t, cfg, requests)
		together := node.together(trace)
		replicas := node.divide(trace, Options{Check: true}, together)
		if err := node.serve(context.Background(), trace, replicas, together); err != nil {
			t.Fatal(err)
		}
		beside := -1
		for i := range replicas[0].out.requests {
			beside++
			if p := replicas[0].out.places[i]; i == 0 && p != 0 {
				t.Fatalf("%s: request %d is the first of the first replica", router, p)
			}
		}
		if beside != want {
			t.Errorf("%s: %d requests beside the long one, want %d", router, beside, want)
		}
	}
}

// TestLoadOfReplica: a router's knowledge of a replica, step by step.
func TestLoadOfReplica(t *testing.T) {
	var l load
	q := traces.Request{Input: 10, Output: 3}
	l.add(&q)
	for _, c := range []struct {
		do   func()
		want load
	}{
		{func() {}, load{10, 13}},
		{func() { l.emit(1, q.Input) }, load{11, 2}}, // the first token, with the prompt
		{func() { l.emit(1, 0) }, load{12, 1}},
		{func() { l.emit(1, 0); l.end(&q) }, load{}},
		{func() { l.add(&q); l.drop(&q) }, load{}},
	} {
		if c.do(); l != c.want {
			t.Errorf("got %+v, want %+v", l, c.want)
		}
	}
}

// TestClosedLoop: with one user each request arrives when the one before has been answered and the
// user has thought; with U users at most U requests are there, and without thinking always U, until
// the last ones.
func TestClosedLoop(t *testing.T) {
	for i, users := range []int{1, 5, 1, 5} {
		sets := []string{"run.model=llama-3-8b", "run.system=gpu-only", "arrivals.kind=closed-loop", fmt.Sprint("arrivals.users=", users), "arrivals.think_time=2s"}
		if i >= 2 { // a user has an answer when the API server has sent it
			sets = append(sets, "serving.api_request=30ms", "serving.api_token=9ms")
		}
		cfg, err := everything().Load(configs.Options{Sets: sets})
		if err != nil {
			t.Fatal(err)
		}
		node := mustNode(t, cfg)
		r := mustRun(t, node, coming(t, cfg, unevenLengths(40)), false)
		for i := range r.Requests {
			q := &r.Requests[i]
			if i == 0 && q.Request.Arrival != 2*units.Second || users == 1 && i > 0 && q.Request.Arrival != r.Requests[i-1].Finish+2*units.Second {
				t.Fatalf("request %d comes at %v", i, q.Request.Arrival)
			}
		}
		if most := mostAtOnce(r); most > users {
			t.Errorf("%d users have %d requests", users, most)
		}
		cfg.Arrivals.ThinkTime = 0
		r = mustRun(t, node, coming(t, cfg, unevenLengths(40)), false)
		for i := users; i < len(r.Requests); i++ {
			if there := atOnce(r, r.Requests[i].Request.Arrival); there != users {
				t.Fatalf("%d requests when request %d has come, want %d", there, i, users)
			}
		}
	}
}

// atOnce returns the requests that are in the system at a time.
func atOnce(r *Result, now units.Duration) (n int) {
	for i := range r.Requests {
		if q := &r.Requests[i]; q.Request.Arrival <= now && q.Finish > now {
			n++
		}
	}
	return n
}

func mostAtOnce(r *Result) (most int) {
	for i := range r.Requests {
		most = max(most, atOnce(r, r.Requests[i].Request.Arrival))
	}
	return most
}

// TestQueueLimit: of requests that arrive together a replica accepts as many as may wait, and serves
// these.
func TestQueueLimit(t *testing.T) {
	cfg, err := everything().Load(configs.Options{Sets: []string{"run.model=llama-3-8b", "run.system=gpu-only", "node.gpus=1", "serving.max_waiting=7"}})
	if err != nil {
		t.Fatal(err)
	}
	r := mustRun(t, mustNode(t, cfg), &traces.Trace{Requests: equalLengths(20, 100, 5)}, false)
	for i := range r.Requests {
		if r.Requests[i].Rejected() != (i >= 7) {
			t.Errorf("request %d: %v", i, r.Requests[i].Outcome)
		}
	}
	s, err := r.Summary(cfg)
	if err != nil || s.RefusedRequests != 13 || s.RejectedRequests != 0 || s.Goodput.Attainment != 7.0/20 {
		t.Errorf("%+v, %v", s, err)
	}
}

// uneventful is an engine whose iterations take the times of a list, and the last of it from
// then on.
type uneventful struct {
	kinds.Engine
	takes []units.Duration
}

func (e *uneventful) Run(b *scheduler.Batch, start units.Duration) (units.Duration, error) {
	took := e.takes[0]
	if len(e.takes) > 1 {
		e.takes = e.takes[1:]
	}
	_, err := e.Engine.Run(b, start)
	return start + took, err
}

// TestAttained: a request attains the targets if its first token is in time and at most n/100 of its n
// gaps are too long: the 99th percentile of nearest rank is then within the target.
func TestAttained(t *testing.T) {
	const ms = units.Millisecond
	for _, c := range []struct {
		ttft, output, slow int
		want               bool
	}{
		{50, 1, 0, true}, {51, 1, 0, false}, {51, 2, 1, false}, // the target of the first token is 50 ms
		{50, 2, 0, true}, {50, 2, 1, false},
		{50, 100, 1, false}, // of 99 gaps the 99th of 99 is the longest
		{50, 101, 1, true},  // of 100 the longest is beyond the 99th percentile
		{50, 101, 2, false}, {50, 200, 2, false}, {50, 201, 2, true},
	} {
		cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=gpu-only", "run.model=llama-3-8b", "node.gpus=1", "slo.ttft=50ms", "slo.tbt=20ms"}})
		if err != nil {
			t.Fatal(err)
		}
		node := mustNode(t, cfg)
		replicas := node.divide(&traces.Trace{Requests: equalLengths(1, 10, c.output)}, Options{Check: false}, false)
		takes := []units.Duration{units.Duration(c.ttft) * ms}
		for i := range c.output {
			if took := 20 * ms; i < c.slow {
				takes = append(takes, took+1)
			} else {
				takes = append(takes, took)
			}
		}
		replicas[0].assembly.Engine = &uneventful{replicas[0].assembly.Engine, takes}
		if err := runAll(context.Background(), replicas); err != nil {
			t.Fatal(err)
		}
		if q := &replicas[0].out.requests[0]; q.Attained != c.want || q.Slow != (c.slow > (c.output-1)/100) {
			t.Errorf("first token after %d ms, %d of %d gaps too long: attained %v, slow %v", c.ttft, c.slow, c.output-1, q.Attained, q.Slow)
		}
	}
}

// TestRoutersDiffer: of a replica with a long prompt that decodes and one with a short prompt and a
// long output to come, one has more keys and values, the other more tokens to come.
func TestRoutersDiffer(t *testing.T) {
	requests := equalLengths(3, 100, 2)
	requests[0].Input, requests[0].Output = 6000, 300
	requests[1].Input, requests[1].Output = 10, 2000
	for router, want := range map[string]int32{"least-kv": 1, "least-outstanding": 0} {
		cfg, err := everything().Load(configs.Options{Sets: []string{"run.model=llama-3-8b", "node.gpus=2", "run.system=gpu-only", "serving.router=" + router}})
		if err != nil {
			t.Fatal(err)
		}
		node := mustNode(t, cfg)
		requests[2].Arrival = 3 * units.Second // the long prompt has its first token
		trace := &traces.Trace{Requests: requests}
		replicas := node.divide(trace, Options{Check: true}, true)
		if err := node.serve(context.Background(), trace, replicas, true); err != nil {
			t.Fatal(err)
		}
		if got := replicas[want].out.places; got[len(got)-1] != 2 {
			t.Errorf("%s: the third request is not on replica %d", router, want)
		}
	}
}

// TestMeasured: the middle of a run is its requests, and the gaps that end while they arrive.
func TestMeasured(t *testing.T) {
	cfg, node, service := serverOf(t, 1, 1, 12)
	cfg.Arrivals.Kind, cfg.Arrivals.RatePerS = traces.ArrivalsPoisson, 0.5/service.Seconds()
	trace := coming(t, cfg, equalLengths(100, 1, 12))
	middle := Middle(trace, 10, 90)
	r, err := node.Run(context.Background(), trace, Options{Measure: &middle})
	if err != nil {
		t.Fatal(err)
	}
	m := r.Measured(10, 90, middle)
	part := &Result{Requests: r.Requests[10:90]}
	if m.Requests != 80 || m.TTFT != part.outcomes().ttft.Milliseconds() || m.Attainment != 1 {
		t.Errorf("%+v", m)
	}
	// Gaps of one length each: those of requests before the end of that time, not before its start.
	gap, least, most := (service-r.Requests[0].FirstToken+r.Requests[0].Start)/11, int64(0), int64(0)
	for i := range r.Requests {
		q := &r.Requests[i]
		for k := units.Duration(1); k <= 11; k++ {
			if at := q.FirstToken + k*gap; at > middle.From+gap && at < middle.To-gap {
				least++
			}
			if at := q.FirstToken + k*gap; at >= middle.From-gap && at <= middle.To+gap {
				most++
			}
		}
	}
	if n := r.measured.Count(); n < least || n > most {
		t.Errorf("%d gaps, want %d to %d", n, least, most)
	}
	want := 80 * 12 / (middle.To - middle.From).Seconds() * 79 / 80
	if math.Abs(m.GoodputTokens/want-1) > 1e-12 {
		t.Errorf("a goodput of %v tokens/s, want %v", m.GoodputTokens, want)
	}
}

// TestTurnsWait: a turn of a conversation arrives when the one before has ended and its user has
// thought, in every system; other requests arrive at their times. If all arrive at once, none
// waits.
func TestTurnsWait(t *testing.T) {
	deep.Heavy(t)
	requests := equalLengths(6, 500, 20)
	for i, turn := range map[int]traces.Turn{0: {Session: 3}, 2: {Session: 3, Number: 1, Waits: true, Think: units.Second}, 5: {Session: 3, Number: 2, Waits: true},
		3: {Session: 4, Number: 7, Waits: true}} { // its conversation began before the trace
		requests[i].Turn = &turn
	}
	for i := range requests {
		requests[i].Arrival = units.Duration(i) * units.Millisecond
	}
	for i, system := range everyName() { // every other one behind an API server
		cfg, err := everything().Load(configs.Options{Sets: []string{"run.model=llama-3-8b", "run.system=" + system, fmt.Sprintf("serving.api_token=%dms", i%2)}})
		if err != nil {
			t.Fatal(err)
		}
		node := mustNode(t, cfg)
		r := mustRun(t, node, coming(t, cfg, requests), false)
		q := r.Requests
		if q[2].Request.Arrival != q[0].Finish+units.Second || q[5].Request.Arrival != q[2].Finish {
			t.Errorf("%s: turns come at %v and %v after ends at %v and %v", system, q[2].Request.Arrival, q[5].Request.Arrival, q[0].Finish, q[2].Finish)
		}
		for _, i := range []int{0, 1, 3, 4} {
			if q[i].Request.Arrival != requests[i].Arrival {
				t.Errorf("%s: request %d comes at %v", system, i, q[i].Request.Arrival)
			}
		}
		cfg.Arrivals.Kind = traces.ArrivalsAtOnce
		if r := mustRun(t, node, coming(t, cfg, requests), false); r.Requests[5].Request.Arrival != 0 {
			t.Errorf("%s: a turn waits although all are there", system)
		}
	}
}

// TestTurnsJoin: the first turn of a sub-agent arrives after the turn that started it, and its agent's next turn after the last of
// them ends.
func TestTurnsJoin(t *testing.T) {
	deep.Heavy(t)
	start, sub := traces.Turn{}, traces.Turn{Session: 1}
	long := traces.Turn{Session: 2, Waits: true, Think: 3 * units.Second, After: []*traces.Turn{&start}}
	sub.Waits, sub.After = true, []*traces.Turn{&start}
	next := traces.Turn{Number: 1, Waits: true, Think: units.Second, After: []*traces.Turn{&sub, &long, {Session: 9}}}
	requests := equalLengths(4, 500, 20)
	for i, turn := range []*traces.Turn{&start, &sub, &long, &next} {
		requests[i].Turn, requests[i].Arrival = turn, units.Duration(i)*units.Second
	}
	for _, system := range everyName() {
		cfg, err := everything().Load(configs.Options{Sets: []string{"run.model=llama-3-8b", "run.system=" + system, "serving.api_token=1ms"}})
		if err != nil {
			t.Fatal(err)
		}
		q := mustRun(t, mustNode(t, cfg), coming(t, cfg, requests), false).Requests
		if q[1].Request.Arrival != q[0].Finish || q[2].Request.Arrival != q[0].Finish+3*units.Second || q[3].Request.Arrival != max(q[1].Finish, q[2].Finish)+units.Second {
			t.Errorf("%s: turns come at %v, %v, %v", system, q[1].Request.Arrival, q[2].Request.Arrival, q[3].Request.Arrival)
		}
	}
}
