package gpu

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// PageSparseSpec holds the parameters of page-sparse decode attention: kernels that
// score pages of keys by bounds, pick the best of them, and attend over those (Quest:
// Tang et al. 2024, https://arxiv.org/abs/2406.10774; LServe: Yang et al. 2025,
// https://arxiv.org/abs/2502.14866).
type PageSparseSpec struct {
	// VectorPeak is the single-precision rate outside the tensor cores (data sheet);
	// Vector the share of it that scoring reaches, which converts its operands.
	VectorPeak units.FLOPRate `toml:"vector_peak"`
	Vector     float64        `toml:"vector_efficiency"`
	// BlockShare is the share of an SM's rate that one thread block reaches in scoring.
	BlockShare float64 `toml:"block_share"`
	// Efficiency is of all three kernels; its compute is of attention's tiles, on the
	// tensor cores, and its overhead that of a kernel measured alone.
	Efficiency
	// MergeOverhead is the kernel that merges the parts of a split attention.
	MergeOverhead units.Duration `toml:"merge_overhead"`
	// BlockBandwidth is the rate at which one thread block reads.
	BlockBandwidth units.Bandwidth `toml:"block_bandwidth"`
	// TopKLatency is the time of a radix selection beyond Overhead, even of the
	// shortest rows. The one thread block of a row adds TopKThread for each of its threads,
	// over which every digit sums up, and TopKElement for each element.
	TopKLatency units.Duration `toml:"top_k_latency"`
	TopKThread  units.Duration `toml:"top_k_thread_time"`
	TopKElement units.Duration `toml:"top_k_element_time"`
	// TopKPasses is what the passes of a selection take beyond Overhead where many
	// blocks share a row, each pass a kernel of its own.
	TopKPasses units.Duration `toml:"top_k_passes"`
}

// Check has the rules of the section [gpu.page_sparse].
func (p *PageSparseSpec) Check(c *input.Check) {
	input.Within(c, "vector_peak", p.VectorPeak, 1, 1e21)
	c.Share("vector_efficiency", p.Vector)
	c.Share("block_share", p.BlockShare)
	p.Efficiency.Check(c)
	duration(c, "merge_overhead", p.MergeOverhead)
	bandwidth(c, "block_bandwidth", p.BlockBandwidth)
	duration(c, "top_k_latency", p.TopKLatency)
	duration(c, "top_k_thread_time", p.TopKThread)
	duration(c, "top_k_element_time", p.TopKElement)
	duration(c, "top_k_passes", p.TopKPasses)
}

// What these kernels look like on every GPU.
const (
	boundBits    = 16   // of an element of a page's smallest and largest key
	scoreBytes   = 4    // of a score: single precision
	indexBytes   = 8    // of an index that a selection gives
	scoreFLOPs   = 4    // an element: two products, the larger one, a sum
	scoredPages  = 64   // that a thread block scores
	tileRows     = 16   // query rows of a tensor-core tile (m16n8k16), to which a group is padded
	splitTokens  = 128  // the fewest tokens for which attention uses another block
	topKThreads  = 1024 // the most of a block that selects from a row
	mostSplits   = 32   // blocks that share the tokens of a KV head
	topKReadings = 5    // of a row by a selection with many blocks: four digits of 8 bits, and gathering
)

// PageScores describes a kernel that scores pages by bounds: for each page the sum over
// elements of the larger product of the query with the page's smallest and largest key.
type PageScores struct {
	// Pages are the bounded pages of each request, in the place of its tokens: a page
	// with bounds of its parts counts each part.
	Pages DecodeBatch
	// PerQueryHead has a score for each query head; else one for each KV head, the
	// largest of its group. Both read a page's bounds once a KV head. A kernel that reads
	// them once a query head costs what as many KV heads as query heads do.
	PerQueryHead bool
	// OneBlock has one thread block score all pages of a request and head, as LServe's
	// released kernel does.
	OneBlock bool
	// Lists is how many queries of a head score at once, each for itself, and read the bounds once; 0 as 1.
	Lists int
}

// PageScoreCost returns the cost of scoring pages in one layer on one GPU.
func (s *Spec) PageScoreCost(k PageScores, h Heads) Cost {
	if k.Pages.Requests <= 0 || k.Pages.Tokens <= 0 {
		return Cost{}
	}
	p := &s.PageSparse
	pages, dim, group := float64(k.Pages.Tokens), float64(h.Dim), float64(h.group())
	scores, lists := float64(h.KV), float64(max(1, k.Lists))
	if k.PerQueryHead {
		scores = float64(h.Query)
	}
	scores, group = scores*lists, group*lists
	bounds := elementBytes(2*dim, boundBits)
	rate := p.Vector * float64(p.VectorPeak)
	flops := scoreFLOPs * dim * group // of a page and KV head
	c := Cost{
		FLOPs: flops * float64(h.KV) * pages, Overhead: p.Overhead.Seconds(),
		Bytes: float64(bounds*float64(h.KV)*pages) + float64(scoreBytes*scores*pages),
	}
	c.Compute = c.FLOPs / rate
	c.Memory = c.Bytes / s.pageBandwidth()
	longest, page := float64(k.Pages.Longest), flops/(p.BlockShare*rate/float64(s.SMs)) // a block's time of a page
	if k.OneBlock {
		c.Latency = longest * max(page, bounds/float64(p.BlockBandwidth))
	} else {
		c.Overhead += float64(min(longest, scoredPages) * page) // the last blocks' arithmetic hides behind nothing
	}
	return c.combine(p.Ridge)
}

// TopKCost returns the cost of selecting the k best pages of each request, for rowsEach
// rows of scores a request, in one layer on one GPU. A thread block selects from a row
// by radix; where the library takes many blocks a row, each digit is a kernel.
func (s *Spec) TopKCost(pages DecodeBatch, rowsEach, k int) Cost {
	if pages.Requests <= 0 || pages.Tokens <= 0 || rowsEach <= 0 || k <= 0 {
		return Cost{}
	}
	p := &s.PageSparse
	rows, elements := pages.Requests*rowsEach, float64(pages.Tokens)*float64(rowsEach)
	c := Cost{Overhead: p.Overhead.Seconds(), Bytes: float64(scoreBytes*elements) + float64((scoreBytes+indexBytes)*float64(rows)*float64(k))}
	c.Memory = c.Bytes / s.pageBandwidth()
	if manyBlocks(rows, pages.Longest) {
		c.Overhead += p.TopKPasses.Seconds()
		c.Memory += (topKReadings - 1) * scoreBytes * elements / s.pageBandwidth()
		return c.combine(p.Ridge)
	}
	c.Overhead += p.TopKLatency.Seconds()
	row := func(elements float64) float64 {
		return float64(min(elements, topKThreads)*p.TopKThread.Seconds()) + float64(elements*p.TopKElement.Seconds())
	}
	c.Latency = max(row(float64(pages.Longest)), float64(rows)*row(elements/float64(rows))/float64(s.SMs))
	return c.combine(p.Ridge)
}

// manyBlocks says where PyTorch's selection takes many blocks a row: the thresholds of
// its source (https://github.com/pytorch/pytorch/pull/74267).
func manyBlocks(rows, length int) bool {
	for _, t := range [...]struct{ rows, length int }{{20, 20000}, {40, 10000}, {80, 8000}, {199, 5000}, {799, 3000}, {4000, 800}} {
		if rows <= t.rows {
			return length >= t.length
		}
	}
	return length >= 400
}

// PageAttentionCost returns the cost of decode attention over the selected tokens of
// each request, which all KV heads have as many of, in one layer on one GPU. Pages of
// the given tokens lie anywhere. Where query heads of a group have pages of their own,
// h has as many KV heads as query heads.
func (s *Spec) PageAttentionCost(selected DecodeBatch, page int, h Heads) Cost {
	if selected.Requests <= 0 || selected.Tokens <= 0 {
		return Cost{}
	}
	p := &s.PageSparse
	requests, tokens, pair := float64(selected.Requests), float64(selected.Tokens), h.pairFLOPs()
	tokenBytes := h.kvBytes()
	table := scoreBytes * tokens / float64(max(1, page))
	c := Cost{
		FLOPs:    pair * float64(h.Query) * tokens,
		Bytes:    float64((float64(tokenBytes*tokens)+table)*float64(h.KV)) + float64(elementBytes(h.ends(), h.ElementBits)*requests*float64(h.Query)),
		Overhead: p.Overhead.Seconds() + p.MergeOverhead.Seconds(),
	}
	rows := float64(ceilDiv(h.group(), tileRows) * tileRows)
	c.Compute = max(pair*rows*float64(h.KV)*tokens/(p.Compute*s.peak(h.ElementBits)), s.converts(tokens, tokens, h))
	c.Memory = c.Bytes / s.pageBandwidth()
	// Blocks share a context until there are two on every SM.
	splits := min(mostSplits, max(1, 2*float64(s.SMs)/(requests*float64(h.KV))))
	longest := float64(selected.Longest)
	c.Latency = max(min(longest, splitTokens), longest/splits) * tokenBytes / float64(p.BlockBandwidth)
	return c.combine(p.Ridge)
}

// pageBandwidth returns the rate at which these kernels read memory.
func (s *Spec) pageBandwidth() float64 { return s.PageSparse.Memory * float64(s.MemoryBandwidth) }
