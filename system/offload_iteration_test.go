package system

import (
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestOffloadIterationByHand: the CPUs' attention keeps the channels busy and no PIM,
// vectors, prompts and moves the links, what the links leave is what moves may take,
// and an iteration takes as long as what is on its way, in a timeline too.
func TestOffloadIterationByHand(t *testing.T) {
	n := nodeOf(t, "run.system=cpu-offload", "run.model=gpt-89b")
	e := n.replica(0, nil, Options{Check: true}).engine.(*cpuOffload)
	layers := units.Duration(n.cfg.Model.Layers)
	attend := func(tokens float64) units.Duration { // K and V of 96 heads of 128 FP16 elements, 8 channels
		return units.FromSeconds(2 * 96 * 128 * 2 * tokens / (8 * 25.6e9 * 0.8))
	}
	vectors := func(heads, requests int) units.Duration {
		return e.link.TransferTime(units.Bytes(requests * heads * 128 * 2))
	}
	kv := func(tokens int) units.Duration {
		return e.link.TransferTime(units.Bytes(tokens) * units.Bytes(layers) * 2 * 96 * 128 * 2)
	}
	b := &scheduler.Batch{Step: 5, Sub: []scheduler.SubBatch{
		{Decode: []scheduler.Decoding{{Base: 40}}, Host: []scheduler.Decoding{{Base: 1000}}},
		{Host: []scheduler.Decoding{{Base: 2000}, {Base: 500}}, Prefill: []scheduler.Chunk{{Tokens: 64, Last: true, Host: true}, {Tokens: 32, Last: true}}},
	}}
	b.Moves.Down.Tokens, b.Moves.Up.Tokens = 100, 300
	down, up := layers*(vectors(3*96, 1)+vectors(3*96, 2))+kv(64), layers*(vectors(96, 1)+vectors(96, 2))

	const start = 3 * units.Second
	compare := func(what string, got, want units.Duration) {
		t.Helper()
		if d := got - want; d < -layers || d > layers { // a picosecond a layer of rounding
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	took := e.Iteration(b)
	end, err := e.Run(b, start)
	if err != nil || end != start+took || e.check.err() != nil {
		t.Fatalf("ends at %v, want %v: %v, %v", end, start+took, err, e.check.err())
	}
	w := &e.work
	compare("channels", w.time[ofChannel], layers*(attend(1005)+attend(2005+505)))
	compare("PIM", w.time[ofPIM], 0)
	compare("down", w.time[ofDown], down+kv(100))
	compare("up", w.time[ofUp], up+kv(300))
	idleUp, idleDown := e.Idle(b)
	compare("idle up", idleUp, took-up)
	compare("idle down", idleDown, took-down)
	if _, got := e.record(start); got != end {
		t.Errorf("the timeline ends at %v, want %v", got, end)
	}

	for _, way := range []struct {
		name string
		wait *units.Duration
		own  units.Duration
	}{{"down", &b.Moves.Down.Wait, down}, {"up", &b.Moves.Up.Wait, up}} {
		*way.wait = took
		if end, err = e.Run(b, start); err != nil {
			t.Fatal(err)
		}
		compare("waiting for a move "+way.name, end-start, took+way.own)
		if _, got := e.record(start); got != end {
			t.Errorf("waiting for a move %s, the timeline ends at %v, want %v", way.name, got, end)
		}
		*way.wait = 0
	}
}

// TestResultJoinsReplicas: fragmentation is weighed by how long each replica ran, and
// the requests of a decode step are added up over the replicas that had any.
func TestResultJoinsReplicas(t *testing.T) {
	const second = units.Second
	n := nodeOf(t, "run.model=gpt-89b")
	replicas := make([]*replica, 2)
	for i, out := range []replicaResult{
		{fragmentation: 1.5, end: 2 * second, steps: 4, decoded: 10},
		{fragmentation: 2.5, end: 6 * second},
	} {
		r := n.replica(i, nil, Options{})
		r.gaps, r.out = newGaps(0, 0), out
		replicas[i] = r
	}
	r := n.result(&traces.Trace{}, replicas)
	if r.fragmentation != 0.5 || r.batch.StepMean != 2.5 {
		t.Errorf("fragmentation %v, %v requests a decode step, want 0.5 and 2.5", r.fragmentation, r.batch.StepMean)
	}
	replicas[1].out.steps, replicas[1].out.decoded = 8, 4
	if got := stepMean(replicas); got != 3 {
		t.Errorf("%v requests a decode step of two replicas, want 2.5 and 0.5", got)
	}
	for i := range replicas {
		replicas[i].out = replicaResult{}
	}
	if r := n.result(&traces.Trace{}, replicas); r.fragmentation != 0 || r.batch.StepMean != 0 {
		t.Errorf("nothing ran: fragmentation %v, %v requests a decode step", r.fragmentation, r.batch.StepMean)
	}
}
