package gpu

import "github.com/l3sim/l3sim/input"

import "github.com/l3sim/l3sim/units"

// PrefillSpec holds the parameters of prefill attention, a fused kernel
// (FlashAttention-2, Dao 2023, https://arxiv.org/abs/2307.08691) in which a
// thread block takes QueryTile rows of one head through all their keys.
// AttentionAttAcc reads only the two efficiencies.
type PrefillSpec struct {
	Model AttentionModel `toml:"model"` // how these kernels are costed
	Efficiency
	// QueryTile is the number of query rows of a thread block; a chunk is padded
	// to whole tiles.
	QueryTile int `toml:"query_tile"`
	// Startup is what a thread block spends on loading q, masking the diagonal
	// and writing its output, as a number of keys.
	Startup float64 `toml:"startup_keys"`
	// CausalTail is the time that the GPU waits for the longest tile of the
	// chunk, as a share of that tile's time: tiles of a causal mask differ in
	// length, and those begun last end alone.
	CausalTail float64 `toml:"causal_tail"`
	// FinishedOverhead is what a kernel over a cache of finished tokens takes
	// beyond one without: page tables, and merging split keys.
	FinishedOverhead units.Duration `toml:"finished_overhead"`
	// KVTraffic multiplies the bytes of the chunk's own keys and values: tiles
	// and heads read them again, and short chunks in pieces too small to reach
	// the bandwidth. Finished tokens stream once.
	KVTraffic float64 `toml:"kv_traffic"`
	// MaxSplits is the largest number of thread blocks that share the keys of a
	// tile where tiles do not fill the GPU: 1 for kernels that never split.
	MaxSplits int `toml:"max_splits"`
}

// Check has the rules of the section [gpu.prefill_attention].
func (p *PrefillSpec) Check(c *input.Check) {
	attentionModel(c, p.Model)
	p.Efficiency.Check(c)
	input.Within(c, "query_tile", p.QueryTile, 1, 1024)
	atLeast(c, "startup_keys", p.Startup, 0)
	atLeast(c, "causal_tail", p.CausalTail, 0)
	duration(c, "finished_overhead", p.FinishedOverhead)
	atLeast(c, "kv_traffic", p.KVTraffic, 1)
	input.Within(c, "max_splits", p.MaxSplits, 1, 1024)
}

// prefillAttention returns the seconds of causal attention of a chunk of query
// tokens of one request over the finished tokens before it and over itself.
func (s *Spec) prefillAttention(chunk, finished int, h Heads) float64 {
	return s.PrefillAttentionCost(1, chunk, finished, h).Seconds
}

// PrefillAttentionCost is prefillAttention, for a batch of equal requests in
// one kernel, with its parts. A chunk of one token is a decode step, and takes
// the decode kernel where that is faster.
func (s *Spec) PrefillAttentionCost(batch, chunk, finished int, h Heads) Cost {
	if batch <= 0 || chunk <= 0 {
		return Cost{}
	}
	c := s.prefillTiles(batch, chunk, finished, h)
	if s.Prefill.Model == AttentionAttAcc {
		waves := ceilDiv(batch*h.Query, s.SMs)
		return c.attAccWaves(waves, s.attAccBlock(&s.Prefill.Efficiency, float64(chunk), float64(finished+chunk), h))
	}
	if chunk == 1 {
		if d := s.DecodeAttentionCost(UniformBatch(batch, finished+1), h); d.Seconds < c.Seconds {
			return d
		}
	}
	return c
}

// prefillTiles is PrefillAttentionCost by tiles of query rows.
func (s *Spec) prefillTiles(batch, chunk, finished int, h Heads) Cost {
	p := &s.Prefill
	b, n, f := float64(batch), float64(chunk), float64(finished)
	queryHeads, pairFLOPs := b*float64(h.Query), 4*float64(h.Dim)
	rowBytes := elementBytes(2*b*float64(h.Dim), h.ElementBits) // q and output, or k and v, of one token and head
	qBytes, ownBytes := float64(rowBytes*n*float64(h.Query)), float64(rowBytes*n*float64(h.KV))
	finishedBytes := float64(rowBytes * f * float64(h.KV))
	c := Cost{
		FLOPs:    queryHeads * pairFLOPs * (float64(n*f) + float64(n*(n+1)/2)),
		Bytes:    qBytes + ownBytes + finishedBytes,
		Overhead: p.Overhead.Seconds(),
	}
	rate := p.Compute * s.peak(h.ElementBits)
	tiles := float64(ceilDiv(chunk, p.QueryTile))
	rows := float64(tiles * float64(p.QueryTile))
	keys := f + float64((rows+1)/2) + p.Startup                             // mean over the tiles
	blockTime := pairFLOPs * float64(p.QueryTile) / (rate / float64(s.SMs)) // of one key
	c.Compute = queryHeads*pairFLOPs*rows*keys/rate + float64(p.CausalTail*rows*blockTime)
	if finished > 0 {
		c.Overhead += p.FinishedOverhead.Seconds()
	}
	c.Memory = (qBytes + finishedBytes + float64(p.KVTraffic*ownBytes)) / (p.Memory * float64(s.MemoryBandwidth))
	// The last tile of a head sees every key; blocks share them only where SMs
	// would be idle.
	splits := min(float64(p.MaxSplits), max(1, float64(s.SMs)/(queryHeads*tiles)))
	c.Latency = (f + rows) / splits * blockTime
	return c.combine(p.Ridge)
}
