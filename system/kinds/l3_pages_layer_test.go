package kinds

import (
	"testing"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/pim/tables"
	"github.com/l3sim/l3sim/pim/values"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// TestPagesOfOneRequest: with one request and one sub-batch a layer is its tasks in sequence, by hand. Half
// of the heads, 3 a channel, are in the DIMMs. Their q, k and v go down, with a list of 3 pages if the GPUs
// have made one. Each head takes the clocks of a single head's program for its list, and chooses first if
// its rank does; meanwhile the GPUs attend with the other heads.
func TestPagesOfOneRequest(t *testing.T) {
	deep.Heavy(t)
	const in, layers, heads = 6000, 96, 48
	for by, sets := range map[string][]string{
		"gpu": nil, "bank": {"policy.lserve.select_device=bank"}, "rank": {"policy.lserve.select_device=rank"},
		"updated": {"policy.lserve.select_device=bank", "policy.lserve.summary_device=rank"},
	} {
		if by != "bank" && !deep.On() {
			continue
		}
		sets = append(sets, "policy.name=lserve", "policy.lserve.budget=2048", "policy.lserve.page=512", oneBatch, allAtOnce)
		node := rigOf(t, sets...)
		cfg := node.cfg
		links := units.Bandwidth(cfg.Model.TensorParallel) * cfg.PCIe.Bandwidth()
		g := gpu.NewModelCost(&cfg.GPU.Spec, &cfg.Model)
		ps := func(w gpu.Work) units.Duration { return units.FromSeconds(w.Seconds) }
		load := values.PageLoad{Shape: cfg.HeadShape(), Budget: 2048, Page: 512, Logical: 16, Reuse: 1, Select: by, TopK: 64}
		if by == "updated" {
			load.Select = tables.SelectBank
		}
		chose := 0
		drive(t, sets, equal(1, in, 40), keep, func(r *loop, x driven) {
			if len(x.batch.Sub[0].Decode) == 0 {
				return
			}
			load.Context = x.batch.Sub[0].Decode[0].Context(x.batch.Step)
			m, err := values.MeasurePages(&cfg.PIM, &cfg.DRAM.Spec, load)
			if err != nil {
				t.Fatal(err)
			}
			chooses, listed, bursts, written := load.Context == in+1 || load.Context%4 == 0, units.Bytes(0), int64(0), int64(0)
			var first units.Duration
			var select_ int64
			if chooses {
				chose++
				select_ = m.SelectClocks
				if by == "gpu" {
					b := gpu.DecodeBatch{Requests: 1, Tokens: int64(m.Bounds), Longest: m.Bounds, KVHeads: heads}
					pages := (load.Context + 511) / 512
					first = ps(g.Select(gpu.Selection{PageScores: gpu.PageScores{Pages: b}, Ranked: gpu.DecodeBatch{Requests: 1, Tokens: int64(pages), Longest: pages, KVHeads: heads}, Keep: 3}))
					listed, bursts = heads*3*2, 3
				}
			}
			switch {
			case by == "updated":
				written = 212
			case by != "gpu" && load.Context%16 == 0: // a bound of 512 bytes is complete
				listed, bursts, written = listed+heads*512, bursts+3*8, 144
			}
			down := max(links.TransferTime(heads*3*256+listed), refreshed((3*3*4+bursts)*4)) + refreshed(3*4)
			up := max(links.TransferTime(heads*256), refreshed(3*4*4))
			table := node.CommandTables.Kernels.Table
			append_, sequence := table.Alone(m.Tokens)-table.Attention(m.Tokens), table.InSequence(m.Tokens)-table.Attention(m.Tokens)
			compute := refreshed(3*(m.AttentionClocks+select_+written) + append_ + 2*sequence)
			home := cfg.PCIe.Latency + 16*625 + down + compute + 2*122*units.Nanosecond + cfg.PCIe.Latency + 22*625 + up
			near := g.Attention()
			window := ps(near.Decoding(gpu.DecodeBatch{Requests: 1, Tokens: 384, Longest: 384, KVHeads: heads}))
			if by != "updated" { // read the key, update two bounds
				window += ps(g.Pass(0, 5*256*heads, 0))
			}
			want := ps(g.Embedding(1)) + layers*ps(g.QKV(1)) + ps(g.LMHead(1)) + layers*(first+max(home, window)+ps(g.ProjectionFFN(1)))
			if x.took != want {
				t.Fatalf("%s, context %d: %v, its tasks in turn %v", by, load.Context, x.took, want)
			}
		})
		if chose < 9 {
			t.Errorf("%s: %d steps choose", by, chose)
		}
	}
}

// TestQuestChoosesInItsLayers: the first layers attend to everything and choose nothing; for each other layer the
// GPUs choose last before it.
func TestQuestChoosesInItsLayers(t *testing.T) {
	const in, layers, heads = 5000, 96, 96
	for _, skip := range []string{"0", "1", "2", "95", "96"} {
		sets := []string{"policy.name=quest", "policy.quest.skip_layers=" + skip, "policy.quest.budget=2048", "policy.quest.page=512", oneBatch, allAtOnce}
		node := rigOf(t, sets...)
		g := gpu.NewModelCost(&node.cfg.GPU.Spec, &node.cfg.Model)
		ps := func(w gpu.Work) units.Duration { return units.FromSeconds(w.Seconds) }
		n := map[string]units.Duration{"0": 0, "1": 1, "2": 2, "95": 95, "96": 96}[skip]
		busy := units.Duration(0)
		drive(t, sets, equal(1, in, 5), keep, func(r *loop, x driven) {
			e := r.Engine.(*l3)
			did := e.Flow.Work.Time[flow.OfGPU] - busy
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
