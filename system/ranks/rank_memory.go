package ranks

import (
	"slices"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

func rankUnitBytes(h *flow.Hardware) units.Bytes { return h.Config.PIM.UnitBytes(&h.Config.DRAM.Spec) }

// Ledger returns the empty KV memory of one replica in the DIMMs.
func Ledger(h *flow.Hardware, rotation bool) *memory.Ledger {
	row, channels := rowTokens(h), h.Config.ReplicaChannels()
	spec := memory.LedgerSpec{
		Ranksets: h.Config.Node.Ranksets, Layers: h.Config.Model.Layers, HeadsPerChannel: h.Config.Model.KVHeads / channels,
		UnitTokens: row, Capacity: int64(h.Config.RankRoom() / rankUnitBytes(h)), Rotation: rotation,
	}
	if h.Config.Comm.Stripe == scheduler.StripeRanksets { // all ranks of a channel are one memory
		spec.Capacity, spec.Ranksets, spec.Rotation = spec.Capacity*int64(spec.Ranksets), 1, false
	}
	if channelsPool(h) {
		spec.Capacity, spec.HeadsPerChannel = spec.Capacity*int64(channels), h.Config.Model.KVHeads
	} else if h.Config.Model.KVHeads%channels != 0 {
		spec.HeadsPerChannel, spec.Heads, spec.Channels = 1, h.Config.Model.KVHeads, channels
	}
	if p := flow.PolicyOf(h); !h.Config.AttendsToAll() {
		rankClasses(h, &spec, p)
		spec.UnitBytes = int64(row) * p.KV(1) / int64(h.Config.Model.KVHeads)
	}
	return h.Keeping(memory.NewLedger(spec), rankUnit(h))
}

// channelsPool says that the ranks of all channels are one memory, since heads are striped over
// them.
func channelsPool(h *flow.Hardware) bool { return h.Config.Comm.Stripe == scheduler.StripeChannels }

// Memory is the KV memory of one replica in the DIMMs: every channel holds the same, unless they
// form one pool.
func Memory(h *flow.Hardware) flow.KVMemory {
	return flow.KVMemory{Unit: rankUnit(h), Capacity: Ledger(h, h.Config.Comm.Rotation).Capacity()}
}

// rankUnit returns the bytes of an allocation unit on every channel of a replica.
func rankUnit(h *flow.Hardware) units.Bytes {
	if channelsPool(h) {
		return rankUnitBytes(h)
	}
	return rankUnitBytes(h) * units.Bytes(h.Config.ReplicaChannels())
}

func rowTokens(h *flow.Hardware) int {
	g, _ := pim.NewGeometry(&h.Config.DRAM.Spec, h.Config.HeadShape()) // validated with the configuration
	return g.RowTokens
}

// rankClasses adds the classes of heads on a rank, with the memory that each holds. All numbers are those of the fullest
// rank, which may be any rank: heads that do not divide over the channels count as on the fullest channel; heads of a
// class that hold different amounts count as the one that holds most. If layers differ, the rank counts as one layer
// that has, for each class, the most heads of any layer.
func rankClasses(h *flow.Hardware, spec *memory.LedgerSpec, p policy.Costs) {
	ranks, layer, runs := 1, 0, p.Runs()
	if spec.Rotation {
		ranks = spec.Ranksets
	}
	on, same := make([][]memory.HeadClass, ranks), true
	if spec.Channels > 0 && !alikeHeads(h, p) { // classes are on other channels in each layer: any may have the most of all
		spec.HeadsPerChannel, spec.Heads, spec.Channels = (spec.Heads+spec.Channels-1)/spec.Channels, 0, 0
	}
	for run, layers := range runs {
		of := channelClasses(h, p, run, spec.Channels > 0)
		if run == 0 {
			spec.Classes = of
		}
		same = same && slices.Equal(of, spec.Classes)
		for range layers {
			rank := &on[layer%ranks]
			for _, c := range of {
				i := flow.ClassAlike(*rank, c)
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
			if i := flow.ClassAlike(spec.Classes, c); i < 0 {
				spec.Classes = append(spec.Classes, c)
			} else {
				spec.Classes[i].Heads = max(spec.Classes[i].Heads, c.Heads)
			}
		}
	}
	boundWindows(spec, on)
}

// alikeHeads says that all heads of all layers hold the same.
func alikeHeads(h *flow.Hardware, p policy.Costs) bool {
	var first []memory.HeadClass
	for run := range p.Runs() {
		decoding, _ := p.Memory(run)
		for _, held := range decoding {
			if held.Device == policy.Home && held.Heads != h.Config.Model.KVHeads {
				return false
			}
		}
		classes := flow.AddClasses(nil, decoding, policy.Home, 1)
		if run == 0 {
			first = classes
		} else if !slices.Equal(classes, first) {
			return false
		}
	}
	return true
}

// boundWindows removes heads with a window that no rank can have beside the most heads of all tokens. A head with
// a window holds at most as much as one of all tokens, so the rank with most heads of both kinds bounds their
// sum.
func boundWindows(spec *memory.LedgerSpec, on [][]memory.HeadClass) {
	for i := range spec.Classes {
		ring, whole := &spec.Classes[i], spec.Classes[i]
		whole.Most = 0
		j := flow.ClassAlike(spec.Classes, whole)
		if ring.Most == 0 || j < 0 {
			continue
		}
		most := 0
		for _, classes := range on {
			heads := 0
			for _, class := range []memory.HeadClass{*ring, whole} {
				if k := flow.ClassAlike(classes, class); k >= 0 {
					heads += classes[k].Heads
				}
			}
			most = max(most, heads)
		}
		ring.Heads = min(ring.Heads, most-spec.Classes[j].Heads)
	}
	spec.Classes = slices.DeleteFunc(spec.Classes, func(c memory.HeadClass) bool { return c.Heads == 0 })
}

// channelClasses returns what the fullest channel holds of a layer of a run, or each head if the heads of all layers are dealt.
func channelClasses(h *flow.Hardware, p policy.Costs, run int, dealt bool) []memory.HeadClass {
	decoding, _ := p.Memory(run)
	held, channels := slices.Clone(decoding), h.Config.ReplicaChannels()
	if channelsPool(h) {
		channels = 1
	} else if dealt {
		channels = h.Config.Model.KVHeads
	}
	for i := range held {
		held[i].Heads = (held[i].Heads + channels - 1) / channels
		if held[i].Longest > 0 {
			held[i].Share = held[i].Longest
		}
	}
	return flow.AddClasses(nil, held, policy.Home, 1)
}
