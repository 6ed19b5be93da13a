package system

import (
	"slices"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// unit returns the bytes of an allocation unit of a rank.
func (n *Node) unit() units.Bytes { return n.cfg.PIM.UnitBytes(&n.cfg.DRAM.Spec) }

// rankLedger returns the empty KV memory of one replica in the DIMMs.
func (n *Node) rankLedger(rotation bool) *scheduler.Ledger {
	cfg := n.cfg
	row := n.rowTokens()
	spec := scheduler.LedgerSpec{
		Ranksets: cfg.Node.Ranksets, Layers: cfg.Model.Layers, HeadsPerChannel: cfg.Model.KVHeads / cfg.ReplicaChannels(),
		UnitTokens: row, Capacity: int64(cfg.RankRoom() / n.unit()), Rotation: rotation,
	}
	if cfg.Comm.Stripe == scheduler.StripeRanksets { // all ranks of a channel are one
		spec.Capacity, spec.Ranksets, spec.Rotation = spec.Capacity*int64(spec.Ranksets), 1, false
	}
	if n.channelsPool() {
		spec.Capacity, spec.HeadsPerChannel = spec.Capacity*int64(cfg.ReplicaChannels()), cfg.Model.KVHeads
	}
	if p := policyOf(cfg); p.Name() != "dense" {
		n.rankClasses(&spec, p)
		spec.UnitBytes = int64(row) * p.KV(1) / int64(cfg.Model.KVHeads)
	}
	return n.keeping(scheduler.NewLedger(spec), n.rankUnit())
}

// channelsPool says that the ranks of all channels are one memory: heads are striped over them.
func (n *Node) channelsPool() bool { return n.cfg.Comm.Stripe == scheduler.StripeChannels }

// rankMemory is the KV memory of one replica in the DIMMs: every channel holds the
// same, unless they are one pool.
func (n *Node) rankMemory() kvMemory {
	return kvMemory{n.rankUnit(), n.rankLedger(n.cfg.Comm.Rotation).Capacity()}
}

// rankUnit returns the bytes of an allocation unit on every channel of a replica.
func (n *Node) rankUnit() units.Bytes {
	if n.channelsPool() {
		return n.unit()
	}
	return n.unit() * units.Bytes(n.cfg.ReplicaChannels())
}

// rowTokens returns the tokens of an allocation unit.
func (n *Node) rowTokens() int {
	g, _ := pim.NewGeometry(&n.cfg.DRAM.Spec, n.cfg.HeadShape()) // validated with the configuration
	return g.RowTokens
}

// rankClasses adds the classes of heads on a rank, with the memory that each holds. All numbers are those of the fullest
// rank, since any rank may be it: heads that do not divide over the channels count as on the channel with most; heads
// of a class that hold different amounts count as the one that holds most. Where layers differ, the layers of a rank
// count as one, with the most heads of each class.
func (n *Node) rankClasses(spec *scheduler.LedgerSpec, p policy.Policy) {
	ranks, layer, runs := 1, 0, p.Runs()
	if spec.Rotation {
		ranks = spec.Ranksets
	}
	on, same := make([][]scheduler.HeadClass, ranks), true
	for run, layers := range runs {
		of := n.channelClasses(p, run)
		if run == 0 {
			spec.Classes = of
		}
		same = same && slices.Equal(of, spec.Classes)
		for range layers {
			rank := &on[layer%ranks]
			for _, c := range of {
				i := classAlike(*rank, c)
				if i < 0 {
					*rank = append(*rank, c)
				} else {
					(*rank)[i].Heads += c.Heads
				}
			}
			layer++
		}
	}
	if same {
		return
	}
	spec.Layers, spec.Classes = ranks, nil
	for _, classes := range on {
		for _, c := range classes {
			if i := classAlike(spec.Classes, c); i < 0 {
				spec.Classes = append(spec.Classes, c)
			} else {
				spec.Classes[i].Heads = max(spec.Classes[i].Heads, c.Heads)
			}
		}
	}
}

// channelClasses returns what the fullest channel holds of a layer of a run.
func (n *Node) channelClasses(p policy.Policy, run int) []scheduler.HeadClass {
	decoding, _ := p.Memory(run)
	held, channels := slices.Clone(decoding), n.cfg.ReplicaChannels()
	if n.channelsPool() {
		channels = 1
	}
	for i := range held {
		held[i].Heads = (held[i].Heads + channels - 1) / channels
		if held[i].Longest > 0 {
			held[i].Share = held[i].Longest
		}
	}
	return addClasses(nil, held, policy.Home, 1)
}
