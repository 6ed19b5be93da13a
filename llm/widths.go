package llm

import (
	"cmp"
	"fmt"
	"math"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Widths are the formats that differ from Model.ElementBits. In the zero value, none differ.
type Widths struct {
	// KVFormat is the format of keys and values in memory and transfers: "fp16", "bf16", "int8", "int4", or "fp8", which is E4M3 with one
	// scale for each tensor, whatever kv_scales is. "fp8_ds_mla" is for latents, as in vLLM and FlashMLA: FP8 with a 4-byte scale for each
	// 128 elements, and 16 bits for the rotated key (656 bytes a token in DeepSeek V3). "" uses kv_bits, with integers for 8 and 4. Queries
	// and outputs have element_bits.
	KVFormat KVFormat `toml:"kv_format,optional"`
	// KVBits is the width of keys and values if kv_format is empty: 16, 8 or 4, or 0 for element_bits.
	KVBits int `toml:"kv_bits,optional"`
	// KVScales is the granularity of the scales of 8-bit or 4-bit keys and values (kv_bits). "token" (also "") has a scale and a zero for
	// each token's key and value in a KV head. "tensor" has one for each tensor, which takes no room. LServe
	// (https://arxiv.org/abs/2502.14866) uses "token" for 4 bits and either for 8. "channel" is "token" for values; keys have a scale and a
	// zero for each element over 128 successive tokens, as in KIVI (https://arxiv.org/abs/2402.02750).
	KVScales KVScales `toml:"kv_scales,optional"`
	// WeightBits is the width of the layers' matrices: 16, 8 or 4, or 0 for element_bits. Embedding and LM head have element_bits, as in
	// released checkpoints. weight_block gives the scales.
	WeightBits int `toml:"weight_bits,optional"`
	// ExpertBits is the width of the experts' matrices: 16, 8 or 4, or 0 for weight_bits. 4 is MXFP4, where each 32 weights of an expert
	// share an 8-bit scale (OCP Microscaling Formats, 2023), as in gpt-oss; other widths have no scales.
	ExpertBits int `toml:"expert_bits,optional"`
	// AttentionBits is the width of the matrices of QKV generation and projection: 16, 8 or 4, or 0 for weight_bits. fbgemm_fp8 checkpoints
	// keep 16.
	AttentionBits int `toml:"attention_bits,optional"`
	// KeptAttention is the share, 0 to 1, of the weights of QKV generation and projection that keep element_bits, whatever attention_bits
	// and weight_bits are: quantised checkpoints leave some layers as they are.
	KeptAttention float64 `toml:"kept_attention,optional"`
	// KeptNetwork is the same share for the weights of feed-forward networks, including experts.
	KeptNetwork float64 `toml:"kept_network,optional"`
	// WeightBlock is the number of weights below 16 bits that share a byte of scales and zeros. 16 is NVFP4; 64 is groups of 128 with a
	// 16-bit scale; 51 adds a 4-bit zero; 4,096 is FP8 with a 32-bit scale for 128 × 128 weights. 0: scales take no room, as for rows and
	// tensors. A GPU's fit may have kernels for each of these types.
	WeightBlock int `toml:"weight_block,optional"`
	// ExpertTileHidden and ExpertTileFFN are the multiples, in elements, to which a server pads the two sides of MXFP4 experts when it
	// loads them; the second is for ffn_hidden on each GPU. 0: no padding. Memory and time count the padded matrices. vLLM's Marlin kernels
	// have 256 and 128, FlashInfer with TensorRT-LLM 256 and 256, FlashInfer with CUTLASS 128 and 128, Triton 0 and 64 (vLLM, mxfp4.py at
	// 007d500).
	ExpertTileHidden int `toml:"expert_tile_hidden,optional"`
	ExpertTileFFN    int `toml:"expert_tile_ffn,optional"`
	// ExpertScaleCopies is the number of unused copies of the MXFP4 experts' scales that a server keeps: they take memory and no time.
	// vLLM's Triton kernels reorder the scales and keep the loaded ones: 1.
	ExpertScaleCopies int `toml:"expert_scale_copies,optional"`
	// ActivationBits is the width of the inputs of the layers' products: 16 or 8, or 0 for element_bits. Products run at the rate of the
	// wider of this and weight_bits.
	ActivationBits int `toml:"activation_bits,optional"`
}

// KVFormat names the format of keys and values.
type KVFormat string

// The formats of keys and values.
const (
	FP16 KVFormat = "fp16"
	BF16 KVFormat = "bf16"
	FP8  KVFormat = "fp8" // E4M3
	// FP8Latent is FP8 with a scale for each block, and rotated keys of 16 bits.
	FP8Latent KVFormat = "fp8_ds_mla"
	INT8      KVFormat = "int8"
	INT4      KVFormat = "int4"
)

// KVFormats returns the names of the formats for heads, without FP8Latent.
func KVFormats() []string {
	return []string{string(FP16), string(BF16), string(FP8), string(INT8), string(INT4)}
}

// bits returns the bits of an element, 0 for no format.
func (f KVFormat) bits() int {
	switch f {
	case FP16, BF16:
		return 16
	case FP8, FP8Latent, INT8:
		return 8
	case INT4:
		return 4
	}
	return 0
}

// KVScales is the granularity of the scales of keys and values.
type KVScales string

// The kinds of scales.
const (
	TokenScales  KVScales = "token"  // 16 bits each, a scale and a zero of each key and each value: 4 B (QServe, LServe)
	TensorScales KVScales = "tensor" // fixed in advance: no room
	// ChannelScales are for each element of keys over KeyGroup tokens. With 128 elements they take as many bytes as TokenScales.
	ChannelScales KVScales = "channel"
)

// KeyGroup is the number of tokens in a group of ChannelScales.
const KeyGroup = 128

// check has the rules of widths, for a model whose other elements have elementBits bits.
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

// StoredBits returns the bits of an element of a stored key or value, or 0 if they have the model's ElementBits.
func (w *Widths) StoredBits() int { return cmp.Or(w.KVFormat.bits(), w.KVBits) }

// KVFloat reports whether 8-bit keys and values are FP8.
func (w *Widths) KVFloat() bool { return w.KVFormat == FP8 || w.KVFormat == FP8Latent }

// latentBlock is the number of a latent's elements that share a scale in FP8Latent.
const latentBlock = 128

// KVScaleBytes returns the bytes of scale and zero of one token's key in a KV head; the value has as many. With FP8Latent it is a latent's
// scales, plus the second byte of each element of the rotated key.
func (m *Model) KVScaleBytes() int {
	if m.KVFormat == FP8Latent {
		return 4*((m.LatentDim+latentBlock-1)/latentBlock) + m.RopeDim()
	}
	if bits := m.StoredBits(); bits == 0 || bits == 16 || m.KVScales == TensorScales || m.KVFloat() {
		return 0
	}
	return 4
}

// KeyGroup returns the number of tokens that share scales of each element of keys, or 0 if none do.
func (m *Model) KeyGroup() int {
	if m.KVScales != ChannelScales || m.KVScaleBytes() == 0 {
		return 0
	}
	return KeyGroup
}

// ProductBits returns the bits of an element of the inputs and of the weights of the layers' products.
func (m *Model) ProductBits() (activations, weights int) {
	return cmp.Or(m.ActivationBits, m.ElementBits), cmp.Or(m.WeightBits, m.ElementBits)
}

// AttentionProductBits is ProductBits for QKV generation and projection, with the number of weights that share a byte of scales, 0 for no
// scales. Inputs of 16-bit matrices have 16 bits.
func (m *Model) AttentionProductBits() (activations, weights, block int) {
	activations, weights = m.ProductBits()
	if m.AttentionBits > 0 {
		weights = m.AttentionBits
		activations = max(activations, weights)
	}
	return activations, weights, m.scaleBlock(weights)
}

// DenseProductBits is AttentionProductBits for dense networks and shared experts.
func (m *Model) DenseProductBits() (activations, weights, block int) {
	activations, weights = m.ProductBits()
	return activations, weights, m.scaleBlock(weights)
}

// scaleBlock returns the number of weights of that width that share a byte of scales.
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

// mixedBytes returns the bytes of n weights. A share of them has element_bits; the others have bits bits, and block of them share a byte of
// scales.
func (m *Model) mixedBytes(n int64, bits, block int, share float64) units.Bytes {
	kept := int64(math.Round(share * float64(n)))
	return scaledBytes(n-kept, bits, block) + m.elementBytes(kept)
}

// weightBytes returns the bytes of n weights of layers.
func (m *Model) weightBytes(n int64) units.Bytes {
	_, bits := m.ProductBits()
	return units.Bytes((n*int64(bits) + 7) / 8)
}

// WeightWidths describes the widths of the layers' matrices, and which weights keep element_bits; "" if all have element_bits.
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

// NetworkMean returns the mean bits of a weight of the feed-forward networks, when weights that are not kept have the given bits.
func (m *Model) NetworkMean(bits float64) float64 {
	return float64((1-m.KeptNetwork)*bits) + float64(m.KeptNetwork*float64(m.ElementBits))
}

// ExpertBitsOf returns the bits of an expert's weight, and the number of weights that share an 8-bit scale, 0 for no scales.
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

// TileDefaults are a server's default tiles.
const TileDefaults = `
[model]
expert_tile_hidden = 0 # none: experts as the checkpoint has them; memory and time of experts of 4 bits
expert_tile_ffn = 0    # none, as above; memory and time of experts of 4 bits
expert_scale_copies = 0 # none beside those that kernels read; memory of experts of 4 bits
`

// LoadedExpert returns the sides of an expert's matrices as loaded on one GPU: hidden, and its share of ffn_hidden. Sides of MXFP4 experts
// are rounded up to the tiles.
func (m *Model) LoadedExpert() (hidden, ffn int) {
	hidden, ffn = m.Hidden, (m.FFNHidden+m.expertShards()-1)/m.expertShards()
	if _, block := m.ExpertBitsOf(); block > 0 {
		hidden, ffn = roundUp(hidden, m.ExpertTileHidden), roundUp(ffn, m.ExpertTileFFN)
	}
	return hidden, ffn
}

// padded reports whether experts are larger in memory than in the checkpoint.
func (m *Model) padded() bool {
	_, block := m.ExpertBitsOf()
	return block > 0 && (m.ExpertTileHidden > 0 || m.ExpertTileFFN > 0)
}

// spareScales returns the bytes of the copies of a layer's expert scales that a server keeps and no kernel reads.
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

// roundUp returns the least multiple of tile that is at least n; n for a tile of 0.
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

// scaledBytes returns the bytes of n weights of the given bits. Each block of weights shares a byte of scales; a block of 0 has none.
func scaledBytes(n int64, bits, block int) units.Bytes {
	bytes := units.Bytes((n*int64(bits) + 7) / 8)
	if block > 0 {
		bytes += units.Bytes(n / int64(block))
	}
	return bytes
}
