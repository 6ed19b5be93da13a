package system

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// indexedModel is a model of twelve layers with latents and an indexer.
var indexedModel = []string{"run.system=gpu-only", "run.model=llama-3-8b", "model.layers=12", "model.tensor_parallel=2", "node.gpus=2", "model.kv_heads=1", "model.head_dim=576",
	"model.latent_dim=512", "model.nope_dim=128", "model.value_dim=128", "model.query_rank=1536", "model.index_heads=32", "model.index_dim=128", "model.index_top_k=512"}

func indexedRun(t *testing.T, sets ...string) (*Node, *Result) {
	t.Helper()
	n := nodeOf(t, append(indexedModel[:len(indexedModel):len(indexedModel)], sets...)...)
	return n, mustRun(t, n, &traces.Trace{Requests: windowRequests}, false)
}

// indexedPlaces are the systems that run a model with an indexer, with their keys that affect it.
var indexedPlaces = [][]string{{"run.system=gpu-only"}, {"run.system=l3"}, {"run.system=l3", "comm.stripe=channels"}, {"run.system=l3", "comm.rotation=false", "memory.spare=decode"},
	{"run.system=hbm-pim"}, {"run.system=hbm-pim", "hbm_pim.model=commands"}, {"run.system=hbm-pim", "hbm_pim.model=commands", "hbm_pim.placement=channel"}}

// TestTopKOfWholeContexts: an indexer that chooses all tokens of every context changes no request's time, and dense attention of the same
// model takes as long. Units attend as long as for the model without an indexer; only the GPUs' products and index keys are added.
func TestTopKOfWholeContexts(t *testing.T) {
	deep.Heavy(t)
	for i, place := range indexedPlaces {
		if !deep.Case(i, len(indexedPlaces)) {
			continue
		}
		run := func(sets ...string) *Result { _, r := indexedRun(t, append(place, sets...)...); return r }
		all := run("model.index_top_k=5008")
		for _, other := range []string{"policy.name=dense", "model.index_top_k=1000000"} {
			r := run(other)
			for i := range all.Requests {
				if a, b := &all.Requests[i], &r.Requests[i]; !reflect.DeepEqual(a, b) {
					t.Errorf("%s, %s:\ngot  %+v\nwant %+v", place, other, *b, *a)
				}
			}
			if all.kv.Peak != r.kv.Peak {
				t.Errorf("%s, %s: keys and values take %d bytes, with all chosen %d", place, other, r.kv.Peak, all.kv.Peak)
			}
		}
		less := run("model.index_top_k=5007")
		if reflect.DeepEqual(less.Requests, all.Requests) {
			t.Errorf("%s: a context of which one token is not chosen takes as long", place)
		}
		plain := run("policy.name=dense", "model.index_top_k=0", "model.index_heads=0", "model.index_dim=0")
		for i := range all.Requests {
			if a, b := all.Requests[i].Finish, plain.Requests[i].Finish; (a <= b || a > b*115/100) && !slices.Contains(place, "memory.spare=decode") {
				t.Errorf("%s: request %d ends after %v, without an indexer after %v", place, i, a, b)
			}
		}
	}
}

// TestIndexKeysByPlace: index keys are on the GPUs, 132 bytes a token and layer with an indexer on each, and latents are where the system
// stores keys and values: in DIMMs as many as without an indexer.
func TestIndexKeysByPlace(t *testing.T) {
	deep.Heavy(t)
	none := []string{"model.index_top_k=0", "model.index_heads=0", "model.index_dim=0", "policy.name=dense"}
	for _, pattern := range []string{"I", "ISSS", "GIS"} {
		layers := 12 * strings.Count(pattern, "I") / len(pattern)
		n, r := indexedRun(t, "run.system=l3", "model.layer_pattern="+pattern)
		_, plain := indexedRun(t, append(none, "run.system=l3")...)
		if r.kv.Peak != plain.kv.Peak || n.memory != nodeOf(t, append(indexedModel[:len(indexedModel):len(indexedModel)], append(none, "run.system=l3")...)...).memory {
			t.Errorf("%s: latents take %d bytes of the DIMMs, without indexers %d", pattern, r.kv.Peak, plain.kv.Peak)
		}
		window, ofPrompt, ofAll := gpus.Windows(n.hw, flow.PolicyOf(n.hw))
		onGPUs := ofAll * float64(n.cfg.Model.KVBytesOnGPUs())
		if want := float64(2 * 132 * layers); window != 0 || ofPrompt != 0 || math.Abs(onGPUs-want) > 1e-9 {
			t.Errorf("%s: a token has %v bytes on two GPUs, by hand %v", pattern, onGPUs, want)
		}
	}
}

// TestIndexKeysAdmit: if the GPUs have room for a prompt and the index keys of few requests, no more decode in the DIMMs, however large
// these are.
func TestIndexKeysAdmit(t *testing.T) {
	deep.Heavy(t)
	sets := append(indexedModel[:len(indexedModel):len(indexedModel)], "run.system=l3", "gpu.memory_reserve=0B")
	m := mustLoad(t, sets...).Model
	peak := func(requests float64) int64 {
		room := m.WeightBytes() + m.ActivationBytes(64) + units.Bytes(1000)*m.KVBytesOnGPUs() + units.Bytes(requests*4000*2*12*132)
		n := nodeOf(t, append(sets, fmt.Sprintf("gpu.memory_capacity=%dB", int64(room)/2))...)
		return mustRun(t, n, &traces.Trace{Requests: equalLengths(8, 1000, 3000)}, false).kv.Peak
	}
	if few, all := peak(1), peak(9); few > all*2/3 {
		t.Errorf("the DIMMs hold %d bytes with room for few index keys, %d with room for all", few, all)
	}
}

// TestIndexedPlaces runs random batches on every system that supports indexers, with layers that choose, share choices and attend to all
// tokens, and drafts, under all checks and layer by layer.
func TestIndexedPlaces(t *testing.T) {
	deep.Heavy(t)
	fewCases(t, func(t *rapid.T) {
		pick := func(key string, of ...any) string { return fmt.Sprint(key, "=", rapid.SampledFrom(of).Draw(t, key)) }
		sets := append(indexedModel[:len(indexedModel):len(indexedModel)], rapid.SampledFrom(indexedPlaces).Draw(t, "place")...)
		cfg, err := everything().Load(configs.Options{Sets: append(sets, "model.layer_pattern="+rapid.StringMatching("G?I[GIS]{0,5}").Draw(t, "pattern"), pick("model.index_top_k", 1, 64, 700, 4000), pick("pim.macs_per_read", 1, 4),
			pick("serving.verified_tokens", 1, 2, 3), pick("serving.acceptance", 0.3, 1.0), pick("serving.verified_overlap", 0.0, 0.65, 1.0))})
		if err != nil {
			t.Fatal(err)
		}
		trace := &traces.Trace{}
		for range rapid.IntRange(1, 8).Draw(t, "requests") {
			trace.Requests = append(trace.Requests, traces.Request{Input: rapid.IntRange(1, 6000).Draw(t, "input"), Output: rapid.IntRange(1, 40).Draw(t, "output")})
		}
		runBothWays(t, cfg, trace)
	})
}

// TestUnitsReadFewerRows: units take less time the fewer tokens an indexer chooses, and requests end sooner, since the GPUs choose.
func TestUnitsReadFewerRows(t *testing.T) {
	deep.Heavy(t)
	for i, place := range indexedPlaces[1:] {
		if !deep.Case(i, 3) {
			continue
		}
		var ends []units.Duration
		for _, k := range []string{"16", "64", "512", "2048"} {
			n := nodeOf(t, append(indexedModel[:len(indexedModel):len(indexedModel)], append(place, "model.index_top_k="+k)...)...)
			r := mustRun(t, n, &traces.Trace{Requests: []traces.Request{{Input: 36_000, Output: 6}, {Input: 30_000, Output: 6}}}, false)
			ends = append(ends, r.Requests[0].Finish-r.Requests[0].FirstToken)
		}
		if !slices.IsSorted(ends) || ends[0] >= ends[3] {
			t.Errorf("%s: the last tokens after %v", place, ends)
		}
	}
}

// TestIndexedLayers: a run attends to chosen tokens in layers with an indexer and in those that share its choice, to contexts in others.
// Memory is latents of all layers and the keys of the indexers, on both GPUs.
func TestIndexedLayers(t *testing.T) {
	full, cut, steps := 0.0, 0.0, 0.0
	for _, r := range windowRequests {
		for context := r.Input + 1; context < r.Input+r.Output; context++ {
			full, cut, steps = full+float64(context), cut+float64(min(context, 512)), steps+1
		}
	}
	n, r := indexedRun(t, "model.layer_pattern=GISS")
	s, err := r.Summary(n.cfg)
	if err != nil {
		t.Fatal(err)
	}
	for layer, tokens := range s.Attention.ByLayer {
		if want := map[bool]float64{true: full, false: cut}[layer%4 == 0] / steps; math.Abs(tokens/want-1) > 1e-12 {
			t.Errorf("layer %d attends to %v tokens, want %v", layer, tokens, want)
		}
	}
	_, every := indexedRun(t)
	_, few := indexedRun(t, "model.layer_pattern=ISSS")
	if few.kv.Peak >= every.kv.Peak {
		t.Errorf("indexers in every fourth layer: %d bytes, in all layers %d", few.kv.Peak, every.kv.Peak)
	}
	for i := range few.Requests {
		if a, b := few.Requests[i].Finish, every.Requests[i].Finish; a >= b {
			t.Errorf("request %d ends after %v with indexers in every fourth layer, after %v with one in each", i, a, b)
		}
	}
	if token := n.cfg.Model.KVBytesPerToken(); token != 12*1152+3*132 {
		t.Errorf("%d bytes of a token", token)
	}
}

// latentModel is a model of eight layers with latents of 64 elements and rotated keys of 8.
var latentModel = []string{"run.model=llama-3-8b", "model.layers=8", "model.tensor_parallel=2", "node.gpus=2", "node.channels=4", "node.ranksets=4", "model.heads=16", "model.kv_heads=1",
	"model.head_dim=72", "model.latent_dim=64", "model.nope_dim=16", "model.value_dim=16"}

// TestLatentNodes runs random nodes with latents on every system that supports them, under all checks and layer by
// layer.
func TestLatentNodes(t *testing.T) {
	fewCases(t, func(t *rapid.T) {
		pick := func(key string, of ...any) string { return fmt.Sprint(key, "=", rapid.SampledFrom(of).Draw(t, key)) }
		sets := append(latentModel[:len(latentModel):len(latentModel)], pick("run.system", "l3", "l3", "hbm-pim", "gpu-only"), pick("model.kv_format", "bf16", "fp8"), pick("pim.macs_per_read", 1, 4))
		if slices.Contains(sets, "run.system=l3") {
			sets = append(sets, pick("comm.stripe", "none", "none", "channels"), pick("comm.rotation", true, false), pick("memory.spare", "off", "off", "decode"))
		}
		cfg, err := everything().Load(configs.Options{Sets: sets})
		if err != nil {
			t.Fatal(err)
		}
		trace := &traces.Trace{}
		for range rapid.IntRange(1, 12).Draw(t, "requests") {
			trace.Requests = append(trace.Requests, traces.Request{Input: rapid.IntRange(1, 3000).Draw(t, "input"), Output: rapid.IntRange(1, 40).Draw(t, "output")})
		}
		runBothWays(t, cfg, trace)
	})
}

// TestLatentOnUnits: for units in DIMMs a latent equals, in clocks and rows, one KV head whose value is narrower than its key. Links carry
// the latent once, channels its key and value.
func TestLatentOnUnits(t *testing.T) {
	l3 := append(latentModel[:len(latentModel):len(latentModel)], "run.system=l3")
	n := nodeOf(t, l3...)
	m := nodeOf(t, append(l3, "model.latent_dim=0", "model.nope_dim=0", "model.value_dim=64")...)
	if got, want := n.cfg.HeadShape(), m.cfg.HeadShape(); got != want || got.HeadDim != 72 || got.ValueDim != 64 || got.Queries != 16 {
		t.Errorf("units see %+v, with values apart %+v", got, want)
	}
	trace := &traces.Trace{Requests: windowRequests}
	latent, apart := mustRun(t, n, trace, false), mustRun(t, m, trace, false)
	if latent.kv.Peak != apart.kv.Peak || latent.kv.Peak == 0 {
		t.Errorf("latents take %d bytes of the ranks, keys and values %d", latent.kv.Peak, apart.kv.Peak)
	}
	if a, b := n.cfg.Model.KVBytesPerTokenLayer(), m.cfg.Model.KVBytesPerTokenLayer(); a != 144 || b != 272 {
		t.Errorf("%d bytes of a latent, %d of key and value", a, b)
	}
	for _, system := range []string{"rank-pim", "gpu+cpu", "cpu-offload"} {
		if _, err := everything().Load(configs.Options{Sets: append(latentModel[:len(latentModel):len(latentModel)], "run.system="+system)}); err == nil ||
			!strings.Contains(err.Error(), "latent attention runs with l3, gpu-only, hbm-pim, sparse-offload, others have no kernel or unit for it") {
			t.Errorf("%s: %v", system, err)
		}
	}
}

// TestLatentsStoredTwice: units in HBM read keys and values in different rows, so a latent of 576 elements takes 1,152 B as a key and 1,024 B
// as a value, or 656 and 528 as FP8 with scales, and the memory of hbm-pim holds fewer tokens accordingly, also beside the GPUs. gpu-only
// stores it once.
func TestLatentsStoredTwice(t *testing.T) {
	sets := []string{"run.model=llama-3-8b", "model.layers=8", "model.tensor_parallel=2", "node.gpus=2", "model.heads=16", "model.kv_heads=1", "model.head_dim=576", "model.latent_dim=512",
		"model.nope_dim=128", "model.value_dim=128"}
	for _, c := range []struct {
		sets  []string
		token units.Bytes
	}{
		{[]string{"run.system=gpu-only"}, 1152}, {[]string{"run.system=hbm-pim"}, 2176}, {[]string{"run.system=hbm-pim", "hbm_pim.memory_beside=80GiB"}, 2176},
		{[]string{"run.system=hbm-pim", "hbm_pim.placement=channel"}, 2176}, {[]string{"run.system=hbm-pim", "model.kv_format=fp8"}, 576 + 512}, {[]string{"run.system=hbm-pim", "model.kv_format=fp8_ds_mla"}, 656 + 528},
		{[]string{"run.system=hbm-pim", "model.index_top_k=512", "model.index_heads=2", "model.index_dim=128"}, 2176 + 132},
	} {
		n := nodeOf(t, append(sets[:len(sets):len(sets)], c.sets...)...)
		page := min(c.token, 2176) // of a layer, without index keys
		if want := 2 * units.Bytes(n.cfg.Batching.PageTokens) * page; n.memory.Unit != want {
			t.Errorf("%s: a page takes %d bytes on two GPUs, by hand %d", c.sets, n.memory.Unit, want)
		}
		h, kv := n.Hardware(traces.Moments{}), units.Bytes(n.memory.Capacity)*n.memory.Unit
		if want := int64(kv / (2 * 8 * c.token)); h.KVTokens < want-1 || h.KVTokens > want+1 {
			t.Errorf("%s: room for %d tokens, by hand %d", c.sets, h.KVTokens, want)
		}
		r := mustRun(t, n, &traces.Trace{Requests: []traces.Request{{Input: 1600, Output: 2}}}, false)
		tokens := 1601
		if pages := (tokens + n.cfg.Batching.PageTokens - 1) / n.cfg.Batching.PageTokens; r.kv.Peak < int64(2*8*units.Bytes(tokens)*c.token) || r.kv.Peak > int64(2*8*units.Bytes((pages+2)*n.cfg.Batching.PageTokens)*c.token) {
			t.Errorf("%s: a request of %d tokens takes %d bytes, of %d a token", c.sets, tokens, r.kv.Peak, c.token)
		}
	}
}

// TestIndexedErrors: what does not support an indexer is refused by name, and a model with an indexer runs with
// its policy.
func TestIndexedErrors(t *testing.T) {
	for want, sets := range map[string][]string{
		"": nil,
		`model.latent_dim = 512: expected 0 with run.system = rank-pim: latent attention runs with l3, gpu-only, hbm-pim`:                                  {"run.system=rank-pim"},
		`model.latent_dim = 512: expected 0 with run.system = gpu+cpu`:                                                                                     {"run.system=gpu+cpu"},
		`hbm_pim.memory_beside = "80GiB": expected 0B with policy.name = dsa: the GPUs score index keys`:                                                   {"run.system=hbm-pim", "hbm_pim.memory_beside=80GiB"},
		`cache.prefix = true: expected false with policy.name = dsa and keys and values in the DIMMs`:                                                      {"run.system=l3", "cache.prefix=true"},
		`expected "dense" with model.latent_dim = 512`:                                                                                                     {"policy.name=quest"},
		`policy.name = "dsa": expected a policy that needs no indexer: model.index_top_k of llama-3-8b is 0`:                                               {"policy.name=dsa", "model.index_top_k=0", "model.index_heads=0", "model.index_dim=0"},
		`model.attention_parallel = "data": expected "tensor" with run.system = hbm-pim: requests are apart on the GPUs of gpu-only, sparse-offload alone`: {"run.system=hbm-pim", "policy.name=dense", "model.attention_parallel=data", "model.latent_dim=0", "model.nope_dim=0", "model.query_rank=0", "model.index_top_k=0", "model.index_heads=0", "model.index_dim=0", "model.head_dim=128"},
		`policy.name = "indexer": expected one of`:                                                                                                         {"policy.name=indexer"},
	} {
		cfg, err := everything().Load(configs.Options{Sets: append(indexedModel[:len(indexedModel):len(indexedModel)], sets...)})
		if got := fmt.Sprint(err); want == "" && (err != nil || cfg.Policy.Name != "dsa") || !strings.Contains(got, want) {
			t.Errorf("%v:\ngot  %v\nwant %s", sets, err, want)
		}
	}
}

// TestIndexedNodes runs random batches of models with indexers in some layers under all checks, and layer by layer.
func TestIndexedNodes(t *testing.T) {
	fewCases(t, func(t *rapid.T) {
		pick := func(key string, of ...any) string { return fmt.Sprint(key, "=", rapid.SampledFrom(of).Draw(t, key)) }
		cfg, err := everything().Load(configs.Options{Sets: append(indexedModel[:len(indexedModel):len(indexedModel)],
			"model.layer_pattern="+rapid.StringMatching("G?I[GIS]{0,5}").Draw(t, "pattern"), pick("model.index_top_k", 1, 64, 700, 4000), pick("model.tensor_parallel", 1, 2),
			pick("batching.max_num_batched_tokens", 256, 1024), pick("model.kv_format", "bf16", "fp8"), pick("batching.page_tokens", 16, 64), pick("model.attention_parallel", "tensor", "data"), pick("cache.prefix", true, false),
			pick("model.experts", 0, 8), "model.active_experts=2", "model.expert_parallel="+fmt.Sprint(rapid.Bool().Draw(t, "experts apart")))})
		if err != nil {
			if strings.Contains(err.Error(), "expert_parallel = true: expected false without model.experts") {
				return
			}
			t.Fatal(err)
		}
		trace, hashes := &traces.Trace{}, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
		for range rapid.IntRange(1, 12).Draw(t, "requests") {
			r := traces.Request{Input: rapid.IntRange(1, 6000).Draw(t, "input"), Output: rapid.IntRange(1, 60).Draw(t, "output")}
			if cfg.Cache.Prefix {
				r.Hashes = hashes[:(r.Input+traces.BlockTokens-1)/traces.BlockTokens]
			}
			trace.Requests = append(trace.Requests, r)
		}
		runBothWays(t, cfg, trace)
	})
}

// TestHeadsOfWindows: layers with a window may have their own heads. The same heads as the others change nothing, fewer and narrower
// ones take less time and memory, and both kinds attend to what their layers do.
func TestHeadsOfWindows(t *testing.T) {
	sets := []string{"model.window=256", "model.layer_pattern=LLG"}
	run := func(more ...string) (*Node, *Result) {
		return windowedRun(t, "gpu-only", append(sets[:len(sets):len(sets)], more...)...)
	}
	_, alike := run()
	_, named := run("model.window_kv_heads=8", "model.window_head_dim=128")
	if !reflect.DeepEqual(alike.Requests, named.Requests) {
		t.Error("heads that are named as the others are take another time")
	}
	n, few := run("model.window_kv_heads=4", "model.window_head_dim=64", "model.value_dim=64")
	for i := range few.Requests {
		if a, b := few.Requests[i].Finish, alike.Requests[i].Finish; a >= b {
			t.Errorf("request %d ends after %v with fewer and narrower heads, after %v with the others", i, a, b)
		}
	}
	if few.kv.Peak >= alike.kv.Peak {
		t.Errorf("fewer and narrower heads take %d bytes, the others %d", few.kv.Peak, alike.kv.Peak)
	}
	s, err := few.Summary(n.cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := alike.Summary(n.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(s.Attention.ByLayer, r.Attention.ByLayer) {
		t.Errorf("layers attend to %v tokens, want %v", s.Attention.ByLayer, r.Attention.ByLayer)
	}
	if got := n.cfg.Model.KVBytesPerToken(); got != 4*8*(128+64)*2+8*4*(64+64)*2 {
		t.Errorf("%d bytes of a token", got)
	}
	for want, more := range map[string]string{
		`model.window_kv_heads = 4: expected 0 with run.system = l3: such heads run with gpu-only`: "model.window_kv_heads=4",
		`model.window_head_dim = 64: expected 0 with run.system = l3`:                              "model.window_head_dim=64",
	} {
		if _, err := everything().Load(configs.Options{Sets: append([]string{"run.system=l3", "run.model=llama-3-8b", more}, sets...)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", more, err, want)
		}
	}
}
