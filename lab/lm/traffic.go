package lm

import (
	"context"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/units"
)

// LLM returns the model for the simulator's cost models: FP16, on one GPU.
func (s Shape) LLM(name string) llm.Model {
	return llm.Model{
		Name: name, Layers: s.Layers, Hidden: s.Width, Heads: s.Heads, KVHeads: s.Heads, HeadDim: s.HeadDim,
		FFNHidden: s.Hidden, GatedFFN: true, Vocab: s.Vocab, ElementBits: 16, TensorParallel: 1,
	}
}

// Attention returns the model's shape for policies.
func (s Shape) Attention() policy.Shape {
	if l := &s.Latent; l.Is() { // all heads attend to a common row per token
		return policy.Shape{Layers: s.Layers, QueryHeads: s.Heads, KVHeads: 1, Dim: l.Row(), Value: l.Latent.Latent, Latent: true, ElementBits: 16,
			LayerKinds: llm.LayerKinds{LayerPattern: l.Layers, Indexer: l.Indexer}}
	}
	return policy.Shape{Layers: s.Layers, QueryHeads: s.Heads, KVHeads: s.Heads, Dim: s.HeadDim, ElementBits: 16}
}

// Traffic is the data that a session has moved between its GPU and the DIMMs.
type Traffic struct {
	PCIeDown, PCIeUp units.Bytes // elements: q, k and v down, results up
	Channel          units.Bytes // bursts on the channels, both ways, with padding and descriptors
}

// Traffic returns the traffic of s so far; zero without DIMMs. It excludes the additional reads and
// writes of pim.relayout = "cpu" on the channels.
func (s *Session) Traffic() (t Traffic) {
	d := s.dimms
	if d == nil {
		return t
	}
	m := s.model.LLM("")
	layers := units.Bytes(m.Layers)
	t.PCIeDown = layers * (d.stored*m.KVBytesPerTokenLayer() + d.attended*m.QKVBytesPerTokenLayer())
	t.PCIeUp = layers * d.attended * m.AttentionBytesPerTokenLayer()
	heads := layers * units.Bytes(m.Heads)
	t.Channel = heads * (d.stored*2*d.vector + d.attended*(4*d.vector+d.descriptor))
	return t
}

// Work is the work of the ranks' units.
type Work struct {
	LayerSteps int64   // decode steps of one sequence in one layer
	Clocks     float64 // of all ranks together, with heads in sequence and refresh included
	// Busy is the clocks of each unit.
	BankPUs, CommandBus, DataBus, Adders, Softmax float64
	Energy                                        dram.Energy
}

// MeasureSteps runs, command by command, the programs of decode steps, the first of which has a
// context of first tokens (its own included), in every layer on all channels.
func MeasureSteps(ctx context.Context, m *Model, on *Node, first, steps int, w *Work) error {
	c := on.Config
	channels := c.Node.Channels / c.Node.GPUs
	d := c.RankSpec()
	meter := dram.NewEnergyMeter(d, 1)
	meter.Record(dram.REF, dram.Address{}, 0)
	refresh := dram.Energy{RefreshJoules: meter.Energy(0).RefreshJoules}
	unitRead := c.Energy.PIMRead.Estimate().Value
	load := machine.Load{KVHeads: m.Heads / channels, Shape: pim.HeadShape{HeadDim: m.HeadDim, Queries: 1, ElementBits: 16}}
	for load.Context = first; load.Context < first+steps; load.Context++ {
		r, err := machine.Measure(ctx, &c.PIM, d, load, nil, nil)
		if err != nil {
			return err
		}
		times := int64(m.Layers * channels)
		clocks, o := float64(times*r.TotalCycles), &r.TotalOccupancy
		w.LayerSteps += int64(m.Layers)
		w.Clocks += clocks
		// A run may end with postponed refreshes.
		if owed := float64(times) * (float64(r.TotalCycles)/float64(d.TREFI-d.TRFC) - float64(r.Refreshes)); owed > 0 {
			w.Clocks += float64(owed * float64(d.TRFC))
			w.Energy = w.Energy.Plus(refresh.Times(owed))
		}
		w.BankPUs += float64(clocks * o.BankPUs)
		w.CommandBus += float64(clocks * o.CommandBus)
		w.DataBus += float64(clocks * o.DataBus)
		w.Adders += float64(clocks * o.Adders)
		w.Softmax += float64(clocks * o.Softmax)
		w.Energy = w.Energy.Plus(r.Energy.UnitReads(unitRead).Times(float64(times)))
	}
	return nil
}
