package system

import (
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/lab/deep"
	"github.com/l3sim/l3sim/pim/tables"
	"github.com/l3sim/l3sim/pim/values"
	"github.com/l3sim/l3sim/units"
)

// TestPagesOfOneRequest: with one request and one sub-batch a layer is its tasks in turn, by hand.
// Half of the heads, 3 a channel, are in the DIMMs. Their q, k and v go down, with a list of 3 pages where
// the GPUs have made one; each head attends over the clocks that the program of a single head takes for its
// list, and chooses before where its rank does; the GPUs attend with the other heads meanwhile.
func TestPagesOfOneRequest(t *testing.T) {
	const in, layers, heads = 6000, 96, 48
	for by, sets := range map[string][]string{
		"gpu": nil, "bank": {"policy.lserve.select_device=bank"}, "rank": {"policy.lserve.select_device=rank"},
		"updated": {"policy.lserve.select_device=bank", "policy.lserve.summary_device=rank"},
	} {
		if by != "bank" && by != "gpu" && !deep.On() {
			continue
		}
		sets = append(sets, "policy.name=lserve", "policy.lserve.budget=2048", "policy.lserve.page=512", oneBatch, allAtOnce)
		node := nodeOf(t, sets...)
		cfg := node.cfg
		links := units.Bandwidth(cfg.Model.TensorParallel) * cfg.PCIe.Bandwidth()
		g := gpu.NewModelCost(&cfg.GPU.Spec, &cfg.Model)
		ps := func(w gpu.Work) units.Duration { return units.FromSeconds(w.Seconds) }
		load := values.PageLoad{Shape: cfg.HeadShape(), Budget: 2048, Page: 512, Logical: 16, Reuse: 1, Select: by, TopK: 64}
		if by == "updated" {
			load.Select = tables.SelectBank
		}
		chose := 0
		drive(t, sets, equal(1, in, 40), keep, func(r *replica, x driven) {
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
				select_ = m.SelectCycles
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
			down := max(links.TransferTime(heads*3*256+listed), refreshedTime((3*3*4+bursts)*4)) + refreshedTime(3*4)
			up := max(links.TransferTime(heads*256), refreshedTime(3*4*4))
			table := node.kernels.table
			append_, sequence := table.Alone(m.Tokens)-table.Attention(m.Tokens), table.InSequence(m.Tokens)-table.Attention(m.Tokens)
			compute := refreshedTime(3*(m.AttentionCycles+select_+written) + append_ + 2*sequence)
			home := cfg.PCIe.Latency + 16*625 + down + compute + 2*122*units.Nanosecond + cfg.PCIe.Latency + 22*625 + up
			near := g.Attention()
			window := ps(near.Decoding(gpu.DecodeBatch{Requests: 1, Tokens: 384, Longest: 384, KVHeads: heads}))
			if by != "updated" { // the key in, two bounds in and out
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

// TestChoiceClocks: what a choice takes of a head's rank by hand: 64 clocks for 16 bounds with each further pass, a
// clock for each page and query head where scores are normalised, and 64 from the last score to the list.
func TestChoiceClocks(t *testing.T) {
	for group, want := range map[string]int64{ // 500 bounds of 32 chunks in two rows
		"sum": 235 + 31*64 + 162, "max": 0, "softmax-sum": 4 * 125, "per-head": 0,
	} {
		n := nodeOf(t, "run.model=llama-3-8b", "policy.name=lserve", "policy.lserve.select_device=bank", "policy.lserve.select_group="+group)
		d := devicesOf(n)
		s := n.cfg.Policy.Pages()
		x := policy.Step{Choose: []policy.Choice{{Device: "bank", Heads: 4, Scored: []int{500}, Ranked: []int{125}, Keep: 63, PerQueryScores: group != "sum", Softmax: group == "softmax-sum"}}}
		got, v := d.chooses(&x, 0)
		if group != "sum" { // four passes
			want += d.bounds.Select(500) - int64(s.TopKLatency)
			if passes := d.bounds.Select(512) - d.bounds.Select(496); passes != 4*64 {
				t.Errorf("%s: 16 bounds more take %d clocks", group, passes)
			}
		}
		if got != want+64 || v != (vectors{}) {
			t.Errorf("%s: %d clocks and %+v, want %d", group, got, v, want+64)
		}
	}
}
