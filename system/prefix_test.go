package system

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// prefixTTFT returns the time to first token of a prompt of 1,500 tokens, 1,024 of which another one has cached, and that of
// the chunk of 476 tokens of the same prompt prefilled in two.
func prefixTTFT(t *testing.T, system string, sets ...string) (hit, chunk units.Duration, r *Result) {
	t.Helper()
	requests := apart([]traces.Request{{Input: 1024, Output: 1, Hashes: []uint64{1, 2}}, {Input: 1500, Output: 1, Hashes: []uint64{1, 2, 3}}})
	cfg := onceIn(t, system, sets...)
	r, err := mustNode(t, cfg).Run(context.Background(), coming(t, cfg, requests), Options{Check: true, Iterations: true})
	if err != nil {
		t.Fatal(err)
	}
	if first, second := &r.Iterations[0], &r.Iterations[len(r.Iterations)-1]; second.PrefixTokens != 1024 || first.PrefixTokens+int(first.Cached) != 0 || second.Cached != 1024*cfg.Model.KVBytesPerToken() {
		t.Errorf("%s: iterations %+v and %+v, with 1,024 tokens of a prefix", system, first, second)
	}
	hit = r.Requests[1].FirstToken - r.Requests[1].Request.Arrival
	cut := onceIn(t, system, "batching.max_num_batched_tokens=1024", "scheduler.min_prefill_tokens=1024", "cache.prefix=false")
	alone, err := mustNode(t, cut).Run(context.Background(), &traces.Trace{Name: "x", Requests: requests[1:]}, Options{Check: true, Iterations: true})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(alone.Iterations); n != 2 {
		t.Fatalf("%s: %d iterations", system, n)
	}
	return hit, alone.Iterations[1].End - alone.Iterations[1].Start, r
}

// TestPrefixTime: on GPUs the rest of a prompt costs as much as the second chunk of a prompt cut there. With DIMMs the prefix also
// comes up in each layer: a row of 512 tokens' keys takes 16 activations (114 clocks), tRCD, 2,047 more bursts, tRTP and tRP,
// values the same; then it crosses the link. Both run in sequence, and attention on the GPUs waits.
func TestPrefixTime(t *testing.T) {
	deep.Heavy(t)
	for _, system := range []string{"gpu-only", "hbm-pim"} {
		if hit, chunk, r := prefixTTFT(t, system); hit != chunk || r.cache.HitTokens != 1024 || r.cache.Transferred != 0 {
			t.Errorf("%s: %v to the first token, the second chunk of a prompt takes %v; %+v", system, hit, chunk, r.cache)
		}
	}
	hit, chunk, r := prefixTTFT(t, "rank-pim")
	cfg := onceIn(t, "rank-pim")
	hidden := 32 * flow.TransferTime(mustNode(t, cfg).hw.LinkShare(), 1024*cfg.Model.KVBytesPerTokenLayer())
	if got := r.busy.PCIeUp * float64(r.end); hit != chunk || math.Abs(got/float64(hidden)-1) > 1e-9 || r.cache.Transferred != int64(1024*cfg.Model.KVBytesPerToken()) {
		t.Errorf("rank-pim: %v to the first token, the second chunk of a prompt takes %v; links are busy for %v ps, want %v; %+v", hit, chunk, got, hidden, r.cache)
	}
	hit, chunk, r = prefixTTFT(t, "l3")
	cfg = onceIn(t, "l3")
	n := mustNode(t, cfg)
	const layers, heads, rows = 32, 8 / 4, 2 * 2
	clock := dataflow.NewClock(cfg.DRAM.TCK, int64(cfg.DRAM.TREFI), int64(cfg.DRAM.TREFI-cfg.DRAM.TRFC))
	read := clock.Time(heads * rows * (114 + 22 + 2032*4 + 34))
	bytes := units.Bytes(1024) * cfg.Model.KVBytesPerTokenLayer()
	up := flow.TransferTime(n.hw.LinkShare(), bytes)
	if more := hit - chunk; more != layers*(read+ranks.New(n.hw, flow.NewAttends(n.hw), n.Kernels).UpLatency+up) || r.cache.Transferred != int64(layers*bytes) {
		t.Errorf("l3: %v more than a second chunk, want %d times %v and %v; %+v", more, layers, read, up, r.cache)
	}
	// If the CPU transposes elements, it does so again.
	cpu, first, _ := prefixTTFT(t, "l3", "pim.relayout=cpu")
	again := units.Duration(pim.CPUTranspositionClocks(&cfg.DRAM.Spec, heads*rows*512*4)) * cfg.DRAM.TCK
	if more := cpu - first; more != hit-chunk+layers*again {
		t.Errorf("l3 with transposition: %v more than a second chunk, want %v and %d times %v", more, hit-chunk, layers, again)
	}
	// A prefix that comes up occupies the channels as long as if it were written once more.
	for system, relayout := range map[string]string{"l3": "cpu", "rank-pim": "in-flight"} {
		_, _, r := prefixTTFT(t, system, "pim.relayout="+relayout)
		cold := onceIn(t, system, "pim.relayout="+relayout, "cache.capacity=0B")
		w := mustRun(t, mustNode(t, cold), coming(t, cold, apart([]traces.Request{{Input: 1024, Output: 1}, {Input: 1500, Output: 1}})), false)
		if got, want := r.busy.Channel*float64(r.end), w.busy.Channel*float64(w.end); math.Abs(got/want-1) > 1e-3 {
			t.Errorf("%s: the channels carry data for %.3f ms, want %.3f", system, got/1e9, want/1e9)
		}
	}
}

// TestPrefixAtHome: if the ranks attend over the prefix for each of a prompt's tokens, they work as for that many heads of
// requests with that context, read as many tokens, and nothing comes up.
func TestPrefixAtHome(t *testing.T) {
	deep.Heavy(t)
	const layers, heads, tokens, prefix = 32, 8, 476, 1024
	requests := apart([]traces.Request{{Input: prefix, Output: 1, Hashes: []uint64{1, 2}}, {Input: prefix + tokens, Output: 1, Hashes: []uint64{1, 2, 3}}})
	for _, system := range []string{"l3", "rank-pim"} {
		cfg := onceIn(t, system, "cache.prefix_attention=dimm")
		n := mustNode(t, cfg)
		trace := coming(t, cfg, requests)
		replicas := n.divide(trace, Options{Check: true}, false)
		if err := n.serve(context.Background(), trace, replicas, false); err != nil {
			t.Fatal(err)
		}
		clock, head, first := dataflow.NewClock(cfg.DRAM.TCK, int64(cfg.DRAM.TREFI), int64(cfg.DRAM.TREFI-cfg.DRAM.TRFC)), n.Kernels.Stored.Table.InSequence(prefix), n.Kernels.Stored.Table.Alone(prefix)
		want := layers * clock.Time(tokens*heads/4*head+first-head)
		b, c := &replicas[0].tallied.busy, n.cacheOf(replicas)
		does := (machine.Activity{}).Plus(n.Kernels.Stored.Table.Activity(prefix), layers*heads*tokens) // nothing is appended
		if got := b.Time[flow.OfPIM].Picoseconds(); got != float64(want) || b.Ranks != does {
			t.Errorf("%s: ranks work for %v ps and do %+v, want %v and %+v", system, got, b.Ranks, want, does)
		}
		if c.HitTokens != prefix || c.Transferred != 0 {
			t.Errorf("%s: %+v", system, c)
		}
		// Outputs of 32 query heads, and maximum and sum of the softmax of each, in FP16.
		if got, want := b.Time[flow.OfUp].Picoseconds(), float64(layers*flow.TransferTime(n.hw.LinkShare(), tokens*32*(128*2+4))); got != want {
			t.Errorf("%s: outputs take the links %v ps, want %v", system, got, want)
		}
	}
}

// TestTierTime: a prefix evicted to the host comes back in the iteration that needs it, which takes at least the links' time for
// it; the blocks evicted in its place go down at the same time.
func TestTierTime(t *testing.T) {
	const blocks = 40
	requests := make([]traces.Request, 4)
	for i := range requests {
		requests[i] = traces.Request{Input: blocks*512 + 16, Output: 1}
		for b := range blocks + 1 {
			requests[i].Hashes = append(requests[i].Hashes, uint64(i%2*100+b))
		}
	}
	for _, system := range []string{"gpu-only", "hbm-pim"} {
		cfg := onceIn(t, system, "cache.capacity=2560MiB", "cache.host_capacity=2560MiB") // 64 MiB a block
		n := mustNode(t, cfg)
		r := mustRun(t, n, coming(t, cfg, apart(requests)), false)
		bytes := blocks * 512 * cfg.Model.KVBytesPerToken()
		want := flow.TransferTime(n.hw.LinkShare(), bytes)
		// The second request evicted the first one's prefix, which has gone down before the third arrives. The third gets it back, and
		// the second one's goes down; the fourth exchanges them again.
		for _, i := range []int{2, 3} {
			if got := r.Requests[i].FirstToken - r.Requests[i].Request.Arrival; got != want {
				t.Errorf("%s: %v to the first token, the links take %v", system, got, want)
			}
		}
		// If it arrives sooner, the rest goes down with it.
		for _, gap := range []units.Duration{0, want / 3, want - 1} {
			soon := slices.Clone(requests[:3])
			soon[2].Arrival = r.Requests[1].Finish + gap
			s := mustRun(t, n, coming(t, cfg, soon), false)
			if got := s.Requests[2].FirstToken - soon[2].Arrival; got < 2*want-gap || got > 2*want-gap+40 { // whole bytes
				t.Errorf("%s: %v to the first token %v after the second request, want %v", system, got, gap, 2*want-gap)
			}
		}
		if c := r.cache; c.HitTokens != 2*blocks*512 || c.Transferred != 2*int64(bytes) || c.Offloaded != 3*int64(bytes) || c.Peak != int64(bytes) {
			t.Errorf("%s: %+v, %d bytes come back twice", system, c, bytes)
		}
		down, up := r.busy.PCIeDown*float64(r.end), r.busy.PCIeUp*float64(r.end)
		if math.Abs(down/float64(3*want)-1) > 1e-9 || math.Abs(up/float64(2*want)-1) > 1e-9 {
			t.Errorf("%s: links are busy for %.3f and %.3f ms", system, down/1e9, up/1e9)
		}
	}
	none := onceIn(t, "gpu-only", "cache.capacity=2560MiB")
	if c := mustRun(t, mustNode(t, none), coming(t, none, apart(requests)), false).cache; c.HitTokens != 0 || c.Offloaded != 0 {
		t.Errorf("without a host: %+v", c)
	}
}
