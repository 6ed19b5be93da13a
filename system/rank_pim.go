package system

import (
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/scheduler"
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
	section:  "rank_pim", zero: RankPIM{}, kv: place{name: "in the DIMMs", inDIMM: true, keeps: true, unit: pim.RankPU},
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
	*devices
	flow
	imbalance imbalance
	ranks     []units.Duration // attention of one layer on each rankset, of the iteration at hand
	peakRate  units.Bandwidth
}

// assembleRankPIM puts together a replica with continuous batching of a single
// batch.
func assembleRankPIM(n *setup) assembly {
	cfg := n.Config
	e := &rankPIM{
		devices:  newDevices(n.hardware, n.kernels),
		ranks:    make([]units.Duration, cfg.Node.Ranksets),
		peakRate: units.Bandwidth(cfg.Node.Ranksets*cfg.ReplicaChannels()) * cfg.DRAM.Spec.Bandwidth(),
	}
	e.flow = newFlow(n.hardware, e.resources(cfg.Comm.Rotation), n.running)
	balance := scheduler.BalanceRandom
	if configs.Section[RankPIM](cfg).Placement == PlacementBalanced {
		balance = scheduler.BalanceLeastLoaded
	}
	free := scheduler.GPUMemory{Model: &cfg.Model, Free: freeGPUMemory(n.hardware), PrefixStays: n.prefixStays()}
	s := n.continuous(batchingPolicy(configs.Section[RankPIM](cfg).Policy), 1, false, balance, rankLedger(n.hardware, cfg.Comm.Rotation), free, nil)
	return assembly{s, e}
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
		onRanks:          {dataflow.Resource{Name: "ranksets", Discipline: dataflow.Lanes, Count: len(e.ranks), Rotates: rotate}, trackRank},
		onHost:           {dataflow.Resource{Name: "host"}, noTrack},
		onDownHidden:     {dataflow.Resource{Name: "PCIe down"}, noTrack},
		onUpHidden:       {dataflow.Resource{Name: "PCIe up"}, noTrack},
		onChannelsHidden: {dataflow.Resource{Name: "channels"}, noTrack},
		onAllGPUs:        {dataflow.Resource{Name: "GPU"}, trackGPU},
	}
}

// run runs a batch: the ranks attend, the host learns of it, and the GPUs go on.
func (e *rankPIM) run(b *scheduler.Batch, start units.Duration) (units.Duration, error) {
	sub, it := &b.Sub[0], &e.it
	e.reset()
	e.transfers(b)
	g := e.stage(sub, e.attend(sub, b.Step))
	entry := e.enter(0, onAllGPUs, g.entry, &g.gpuUse)
	first, from := int32(len(it.Ops)), int32(len(it.After))
	for q, took := range e.ranks {
		if took > 0 {
			o, i := it.Add(onRanks, took)
			o.Kind, o.Lane, o.Group = opAttention, int16(q), int16(q)
			it.After = append(it.After, i)
		}
	}
	if ranks := (dataflow.Range{From: from, To: int32(len(it.After))}); ranks.To > from && e.hostAccess > 0 {
		o, i := it.Add(onHost, 2*e.hostAccess)
		o.Kind, o.After = opNotice, ranks
		from = ranks.To
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

// transfers books the transfers of an iteration, which hide behind its work: it takes at
// least as long as the busier direction of the links does for them, or the channels.
func (e *rankPIM) transfers(b *scheduler.Batch) {
	sub, w, layers := &b.Sub[0], &e.flow.work, units.Duration(e.model.Layers)
	var prompts cargo
	for i := range sub.Prefill {
		c := &sub.Prefill[i]
		e.loadPrompt(&prompts, 0, c.Tokens, c.Finished, c.Last)
	}
	var prefix fetch
	var own vectors
	e.prefixes(sub, &prefix, &own)
	own.take(len(sub.Decode)*e.heads, len(sub.Decode)*e.heads*e.channels)
	traffic := e.moves(int(own.heads)/e.heads, &own)
	down, up, channel := traffic.down.held(), traffic.up+prefix.up, traffic.down.data+traffic.upBus+prefix.data
	if e.pack(&prompts); prompts.tokens > 0 {
		down += prompts.held()
		channel += prompts.data
	}
	w.time[ofDown] += layers * down
	w.time[ofUp] += layers * up
	w.time[ofChannel] += layers * channel
	e.hide(onDownHidden, layers*down)
	e.hide(onUpHidden, layers*up)
	e.hide(onChannelsHidden, layers*channel)
}

// attend sets the time of one layer's decode attention on each rankset, and returns the
// GPUs' time for heads that attend there.
func (e *rankPIM) attend(sub *scheduler.SubBatch, step int64) (gpus []gpu.DecodeBatch) {
	clocks := e.scratch
	clear(clocks)
	home, gpus := e.decodeApart(sub.Decode, step)
	for _, c := range home {
		heads := int64(c.Heads / e.channels)
		e.tallyHeads(c, e.model.Layers)
		for i, tokens := range c.Tokens {
			rankset, head := &clocks[sub.Decode[i].Offset], e.sequence.at(tokens)
			if *rankset == 0 {
				// The first head of a rankset finds no other's drain to hide behind.
				*rankset = e.table.Alone(tokens) - head
			}
			*rankset += heads * head
		}
	}
	for i := range sub.Prefill {
		if c := &sub.Prefill[i]; e.scores(c) {
			if clocks[c.Offset] == 0 {
				clocks[c.Offset] = e.stored.table.Alone(c.Prefix) - e.stored.at(c.Prefix)
			}
			clocks[c.Offset] += e.scoreClocks(c)
		}
	}
	e.tallyPrefixes(sub)
	var busiest units.Duration
	for q, c := range clocks {
		e.ranks[q] = e.clock.Time(c)
		busiest = max(busiest, e.ranks[q])
		e.imbalance.total.Add(e.ranks[q])
	}
	e.imbalance.busiest.Add(busiest)
	return gpus
}

func (e *rankPIM) settle() { e.settleHeads(&e.flow.work.ranks) }

func (e *rankPIM) ranksets() imbalance { return e.imbalance }

func (e *rankPIM) peak() units.Bandwidth { return e.peakRate }
