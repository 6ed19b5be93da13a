package measure

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/gpu"
)

// leaves adds the fields of a value with a name in TOML, as text by path.
func leaves(to map[string]string, path string, v reflect.Value) {
	if v.Kind() != reflect.Struct {
		to[path] = fmt.Sprint(v.Interface())
		return
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
		switch {
		case !f.IsExported() || name == "-":
		case name == "": // embedded
			leaves(to, path, v.Field(i))
		default:
			leaves(to, path+"."+name, v.Field(i))
		}
	}
}

// TestParametersSetTheirKeys: a parameter of a fit sets only the key of its name, in its kind's section or the one that its name begins with, and
// reads back what it set: times to a picosecond.
func TestParametersSetTheirKeys(t *testing.T) {
	for kind, section := range map[Kind]string{
		GEMM: "gpu.gemm", FP8GEMM: "gpu.gemm_fp8", FP8BlockGEMM: "gpu.gemm_fp8_block", NVFP4GEMM: "gpu.gemm_nvfp4", NarrowGEMM: "gpu.gemm",
		Decode: "gpu.decode_attention", FP8Decode: "gpu.decode_attention_fp8", NarrowDecode: "gpu.narrow_kv",
		Prefill: "gpu.prefill_attention", FP8Prefill: "gpu.prefill_attention_fp8", Extend: "gpu.extend_attention", PageSparse: "gpu.page_sparse",
		Elementwise: "gpu.elementwise", AllReduce: "gpu.all_reduce", PCIe: "pcie", Power: "gpu.power", Small: "gpu", DecodeIteration: "gpu",
		LatentDecode: "gpu.latent.decode", FP8LatentDecode: "gpu.latent.decode_fp8", LatentPrefill: "gpu.latent.prefill", FP8LatentPrefill: "gpu.latent.prefill_fp8",
		LatentAbsorb: "gpu.latent.products", FP8LatentAbsorb: "gpu.latent.products_fp8", SparseLatent: "gpu.latent.chosen",
		Experts: "gpu.experts.bf16", FP8Experts: "gpu.experts.fp8", IndexScores: "gpu.index.scores", IndexStepScores: "gpu.index.step_scores", TopK: "gpu.index.top_k",
		AllGather: "gpu.collectives.all_gather", ReduceScatter: "gpu.collectives.reduce_scatter", NCCLAllReduce: "gpu.collectives.all_reduce", NCCLAllToAll: "gpu.collectives.all_to_all", Dispatch: "gpu.collectives.dispatch", Combine: "gpu.collectives.combine",
		PrefillIteration: "gpu", MixedIteration: "gpu", IterationEnergy: "gpu.power",
		FP8BlockExperts: "gpu.experts.fp8_block", NVFP4Experts: "gpu.experts.nvfp4", MXFP4Experts: "gpu.experts.mxfp4", MXFP4FP8Experts: "gpu.experts.mxfp4_fp8", Int4Experts: "gpu.experts.int4",
	} {
		target := preset(t, "h200-sxm")
		if len(parameters(kind)) == 0 {
			t.Errorf("%v has no parameters", kind)
		}
		before := map[string]string{}
		leaves(before, "", reflect.ValueOf(*target))
		for _, p := range parameters(kind) {
			if !(p.low > 0 && p.low < p.start && p.start <= p.high && p.low < p.high) {
				t.Errorf("%v: %s begins at %g of %g to %g", kind, p.name, p.start, p.low, p.high)
			}
			want := section + "." + p.name
			if strings.Contains(p.name, ".") {
				want = "gpu." + p.name
			}
			after := map[string]string{}
			value := p.low + 0.3*(p.high-p.low) // a value of no preset
			p.set(target, value)
			leaves(after, "", reflect.ValueOf(*target))
			var changed []string
			for path, text := range after {
				if before[path] != text {
					changed = append(changed, strings.TrimPrefix(path, "."))
				}
			}
			before = after
			if len(changed) != 1 || changed[0] != want {
				t.Errorf("%v: %s sets %q, want %s", kind, p.name, changed, want)
			}
			if got := p.get(target); math.Abs(got-value) > 1e-6 && math.Abs(got-value) > 1e-6*value {
				t.Errorf("%v: %s is %g after %g was set", kind, p.name, got, value)
			}
		}
	}
}

// TestFormsByHand: forms of kernels beyond numbers. FP8 products of vLLM and SGLang have tiles that are chosen, as for 16-bit products, or one
// of CUTLASS's two lists; products of TensorRT-LLM, of blocks and of FP4 only the first. No form splits k.
func TestFormsByHand(t *testing.T) {
	tiled := append([]gpu.TileList{""}, cutlassTiles...)
	for _, c := range []struct {
		framework string
		kind      Kind
		of        func(*gpu.Spec) *gpu.TypedGEMMSpec
		tiles     []gpu.TileList
	}{
		{"vllm", FP8GEMM, func(g *gpu.Spec) *gpu.TypedGEMMSpec { return &g.FP8 }, tiled},
		{"sglang", FP8GEMM, func(g *gpu.Spec) *gpu.TypedGEMMSpec { return &g.FP8 }, tiled},
		{"trtllm", FP8GEMM, func(g *gpu.Spec) *gpu.TypedGEMMSpec { return &g.FP8 }, tiled[:1]},
		{"vllm", FP8BlockGEMM, func(g *gpu.Spec) *gpu.TypedGEMMSpec { return &g.FP8Block }, tiled[:1]},
		{"vllm", NVFP4GEMM, func(g *gpu.Spec) *gpu.TypedGEMMSpec { return &g.NVFP4 }, tiled[:1]},
	} {
		all := forms(c.framework, c.kind)
		if len(all) != len(c.tiles) {
			t.Fatalf("%s, %v: %d forms, want %d", c.framework, c.kind, len(all), len(c.tiles))
		}
		for i, form := range all {
			g := preset(t, "h200-sxm").GPU
			want := gpu.TypedGEMMSpec{Tiling: g.MatMul.Tiling, Tiles: c.tiles[i]}
			want.SplitOverhead, want.SplitTraffic = 0, 0
			if form(&g); *c.of(&g) != want {
				t.Errorf("%s, %v, form %d: %+v, want %+v", c.framework, c.kind, i, *c.of(&g), want)
			}
		}
	}
	for kind, limits := range map[Kind][]int{Decode: {0, 16}, FP8Decode: {0, 16}} {
		for i, form := range forms("vllm", kind) {
			g := preset(t, "h200-sxm").GPU
			g.Decode.Split, g.Decode.GroupLimit, g.DecodeFP8.GroupLimit = gpu.SplitFixed, 7, 7
			form(&g)
			decode, other := g.Decode, 7
			if kind == FP8Decode {
				decode, other = g.DecodeFP8, g.Decode.GroupLimit
			}
			if decode.GroupLimit != limits[i] || decode.Split != gpu.SplitBalanced || other != 7 {
				t.Errorf("%v, form %d: limits %d and %d, %v", kind, i, decode.GroupLimit, other, decode.Split)
			}
		}
	}
	for i, form := range forms("vllm", Prefill) {
		g := preset(t, "h200-sxm").GPU
		if form(&g); g.Prefill.PacksGroups != (i == 1) {
			t.Errorf("prefill, form %d packs groups: %t", i, g.Prefill.PacksGroups)
		}
	}
	if n := len(forms("vllm", Decode)) + len(forms("vllm", FP8Decode)) + len(forms("vllm", Prefill)) + len(forms("vllm", FP8Prefill)) + len(forms("vllm", Small)); n != 2+2+2+1+1 {
		t.Errorf("%d forms of attention and small kernels, want 8", n)
	}
}

// TestMovableByHand: the parameters of all-reduces, decode attention and products that rows determine. Rows of a benchmark do not determine sums in
// the switch, the last step of a ring, or KV heads with one query head; tables do, but not NCCL if it has its own fit.
func TestMovableByHand(t *testing.T) {
	own := "small_latency small_latency_per_gpu small_bandwidth second_shot_latency second_shot_latency_per_gpu second_shot_bandwidth"
	nccl := " flagged_latency flagged_latency_per_gpu flagged_bandwidth latency latency_per_gpu bandwidth"
	sums := " all_reduce_switch.latency all_reduce_switch.latency_per_gpu all_reduce_switch.bandwidth"
	for _, c := range []struct {
		tables, alone bool
		want          string
		lone          bool // lone_element_time of decode attention
	}{
		{false, false, own + nccl, false}, {false, true, own + nccl, false}, {true, false, own + nccl + " last_step" + sums, true}, {true, true, own + sums, true},
	} {
		target := &Target{tables: c.tables}
		if c.alone {
			target.GPU.Collectives.AllReduce.Latency = 1
		}
		names := func(kind Kind) (all []string) {
			for _, p := range target.movable(kind) {
				all = append(all, p.name)
			}
			return all
		}
		if got := strings.Join(names(AllReduce), " "); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
		decode, products := strings.Join(names(Decode), " "), len(names(GEMM))
		if strings.Contains(decode, "lone_element_time") != c.lone || products != len(gemmParameters()) {
			t.Errorf("%+v: decode attention's %s, %d of products", c, decode, products)
		}
	}
}
