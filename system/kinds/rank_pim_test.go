package kinds

import (
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// TestRankPIMSubBatches: one sub-batch attends while the other is on the GPUs, alternating on both.
func TestRankPIMSubBatches(t *testing.T) {
	for _, stripe := range []string{"none", "ranksets", "channels"} {
		n := rigOf(t, "run.system=rank-pim", "rank_pim.sub_batches=always", "node.ranksets=2", "comm.rotation=false", "comm.stripe="+stripe)
		e := n.replica(nil).Engine.(*rankPIM)
		subs := []scheduler.SubBatch{*decoding(3, 4000), *decoding(5, 3000)}
		end, err := e.Run(&scheduler.Batch{Step: 1, Sub: subs}, 0)
		if err != nil {
			t.Fatal(err)
		}
		layers, notice := e.Model.Layers, 2*e.ranks.HostAccess
		var entry, block, last, attend [2]units.Duration
		for s := range subs {
			e.decodeBeside(e.Attends.Decode(subs[s].Decode, 0, 1))
			g := e.StageRuns(&subs[s])
			merge := g.Layers[0].Merge
			if (merge > 0) != (stripe != "none") {
				t.Errorf("%s: parts are merged in %v", stripe, merge)
			}
			entry[s], block[s], last[s] = g.Entry, g.Block+merge+e.join, g.Exit+merge+e.join
			for q := range e.groups[s] {
				attend[s] = max(attend[s], e.groups[s][q].Compute)
			}
			if spread := e.groups[s][0].Requests > 0 && e.groups[s][1].Requests > 0; spread != (stripe == "ranksets") {
				t.Errorf("%s: requests on both ranksets: %v", stripe, spread)
			}
		}
		at, ranks, gpu := [2]units.Duration{entry[0], entry[0] + entry[1]}, units.Duration(0), entry[0]+entry[1]
		for layer := range layers {
			for s := range subs {
				ranks = max(ranks, at[s]) + attend[s]
				took := block[s]
				if layer == layers-1 {
					took = last[s]
				}
				gpu = max(gpu, ranks+notice) + took
				at[s] = gpu
			}
		}
		if end != gpu {
			t.Errorf("%s: %v, want %v", stripe, end, gpu)
		}
		busy, alone := e.Iteration.Totals().ByKind[flow.OpBlock], dataflow.Time(0)
		for s := range subs {
			alone += dataflow.Time(layers-1)*block[s] + last[s]
		}
		if busy != alone {
			t.Errorf("%s: the GPUs are busy for %v, want %v", stripe, busy, alone)
		}
	}
}
