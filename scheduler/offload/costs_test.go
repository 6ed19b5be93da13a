package offload

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// lines has costs of a host and GPUs that are linear in everything. Iterations of two sub-batches
// are NEO's: each side of a layer waits for the other.
type lines struct{ weights, token, context, host, hostContext, move units.Duration }

func (l lines) Linear(tokens int) units.Duration {
	if tokens == 0 {
		return 0
	}
	return l.weights + l.token*units.Duration(tokens)
}

func (l lines) Attention(s *scheduler.SubBatch, step int64) units.Duration {
	t := l.context * units.Duration(s.PrefillTokens())
	for i := range s.Decode {
		t += l.context * units.Duration(s.Decode[i].Context(step))
	}
	return t
}

func (l lines) HostAttention(requests int, tokens int64) units.Duration {
	if requests == 0 {
		return 0
	}
	return l.host + l.hostContext*units.Duration(tokens)
}

func (l lines) Move(tokens int) units.Duration { return l.move * units.Duration(tokens) }

func (l lines) Fetch(tokens int) units.Duration { return l.Move(tokens) }

func (l lines) Iteration(b *scheduler.Batch) units.Duration {
	var linear, gpu, host [2]units.Duration
	for i := range b.Sub {
		s := &b.Sub[i]
		var contexts int64
		for k := range s.Host {
			contexts += int64(s.Host[k].Context(b.Step))
		}
		linear[i], gpu[i], host[i] = l.Linear(s.Tokens()), l.Attention(s, b.Step), l.HostAttention(len(s.Host), contexts)
	}
	layer := max(linear[0]+gpu[0], host[1]) + max(linear[1], host[0])
	if linear[1] == 0 {
		layer = linear[0] + max(gpu[0], host[0])
	}
	return max(units.Duration(schedtest.SmallModel.Layers)*layer, b.Moves.Up.Wait, b.Moves.Down.Wait)
}

// machine runs iterations at such costs.
type machine struct {
	lines
	took units.Duration
}

func (m *machine) Latest() (took, up, down units.Duration) { return m.took, m.took, m.took }

// offloading is a replica with its Former and the machine that runs its iterations.
type offloading struct {
	*batching.Scheduler
	o *Former
	m *machine
}

// Next forms an iteration and runs it.
func (o offloading) Next() *scheduler.Batch {
	b := o.Scheduler.Next()
	o.m.took = o.m.Iteration(b)
	return b
}

// newOffloading returns a replica of GPUs and a host that batches by a policy of continuous batching.
func newOffloading(c batching.Config, m batching.Memories, requests []traces.Request, costs lines, maxDelay float64) offloading {
	run := &machine{lines: costs}
	o := New(run, maxDelay)
	return offloading{batching.New(c, m, requests, o), o, run}
}
