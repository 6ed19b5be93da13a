package system

import (
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// alike returns requests that arrive together and share the blocks of their first same tokens, followed by
// own tokens each.
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

// TestGroupsReadLess: 64 requests that share 20,480 tokens end sooner than all of their contexts could be read, without breaking a
// law. hbm-pim chooses one batch or two, whichever is faster, also in groups.
func TestGroupsReadLess(t *testing.T) {
	deep.Heavy(t)
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
	for i := range requests { // prompts arrive while others decode
		requests[i].Arrival, requests[i].Output = units.Duration(i)*100*units.Millisecond, 40
	}
	for _, policy := range []string{kinds.PrefillFirst, kinds.ChunkedPrefill} {
		cfg = onceIn(t, "hbm-pim", "hbm_pim.sub_batches=adaptive", "hbm_pim.policy="+policy)
		if r = mustRun(t, mustNode(t, cfg), coming(t, cfg, requests), false); r.cache.Spared == 0 {
			t.Errorf("hbm-pim, %s: %+v", policy, r.cache)
		}
	}
}

// TestGroupOfOne: if no two requests share anything, or too little, group reads change no time.
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
