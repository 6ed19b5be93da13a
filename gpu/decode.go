package gpu

import "github.com/l3sim/l3sim/units"

// DecodeSpec holds the parameters of decode attention: one query token a
// request against its KV cache, keys split over thread blocks where requests
// do not fill the GPU (Flash-Decoding).
type DecodeSpec struct {
	Efficiency
	// QueryRows is the number of query rows of a tensor-core tile: the query
	// heads of a group are padded to it.
	QueryRows int `toml:"query_rows"`
	// ItemTime is what a thread block spends on one request and KV head however
	// short its context is; the SMs share the items.
	ItemTime units.Duration `toml:"item_time"`
	// SplitOverhead is the time of merging the parts of split contexts; it
	// grows linearly up to SplitContext tokens, from where all are split.
	SplitOverhead units.Duration `toml:"split_overhead"`
	SplitContext  int            `toml:"split_context"`
	// BlockBandwidth is the most that one thread block can read: it bounds a
	// long context that shares a batch with enough others to leave no SM idle.
	BlockBandwidth units.Bandwidth `toml:"block_bandwidth"`
}

func (d *DecodeSpec) validate(c *checker) {
	d.Efficiency.validate(c)
	if d.QueryRows < 1 || d.QueryRows > 1024 {
		c.bad(c.key("query_rows"), d.QueryRows, "1 to 1024")
	}
	c.duration(c.key("item_time"), d.ItemTime)
	c.duration(c.key("split_overhead"), d.SplitOverhead)
	if d.SplitContext < 1 || d.SplitContext > 1<<30 {
		c.bad(c.key("split_context"), d.SplitContext, "1 to 1073741824")
	}
	c.bandwidth(c.key("block_bandwidth"), d.BlockBandwidth)
}

// DecodeBatch is a batch of decoding requests as attention sees it. The zero
// value is the empty batch.
type DecodeBatch struct {
	Requests int
	Tokens   int64 // sum of the contexts
	Longest  int   // longest context
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

// DecodeAttention returns the seconds of one decode step's attention of a
// batch in one layer on one GPU.
func (s *Spec) DecodeAttention(b DecodeBatch, h Heads) float64 {
	return s.DecodeAttentionCost(b, h).Seconds
}

// DecodeAttentionCost is DecodeAttention with its parts. Unequal contexts cost
// the sum of their work, and at least what the longest one alone needs on the
// thread blocks that it gets.
func (s *Spec) DecodeAttentionCost(b DecodeBatch, h Heads) Cost {
	if b.Requests <= 0 || b.Tokens <= 0 {
		return Cost{}
	}
	d := &s.Decode
	requests, tokens, dim := float64(b.Requests), float64(b.Tokens), float64(h.Dim)
	kvBytes := elementBytes(2*dim, h.ElementBits) // of one token and KV head
	c := Cost{
		FLOPs: 4 * dim * float64(h.Query) * tokens,
		Bytes: kvBytes * (tokens*float64(h.KV) + requests*float64(h.Query)),
	}
	rows := float64(ceilDiv(h.group(), d.QueryRows) * d.QueryRows)
	c.Compute = 4 * dim * rows * float64(h.KV) * tokens / (d.Compute * s.peak(h.ElementBits))
	c.Memory = c.Bytes / (d.Memory * float64(s.MemoryBandwidth))
	items := requests * float64(h.KV)
	blocks := max(1, float64(s.SMs)/items) // thread blocks that share one context
	longest := float64(b.Longest) * kvBytes / blocks
	c.Latency = max(items/float64(s.SMs)*d.ItemTime.Seconds(), longest/float64(d.BlockBandwidth))
	split := min(1, float64(b.Longest)/float64(d.SplitContext))
	c.Overhead = d.Overhead.Seconds() + float64(split*d.SplitOverhead.Seconds())
	return c.combine(d.Ridge)
}
