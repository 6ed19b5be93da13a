package kinds

import (
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/pcie"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/units"
)

// StandIn is a replica of l3 whose ranksets take a given time for attention in each layer, to
// compare with measurements on a machine with a stand-in for PIM. Its operations, their order and
// the engine are those of l3. It is not safe for concurrent use.
type StandIn struct {
	*l3
	setup Setup
}

// StandInOf returns the stand-in of a validated configuration of the system l3.
func StandInOf(cfg *configs.Config) (*StandIn, error) {
	s := Of(cfg)
	h := s.Derive(cfg)
	tables, err := s.Measure(h)
	if err != nil {
		return nil, err
	}
	x := &StandIn{setup: Setup{Hardware: h, CommandTables: tables}}
	x.l3 = &l3{GPUs: gpus.New(h), counts: !cfg.AttendsToAll()}
	x.rewire()
	return x, nil
}

// SetLink replaces the links of the replica.
func (x *StandIn) SetLink(link pcie.Spec) {
	cfg := *x.setup.Hardware.Config
	cfg.PCIe = link
	h := *x.setup.Hardware
	h.Config = &cfg
	x.setup.Hardware = &h
	x.rewire()
}

// rewire builds ranks and flow. Host memory takes both directions at once, since the measured
// machine has no DIMM-PIM.
func (x *StandIn) rewire() {
	x.wire(&x.setup)
	x.costs.halfDuplex = false
	x.Flow = flow.New(x.setup.Hardware, x.costs.resources(x.setup.Hardware.Config.Node.Ranksets), x.setup.Running)
}

// GPUTime returns the GPUs' time of all sub-batches of a batch, without transfers.
func (x *StandIn) GPUTime(b *scheduler.Batch) (t units.Duration) {
	for s := range b.Sub {
		x.decodeBeside(&b.Sub[s], b.Step)
		t += x.GPUs.GPUTime(&b.Sub[s])
	}
	return t
}

// Iteration returns the time of an iteration whose ranksets attend for the time attention in each
// layer, and the joules of its GPUs while they work. scale multiplies the modelled times of
// kernels.
func (x *StandIn) Iteration(b *scheduler.Batch, attention units.Duration, scale float64) (took units.Duration, busyJoules float64, err error) {
	x.fill(&x.costs, b)
	for k := range x.costs.layers {
		subs := x.costs.of(k)
		for s := range subs {
			sub, joins := &subs[s], x.joins(&b.Sub[s])
			scaled := func(t units.Duration) units.Duration { return units.FromSeconds(scale * t.Seconds()) }
			sub.entry, sub.prefillAttention = scaled(sub.entry), scaled(sub.prefillAttention)
			sub.block, sub.exit = joins+scaled(sub.block-joins), joins+scaled(sub.exit-joins)
			for g := range sub.groups {
				if group := &sub.groups[g]; group.Requests > 0 {
					group.Compute, group.Heads = attention, append(group.Heads[:0], 1)
				}
			}
		}
	}
	x.costs.lay(&x.Flow)
	before := x.Flow.Work
	took, err = x.Flow.Run(0)
	done := x.Flow.Work.Since(&before)
	return took, done.Joules.Prefill + done.Joules.Decode, err
}

// IdleWatts returns the power of the replica's GPUs while they wait.
func (x *StandIn) IdleWatts() float64 { return x.joinWatts }

// Link returns the replica's links.
func (x *StandIn) Link() pcie.Spec { return x.setup.Hardware.Config.PCIe }
