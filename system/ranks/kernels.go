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

// Kernels is the times of attention on DIMM-PIM ranks, and of transfers to them. Nodes share it: it does not
// change once it has been measured.
type Kernels struct {
	Table     *tables.KernelTable
	Sequence  sequence
	Stored    sequence // of heads whose keys and values are all stored before; set if heads are striped
	transfers *tables.TransferTable
	bounds    *tables.BoundTable    // of pages; nil if they are not on the ranks
	written   *tables.TransferTable // of bounds, which are as wide as a key and a value of FP16
}

// ranks is the part of a configuration on which its kernels depend.
type ranks struct {
	pim    pim.Spec
	dram   dram.Spec
	shape  pim.HeadShape
	pace   tables.Pace      // for the limit of a DIMM's power
	atHome bool             // a step's own key and value go to the ranks before its attention
	parts  bool             // some heads attend without the newest token: parts, or prefixes
	pages  policy.PagesSpec // the part that bounds of pages depend on
	group  int              // query heads of a KV head, which score bounds of pages; 0 if nothing does
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

// Kernels are measured once for all nodes with equal ranks: most points of a sweep, and all rates of a search, differ elsewhere. Tables of
// heads serve ranks that differ only in the power limit, or in how keys and values are divided over the channels.
var (
	measured      recent[ranks, *Kernels]
	measuredHeads recent[heads, *tables.KernelTable]
)

// heads is all that a table of heads depends on, before a pace applies.
type heads struct {
	pim    pim.Spec
	dram   dram.Spec
	shape  pim.HeadShape
	stored bool // NewStoredTable
}

// mostMeasured bounds the memory of a recent, at about a megabyte per value.
const mostMeasured = 32

// recent caches measured values, by all that they depend on.
type recent[K comparable, V any] struct {
	sync.Mutex
	by   map[K]*once[V]
	uses int
}

// once is a value that is measured on first use.
type once[V any] struct {
	sync.Mutex
	value V
	known bool
	used  int // counter of the recent at its last use
}

// of returns the place for a value. A full cache drops the least recently used one.
func (m *recent[K, V]) of(key K) *once[V] {
	m.Lock()
	defer m.Unlock()
	m.uses++
	o := m.by[key]
	if o == nil {
		if m.by == nil {
			m.by = map[K]*once[V]{}
		}
		if len(m.by) == mostMeasured {
			oldest, last := key, m.uses
			for k, other := range m.by {
				if other.used < last {
					oldest, last = k, other.used
				}
			}
			delete(m.by, oldest)
		}
		o = &once[V]{}
		m.by[key] = o
	}
	o.used = m.uses
	return o
}

// get returns the result of measure from the cache, or measures it. Errors are not cached.
func (m *recent[K, V]) get(key K, measure func() (V, error)) (V, error) {
	o := m.of(key)
	o.Lock()
	defer o.Unlock()
	if o.known {
		return o.value, nil
	}
	value, err := measure()
	o.value, o.known = value, err == nil
	return value, err
}

// KernelsOf returns the kernels of a configuration's ranks, which it measures unless a node with
// equal ranks has.
func KernelsOf(h *flow.Hardware) (*Kernels, error) {
	r, err := ranksOf(h)
	if err != nil {
		return nil, err
	}
	return measured.get(r, func() (*Kernels, error) { return newKernels(h.Config, &r) })
}

// newKernels measures attention on ranks and transfers to them. Its errors name keys of the configuration.
func newKernels(cfg *configs.Config, of *ranks) (*Kernels, error) {
	table, err := headTable(cfg, &of.pim, of.shape, of.pace, !of.atHome)
	if err != nil {
		return nil, err
	}
	transfers, err := tables.NewTransferTable(&of.dram, of.shape)
	if err != nil {
		return nil, InSection(cfg, "dram", err)
	}
	k := &Kernels{Table: table, Sequence: newSequence(table), transfers: transfers}
	if k.Stored = k.Sequence; of.parts {
		stored, err := headTable(cfg, &of.pim, of.shape, of.pace, true)
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

// headTable measures heads at a pace. With stored, all their keys and values are stored before.
func headTable(cfg *configs.Config, unit *pim.Spec, shape pim.HeadShape, pace tables.Pace, stored bool) (*tables.KernelTable, error) {
	d := &cfg.DRAM.Spec
	key := heads{pim: *unit, dram: *d, shape: shape, stored: stored}
	key.pim.PowerLimit = 0 // the pace accounts for it
	t, err := measuredHeads.get(key, func() (*tables.KernelTable, error) {
		if stored {
			return tables.NewStoredTable(unit, d, shape)
		}
		return tables.NewKernelTable(unit, d, shape)
	})
	if err != nil {
		return nil, InSection(cfg, "pim", err)
	}
	own := *t
	own.Pace = pace
	return &own, nil
}

// addBounds measures the work of ranks for bounds of pages, if the policy has them there.
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
	// Bounds are in FP16 without scales, whatever the format of keys and values.
	k.written, err = tables.NewTransferTable(&of.dram, pim.HeadShape{HeadDim: shape.HeadDim, Queries: shape.Queries, ElementBits: 16})
	if err != nil {
		return InSection(cfg, "dram", err)
	}
	return nil
}
