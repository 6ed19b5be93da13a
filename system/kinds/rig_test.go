package kinds

import (
	"math/rand/v2"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// rig is a node for tests, on which they create replicas without a server.
type rig struct {
	Setup
	cfg    *configs.Config
	system *System
}

// rigOf returns the node of the default configuration with some keys set.
func rigOf(t interface{ Fatal(...any) }, sets ...string) *rig {
	cfg, err := Loader().Load(configs.Options{Sets: sets})
	if err != nil {
		t.Fatal(err)
	}
	s := Of(cfg)
	h := s.Derive(cfg)
	tables, err := s.Measure(h)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{Setup{Hardware: h, CommandTables: tables, Memory: s.Memory(h)}, cfg, s}
}

// devices returns the ranks of a replica.
func (n *rig) devices() *ranks.Devices {
	return ranks.New(n.Hardware, flow.NewAttends(n.Hardware), n.CommandTables.Kernels)
}

// l3 returns a replica of L3 without requests.
func (n *rig) l3() *l3 { return n.replica(nil).Engine.(*l3) }

// hbm returns a replica with units in HBM, without requests.
func (n *rig) hbm() *hbmPIM { return n.replica(nil).Engine.(*hbmPIM) }

// loop is a replica that a test drives; all requests are there from the start.
type loop struct {
	Assembly
	hw       *flow.Hardware
	check    *flow.Checker
	requests []traces.Request
}

// replica returns a replica with its requests, whose engine is checked.
func (n *rig) replica(requests []traces.Request) *loop { return n.loop(requests, &flow.Checker{}) }

// loop returns a replica with its requests; a nil checker checks nothing.
func (n *rig) loop(requests []traces.Request, c *flow.Checker) *loop {
	s := n.Setup
	s.Running, s.Requests = flow.Running{Check: c}, requests
	return &loop{n.system.Assemble(&s), n.Hardware, c, requests}
}

// run serves all requests. It calls visit after each iteration, and returns the end of the last
// one.
func (l *loop) run(visit func(b *scheduler.Batch, start, end units.Duration)) (now units.Duration, err error) {
	for i := range l.requests {
		l.Batcher.Add(int32(i))
	}
	for b := l.Batcher.Next(); !b.Empty(); b = l.Batcher.Next() {
		end, err := l.Engine.Run(b, now)
		if err != nil {
			return end, err
		}
		if l.check != nil && l.check.Err() != nil {
			return end, l.check.Err()
		}
		visit(b, now, end)
		now = end
		l.Batcher.Complete(func(int32, int) {})
	}
	l.Engine.Settle()
	return now, nil
}

// unwatched is a visitor of run that ignores everything.
func unwatched(*scheduler.Batch, units.Duration, units.Duration) {}

// refreshed returns the time of clocks in a rank that refreshes at DDR4-3200's long-run rate.
func refreshed(clocks int64) units.Duration {
	return units.Duration((clocks*12480+12480-560-1)/(12480-560)) * 625
}

// equal returns n requests of one length.
func equal(n, input, output int) []traces.Request {
	var requests []traces.Request
	for i := range n {
		requests = append(requests, traces.Request{ID: i, Input: input, Output: output})
	}
	return requests
}

// uneven returns n requests of very different lengths.
func uneven(n int) []traces.Request {
	rng := rand.New(rand.NewPCG(1, 2))
	var requests []traces.Request
	for i := range n {
		requests = append(requests, traces.Request{ID: i, Input: 1 + rng.IntN(3000), Output: 1 + rng.IntN(60)})
	}
	return requests
}
