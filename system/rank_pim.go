package system

import (
	"math/rand/v2"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/sim"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// rankPIM is a system with one processing unit a rank, timed by the same program on
// the same DRAM model as L3's. Transfers are hidden by concurrent computation (L3,
// section 6.1), as long as there is any: an iteration takes at least as long as they do.
type rankPIM struct {
	*devices
	layers    alternation
	least     sim.Time // of the latest iteration, by its transfers
	imbalance imbalance
	ranks     []sim.Time // attention of one layer on each rankset, of the iteration at hand
	rotate    bool       // layer l of a request lies on rankset (l + offset) mod R
	peakRate  units.Bandwidth
}

// assembleRankPIM puts together a replica with continuous batching of a single
// batch.
func assembleRankPIM(n *Node, requests []traces.Request, o Options, check *checker, stream func(uint64) *rand.Rand) assembly {
	cfg := n.cfg
	e := &rankPIM{
		devices:  n.devices(),
		layers:   alternation{layers: cfg.Model.Layers, exact: o.Exact, check: check},
		rotate:   cfg.Comm.Rotation,
		ranks:    make([]sim.Time, cfg.Node.Ranksets),
		peakRate: units.Bandwidth(cfg.Node.Ranksets*cfg.ReplicaChannels()) * cfg.DRAM.Spec.Bandwidth(),
	}
	balance := scheduler.BalanceRandom
	if cfg.RankPIM.Placement == configs.PlacementBalanced {
		balance = scheduler.BalanceLeastLoaded
	}
	free := scheduler.GPUMemory{Model: &cfg.Model, Free: n.FreeGPUMemory()}
	s := n.continuous(policy(cfg.RankPIM.Policy), 1, false, balance, requests, n.rankLedger(cfg.Comm.Rotation), free, nil, stream)
	return assembly{s, e}
}

func (e *rankPIM) run(b *scheduler.Batch, start sim.Time) (sim.Time, error) {
	sub, g := &b.Sub[0], &e.layers.stages[0]
	e.fillStage(g, sub)
	g.device = e.attention(sub, b.Step)
	least := e.transfers(b)
	if err := e.inTime(start, e.layers.largest()|least/sim.Time(e.layers.layers), e.layers.tasks()*len(e.ranks)); err != nil {
		return start, err
	}
	end := max(e.layers.run(start), start+least)
	// The layers count the busiest rankset's time.
	for _, t := range e.ranks {
		e.layers.work.pim += sim.Time(e.layers.layers) * t
	}
	e.layers.work.pim -= sim.Time(e.layers.layers) * g.device
	return end, nil
}

// transfers adds the transfers of an iteration to the work done and returns how
// long the busier direction of the links takes for them, or the channels.
func (e *rankPIM) transfers(b *scheduler.Batch) sim.Time {
	sub, w, layers := &b.Sub[0], &e.layers.work, sim.Time(e.layers.layers)
	var tokens int
	var clocks int64
	for i := range sub.Prefill {
		c := &sub.Prefill[i]
		tokens += c.Tokens
		clocks += e.promptClocks(c.Finished, c.Tokens)
	}
	traffic := e.traffic(len(sub.Decode))
	down, up, channel := traffic.down.held(), traffic.up, traffic.down.data+traffic.upBus
	if tokens > 0 {
		prompt := e.prompt(tokens, clocks)
		down += prompt.held()
		channel += prompt.data
	}
	w.pcieDown += layers * down
	w.pcieUp += layers * up
	w.channel += layers * channel
	e.least = layers * max(down, up, channel)
	return e.least
}

// attention returns the time of one layer's decode attention: that of the busiest
// rankset, and what the host takes to start it and to notice its end.
func (e *rankPIM) attention(sub *scheduler.SubBatch, step int64) sim.Time {
	clocks := e.scratch
	clear(clocks)
	for i := range sub.Decode {
		r := &sub.Decode[i]
		context := r.Context(step)
		head := e.sequence.at(context)
		if clocks[r.Offset] == 0 {
			// The first head of a rankset finds no other's drain to hide behind.
			clocks[r.Offset] = e.table.Alone(context) - head
		}
		clocks[r.Offset] += int64(e.heads) * head
	}
	var busiest sim.Time
	for q, c := range clocks {
		e.ranks[q] = e.clock.time(c)
		busiest = max(busiest, e.ranks[q])
		e.imbalance.total.Add(e.ranks[q])
	}
	e.imbalance.busiest.Add(busiest)
	if busiest > 0 {
		busiest += 2 * e.hostAccess
	}
	return busiest
}

func (e *rankPIM) done() *work { return &e.layers.work }

func (e *rankPIM) ranksets() imbalance { return e.imbalance }

func (e *rankPIM) peak() units.Bandwidth { return e.peakRate }

// record shows every rankset at work for as long as it computes.
func (e *rankPIM) record(rec *Recording, _ *scheduler.Batch, start sim.Time) sim.Time {
	first := len(rec.Spans.Spans)
	end := max(e.layers.record(rec, start), start+e.least)
	spans := rec.Spans.Spans[first:]
	for i := range spans {
		busiest := &spans[i]
		if busiest.Kind != opAttention {
			continue
		}
		at, layer := busiest.Start, busiest.B
		*busiest = sim.Span{Start: at, End: at + e.ranks[0], Resource: e.rankset(0, layer), Kind: opAttention, B: layer}
		for offset := 1; offset < len(e.ranks); offset++ {
			if t := e.ranks[offset]; t > 0 {
				rec.Add(sim.Span{Start: at, End: at + t, Resource: e.rankset(offset, layer), Kind: opAttention, A: int32(offset), B: layer})
			}
		}
	}
	return end
}

// rankset returns the resource of a rankset offset in a layer.
func (e *rankPIM) rankset(offset int, layer int32) int32 {
	if e.rotate {
		offset = (offset + int(layer)) % len(e.ranks)
	}
	return int32(resourceRank + offset)
}
