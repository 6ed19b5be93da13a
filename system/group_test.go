package system

import (
	"context"
	"fmt"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// alike returns requests that come at once and begin with so many same blocks; each has as many of its own.
func alike(requests, same, own, output int) []traces.Request {
	all := make([]traces.Request, requests)
	for i := range all {
		r := &all[i]
		*r = traces.Request{ID: i, Input: (same+own)*traces.BlockTokens + 8*i + 1, Output: output}
		for b := range same {
			r.Hashes = append(r.Hashes, uint64(b))
		}
		for b := range own + 1 {
			r.Hashes = append(r.Hashes, uint64(1000*(i+1)+b))
		}
	}
	return all
}

// TestGroupReads: 12 requests that share 8,192 of some 9,217 tokens. An iteration in which all decode takes, in each layer, one kernel
// over the 8,192 tokens for all of them, one over 1,024 tokens and more of each, and a merge, in place of one over all contexts. Units in
// HBM attend over the rest beside the kernel.
func TestGroupReads(t *testing.T) {
	const requests, shared, layers = 12, 8192, 32
	for _, system := range []string{"gpu-only", "hbm-pim"} {
		took := map[bool][]units.Duration{}
		for _, grouped := range []bool{false, true} {
			cfg := onceIn(t, system, fmt.Sprint("cache.group_reads=", grouped), "gpu.power.throttle=0", "hbm_pim.sub_batches=never")
			r, err := mustNode(t, cfg).Run(context.Background(), coming(t, cfg, alike(requests, shared/512, 2, 4)), Options{Check: true, Iterations: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range r.Iterations {
				if x.Decoding == requests {
					took[grouped] = append(took[grouped], x.End-x.Start)
				}
			}
			if want := int64(3 * (requests - 1) * shared); len(took[grouped]) != 3 || grouped && r.cache.Spared != want || !grouped && r.cache.Spared != 0 {
				t.Errorf("%s, group reads %v: %d iterations, %d tokens spared, want %d", system, grouped, len(took[grouped]), r.cache.Spared, want)
			}
		}
		cfg := onceIn(t, system)
		cost := gpu.NewModelCost(&cfg.GPU.Spec, &cfg.Model)
		attend := func(b gpu.DecodeBatch) units.Duration { return sumOf(cost.DecodeBatch(b)).time }
		merge := sumOf(cost.MergeParts(requests, 2*requests)).time
		once := sumOf(cost.Kernel(cfg.GPU.SharedAttentionCost([]gpu.Shared{{Requests: requests, Tokens: shared}}, gpu.Heads{Query: 32, KV: 8, Dim: 128, ElementBits: 16}))).time
		for step := range 3 {
			var all, rest gpu.DecodeBatch
			for i := range requests {
				all.Add(shared + 1024 + 8*i + 2 + step)
				rest.Add(1024 + 8*i + 2 + step)
			}
			want := layers * (attend(all) - attend(rest) - once - merge)
			if system == "hbm-pim" {
				e := hbmOf(t, cfg)
				all.KVHeads, rest.KVHeads = 8, 8
				want = layers * (e.took(all, 4) - max(e.took(rest, 4), once) - merge)
			}
			if got := took[false][step] - took[true][step]; got != want || want < 0 {
				t.Errorf("%s, step %d: %v less, want %v", system, step, got, want)
			}
		}
	}
}

// TestGroupsReadLess: 64 requests that share 20,480 tokens end sooner than all of their contexts could be read, which a checked run
// knows. Where hbm-pim runs them in one batch or two as is faster, it does so in groups, too.
func TestGroupsReadLess(t *testing.T) {
	requests := alike(64, 40, 0, 600)
	requests[0].Output = 1
	for i := range requests[1:] {
		requests[1+i].Arrival = 4 * units.Second
	}
	cfg := onceIn(t, "gpu-only")
	r := mustRun(t, mustNode(t, cfg), coming(t, cfg, requests), false)
	read := 63 * 599 * 20480 * float64(cfg.Model.KVBytesPerToken())
	if bound := read / float64(cfg.GPU.MemoryBandwidth); r.end.Seconds() > bound || r.cache.Spared < 62*598*20480 {
		t.Errorf("a run of %v, all contexts take %.1f s; %d tokens spared", r.end, bound, r.cache.Spared)
	}
	for i := range requests { // prompts come while others decode
		requests[i].Arrival, requests[i].Output = units.Duration(i)*100*units.Millisecond, 40
	}
	for _, policy := range []string{PrefillFirst, ChunkedPrefill} {
		cfg = onceIn(t, "hbm-pim", "hbm_pim.sub_batches=adaptive", "hbm_pim.policy="+policy)
		if r = mustRun(t, mustNode(t, cfg), coming(t, cfg, requests), false); r.cache.Spared == 0 {
			t.Errorf("hbm-pim, %s: %+v", policy, r.cache)
		}
	}
}

// TestGroupOfOne: where no two requests share anything, or too little, group reads change no time.
func TestGroupOfOne(t *testing.T) {
	for _, requests := range [][]traces.Request{alike(1, 16, 2, 5), alike(12, 0, 3, 5), alike(2, 1, 16, 5), apart(alike(4, 16, 2, 5))} {
		var got [2]string
		each := onceIn(t, "gpu-only", "cache.group_reads=false")
		for i, cfg := range []*configs.Config{each, onceIn(t, "gpu-only")} {
			r := mustRun(t, mustNode(t, cfg), coming(t, cfg, requests), false)
			if got[i] = text(t, each, r); r.cache.Spared > 0 {
				t.Errorf("%d requests: %d tokens spared", len(requests), r.cache.Spared)
			}
		}
		if got[0] != got[1] {
			t.Errorf("each by itself\n%s\nin groups\n%s", got[0], got[1])
		}
	}
}
