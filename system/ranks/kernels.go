package ranks

import (
	"sync"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/tables"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
)

// Kernels is what attention takes on the ranks of DIMM-PIM, and transfers to them. Nodes share it: it does not
// change once it has been measured.
type Kernels struct {
	Table     *tables.KernelTable
	Sequence  sequence
	Stored    sequence // of heads whose keys and values are all there before; set where heads are striped
	transfers *tables.TransferTable
	bounds    *tables.BoundTable    // of pages; nil where they are not on the ranks
	written   *tables.TransferTable // of bounds, which are as wide as a key and a value of FP16
}

// ranks is all of a configuration that its kernels depend on.
type ranks struct {
	pim    pim.Spec
	dram   dram.Spec
	shape  pim.HeadShape
	pace   tables.Pace      // of the limit of a DIMM's power
	atHome bool             // a step's own key and value go to the ranks before its attention
	parts  bool             // some heads attend without the newest token: parts, or prefixes
	pages  policy.PagesSpec // what of it bounds of pages depend on
	group  int              // query heads of a KV head, which score bounds of pages; 0 where nobody does
}

func ranksOf(h *flow.Hardware) (ranks, error) {
	cfg := h.Config
	atHome, pages, group := flow.PolicyOf(h).Vectors().New > 0, policy.PagesSpec{}, 0
	if p := cfg.Policy.Pages(); p != nil {
		pages = policy.PagesSpec{SelectDevice: p.SelectDevice, SelectGroup: p.SelectGroup, TopKLatency: p.TopKLatency}
		group = cfg.Model.QueryGroup()
	}
	unit := Spec(h)
	pace, err := paceOf(cfg, unit)
	return ranks{
		pim: *unit, dram: cfg.DRAM.Spec, shape: cfg.HeadShape(), pace: pace, atHome: atHome,
		parts: atHome && (cfg.Comm.Stripe != scheduler.StripeNone || h.PrefixStays()),
		pages: pages, group: group,
	}, err
}

// Spec returns the processing units of the system's ranks.
func Spec(h *flow.Hardware) *pim.Spec {
	spec := h.Config.PIM
	if unit := h.KV.Unit; unit != "" {
		spec.ProcessingUnit = unit
	}
	return &spec
}

// measured has the kernels of the ranks that nodes had lately. Most points of a sweep, and all rates of a
// search, differ in what ranks do not see.
var measured measuredKernels

// measuredKernels is kernels by the ranks that have them.
type measuredKernels struct {
	sync.Mutex
	by map[ranks]*measuredRanks
}

const mostMeasured = 32 // bounds the memory of measuredKernels: each has about a megabyte

// measuredRanks is the kernels of one kind of ranks, nil until somebody has measured them.
type measuredRanks struct {
	sync.Mutex
	kernels *Kernels
}

// of returns the place for the kernels of some ranks. Where there are too many it forgets all others.
func (m *measuredKernels) of(r *ranks) *measuredRanks {
	m.Lock()
	defer m.Unlock()
	known := m.by[*r]
	if known == nil {
		if m.by == nil || len(m.by) == mostMeasured {
			m.by = map[ranks]*measuredRanks{}
		}
		known = &measuredRanks{}
		m.by[*r] = known
	}
	return known
}

// KernelsOf measures what the ranks of a configuration take, unless a node with equal ranks has.
func KernelsOf(h *flow.Hardware) (_ *Kernels, err error) {
	r, err := ranksOf(h)
	if err != nil {
		return nil, err
	}
	m := measured.of(&r)
	m.Lock()
	defer m.Unlock()
	if m.kernels == nil {
		m.kernels, err = newKernels(h.Config, &r)
	}
	return m.kernels, err
}

// newKernels measures attention on ranks and transfers to them. Errors are told in terms of the configuration.
func newKernels(cfg *configs.Config, of *ranks) (*Kernels, error) {
	measure := tables.NewKernelTable
	if !of.atHome {
		measure = tables.NewStoredTable
	}
	table, err := headTable(cfg, &of.pim, of.shape, of.pace, measure)
	if err != nil {
		return nil, err
	}
	transfers, err := tables.NewTransferTable(&of.dram, of.shape)
	if err != nil {
		return nil, InSection(cfg, "dram", err)
	}
	k := &Kernels{Table: table, Sequence: newSequence(table), transfers: transfers}
	if k.Stored = k.Sequence; of.parts {
		stored, err := headTable(cfg, &of.pim, of.shape, of.pace, tables.NewStoredTable)
		if err != nil {
			return nil, err
		}
		k.Stored = newSequence(stored)
	}
	if err := k.addBounds(cfg, of); err != nil {
		return nil, err
	}
	return k, nil
}

// headTable measures heads with one of the constructors of tables, and has them keep a pace.
func headTable(cfg *configs.Config, unit *pim.Spec, shape pim.HeadShape, pace tables.Pace,
	measure func(*pim.Spec, *dram.Spec, pim.HeadShape) (*tables.KernelTable, error)) (*tables.KernelTable, error) {
	t, err := measure(unit, &cfg.DRAM.Spec, shape)
	if err != nil {
		return nil, InSection(cfg, "pim", err)
	}
	t.Pace = pace
	return t, nil
}

// addBounds measures what ranks take for bounds of pages, where the policy has them there.
func (k *Kernels) addBounds(cfg *configs.Config, of *ranks) (err error) {
	by, topK, shape := of.pages.SelectDevice, of.pages.TopKLatency, of.shape
	shape.Queries = of.group // each token of a step makes a list of its own
	switch by {
	case "", tables.SelectGPU:
		return nil
	}
	k.bounds, err = tables.NewBoundTable(&of.pim, &of.dram, shape, by, of.pages.SelectGroup != "sum", topK)
	if err != nil {
		return InSection(cfg, "pim", err)
	}
	k.bounds.Pace = of.pace
	// Bounds have FP16 and no scales, whatever keys and values have.
	k.written, err = tables.NewTransferTable(&of.dram, pim.HeadShape{HeadDim: shape.HeadDim, Queries: shape.Queries, ElementBits: 16})
	if err != nil {
		return InSection(cfg, "dram", err)
	}
	return nil
}
