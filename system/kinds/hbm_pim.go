package kinds

import (
	"fmt"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/pim/hbm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/units"
)

// hbmPIMSystem is PIM in the GPUs' memory.
var hbmPIMSystem = System{
	Name:     "hbm-pim",
	Others:   []string{"attacc", "neupims", "pim", "hbm"},
	Hardware: "KV in the GPU memory that the weights leave; decode attention on units in that memory, concurrent with the GPUs",
	Schedule: "prefill first, or chunked; decode in two sub-batches, one on the GPUs while the other is in the memory",
	Source:   "L3, section 6.1; NeuPIMs (Heo et al., ASPLOS 2024); AttAcc (Park et al., ASPLOS 2024)",
	Sections: "hbm_pim, batching",
	Home:     policy.InHBM,
	Section:  "hbm_pim", Zero: HBMPIM{}, KV: flow.Place{Name: "on its GPUs", InGPUs: true, Keeps: true, InHBM: true},
	drafts: true,
	share:  func(cfg *configs.Config) float64 { return configs.Section[HBMPIM](cfg).gpuShare() },
	more:   checkHBM,
	Memory: hbmMemory, Assemble: assembleHBMPIM,
	Planning: Planning{Prefill: "hbm_pim.policy", Resources: []Resource{{"PIM bandwidth", []string{"hbm_pim.bandwidth_factor"}}, {"memory beside", []string{"hbm_pim.memory_beside"}}}},
	Defaults: `
[hbm_pim]
policy = "prefill-first" # L3, section 6.1; "chunked-prefill" lets the units attend while the GPUs prefill; long prompts
model = "factor"        # L3 gives a factor; "commands" runs AttAcc's program on HBM3 by its timing rules; decode attention's time
bandwidth_factor = 16.0 # L3, Table 2: 260.8 of 16.3 TB/s; AttAcc's power limit leaves 9; decode attention's time
level = "bank"          # AttAcc's fastest; units at the bank groups ("bg") or in the buffer die ("buffer") are its other two; with model = "commands"
rules = "attacc"        # AttAcc's simulator, which opens all banks at once; "jedec" keeps tRRD and tFAW; with model = "commands"
power_limit = true      # AttAcc, section 5: all banks read every 6 clocks, not 4; with model = "commands"
stacks = 5              # A100's (NVIDIA's data sheet: 5,120 bits); a head lies in one channel of one of them; with model = "commands"
capacity_share = 1.0    # generous: the units take no place; of Samsung's HBM-PIM 6 of 8 GB are left (0.75; from memory, not looked up); requests in memory
queries_per_read = 1    # NeuPIMs and AttAcc multiply what they read by one query; grouped-query models only
elements_per_read = 1   # multipliers for elements of model.element_bits, as built; 2 or 4 read narrower keys and values faster; decode attention with model.kv_bits
sub_batches = "always"  # L3, section 6.1; "adaptive" and "never" run small batches whole: weights read once
memory_beside = "0B"    # L3, Table 2: the units are in the GPUs' own memory; AttAcc's are in stacks beside each GPU, 80 GiB of them; requests in memory
link = "300GB/s"        # AttAcc's simulator: NVLink 3, one direction (src/config.py); with memory_beside; time before and after attention
feed_forward = 0.0      # L3 has none; AttAcc's second optimisation (--ffopt) has the units compute a share of the network's columns, at most this; decode of small batches
kernel_overhead = true  # L3 gives a factor alone; false: units need no kernel's launch, fill and merge, as in AttAcc's simulator; about 20 us a layer
placement = "heads"     # AttAcc: heads over all channels; "channel" has each request in one, as NeuPIMs' simulator (Scheduler.cc); decode attention, longest request

[bands]
hbm_pim.bandwidth_factor = [9.0, 16.0] # from AttAcc's power limit to L3's Table 2; decode attention's time with model = "factor"
`,
}

// HBMPIM is the section [hbm_pim]: decode attention in the GPUs' memory.
type HBMPIM struct {
	PrefillSpec
	// Model is the model of decode attention's time: FactorModel or CommandsModel.
	Model string `toml:"model"`
	// BandwidthFactor is the bandwidth at which the processing units read keys and values, over the
	// memory's own.
	BandwidthFactor float64 `toml:"bandwidth_factor"`
	// Level is where the processing units are: bank, bg (at each bank group) or buffer (one for each pseudo-channel, in the buffer die).
	Level string `toml:"level"`
	// Rules are the timing rules of the commands: attacc or jedec (package pim/hbm).
	Rules string `toml:"rules"`
	// PowerLimit slows reads of all banks' or bank groups' units to the power that a stack allows.
	PowerLimit bool `toml:"power_limit"`
	// Stacks is the number of HBM stacks of a GPU, with 16 channels each. Their clock gives them the
	// GPU's memory bandwidth.
	Stacks int `toml:"stacks"`
	// CapacityShare is the share of the GPUs' memory that holds data; the units take the area of the
	// rest.
	CapacityShare float64 `toml:"capacity_share"`
	// QueriesPerRead is the number of query heads of a group that one read of keys and values serves.
	QueriesPerRead int `toml:"queries_per_read"`
	// ElementsPerRead is how many elements of keys and values the units multiply in the time of
	// reading one of model.element_bits. With 1, narrower elements (model.kv_bits) take as long; with
	// 2, elements of half the width take half as long.
	ElementsPerRead int `toml:"elements_per_read"`
	// SubBatches says when decoding requests are divided in two: one sub-batch is on the GPU while the
	// other is in the memory.
	SubBatches string `toml:"sub_batches"`
	// MemoryBeside is the memory of the units of each GPU if these are in stacks of their own beside it, which then hold all keys and
	// values; 0: the units are in the GPU's own memory. Link is the bandwidth to these stacks in one direction.
	MemoryBeside units.Bytes     `toml:"memory_beside"`
	Link         units.Bandwidth `toml:"link"`
	// FeedForward is the share of the columns of the feed-forward network that the units may compute for decoding
	// tokens, while the GPUs compute the rest. Units beside the GPUs keep copies of these weights. Networks of experts
	// stay on the GPUs.
	FeedForward float64 `toml:"feed_forward"`
	// KernelOverhead adds the fixed time of the GPUs' kernel to the units' time.
	KernelOverhead bool `toml:"kernel_overhead"`
	// Placement is where the heads of a request are: PlacementHeads or PlacementChannel.
	Placement string `toml:"placement"`
}

// Values of HBMPIM.SubBatches.
const (
	SubBatchesAlways   = "always"
	SubBatchesAdaptive = "adaptive" // if two are predicted to be faster
	SubBatchesNever    = "never"
)

// Values of HBMPIM.Model.
const (
	FactorModel   = "factor"   // the time of the GPUs' kernel at bandwidth_factor times the bandwidth
	CommandsModel = "commands" // the time of the commands of AttAcc's program
)

// Check has the rules of the section [hbm_pim].
func (h HBMPIM) Check(c *input.Check) {
	input.OneOf(c, "model", h.Model, FactorModel, CommandsModel)
	input.OneOf(c, "level", h.Level, hbm.Levels()...)
	input.OneOf(c, "rules", h.Rules, string(hbm.AttAcc), string(hbm.JEDEC))
	input.Within(c, "stacks", h.Stacks, 1, 64)
	h.PrefillSpec.Check(c)
	input.OneOf(c, "sub_batches", h.SubBatches, SubBatchesAlways, SubBatchesAdaptive, SubBatchesNever)
	c.That(h.BandwidthFactor > 0 && h.BandwidthFactor <= 1024, "bandwidth_factor", h.BandwidthFactor, "more than 0, at most 1024")
	c.Share("capacity_share", h.CapacityShare)
	c.That(h.MemoryBeside >= 0, "memory_beside", h.MemoryBeside, "at least 0B")
	c.That(h.Link > 0, "link", h.Link, "more than 0GB/s")
	c.That(h.FeedForward >= 0 && h.FeedForward <= 1, "feed_forward", h.FeedForward, "0 to 1")
	input.OneOf(c, "placement", h.Placement, PlacementHeads, PlacementChannel)
	input.Within(c, "queries_per_read", h.QueriesPerRead, 1, 1024)
	c.That(h.ElementsPerRead == 1 || h.ElementsPerRead == 2 || h.ElementsPerRead == 4, "elements_per_read", h.ElementsPerRead, "1, 2 or 4")
}

// spec returns the channels on which commands are timed: at AttAcc's default rate, or the only rate of JEDEC's part.
func (h HBMPIM) spec() hbm.Spec {
	s := hbm.Spec{Level: hbm.Level(h.Level), Rules: hbm.Rules(h.Rules), Rate: 5200, PowerLimited: h.PowerLimit}
	if s.Rules == hbm.JEDEC {
		s.Rate = 6400
	}
	return s
}

// newStack returns the table of commands of the node's HBM, nil if a factor models them.
func newStack(cfg *configs.Config) (*hbm.Table, error) {
	h := configs.Section[HBMPIM](cfg)
	if cfg.Run.System != hbmPIMSystem.Name || h.Model != CommandsModel {
		return nil, nil
	}
	m := &cfg.Model
	bits := max(m.KVElementBits(), m.ElementBits/h.ElementsPerRead)
	if bits < 8 {
		return nil, &input.Error{Key: "hbm_pim.elements_per_read", Value: fmt.Sprint(h.ElementsPerRead), Expected: "units that multiply elements of 8 or 16 bits, with hbm_pim.model = \"commands\"",
			OtherKeys: []string{"hbm_pim.model"}}
	}
	t, err := hbm.NewTable(h.spec(), hbm.Shape{HeadDim: m.HeadDim, ElementBytes: bits / 8, ValueDim: m.HeadsOf(false).Value})
	if err != nil {
		return nil, ranks.InSection(cfg, "model", err)
	}
	return t, nil
}

// hbmPIM is a system whose GPUs have processing units in their memory. With a second row buffer in
// each bank (NeuPIMs, section 5) the GPUs use the memory as if there were no units, and both work
// in parallel.
type hbmPIM struct {
	gpus.GPUs
	units *gpu.ModelCost // cost at the GPUs' own bandwidth
	flow.Flow
	tier   gpus.Tier
	factor float64    // bandwidth of the units over that of the GPUs
	stack  *hbm.Table // of a channel, with CommandsModel; else nil
	clock  float64    // seconds of its clock
	slots  int        // channels of a GPU
	reads  float64    // how often a group's query heads read keys and values, with a query of each head for each token that a step verifies
	own    int        // reads, if each query head reads tokens of its own
	// alone is the units' time for all heads of one request, by its context: in small batches most
	// requests are alone in their sub-batch, and contexts recur.
	alone   gpus.Memo[units.Duration]
	device  []units.Duration // scratch: time in a layer of each run
	did     []hbm.Tally      // scratch: work of the commands in a layer, on all GPUs
	read    []int64          // scratch: tokens of single heads that the units read in a layer
	chooses bool             // the policy is not dense: GPUs choose and keep statistics
	groups  [2]gpus.Grouping // by sub-batch: shared prefixes that the GPUs read once while the units attend

	ways     int             // tokens that the units of a channel read at once
	launches bool            // units take the fixed time of the GPUs' kernel, too
	reading  reading         // of contiguous data
	recorded *policy.Choices // nil: chosen tokens lie anywhere with equal chance
	// Scratch if each request is in one channel; empty if heads are dealt over all.
	loads   []channelLoad
	seconds []float64
}

// assembleHBMPIM builds a replica with continuous batching.
func assembleHBMPIM(n *Setup) Assembly {
	cfg, h := n.Hardware.Config, configs.Section[HBMPIM](n.Hardware.Config)
	// The units stream keys and values as a fused kernel does. Waves of thread blocks over SMs, for
	// which AttAcc's model derates, occur on the GPUs alone.
	spec := cfg.GPU.Spec
	spec.Decode.Model = gpu.AttentionFlash
	spec.NarrowKV = gpu.NarrowKVSpec{} // a property of CUDA cores
	model := cfg.Model
	if wide := model.ElementBits / h.ElementsPerRead; model.KVElementBits() < wide {
		model.KVFormat, model.KVBits, model.KVScales = "", wide, llm.TensorScales // narrow elements take as long
	}
	spec.Peak16 *= units.FLOPRate(max(1, model.ElementBits/model.KVElementBits())) // more multipliers
	e := &hbmPIM{
		ways:     hbm.Level(h.Level).Ways(),
		units:    gpu.NewModelCost(&spec, &model),
		GPUs:     gpus.New(n.Hardware),
		factor:   h.BandwidthFactor,
		launches: h.KernelOverhead,
		recorded: cfg.Policy.Choices(),
	}
	e.units.StoreValuesApart(h.QueriesPerRead)
	query, kv := cfg.Model.ShardHeads()
	readings := func(queries int) int { return (queries + h.QueriesPerRead - 1) / h.QueriesPerRead }
	e.reads, e.own = float64(readings(query/kv*cfg.Serving.Verified())), query/kv*readings(cfg.Serving.Verified())
	e.tier = gpus.NewTier(n.Hardware, e.Attends)
	if e.stack = n.CommandTables.Stack; e.stack != nil {
		e.slots = h.Stacks * hbm.Channels
		e.clock = float64(h.Stacks*hbm.StackClockBytes) / float64(cfg.GPU.MemoryBandwidth)
		e.factor, _ = h.spec().Nominal() // NewNode has filled the table
	}
	e.reading = e.measureReading(&h, &cfg.GPU.Spec, cfg.Serving.Verified())
	if columns, _ := h.copied(cfg); columns > 0 {
		e.help(columns)
	}
	if h.Placement == PlacementChannel {
		e.loads, e.seconds = make([]channelLoad, h.channels()), make([]float64, h.channels())
	}
	e.device, e.did, e.read, e.chooses = make([]units.Duration, len(e.Attends.Runs)), make([]hbm.Tally, len(e.Attends.Runs)), make([]int64, len(e.Attends.Runs)), !cfg.AttendsToAll()
	e.alone.Cost = func(context int) *units.Duration {
		t := e.took(e.one(context), e.reads)
		return &t
	}
	resources := e.tier.Beside("HBM-PIM", gpus.OnDown)
	resources[gpus.OnDevice].Reason, resources[gpus.OnDevice].Device = flow.ForPIM, true
	e.Flow = flow.New(n.Hardware, resources, n.Running)
	c := Continuous{Policy: h.Policy, Memories: hbmMemories(n.Hardware), adaptive: h.SubBatches == SubBatchesAdaptive}
	if h.SubBatches != SubBatchesNever {
		c.former = batching.FormerOf(batchingPolicy(h.Policy), e)
	}
	s := n.Continuous(c)
	if n.Hardware.GroupReads() {
		s.GroupPrefixes()
	}
	return Assembly{s, e}
}

// attend sets the work of decoding requests in a layer of each run: on the units, and on the GPUs
// before attention and beside it.
func (e *hbmPIM) attend(requests []scheduler.Decoding, step int64, counts bool) {
	e.Batches = e.Batches[:0]
	for _, run := range e.Attends.Kinds {
		x := e.Attends.Decode(requests, run, step)
		if counts {
			e.Attends.Count(x, run)
		}
		e.device[run], e.did[run], e.read[run] = 0, hbm.Tally{}, 0
		from := len(e.Batches)
		for i := range x.Attend {
			if c := &x.Attend[i]; c.Device == policy.Home {
				e.device[run] += e.class(c)
				read, did := e.readings(c)
				e.read[run], e.did[run] = e.read[run]+read, e.did[run].Plus(did, 1)
			} else if len(c.Tokens) > 0 {
				e.Batches = append(e.Batches, gpus.DecodeBatch(c))
			}
		}
		if len(e.loads) > 0 {
			e.device[run] = e.busiest(x, requests)
		}
		if e.device[run] > 0 {
			e.device[run] += e.crossing(len(requests))
		}
		to := &e.Decoding[run]
		to.Batches, to.Shared, to.Beside, to.Merge, to.Chooses = e.Batches[from:], nil, gpu.Work{}, gpu.Work{}, gpu.Work{}
		if e.chooses {
			to.Chooses, to.Beside = e.Choices(x), e.Passes(x, policy.GPU).Plus(e.Passes(x, policy.Home))
		}
		e.Absorb(run, len(requests))
	}
}

// class returns the units' time for a class of heads in one layer. Chosen pages take the time of as many
// contiguous tokens, since they are larger than a row of the memory.
func (e *hbmPIM) class(c *policy.Class) units.Duration {
	b, rows := e.batch(c)
	switch {
	case rows > 0:
		return e.took(b, e.reads) + e.opening(&b, rows)
	case c.PerQueryHead:
		return e.took(b, float64(e.readsOf(c)))
	case b.Requests == 1 && b == e.one(b.Longest):
		return *e.alone.At(b.Longest)
	case b.Requests > 0:
		return e.took(b, e.reads)
	}
	return 0
}

// readings returns the tokens that the units read in a layer for a class of heads, counting every read, and the work of their commands.
func (e *hbmPIM) readings(c *policy.Class) (int64, hbm.Tally) {
	b, rows := e.batch(c)
	reads, read := float64(e.readsOf(c)), c.All()
	if c.Chosen > 0 {
		read = b.Tokens * int64(c.Heads)
	}
	did := e.tally(b, reads)
	if rows > 0 && e.stack != nil {
		heads, _ := e.dealt(&b, reads)
		did = did.Plus(e.stack.OpeningTally(), rows*float64(heads/b.Requests*e.Model.TensorParallel))
	}
	return read * int64(reads) * int64(e.Attends.Copies), did
}

func (e *hbmPIM) one(context int) gpu.DecodeBatch {
	return gpu.DecodeBatch{Requests: 1, Tokens: int64(context), Longest: context, KVHeads: e.Model.KVHeads}
}

// took returns the units' time for a batch of heads in one layer whose keys and values are read reads times. The
// units run the GPUs' kernel at their own bandwidth: all but its fixed overhead is faster by that factor.
func (e *hbmPIM) took(b gpu.DecodeBatch, reads float64) units.Duration {
	cost := e.units.DecodeBatchCost(b)
	fixed := cost.Overhead
	if !e.launches {
		fixed = 0
	}
	if e.stack != nil {
		return flow.TaskTime(fixed + float64(e.commands(b, reads)))
	}
	return flow.TaskTime(fixed + float64((cost.Seconds-cost.Overhead)*reads/e.factor))
}

// dealt returns the number of a batch's heads on a GPU, and their mean length. Each query head, or each group of them that one read serves,
// counts as a head in one channel; heads are dealt evenly.
func (e *hbmPIM) dealt(b *gpu.DecodeBatch, reads float64) (heads, mean int) {
	kv := b.KVHeads
	if kv == 0 {
		kv = e.Model.KVHeads
	}
	return b.Requests * ((kv + e.Model.TensorParallel - 1) / e.Model.TensorParallel) * int(reads), int((b.Tokens + int64(b.Requests) - 1) / int64(b.Requests))
}

// commands returns the seconds of a batch's commands: those of the channel with most heads, all of the mean length, but at least those of the longest head.
func (e *hbmPIM) commands(b gpu.DecodeBatch, reads float64) float64 {
	if b.Requests < 1 {
		return 0
	}
	heads, mean := e.dealt(&b, reads)
	clocks := max(e.stack.Clocks((heads+e.slots-1)/e.slots, mean), e.stack.Clocks(1, b.Longest))
	return e.clock * clocks
}

// tally returns the work of the commands for a batch of heads in one layer, on all channels of all
// GPUs.
func (e *hbmPIM) tally(b gpu.DecodeBatch, reads float64) (t hbm.Tally) {
	if e.stack == nil || b.Requests < 1 {
		return t
	}
	heads, mean := e.dealt(&b, reads)
	each, more := heads/e.slots, heads%e.slots
	t = t.Plus(e.stack.Tally(each+1, mean), float64(more)).Plus(e.stack.Tally(each, mean), float64(e.slots-more))
	return hbm.Tally{}.Plus(t, float64(e.Model.TensorParallel))
}

// Run runs a batch. Requests that share a prefix are grouped where the units can do so.
func (e *hbmPIM) Run(b *scheduler.Batch, start units.Duration) (end units.Duration, err error) {
	e.tier.Swap(&e.Flow, &b.Moves, start)
	grouped := false
	if b.Grouped > 0 {
		if grouped, err = e.grouped(b, start); err != nil {
			return start, err
		}
	}
	read, did := e.layOut(b, grouped)
	for s := range b.Sub {
		more, commands := e.helped(b.Sub[s].Tokens())
		read, did = read+more, did.Plus(commands, 1)
	}
	e.Flow.Work.Tokens, e.Flow.Work.HBM = e.Flow.Work.Tokens+read, e.Flow.Work.HBM.Plus(did, 1)
	end, err = e.Flow.Run(start)
	e.tier.Idle = end
	return end, err
}

// layOut fills the iteration and returns the tokens of heads that the units read, and the work of their
// commands.
func (e *hbmPIM) layOut(b *scheduler.Batch, grouped bool) (read int64, did hbm.Tally) {
	e.Reset()
	e.tier.Hide(&e.Flow)
	for s := range b.Sub {
		e.attend(b.Sub[s].Decode, b.Step, e.chooses)
		if grouped {
			e.join(&e.groups[s])
		}
		g := e.StageRuns(&b.Sub[s])
		for k, run := range e.Attends.Kinds {
			g.Layers[k].Device = e.device[run]
			read += int64(e.Attends.LayersLike(run)) * e.read[run]
			did = did.Plus(e.did[run], float64(e.Attends.LayersLike(run)))
		}
		g.Lay(&e.Flow, s, flow.OpAttention)
	}
	return read, did
}

// GPU implements batching.Predictor.
func (e *hbmPIM) GPU(s *scheduler.SubBatch, step int64) units.Duration {
	if !e.chooses {
		return e.GPUs.GPU(s, step)
	}
	e.attend(s.Decode, step, false)
	return e.GPUTime(s)
}

// PIM implements batching.Predictor.
func (e *hbmPIM) PIM(s *scheduler.SubBatch, step int64, _ int) (t units.Duration) {
	e.attend(s.Decode, step, false)
	for _, run := range e.Attends.Kinds {
		t += units.Duration(e.Attends.LayersLike(run)) * e.device[run]
	}
	if tokens := s.Tokens(); tokens > 0 {
		_, seconds := e.Helps(tokens)
		t += units.Duration(e.Model.Layers) * flow.TaskTime(seconds)
	}
	return t
}

func (e *hbmPIM) Peak() units.Bandwidth { return e.HBMPeak * units.Bandwidth(e.factor) }
