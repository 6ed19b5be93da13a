package kinds

import (
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/units"
)

// grouped tries an iteration in two ways: the units attend over the whole of each context; or the GPUs read shared
// prefixes once while the units attend over the rest. It returns true if the second is shorter.
func (e *hbmPIM) grouped(b *scheduler.Batch, start units.Duration) (bool, error) {
	spared := int64(0)
	for s := range b.Sub {
		g := &e.groups[s]
		g.Group(&e.GPUs, &b.Sub[s], b, e.beside)
		if len(g.Groups) > 0 {
			spared += g.Spared
		}
	}
	if spared == 0 {
		return false, nil
	}
	var ends [2]units.Duration
	for i, grouped := range []bool{false, true} {
		e.layOut(b, grouped)
		var err error
		if ends[i], err = e.Flow.Try(start); err != nil {
			return false, err
		}
	}
	if ends[1] >= ends[0] {
		return false, nil
	}
	e.Attends.Spared += spared
	return true, nil
}

// beside returns the seconds of attention in a layer: the units attend over the rest of all contexts while the GPUs attend over
// the shared prefixes, and then the GPUs merge both.
func (e *hbmPIM) beside(rest gpu.DecodeBatch, kernel, merge gpu.Work) float64 {
	return max(e.took(rest, e.reads).Seconds(), kernel.Seconds) + merge.Seconds
}

// join makes a sub-batch attend in groups, if it has any.
func (e *hbmPIM) join(g *gpus.Grouping) {
	if len(g.Groups) == 0 {
		return
	}
	e.device[0], e.did[0] = e.took(g.Rest, e.reads), e.tally(g.Rest, e.reads)
	e.read[0] = g.Rest.Tokens * int64(g.Rest.KVHeads) * int64(e.reads) * int64(e.Attends.Copies)
	e.Decoding[0].Shared, e.Decoding[0].Merge = &g.Kernel, g.Merge
}
