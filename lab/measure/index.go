package measure

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"
)

// Kinds of an indexer's kernels.
const (
	IndexScores     Kind = "index_scores"      // of prompts
	IndexStepScores Kind = "index_step_scores" // of decode steps, over a paged cache
	TopK            Kind = "top_k"
)

// The tables' indexers: heads of GLM-5's, and of DeepSeek's over a paged cache; elements and bytes of a key; number
// of choices.
const glmIndexHeads, pagedIndexHeads, indexDim, indexKeyBytes, indexKeep = 32, 64, 128, 132, chosenRows

// tiedScores is the op of rows with equal scores, the worst case of a choice. Other rows have clear winners.
const tiedScores = "flat"

// indexRow reads a row of an indexer's kernels. Over a paged cache there is a key for each compress tokens before a token. Without one
// there is nothing to score, and the row is skipped.
func (r *row) indexRow(s *Sample) (kept bool) {
	s.where, s.source = InGraph, strings.TrimSuffix(filepath.Base(r.name), ".csv")
	s.batch, s.chunk, s.finished = r.integer("batch", 1, 1<<20), r.integer("queries", 1, 1<<24), r.integer("prefix", 0, 1<<30)
	s.row = fmt.Sprintf("batch=%d queries=%d prefix=%d", s.batch, s.chunk, s.finished)
	switch s.kind {
	case IndexStepScores:
		s.page = r.integer("compress", 1, 1<<16)
		s.row += fmt.Sprintf(" compress=%d", s.page)
		return s.indexing().Pairs > 0
	case TopK:
		s.op = r.element("scores", []string{tiedScores, "top_last"})
		s.row += " scores=" + s.op
	}
	return true
}

// indexing returns the scores of a row's requests, which have equal lengths.
func (s *Sample) indexing() llm.Indexing {
	x := llm.Indexer{IndexHeads: glmIndexHeads, IndexDim: indexDim, IndexTopK: -1}
	var one llm.Indexing
	if x.Add(&one, s.finished+s.chunk, s.chunk); s.kind == IndexStepScores {
		one.Keys, one.Longest = one.Keys/int64(s.page), one.Longest/s.page
		one.Pairs = wholeParts(s.finished+s.chunk, s.page) - wholeParts(s.finished, s.page)
	}
	one.Requests, one.Keys, one.Pairs = s.batch, one.Keys*int64(s.batch), one.Pairs*int64(s.batch)
	one.Keep, one.Step = indexKeep, s.kind == IndexStepScores
	return one
}

// wholeParts returns ⌊1/k⌋ + ⌊2/k⌋ + ... + ⌊n/k⌋.
func wholeParts(n, k int) int64 {
	q, r := int64(n/k), int64(n%k)
	return int64(k)*q*(q-1)/2 + q*(r+1)
}

func indexKinds() []tabled {
	scores := func(t *Target) *gpu.ScoreSpec { return &t.GPU.Index.Scores }
	steps := func(t *Target) *gpu.StepScoreSpec { return &t.GPU.Index.StepScores }
	ranks := func(t *Target) *gpu.RankSpec { return &t.GPU.Index.TopK }
	of := func(e func(t *Target) *gpu.Efficiency, more ...parameter) []parameter {
		return append([]parameter{
			number("compute_efficiency", lowEfficiency, 0.5, highEfficiency, func(t *Target) *float64 { return &e(t).Compute }),
			number("memory_efficiency", lowEfficiency, 0.8, highEfficiency, func(t *Target) *float64 { return &e(t).Memory }),
			number("ridge", lowRidge, startRidge, highRidge, func(t *Target) *float64 { return &e(t).Ridge }),
			duration("overhead", 0.1, 4, 100, func(t *Target) *units.Duration { return &e(t).Overhead }),
		}, more...)
	}
	var scoreForms, rankForms []func(*gpu.Spec)
	for _, waves := range []bool{true, false} {
		scoreForms = append(scoreForms, func(g *gpu.Spec) {
			g.Index.Scores = gpu.ScoreSpec{Efficiency: gpu.Efficiency{Compute: 0.5, Memory: 0.8, Ridge: startRidge}, KeyTile: 256, WaveQuantization: waves}
		})
		rankForms = append(rankForms, func(g *gpu.Spec) { g.Index.TopK = gpu.RankSpec{RowTime: 1, WaveQuantization: waves} })
	}
	return []tabled{
		{IndexScores, "gpu.index.scores",
			func(g *gpu.Spec, s *Sample) gpu.Cost {
				return g.IndexScoreCost(s.indexing(), glmIndexHeads, indexDim, indexKeyBytes)
			},
			of(func(t *Target) *gpu.Efficiency { return &scores(t).Efficiency },
				duration("block_time", 0.001, 0.5, 100, func(t *Target) *units.Duration { return &scores(t).BlockTime })),
			scoreForms},
		{IndexStepScores, "gpu.index.step_scores",
			func(g *gpu.Spec, s *Sample) gpu.Cost {
				return g.IndexScoreCost(s.indexing(), pagedIndexHeads, indexDim, indexKeyBytes)
			},
			of(func(t *Target) *gpu.Efficiency { return &steps(t).Efficiency },
				duration("row_time", 1e-5, 0.003, 1, func(t *Target) *units.Duration { return &steps(t).RowTime }),
				number("pair_time_ps", 1e-4, 0.5, 100, func(t *Target) *float64 { return &steps(t).PairTime }),
				rate("fill_bandwidth", 1, 300, 1e5, func(t *Target) *units.Bandwidth { return &steps(t).FillBandwidth })),
			[]func(*gpu.Spec){func(g *gpu.Spec) {
				g.Index.StepScores = gpu.StepScoreSpec{Efficiency: gpu.Efficiency{Compute: 0.5, Memory: 0.8, Ridge: startRidge}, FillBandwidth: 1e12}
			}}},
		{TopK, "gpu.index.top_k",
			func(g *gpu.Spec, s *Sample) gpu.Cost { return g.IndexTopKCost(s.indexing(), s.op == tiedScores) },
			[]parameter{
				duration("overhead", 0.1, 4, 100, func(t *Target) *units.Duration { return &ranks(t).Overhead }),
				duration("row_time", 0.01, 2, 100, func(t *Target) *units.Duration { return &ranks(t).RowTime }),
				duration("element_time", 1e-5, 2e-4, 0.1, func(t *Target) *units.Duration { return &ranks(t).ElementTime }),
				duration("short_time", 0.001, 0.5, 10, func(t *Target) *units.Duration { return &ranks(t).ShortTime }),
				duration("tie_row_time", 0.01, 4, 100, func(t *Target) *units.Duration { return &ranks(t).TieRow }),
				duration("tie_element_time", 1e-5, 2e-4, 0.1, func(t *Target) *units.Duration { return &ranks(t).TieElement }),
			}, rankForms},
	}
}
