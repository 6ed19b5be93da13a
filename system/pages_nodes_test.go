package system

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// drawPages draws settings of policies that choose pages or stream.
func drawPages(t *rapid.T, kvHeads int, staggered bool) policy.Spec {
	number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	pick := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	p := policies.New(pick("policy", "quest", "lserve", "lserve", "duo"))
	pages := func(s *policy.PagesSpec) {
		s.Page = 16 << number("log page", 0, 6)
		s.Budget = s.Page * number("pages", 1, 5)
		if s.Layout = "row"; s.Page == 128 && staggered {
			s.Layout = pick("layout", "row", "quad")
		}
		s.SelectDevice, s.SelectGroup = pick("by", "gpu", "bank", "rank"), pick("group", "sum", "softmax-sum", "max", "per-head")
		if s.SelectDevice != "gpu" {
			s.SummaryDevice = pick("summaries", "gpu", "rank")
		}
	}
	heads := func(h *policy.HeadsSpec) {
		h.StaticSparsity, h.StreamDevice = float64(number("streaming", 0, kvHeads))/float64(kvHeads), pick("streams", "gpu", "home")
		h.Sink, h.Window = number("sink", 0, 40), number("window", 1, 100)
	}
	switch p.Name {
	case "quest":
		policy.Edit(&p, func(s *policies.QuestSpec) {
			pages(&s.PagesSpec)
			s.SkipLayers = number("skipped", 0, 3)
		})
	case "lserve":
		policy.Edit(&p, func(s *policies.LServeSpec) {
			pages(&s.PagesSpec)
			heads(&s.HeadsSpec)
			s.LogicalPage, s.Reuse = s.Page>>number("log parts", 0, 4), number("reuse", 1, 5)
			s.Newest = pick("newest", "append", "replace")
		})
	case "duo":
		policy.Edit(&p, func(s *policies.DuoSpec) { heads(&s.HeadsSpec) })
	}
	return p
}

// TestPagesNodes runs random small nodes with random policies of pages, under all checks and layer by layer.
// The streaming heads differ from layer to layer and do not divide over the channels.
func TestPagesNodes(t *testing.T) {
	fewCases(t, func(t *rapid.T) {
		cfg, trace := drawNode(t)
		if rapid.Bool().Draw(t, "grouped") {
			cfg.Model.KVHeads = 4
		}
		cfg.Policy = drawPages(t, 40, cfg.PIM.Activation == pim.Staggered)
		cfg.Comm.HeadRotation = rapid.SampledFrom([]string{scheduler.RotateRequests, scheduler.RotateNone}).Draw(t, "head rotation")
		runBothWays(t, cfg, trace)
	})
}

// TestPagesMemory: units of a rank by hand for a request of 20,000 tokens, 40 units of a head. Bounds take a unit
// for each 8,192 tokens; streaming heads one unit, or nothing if they are on the GPUs. Layers that differ count
// as on the fullest rank, heads that do not divide as on the fullest channel.
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
		ledger := ranks.Ledger(n.hw, true)
		if all := n.memory.Unit * units.Bytes(n.memory.Capacity); all*units.Bytes(n.Replicas()) != n.cfg.Node.MemoryCapacity || ledger.Capacity() != n.memory.Capacity {
			t.Errorf("%v: memory of %v, in units %d and %d", c.sets, all, n.memory.Capacity, ledger.Capacity())
		}
		ledger.Reserve(memory.Length{Prompt: 20_000, Tokens: 20_000}, nil, 0, nil)
		if got := ledger.Used(); got != c.want {
			t.Errorf("%v: %d units, want %d", c.sets, got, c.want)
		}
	}
}

// TestPagesFillTheGPUs: sinks and windows of streaming heads, and bounds of pages for a request's final length,
// take the GPU memory that weights leave, which limits the number of decoding requests.
func TestPagesFillTheGPUs(t *testing.T) {
	deep.Heavy(t)
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
		r := mustRun(t, n, &traces.Trace{Requests: equalLengths(60, in, out)}, false)
		if most := int(n.FreeGPUMemory() / (96 * 96 * c.each)); r.batch.Max > most || r.batch.Max < most-3 {
			t.Errorf("%v: %d requests decode at once, the GPUs have room for %d", c.sets, r.batch.Max, most)
		}
	}
}
