package ranks

import (
	"fmt"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/tables"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// Devices are the ranks of a replica with DIMM-PIM and the channels and links to them.
type Devices struct {
	Attends *flow.Attends // what heads attend over
	Kernels
	headMap
	wires
	Clock     dataflow.Clock
	PIMPeak   units.Bandwidth // of all the replica's ranks
	attended  tallies
	lists     map[listOf]pageList
	recorded  *policy.Choices // nil: lists lie anywhere with equal chance
	decodes   []decodeTraffic // transfers of a group with all heads at home, by its number of requests
	moved     decodeTraffic   // scratch of moves
	predicted []GroupCost     // scratch of layerPIM, one a rankset
}

// headMap says which heads of a request attend on which channel and rankset.
type headMap struct {
	channels            int
	perChannel, queries int     // KV heads on the fullest channel; queries of each in a step
	verified            int64   // tokens that a step of a request verifies
	uneven              bool    // channels have different numbers of a layer's KV heads
	stores              bool    // a step's own key and value go to the ranks at once
	single              bool    // heads differ, or their number by channel: each head is a separate part of a group's attention
	merged              bool    // the GPUs attend over other tokens of the same heads
	Stripe              stripe  // of the tokens of a head
	Fixed               bool    // the heads of all requests begin on one channel
	Rest                int     // heads of each request that do not divide over the channels, in most layers
	first               []int32 // by request: 1 + channel on which its heads begin; 0 for none
	byChannel           []int64 // scratch, by channel
	busiestOf           []int   // scratch: the busiest channel of each lane
}

// wires is the links and channels between GPUs and ranks, and the times of commands on them.
type wires struct {
	link, channel units.Bandwidth // of all the replica's links in one direction; of all its channels
	Latency       units.Duration  // of a PCIe transfer down
	UpLatency     units.Duration  // from the end of attention to the first data of results on the links
	HostAccess    units.Duration  // of a host core to a rank's control region
	Buffer        units.Bytes     // of all the replica's memory controllers; 0 for none
	padding       units.Bandwidth // bytes of keys and values on the channels over those on the links
	transposed    *dram.Spec      // the DIMMs, if the CPU transposes elements; else nil

	burst             units.Duration // of data on a channel
	burstBytes        int64
	openRow, closeRow units.Duration // ACT to the first data (tRCD, CWL); the last data to banks precharged (tWR, tRP)
	stageLatency      units.Duration // a burst into the rank PU's staging to its data (CWL)

	tokenBytes   units.Bytes // of a token's key and value in one KV head
	boundBytes   units.Bytes // of a page's bounds in one KV head
	sums         int64       // bytes added to a KV head's results if these are merged
	descriptor   int64       // bursts that the host writes to a rank per head
	resultBursts int64       // per query head
	scales       int64       // bursts of scales beside a new key and value
}

// New returns the device models of one replica of a system with DIMM-PIM.
func New(h *flow.Hardware, a *flow.Attends, k *Kernels) *Devices {
	cfg := h.Config
	channels := cfg.ReplicaChannels()
	d := &Devices{
		Attends: a, Clock: rankClock(h), predicted: make([]GroupCost, cfg.Node.Ranksets),
		headMap: headMap{
			channels: channels, perChannel: (cfg.Model.KVHeads + channels - 1) / channels, uneven: cfg.Model.KVHeads%channels != 0,
			queries: cfg.HeadShape().Queries, verified: int64(cfg.Serving.Verified()), byChannel: make([]int64, channels),
		},
		wires:   wires{link: h.Links(), channel: h.Channels(), Buffer: units.Bytes(channels) * cfg.PIM.MCBuffer, Latency: cfg.PCIe.Latency, padding: padding(h)},
		PIMPeak: pimPeak(h) / units.Bandwidth(h.Config.Replicas()),
	}
	if k != nil {
		d.Kernels = *k
	}
	s, tCK := &cfg.DRAM.Spec, cfg.DRAM.TCK
	d.burst = units.Duration(s.BurstClocks()) * tCK
	d.openRow, d.closeRow = units.Duration(s.TRCD+s.CWL)*tCK, units.Duration(s.TWR+s.TRP)*tCK
	d.stageLatency = units.Duration(s.CWL) * tCK
	d.burstBytes = int64(s.BurstBytes())
	d.descriptor, d.HostAccess = d.bursts(cfg.PIM.Descriptor), cfg.PIM.HostAccess
	v := d.Attends.Policy.Vectors()
	d.stores, d.sums, d.merged = v.New > 0, v.Sums/int64(cfg.Model.KVHeads), v.Sums > 0
	if d.Stripe = stripeOf(cfg, rowTokens(h)); d.Stripe.Parts > 0 && !d.merged {
		d.sums = int64(softmaxBytes * d.queries)
	}
	d.Fixed = cfg.Comm.HeadRotation == scheduler.RotateNone
	d.Rest = d.beyond()
	d.single, d.lists = d.uneven || d.differs(), map[listOf]pageList{}
	d.recorded = cfg.Policy.Choices()
	d.tokenBytes, d.boundBytes = d.Attends.KV(1)/units.Bytes(cfg.Model.KVHeads), units.Bytes(2*cfg.Model.HeadDim*cfg.Model.ElementBits+7)/8
	if cfg.HeadShape().ScaleBytes > 0 {
		d.scales = 1
	}
	d.resultBursts = d.bursts(units.Bytes(cfg.Model.HeadsOf(false).Value*cfg.Model.ElementBits+7) / 8)
	// Descriptors take half of a round trip from host to memory. Attention ends on average half a
	// round trip after a poll began, and the next poll finds it.
	d.UpLatency = cfg.PCIe.Latency + cfg.PCIe.Wake + units.Duration(s.CL)*tCK + 2*d.HostAccess
	split, _ := pim.Rearranges(cfg.Model.KVElementBits(), &cfg.DRAM.Spec) // validated with the configuration
	if split && cfg.PIM.Relayout == pim.CPUTransposition {
		d.transposed = &cfg.DRAM.Spec
	}
	return d
}

// group returns the number of query heads of a KV head; each has a query for each token that a step
// verifies.
func (m *headMap) group() int { return m.queries / max(1, int(m.verified)) }

// BesideKernels reduces the links' rate by the share that concurrent kernels take.
func (d *Devices) BesideKernels(share float64) { d.link *= units.Bandwidth(1 - share) }

// rankClock returns the clock of a rank with the table's refresh.
func rankClock(h *flow.Hardware) dataflow.Clock {
	s := &h.Config.DRAM.Spec
	return dataflow.NewClock(s.TCK, int64(s.TREFI), int64(s.TREFI-s.TRFC))
}

// padding returns the bytes that keys and values take on the channels over those on the links.
func padding(h *flow.Hardware) units.Bandwidth {
	g, _ := pim.NewGeometry(&h.Config.DRAM.Spec, h.Config.HeadShape()) // validated with the configuration
	moved := g.HeadDim + g.ValueDim
	if h.Config.Model.LatentDim > 0 { // which is written as a key and as a value
		moved = g.HeadDim
	}
	return units.Bandwidth(g.PaddedDim+g.PaddedValueDim) / units.Bandwidth(moved)
}

// HalfDuplex says that the links can carry more in both directions than the channels, which then serve one direction
// at a time.
func (d *Devices) HalfDuplex() bool { return d.link*(1+d.padding) > d.channel }

// HeadsEach returns the number of heads of a request on a channel between which a transfer can
// come.
func (d *Devices) HeadsEach() int {
	if d.single || d.Stripe.Parts > 0 {
		return 1
	}
	return d.perChannel
}

// pimPeak returns the bandwidth at which all banks of all ranks together feed
// their processing units: a burst each tCCD_L.
func pimPeak(h *flow.Hardware) units.Bandwidth {
	s := &h.Config.DRAM.Spec
	rank := float64(s.Banks()*s.BurstBytes()) / (float64(s.TCCDL) * s.TCK.Seconds())
	return units.Bandwidth(float64(h.Config.Node.Channels*h.Config.Node.Ranksets) * rank)
}

// InSection adds to an error about the ranks the section of its key and the user's changes, since
// several sections describe ranks.
func InSection(cfg *configs.Config, section string, err error) error {
	return input.Edit(err, func(bad *input.Error) {
		bad.Key = section + "." + bad.Key
		for _, c := range cfg.Changed() {
			bad.Expected += fmt.Sprintf("; changed: %s = %s", c.Key, c.Value)
		}
	})
}

// FillGroups sets the groups of a sub-batch in a run of layers, and their costs; x is the policy's decode
// step.
func (d *Devices) FillGroups(groups []GroupCost, sub *scheduler.SubBatch, x *policy.Step, run int) {
	d.Gather(groups, sub, x, run)
	for offset := range groups {
		g := &groups[offset]
		if g.Requests > 0 {
			traffic := d.Moves(g.Requests, &g.Vectors)
			g.Decode, g.Up, g.UpBus = traffic.Down, traffic.Up, traffic.UpBus
		}
		if g.Prompt.Tokens|g.Leaving.Tokens|g.Prefix.Tokens > 0 { // few groups have any
			d.pack(&g.Prompt)
			d.pack(&g.Leaving)
			d.packPrefix(&g.Prefix)
		}
	}
}

// Gather sets the attention and the transfers of a sub-batch's groups.
func (d *Devices) Gather(groups []GroupCost, sub *scheduler.SubBatch, x *policy.Step, run int) {
	for offset := range groups {
		groups[offset].reset()
	}
	d.attend(groups, sub.Decode, x)
	for i := range x.Leave {
		for j, tokens := range x.Leave[i].Tokens {
			if tokens > 0 {
				r := &sub.Decode[j]
				d.send(groups, leavingOf, r.Request, r.Offset, &x.Leave[i], j)
			}
		}
	}
	for i := range sub.Prefill {
		c := &sub.Prefill[i]
		if c.Near {
			continue
		}
		if c.Prefix > 0 {
			d.Reuse(groups, c)
		}
		leave := d.Attends.Policy.Prompt(run, c.Tokens, c.Finished, c.Last).Leave
		for j := range leave {
			d.send(groups, promptOf, c.Request, c.Offset, &leave[j], 0)
		}
	}
	for offset := range groups {
		if g := &groups[offset]; g.Requests > 0 {
			g.Compute = d.Clock.Time(g.Clocks + g.Drain)
		}
	}
}

// BoundaryStep returns the distance of the boundaries within a head: a row's
// share of a head that has many, or a chunk's share of a row.
func BoundaryStep(t *tables.KernelTable, boundary string, banks int) int64 {
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
