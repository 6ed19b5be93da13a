package system

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// l3Name is the value of run.system.
const l3Name = "l3"

// l3System is GPUs and bank-level DIMM-PIM.
var l3System = System{
	Name:     l3Name,
	Hardware: "KV in DIMMs, decode attention on a processing unit beside each bank; prefill and all products on the GPUs",
	Schedule: "two sub-batches, one on the GPUs while the other is in the DIMMs; prompts cut to fill the GPUs' time",
	Source:   "L3, sections 4 and 5",
	Sections: "dram, pim, pcie, comm, scheduler, predictor",
	Host:     true,
	policies: []string{"dense", "window", "hgca", "quest", "lserve", "duo"},
	kv:       kvInDIMMs, memory: (*Node).rankMemory, assemble: assembleL3,
}

// l3 is the system of the L3 paper on one replica: GPUs and ranksets of DIMM-PIM,
// both sub-batches of an iteration in flight at once.
type l3 struct {
	*devices
	flow
	costs     iterationCosts
	imbalance imbalance
	learned   *scheduler.Learned // nil where the predictors are exact
	sample    scheduler.Sample
	profile   *profile // nil unless the run is for its samples
}

// assembleL3 puts together a replica with the sub-batch scheduler.
func assembleL3(n *Node, requests []traces.Request, o Options, check *checker, stream func(uint64) *rand.Rand) assembly {
	cfg := n.cfg
	d := n.devices()
	e := &l3{devices: d, costs: n.costs(d)}
	if check != nil {
		check.homes = homes{newAttends(cfg), d.channels, map[homeOf]int64{}, d.boundBytes, d.queries, d.stripe, d.prefixStays}
	}
	e.flow = newFlow(&d.gpuSide, e.costs.resources(cfg.Node.Ranksets), o, check)
	var predictor scheduler.Predictor = d
	if cfg.Predictor.Kind == scheduler.PredictLearned {
		e.learned = scheduler.NewLearned(&cfg.Predictor, d, stream(streamPredictor))
		predictor = e.learned
	}
	policies := scheduler.Config{Scheduler: &cfg.Scheduler, Memory: &cfg.Memory, Comm: &cfg.Comm, Batching: &cfg.Batching}
	free := scheduler.GPUMemory{Model: &cfg.Model, Free: n.FreeGPUMemory()}
	free.Window, free.PromptShare, free.Share = windows(cfg, d.policy)
	free.PrefixStays = prefixStays(cfg)
	return assembly{scheduler.New(policies, requests, n.rankLedger(cfg.Comm.Rotation), free, predictor, stream(streamBalance)), e}
}

// run runs a batch, checks what it moved, and shows its times to learned predictors.
func (e *l3) run(b *scheduler.Batch, start units.Duration) (units.Duration, error) {
	e.devices.fill(&e.costs, b)
	e.costs.fill(&e.flow)
	var before work
	if e.check != nil {
		before = e.flow.work
	}
	end, err := e.flow.run(start)
	if err != nil {
		return start, err
	}
	e.imbalance.add(&e.costs)
	if e.check != nil {
		done := e.flow.work.since(&before)
		e.check.traffic(b, &e.costs, end, &done)
	}
	if e.profile != nil {
		e.profile.add(e.devices, b)
	}
	if e.learned != nil {
		return end, e.observe(b)
	}
	return end, nil
}

func (e *l3) settle() { e.settleHeads(&e.flow.work.ranks) }

// observe enters the executed sub-batches into the profile that the predictors
// learn from.
func (e *l3) observe(b *scheduler.Batch) error {
	for i := range b.Sub {
		sub := &b.Sub[i]
		if sub.Tokens() == 0 {
			continue
		}
		other := 0
		if len(b.Sub) == 2 {
			other = b.Sub[1-i].PrefillTokens()
		}
		e.sample.Set(sub, b.Step, other)
		e.devices.measure(&e.sample, b, i, other)
		if err := e.learned.Observe(&e.sample); err != nil {
			return err
		}
	}
	return nil
}

func (e *l3) ranksets() imbalance { return e.imbalance }

func (e *l3) peak() units.Bandwidth { return e.pimPeak }

// inSection completes an error about the ranks with the section of its key, and with
// what the user changed: ranks are given in several sections.
func inSection(cfg *configs.Config, section string, err error) error {
	return input.Edit(err, func(bad *input.Error) {
		bad.Key = section + "." + bad.Key
		for _, c := range cfg.Changed() {
			bad.Expected += fmt.Sprintf("; changed: %s = %s", c.Key, c.Value)
		}
	})
}

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

// devices returns the device models of one replica of a system with DIMM-PIM.
func (n *Node) devices() *devices {
	cfg := n.cfg
	gpus, channels := cfg.Model.TensorParallel, cfg.ReplicaChannels()
	d := &devices{
		gpuSide: newGPUSide(cfg), clock: n.clock(),
		channels: channels, heads: cfg.Model.KVHeads / channels, queries: cfg.Model.QueryGroup(),
		link:    units.Bandwidth(gpus) * n.linkShare(),
		channel: units.Bandwidth(channels) * cfg.DRAM.Spec.Bandwidth(),
		buffer:  units.Bytes(channels) * cfg.PIM.MCBuffer,
		latency: cfg.PCIe.Latency,
		scratch: make([]int64, cfg.Node.Ranksets), byChannel: make([]int64, channels),
		pimPeak: n.pimPeak() / units.Bandwidth(n.Replicas()),
	}
	if n.kernels != nil {
		d.kernels = *n.kernels
	}
	s, tCK := &cfg.DRAM.Spec, cfg.DRAM.TCK
	d.burst = units.Duration(s.BurstClocks()) * tCK
	d.openRow, d.closeRow = units.Duration(s.TRCD+s.CWL)*tCK, units.Duration(s.TWR+s.TRP)*tCK
	d.stageLatency = units.Duration(s.CWL) * tCK
	d.burstBytes = int64(s.BurstBytes())
	d.descriptor, d.hostAccess = d.bursts(cfg.PIM.Descriptor), cfg.PIM.HostAccess
	v := d.policy.Vectors()
	d.counts = d.policy.Name() != "dense"
	d.stores, d.sums, d.merged = v.New > 0, v.Sums/int64(cfg.Model.KVHeads), v.Sums > 0
	if d.stripe = stripeOf(cfg, n.rowTokens()); d.stripe.parts > 0 && !d.merged {
		d.sums = int64(softmaxBytes * d.queries)
	}
	d.fixed = cfg.Comm.HeadRotation == scheduler.RotateNone
	d.rest = d.uneven()
	d.single, d.lists = d.differs(), map[listOf]pageList{}
	d.tokenBytes, d.boundBytes = d.kv(1)/units.Bytes(cfg.Model.KVHeads), units.Bytes(2*cfg.Model.HeadDim*cfg.Model.ElementBits+7)/8
	if cfg.HeadShape().ScaleBytes > 0 {
		d.scales = 1
	}
	d.resultBursts = d.bursts(units.Bytes(cfg.Model.HeadDim*cfg.Model.ElementBits+7) / 8)
	// Of the host's round trips to memory, descriptors take a half on their way;
	// attention ends half a round trip after a poll began, on average, and the next poll
	// finds it.
	d.upLatency = cfg.PCIe.Latency + units.Duration(s.CL)*tCK + 2*d.hostAccess
	if x, err := pim.NewExchange(cfg.Model.KVElementBits(), &cfg.DRAM.Spec); err == nil && x.Group > 1 && cfg.PIM.Relayout == pim.CPUTransposition {
		d.transposed = &cfg.DRAM.Spec
	}
	return d
}

// rowTokens returns the tokens of an allocation unit.
func (n *Node) rowTokens() int {
	g, _ := pim.NewGeometry(&n.cfg.DRAM.Spec, n.cfg.HeadShape()) // validated with the configuration
	return g.RowTokens
}

// clock returns the clock of a rank that refreshes as the table says.
func (n *Node) clock() dataflow.Clock {
	s := &n.cfg.DRAM.Spec
	return dataflow.NewClock(s.TCK, int64(s.TREFI), int64(s.TREFI-s.TRFC))
}

// padding returns the bytes that keys and values take on the channels over those
// that they take on the links.
func (n *Node) padding() units.Bandwidth {
	g, _ := pim.NewGeometry(&n.cfg.DRAM.Spec, n.cfg.HeadShape()) // validated with the configuration
	return units.Bandwidth(g.PaddedDim) / units.Bandwidth(g.HeadDim)
}

// costs returns the iteration costs of a replica with all that never changes.
func (n *Node) costs(d *devices) iterationCosts {
	s, tCK, comm := &n.cfg.DRAM.Spec, n.cfg.DRAM.Spec.TCK, &n.cfg.Comm
	c := newIterationCosts(n.cfg.Scheduler.SubBatches, n.cfg.Node.Ranksets)
	c.layers, c.latency, c.upLatency = d.runs[0], d.latency, d.upLatency
	for _, layers := range d.runs[1:] {
		more := newIterationCosts(n.cfg.Scheduler.SubBatches, n.cfg.Node.Ranksets)
		c.more = append(c.more, layerRun{layers, more.sub})
	}
	c.vacate = units.Duration(s.TRP) * tCK
	c.reactivate = units.Duration(n.cfg.PIM.ActivationClocks(s)+int64(s.TRCD)) * tCK
	c.clock, c.headsEach = d.clock, d.heads
	if d.single || d.stripe.parts > 0 {
		c.headsEach = 1
	}
	if n.kernels != nil {
		c.step = boundaryStep(n.table, n.cfg.PIM.TransferBoundary, s.Banks())
	}
	c.rotate, c.concurrent, c.asyncPrefill = comm.Rotation, comm.Concurrent, comm.AsyncPrefill
	c.buffered = d.buffer > 0
	c.halfDuplex = d.link*(1+n.padding()) > d.channel
	return c
}

// boundaryStep returns the distance of the boundaries within a head: a row's
// share of a head that has many, or a chunk's share of a row.
func boundaryStep(t *pim.KernelTable, boundary string, banks int) int64 {
	row := t.RowTokens()
	clocks := (t.Attention(3*row) - t.Attention(2*row)) / 2 // a K row and a V row
	switch boundary {
	case pim.BoundaryRow:
		return clocks
	case pim.BoundaryChunk:
		return max(clocks*int64(banks)/int64(row), 1)
	}
	return 0
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

// classAlike returns the place of a class that holds the same, or -1.
func classAlike(classes []scheduler.HeadClass, c scheduler.HeadClass) int {
	return slices.IndexFunc(classes, func(o scheduler.HeadClass) bool { o.Heads = c.Heads; return o == c })
}
