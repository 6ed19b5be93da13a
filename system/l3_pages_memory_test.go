package system

import (
	"testing"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/lab/deep"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestPagesMemory: units of a rank by hand for a request of 20,000 tokens, 40 units of a head. Bounds take a
// unit for each 8,192 tokens; streaming heads one unit, or nothing where they are on the GPUs; layers that differ
// count as on the fullest rank, heads that do not divide as on the fullest channel.
func TestPagesMemory(t *testing.T) {
	deep.Only(t)
	for _, c := range []struct {
		sets []string
		want int64 // of all ranks of a channel
	}{
		{[]string{"policy.name=duo"}, 96 * 3 * 40},
		{[]string{"policy.name=duo", "policy.duo.stream_device=home"}, 96 * (3*40 + 3)},
		{[]string{"policy.name=lserve"}, 96 * 3 * 40},
		{[]string{"policy.name=lserve", "policy.lserve.select_device=bank"}, 96 * 3 * (40 + 3)},
		{[]string{"policy.name=lserve", "policy.lserve.select_device=rank", "policy.lserve.logical_page=64"}, 96 * 3 * (40 + 1)},
		{[]string{"policy.name=quest", "policy.quest.select_device=bank"}, 8 * (12*6*40 + 12*6*3)}, // the fullest ranks have no dense layer
		{[]string{"policy.name=duo", "policy.duo.static_sparsity=0.51"}, 96 * 3 * 40},              // 47 of 96 heads in most layers
		{[]string{"policy.name=duo", "run.model=llama-3-70b"}, 80 * 40},                            // 4 heads on 8 channels
		{[]string{"policy.name=duo", "comm.stripe=ranksets"}, 96 * 3 * 40},
		{[]string{"policy.name=duo", "comm.stripe=channels", "run.model=llama-3-70b"}, 80 * 4 * 40}, // of all channels
		{[]string{"comm.stripe=channels", "run.model=llama-3-70b"}, 80 * 8 * 40},
	} {
		n := nodeOf(t, append(c.sets, "node.ranksets=8", "node.memory_capacity=2TiB")...)
		ledger := rankLedger(n.hw, true)
		if all := n.memory.unit * units.Bytes(n.memory.capacity); all*units.Bytes(n.Replicas()) != n.cfg.Node.MemoryCapacity || ledger.Capacity() != n.memory.capacity {
			t.Errorf("%v: memory of %v, in units %d and %d", c.sets, all, n.memory.capacity, ledger.Capacity())
		}
		ledger.Reserve(memory.Length{Prompt: 20_000, Tokens: 20_000}, nil, 0, nil)
		if got := ledger.Used(); got != c.want {
			t.Errorf("%v: %d units, want %d", c.sets, got, c.want)
		}
	}
}

// TestPagesFillTheGPUs: sinks and windows of streaming heads, and bounds of pages for a request's whole length,
// take what weights leave of the GPUs: no more requests decode at once than have room there.
func TestPagesFillTheGPUs(t *testing.T) {
	const in, out = 4200, 900
	for _, c := range []struct {
		sets []string
		each units.Bytes // of a KV head and layer
	}{
		{[]string{"policy.name=duo", "policy.duo.window=3968"}, 4096 * 512 / 2}, // half of the heads
		{[]string{"policy.name=lserve", "policy.lserve.static_sparsity=0", "policy.lserve.page=16", "policy.lserve.logical_page=2"}, 256 * (in + out - 1)},
		{[]string{"policy.name=lserve", "policy.lserve.window=896", "policy.lserve.page=16", "policy.lserve.logical_page=1"}, 1024*512/2 + 512*(in+out-1)/2},
	} {
		n := nodeOf(t, append(c.sets, "node.memory_capacity=64TiB")...)
		r := mustRun(t, n, &traces.Trace{Requests: equal(60, in, out)}, false)
		if most := int(n.FreeGPUMemory() / (96 * 96 * c.each)); r.batch.Max > most || r.batch.Max < most-3 {
			t.Errorf("%v: %d requests decode at once, the GPUs have room for %d", c.sets, r.batch.Max, most)
		}
	}
}

// TestQuestChoosesInItsLayers: the first layers attend to everything and choose nothing; before each of the others
// the GPUs choose, as the last of what comes before the layer.
func TestQuestChoosesInItsLayers(t *testing.T) {
	const in, layers, heads = 5000, 96, 96
	for _, skip := range []string{"0", "1", "2", "95", "96"} {
		sets := []string{"policy.name=quest", "policy.quest.skip_layers=" + skip, "policy.quest.budget=2048", "policy.quest.page=512", oneBatch, allAtOnce}
		node := nodeOf(t, sets...)
		g := gpu.NewModelCost(&node.cfg.GPU.Spec, &node.cfg.Model)
		ps := func(w gpu.Work) units.Duration { return units.FromSeconds(w.Seconds) }
		n := map[string]units.Duration{"0": 0, "1": 1, "2": 2, "95": 95, "96": 96}[skip]
		busy := units.Duration(0)
		drive(t, sets, equal(1, in, 5), keep, func(r *replica, x driven) {
			e := r.engine.(*l3)
			did := e.flow.work.time[ofGPU] - busy
			busy += did
			if len(x.batch.Sub[0].Decode) == 0 {
				return
			}
			context := x.batch.Sub[0].Decode[0].Context(x.batch.Step)
			pages := gpu.DecodeBatch{Requests: 1, Tokens: int64(context+511) / 512, Longest: (context + 511) / 512, KVHeads: heads}
			chooses := ps(g.Select(gpu.Selection{PageScores: gpu.PageScores{Pages: pages}, Ranked: pages, Keep: 3})) + ps(g.Pass(0, 5*256*heads, 0))
			want := ps(g.Embedding(1)) + layers*ps(g.QKV(1)) + ps(g.LMHead(1)) + layers*ps(g.ProjectionFFN(1)) + (layers-n)*chooses
			if did != want {
				t.Fatalf("%s dense layers, context %d: the GPUs work for %v, want %v", skip, context, did, want)
			}
		})
	}
}
