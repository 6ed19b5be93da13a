package gpu

import (
	"math"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// PrefillSpec holds the parameters of prefill attention, a fused kernel (FlashAttention-2, Dao 2023, https://arxiv.org/abs/2307.08691) in
// which a thread block processes a tile of query rows of one head over all their keys. AttAcc's model uses only the two efficiencies.
type PrefillSpec struct {
	Model KernelModel `toml:"model"` // cost model of these kernels
	Efficiency
	// QueryRows is the number of query rows of a thread block, to which a chunk is padded; SplitRows is that of the kernel that splits keys
	// over blocks.
	QueryRows int `toml:"query_rows"`
	SplitRows int `toml:"split_query_rows"`
	// BlocksPerSM is the number of thread blocks that an SM holds at once. They share its rate; a block alone on its SM reaches LoneBlock
	// of the rate.
	BlocksPerSM int     `toml:"blocks_per_sm"`
	LoneBlock   float64 `toml:"lone_block_share"`
	// Startup is the time of a thread block for loading q, masking the diagonal and writing its output, in keys.
	Startup float64 `toml:"startup_keys"`
	// CausalTail is the time that the GPU waits for the longest tile of a causal mask, as a share of the difference to a mean tile: tiles
	// differ in length, and those started last end alone.
	CausalTail float64 `toml:"causal_tail"`
	// Below SplitLimit thread blocks for each SM, keys are split to reach SplitTarget blocks for each SM, in parts of at least SplitKeys
	// keys and at most MaxSplits parts.
	SplitTarget float64 `toml:"split_target"`
	SplitLimit  float64 `toml:"split_limit"`
	SplitKeys   int     `toml:"split_keys"`
	MaxSplits   int     `toml:"max_splits"`
	// MergeOverhead is the time of the kernel that merges the parts, and MergeRow the addition for each row of each part.
	MergeOverhead units.Duration `toml:"merge_overhead"`
	MergeRow      units.Duration `toml:"merge_row"`
	// KVTraffic multiplies the bytes of the chunk's own keys and values: tiles and heads read them repeatedly, and short chunks in pieces
	// too small to reach the bandwidth. Finished tokens are streamed once.
	KVTraffic float64 `toml:"kv_traffic"`
	// HeadKnee is the number of elements of a head (the mean of key and value) at which tiles reach half of their rate: narrow heads have
	// fewer operations for each score, which needs an exponential.
	HeadKnee float64 `toml:"head_knee,optional"`
	// PacksGroups lets kernels arrange a group's query heads as rows of one tile if that is faster, as FlashAttention-3 does if it fills
	// tiles better (hopper/heuristics.h, https://github.com/Dao-AILab/flash-attention).
	PacksGroups bool `toml:"packs_groups,optional"`
	// JoinsDecode means that the prompts' kernel also serves decoding requests; each query head of these then takes its own tile.
	JoinsDecode bool `toml:"joins_decode"`
}

// Check has the rules of the section [gpu.prefill_attention].
func (p *PrefillSpec) Check(c *input.Check) {
	p.Model.check(c, AttentionFlash)
	p.Efficiency.Check(c)
	input.Within(c, "query_rows", p.QueryRows, 1, 1024)
	input.Within(c, "split_query_rows", p.SplitRows, 1, 1024)
	input.Within(c, "blocks_per_sm", p.BlocksPerSM, 1, 1024)
	c.Share("lone_block_share", p.LoneBlock)
	atLeast(c, "startup_keys", p.Startup, 0)
	atLeast(c, "causal_tail", p.CausalTail, 0)
	atLeast(c, "split_target", p.SplitTarget, 0)
	atLeast(c, "split_limit", p.SplitLimit, 0)
	input.Within(c, "split_keys", p.SplitKeys, 1, 1<<30)
	input.Within(c, "max_splits", p.MaxSplits, 1, 1024)
	duration(c, "merge_overhead", p.MergeOverhead)
	duration(c, "merge_row", p.MergeRow)
	atLeast(c, "kv_traffic", p.KVTraffic, 1)
	atLeast(c, "head_knee", p.HeadKnee, 0)
}

// PrefillAttentionCost returns the cost of causal attention of a chunk of query tokens over the finished tokens before it and over itself,
// for a batch of equal requests in one kernel. It takes the fastest of the GPU's kernels; keys may be split over thread blocks, and a chunk
// of one token is a decode step.
func (s *Spec) PrefillAttentionCost(batch, chunk, finished int, h Heads) Cost {
	if batch <= 0 || chunk <= 0 {
		return Cost{}
	}
	return s.by(s.prefillOf(&h).Model).prefill(batch, chunk, finished, h)
}

// prefill also tries to split a chunk of less than two tiles in two, one after the other.
func (s measured) prefill(batch, chunk, finished int, h Heads) Cost {
	p := s.prefillOf(&h)
	c := s.fastestPrefill(p, batch, chunk, finished, h)
	if r := p.QueryRows; chunk > r && chunk < 2*r {
		if cut := s.fastestPrefill(p, batch, r, finished, h).then(s.fastestPrefill(p, batch, chunk-r, finished+r, h)); cut.Seconds < c.Seconds {
			return cut
		}
	}
	return c
}

// prompt does not share kernels with other requests: chunks share no data and run one after another.
func (s measured) prompt(w wave, chunk, finished int, h Heads) (Cost, wave) {
	return s.PrefillAttentionCost(1, chunk, finished, h), w
}

// fastestPrefill takes the fastest kernel for a chunk: tiles over all keys, tiles with split keys, or as many decode steps as it has
// tokens.
func (s measured) fastestPrefill(p *PrefillSpec, batch, chunk, finished int, h Heads) Cost {
	c := s.prefillTiles(p, batch, chunk, finished, h, true)
	if s.Suite == SuiteServer && s.Extend.MaxSplits > 1 && finished > 0 {
		if split, faster := s.extend(c.Seconds, batch, chunk, finished, h); faster {
			// No chunk takes less time with a cache than without. A p-norm is at most the sum.
			if alone := s.tiles(p, batch, chunk, 0, h, true); alone.Compute+alone.Memory+alone.Overhead > float64(split.Seconds*(1-rounding)) {
				split.Seconds = max(split.Seconds, alone.combine(p.Ridge).Seconds)
			}
			c = split
		}
	}
	if n := float64(chunk); chunk <= p.QueryRows && n*s.decodeOf(&h).Overhead.Seconds() < c.Seconds {
		if d := s.DecodeAttentionCost(UniformBatch(batch, finished+1), h).times(n); d.Seconds < c.Seconds {
			return d
		}
	}
	return c
}

// rounding is more than sums and products of a cost are rounded by, as a share.
const rounding = 1e-9

// leastPrefill returns seconds below which prefill never is, for a fraction of its computation: the largest limit of each kernel, without
// the rounded corner of the roofline.
func (s measured) leastPrefill(batch, chunk, finished int, h Heads) float64 {
	p := s.prefillOf(&h)
	t := s.leastKernel(p, batch, chunk, finished, h)
	if r := p.QueryRows; chunk > r && chunk < 2*r {
		t = min(t, s.leastKernel(p, batch, r, finished, h)+s.leastKernel(p, batch, chunk-r, finished+r, h))
	}
	return float64(t * (1 - rounding))
}

// leastKernel is leastPrefill of fastestPrefill.
func (s measured) leastKernel(p *PrefillSpec, batch, chunk, finished int, h Heads) float64 {
	tiles := s.tiles(p, batch, chunk, finished, h, true)
	t := max(tiles.Compute, tiles.Memory) + tiles.Overhead
	if s.Suite == SuiteServer && s.Extend.MaxSplits > 1 && finished > 0 {
		x := s.extending(batch, chunk, finished, h)
		t = min(t, x.least())
	}
	if chunk <= p.QueryRows {
		t = min(t, float64(chunk)*s.decodeOf(&h).Overhead.Seconds())
	}
	return t
}

// UnmaskedAttentionCost is PrefillAttentionCost without the causal mask: every query attends to the whole chunk.
func (s *Spec) UnmaskedAttentionCost(batch, chunk, finished int, h Heads) Cost {
	return s.prefillTiles(s.prefillOf(&h), batch, chunk, finished, h, false)
}

// joinedDecodeCost returns the addition of decoding requests to a kernel of prompts with up to prompt keys. Each of their query heads takes
// a tile, which is padded to its rows and shares no keys with the other heads of its group.
func (s *Spec) joinedDecodeCost(prompt int, b DecodeBatch, h Heads) Cost {
	if b.Requests <= 0 || b.Tokens <= 0 {
		return Cost{}
	}
	p := *s.prefillOf(&h)
	lone := p.LoneBlock
	p.Overhead, p.LoneBlock = 0, 1 // the prompts' kernel has started, and its blocks fill the SMs
	mean := int((b.Tokens - 1) / int64(b.Requests))
	c := s.prefillTiles(&p, b.Requests, 1, mean, h, true)
	if again := s.readAgain(&p, &b, h); again > 0 {
		c.Memory += again / (p.Memory * float64(s.MemoryBandwidth))
		c = c.combine(p.Ridge)
	}
	// Blocks of the last head run last. No other block shares the keys of the longest context, and the SMs wait for the block with its
	// excess over the others, alone on its SM.
	if beyond := b.Longest - max(mean+1, prompt); beyond > 0 {
		tail := float64(float64(beyond) * s.tileKey(&p, p.QueryRows, h) / lone)
		c.Seconds, c.Overhead = c.Seconds+tail, c.Overhead+tail
	}
	return c
}

// readAgain returns the bytes that a group's query heads read from memory repeatedly. Blocks run head by head, and concurrent heads share
// reads. Later blocks hit the L2 if one KV head of the batch fits it. Beyond that, the hit share falls linearly, to zero at twice the L2's
// size.
func (s *Spec) readAgain(p *PrefillSpec, b *DecodeBatch, h Heads) float64 {
	head := float64(b.Tokens) * h.kvBytes()
	lost := min(1, head/float64(s.Alone.L2)-1)
	if lost <= 0 {
		return 0
	}
	atOnce := max(1, float64(s.SMs*p.BlocksPerSM)/float64(b.Requests))
	return max(0, float64(h.group())/atOnce-1) * lost * head * float64(h.KV)
}

// tileKey returns the seconds of a tile of query rows for one key, at an SM's full rate.
func (s *Spec) tileKey(p *PrefillSpec, rows int, h Heads) float64 {
	key := h.pairFLOPs() * float64(rows) / (p.Compute * s.peak(s.prefillBits(h)) / float64(s.SMs))
	if p.HeadKnee > 0 {
		key *= 1 + p.HeadKnee/(h.ends()/2)
	}
	return key
}

// prefillBits returns the width of factors in a prompt's products: kernels for FP8 keys and values also convert the queries.
func (s *Spec) prefillBits(h Heads) int {
	if p := s.prefillOf(&h); p == &s.PrefillFP8 || p == &s.Latent.PrefillFP8 {
		return 8
	}
	return h.ElementBits
}

// prefillWork returns the FLOPs, bytes and fixed time of a causal kernel.
func (s *Spec) prefillWork(p *PrefillSpec, batch, chunk, finished int, h Heads) Cost {
	b, n, f := float64(batch), float64(chunk), float64(finished)
	rowBytes := elementBytes(b*h.ends(), h.ElementBits) // q and output, or the chunk's own k and v, of one token and head
	c := Cost{
		FLOPs:    float64(b*float64(h.Query)) * h.pairFLOPs() * (float64(n*f) + float64(n*(n+1)/2)),
		Bytes:    float64(rowBytes*n*float64(h.Query)) + float64((float64(rowBytes*n)+float64(b*h.kvBytes()*f))*float64(h.KV)),
		Overhead: p.Overhead.Seconds(),
	}
	c.Executed = c.FLOPs
	return c
}

// prefillTiles costs a kernel by tiles of query rows; with a causal mask, a mean tile sees half of the chunk's keys.
func (s *Spec) prefillTiles(p *PrefillSpec, batch, chunk, finished int, h Heads, causal bool) Cost {
	return s.tiles(p, batch, chunk, finished, h, causal).combine(p.Ridge)
}

// tiles is prefillTiles without Seconds.
func (s *Spec) tiles(p *PrefillSpec, batch, chunk, finished int, h Heads, causal bool) Cost {
	c := s.prefillWork(p, batch, chunk, finished, h)
	b, n, f := float64(batch), float64(chunk), float64(finished)
	heads, sms := float64(b*float64(h.Query)), float64(s.SMs)
	rows, parts := p.QueryRows, 1.0
	if blocks := heads * float64(ceilDiv(chunk, p.SplitRows)); blocks < float64(p.SplitLimit*sms) {
		if parts = min(p.SplitTarget*sms/blocks, (f+n)/float64(p.SplitKeys), float64(p.MaxSplits)); parts > 1 {
			rows = p.SplitRows
			c.Overhead += p.MergeOverhead.Seconds() + float64(parts*heads*n*p.MergeRow.Seconds())
		} else {
			parts = 1
		}
	}
	tiles := float64(ceilDiv(chunk, rows))
	padded := float64(tiles * float64(rows))
	own, longer := padded, 0.0 // keys of the chunk that a mean tile sees, and the longest tile's excess
	if causal {
		own = float64(float64(rows) * (tiles + 1) / 2)
		longer = padded - own
	}
	key := s.tileKey(p, rows, h)
	compute := func(tiles, own float64) float64 {
		whole, even := s.waves(p, float64(tiles*parts))
		if !causal {
			even = whole // all tiles are equal
		}
		return float64(whole*f/parts*key) + float64(even*(own/parts+p.Startup)*key) + float64(p.CausalTail*longer/parts*key)
	}
	c.Executed = heads * h.pairFLOPs() * padded * (f + own)
	c.Compute = compute(float64(heads*tiles), own)
	if group := float64(h.group()); p.PacksGroups && group > 1 && parts == 1 && causal {
		// Each KV head has fewer tiles, and a tile has fewer tokens, but keys still advance by the step of rows.
		tiles := float64(ceilDiv(chunk*h.group(), rows))
		packed := min(own, float64(float64(rows)*(tiles+group)/(2*group))+float64(float64(rows)*(1-1/group)/2))
		if took := compute(float64(b*float64(h.KV))*tiles, packed); took < c.Compute {
			c.Compute = took
			c.Executed = float64(b*float64(h.KV)) * tiles * float64(rows) * h.pairFLOPs() * (f + packed)
		}
	}
	c.Executed *= float64(s.prefillBits(h)) / float64(h.ElementBits)
	rowBytes := elementBytes(b*h.ends(), h.ElementBits)
	traffic := c.Bytes + float64((p.KVTraffic-1)*rowBytes*n*float64(h.KV))
	c.Memory = traffic / (p.Memory * float64(s.MemoryBandwidth))
	return c
}

// waves returns how long the SMs are busy with the given number of blocks, in units of a block's time at an SM's full rate: whole for equal
// blocks, which end together, and even for unequal ones, where the next begins when one ends.
func (s *Spec) waves(p *PrefillSpec, blocks float64) (whole, even float64) {
	if blocks <= float64(s.SMs) {
		return 1 / p.LoneBlock, 1 / p.LoneBlock
	}
	each := float64(p.BlocksPerSM)
	even = blocks / float64(s.SMs)
	return math.Ceil(even/each) * each, max(1/p.LoneBlock, even)
}
