package llm

import (
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// TestWidths: bytes of a token and KV head as LServe counts them, bits of a layer's weights, and what keeps its width.
func TestWidths(t *testing.T) {
	base := Model{Layers: 2, Hidden: 256, Heads: 4, KVHeads: 2, HeadDim: 128, FFNHidden: 512, Vocab: 100, ElementBits: 16, TensorParallel: 1}
	matrices, embedding := int64(2)*base.LayerParameters(), base.embeddingParameters()
	for _, c := range []struct {
		widths  Widths
		kv      units.Bytes // of a token and KV head
		weights int64       // bits
	}{
		{Widths{}, 512, 16}, {Widths{KVBits: 16}, 512, 16}, {Widths{KVBits: 8}, 264, 16}, {Widths{KVBits: 4}, 136, 16},
		{Widths{KVBits: 8, KVScales: TensorScales}, 256, 16}, {Widths{KVBits: 4, KVScales: TensorScales}, 128, 16},
		{Widths{KVFormat: FP16}, 512, 16}, {Widths{KVFormat: BF16, KVBits: 16}, 512, 16}, {Widths{KVFormat: FP8}, 256, 16}, {Widths{KVFormat: FP8, KVScales: TokenScales}, 256, 16},
		{Widths{KVFormat: INT8}, 264, 16}, {Widths{KVFormat: INT4, KVBits: 4}, 136, 16}, {Widths{KVFormat: INT8, KVScales: TensorScales}, 256, 16},
		{Widths{KVBits: 4, KVScales: ChannelScales}, 136, 16}, {Widths{WeightBits: 8}, 512, 8}, {Widths{WeightBits: 4, ActivationBits: 8}, 512, 4},
	} {
		m := base
		m.Widths = c.widths
		if errs := input.Faults(&m); len(errs) > 0 {
			t.Errorf("%+v: %v", c.widths, errs[0])
		}
		if got := m.KVBytesPerTokenLayer(); got != 2*c.kv {
			t.Errorf("%+v: %v a token, want %v", c.widths, got, 2*c.kv)
		}
		if got, want := m.WeightBytes(), units.Bytes(matrices*c.weights/8+2*embedding); got != want {
			t.Errorf("%+v: %v of weights, want %v", c.widths, got, want)
		}
		if m.QKVBytesPerTokenLayer() != base.QKVBytesPerTokenLayer() || m.ActivationBytes(7) != base.ActivationBytes(7) {
			t.Errorf("%+v changes vectors or activations", c.widths)
		}
	}
	for key, w := range map[string]Widths{
		"kv_bits": {KVBits: 2}, "kv_scales": {KVScales: "head"}, "weight_bits": {WeightBits: 3}, "activation_bits": {ActivationBits: 4},
		"expert_bits": {ExpertBits: 2}, "attention_bits": {AttentionBits: 12}, "kept_attention": {KeptAttention: 1.5}, "kept_network": {KeptNetwork: -0.5}, "weight_block": {WeightBlock: -1},
		"expert_tile_hidden": {ExpertTileHidden: 4097}, "expert_tile_ffn": {ExpertTileFFN: -1}, "expert_scale_copies": {ExpertScaleCopies: 9},
	} {
		m := base
		m.Widths = w
		if errs := input.Faults(&m); len(errs) != 1 || errs[0].Key != key {
			t.Errorf("%+v: %v, want one fault of %s", w, errs, key)
		}
	}
	for want, w := range map[string]Widths{
		`kv_format = "fp9": expected one of bf16, fp16, fp8, fp8_ds_mla, int4, int8; did you mean "fp8"?`:     {KVFormat: "fp9"},
		`kv_bits = 4: expected 8, or 0, with kv_format = "fp8"`:                                               {KVFormat: FP8, KVBits: 4},
		`kv_scales = "channel": expected token or tensor with kv_format = "fp8", which has scales of its own`: {KVFormat: FP8, KVScales: ChannelScales},
	} {
		m := base
		m.Widths = w
		if errs := input.Faults(&m); len(errs) != 1 || errs[0].Error() != want {
			t.Errorf("%+v: %v, want %s", w, errs, want)
		}
	}
	m := base
	m.ActivationBits = 8 // of weights of 16
	if errs := input.Faults(&m); len(errs) != 1 || errs[0].Key != "activation_bits" {
		t.Errorf("wider weights: %v", errs)
	}
}

// TestLegalBits: the widths that are accepted.
func TestLegalBits(t *testing.T) {
	base := Model{Layers: 2, Hidden: 256, Heads: 4, KVHeads: 2, HeadDim: 128, FFNHidden: 512, Vocab: 100, ElementBits: 16, TensorParallel: 1, Experts: 4, ActiveExperts: 2}
	for _, bits := range []int{0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 32} {
		legal := bits == 0 || bits == 4 || bits == 8 || bits == 16
		for _, w := range []Widths{{KVBits: bits}, {WeightBits: bits}, {ExpertBits: bits, WeightBits: 4}, {AttentionBits: bits}} {
			m := base
			if m.Widths = w; (len(input.Faults(&m)) == 0) != legal {
				t.Errorf("%+v: %v", w, input.Faults(&m))
			}
		}
	}
	for keys, legal := range map[LayerKinds]bool{{}: true, {Window: 1}: true, {Window: 1 << 24}: true, {Window: 1<<24 + 1}: false, {Window: -1}: false, {Window: 5, LayerPattern: "G"}: false,
		{LayerPattern: "G"}: true, {Window: 5, LayerPattern: "LG"}: true, {LayerPattern: "L"}: false, {Window: 5, LayerPattern: "LLG"}: false} {
		m := base
		if m.LayerKinds = keys; (len(input.Faults(&m)) == 0) != legal {
			t.Errorf("%+v: %v", keys, input.Faults(&m))
		}
	}
}

// TestNetworkMeanByHand: a quarter of the networks' weights stays in 16 bits.
func TestNetworkMeanByHand(t *testing.T) {
	for kept, want := range map[float64]float64{0: 4.5, 0.25: 0.75*4.5 + 4, 1: 16} {
		m := Model{ElementBits: 16, Widths: Widths{KeptNetwork: kept}}
		if got := m.NetworkMean(4.5); got != want {
			t.Errorf("%v kept: %v bits, by hand %v", kept, got, want)
		}
	}
}
