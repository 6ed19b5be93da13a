package gpu

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// PageSparseSpec holds the parameters of page-sparse decode attention: kernels score pages of keys by bounds, select the best, and attend
// to those (Quest: Tang et al. 2024, https://arxiv.org/abs/2406.10774; LServe: Yang et al. 2025, https://arxiv.org/abs/2502.14866).
type PageSparseSpec struct {
	// VectorPeak is the single-precision rate outside the tensor cores (data sheet), and Vector the share of it that scoring reaches,
	// including the conversion of operands.
	VectorPeak units.FLOPRate `toml:"vector_peak"`
	Vector     float64        `toml:"vector_efficiency"`
	// BlockShare is the share of an SM's rate that one thread block reaches in scoring.
	BlockShare float64 `toml:"block_share"`
	// Efficiency is for all three kernels; its compute is for attention's tiles on the tensor cores, and its overhead is that of a kernel
	// measured alone.
	Efficiency
	// MergeOverhead is the time of the kernel that merges the parts of split attention.
	MergeOverhead units.Duration `toml:"merge_overhead"`
	// BlockBandwidth is the rate at which one thread block reads.
	BlockBandwidth units.Bandwidth `toml:"block_bandwidth"`
	// TopKLatency is the time of a radix selection beyond Overhead, even for the shortest rows. A row's single thread block adds TopKThread
	// for each of its threads, over which every digit sums, and TopKElement for each element.
	TopKLatency units.Duration `toml:"top_k_latency"`
	TopKThread  units.Duration `toml:"top_k_thread_time"`
	TopKElement units.Duration `toml:"top_k_element_time"`
	// TopKPasses is the time of a selection's passes beyond Overhead if many blocks share a row; each pass is a kernel.
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

// These kernels on every GPU.
const (
	boundBits    = 16   // of an element of a page's smallest and largest key
	scoreBytes   = 4    // of a score: single precision
	indexBytes   = 8    // of an index that a selection returns
	scoreFLOPs   = 4    // for each element: two products, a maximum, a sum
	scoredPages  = 64   // pages that a thread block scores
	tileRows     = 16   // query rows of a tensor-core tile (m16n8k16), to which a group is padded
	splitTokens  = 128  // minimum tokens for which attention uses another block
	topKThreads  = 1024 // maximum in a block that selects from a row
	mostSplits   = 32   // blocks that share the tokens of a KV head
	topKReadings = 5    // reads of a row in a selection with many blocks: four 8-bit digits, and gathering
)

// PageScores describes a kernel that scores pages by bounds: for each page, the sum over elements of the larger product of the query with
// the page's smallest and largest key.
type PageScores struct {
	// Pages is the number of bounded pages of each request, in the field of its tokens: a page with bounds for its parts counts each part.
	Pages DecodeBatch
	// PerQueryHead selects a score for each query head; otherwise there is one for each KV head, the largest of its group. Both read a
	// page's bounds once for each KV head. A kernel that reads them for each query head costs as if each query head were a KV head.
	PerQueryHead bool
	// OneBlock makes one thread block score all pages of a request and head, as LServe's released kernel does.
	OneBlock bool
	// Lists is the number of a head's queries that score pages separately and read the bounds once; 0 means 1.
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
	flops := scoreFLOPs * dim * group // for each page and KV head
	c := Cost{
		FLOPs: flops * float64(h.KV) * pages, Overhead: p.Overhead.Seconds(),
		Bytes: float64(bounds*float64(h.KV)*pages) + float64(scoreBytes*scores*pages),
	}
	c.Compute = c.FLOPs / rate
	c.Memory = c.Bytes / s.pageBandwidth()
	longest, page := float64(k.Pages.Longest), flops/(p.BlockShare*rate/float64(s.SMs)) // a block's time for a page
	if k.OneBlock {
		c.Latency = longest * max(page, bounds/float64(p.BlockBandwidth))
	} else {
		c.Overhead += float64(min(longest, scoredPages) * page) // nothing overlaps with the last blocks' arithmetic
	}
	return c.combine(p.Ridge)
}

// TopKCost returns the cost of selecting the k best pages, for rowsEach rows of scores of each request, in one layer on one GPU. A thread
// block selects from a row by radix; if the library uses many blocks for a row, each digit is a kernel.
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

// manyBlocks reports whether PyTorch's selection uses many blocks for a row, by the thresholds in its source
// (https://github.com/pytorch/pytorch/pull/74267).
func manyBlocks(rows, length int) bool {
	for _, t := range [...]struct{ rows, length int }{{20, 20000}, {40, 10000}, {80, 8000}, {199, 5000}, {799, 3000}, {4000, 800}} {
		if rows <= t.rows {
			return length >= t.length
		}
	}
	return length >= 400
}

// PageAttentionCost returns the cost of decode attention over each request's selected tokens, equally many for all KV heads, in one layer
// on one GPU. Pages of the given number of tokens may be anywhere in memory. If a group's query heads select their own pages, h has as many
// KV heads as query heads.
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
	// Contexts are split until every SM has two blocks.
	splits := min(mostSplits, max(1, 2*float64(s.SMs)/(requests*float64(h.KV))))
	longest := float64(selected.Longest)
	c.Latency = max(min(longest, splitTokens), longest/splits) * tokenBytes / float64(p.BlockBandwidth)
	return c.combine(p.Ridge)
}

// pageBandwidth returns the rate at which these kernels read memory.
func (s *Spec) pageBandwidth() float64 { return s.PageSparse.Memory * float64(s.MemoryBandwidth) }
