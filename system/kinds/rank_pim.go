package kinds

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/units"
)

// rankPIMSystem has one processing unit per rank.
var rankPIMSystem = System{
	Name:     "rank-pim",
	Others:   []string{"hermes", "r-pim", "dimm-pim"},
	Hardware: "KV in DIMMs, decode attention on one processing unit for each rank, which reads at the channel's rate; transfers hidden",
	Schedule: "prefill first, or chunked; a single batch, or two sub-batches",
	Source:   "L3, section 6.1; Hermes (Liu et al., ASPLOS 2025)",
	Sections: "rank_pim, batching, dram, pim",
	Host:     true,
	Section:  "rank_pim", Zero: RankPIM{}, KV: flow.Place{Name: "in the DIMMs", InDIMM: true, Keeps: true, Unit: pim.RankLevelUnit}, drafts: true,
	Memory: ranks.Memory, Assemble: assembleRankPIM,
	Planning: Planning{Prefill: "rank_pim.policy", Resources: []Resource{dimmMemory, ranksets, link}},
	Defaults: `
[rank_pim]
policy = "prefill-first" # L3, section 6.1; "chunked-prefill" lets the ranks attend while the GPUs prefill; long prompts
placement = "random" # the paper says nothing; "balanced" takes the rankset with the fewest tokens; the busiest rankset's time
sub_batches = "never" # L3, section 6.1: GPUs and ranks take turns; "always" and "adaptive" (where it is predicted to be faster) have one sub-batch on each
`,
}

// RankPIM is the section [rank_pim].
type RankPIM struct {
	PrefillSpec
	// Placement is how requests are spread over the ranksets: PlacementRandom or PlacementBalanced.
	Placement string `toml:"placement"`
	// SubBatches says when decoding requests are divided in two: one sub-batch is on the GPUs while the other is in the DIMMs.
	SubBatches string `toml:"sub_batches"`
}

// Values of RankPIM.Placement.
const (
	PlacementRandom   = "random"
	PlacementBalanced = "balanced" // the rankset with the fewest reserved tokens
)

// Check has the rules of the section [rank_pim].
func (r RankPIM) Check(c *input.Check) {
	r.PrefillSpec.Check(c)
	input.OneOf(c, "placement", r.Placement, PlacementRandom, PlacementBalanced)
	input.OneOf(c, "sub_batches", r.SubBatches, SubBatchesAlways, SubBatchesAdaptive, SubBatchesNever)
}

// rankPIM is a system with one processing unit per rank, timed by the same program on the same DRAM
// model as L3's. Transfers hide behind concurrent computation (L3, section 6.1); an iteration takes
// at least as long as they do.
type rankPIM struct {
	gpus.GPUs
	ranks *ranks.Devices
	flow.Flow
	groups    [2][]ranks.GroupCost // of the sub-batches of the current iteration, one a rankset
	imbalance flow.Imbalance
	peakRate  units.Bandwidth
	join      units.Duration // GPU time lost in a block that waits for the ranks
}

// assembleRankPIM builds a replica with continuous batching.
func assembleRankPIM(n *Setup) Assembly {
	cfg := n.Hardware.Config
	e := &rankPIM{
		GPUs:     gpus.New(n.Hardware),
		peakRate: units.Bandwidth(cfg.Node.Ranksets*cfg.ReplicaChannels()) * cfg.DRAM.Spec.Bandwidth(),
	}
	for s := range e.groups {
		e.groups[s] = make([]ranks.GroupCost, cfg.Node.Ranksets)
	}
	e.join = n.Hardware.Join()
	e.ranks = ranks.New(n.Hardware, e.Attends, n.CommandTables.Kernels)
	e.Flow = flow.New(n.Hardware, e.resources(cfg.Comm.Rotation), n.Running)
	spec, free := configs.Section[RankPIM](cfg), memory.GPU{Model: &cfg.Model, Free: gpus.FreeMemory(n.Hardware), PrefixStays: n.Hardware.PrefixStays()}
	memories := batching.Memories{Ledger: ranks.Ledger(n.Hardware, cfg.Comm.Rotation), GPU: free}
	c := Continuous{Policy: spec.Policy, Memories: memories, random: spec.Placement != PlacementBalanced, adaptive: spec.SubBatches == SubBatchesAdaptive}
	if spec.SubBatches != SubBatchesNever {
		c.former = batching.FormerOf(batchingPolicy(spec.Policy), e)
	}
	return Assembly{n.Continuous(c), e}
}

// Resources of a system with one processing unit per rank.
const (
	onRanks = iota
	onHost  // writes descriptors and notices completions
	onDownHidden
	onUpHidden
	onChannelsHidden
	onAllGPUs
)

// resources returns the resources of a replica. If layers rotate, layer l of a request is on
// rankset (l + offset) mod R.
func (e *rankPIM) resources(rotate bool) []flow.Resource {
	return []flow.Resource{
		onRanks:          {Resource: dataflow.Resource{Name: "ranksets", Reason: flow.ForPIM, Device: true, Discipline: dataflow.Lanes, Count: len(e.groups[0]), Rotates: rotate}, Track: flow.TrackRank},
		onHost:           {Resource: dataflow.Resource{Name: "host", Reason: flow.ForHost}, Track: flow.NoTrack},
		onDownHidden:     {Resource: dataflow.Resource{Name: "PCIe down", Reason: flow.ForDown}, Track: flow.NoTrack},
		onUpHidden:       {Resource: dataflow.Resource{Name: "PCIe up", Reason: flow.ForUp}, Track: flow.NoTrack},
		onChannelsHidden: {Resource: dataflow.Resource{Name: "channels", Reason: flow.ForChannel}, Track: flow.NoTrack},
		onAllGPUs:        {Resource: dataflow.Resource{Name: "GPU"}, Track: flow.TrackGPU},
	}
}

// Run runs a batch: in each layer the ranks attend, the host notices it, and the GPUs continue.
func (e *rankPIM) Run(b *scheduler.Batch, start units.Duration) (units.Duration, error) {
	if e.ranks.Apart() {
		e.ranks.Rotate(b)
	}
	e.Reset()
	for s := range b.Sub {
		if sub := &b.Sub[s]; sub.Tokens() > 0 {
			x := e.Attends.Decode(sub.Decode, 0, b.Step) // all layers attend alike
			e.attend(sub, x, e.groups[s])
			e.transfers(e.groups[s])
			e.decodeBeside(x)
			e.lay(sub, s)
		}
	}
	return e.Flow.Run(start)
}

// attend sets the attention of one layer of a sub-batch on each rankset; x is the policy's decode
// step.
func (e *rankPIM) attend(sub *scheduler.SubBatch, x *policy.Step, groups []ranks.GroupCost) {
	e.ranks.Gather(groups, sub, x, 0)
	e.ranks.TallyStep(x, e.Model.Layers)
	e.ranks.TallyPrefixes(sub)
	e.imbalance.Add(ranks.Attending(groups))
}

// transfers books the transfers of a sub-batch, which hide behind the iteration's work. The
// iteration takes at least as long as the busier direction of the links, or the channels.
func (e *rankPIM) transfers(groups []ranks.GroupCost) {
	w, layers := &e.Flow.Work, units.Duration(e.Model.Layers)
	all := e.ranks.Together(groups)
	traffic := e.ranks.Moves(all.Requests, &all.Vectors)
	down, up, channel := traffic.Down.Held(), traffic.Up+all.Prefix.Up, traffic.Down.Data+traffic.UpBus+all.Prefix.Data
	if all.Prompt.Tokens > 0 {
		down += all.Prompt.Held()
		channel += all.Prompt.Data
	}
	w.Time[flow.OfDown] += layers * down
	w.Time[flow.OfUp] += layers * up
	w.Time[flow.OfChannel] += layers * channel
	e.Hide(onDownHidden, layers*down)
	e.Hide(onUpHidden, layers*up)
	e.Hide(onChannelsHidden, layers*channel)
}

// decodeBeside sets the GPUs' part of the decode step x: heads that attend there, and the merge of striped heads.
func (e *rankPIM) decodeBeside(x *policy.Step) {
	e.Decoding[0] = gpus.Decoding{Batches: e.Beside(x)}
	if e.ranks.Stripe.Parts > 0 {
		e.Decoding[0].Merge = e.ModelCost.MergeParts(e.ranks.Merges(x))
	}
}

// lay adds the operations of a sub-batch.
func (e *rankPIM) lay(sub *scheduler.SubBatch, s int) {
	it, g := &e.Iteration, e.StageRuns(sub)
	g.Use.Merge = units.Duration(e.Model.Layers) * g.Layers[0].Merge
	entry := e.Enter(s, onAllGPUs, g.Entry, &g.Use)
	first, from := int32(len(it.Ops)), int32(len(it.After))
	groups := e.groups[s]
	for q := range groups {
		if took := groups[q].Compute; groups[q].Requests > 0 {
			o, i := it.Add(onRanks, took)
			o.Kind, o.Lane, o.Group = flow.OpAttention, int16(q), int16(s*len(groups)+q)
			it.After = append(it.After, i)
		}
	}
	if attend := (dataflow.Range{From: from, To: int32(len(it.After))}); attend.To > from && e.ranks.HostAccess > 0 {
		o, i := it.Add(onHost, 2*e.ranks.HostAccess)
		o.Kind, o.After = flow.OpNotice, attend
		from = attend.To
		it.After = append(it.After, i)
	}
	if attention := g.Layers[0].Attention; attention > 0 {
		o, i := it.Add(onAllGPUs, attention)
		o.Kind, o.Group = flow.OpGPUAttention, int16(s*len(groups))
		it.After = append(it.After, i)
	}
	more := g.Layers[0].Merge
	if len(sub.Decode) > 0 {
		more += e.join
	}
	o, _ := it.Add(onAllGPUs, g.Block+more)
	o.Kind, o.Group, o.Flags, o.After = flow.OpBlock, int16(s*len(groups)), dataflow.NextLayer, dataflow.Range{From: from, To: int32(len(it.After))}
	e.Flow.Layers(s, entry, first, g.Exit+more)
}

// GPU implements batching.Predictor.
func (e *rankPIM) GPU(s *scheduler.SubBatch, step int64) units.Duration {
	e.decodeBeside(e.Attends.Decode(s.Decode, 0, step))
	t := e.GPUTime(s)
	if len(s.Decode) > 0 {
		t += units.Duration(e.Model.Layers) * e.join
	}
	return t
}

// PIM implements batching.Predictor; transfers hide behind attention.
func (e *rankPIM) PIM(s *scheduler.SubBatch, step int64, _ int) units.Duration {
	t := e.ranks.Attention(s, step)
	if len(s.Decode) > 0 {
		t += units.Duration(e.Model.Layers) * 2 * e.ranks.HostAccess
	}
	return t
}

func (e *rankPIM) Settle() { e.ranks.SettleHeads(&e.Flow.Work.Ranks) }

func (e *rankPIM) Ranksets() flow.Imbalance { return e.imbalance }

func (e *rankPIM) Peak() units.Bandwidth { return e.peakRate }
