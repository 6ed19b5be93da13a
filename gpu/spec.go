package gpu

import (
	"cmp"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Spec describes one GPU and how well its kernels use it. It is read-only while a simulation runs.
type Spec struct {
	Name string `toml:"name"` // name in results
	// MemoryCapacity is the GPU's memory, and MemoryReserve the part that tensors may not use: in the presets, roughly what a driver
	// excludes from the total that it reports. It does not include a server's memory other than tensors. Logs of vLLM show 0.16 GiB on one
	// H100 and 0.33 GiB on each of two GPUs with NCCL, and 0.1 to 0.4 GiB of CUDA graphs, up to 2.4 GiB in old versions; to count these,
	// raise MemoryReserve.
	MemoryCapacity units.Bytes `toml:"memory_capacity"`
	MemoryReserve  units.Bytes `toml:"memory_reserve"`
	// MemoryShare is the share of the GPU's memory after memory_reserve that the server may use, in every system: vLLM's
	// gpu_memory_utilization, of the total that the driver reports. Weights, activations of the largest iteration, keys and values must
	// fit; the rest stays free.
	MemoryShare float64 `toml:"memory_share,omitzero"`
	// Peak16 and Peak8 are dense tensor-core rates for 16-bit and 8-bit
	// elements (vendor's data sheet, without sparsity).
	Peak16          units.FLOPRate  `toml:"peak_16bit"`
	Peak8           units.FLOPRate  `toml:"peak_8bit"`
	MemoryBandwidth units.Bandwidth `toml:"memory_bandwidth"` // peak of the GPU's memory (data sheet)
	SMs             int             `toml:"sms"`              // streaming multiprocessors
	// PCIeGeneration is the generation of the GPU's 16 lanes to the host (data sheet); a node's tree may run them slower.
	PCIeGeneration int `toml:"pcie_generation"`

	// Suite selects the attention kernels.
	Suite Suite `toml:"suite"`

	MatMul GEMMSpec `toml:"gemm"`
	// Products of narrow element types, if the fit has kernels for them: FP8 with a scale for a tensor or row, FP8 with a scale for each
	// block of 128 × 128 weights and of 128 activations, and NVFP4.
	FP8      TypedGEMMSpec `toml:"gemm_fp8,omitempty"`
	FP8Block TypedGEMMSpec `toml:"gemm_fp8_block,omitempty"`
	NVFP4    TypedGEMMSpec `toml:"gemm_nvfp4,omitempty"`
	// Experts has the expert kernels by element type, as far as the fit has them.
	Experts ExpertTables `toml:"experts,omitempty"`
	// Attention over FP8 keys and values, if the fit has kernels for it.
	PrefillFP8 PrefillSpec `toml:"prefill_attention_fp8,omitempty"`
	DecodeFP8  DecodeSpec  `toml:"decode_attention_fp8,omitempty"`
	AttentionSpec
	// PyTorch has the attention kernels of the suite SuitePyTorch.
	PyTorch    AttentionSpec   `toml:"pytorch,omitempty"`
	Pointwise  ElementwiseSpec `toml:"elementwise"`
	Fused      FusedSpec       `toml:"fused"`
	Collective AllReduceSpec   `toml:"all_reduce"`
	// Switch has all-reduces that the NVLink switch sums, and Collectives has NCCL's and the exchange of experts' tokens, if the fit has
	// them.
	Switch      SwitchSpec       `toml:"all_reduce_switch,omitempty"`
	Collectives CollectiveTables `toml:"collectives,omitempty"`
	Power       PowerSpec        `toml:"power"`
	Alone       AloneSpec        `toml:"alone"`
	PageSparse  PageSparseSpec   `toml:"page_sparse"`
	NarrowKV    NarrowKVSpec     `toml:"narrow_kv,optional"`
	// Extend is the server suite's attention of short chunks over long caches.
	Extend   ExtendSpec   `toml:"extend_attention,omitempty"`
	Measured MeasuredSpec `toml:"measured"`        // the range of the samples
	Scale    ScaleSpec    `toml:"scale,omitempty"` // factors on times
	Latent   LatentTables `toml:"latent,omitempty"`
	Index    IndexTables  `toml:"index,omitempty"`
	// Host is a server host's time for an iteration, part of the fits of servers.
	Host HostSpec `toml:"host,omitempty"`
}

// Suite selects attention kernels.
type Suite string

// The suites.
const (
	// SuiteServer has the kernels of servers: decode attention that splits contexts for any batch, grouped queries packed in one tile, and
	// warp-specialised prefill kernels if the GPU has them.
	SuiteServer Suite = "server"
	// SuitePyTorch has the kernels of PyTorch's scaled_dot_product_attention (FlashAttention-2): contexts are not split from a number of
	// requests and heads on, and tiles have 128 query rows.
	SuitePyTorch Suite = "pytorch"
)

// AttentionSpec has the attention kernels of a suite.
type AttentionSpec struct {
	Prefill PrefillSpec `toml:"prefill_attention"`
	Decode  DecodeSpec  `toml:"decode_attention"`
}

func (s *Spec) attention() *AttentionSpec {
	if s.Suite == SuitePyTorch {
		return &s.PyTorch
	}
	return &s.AttentionSpec
}

// decodeOf returns the kernels of decode attention over a cache with the heads' elements.
func (s *Spec) decodeOf(h *Heads) *DecodeSpec {
	if l := s.latentDecode(h); l != nil {
		return &l.DecodeSpec
	}
	if own := &s.attention().Decode; !h.KVFloat || h.Expanded || !s.decodesFP8(own) {
		return own
	}
	return &s.DecodeFP8
}

// decodesFP8 reports whether the fit has its own decode attention for FP8 keys and values.
func (s *Spec) decodesFP8(own *DecodeSpec) bool {
	return s.DecodeFP8.Compute > 0 && s.Suite == SuiteServer && own.Model == AttentionFlash
}

// prefillOf is decodeOf for prompts.
func (s *Spec) prefillOf(h *Heads) *PrefillSpec {
	if l := s.latentPrefill(h); l != nil {
		return l
	}
	own := &s.attention().Prefill
	if h.KVFloat && !h.Expanded && s.PrefillFP8.Compute > 0 && s.Suite == SuiteServer && own.Model == AttentionFlash {
		return &s.PrefillFP8
	}
	return own
}

// Efficiency has the parameters of every kernel's roofline: the shares of peak reached far from the ridge, how round the ridge is, and a
// fixed time.
type Efficiency struct {
	Compute  float64        `toml:"compute_efficiency"` // of the peak arithmetic rate, 0 to 1
	Memory   float64        `toml:"memory_efficiency"`  // of the peak memory bandwidth, 0 to 1
	Ridge    float64        `toml:"ridge"`              // p of the p-norm, at least 1; 0: the sharp maximum
	Overhead units.Duration `toml:"overhead"`           // fixed time of each kernel
}

// Check has the rules common to all kernels' sections.
func (e *Efficiency) Check(c *input.Check) {
	c.Share("compute_efficiency", e.Compute)
	c.Share("memory_efficiency", e.Memory)
	c.That(e.Ridge == 0 || e.Ridge >= 1 && e.Ridge <= 100, "ridge", e.Ridge, "0 (sharp), or 1 to 100")
	duration(c, "overhead", e.Overhead)
}

// atLeast is the rule of a fitted number without a natural bound.
func atLeast(c *input.Check, key string, v, low float64) {
	c.That(v >= low && v <= 1e9, key, v, "%v to 1e9", low)
}

func duration(c *input.Check, key string, d units.Duration) {
	input.Within(c, key, d, 0, units.Second)
}

func bandwidth(c *input.Check, key string, b units.Bandwidth) { input.Within(c, key, b, 1, 1e18) }

// Check has the rules of the section [gpu].
func (s *Spec) Check(c *input.Check) {
	input.Within(c, "memory_capacity", s.MemoryCapacity, 1, 1024*units.TiB) // so that 4,096 GPUs fit an int64
	c.That(s.MemoryReserve >= 0 && s.MemoryReserve < max(1, s.MemoryCapacity), "memory_reserve", s.MemoryReserve,
		"0B up to less than %s = %v", input.Key("memory_capacity"), s.MemoryCapacity)
	c.That(s.MemoryShare >= 0 && s.MemoryShare <= 1, "memory_share", s.MemoryShare, "more than 0, at most 1")
	input.Within(c, "peak_16bit", s.Peak16, 1, 1e21)
	input.Within(c, "peak_8bit", s.Peak8, 1, 1e21)
	bandwidth(c, "memory_bandwidth", s.MemoryBandwidth)
	input.Within(c, "sms", s.SMs, 1, 1<<20)
	input.Within(c, "pcie_generation", s.PCIeGeneration, 3, 6)
	input.OneOf(c, "suite", s.Suite, SuiteServer, SuitePyTorch)
	c.In("gemm", &s.MatMul)
	for _, t := range []struct {
		section string
		spec    *TypedGEMMSpec
	}{{"gemm_fp8", &s.FP8}, {"gemm_fp8_block", &s.FP8Block}, {"gemm_nvfp4", &s.NVFP4}} {
		if *t.spec != (TypedGEMMSpec{}) {
			c.In(t.section, t.spec)
		}
	}
	if s.Experts != (ExpertTables{}) {
		c.In("experts", &s.Experts)
	}
	if s.PrefillFP8 != (PrefillSpec{}) {
		c.In("prefill_attention_fp8", &s.PrefillFP8)
	}
	if s.DecodeFP8 != (DecodeSpec{}) {
		c.In("decode_attention_fp8", &s.DecodeFP8)
	}
	c.In("prefill_attention", &s.Prefill)
	c.In("decode_attention", &s.Decode)
	c.In("elementwise", &s.Pointwise)
	c.In("fused", &s.Fused)
	c.In("all_reduce", &s.Collective)
	if s.Switch != (SwitchSpec{}) {
		c.In("all_reduce_switch", &s.Switch)
	}
	if s.Collectives != (CollectiveTables{}) {
		c.In("collectives", &s.Collectives)
	}
	c.In("power", &s.Power)
	c.In("alone", &s.Alone)
	if s.PyTorch != (AttentionSpec{}) {
		c.In("pytorch", &s.PyTorch)
	} else {
		c.That(s.Suite != SuitePyTorch, "suite", s.Suite, "server: [gpu.pytorch] is absent, so these kernels are not known for this GPU")
	}
	c.In("page_sparse", &s.PageSparse)
	c.In("narrow_kv", &s.NarrowKV)
	if s.Extend != (ExtendSpec{}) {
		c.In("extend_attention", &s.Extend)
	}
	c.In("measured", &s.Measured)
	if s.Scale != (ScaleSpec{}) {
		c.In("scale", &s.Scale)
	}
	if s.Latent != (LatentTables{}) {
		c.In("latent", &s.Latent)
	}
	if s.Index != (IndexTables{}) {
		c.In("index", &s.Index)
	}
	c.In("host", &s.Host)
}

// Check has the rules of the attention kernels of a suite.
func (a *AttentionSpec) Check(c *input.Check) {
	c.In("prefill_attention", &a.Prefill)
	c.In("decode_attention", &a.Decode)
}

// peak returns the arithmetic rate for elements of the given width.
func (s *Spec) peak(bits int) float64 {
	if bits <= 8 {
		return float64(s.Peak8)
	}
	return float64(s.Peak16)
}

// Heads is the shape of an attention layer on one GPU.
type Heads struct {
	Query, KV   int  // query heads; key-value heads, a divisor of Query
	Dim         int  // elements of one head's q or k, and of its v and output unless Value differs
	Value       int  // elements of one head's v and output; 0: Dim
	Latent      bool // v is the first elements of k, and is not stored separately
	Expanded    bool // k and v are expanded from latents, with the width of activations
	ElementBits int  // of q and output
	// KVBits is the width of an element of k and v in the cache, 0 for ElementBits. KVScaleBytes is the bytes of scales of one token's k; v
	// has as many.
	KVBits, KVScaleBytes int
	KVFloat              bool    // 8-bit k and v are FP8
	kv                   float64 // kvBytes, if known
	widened              bool    // k and v are FP8, which a kernel of 16 bits widens
	prompt               bool    // a batch has the tokens of prompts, whose neighbours read the same rows
}

// ends returns the number of elements of one token's q and output in a head.
func (h *Heads) ends() float64 { return float64(h.Dim + cmp.Or(h.Value, h.Dim)) }

// stored returns the number of elements of one token's k and v of a KV head in the cache.
func (h *Heads) stored() float64 {
	if h.Latent {
		return float64(h.Dim)
	}
	return h.ends()
}

// pairFLOPs returns the operations of one query head for one token: its score, and its part of the output.
func (h *Heads) pairFLOPs() float64 { return 2 * h.ends() }

// kvBytes returns the bytes of k and v of one token and KV head in the cache.
func (h *Heads) kvBytes() float64 {
	if h.kv > 0 {
		return h.kv
	}
	scales := 2.0
	if h.Latent {
		scales = 1
	}
	return float64(elementBytes(h.stored(), cmp.Or(h.KVBits, h.ElementBits))) + float64(scales*float64(h.KVScaleBytes))
}

// decodeBytes returns the bytes of decoding requests' queries and outputs, and of the keys and values of tokens.
func (h *Heads) decodeBytes(requests, tokens float64) (q, kv float64) {
	q = float64(elementBytes(h.ends(), h.ElementBits) * requests * float64(h.Query))
	return q, float64(h.kvBytes() * tokens * float64(h.KV))
}

func (h *Heads) group() int { return max(1, h.Query/max(1, h.KV)) }

// MemoryDefaults is the default share of a GPU's memory.
const MemoryDefaults = `
[gpu]
memory_share = 1.0 # the L3 paper's systems use all; servers leave a tenth free (vLLM's gpu_memory_utilization is 0.9); requests in GPU memory
`

// UsableMemory returns the memory of one GPU that tensors may use.
func (s *Spec) UsableMemory() units.Bytes { return s.UsableOf(s.MemoryCapacity) }

// UsableOf returns the bytes that tensors may use if only a part of the GPU's memory is left for data: MemoryShare of the part after the
// reserve, at least 0.
func (s *Spec) UsableOf(part units.Bytes) units.Bytes {
	free := max(part-s.MemoryReserve, 0)
	if s.MemoryShare > 0 && s.MemoryShare < 1 { // a GPU described outside a configuration has no share
		free = units.Bytes(float64(free) * s.MemoryShare)
	}
	return free
}

// given checks a section that a fit may lack: its zero value stands for none.
func given[T comparable, P interface {
	*T
	input.Checked
}](c *input.Check, name string, section P) {
	var none T
	if *section != none {
		c.In(name, section)
	}
}
