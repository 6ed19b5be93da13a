package measure

import (
	"testing"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/units"
)

// TestFormsOfOtherKinds: the forms of kernels of latent attention, experts, collectives and indexes, and the start of each. Beyond a fit's
// numbers, a form has tiles, groups of heads, whole waves and the limit of direct all-reduces; it leaves kernels of other widths alone.
func TestFormsOfOtherKinds(t *testing.T) {
	start := func(compute, memory float64) gpu.Efficiency {
		return gpu.Efficiency{Compute: compute, Memory: memory, Ridge: 3}
	}
	base := preset(t, "h200-sxm").GPU
	base.Decode.Split, base.Decode.StreamTime, base.Decode.LoneElement = gpu.SplitFixed, 7, 8
	base.Prefill.JoinsDecode, base.Prefill.PacksGroups = true, false
	latent := func(rows, limit, wide int) gpu.LatentDecodeSpec {
		d := gpu.LatentDecodeSpec{DecodeSpec: base.Decode, WideGroup: wide, AgainShare: 0.5}
		d.Split, d.StreamTime, d.LoneElement, d.QueryRows, d.UnsplitRows, d.GroupLimit, d.BlocksPerSM = gpu.SplitBalanced, 0, 0, rows, rows, limit, 1
		return d
	}
	prefill := func(packs bool) gpu.PrefillSpec {
		p := base.Prefill
		p.JoinsDecode, p.PacksGroups = false, packs
		return p
	}
	experts := func(kind Kind, waves bool, share float64) func(*gpu.Spec) {
		return func(g *gpu.Spec) {
			*expertsOf(kind).In(g) = gpu.ExpertSpec{Efficiency: start(0.5, 0.8), PassMemory: 0.5, WaveQuantization: waves, TileShare: share}
		}
	}
	chosen := func(waves bool, cluster int) gpu.ChosenSpec {
		return gpu.ChosenSpec{Efficiency: start(0.6, 0.8), TileRows: 64, Cluster: cluster, Slots: chosenRows, WaveQuantization: waves}
	}
	scores := func(waves bool) gpu.ScoreSpec {
		return gpu.ScoreSpec{Efficiency: start(0.5, 0.8), KeyTile: 256, WaveQuantization: waves}
	}
	products := func(rows int, convert float64) gpu.LatentProductSpec {
		return gpu.LatentProductSpec{Efficiency: start(0.6, 0.8), TileRows: rows, ConvertMemory: convert}
	}
	own, flagged := gpu.Protocols{Latency: 5}, gpu.Protocols{FlaggedBandwidth: 1e9, Bandwidth: 1e9}
	var wholeFP8 = prefill(false)
	for kind, want := range map[Kind][]func(g *gpu.Spec){
		LatentDecode: {func(g *gpu.Spec) { g.Latent.Decode = latent(16, 0, 0) }, func(g *gpu.Spec) { g.Latent.Decode = latent(64, 0, 0) }, func(g *gpu.Spec) { g.Latent.Decode = latent(64, 64, 0) },
			func(g *gpu.Spec) { g.Latent.Decode = latent(64, 16, 32) }, func(g *gpu.Spec) { g.Latent.Decode = latent(128, 0, 0) }},
		FP8LatentDecode: {func(g *gpu.Spec) { g.Latent.DecodeFP8 = latent(16, 0, 0) }, func(g *gpu.Spec) { g.Latent.DecodeFP8 = latent(64, 0, 0) }, func(g *gpu.Spec) { g.Latent.DecodeFP8 = latent(64, 64, 0) },
			func(g *gpu.Spec) { g.Latent.DecodeFP8 = latent(64, 16, 32) }, func(g *gpu.Spec) { g.Latent.DecodeFP8 = latent(128, 0, 0) }},
		LatentPrefill:    {func(g *gpu.Spec) { g.Latent.Absorbed, g.Latent.Prefill = false, prefill(false) }, func(g *gpu.Spec) { g.Latent.Absorbed, g.Latent.Prefill = true, prefill(true) }},
		FP8LatentPrefill: {func(g *gpu.Spec) { wholeFP8.PacksGroups = g.Latent.Absorbed; g.Latent.PrefillFP8 = wholeFP8 }},
		LatentAbsorb:     {func(g *gpu.Spec) { g.Latent.Products = products(64, 0) }, func(g *gpu.Spec) { g.Latent.Products = products(128, 0) }},
		FP8LatentAbsorb: {func(g *gpu.Spec) { g.Latent.ProductsFP8 = products(64, 0.5) }, func(g *gpu.Spec) { g.Latent.ProductsFP8 = products(128, 0.5) },
			func(g *gpu.Spec) { g.Latent.ProductsFP8 = products(64, 0); g.Latent.ProductsFP8.Widens = true }},
		SparseLatent: {func(g *gpu.Spec) { g.Latent.Chosen = chosen(true, 0) }, func(g *gpu.Spec) { g.Latent.Chosen = chosen(false, 0) },
			func(g *gpu.Spec) { g.Latent.Chosen = chosen(true, 2) }, func(g *gpu.Spec) { g.Latent.Chosen = chosen(false, 2) }},
		Experts:         {experts(Experts, true, 0), experts(Experts, false, 0)},
		MXFP4Experts:    {experts(MXFP4Experts, true, 0), experts(MXFP4Experts, false, 0), experts(MXFP4Experts, true, 1), experts(MXFP4Experts, false, 1)},
		MXFP4FP8Experts: {experts(MXFP4FP8Experts, true, 1), experts(MXFP4FP8Experts, false, 1)},
		Int4Experts:     {experts(Int4Experts, true, 1), experts(Int4Experts, false, 1)},
		AllGather:       {func(g *gpu.Spec) { g.Collectives.AllGather = flagged }},
		ReduceScatter:   {func(g *gpu.Spec) { g.Collectives.ReduceScatter = flagged }},
		Dispatch: {func(g *gpu.Spec) {
			g.Collectives.Dispatch = gpu.ExchangeSpec{Bandwidth: 1e9, LaneBandwidth: 1e9, Ridge: 3}
		}},
		Combine: {func(g *gpu.Spec) {
			g.Collectives.Combine = gpu.ExchangeSpec{Bandwidth: 1e9, LaneBandwidth: 1e9, Ridge: 3}
		}},
		IndexScores: {func(g *gpu.Spec) { g.Index.Scores = scores(true) }, func(g *gpu.Spec) { g.Index.Scores = scores(false) }},
		IndexStepScores: {func(g *gpu.Spec) {
			g.Index.StepScores = gpu.StepScoreSpec{Efficiency: start(0.5, 0.8), FillBandwidth: 1e12}
		}},
		TopK:      {func(g *gpu.Spec) { g.Index.TopK = gpu.RankSpec{RowTime: 1, WaveQuantization: true} }, func(g *gpu.Spec) { g.Index.TopK = gpu.RankSpec{RowTime: 1} }},
		AllReduce: {allReduceOf(8*units.MiB, own), allReduceOf(64*units.MiB, own)},
	} {
		all := forms("vllm", kind)
		if len(all) != len(want) {
			t.Errorf("%v: %d forms, want %d", kind, len(all), len(want))
			continue
		}
		for i := range all {
			got, by := base, base
			for _, g := range []*gpu.Spec{&got, &by} {
				g.Latent.Absorbed = true
				g.Collectives.AllReduce = own
			}
			all[i](&got)
			want[i](&by)
			if got != by {
				t.Errorf("%v, form %d: %+v\nwant %+v", kind, i, got, by)
			}
		}
	}
	// If NCCL has no fit of its own, an all-reduce keeps the base's protocols.
	got := base
	got.Collectives.AllReduce = gpu.Protocols{}
	if forms("vllm", AllReduce)[0](&got); got.Collective.Protocols != base.Collective.Protocols {
		t.Errorf("protocols %+v", got.Collective.Protocols)
	}
	for kind, n := range map[Kind]int{AllReduce: fewestSizes, TopK: fewestSizes, Dispatch: fewestSizes, GEMM: fewestRows, Experts: fewestRows, LatentDecode: fewestRows} {
		if fewest(kind) != n {
			t.Errorf("%v: at least %d rows, want %d", kind, fewest(kind), n)
		}
	}
	if fewestSizes >= fewestRows {
		t.Errorf("%d sizes, %d rows", fewestSizes, fewestRows)
	}
}

// allReduceOf is a form of direct all-reduces up to a size, with NCCL's own fit beyond.
func allReduceOf(limit units.Bytes, own gpu.Protocols) func(*gpu.Spec) {
	return func(g *gpu.Spec) {
		g.Collective.Method, g.Collective.SmallLimit, g.Collective.Protocols = gpu.AllReduceDirect, limit, own
		g.Switch = gpu.SwitchSpec{Bandwidth: 1e9}
	}
}
