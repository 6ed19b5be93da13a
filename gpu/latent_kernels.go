package gpu

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// LatentTables has the kernels of latent attention, as far as the fit has them. A zero value stands for none, and then the parameters of
// attention over keys and values, or of plain products, are used.
type LatentTables struct {
	// Decode steps over latents of 16 bits and of FP8; the FP8 kernels also convert the queries.
	Decode    LatentDecodeSpec `toml:"decode,omitempty"`
	DecodeFP8 LatentDecodeSpec `toml:"decode_fp8,omitempty"`
	// Prompts with keys and values expanded from latents, of 16 bits and of FP8.
	Prefill    PrefillSpec `toml:"prefill,omitempty"`
	PrefillFP8 PrefillSpec `toml:"prefill_fp8,omitempty"`
	// Absorbed makes prompts attend to latents directly, as decode steps do.
	Absorbed bool `toml:"prefill_absorbed,omitempty"`
	// ExpandsFrom is the number of finished tokens from which absorbed prompts attend to expanded keys and values again, as prompts
	// without finished tokens then do; 0: all are absorbed.
	ExpandsFrom int `toml:"prefill_expands_from,omitempty"`
	// The batched products before and after a decode step, one for each head.
	Products LatentProductSpec `toml:"products,omitempty"`
	// WidensBlocks makes these products take 16 bits for weights in FP8 blocks, which the server widens as it loads them.
	WidensBlocks bool              `toml:"widens_blocks,omitempty"`
	ProductsFP8  LatentProductSpec `toml:"products_fp8,omitempty"`
	// Chosen is attention over cached rows that an indexer has chosen.
	Chosen ChosenSpec `toml:"chosen,omitempty"`
}

// LatentDecodeSpec holds the parameters of decode attention over latents, one KV head for all query heads.
type LatentDecodeSpec struct {
	DecodeSpec
	// WideGroup is the largest number of heads for the kernel of few heads, which reads latents once for each group_limit heads. For more
	// heads, another kernel reads latents once. 0: there is only one kernel.
	WideGroup int `toml:"wide_group"`
	// AgainShare is the share of a repeated read that comes from memory; the rest hits the L2.
	AgainShare float64 `toml:"again_share"`
}

// Check has the rules of a section of latent decode attention.
func (l *LatentDecodeSpec) Check(c *input.Check) {
	l.DecodeSpec.Check(c)
	input.Within(c, "wide_group", l.WideGroup, 0, 1<<16)
	c.That(l.AgainShare >= 0 && l.AgainShare <= 1, "again_share", l.AgainShare, "0 to 1")
}

// again returns the number of additional reads of latents from memory for a group of heads.
func (l *LatentDecodeSpec) again(group int) float64 {
	if l.GroupLimit == 0 || l.WideGroup > 0 && group > l.WideGroup {
		return 0
	}
	return float64(ceilDiv(group, l.GroupLimit)-1) * l.AgainShare
}

// LatentProductSpec holds the parameters of the batched products before and after absorbed attention.
type LatentProductSpec struct {
	Efficiency
	// TileRows is the number of tokens in a thread block's tile, for one head; tokens are padded to it. Its columns are all of a product
	// with up to 128.
	TileRows int `toml:"tile_rows"`
	// KRamp is the number of k steps that a thread block spends filling its pipeline and writing its tile.
	KRamp float64 `toml:"k_ramp"`
	// Convert is the fixed time of the kernel that narrows activations, and ConvertMemory the share of the memory bandwidth that it
	// reaches, above 1 if the L2 holds them; 0: nothing is converted.
	Convert       units.Duration `toml:"convert_overhead"`
	ConvertMemory float64        `toml:"convert_memory_efficiency"`
	// Widens makes the products of FP8 weights take 16 bits: the server widens the weights as it loads them.
	Widens bool `toml:"widens,omitempty"`
}

const mostInCache = 10 // times the memory's bandwidth, for an L2 that holds activations

// Check has the rules of a section of absorbed products.
func (p *LatentProductSpec) Check(c *input.Check) {
	p.Efficiency.Check(c)
	input.Within(c, "tile_rows", p.TileRows, 1, 1024)
	atLeast(c, "k_ramp", p.KRamp, 0)
	duration(c, "convert_overhead", p.Convert)
	c.That(p.ConvertMemory >= 0 && p.ConvertMemory <= mostInCache, "convert_memory_efficiency", p.ConvertMemory, "0 to %d", mostInCache)
}

// ChosenSpec holds the parameters of attention over chosen rows. A block gathers a token's rows for a tile of its heads.
type ChosenSpec struct {
	Efficiency
	// TileRows is the number of heads in a tile, to which a token's heads are padded.
	TileRows int `toml:"tile_rows"`
	// Cluster is the number of thread blocks, each on an SM, that share a tile; 0: one.
	Cluster int `toml:"cluster,omitempty"`
	// Slots is the number of rows that a block passes over, chosen or not.
	Slots int `toml:"slots"`
	// RowTime is a block's time for a row when alone on its SM, with several rows in flight.
	RowTime units.Duration `toml:"row_time"`
	// WidenedShare is the share of a kernel's rates, in steps and prompts, that it reaches over FP8 rows that it widens; 0: all of them.
	WidenedShare float64 `toml:"widened_share,omitempty"`
	// WaveQuantization rounds the tokens' blocks up to whole waves over the SMs.
	WaveQuantization bool `toml:"wave_quantization"`
}

const mostClustered = 16 // thread blocks of CUDA's largest cluster

// Check has the rules of the section of attention over chosen rows.
func (p *ChosenSpec) Check(c *input.Check) {
	p.Efficiency.Check(c)
	input.Within(c, "tile_rows", p.TileRows, 1, 1024)
	input.Within(c, "cluster", p.Cluster, 0, mostClustered)
	input.Within(c, "slots", p.Slots, 0, 1<<20)
	duration(c, "row_time", p.RowTime)
	c.That(p.WidenedShare >= 0 && p.WidenedShare <= 1, "widened_share", p.WidenedShare, "0 to 1")
}

// Check has the rules of the section [gpu.latent].
func (l *LatentTables) Check(c *input.Check) {
	input.Within(c, "prefill_expands_from", l.ExpandsFrom, 0, 1<<30)
	given(c, "decode", &l.Decode)
	given(c, "decode_fp8", &l.DecodeFP8)
	given(c, "prefill", &l.Prefill)
	given(c, "prefill_fp8", &l.PrefillFP8)
	given(c, "products", &l.Products)
	given(c, "products_fp8", &l.ProductsFP8)
	given(c, "chosen", &l.Chosen)
}

// latentDecode returns the kernels of decode attention over latents with these elements, or nil if the fit has none.
func (s *Spec) latentDecode(h *Heads) *LatentDecodeSpec {
	switch l := &s.Latent; {
	case !h.Latent || s.Suite != SuiteServer:
		return nil
	case h.KVFloat && l.DecodeFP8.Compute > 0:
		return &l.DecodeFP8
	case h.KVBits == 0 || h.KVBits >= h.ElementBits:
		if l.Decode.Compute > 0 {
			return &l.Decode
		}
	}
	return nil
}

// latentPrefill is latentDecode for prompts. If a fit has no FP8 kernels, the 16-bit ones are used. Beside absorbed kernels, prompts with
// expanded keys take the kernel of other models.
func (s *Spec) latentPrefill(h *Heads) *PrefillSpec {
	switch l := &s.Latent; {
	case !h.Expanded && !h.Latent || s.Suite != SuiteServer:
		return nil
	case h.Expanded && l.Absorbed: // the tables' kernels are the absorbed ones
		return nil
	case h.KVFloat && l.PrefillFP8.Compute > 0:
		return &l.PrefillFP8
	case l.Prefill.Compute > 0:
		return &l.Prefill
	}
	return nil
}

// AbsorbedCost returns the cost of one product for each head, tokens by n × k, with elements of the given bits.
func (s *Spec) AbsorbedCost(heads, tokens, n, k, bits int) Cost {
	p := &s.Latent.Products
	if bits <= 8 {
		p = &s.Latent.ProductsFP8
	}
	if p.Widens {
		bits = 16
	}
	h, m, fn, fk := float64(heads), float64(tokens), float64(n), float64(k)
	c := Cost{
		FLOPs: 2 * h * m * fn * fk, Overhead: p.Overhead.Seconds(),
		Bytes: float64(elementBytes(h*fk*(m+fn), bits)) + float64(elementBytes(h*m*fn, 16)),
	}
	const columns = 128
	width := min(columns, fn)
	blocks := h * float64(ceilDiv(tokens, p.TileRows)) * (fn / width)
	tile := 2 * float64(p.TileRows) * width * (fk + p.KRamp) // operations of a block
	c.Compute = max(1, blocks/float64(s.SMs)) * tile / (p.Compute * s.peak(bits) / float64(s.SMs))
	c.Executed = c.FLOPs * float64(ceilDiv(tokens, p.TileRows)*p.TileRows) / m * float64(bits) / 16
	c.Memory = c.Bytes / (p.Memory * float64(s.MemoryBandwidth))
	if p.ConvertMemory > 0 && !p.Widens {
		bytes := float64(elementBytes(h*m*fk, 16+bits))
		c.Overhead += float64(bytes/(p.ConvertMemory*float64(s.MemoryBandwidth))) + p.Convert.Seconds()
		c.Bytes += bytes
		c.Memory = c.Bytes / (p.Memory * float64(s.MemoryBandwidth))
	}
	return c.combine(p.Ridge)
}

// ChosenCost returns the cost of tokens' attention over rows chosen for each, in one layer on one GPU: rows in total, at most longest for
// one token.
func (s *Spec) ChosenCost(tokens int, rows int64, longest int, h Heads) Cost {
	p := &s.Latent.Chosen
	n, fr := float64(tokens), float64(rows)
	q, kv := h.decodeBytes(n, fr)
	padded := float64(ceilDiv(h.Query, p.TileRows) * p.TileRows)
	c := Cost{FLOPs: h.pairFLOPs() * float64(h.Query) * fr, Executed: h.pairFLOPs() * padded * max(fr, n*float64(p.Slots)), Bytes: q + kv, Overhead: p.Overhead.Seconds()}
	blocks := tokens * ceilDiv(h.Query, p.TileRows) * max(1, p.Cluster)
	waves := float64(blocks) / float64(s.SMs)
	if waves < 1 || p.WaveQuantization {
		waves = float64(ceilDiv(blocks, s.SMs))
	}
	c.Compute = waves * (c.Executed / float64(blocks) / (p.Compute * s.peak(h.ElementBits) / float64(s.SMs)))
	c.Memory = c.Bytes / (p.Memory * float64(s.MemoryBandwidth))
	c.Latency = float64(max(longest, p.Slots)) * p.RowTime.Seconds()
	return s.widening(c.combine(p.Ridge), &h)
}

// widening returns the cost of a kernel over chosen rows, which is longer if it widens them.
func (s *Spec) widening(c Cost, h *Heads) Cost {
	if share := s.Latent.Chosen.WidenedShare; h.widened && share > 0 {
		busy := (c.Seconds - c.Overhead) / share
		c.Compute, c.Memory, c.Latency, c.Seconds = c.Compute/share, c.Memory/share, c.Latency/share, c.Overhead+busy
	}
	return c
}
