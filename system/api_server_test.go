package system

import (
	"context"
	"fmt"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// servedBy returns the requests of a run of a small node behind an API server.
func servedBy(t *testing.T, request, token, deadline units.Duration, of ...traces.Request) *Result {
	t.Helper()
	cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=gpu-only", "run.model=llama-3-8b", "node.gpus=1", "model.tensor_parallel=1", "arrivals.kind=trace",
		fmt.Sprint("serving.api_request=", request), fmt.Sprint("serving.api_token=", token), fmt.Sprint("serving.deadline=", deadline)}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range of {
		of[i].ID = i
	}
	r, err := mustNode(t, cfg).Run(context.Background(), &traces.Trace{Name: "x", Requests: of}, Options{Check: true})
	if err != nil {
		t.Fatal(err)
	}
	if r.inSystem != residence(r) {
		t.Fatalf("%v requests · ps in the system, requests spent %v", r.inSystem, residence(r))
	}
	return r
}

// TestAPIServerAlone: a single request comes later by its parsing time, and each of its tokens by the time of a token.
func TestAPIServerAlone(t *testing.T) {
	const request, token = 7 * units.Millisecond, 30 * units.Microsecond
	q := traces.Request{Input: 500, Output: 40, Arrival: units.Second}
	free, r := servedBy(t, 0, 0, 0, q), servedBy(t, request, token, 0, q)
	a, b := free.Requests[0], r.Requests[0]
	if b.Start != a.Start+request || b.FirstToken != a.FirstToken+request+token || b.Finish != a.Finish+request+token {
		t.Errorf("%+v, without an API server %+v", b, a)
	}
	if r.iteration != free.iteration {
		t.Errorf("iterations %+v, without an API server %+v", r.iteration, free.iteration)
	}
	if want := float64(request+40*token) / float64(b.Finish); r.apiServer.Utilization != want {
		t.Errorf("%v of the time busy, want %v", r.apiServer.Utilization, want)
	}
}

// TestAPIServerQueues: of requests that arrive together, each waits for those before it, and so do the first one's tokens
// for requests. If a token takes longer than an iteration, it sets the pace.
func TestAPIServerQueues(t *testing.T) {
	const request = units.Second // longer than a prompt and all tokens take
	q := traces.Request{Input: 100, Output: 3}
	r := servedBy(t, request, 0, 0, q, q, q).Requests
	for i := range r {
		if want := units.Duration(i+1) * request; r[i].Start != want {
			t.Errorf("request %d begins at %v, want %v", i, r[i].Start, want)
		}
	}
	// When the last request is parsed, the first two have finished on the GPUs.
	if r[0].FirstToken != 3*request || r[0].Finish != 3*request || r[1].Finish != 3*request || r[2].FirstToken <= 3*request {
		t.Errorf("tokens pass requests that came before: %+v", r)
	}

	const token = 200 * units.Millisecond
	long := traces.Request{Input: 100, Output: 9}
	s := servedBy(t, 0, token, 0, long).Requests[0]
	if got := s.Finish - s.FirstToken; got != 8*token {
		t.Errorf("8 tokens of %v take %v", token, got)
	}
	both := servedBy(t, 0, token, 0, long, long)
	if want := float64(18*token) / float64(both.end); both.apiServer.Utilization != want {
		t.Errorf("%v of the time busy with 18 tokens, want %v", both.apiServer.Utilization, want)
	}
}

// TestAPIServerTooSlow: requests that are parsed after their deadline are dropped, even all of them.
func TestAPIServerTooSlow(t *testing.T) {
	q := traces.Request{Input: 100, Output: 3}
	r := servedBy(t, 40*units.Millisecond, 0, units.Millisecond, q, q)
	if r.Requests[0].Outcome != results.Expired || r.Requests[1].Outcome != results.Expired || r.apiServer.Utilization != 1 {
		t.Errorf("%+v, busy %v of the time", r.Requests, r.apiServer.Utilization)
	}
}
