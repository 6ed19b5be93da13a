package gpus

import (
	"math"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// held is a policy with given tokens for each run of layers.
type held struct {
	policy.Costs
	layers []int
	of     [][]policy.Held
}

func (h held) Runs() []int { return h.layers }

func (h held) Memory(run int) (decoding, filling []policy.Held) { return h.of[run], nil }

// TestWindowsOfRuns: what the GPUs hold of heads and layers adds up. A token has all 32 layers of 8 heads, and part of a token takes a whole one.
func TestWindowsOfRuns(t *testing.T) {
	h := gpusOf(t, "run.model=llama-3-8b")
	token := int64(h.Config.Model.KVBytesPerToken()) / (32 * 8)
	p := held{layers: []int{20, 12}, of: [][]policy.Held{
		{
			{Device: policy.Home, Heads: 8, Bytes: token, Most: 1000}, {Device: policy.GPU, Heads: 6, Bytes: token, Most: 100}, {Device: policy.GPU, Heads: 2, Bytes: token, OfPrompt: true},
			{Device: policy.GPU, Heads: 4, Bytes: token, Share: 0.5}, {Device: policy.GPU, Heads: 3, Bytes: token, AfterPrompt: true},
		},
		{
			{Device: policy.GPU, Heads: 8, Bytes: token, Most: 7}, {Device: policy.GPU, Heads: 5, Bytes: token / 2, OfPrompt: true, Share: 0.25},
			{Device: policy.GPU, Heads: 3, Bytes: token}, {Device: policy.GPU, Heads: 1, Bytes: token, AfterPrompt: true, Share: 0.5},
		},
	}}
	tokens, ofPrompt, ofAll := Windows(h, p)
	most := (20*6*100 + 12*8*7) / 256.
	prompt, all := (20*2+12*5*0.5*0.25-20*3-12*0.5)/256, (20*4*0.5+12*3+20*3+12*0.5)/256
	if tokens != int(math.Ceil(most)) || math.Abs(ofPrompt-prompt) > 1e-12 || math.Abs(ofAll-all) > 1e-12 {
		t.Errorf("%d tokens, %v of the prompt, %v of all; by hand %v, %v, %v", tokens, ofPrompt, ofAll, most, prompt, all)
	}
}

// TestNewByHand: two GPUs have twice the bandwidth; a part of a system is on its side; the initial state of
// memories.
func TestNewByHand(t *testing.T) {
	h := gpusOf(t, "run.model=llama-3-8b", "node.gpus=2", "model.tensor_parallel=2")
	d := New(h)
	if d.HBMPeak != 2*h.Config.GPU.MemoryBandwidth || d.Side() != &d || d.measured != h.Config.GPU.Range() {
		t.Errorf("%v", d.HBMPeak)
	}
	m := Memories(h)
	if m.Ledger.Capacity() != Memory(h).Capacity || m.GPU.Model != &h.Config.Model || m.GPU.Free != h.Config.Workspace() || !m.GPU.HoldsKV {
		t.Errorf("%+v", m.GPU)
	}
	h.KV = flow.Place{Name: "on the ranks", InDIMM: true}
	if spare := OfSpare(h); !spare.KV.InGPUs || spare.KV.InDIMM || h.KV.InGPUs || spare.Config != h.Config {
		t.Errorf("%+v of %+v", spare.KV, h.KV)
	}
	// If layers differ, a unit is a page of bytes in one layer.
	h = gpusOf(t, "run.model=llama-3-8b", "policy.name=duo", "policy.duo.static_sparsity=0.5", "batching.page_tokens=16")
	if p := Pages(h, 7); p.Layers != 1 || p.UnitBytes != int64(8*units.KiB) || p.Capacity != 7 || p.HeadsPerChannel != 8 || p.UnitTokens != 16 || len(p.Classes) != 2 || len(p.Filling) == 0 {
		t.Errorf("%+v", p)
	}
}

// TestTierByHand: only a cache of prefixes with memory on the host has its links and channels, and an iteration then uses
// them.
func TestTierByHand(t *testing.T) {
	for _, sets := range [][]string{{"run.model=llama-3-8b"}, {"run.model=llama-3-8b", "cache.prefix=true", "cache.host_capacity=10GB", "node.gpus=2", "model.tensor_parallel=2"}} {
		h := gpusOf(t, sets...)
		a := flow.NewAttends(h)
		x := NewTier(h, a)
		if len(sets) == 1 {
			if x != (Tier{}) || len(x.Beside("", OnDevice)) != 1 || len(x.Beside("CPU", OnDown)) != 2 {
				t.Errorf("%+v without a tier", x)
			}
			x.Swap(nil, &scheduler.Moves{Down: scheduler.Move{Tokens: 9}}, 1)
			x.Hide(nil)
			continue
		}
		if x != (Tier{link: 2 * h.LinkShare(), channels: h.Channels(), token: 128 * units.KiB, attends: a}) {
			t.Errorf("%+v", x)
		}
		var names []string
		for _, r := range x.Beside("CPU", OnDevice) {
			names = append(names, r.Name)
		}
		if !slices.Equal(names, []string{"GPU", "CPU", "PCIe down", "PCIe up", "channels"}) {
			t.Errorf("%v", names)
		}
	}
}

// TestStretchesLeave: the runs chosen for a batch are kept until requests arrive or leave. For a sub-batch without shared
// blocks nothing is kept.
func TestStretchesLeave(t *testing.T) {
	d := New(gpusOf(t, "run.model=llama-3-8b"))
	sub := &scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: 4999}, {Base: 3999}}, Shared: []scheduler.Shared{{Tokens: 2048, Requests: []int32{0, 1}}}}
	asked := 0
	took := func(rest gpu.DecodeBatch, _, _ gpu.Work) float64 {
		asked++
		return float64(rest.Tokens)
	}
	g := &d.Grouping
	for i, b := range []scheduler.Batch{{Grouped: 1, Step: 1}, {Grouped: 1, Step: 2}, {Grouped: 2, Step: 3}} {
		g.Group(&d, sub, &b, took)
		left := int64(5000+4000+2*i) - 2*2048
		if want := []int{2, 2, 4}[i]; asked != want || g.Rest != (gpu.DecodeBatch{Requests: 2, Tokens: left, Longest: 5000 + i - 2048, KVHeads: 8}) || g.Spared != 2048 {
			t.Errorf("step %d: asked %d times, by hand %d; %+v", i, asked, want, g.Rest)
		}
	}
	sub.Shared = nil
	if g.Group(&d, sub, &scheduler.Batch{Grouped: 3, Step: 4}, took); len(g.Groups) != 0 || g.Spared != 0 || asked != 4 {
		t.Errorf("%+v, asked %d times", g.Groups, asked)
	}
}
