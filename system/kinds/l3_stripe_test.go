package kinds

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestStripedLayerByHand: a request of 9 units and part of another on 8 ranksets. The parts' queries go down one
// after another, one part with the step's own key and value; each attends over its units. Outputs come up with a
// maximum and a sum of 4 bytes for each query head, and the block begins with the merge of 8 parts.
func TestStripedLayerByHand(t *testing.T) {
	const in, layers, unit = 9*512 + 100, 96, 512
	sets := []string{"comm.stripe=ranksets", "node.ranksets=8", "node.memory_capacity=2TiB", oneBatch, allAtOnce}
	node := rigOf(t, sets...)
	d, cfg := node.devices(), node.cfg
	links := units.Bandwidth(cfg.Model.TensorParallel) * cfg.PCIe.Bandwidth()
	g := gpu.NewModelCost(&cfg.GPU.Spec, &cfg.Model)
	ps := func(w gpu.Work) units.Duration { return units.FromSeconds(w.Seconds) }
	steps := 0
	drive(t, sets, equal(1, in, 12), keep, func(r *loop, x driven) {
		if len(x.batch.Sub[0].Decode) == 0 {
			return
		}
		steps++
		context := x.batch.Sub[0].Decode[0].Context(x.batch.Step)
		link, up := cfg.PCIe.Latency, units.Duration(0)
		var ends []units.Duration
		for lane := range 8 {
			part := ((lane-int(ranks.Scattered(0)%8))%8 + 8) % 8
			tokens, vectors, bursts, table := unit, units.Bytes(96*256), int64(6*4), node.CommandTables.Kernels.Stored.Table
			switch part {
			case 0: // plus a whole unit
				tokens = 2 * unit
			case 1: // with the newest token
				tokens, vectors, bursts, table = unit+context-9*unit, 3*vectors, 3*bursts, node.CommandTables.Kernels.Table
			}
			link += 16*625 + max(links.TransferTime(vectors), refreshed(bursts*4)) + refreshed(6*4)
			ends = append(ends, link+refreshed(table.Alone(tokens)+5*table.InSequence(tokens)))
		}
		slices.Sort(ends)
		for _, end := range ends {
			up = max(up, end+2*122*units.Nanosecond+cfg.PCIe.Latency+22*625) + max(links.TransferTime(96*(256+4)), refreshed((6*4+1)*4))
		}
		merge := g.Pass(1, 96*(9*256+8*4), 0) // read eight rows with their numbers, write one row
		want := ps(g.Embedding(1)) + layers*ps(g.QKV(1)) + ps(g.LMHead(1)) + layers*(up+ps(merge)+ps(g.ProjectionFFN(1)))
		if x.took != want {
			t.Fatalf("context %d: %v, its tasks in turn %v", context, x.took, want)
		}
	})
	if steps != 11 || d.Stripe.Parts != 8 {
		t.Errorf("%d steps of %d parts", steps, d.Stripe.Parts)
	}
}

// TestStripesOfOnePlace: with a single rankset or channel striping changes nothing, to the
// picosecond.
func TestStripesOfOnePlace(t *testing.T) {
	requests := []traces.Request{{ID: 0, Input: 700, Output: 60}, {ID: 1, Input: 40, Output: 50}, {ID: 2, Input: 3000, Output: 9}}
	for over, set := range map[string]string{"ranksets": "node.ranksets=1", "channels": "node.channels=1"} {
		sets := []string{set, "run.model=gpt-89b", "node.gpus=2", "model.layers=4", "model.tensor_parallel=2"}
		if whole, striped := iterations(t, requests, same, sets...), iterations(t, requests, same, append(sets, "comm.stripe="+over)...); whole != striped {
			t.Errorf("%s: %v, striped %v", over, whole, striped)
		}
	}
}

// TestStripesBalance: striped over ranksets, many units are even within a few percent, and take at most
// 5% longer in total than without stripes. Striped over channels, heads that do not divide take nearly
// half the time.
func TestStripesBalance(t *testing.T) {
	deep.Only(t)
	requests := []traces.Request{{ID: 0, Input: 60_000, Output: 20}, {ID: 1, Input: 30_000, Output: 20}, {ID: 2, Input: 9_000, Output: 20}}
	run := func(requests []traces.Request, sets ...string) (imbalance float64, pim units.Duration) {
		r, _ := drive(t, append(sets, allAtOnce), requests, keep, unseen)
		e := r.Engine.(*l3)
		m := e.Ranksets()
		return m.Ratio(r.hw.Config.Node.Ranksets), e.Flow.Work.Time[flow.OfPIM]
	}
	uneven, whole := run(requests)
	even, parts := run(requests, "comm.stripe=ranksets")
	if even > 1.06 || uneven < 2 || parts < whole || float64(parts) > 1.05*float64(whole) {
		t.Errorf("the busiest rankset takes %.3f times the mean, striped %.3f; all take %v, striped %v", uneven, even, whole, parts)
	}
	requests = []traces.Request{{ID: 0, Input: 16_000, Output: 20}, {ID: 1, Input: 9_000, Output: 20}} // all scores fit the buffer
	_, heads := run(requests, "run.model=llama-3-70b", "policy.name=duo", "comm.head_rotation=none")
	_, striped := run(requests, "run.model=llama-3-70b", "policy.name=duo", "comm.stripe=channels")
	if ratio := float64(heads) / float64(striped); ratio < 1.7 || ratio > 2 {
		t.Errorf("half of the heads on half of the channels take %v, striped %v", heads, striped)
	}
}
