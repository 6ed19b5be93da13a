package gpu

import (
	"math"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// DecodeSpec holds the parameters of decode attention: one query token a
// request against its KV cache, keys split over thread blocks where requests
// do not fill the GPU (Flash-Decoding). AttentionAttAcc reads only the two
// efficiencies.
type DecodeSpec struct {
	Model AttentionModel `toml:"model"` // how these kernels are costed
	Efficiency
	// QueryRows is the number of query rows of a tensor-core tile: the query
	// heads of a group are padded to it.
	QueryRows int `toml:"query_rows"`
	// ItemTime is what a thread block spends on one request and KV head however
	// short its context is; the SMs share the items.
	ItemTime units.Duration `toml:"item_time"`
	// GroupOverhead is the time of the kernel that lays out the query heads of a
	// group as rows of one tile; a single request or KV head needs no grouping.
	GroupOverhead units.Duration `toml:"group_overhead"`
	// SplitOverhead is the time of merging the parts of a split context: none up
	// to SplitContext tokens, a block of keys, and all of it SplitRamp tokens
	// further on.
	SplitOverhead units.Duration `toml:"split_overhead"`
	SplitContext  int            `toml:"split_context"`
	SplitRamp     int            `toml:"split_ramp"`
	// SplitMinGroup is the smallest query group whose contexts the kernel
	// splits: 1 for all, 2 for kernels that do not split multi-head attention.
	SplitMinGroup int `toml:"split_min_group"`
	// WaveQuantisation counts whole waves of thread blocks, BlocksPerSM on an SM,
	// once there are more than SplitOccupancy of what the GPU holds: from there
	// on kernels do not split, and reach UnsplitShare of the bandwidth.
	WaveQuantisation bool    `toml:"wave_quantisation"`
	BlocksPerSM      int     `toml:"blocks_per_sm"`
	SplitOccupancy   float64 `toml:"split_occupancy"`
	UnsplitShare     float64 `toml:"unsplit_share"`
	// BlockBandwidth is the rate at which one thread block reads: it bounds a
	// context that is not split, or that shares a batch with enough others to
	// leave no SM idle.
	BlockBandwidth units.Bandwidth `toml:"block_bandwidth"`
}

// Check has the rules of the section [gpu.decode_attention].
func (d *DecodeSpec) Check(c *input.Check) {
	attentionModel(c, d.Model)
	d.Efficiency.Check(c)
	input.Within(c, "query_rows", d.QueryRows, 1, 1024)
	duration(c, "item_time", d.ItemTime)
	duration(c, "group_overhead", d.GroupOverhead)
	duration(c, "split_overhead", d.SplitOverhead)
	input.Within(c, "split_context", d.SplitContext, 1, 1<<30)
	input.Within(c, "split_ramp", d.SplitRamp, 1, 1<<30)
	input.Within(c, "split_min_group", d.SplitMinGroup, 1, 1<<16)
	input.Within(c, "blocks_per_sm", d.BlocksPerSM, 1, 64)
	atLeast(c, "split_occupancy", d.SplitOccupancy, 0)
	c.Share("unsplit_share", d.UnsplitShare)
	bandwidth(c, "block_bandwidth", d.BlockBandwidth)
}

// DecodeBatch is a batch of decoding requests as attention sees it. The zero
// value is the empty batch.
type DecodeBatch struct {
	Requests int
	Tokens   int64 // sum of the contexts
	Longest  int   // longest context
	KVHeads  int   // of the model, that attend; 0 for all
}

// Add adds a request with the given context, its own token included.
func (b *DecodeBatch) Add(context int) {
	b.Requests++
	b.Tokens += int64(context)
	b.Longest = max(b.Longest, context)
}

// UniformBatch returns a batch of requests with equal contexts.
func UniformBatch(requests, context int) DecodeBatch {
	return DecodeBatch{Requests: requests, Tokens: int64(requests) * int64(context), Longest: context}
}

// decodeAttention returns the seconds of one decode step's attention of a
// batch in one layer on one GPU.
func (s *Spec) decodeAttention(b DecodeBatch, h Heads) float64 {
	return s.DecodeAttentionCost(b, h).Seconds
}

// DecodeAttentionCost is decodeAttention with its parts. Unequal contexts cost
// the sum of their work, and at least what the longest one alone needs on the
// thread blocks that it gets.
func (s *Spec) DecodeAttentionCost(b DecodeBatch, h Heads) Cost {
	if b.Requests <= 0 || b.Tokens <= 0 {
		return Cost{}
	}
	d := &s.Decode
	requests, tokens, dim := float64(b.Requests), float64(b.Tokens), float64(h.Dim)
	rowBytes := elementBytes(2*dim, h.ElementBits) // k and v, or q and output, of one token and head
	qBytes, kvBytes := float64(rowBytes*requests*float64(h.Query)), float64(rowBytes*tokens*float64(h.KV))
	c := Cost{FLOPs: 4 * dim * float64(h.Query) * tokens, Bytes: kvBytes + qBytes, Overhead: d.Overhead.Seconds()}
	if d.Model == AttentionAttAcc {
		// The simulator's requests are equal. Unequal ones take the time of equal ones of
		// their mean context, and at least what the longest one's block needs.
		longest := s.attAccBlock(&d.Efficiency, 1, float64(b.Longest), h)
		c = c.attAccWaves(ceilDiv(b.Requests*h.Query, s.SMs), s.attAccBlock(&d.Efficiency, 1, tokens/requests, h))
		c.Latency = longest.Compute + longest.Memory
		c.Seconds = max(c.Seconds, c.Latency)
		return c
	}
	bandwidth := d.Memory * float64(s.MemoryBandwidth)
	rows := float64(ceilDiv(h.group(), d.QueryRows) * d.QueryRows)
	c.Compute = 4 * dim * rows * float64(h.KV) * tokens / (d.Compute * s.peak(h.ElementBits))
	c.Memory = c.Bytes / bandwidth
	if h.group() > 1 && h.KV > 1 && b.Requests > 1 {
		c.Overhead += d.GroupOverhead.Seconds()
	}
	items := requests * float64(h.KV)
	if slots := float64(s.SMs * d.BlocksPerSM); d.WaveQuantisation && items > d.SplitOccupancy*slots {
		// Full waves move bytes at the shared bandwidth; the last one also takes
		// what a block of mean context needs.
		full := math.Floor(items/slots) * slots / items
		tail := max((1-full)*kvBytes/bandwidth, kvBytes/items/float64(d.BlockBandwidth))
		if full == 1 {
			tail = 0
		}
		c.Memory = ((qBytes+float64(full*kvBytes))/bandwidth + tail) / d.UnsplitShare
	}
	blocks := 1.0 // thread blocks that share one context
	if h.group() >= d.SplitMinGroup {
		blocks = max(1, float64(s.SMs)/items)
		parts := min(1, max(0, float64(b.Longest-d.SplitContext)/float64(d.SplitRamp)))
		c.Overhead += float64(parts * d.SplitOverhead.Seconds())
	}
	longest := float64(b.Longest) * rowBytes / blocks / float64(d.BlockBandwidth)
	c.Latency = max(float64(items/float64(s.SMs)*d.ItemTime.Seconds())+qBytes/bandwidth, longest)
	return c.combine(d.Ridge)
}
