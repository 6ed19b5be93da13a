package kinds

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"math"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/units"
)

// TestHeadsOfTheirOwn: a rankset takes as long as the rank with the most clocks of heads; each
// request's blocks of heads begin one channel further; each layer has its own shares.
func TestHeadsOfTheirOwn(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		shares := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0.01, 0.1, 0.3, 0.9}), 16, 16).Draw(t, "shares")
		n := rigOf(t, ownShares(t, dir, shares)...)
		e := n.l3()
		d := e.ranks
		sub := &scheduler.SubBatch{}
		for i := range rapid.IntRange(1, 9).Draw(t, "requests") {
			context := rapid.Int64Range(2, 4000).Draw(t, "context")
			sub.Decode = append(sub.Decode, scheduler.Decoding{Request: int32(i), Offset: int32(i % 2), Base: context, Prompt: 1})
		}
		c := &e.costs
		e.fill(c, &scheduler.Batch{Sub: []scheduler.SubBatch{*sub, {}}})
		for run := range 2 {
			subs := c.of(run)
			x := d.Attends.Decode(sub.Decode, run, 0)
			home := x.Attend[len(x.Attend)-1]
			for offset := range 2 {
				var clocks [4]int64
				for i := offset; i < len(sub.Decode); i += 2 {
					for h := range 8 {
						clocks[d.ChannelOf(int32(i), h)] += d.Sequence.At(home.PerHead[i*8+h])
					}
				}
				busiest := max(clocks[0], clocks[1], clocks[2], clocks[3])
				g := &subs[0].groups[offset]
				if over := g.Clocks + g.Drain - busiest; over < 0 || busiest > 0 && over > 200 || busiest == 0 && g.Clocks+g.Drain != 0 { // the first head's start
					t.Fatalf("layer %d, offset %d: %d clocks, of channels %v", run, offset, g.Clocks+g.Drain, clocks)
				}
				if mean := d.Clock.Time((clocks[0] + clocks[1] + clocks[2] + clocks[3]) / 4); g.Idle < 0 || g.Compute-g.Idle > mean+d.Clock.Time(210) {
					t.Fatalf("layer %d, offset %d: %v of %v idle, the mean rank takes %v", run, offset, g.Idle, g.Compute, mean)
				}
			}
		}
		var m flow.Imbalance
		c.imbalance(&m)
		var busiest, mean units.Duration
		for run := range 2 {
			subs := c.of(run)
			a, b := &subs[0].groups[0], &subs[0].groups[1]
			busiest += max(a.Compute, b.Compute)
			mean += a.Compute - a.Idle + b.Compute - b.Idle
		}
		if want := float64(busiest) * 2 / float64(mean); mean > 0 && math.Abs(m.Ratio(2)/want-1) > 1e-9 {
			t.Fatalf("imbalance %v, want %v", m.Ratio(2), want)
		}
		// Any rank may have the longest heads: two on each channel, with copies of 20,000 tokens less the
		// window.
		ledger := ranks.Ledger(n.Hardware, true)
		each := int64(math.Ceil(math.Ceil(slices.Max(shares)*19920)/512)) + 39
		ledger.Reserve(memory.Length{Prompt: 20_000, Tokens: 20_000}, nil, 0, nil)
		if got := ledger.Used(); got != 2*2*each {
			t.Fatalf("a request of 20,000 tokens takes %d units, want %d", got, 2*2*each)
		}
	})
}

// ownShares returns the keys of a small model with 8 heads in each of 2 layers; a file in dir gives each head its own share.
func ownShares(t interface{ Fatal(...any) }, dir string, shares []float64) []string {
	const heads = 8
	spec := policies.New("hgca")
	policy.Edit(&spec, func(h *policies.HGCASpec) { h.Window, h.Block = 96, 16 })
	profile := policy.Profile{
		Model:    policy.ProfileModel{Name: "gpt-89b", Layers: len(shares) / heads, Heads: heads, KVHeads: heads, HeadDim: 128},
		Measured: policy.ProfileMeasured{Prompt: 10, Last: 20000, Contexts: []int{11, 500}}, Policy: spec,
	}
	for _, share := range shares {
		profile.Heads = append(profile.Heads, policy.ProfileHead{Share: []float64{share / 2, share}, Rows: []float64{1, 1}})
	}
	path := filepath.Join(dir, "profile.toml")
	var text strings.Builder
	if err := profile.Write(&text); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{
		"run.model=gpt-89b", "policy.name=hgca", "policy.hgca.window=96", "policy.hgca.block=16", "policy.profile=" + path, "node.gpus=2", "node.channels=4",
		"model.layers=2", "model.hidden=1024", "model.heads=8", "model.kv_heads=8", "model.head_dim=128", "model.ffn_hidden=4096", "model.tensor_parallel=2",
	}
}
