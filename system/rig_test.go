package system

import (
	"math/rand/v2"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// rig is a node that a test puts replicas together on, without what serves requests.
type rig struct {
	setup
	cfg    *configs.Config
	system *System
}

// rigOf returns the node of the default configuration with some keys set.
func rigOf(t interface{ Fatal(...any) }, sets ...string) *rig {
	cfg, err := loader().Load(configs.Options{Sets: sets})
	if err != nil {
		t.Fatal(err)
	}
	s := systemOf(cfg.Run.System)
	h := s.derive(cfg)
	tables, err := s.measure(h)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{setup{hardware: h, commandTables: tables, memory: s.memory(h)}, cfg, s}
}

// devices returns the ranks of a replica.
func (n *rig) devices() *devices { return newDevices(n.hardware, newAttends(n.hardware), n.kernels) }

// l3 returns a replica of L3 without requests.
func (n *rig) l3() *l3 { return n.replica(nil).engine.(*l3) }

// hbm returns a replica with units in HBM, without requests.
func (n *rig) hbm() *hbmPIM { return n.replica(nil).engine.(*hbmPIM) }

// loop is a replica that a test drives: all requests are there from the start.
type loop struct {
	assembly
	hw       *hardware
	check    *checker
	requests []traces.Request
}

// replica returns a replica with its requests whose engine is checked.
func (n *rig) replica(requests []traces.Request) *loop { return n.loop(requests, &checker{}) }

// loop returns a replica with its requests; a nil checker checks nothing.
func (n *rig) loop(requests []traces.Request, c *checker) *loop {
	s := n.setup
	s.running, s.requests = running{check: c}, requests
	return &loop{n.system.assemble(&s), n.hardware, c, requests}
}

// run serves all requests. It tells visit each iteration, and returns the end of the last one.
func (l *loop) run(visit func(b *scheduler.Batch, start, end units.Duration)) (now units.Duration, err error) {
	for i := range l.requests {
		l.batcher.Add(int32(i))
	}
	for b := l.batcher.Next(); !b.Empty(); b = l.batcher.Next() {
		end, err := l.engine.Run(b, now)
		if err != nil {
			return end, err
		}
		if l.check != nil && l.check.err() != nil {
			return end, l.check.err()
		}
		visit(b, now, end)
		now = end
		l.batcher.Complete(func(int32, int) {})
	}
	l.engine.Settle()
	return now, nil
}

// unwatched is a visitor of run that looks at nothing.
func unwatched(*scheduler.Batch, units.Duration, units.Duration) {}

// refreshed returns the time of clocks in which a rank refreshes at DDR4-3200's long-run rate.
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

// uneven returns n requests of lengths far apart.
func uneven(n int) []traces.Request {
	rng := rand.New(rand.NewPCG(1, 2))
	var requests []traces.Request
	for i := range n {
		requests = append(requests, traces.Request{ID: i, Input: 1 + rng.IntN(3000), Output: 1 + rng.IntN(60)})
	}
	return requests
}
