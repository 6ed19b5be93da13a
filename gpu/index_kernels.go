package gpu

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"
)

// IndexTables has the kernels of an indexer, as far as the fit has them. A zero value stands for none, and then the parameters of
// page-sparse attention are used.
type IndexTables struct {
	Scores     ScoreSpec     `toml:"scores,omitempty"`      // for prompts (DeepGEMM's fp8_mqa_logits)
	StepScores StepScoreSpec `toml:"step_scores,omitempty"` // for decode steps, over a paged cache (fp8_paged_mqa_logits)
	TopK       RankSpec      `toml:"top_k,omitempty"`
	// Always makes contexts of no more tokens than are chosen take attention over chosen rows, too: the server has no other kernel for models
	// with an indexer. Otherwise, such prompts attend as in models without one.
	Always bool `toml:"always,omitempty"`
	// WideKeys makes the product of an indexer's key and of its heads' weights take 16 bits, whatever the width of other weights.
	WideKeys bool `toml:"wide_keys,omitempty"`
	// SmallOverhead and SmallTime are the launches of an indexer's small kernels, and their time for each token: they rotate, transform and
	// narrow its queries, and translate choices into places. They run for contexts of any length.
	SmallOverhead units.Duration `toml:"small_overhead,omitempty"`
	SmallTime     units.Duration `toml:"small_token_time,omitempty"`
}

// ScoreSpec holds the parameters of prompts' scores. A block has a few tokens with all index heads, and passes over all keys of its tokens'
// requests.
type ScoreSpec struct {
	Efficiency
	// KeyTile is the number of keys in a block's tile, to which keys are padded.
	KeyTile int `toml:"key_tile"`
	// BlockTime is a block's time before its first keys and after its last.
	BlockTime units.Duration `toml:"block_time"`
	// WaveQuantization rounds blocks up to whole waves over the SMs.
	WaveQuantization bool `toml:"wave_quantization"`
}

// Check has the rules of the section of scores of prompts.
func (p *ScoreSpec) Check(c *input.Check) {
	p.Efficiency.Check(c)
	input.Within(c, "key_tile", p.KeyTile, 1, 1<<16)
	duration(c, "block_time", p.BlockTime)
}

// StepScoreSpec holds the parameters of decode steps' scores, whose keys are distributed evenly over the SMs.
type StepScoreSpec struct {
	Efficiency
	RowTime units.Duration `toml:"row_time"` // for each token with scores
	// PairTime is in picoseconds for each pair of such tokens: in some servers, rows of scores are as long as the step has tokens.
	PairTime float64 `toml:"pair_time_ps"`
	// FillBandwidth is the rate at which rows of the longest context's length are filled, 4 bytes a token, in addition to the scores.
	FillBandwidth units.Bandwidth `toml:"fill_bandwidth"`
}

// Check has the rules of the section of scores of decode steps.
func (p *StepScoreSpec) Check(c *input.Check) {
	p.Efficiency.Check(c)
	duration(c, "row_time", p.RowTime)
	atLeast(c, "pair_time_ps", p.PairTime, 0)
	bandwidth(c, "fill_bandwidth", p.FillBandwidth)
}

// RankSpec holds the parameters of choosing the best scores: a block ranks a token's scores by radix.
type RankSpec struct {
	Overhead    units.Duration `toml:"overhead"`     // of the launch
	RowTime     units.Duration `toml:"row_time"`     // a block's time for a token whose scores it ranks, alone on its SM
	ElementTime units.Duration `toml:"element_time"` // a block's time for each score, alone on its SM
	ShortTime   units.Duration `toml:"short_time"`   // a block's time for a token that sees no more tokens than are chosen, alone on its SM
	// TieRow and TieElement are added if all scores are equal, the worst case. Simulations assume distinct scores.
	TieRow     units.Duration `toml:"tie_row_time"`
	TieElement units.Duration `toml:"tie_element_time"`
	// WaveQuantization rounds blocks up to whole waves over the SMs.
	WaveQuantization bool `toml:"wave_quantization"`
}

// Check has the rules of the section of the choice of the best scores.
func (p *RankSpec) Check(c *input.Check) {
	duration(c, "overhead", p.Overhead)
	duration(c, "row_time", p.RowTime)
	duration(c, "element_time", p.ElementTime)
	duration(c, "short_time", p.ShortTime)
	duration(c, "tie_row_time", p.TieRow)
	duration(c, "tie_element_time", p.TieElement)
}

// Check has the rules of the section [gpu.index].
func (t *IndexTables) Check(c *input.Check) {
	duration(c, "small_overhead", t.SmallOverhead)
	duration(c, "small_token_time", t.SmallTime)
	given(c, "scores", &t.Scores)
	given(c, "step_scores", &t.StepScores)
	given(c, "top_k", &t.TopK)
}

// rounds returns the number of rounds of blocks on the SMs, at least one.
func (s *Spec) rounds(blocks float64, whole bool) float64 {
	if w := blocks / float64(s.SMs); w > 1 && !whole {
		return w
	}
	return float64((int64(blocks) + int64(s.SMs) - 1) / int64(s.SMs))
}

// promptScores is IndexScoreCost for prompts of equal length, with the fit's own kernel. c has the work.
func (s *Spec) promptScores(c Cost, x llm.Indexing, heads, dim int) Cost {
	p := &s.Index.Scores
	tokens := max(1, indexRows/heads) // for each block
	rows := x.Requests * x.Queries
	spanned := min(x.Requests, ceilDiv(tokens, x.Queries)) // requests of a block
	key := 2 * float64(dim) * float64(max(tokens*heads, indexMinRows)) / (p.Compute * s.peak(indexBits) / float64(s.SMs))
	keys := func(n float64) float64 { return float64(ceilDiv(int(n*float64(spanned)), p.KeyTile) * p.KeyTile) }
	mean := float64(keys(float64(x.Pairs)/float64(rows))*key) + p.BlockTime.Seconds()
	c.Compute = s.rounds(float64(ceilDiv(rows, tokens)), p.WaveQuantization) * mean
	c.Latency = float64(keys(float64(x.Longest))*key) + p.BlockTime.Seconds()
	c.Executed = mean * float64(ceilDiv(rows, tokens)) / float64(s.SMs) * p.Compute * s.peak(indexBits) / 2
	c.Memory, c.Overhead = c.Bytes/(p.Memory*float64(s.MemoryBandwidth)), p.Overhead.Seconds()
	return c.combine(p.Ridge)
}

// stepScores is IndexScoreCost for a decode step, with the fit's own kernel. c has the work.
func (s *Spec) stepScores(c Cost, x llm.Indexing, heads, dim int) Cost {
	p := &s.Index.StepScores
	rows := float64(x.Requests * x.Queries)
	c.Compute = 2 * float64(dim) * float64(max(heads, indexMinRows)) * float64(x.Pairs) / (p.Compute * s.peak(indexBits))
	c.Memory = c.Bytes / (p.Memory * float64(s.MemoryBandwidth))
	c.Latency = scoreBytes * rows * float64(x.Longest) / float64(p.FillBandwidth)
	c.Overhead = p.Overhead.Seconds() + float64(rows*p.RowTime.Seconds()) + float64(rows*rows*p.PairTime*1e-12)
	return c.combine(p.Ridge)
}

// IndexTopKCost returns the cost of choosing each token's best scores in one layer on one GPU. tied means that all scores are equal.
func (s *Spec) IndexTopKCost(x llm.Indexing, tied bool) Cost {
	p := &s.Index.TopK
	if *p == (RankSpec{}) {
		return s.TopKCost(DecodeBatch{Requests: x.Requests * x.Queries, Tokens: x.Pairs, Longest: x.Longest}, 1, x.Keep)
	}
	rows, elements, short := float64(x.Requests*x.Queries), float64(x.Pairs), 0.0
	if !x.Step { // the first tokens of a prompt see few others
		finished := x.Longest - x.Queries
		few := float64(min(max(x.Keep-finished, 0), x.Queries))
		short = float64(float64(x.Requests) * few)
		rows -= short
		elements -= float64(float64(x.Requests) * (float64(few*float64(finished)) + float64(few*(few+1)/2)))
	}
	row, element := p.RowTime.Seconds(), p.ElementTime.Seconds()
	if tied {
		row, element = row+p.TieRow.Seconds(), element+p.TieElement.Seconds()
	}
	c := Cost{Overhead: p.Overhead.Seconds(), Bytes: float64(scoreBytes*elements) + float64((scoreBytes+indexBytes)*(rows+short)*float64(x.Keep))}
	ranked := 0.0
	if rows > 0 {
		ranked = float64(s.rounds(rows, p.WaveQuantization) * (row + float64(elements/rows*element)))
	}
	c.Latency = ranked + float64(short/float64(s.SMs)*p.ShortTime.Seconds())
	c.Memory = c.Bytes / float64(s.MemoryBandwidth)
	return c.combine(0)
}
