package flow

import (
	"slices"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/units"
)

// KVMemory is the memory for keys and values of one replica, in the allocation
// units that its batcher counts.
type KVMemory struct {
	Unit     units.Bytes // on all GPUs, or all channels, of the replica
	Capacity int64       // units
	More     int         // copies of each key and value in a unit beyond the first, on other GPUs
}

// Tokens returns how many tokens fit bytes of the memory, if one copy of a token takes token bytes.
func (m *KVMemory) Tokens(bytes, token units.Bytes) int64 {
	return int64(bytes / (units.Bytes(1+m.More) * token))
}

// HeadClasses returns the classes of heads that a ledger needs for a device, over all layers: while
// requests decode, and while a prompt is prefilled.
func HeadClasses(p policy.Costs, on policy.Device) (decoding, filling []memory.HeadClass) {
	for run, layers := range p.Runs() {
		d, f := p.Memory(run)
		decoding, filling = AddClasses(decoding, d, on, layers), AddClasses(filling, f, on, layers)
	}
	return decoding, filling
}

// AddClasses adds the classes of a run of layers. Heads that hold the same are one class.
func AddClasses(to []memory.HeadClass, held []policy.Held, on policy.Device, layers int) []memory.HeadClass {
	for _, h := range held {
		if h.Device != on || h.Heads == 0 {
			continue
		}
		c := memory.HeadClass{TokenBytes: h.Bytes, OfPrompt: h.OfPrompt, AfterPrompt: h.AfterPrompt, Skip: h.Skip, Share: h.Share, Most: h.Most}
		i := ClassAlike(to, c)
		if i < 0 {
			i, to = len(to), append(to, c)
		}
		to[i].Heads += h.Heads * layers
	}
	return to
}

// ClassAlike returns the index of a class that holds the same as c, or -1.
func ClassAlike(classes []memory.HeadClass, c memory.HeadClass) int {
	return slices.IndexFunc(classes, func(o memory.HeadClass) bool { o.Heads = c.Heads; return o == c })
}

// Keeping makes an empty memory of a replica keep blocks of prefixes, if the configuration says so. unit is the size of one of its
// units.
func (h *Hardware) Keeping(l *memory.Ledger, unit units.Bytes) *memory.Ledger {
	if c := &h.Config.Cache; c.Prefix {
		most := int64(c.Capacity/units.Bytes(h.Config.Replicas())/unit) / l.UnitsOf(c.Block)
		l.KeepPrefixes(c.Block, most, c.Placement)
		l.KeepOnHost(int64(c.HostCapacity/units.Bytes(h.Config.Replicas())/unit) / l.UnitsOf(c.Block))
	}
	return l
}
