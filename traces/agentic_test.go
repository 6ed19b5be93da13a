package traces

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/units"
)

// TestQuantiles: a distribution meets its percentiles and its mean, and grows with the share.
func TestQuantiles(t *testing.T) {
	for name, q := range map[string]*quantile{"requests": agentRequests(), "first": agentFirst(), "last": agentLast(), "think": agentThink(), "answer": agentAnswer()} {
		for i, share := range q.shares {
			if got := q.at(share); math.Abs(got-q.values[i]) > 1e-9*q.values[i]+1e-9 {
				t.Errorf("%s: %v at %v, want %v", name, got, share, q.values[i])
			}
		}
		if got := q.average(); math.Abs(got/q.mean-1) > 1e-6 {
			t.Errorf("%s: mean %v, want %v (bend %v)", name, got, q.mean, q.bend)
		}
		for i := 1; i < 1000; i++ {
			if q.at(float64(i)/1000) < q.at(float64(i-1)/1000) {
				t.Errorf("%s falls at %d", name, i)
			}
		}
	}
	// Between quartiles the distribution is uniform in the logarithm: half way from 19 to 48 is their geometric mean.
	if got, want := agentRequests().at(0.375), math.Sqrt(19*48); math.Abs(got-want) > 1e-9 {
		t.Errorf("%v, by hand %v", got, want)
	}
}

// TestDrawAgents: drawn sessions have the published moments and well-formed turns, and one seed always gives the same sessions.
func TestDrawAgents(t *testing.T) {
	draw := func(spec AgentSpec) *Trace {
		trace, err := DrawAgents(spec)
		if err != nil {
			t.Fatal(err)
		}
		return trace
	}
	spec := AgentSpec{Requests: 59_000, RatePerS: 0.01, Seed: 7}
	trace := draw(spec)
	if len(trace.Requests) != spec.Requests || trace.Valid() != nil {
		t.Fatal(len(trace.Requests), trace.Valid())
	}
	sessions, most, waits := map[int]Request{}, 0, 0
	first := 0.0
	for _, r := range trace.Requests {
		most = max(most, r.Input)
		before, later := sessions[r.Turn.Session]
		if sessions[r.Turn.Session] = r; !later {
			first += float64(r.Input)
			continue
		}
		if waits++; !r.Turn.Waits || r.Arrival < before.Arrival || r.Turn.Think%units.Millisecond != 0 {
			t.Fatalf("%+v behind %+v", r, before)
		}
		if grown := r.Input - before.Input - before.Output; grown < -1 && r.Input > before.Input {
			t.Fatalf("a prompt of %d tokens behind %d and %d", r.Input, before.Input, before.Output)
		}
	}
	n := float64(len(sessions))
	if m := float64(spec.Requests) / n; m < 72 || m > 88 { // a standard error of 80 · 1.5/√740
		t.Errorf("%v requests a session, published 80", m)
	}
	if m := first / n; m < 80_000 || m > 105_000 {
		t.Errorf("first prompts of %v tokens, published 92,473", m)
	}
	if m := trace.Moments(); m.OutputMean < 435 || m.OutputMean > 457 || most < 700_000 || m.InputMean < 120_000 || m.InputMean > 190_000 {
		t.Errorf("answers of %v tokens (published 446), prompts of %v (139,924) to %d (894,371)", m.OutputMean, m.InputMean, most)
	}
	if !same(draw(spec).Requests, trace.Requests) {
		t.Error("another trace of the same seed")
	}
	spec.Seed = 8
	if same(draw(spec).Requests, trace.Requests) {
		t.Error("the same trace of another seed")
	}
	small := draw(AgentSpec{Requests: 3000, MaxTokens: 131_072})
	for _, r := range small.Requests {
		if r.Input+r.Output > 131_072 || r.Turn.Number == 0 && r.Arrival != 0 {
			t.Fatalf("%+v", r)
		}
	}
	var text bytes.Buffer
	if lost, err := small.Lost("mooncake"); lost != nil || err != nil || small.Write(&text, "mooncake") != nil {
		t.Fatal(lost, err)
	}
	if again := must(t, text.String()); !same(again.Requests, small.Requests) {
		t.Error("written and read, the trace is another")
	}
}

// TestBadAgents: each error says which values are possible.
func TestBadAgents(t *testing.T) {
	for _, c := range []struct {
		spec AgentSpec
		want string
	}{
		{AgentSpec{}, "requests = 0: expected 1 to 10000000"},
		{AgentSpec{Requests: 1, RatePerS: math.NaN()}, "rate = NaN: expected sessions a second"},
		{AgentSpec{Requests: 1, RatePerS: -1}, "rate = -1: expected sessions a second"},
		{AgentSpec{Requests: 1, MaxTokens: 9}, "max-tokens = 9: expected 50000 to 16777216 tokens"},
		{AgentSpec{Requests: 5000, RatePerS: 1e-9}, "rate = 1e-09: expected a rate at which the sessions of 5000 requests begin and end within 106 days"},
	} {
		if _, err := DrawAgents(c.spec); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}
