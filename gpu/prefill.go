package gpu

// PrefillSpec holds the parameters of prefill attention, a fused kernel
// (FlashAttention-2, Dao 2023, https://arxiv.org/abs/2307.08691) in which a
// thread block takes QueryTile rows of one head through all their keys.
type PrefillSpec struct {
	Efficiency
	// QueryTile is the number of query rows of a thread block; a chunk is padded
	// to whole tiles.
	QueryTile int `toml:"query_tile"`
	// Startup is what a thread block spends on loading q, masking the diagonal
	// and writing its output, as a number of keys.
	Startup float64 `toml:"startup_keys"`
	// MaxSplits is the largest number of thread blocks that share the keys of a
	// tile where tiles do not fill the GPU: 1 for kernels that never split.
	MaxSplits int `toml:"max_splits"`
}

func (p *PrefillSpec) validate(c *checker) {
	p.Efficiency.validate(c)
	if p.QueryTile < 1 || p.QueryTile > 1024 {
		c.bad(c.key("query_tile"), p.QueryTile, "1 to 1024")
	}
	c.atLeast(c.key("startup_keys"), p.Startup, 0)
	if p.MaxSplits < 1 || p.MaxSplits > 1024 {
		c.bad(c.key("max_splits"), p.MaxSplits, "1 to 1024")
	}
}

// PrefillAttention returns the seconds of causal attention of a chunk of query
// tokens of one request over the finished tokens before it and over itself.
func (s *Spec) PrefillAttention(chunk, finished int, h Heads) float64 {
	return s.PrefillAttentionCost(1, chunk, finished, h).Seconds
}

// PrefillAttentionCost is PrefillAttention, for a batch of equal requests in
// one kernel, with its parts.
func (s *Spec) PrefillAttentionCost(batch, chunk, finished int, h Heads) Cost {
	if batch <= 0 || chunk <= 0 {
		return Cost{}
	}
	p := &s.Prefill
	b, n, f := float64(batch), float64(chunk), float64(finished)
	queryHeads, pairFLOPs := b*float64(h.Query), 4*float64(h.Dim)
	c := Cost{
		FLOPs:    queryHeads * pairFLOPs * (n*f + n*(n+1)/2),
		Bytes:    elementBytes(2*b*float64(h.Dim)*(n*float64(h.Query)+(n+f)*float64(h.KV)), h.ElementBits),
		Overhead: p.Overhead.Seconds(),
	}
	rate := p.Compute * s.peak(h.ElementBits)
	tiles := float64(ceilDiv(chunk, p.QueryTile))
	rows := tiles * float64(p.QueryTile)
	keys := f + (rows+1)/2 + p.Startup // mean over the tiles
	c.Compute = queryHeads * pairFLOPs * rows * keys / rate
	c.Memory = c.Bytes / (p.Memory * float64(s.MemoryBandwidth))
	// The last tile of a head sees every key; blocks share them only where SMs
	// would be idle.
	splits := min(float64(p.MaxSplits), max(1, float64(s.SMs)/(queryHeads*tiles)))
	c.Latency = pairFLOPs * float64(p.QueryTile) * ((f+rows)/splits + p.Startup) / (rate / float64(s.SMs))
	return c.combine(p.Ridge)
}
