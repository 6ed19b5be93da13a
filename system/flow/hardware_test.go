package flow

import (
	"reflect"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// hardware returns a node of llama-3-8b (32 query heads, 8 KV heads of 128 elements) on two replicas of four GPUs.
func hardware(t *testing.T, sets ...string) *Hardware {
	sets = append([]string{`run.model="llama-3-8b"`, "model.tensor_parallel=4"}, sets...)
	cfg, err := configs.New(policies.Builtin(), configs.System{Name: "l3"}).Load(configs.Options{Sets: sets})
	if err != nil {
		t.Fatal(err)
	}
	return &Hardware{Config: cfg}
}

// near reports whether two bandwidths agree to nine digits.
func near(a, b units.Bandwidth) bool { return max(a-b, b-a) <= 1e-9*b }

// TestLinksByHand: GPUs have a link each, or their share of their switch's uplink.
func TestLinksByHand(t *testing.T) {
	const link = 0.5 * 16e9 * 16 / 8 * 128 / 130 // 16 lanes of 16 GT/s in 128b/130b, half of it payload
	for _, c := range []struct {
		set   string
		share float64 // of the link
	}{
		{"pcie.uplink_lanes=0", 1}, {"pcie.uplink_lanes=16", 1}, {"pcie.gpus_per_uplink=2", 1. / 2}, {"pcie.gpus_per_uplink=4 pcie.uplink_lanes=8", 1. / 8}, {"pcie.gpus_per_uplink=4 pcie.uplink_lanes=32", 1. / 2},
		{"pcie.lanes=8 pcie.gpus_per_uplink=1 pcie.uplink_lanes=32", 1. / 2}, // no more than the link itself
	} {
		h := hardware(t, append(fields(c.set), "pcie.efficiency=0.5")...)
		if got, all := h.LinkShare(), h.Links(); !near(got, units.Bandwidth(c.share*link)) || !near(all, 4*units.Bandwidth(c.share*link)) {
			t.Errorf("%s: %v a link, %v of four; by hand %v", c.set, got, all, c.share*link)
		}
	}
}

// TestHardwareByHand: channels of a replica, the cost of joins, what attends, and what a cache of prefixes may
// do.
func TestHardwareByHand(t *testing.T) {
	h := hardware(t, "node.channels=12", "node.ranksets=3", "pcie.join=3us", "pcie.join_all_reduce=7us")
	if got := h.Channels(); !near(got, 6*25.6e9) {
		t.Errorf("six channels of DDR4-3200 carry %v", got)
	}
	for gpus, want := range map[int]units.Duration{1: 3 * units.Microsecond, 2: 7 * units.Microsecond, 4: 7 * units.Microsecond} {
		h.Config.Model.TensorParallel = gpus
		if got := h.Join(); got != want {
			t.Errorf("%d GPUs lose %v, want %v", gpus, got, want)
		}
	}
	if got := h.AttentionDevices(); got != 1 {
		t.Errorf("%d devices beside the GPUs", got)
	}
	h.KV.InDIMM = true
	if got := h.AttentionDevices(); got != 3 {
		t.Errorf("%d ranksets", got)
	}
	for bits := range 32 {
		is := func(bit int) bool { return bits>>bit&1 == 1 }
		h.Config.Cache.Prefix, h.Config.Cache.GroupReads, h.KV.InDIMM, h.Config.Cache.HostCapacity, h.Config.Cache.PrefixAttention = is(0), is(1), is(2), 0, "gpu"
		if is(3) {
			h.Config.Cache.HostCapacity = 1
		}
		if is(4) {
			h.Config.Cache.PrefixAttention = "dimm"
		}
		if h.HostTier() != (is(0) && is(3)) || h.GroupReads() != (is(0) && is(1)) || h.PrefixStays() != (is(0) && is(2) && is(4)) {
			t.Errorf("%+v in DIMMs %v: tier %v, groups %v, prefixes stay %v", h.Config.Cache, is(2), h.HostTier(), h.GroupReads(), h.PrefixStays())
		}
	}
}

// TestShapeByHand: a policy is told the model's shape: layers and heads, one head of values as wide as keys or not, what is stored beside latents, and what steps verify.
func TestShapeByHand(t *testing.T) {
	for _, c := range []struct {
		sets []string
		want policy.Shape
	}{
		{[]string{`run.model="llama-3-70b"`, "model.kv_bits=8"}, policy.Shape{Layers: 80, QueryHeads: 64, KVHeads: 8, Dim: 128, ElementBits: 16, KVBits: 8, KVScaleBytes: 4, Apart: true, Verified: 1, Overlap: 0.65}},
		{[]string{`run.model="llama-3-70b"`, "serving.verified_tokens=4", "serving.verified_overlap=0.5", "serving.acceptance=0.7"}, policy.Shape{Layers: 80, QueryHeads: 64, KVHeads: 8, Dim: 128, ElementBits: 16, KVBits: 16, Apart: true, Verified: 4, Overlap: 0.5}},
		{[]string{`run.model="deepseek-v3"`}, policy.Shape{Layers: 61, QueryHeads: 128, KVHeads: 1, Dim: 576, ElementBits: 16, KVBits: 16, Value: 512, Latent: true, Apart: true, Verified: 1, Overlap: 0.65}},
	} {
		h := hardware(t, c.sets...)
		c.want.Model, c.want.LayerKinds = h.Config.Model.Name, h.Config.Model.LayerKinds
		if got := PolicyShape(h); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: %+v, want %+v", c.sets, got, c.want)
		}
		h.KV.InHBM = true
		if got := PolicyShape(h).ValueCopy; got != int64(2*c.want.Value) { // stacks store the values of latents once more
			t.Errorf("%v: values of %d bytes beside a latent", c.sets, got)
		}
		if h.KV.InGPUs = true; PolicyShape(h).Apart {
			t.Error("keys and values on the GPUs are apart from them")
		}
	}
}

// TestMemoryByHand: each copy of a token takes its bytes, and layers of all runs hold what a policy says.
func TestMemoryByHand(t *testing.T) {
	for _, c := range []struct {
		more         int
		bytes, token units.Bytes
		want         int64
	}{{0, 1000, 10, 100}, {1, 1000, 10, 50}, {3, 1000, 10, 25}, {0, 1009, 10, 100}, {1, 19, 10, 0}} {
		if got := (&KVMemory{More: c.more}).Tokens(c.bytes, c.token); got != c.want {
			t.Errorf("%+v: %d tokens", c, got)
		}
	}
	p := fake{runs: []int{3, 2}, decoding: [][]policy.Held{{{Heads: 4, Bytes: 8}}, {{Heads: 1, Bytes: 8}, {Heads: 5, Bytes: 6}}}, filling: [][]policy.Held{{{Heads: 7, Bytes: 8}}, {{Heads: 2, Bytes: 8, Device: policy.GPU}}}}
	decoding, filling := HeadClasses(p, policy.Home)
	if want := []memory.HeadClass{{Heads: 3*4 + 2*1, TokenBytes: 8}, {Heads: 2 * 5, TokenBytes: 6}}; !slices.Equal(decoding, want) {
		t.Errorf("%+v, want %+v", decoding, want)
	}
	if want := []memory.HeadClass{{Heads: 3 * 7, TokenBytes: 8}}; !slices.Equal(filling, want) {
		t.Errorf("%+v, want %+v", filling, want)
	}
}

// TestKeepingByHand: a cache of 12 GiB for two replicas keeps two blocks of 512 tokens in each, since a token's unit is 1 GiB in
// each of three layers. Its 6 GiB on the host keep one block.
func TestKeepingByHand(t *testing.T) {
	h := hardware(t, "cache.prefix=true")
	h.Config.Cache.Block, h.Config.Cache.Capacity, h.Config.Cache.HostCapacity = 512, 12*units.GiB, 6*units.GiB
	ledger := func() *memory.Ledger {
		return memory.NewLedger(memory.LedgerSpec{Ranksets: 1, Layers: 3, HeadsPerChannel: 1, UnitTokens: 512, Capacity: 100})
	}
	l := h.Keeping(ledger(), units.GiB)
	keep := func(first uint64, blocks int) memory.History {
		r := traces.Request{Input: 512 * blocks, Output: 1}
		for i := range blocks {
			r.Hashes = append(r.Hashes, first+uint64(i))
		}
		history := memory.HistoryOf(&r, 0, r.Input)
		hold, ok := l.Reserve(memory.Prompted(r.Input), &history, 0, nil)
		if !ok {
			t.Fatal("no room")
		}
		l.Keep(&hold, &history)
		l.Release(hold)
		return history
	}
	first := keep(1, 5)
	if got := l.Cached(&first); got != 2*512 {
		t.Errorf("%d tokens are kept, want two blocks", got)
	}
	keep(11, 5)
	if got := l.Cached(&first); got != 512 {
		t.Errorf("%d tokens are kept on the host, want a block", got)
	}
	if h.Config.Cache.Prefix = false; h.Keeping(ledger(), units.GiB).Caches() {
		t.Error("blocks are kept without a cache")
	}
}
