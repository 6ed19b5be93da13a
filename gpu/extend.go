package gpu

import (
	"math"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// ExtendSpec holds the parameters of attention of a short chunk over a long cache: a question after a cached prefix, the next turn of a
// conversation, the tail of a prompt. There are few tiles of query rows, so the keys of each are split over thread blocks, and a second
// kernel merges their outputs, as in FlashAttention-3 (Shah et al. 2024, https://arxiv.org/abs/2407.08608) and FlashInfer (Ye et al., MLSys
// 2025, https://arxiv.org/abs/2501.01005). A group's query heads are rows of one tile. The zero value is a GPU without such a kernel.
type ExtendSpec struct {
	// Overhead of Efficiency is the addition by the second kernel to prefill attention's overhead.
	Efficiency
	// BlockBandwidth is the rate at which one thread block processes cached keys and values, even with few query rows: a chain of loads,
	// products and exponentials.
	BlockBandwidth units.Bandwidth `toml:"block_bandwidth"`
	// BlocksPerSM is the number of thread blocks that an SM holds at once.
	BlocksPerSM int `toml:"blocks_per_sm"`
	// SplitKeys is the minimum number of keys of a part, MaxSplits the maximum number of parts, a power of two.
	SplitKeys int `toml:"split_keys"`
	MaxSplits int `toml:"max_splits"` // see SplitKeys
	// MergeRow is the time to write and merge one row of a tile, for each part.
	MergeRow units.Duration `toml:"merge_row"`
}

// Check has the rules of the section [gpu.extend_attention].
func (e *ExtendSpec) Check(c *input.Check) {
	e.Efficiency.Check(c)
	bandwidth(c, "block_bandwidth", e.BlockBandwidth)
	input.Within(c, "blocks_per_sm", e.BlocksPerSM, 1, 1024)
	input.Within(c, "split_keys", e.SplitKeys, 1, 1<<30)
	input.Within(c, "max_splits", e.MaxSplits, 1, 1024)
	duration(c, "merge_row", e.MergeRow)
}

// extendRows are the query rows of a tile: of a tensor-core instruction (m16n8k16), of wgmma, and of two warp groups with one wgmma each.
var extendRows = [...]int{16, 64, 128}

// ExtendAttentionCost returns the cost of attention of a chunk of query tokens over the finished tokens before it and over itself, with the
// keys split over thread blocks, for a batch of equal requests. It takes the fastest tile size and number of parts, and is monotone in all
// sizes.
func (s *Spec) ExtendAttentionCost(batch, chunk, finished int, h Heads) Cost {
	c, _ := s.extend(math.Inf(1), batch, chunk, finished, h)
	return c
}

// extending is what all tile sizes and numbers of parts of a chunk share.
type extending struct {
	work               Cost    // without Compute and Latency
	rows               int     // query rows
	items, keys, widen float64 // KV heads of the batch, keys of each, and seconds to convert these
	row                float64 // seconds of a query row for one key, on all SMs
}

func (s *Spec) extending(batch, chunk, finished int, h Heads) extending {
	e := &s.Extend
	x := extending{work: s.prefillWork(s.prefillOf(&h), batch, chunk, finished, h), rows: chunk * h.group(), items: float64(batch * h.KV), keys: float64(finished + chunk)}
	x.work.Overhead += e.Overhead.Seconds()
	x.work.Memory = x.work.Bytes / (e.Memory * float64(s.MemoryBandwidth))
	x.row = h.pairFLOPs() / (e.Compute * s.peak(h.ElementBits))
	x.widen = s.converts(float64(batch)*x.keys, float64(batch)*x.keys, h)
	return x
}

// least returns seconds below which no tile size and number of parts is.
func (x *extending) least() float64 {
	return x.work.Overhead + max(x.work.Memory, x.widen, float64(x.rows)*x.items*x.keys*x.row)
}

// extend returns ExtendAttentionCost, and true if it is below the given seconds.
func (s *Spec) extend(seconds float64, batch, chunk, finished int, h Heads) (best Cost, found bool) {
	e, x := &s.Extend, s.extending(batch, chunk, finished, h)
	if x.least() >= seconds {
		return Cost{}, false
	}
	for _, tile := range extendRows {
		tiles := ceilDiv(x.rows, tile)
		for parts := 1.0; parts <= float64(e.MaxSplits); parts *= 2 {
			part := max(x.keys/parts, min(x.keys, float64(e.SplitKeys)))
			blocks := x.items * float64(tiles) * parts
			c := x.work
			c.Executed = float64(h.pairFLOPs()*x.items) * float64(tiles*tile) * x.keys
			c.Compute = max(x.widen, math.Ceil(blocks/float64(s.SMs))*part*float64(tile)*x.row*float64(s.SMs))
			c.Latency = math.Ceil(blocks/float64(s.SMs*e.BlocksPerSM)) * part * h.kvBytes() / float64(e.BlockBandwidth)
			c.Overhead += float64(blocks * float64(tile) * e.MergeRow.Seconds())
			if c.Overhead+max(c.Compute, c.Memory, c.Latency) >= seconds {
				continue
			}
			if c.combined(e.Ridge); c.Seconds < seconds {
				best, found, seconds = c, true, c.Seconds
			}
		}
	}
	return best, found
}
