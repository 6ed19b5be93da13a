package system

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/traces"
)

// TestBeyondContext: serving.beyond_context decides what becomes of requests longer than the model's context. One that ends
// exactly there is within it.
func TestBeyondContext(t *testing.T) {
	trace := &traces.Trace{Name: "long", Requests: []traces.Request{{Input: 90, Output: 10}, {ID: 1, Input: 91, Output: 10}, {ID: 2, Input: 120, Output: 5}, {ID: 3, Input: 5, Output: 5}}}
	for _, c := range []struct {
		beyond, context, note string
		rejected              int64
	}{
		{"warn", "100", "50% of the requests, longer than the model's context (model.context = 100 tokens), are served all the same", 0},
		{"refuse", "100", "50% of the requests, longer than the model's context (model.context = 100 tokens), were rejected", 2},
		{"ignore", "100", "", 0}, {"warn", "0", "", 0}, {"refuse", "0", "", 0}, {"warn", "125", "", 0}, {"refuse", "125", "", 0},
	} {
		r, s := summaryOf(t, trace, "run.system=gpu-only", "run.model=llama-3-8b", "serving.beyond_context="+c.beyond, "model.context="+c.context)
		if s.RejectedRequests != c.rejected || s.TooLongRequests != c.rejected || s.Saturated {
			t.Errorf("%+v: %d rejected, %d for their length", c, s.RejectedRequests, s.TooLongRequests)
		}
		if c.rejected > 0 && (r.Requests[1].Outcome != results.TooLong || r.Requests[0].Outcome != results.Served) {
			t.Errorf("%+v: outcomes %v, %v", c, r.Requests[0].Outcome, r.Requests[1].Outcome)
		}
		warnings := strings.Join(s.Warnings(), "; ")
		if c.note == "" && strings.Contains(warnings, "context") || !strings.Contains(warnings, c.note) || strings.Contains(warnings, "fit no empty memory") {
			t.Errorf("%+v: %s", c, warnings)
		}
	}
}

// TestAllBeyondContext: a run that refuses every request for its length says so.
func TestAllBeyondContext(t *testing.T) {
	cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=gpu-only", "run.model=llama-3-8b", "serving.beyond_context=refuse", "model.context=9"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = mustNode(t, cfg).Run(t.Context(), fewRequests(3), Options{})
	if !errors.As(err, new(*RejectedError)) || !strings.Contains(err.Error(), "3 of them beyond model.context = 9 tokens") {
		t.Error(err)
	}
}

// TestClipped: answers end at the context, prompts one token before, with the hashes of the remaining blocks.
func TestClipped(t *testing.T) {
	trace := &traces.Trace{Requests: []traces.Request{{Input: 500, Output: 524}, {Input: 500, Output: 525}, {Input: 1024, Output: 7, Hashes: []uint64{1, 2}}, {Input: 4000, Output: 1, Hashes: []uint64{1, 2, 3, 4, 5, 6, 7, 8}}}}
	got := clipped(trace, 1024).Requests
	for i, want := range []traces.Request{{Input: 500, Output: 524}, {Input: 500, Output: 524}, {Input: 1023, Output: 1, Hashes: []uint64{1, 2}}, {Input: 1023, Output: 1, Hashes: []uint64{1, 2}}} {
		if got[i].Input != want.Input || got[i].Output != want.Output || !slices.Equal(got[i].Hashes, want.Hashes) {
			t.Errorf("request %d: %+v, want %+v", i, got[i], want)
		}
	}
	if clipped(trace, 0) != trace || len(trace.Requests[3].Hashes) != 8 {
		t.Error("a trace is clipped without a limit, or changed")
	}
	cfg, err := everything().Load(configs.Options{Sets: []string{"run.trace=openr1", "run.requests=50", "serving.beyond_context=clip", "model.context=2048"}})
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := LoadTrace(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range loaded.Requests {
		if q := &loaded.Requests[i]; q.Input+q.Output > 2048 || q.Output < 1 {
			t.Errorf("%+v goes beyond the context", q)
		}
	}
	if m, err := TraceMoments(cfg); err != nil || m != loaded.Moments() {
		t.Errorf("moments %+v, %v of a clipped trace", m, err)
	}
}
