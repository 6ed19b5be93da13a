package system

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/forming"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/units"
)

// rankPIMSystem has a processing unit a rank.
var rankPIMSystem = System{
	Name:     "rank-pim",
	Hardware: "KV in DIMMs, decode attention on a processing unit a rank, which reads at the channel's rate; transfers hidden",
	Schedule: "prefill first, or chunked; a single batch",
	Source:   "L3, section 6.1; Hermes (Liu et al., ASPLOS 2025)",
	Sections: "rank_pim, batching, dram, pim",
	Host:     true,
	section:  "rank_pim", zero: RankPIM{}, kv: place{name: "in the DIMMs", inDIMM: true, keeps: true, unit: pim.RankLevelUnit},
	memory: rankMemory, assemble: assembleRankPIM,
	defaults: `
[rank_pim]
policy = "prefill-first" # L3, section 6.1; "chunked-prefill" lets the ranks attend while the GPUs prefill; long prompts
placement = "random" # the paper says nothing; "balanced" takes the rankset with the fewest tokens; the busiest rankset's time
`,
}

// RankPIM is the section [rank_pim].
type RankPIM struct {
	Policy string `toml:"policy"` // PrefillFirst or ChunkedPrefill
	// Placement is how requests are spread over the ranksets: PlacementRandom or
	// PlacementBalanced.
	Placement string `toml:"placement"`
}

// Values of RankPIM.Placement.
const (
	PlacementRandom   = "random"
	PlacementBalanced = "balanced" // the rankset with the fewest reserved tokens
)

// Check has the rules of the section [rank_pim].
func (r RankPIM) Check(c *input.Check) {
	input.OneOf(c, "policy", r.Policy, policies()...)
	input.OneOf(c, "placement", r.Placement, PlacementRandom, PlacementBalanced)
}

// rankPIM is a system with one processing unit a rank, timed by the same program on
// the same DRAM model as L3's. Transfers are hidden by concurrent computation (L3,
// section 6.1), as long as there is any: an iteration takes at least as long as they do.
type rankPIM struct {
	gpuSide
	ranks *devices
	flow
	groups    []groupCost // one a rankset, of the iteration at hand
	imbalance imbalance
	peakRate  units.Bandwidth
}

// assembleRankPIM puts together a replica with continuous batching of a single
// batch.
func assembleRankPIM(n *setup) assembly {
	cfg := n.Config
	e := &rankPIM{
		gpuSide: newGPUSide(n.hardware), groups: make([]groupCost, cfg.Node.Ranksets),
		peakRate: units.Bandwidth(cfg.Node.Ranksets*cfg.ReplicaChannels()) * cfg.DRAM.Spec.Bandwidth(),
	}
	e.ranks = newDevices(n.hardware, e.attends, n.kernels)
	e.flow = newFlow(n.hardware, e.resources(cfg.Comm.Rotation), n.running)
	spec, free := configs.Section[RankPIM](cfg), memory.GPU{Model: &cfg.Model, Free: freeGPUMemory(n.hardware), PrefixStays: n.prefixStays()}
	memories := forming.Memories{Ledger: rankLedger(n.hardware, cfg.Comm.Rotation), GPU: free}
	return assembly{n.continuous(continuous{policy: spec.Policy, memories: memories, random: spec.Placement != PlacementBalanced}), e}
}

// Resources of a system with processing units a rank.
const (
	onRanks = iota
	onHost  // descriptors written and completions noticed
	onDownHidden
	onUpHidden
	onChannelsHidden
	onAllGPUs
)

// resources returns the resources of a replica. Layer l of a request lies on rankset
// (l + offset) mod R where they rotate.
func (e *rankPIM) resources(rotate bool) []resource {
	return []resource{
		onRanks:          {dataflow.Resource{Name: "ranksets", Discipline: dataflow.Lanes, Count: len(e.groups), Rotates: rotate}, trackRank},
		onHost:           {dataflow.Resource{Name: "host"}, noTrack},
		onDownHidden:     {dataflow.Resource{Name: "PCIe down"}, noTrack},
		onUpHidden:       {dataflow.Resource{Name: "PCIe up"}, noTrack},
		onChannelsHidden: {dataflow.Resource{Name: "channels"}, noTrack},
		onAllGPUs:        {dataflow.Resource{Name: "GPU"}, trackGPU},
	}
}

// Run runs a batch: the ranks attend, the host learns of it, and the GPUs go on.
func (e *rankPIM) Run(b *scheduler.Batch, start units.Duration) (units.Duration, error) {
	sub, it := &b.Sub[0], &e.it
	e.reset()
	x := e.decode(sub.Decode, 0, b.Step) // all layers attend alike
	e.attend(sub, x)
	e.transfers()
	g := e.stage(sub, e.beside(x))
	entry := e.enter(0, onAllGPUs, g.entry, &g.gpuUse)
	first, from := int32(len(it.Ops)), int32(len(it.After))
	for q := range e.groups {
		if took := e.groups[q].compute; e.groups[q].requests > 0 {
			o, i := it.Add(onRanks, took)
			o.Kind, o.Lane, o.Group = opAttention, int16(q), int16(q)
			it.After = append(it.After, i)
		}
	}
	if attend := (dataflow.Range{From: from, To: int32(len(it.After))}); attend.To > from && e.ranks.hostAccess > 0 {
		o, i := it.Add(onHost, 2*e.ranks.hostAccess)
		o.Kind, o.After = opNotice, attend
		from = attend.To
		it.After = append(it.After, i)
	}
	if attention := g.layers[0].attention; attention > 0 {
		o, i := it.Add(onAllGPUs, attention)
		o.Kind = opGPUAttention
		it.After = append(it.After, i)
	}
	o, _ := it.Add(onAllGPUs, g.block)
	o.Kind, o.Flags, o.After = opBlock, dataflow.NextLayer, dataflow.Range{From: from, To: int32(len(it.After))}
	e.flow.layers(0, entry, first, g.exit)
	return e.flow.run(start)
}

// attend sets what one layer of a sub-batch, whose decoding takes x, takes on each rankset.
func (e *rankPIM) attend(sub *scheduler.SubBatch, x *policy.Step) {
	e.ranks.gather(e.groups, sub, x, 0)
	e.ranks.tallyStep(x, e.model.Layers)
	e.ranks.tallyPrefixes(sub)
	e.imbalance.add(attending(e.groups))
}

// transfers books the transfers of an iteration, which hide behind its work: it takes at
// least as long as the busier direction of the links does for them, or the channels.
func (e *rankPIM) transfers() {
	w, layers := &e.flow.work, units.Duration(e.model.Layers)
	all := e.ranks.together(e.groups)
	traffic := e.ranks.moves(all.requests, &all.vectors)
	down, up, channel := traffic.down.held(), traffic.up+all.prefix.up, traffic.down.data+traffic.upBus+all.prefix.data
	if all.prompt.tokens > 0 {
		down += all.prompt.held()
		channel += all.prompt.data
	}
	w.time[ofDown] += layers * down
	w.time[ofUp] += layers * up
	w.time[ofChannel] += layers * channel
	e.hide(onDownHidden, layers*down)
	e.hide(onUpHidden, layers*up)
	e.hide(onChannelsHidden, layers*channel)
}

func (e *rankPIM) Settle() { e.ranks.settleHeads(&e.flow.work.ranks) }

func (e *rankPIM) Ranksets() imbalance { return e.imbalance }

func (e *rankPIM) Peak() units.Bandwidth { return e.peakRate }
