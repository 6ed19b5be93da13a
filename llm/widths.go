package llm

import (
	"cmp"
	"fmt"
	"math"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Widths are those that differ from Model.ElementBits. The zero value has none.
type Widths struct {
	// KVFormat is that of keys and values as they are stored and moved: "fp16", "bf16", "int8", "int4", or "fp8", which is E4M3
	// with one scale a tensor, whatever kv_scales says. "fp8_ds_mla" is of latents: FP8 with a scale of 4 bytes for each 128 elements,
	// and 16 bits for the rotated key: 656 bytes a token in DeepSeek V3, as vLLM and FlashMLA have it. "" is kv_bits, with integers for
	// 8 and 4. Queries and outputs have element_bits.
	KVFormat KVFormat `toml:"kv_format,optional"`
	// KVBits is of keys and values where kv_format does not name their format: 16, 8 or 4, or 0 for element_bits.
	KVBits int `toml:"kv_bits,optional"`
	// KVScales is what turns 8 or 4 bits of kv_bits back into numbers: a scale and a zero of
	// each token's key and value in a KV head ("token", as "" is), or one of each tensor ("tensor"), which takes no room.
	// LServe (https://arxiv.org/abs/2502.14866) has the former for 4 bits and either for 8. "channel" is "token" for
	// values, and for keys a scale and a zero of each element over 128 successive tokens, as KIVI has them
	// (https://arxiv.org/abs/2402.02750).
	KVScales KVScales `toml:"kv_scales,optional"`
	// WeightBits is of the layers' matrices: 16, 8 or 4, or 0 for element_bits. Embedding and LM head
	// have element_bits, as released checkpoints have them; weight_block has
	// their scales.
	WeightBits int `toml:"weight_bits,optional"`
	// ExpertBits is of the experts' matrices: 16, 8 or 4, or 0 for weight_bits. 4 is MXFP4, in which each 32 weights of an
	// expert share a scale of 8 bits (OCP Microscaling Formats, 2023), as gpt-oss has it; others have no scales.
	ExpertBits int `toml:"expert_bits,optional"`
	// AttentionBits is of the matrices of QKV generation and projection: 16, 8 or 4, or 0 for weight_bits. Checkpoints of
	// fbgemm_fp8 keep them in 16.
	AttentionBits int `toml:"attention_bits,optional"`
	// KeptAttention is the share, 0 to 1, of the weights of QKV generation and projection, over all layers, that have element_bits
	// whatever attention_bits and weight_bits say: quantised checkpoints keep some layers.
	KeptAttention float64 `toml:"kept_attention,optional"`
	// KeptNetwork is the share of the weights of feed-forward networks, experts among them, that have element_bits, as above.
	KeptNetwork float64 `toml:"kept_network,optional"`
	// WeightBlock is how many weights of fewer than 16 bits share a byte of scales and zeros: 16 in NVFP4; 64 of a group of 128 with
	// a scale of 16 bits, 51 with a zero of 4 bits besides; 4,096 of FP8 with a scale of 32 bits for 128 × 128; 0: they take no room, as
	// scales of rows and tensors. A GPU's fit may have kernels for each of these types.
	WeightBlock int `toml:"weight_block,optional"`
	// ExpertTileHidden and ExpertTileFFN are what a server's kernels round the two sides of MXFP4 experts up to when it loads them,
	// ffn_hidden on each GPU: elements, 0 for none. Memory and time count the padded matrices. vLLM's Marlin kernels have 256 and 128, those of
	// FlashInfer and TensorRT-LLM 256 and 256, of FlashInfer and CUTLASS 128 and 128, of Triton 0 and 64 (vLLM, mxfp4.py at 007d500).
	ExpertTileHidden int `toml:"expert_tile_hidden,optional"`
	ExpertTileFFN    int `toml:"expert_tile_ffn,optional"`
	// ExpertScaleCopies is how many copies of the scales of MXFP4 experts a server keeps beside the one that its kernels read: memory and no
	// time. vLLM's Triton kernels have a copy in an order of their own, and what was loaded stays: 1.
	ExpertScaleCopies int `toml:"expert_scale_copies,optional"`
	// ActivationBits is of what goes into the layers' products: 16 or 8, or 0 for element_bits.
	// They run at the rate of the wider of this and weight_bits.
	ActivationBits int `toml:"activation_bits,optional"`
}

// KVFormat names the format of keys and values.
type KVFormat string

// The formats of keys and values.
const (
	FP16 KVFormat = "fp16"
	BF16 KVFormat = "bf16"
	FP8  KVFormat = "fp8" // E4M3
	// FP8Latent is FP8 with scales of blocks, and rotated keys of 16 bits.
	FP8Latent KVFormat = "fp8_ds_mla"
	INT8      KVFormat = "int8"
	INT4      KVFormat = "int4"
)

// KVFormats returns the names of the formats of keys and values of heads, without that of latents.
func KVFormats() []string {
	return []string{string(FP16), string(BF16), string(FP8), string(INT8), string(INT4)}
}

// bits returns those of an element, 0 for none.
func (f KVFormat) bits() int {
	return map[KVFormat]int{FP16: 16, BF16: 16, FP8: 8, FP8Latent: 8, INT8: 8, INT4: 4}[f]
}

// KVScales says what scales keys and values have.
type KVScales string

// The kinds of scales.
const (
	TokenScales  KVScales = "token"  // of 16 bits each, a scale and a zero of each key and each value: 4 B (QServe, LServe)
	TensorScales KVScales = "tensor" // known before: no room
	// ChannelScales are of each element of keys, for KeyGroup tokens: as many bytes as those of tokens have at 128 elements.
	ChannelScales KVScales = "channel"
)

// KeyGroup is the tokens of a group of ChannelScales.
const KeyGroup = 128

// check has the rules of widths, for a model whose other elements have elementBits.
func (w *Widths) check(c *input.Check, elementBits int) {
	input.OneOf(c, "kv_scales", cmp.Or(w.KVScales, TokenScales), TokenScales, TensorScales, ChannelScales)
	if w.KVFormat != "" {
		input.OneOf(c, "kv_format", w.KVFormat, FP16, BF16, FP8, FP8Latent, INT8, INT4)
		c.That(w.KVBits == 0 || w.KVBits == w.KVFormat.bits(), "kv_bits", w.KVBits, "%d, or 0, with %s = %q", w.KVFormat.bits(), input.Key("kv_format"), w.KVFormat)
		c.That(!w.KVFloat() || w.KVScales != ChannelScales, "kv_scales", w.KVScales, "token or tensor with %s = %q, which has scales of its own", input.Key("kv_format"), w.KVFormat)
	}
	c.That(w.KVBits == 0 || w.KVBits == 4 || w.KVBits == 8 || w.KVBits == 16, "kv_bits", w.KVBits, "16, 8 or 4, or 0 for %s", input.Key("element_bits"))
	c.That(w.WeightBits == 0 || w.WeightBits == 4 || w.WeightBits == 8 || w.WeightBits == 16, "weight_bits", w.WeightBits, "16, 8 or 4, or 0 for %s", input.Key("element_bits"))
	c.That(w.ExpertBits == 0 || w.ExpertBits == 4 || w.ExpertBits == 8 || w.ExpertBits == 16, "expert_bits", w.ExpertBits, "16, 8 or 4, or 0 for %s", input.Key("weight_bits"))
	c.That(w.AttentionBits == 0 || w.AttentionBits == 4 || w.AttentionBits == 8 || w.AttentionBits == 16, "attention_bits", w.AttentionBits, "16, 8 or 4, or 0 for %s", input.Key("weight_bits"))
	input.Within(c, "kept_attention", w.KeptAttention, 0, 1)
	input.Within(c, "kept_network", w.KeptNetwork, 0, 1)
	input.Within(c, "weight_block", w.WeightBlock, 0, 1<<24)
	input.Within(c, "expert_tile_hidden", w.ExpertTileHidden, 0, mostTile)
	input.Within(c, "expert_tile_ffn", w.ExpertTileFFN, 0, mostTile)
	input.Within(c, "expert_scale_copies", w.ExpertScaleCopies, 0, 8)
	c.That(w.ActivationBits == 0 || w.ActivationBits == 8 || w.ActivationBits == 16, "activation_bits", w.ActivationBits, "16 or 8, or 0 for %s", input.Key("element_bits"))
	if c.OK() {
		of, to := max(cmp.Or(w.WeightBits, elementBits), w.ExpertBits), cmp.Or(w.ActivationBits, elementBits)
		c.That(to >= of, "activation_bits", w.ActivationBits, "at least the %d of weights", of)
	}
}

// KVElementBits returns the bits of an element of a stored key or value.
func (m *Model) KVElementBits() int { return cmp.Or(m.StoredBits(), m.ElementBits) }

// StoredBits returns the bits of an element of a stored key or value, 0 where they are a model's other ones.
func (w *Widths) StoredBits() int { return cmp.Or(w.KVFormat.bits(), w.KVBits) }

// KVFloat says that 8 bits of keys and values are FP8.
func (w *Widths) KVFloat() bool { return w.KVFormat == FP8 || w.KVFormat == FP8Latent }

// latentBlock is how many elements of a latent share a scale in FP8Latent.
const latentBlock = 128

// KVScaleBytes returns the bytes of scale and zero of one token's key in a KV head, as many as of
// its value; with FP8Latent those of a latent's scales, and a second byte for each element of the rotated key.
func (m *Model) KVScaleBytes() int {
	if m.KVFormat == FP8Latent {
		return 4*((m.LatentDim+latentBlock-1)/latentBlock) + m.RopeDim()
	}
	if bits := m.StoredBits(); bits == 0 || bits == 16 || m.KVScales == TensorScales || m.KVFloat() {
		return 0
	}
	return 4
}

// KeyGroup returns the tokens that share scales of each element of keys, 0 where none do.
func (m *Model) KeyGroup() int {
	if m.KVScales != ChannelScales || m.KVScaleBytes() == 0 {
		return 0
	}
	return KeyGroup
}

// ProductBits returns the bits of an element of what goes into the layers' products and of
// their weights.
func (m *Model) ProductBits() (activations, weights int) {
	return cmp.Or(m.ActivationBits, m.ElementBits), cmp.Or(m.WeightBits, m.ElementBits)
}

// AttentionProductBits is ProductBits of QKV generation and projection, and how many weights share a byte of scales: 0 where none do.
// What goes into matrices of 16 bits has as many.
func (m *Model) AttentionProductBits() (activations, weights, block int) {
	activations, weights = m.ProductBits()
	if m.AttentionBits > 0 {
		weights = m.AttentionBits
		activations = max(activations, weights)
	}
	return activations, weights, m.scaleBlock(weights)
}

// DenseProductBits is AttentionProductBits of dense networks and shared experts.
func (m *Model) DenseProductBits() (activations, weights, block int) {
	activations, weights = m.ProductBits()
	return activations, weights, m.scaleBlock(weights)
}

// scaleBlock returns how many weights of that many bits share a byte of scales.
func (m *Model) scaleBlock(bits int) int {
	if bits >= 16 {
		return 0
	}
	return m.WeightBlock
}

// attentionBytes returns the bytes of n weights of QKV generation and projection, with their scales.
func (m *Model) attentionBytes(n int64) units.Bytes {
	_, bits, block := m.AttentionProductBits()
	return m.mixedBytes(n, bits, block, m.KeptAttention)
}

// mixedBytes returns the bytes of n weights of which a share has element_bits, the others so many bits, block of which share a byte
// of scales.
func (m *Model) mixedBytes(n int64, bits, block int, share float64) units.Bytes {
	kept := int64(math.Round(share * float64(n)))
	return scaledBytes(n-kept, bits, block) + m.elementBytes(kept)
}

// weightBytes returns the bytes of n weights of layers.
func (m *Model) weightBytes(n int64) units.Bytes {
	_, bits := m.ProductBits()
	return units.Bytes((n*int64(bits) + 7) / 8)
}

// WeightWidths says how narrow the matrices of the layers are, and which weights have element_bits in spite of that; "" where all have.
func (m *Model) WeightWidths() string {
	_, attention, _ := m.AttentionProductBits()
	network, _ := m.ExpertBitsOf()
	if min(attention, network) >= m.ElementBits {
		return ""
	}
	narrow := fmt.Sprintf("%d-bit matrices", network)
	if attention != network {
		networks := "feed-forward networks"
		if m.Experts > 0 {
			networks = "experts"
		}
		narrow = fmt.Sprintf("%d-bit %s, %d-bit attention", network, networks, attention)
	}
	wide := "embeddings, LM head"
	for _, k := range []struct {
		what  string
		bits  int
		share float64
	}{{"attention", attention, m.KeptAttention}, {"feed-forward networks", network, m.KeptNetwork}} {
		if k.bits >= m.ElementBits || k.share == 0 {
			continue
		}
		if layers := float64(k.share * float64(m.Layers)); math.Abs(layers-math.Round(layers)) < 1e-6 {
			wide += fmt.Sprintf(", %s of %.0f of %d layers", k.what, layers, m.Layers)
		} else if k.share < 0.0005 {
			wide += ", less than 0.1% of " + k.what
		} else {
			wide += fmt.Sprintf(", %.1f%% of %s", 100*k.share, k.what)
		}
	}
	return fmt.Sprintf("%s; in %d bits: %s", narrow, m.ElementBits, wide)
}

// NetworkMean returns the mean bits of a weight of the feed-forward networks of which those that are not kept have so many.
func (m *Model) NetworkMean(bits float64) float64 {
	return float64((1-m.KeptNetwork)*bits) + float64(m.KeptNetwork*float64(m.ElementBits))
}

// ExpertBitsOf returns the bits of an expert's weight, and how many weights share a scale of 8 bits: 0 where none do.
func (m *Model) ExpertBitsOf() (bits, block int) {
	_, bits = m.ProductBits()
	if m.Experts > 0 {
		bits = cmp.Or(m.ExpertBits, bits)
	}
	if block = m.scaleBlock(bits); m.Experts > 0 && m.ExpertBits == 4 && block == 0 {
		block = mxBlock
	}
	return bits, block
}

const (
	mxBlock  = 32   // weights of a block of MXFP4
	mostTile = 4096 // elements; kernels have 64 to 256
)

// TileDefaults are the tiles of a server that none are given for.
const TileDefaults = `
[model]
expert_tile_hidden = 0 # none: experts as the checkpoint has them; memory and time of experts of 4 bits
expert_tile_ffn = 0    # none, as above; memory and time of experts of 4 bits
expert_scale_copies = 0 # none beside those that kernels read; memory of experts of 4 bits
`

// LoadedExpert returns the sides of an expert's matrices on one GPU as they are loaded: hidden and its share of ffn_hidden,
// those of MXFP4 rounded up to the tiles.
func (m *Model) LoadedExpert() (hidden, ffn int) {
	hidden, ffn = m.Hidden, (m.FFNHidden+m.expertShards()-1)/m.expertShards()
	if _, block := m.ExpertBitsOf(); block > 0 {
		hidden, ffn = roundUp(hidden, m.ExpertTileHidden), roundUp(ffn, m.ExpertTileFFN)
	}
	return hidden, ffn
}

// padded says that experts are larger in memory than in the checkpoint.
func (m *Model) padded() bool {
	_, block := m.ExpertBitsOf()
	return block > 0 && (m.ExpertTileHidden > 0 || m.ExpertTileFFN > 0)
}

// spareScales returns the bytes of the scales of a layer's experts that a server keeps and no kernel reads.
func (m *Model) spareScales() units.Bytes {
	_, block := m.ExpertBitsOf()
	if m.ExpertScaleCopies == 0 || block == 0 || m.Experts == 0 {
		return 0
	}
	hidden, ffn := m.LoadedExpert()
	weights := int64(m.Experts*m.FFNMatrices()) * int64(hidden) * int64(ffn) * int64(m.expertShards())
	kept := int64(math.Round(m.KeptNetwork * float64(weights)))
	return units.Bytes(m.ExpertScaleCopies) * units.Bytes((weights-kept)/int64(block))
}

// roundUp returns the least multiple of tile that is at least n, n itself with a tile of 0.
func roundUp(n, tile int) int {
	if tile == 0 {
		return n
	}
	return (n + tile - 1) / tile * tile
}

// expertBytes returns the bytes of n weights of experts, with their scales.
func (m *Model) expertBytes(n int64) units.Bytes {
	bits, block := m.ExpertBitsOf()
	return m.mixedBytes(n, bits, block, m.KeptNetwork)
}

// denseBytes returns the bytes of n weights of dense networks or of shared experts, with their scales.
func (m *Model) denseBytes(n int64) units.Bytes {
	_, bits, block := m.DenseProductBits()
	return m.mixedBytes(n, bits, block, m.KeptNetwork)
}

// scaledBytes returns the bytes of n weights, block of which share a byte of scales.
func scaledBytes(n int64, bits, block int) units.Bytes {
	bytes := units.Bytes((n*int64(bits) + 7) / 8)
	if block > 0 {
		bytes += units.Bytes(n / int64(block))
	}
	return bytes
}
