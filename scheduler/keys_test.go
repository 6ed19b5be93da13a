package scheduler

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/input"
)

// edges gives the least and the largest legal value of a key.
func edges[T any](t *testing.T, key string, legal T, set func(s *T, value int), low, high int) {
	t.Helper()
	for value, ok := range map[int]bool{low - 1: false, low: true, high: true, high + 1: false} {
		s := legal
		set(&s, value)
		faults := input.Faults(any(&s).(input.Checked))
		if (len(faults) == 0) != ok || !ok && faults[0].Key != key {
			t.Errorf("%s = %d: %v", key, value, faults)
		}
	}
}

// TestEdgesOfKeys: the least and the largest legal values.
func TestEdgesOfKeys(t *testing.T) {
	b := BatchingSpec{MaxBatchTokens: 1, PageTokens: 1}
	edges(t, "max_num_batched_tokens", b, func(s *BatchingSpec, v int) { s.MaxBatchTokens = v }, 1, 1<<20)
	edges(t, "page_tokens", b, func(s *BatchingSpec, v int) { s.PageTokens = v }, 1, 1<<16)
	edges(t, "max_num_seqs", b, func(s *BatchingSpec, v int) { s.MaxNumSeqs = v }, 0, 1<<24)
	edges(t, "sampler_bytes", b, func(s *BatchingSpec, v int) { s.SamplerBytes = v }, 0, 1<<10)
	p := PredictorSpec{Kind: PredictLearned, WarmUp: 1, RefitEvery: 1, Window: 4, Trees: 1, MaxDepth: 1, MinLeaf: 1}
	edges(t, "window", p, func(s *PredictorSpec, v int) { s.Window = v }, 4, 1<<16)
	edges(t, "warm_up", p, func(s *PredictorSpec, v int) { s.WarmUp = v }, 1, 1<<16)
	edges(t, "refit_every", p, func(s *PredictorSpec, v int) { s.RefitEvery = v }, 1, 1<<30)
	edges(t, "trees", p, func(s *PredictorSpec, v int) { s.Trees = v }, 1, 1024)
	edges(t, "max_depth", p, func(s *PredictorSpec, v int) { s.MaxDepth = v }, 1, 64)
	edges(t, "min_leaf", p, func(s *PredictorSpec, v int) { s.MinLeaf = v }, 1, 1<<16)
	edges(t, "noise", p, func(s *PredictorSpec, v int) { s.Noise = float64(v) }, 0, 1)
	q := Spec{SubBatches: 1, ChunkMultiple: 1, MinPrefillTokens: 1}
	edges(t, "sub_batches", q, func(s *Spec, v int) { s.SubBatches = v }, 1, 2)
	edges(t, "chunk_multiple", q, func(s *Spec, v int) { s.ChunkMultiple = v }, 1, 4096)
	edges(t, "min_prefill_tokens", q, func(s *Spec, v int) { s.MinPrefillTokens = v }, 1, 1<<20)
	m := MemorySpec{Admission: AdmitFinal, MaxTokens: 1, Spare: SpareOff}
	edges(t, "max_tokens", m, func(s *MemorySpec, v int) { s.MaxTokens = v }, 1, 1<<24)
	edges(t, "history", m, func(s *MemorySpec, v int) { s.History = v }, 0, 1<<20)
	edges(t, "margin", m, func(s *MemorySpec, v int) { s.Margin = float64(v) }, 0, 100)
	edges(t, "watermark", m, func(s *MemorySpec, v int) { s.Watermark = float64(v) / 1000 }, 0, 999)
	c := CacheSpec{Block: 512, PrefixAttention: PrefixOnGPU, Placement: PlaceByPrefix}
	for block, legal := range map[int]bool{0: false, -512: false, 1: true, 16: true, 256: true, 512: true, 1024: true, 1536: true, 3: false, 513: false, 1000: false, 1 << 20: true, 1<<20 + 512: false} {
		s := c
		s.Block = block
		if faults := input.Faults(&s); (len(faults) == 0) != legal {
			t.Errorf("block = %d: %v", block, faults)
		}
	}
	for key, change := range map[string]func(s *CacheSpec){"capacity": func(s *CacheSpec) { s.Capacity = -1 }, "host_capacity": func(s *CacheSpec) { s.HostCapacity = -1 },
		"prefix_attention": func(s *CacheSpec) { s.PrefixAttention = "cpu" }, "placement": func(s *CacheSpec) { s.Placement = "" }} {
		s := c
		change(&s)
		if faults := input.Faults(&s); len(faults) != 1 || faults[0].Key != key {
			t.Errorf("%s: %v", key, faults)
		}
	}
}

// TestNamesOfKeys: a key of names accepts each of its names, and rejects other names and an empty
// one.
func TestNamesOfKeys(t *testing.T) {
	comm := CommSpec{Balance: BalanceLeastLoaded, HeadRotation: RotateRequests, Stripe: StripeNone}
	memory := MemorySpec{Admission: AdmitFinal, MaxTokens: 1, Spare: SpareOff}
	cache := CacheSpec{Block: 512, PrefixAttention: PrefixOnGPU, Placement: PlaceByPrefix}
	predictor := PredictorSpec{Kind: PredictExact, WarmUp: 1, RefitEvery: 1, Window: 4, Trees: 1, MaxDepth: 1, MinLeaf: 1}
	serving := ServingSpec{Router: RouteRoundRobin, BeyondContext: BeyondRefuse}
	for _, k := range []struct {
		key   string
		of    input.Checked
		value *string
		names []string
	}{
		{"balance", &comm, &comm.Balance, []string{BalanceRandom, BalanceRoundRobin, BalanceLeastLoaded, BalanceSplit}},
		{"head_rotation", &comm, &comm.HeadRotation, []string{RotateRequests, RotateNone}},
		{"stripe", &comm, &comm.Stripe, []string{StripeNone, StripeChannels, StripeRanksets}},
		{"admission", &memory, &memory.Admission, []string{AdmitFinal, AdmitCurrent, AdmitMax}},
		{"spare", &memory, &memory.Spare, []string{SpareOff, SpareDecode}},
		{"prefix_attention", &cache, &cache.PrefixAttention, []string{PrefixOnGPU, PrefixOnDIMM}},
		{"placement", &cache, &cache.Placement, []string{PlaceByPrefix, PlaceForBalance}},
		{"kind", &predictor, &predictor.Kind, []string{PredictExact, PredictLearned}},
		{"router", &serving, &serving.Router, []string{RouteRoundRobin, RouteLeastKV, RouteLeastOutstanding, RoutePrefixAffinity}},
		{"beyond_context", &serving, &serving.BeyondContext, []string{BeyondRefuse, BeyondWarn, BeyondClip, BeyondIgnore}},
	} {
		before := *k.value
		for _, name := range append(k.names, "", "other") {
			*k.value = name
			wrong := slices.ContainsFunc(input.Faults(k.of), func(e *input.Error) bool { return e.Key == k.key })
			if want := name == "" || name == "other"; wrong != want {
				t.Errorf("%s = %q is wrong: %t, want %t", k.key, name, wrong, want)
			}
		}
		*k.value = before
	}
}
