package gpu

import (
	"math"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// DecodeSpec holds the parameters of decode attention: one query token for each request against its KV cache. If requests do not fill the
// GPU, keys are split over thread blocks (Flash-Decoding, https://crfm.stanford.edu/2023/10/12/flashdecoding.html). AttAcc's model uses
// only the two efficiencies.
type DecodeSpec struct {
	Model KernelModel `toml:"model"` // cost model of these kernels
	Efficiency
	// QueryRows is the number of query rows of a tensor-core tile when contexts are split, UnsplitRows when they are not. A group's query
	// heads are padded to it.
	QueryRows   int `toml:"query_rows"`
	UnsplitRows int `toml:"unsplit_query_rows"`
	// BlocksPerSM is the number of thread blocks that an SM holds at once.
	BlocksPerSM int `toml:"blocks_per_sm"`
	// SplitTarget is the number of thread blocks for each SM that the kernel aims at by splitting contexts. From SplitLimit blocks for each
	// SM on, it does not split. A part has at least SplitKeys tokens, a block's step, and a context at most MaxSplits parts.
	SplitTarget float64 `toml:"split_target"`
	SplitLimit  float64 `toml:"split_limit"`
	SplitKeys   int     `toml:"split_keys"`
	MaxSplits   int     `toml:"max_splits"`
	// SplitMinGroup is the smallest query group whose contexts the kernel splits: 1 for all, 2 for kernels that do not split multi-head
	// attention.
	SplitMinGroup int `toml:"split_min_group"`
	// Split selects how unequal contexts share the thread blocks.
	Split Split `toml:"split"`
	// UnequalTime and UnequalShare are the cost of unequal contexts with balanced splits: up to UnequalTime, plus UnequalShare of the
	// larger of memory and compute time, both in proportion to (longest - mean) / longest.
	// Contexts below SplitKeys count as one part.
	UnequalTime  units.Duration `toml:"unequal_time"`
	UnequalShare float64        `toml:"unequal_share"`
	// UnequalTarget is the number of thread blocks for each SM that fixed splits aim at for unequal contexts. UnequalBandwidth is the rate
	// of a block that, after all others, reads the longest context's excess over the mean.
	UnequalTarget    float64         `toml:"unequal_target"`
	UnequalBandwidth units.Bandwidth `toml:"unequal_bandwidth"`
	// BlockStartup is the time of a thread block before its first keys arrive and after its last; it is shared by the blocks that an SM
	// holds at once.
	BlockStartup units.Duration `toml:"block_startup"`
	// FillTime is the time until all SMs stream, plus the time in which the last ones end; fewer blocks than the GPU holds take a
	// proportional share of it.
	FillTime units.Duration `toml:"fill_time"`
	// StreamTime is the additional time, with fixed splits, until all contexts that are read at once stream, at most as long as memory
	// takes. Parts of a context share it: if requests have fewer KV heads than the GPU holds blocks, they take a proportional share.
	StreamTime units.Duration `toml:"stream_time"`
	// GroupOverhead is the time of the kernel that arranges a group's query heads as rows of one tile; a single request or KV head needs no
	// grouping.
	GroupOverhead units.Duration `toml:"group_overhead"`
	// MergeOverhead is the time of the kernel that merges the parts of split contexts, and MergePart the addition for each part of a
	// context.
	MergeOverhead units.Duration `toml:"merge_overhead"`
	MergePart     units.Duration `toml:"merge_part"`
	// GroupLimit is the number of query heads of a KV head that a kernel serves with one read of its keys and values; for more, it reads
	// them again. 0: all of them.
	GroupLimit int `toml:"group_limit,optional"`
	// LoneElement is an SM's time for one element of a key or value of a KV head with a single query head, if a kernel on CUDA cores serves
	// these; it overlaps with memory.
	LoneElement units.Duration `toml:"lone_element_time,optional"`
	// WaveQuantization limits the last thread blocks of a kernel without splits to BlockBandwidth.
	WaveQuantization bool `toml:"wave_quantization"`
	// BlockBandwidth is the rate at which one thread block reads: it bounds the longest context of a batch.
	BlockBandwidth units.Bandwidth `toml:"block_bandwidth"`
}

// Split selects how the thread blocks of decode attention share unequal contexts.
type Split string

// The splits.
const (
	// SplitBalanced splits into parts of equal length, so that longer contexts have more: FlashInfer, FlashAttention-3, PagedAttention V2.
	SplitBalanced Split = "balanced"
	// SplitFixed splits every context into the same number of parts: FlashAttention-2.
	SplitFixed Split = "fixed"
)

// Check has the rules of the section [gpu.decode_attention].
func (d *DecodeSpec) Check(c *input.Check) {
	d.Model.check(c, AttentionFlash)
	d.Efficiency.Check(c)
	input.Within(c, "query_rows", d.QueryRows, 1, 1024)
	input.Within(c, "unsplit_query_rows", d.UnsplitRows, 1, 1024)
	input.Within(c, "blocks_per_sm", d.BlocksPerSM, 1, 1024)
	atLeast(c, "split_target", d.SplitTarget, 0)
	atLeast(c, "split_limit", d.SplitLimit, 0)
	input.Within(c, "split_keys", d.SplitKeys, 1, 1<<30)
	input.Within(c, "max_splits", d.MaxSplits, 1, 1<<20)
	input.Within(c, "split_min_group", d.SplitMinGroup, 1, 1<<20)
	input.OneOf(c, "split", d.Split, SplitBalanced, SplitFixed)
	duration(c, "unequal_time", d.UnequalTime)
	atLeast(c, "unequal_share", d.UnequalShare, 0)
	atLeast(c, "unequal_target", d.UnequalTarget, 0)
	bandwidth(c, "unequal_bandwidth", d.UnequalBandwidth)
	duration(c, "block_startup", d.BlockStartup)
	duration(c, "fill_time", d.FillTime)
	duration(c, "stream_time", d.StreamTime)
	duration(c, "group_overhead", d.GroupOverhead)
	duration(c, "merge_overhead", d.MergeOverhead)
	duration(c, "merge_part", d.MergePart)
	bandwidth(c, "block_bandwidth", d.BlockBandwidth)
	input.Within(c, "group_limit", d.GroupLimit, 0, 1<<16)
	duration(c, "lone_element_time", d.LoneElement)
}

// DecodeBatch is a batch of decoding requests, as seen by attention. The zero value is the empty batch.
type DecodeBatch struct {
	Requests int
	Tokens   int64 // sum of the contexts
	Longest  int   // longest context
	KVHeads  int   // KV heads of the model to attend to; 0 for all
	Windowed bool  // layers with a window, if these have other heads
	// Page is the number of consecutive tokens in selected pages, which may be anywhere in memory; 0 for contexts read in order.
	Page         int
	PerQueryHead bool // each query head selects its own pages
	Weights      bool // the kernel also returns the weights of the softmax
}

// Add adds a request with the given context, including its new token.
func (b *DecodeBatch) Add(context int) {
	b.Requests++
	b.Tokens += int64(context)
	b.Longest = max(b.Longest, context)
}

// UniformBatch returns a batch of requests with equal contexts.
func UniformBatch(requests, context int) DecodeBatch {
	return DecodeBatch{Requests: requests, Tokens: int64(requests) * int64(context), Longest: context}
}

// DecodeAttentionCost returns the cost of one decode step's attention of a batch in one layer on one GPU. Unequal contexts cost the sum of
// their work, plus the cost of sharing it unequally, and at least the time of the longest one alone on its thread blocks.
func (s *Spec) DecodeAttentionCost(b DecodeBatch, h Heads) Cost {
	if b.Requests <= 0 || b.Tokens <= 0 {
		return Cost{}
	}
	return s.by(s.decodeOf(&h).Model).decode(b, h)
}

func (s measured) decode(b DecodeBatch, h Heads) (c Cost) {
	s.decodeParts(&c, &b, 0, h)
	c.combined(s.decodeOf(&h).Ridge)
	return c
}

// decodeParts sets the time parts of c for a batch after the given number of further steps.
func (s measured) decodeParts(c *Cost, b *DecodeBatch, steps int, h Heads) {
	d := s.decodeOf(&h)
	longest := float64(b.Longest + steps)
	requests, tokens, pair := float64(b.Requests), float64(b.Tokens+int64(steps*b.Requests)), h.pairFLOPs()
	qBytes, kvBytes := h.decodeBytes(requests, tokens)
	*c = Cost{FLOPs: pair * float64(h.Query) * tokens, Bytes: kvBytes + qBytes, Overhead: d.Overhead.Seconds()}
	items := requests * float64(h.KV)
	parts, rows := d.parts(s.SMs, items, tokens/requests, s.blockToken(h), h.group())
	c.Executed = pair * float64(ceilDiv(h.group(), rows)*rows) * float64(h.KV) * tokens
	if h.group() > 1 && h.KV > 1 && b.Requests > 1 {
		c.Overhead += d.GroupOverhead.Seconds()
	}
	s.blocks(c, items, parts, tokens/requests, longest, tokens, tokens, kvBytes, h.group(), h)
}

// blockToken returns the time of a single thread block on an SM for one token of a context.
func (s measured) blockToken(h Heads) float64 {
	return h.kvBytes() / float64(s.decodeOf(&h).BlockBandwidth)
}

// blocks adds the time of thread blocks that read the contexts of items KV heads, with tokens and kvBytes in total, each mean context in
// parts parts. c has the work. attended is the number of pairs of a query and a token that it attends to, group the number of query heads
// of a KV head.
func (s measured) blocks(c *Cost, items, parts, mean, longest, tokens, attended, kvBytes float64, group int, h Heads) {
	d := s.decodeOf(&h)
	latent := s.latentDecode(&h)
	if latent == &s.Latent.DecodeFP8 {
		c.Compute = c.Executed / (d.Compute * s.peak(h.KVBits))
		c.Executed /= 2
	} else {
		c.Compute = max(c.Executed/(d.Compute*s.peak(h.ElementBits)), s.converts(tokens, attended, h))
	}
	if group == 1 {
		c.Compute = max(c.Compute, h.stored()*tokens*float64(h.KV)*d.LoneElement.Seconds()/float64(s.SMs))
	}
	traffic := c.Bytes
	switch {
	case h.prompt: // repeated reads hit the L2
	case latent != nil:
		traffic += float64(latent.again(group) * kvBytes)
	case d.GroupLimit > 0:
		traffic += float64(float64(ceilDiv(group, d.GroupLimit)-1) * kvBytes)
	}
	c.Memory = traffic / (d.Memory * float64(s.MemoryBandwidth))
	slots := float64(s.SMs * d.BlocksPerSM)
	waves := items * parts / slots
	c.Overhead += float64(waves*d.BlockStartup.Seconds()) + float64(min(1, waves)*d.FillTime.Seconds())
	if d.Split == SplitFixed {
		c.Overhead += min(min(1, items/slots)*d.StreamTime.Seconds(), c.Memory)
	}
	token := s.blockToken(h)
	most := max(parts, d.longestParts(s.SMs, items, longest, token, group))
	if merged := min(most, float64(parts*longest)/mean); merged > 1 { // up to two parts of some contexts
		c.Overhead += float64(min(1, merged-1)*d.MergeOverhead.Seconds()) + float64(merged*d.MergePart.Seconds())
	}
	if parts == 1 && d.WaveQuantization && items > slots {
		// Full waves move bytes at the shared bandwidth; the last wave takes at least the time of a block with a mean context.
		full := math.Floor(items/slots) * slots / items
		if rest := 1 - full; rest > 0 {
			tail := max(rest*max(c.Memory, c.Compute), kvBytes/items/float64(d.BlockBandwidth))
			c.Memory, c.Compute = float64(full*c.Memory)+tail, float64(full*c.Compute)+tail
		}
	}
	c.Latency = max(mean/parts, longest/most, float64(d.SplitKeys)) * token
	if beyond := longest - max(mean, float64(d.SplitKeys)); beyond > 0 { // a shorter context is one part, too
		more := float64(min(1, waves)*d.UnequalTime.Seconds()) + float64(d.UnequalShare*max(c.Compute, c.Memory))
		c.Overhead += float64(beyond / longest * more)
		if d.Split == SplitFixed {
			c.Overhead += beyond / most * h.kvBytes() / float64(d.UnequalBandwidth)
		}
	}
}

// longestParts returns the number of parts into which the longest context of a batch can be split.
func (d *DecodeSpec) longestParts(sms int, items, longest, token float64, group int) float64 {
	most := d.mostParts(longest, token)
	switch {
	case group < d.SplitMinGroup, d.Split == SplitFixed && items >= float64(d.SplitLimit*float64(sms)):
		return 1
	case d.Split == SplitFixed:
		return min(most, d.UnequalTarget*float64(sms)/items)
	default:
		return most
	}
}

// mostParts returns the number of parts into which a context of keys can be split; a block takes token seconds for each key. Balanced
// splits stop when one more part would cost more in merging than it saves.
func (d *DecodeSpec) mostParts(keys, token float64) float64 {
	most := min(float64(d.MaxSplits), keys/float64(d.SplitKeys))
	if merge := d.MergePart.Seconds(); d.Split != SplitFixed && float64(most*most*merge) > float64(keys*token) {
		most = math.Sqrt(keys * token / merge)
	}
	return most
}

// parts returns the number of thread blocks that share a mean context, and the query rows of their tiles.
func (d *DecodeSpec) parts(sms int, items, keys, token float64, group int) (parts float64, rows int) {
	if group >= d.SplitMinGroup && items < float64(d.SplitLimit*float64(sms)) {
		if parts = min(d.mostParts(keys, token), d.SplitTarget*float64(sms)/items); parts > 1 {
			return parts, d.QueryRows
		}
	}
	return 1, d.UnsplitRows
}
