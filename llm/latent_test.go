package llm

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// latentConfig returns config.json of a model with latent attention and DeepSeek V3's heads.
func latentConfig(kind string, layers, hidden, heads int, queryRank any, dense, width, experts, active, shared, first, vocab int) string {
	return fmt.Sprintf(`{"model_type": %q, "num_hidden_layers": %d, "hidden_size": %d, "num_attention_heads": %d, "num_key_value_heads": %d, "q_lora_rank": %v,
		"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "intermediate_size": %d, "moe_intermediate_size": %d,
		"n_routed_experts": %d, "num_experts_per_tok": %d, "n_shared_experts": %d, "first_k_dense_replace": %d, "moe_layer_freq": 1, "n_group": 8, "topk_group": 4,
		"num_nextn_predict_layers": 1, "max_position_embeddings": 163840, "vocab_size": %d}`,
		kind, layers, hidden, heads, heads, queryRank, dense, width, experts, active, shared, first, vocab)
}

// deepSeekV3 is the shape of DeepSeek V3.
func deepSeekV3(t *testing.T) *Model {
	m, err := FromHuggingFace([]byte(latentConfig("deepseek_v3", 61, 7168, 128, 1536, 18432, 2048, 256, 8, 1, 3, 129280)))
	if err != nil {
		t.Fatal(err)
	}
	m.Name, m.TensorParallel = "deepseek-v3", 1
	return m
}

// TestLatentModels: total and active parameters of published models, without their layers for multi-token prediction, and the 512 + 64
// numbers that a layer stores of a token.
func TestLatentModels(t *testing.T) {
	for _, c := range []struct {
		text          string
		total, active float64 // 1e9
	}{
		{latentConfig("deepseek_v3", 61, 7168, 128, 1536, 18432, 2048, 256, 8, 1, 3, 129280), 671.03, 37.55},
		{latentConfig("kimi_k2", 61, 7168, 64, 1536, 18432, 2048, 384, 8, 1, 1, 163840), 1026.41, 32.86},
		{latentConfig("deepseek_v2", 27, 2048, 16, "null", 10944, 1408, 64, 6, 2, 1, 102400), 15.71, 2.66},
		{latentConfig("another", 27, 2048, 16, "null", 10944, 1408, 64, 6, 2, 1, 102400), 15.71, 2.66},
	} {
		m, err := FromHuggingFace([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		total, active := float64(m.Parameters())/1e9, float64(m.ActiveParameters())/1e9
		if math.Abs(total-c.total) > 0.006 || math.Abs(active-c.active) > 0.006 {
			t.Errorf("%s...: %.3f billion parameters, %.3f of a token", c.text[:40], total, active)
		}
		if m.KVHeads != 1 || m.HeadDim != 576 || m.RopeDim() != 64 || m.KVBytesPerTokenLayer() != 1152 || m.KVBytesPerToken() != units.Bytes(1152*m.Layers) {
			t.Errorf("%+v stores %d bytes of a token and layer", m, m.KVBytesPerTokenLayer())
		}
		m.Name, m.TensorParallel = "m", 1
		var k input.Check
		if m.Check(&k); k.Err() != nil {
			t.Error(k.Err())
		}
	}
}

// TestLatentShards: each of eight GPUs has its query heads, and whole latents with their projections down; by hand, in 16 bits.
func TestLatentShards(t *testing.T) {
	one, eight := deepSeekV3(t), deepSeekV3(t)
	eight.TensorParallel = 8
	const whole = 7168 * (576 + 1536) // elements of a layer that every GPU has
	if got, want := eight.WeightBytes()-one.WeightBytes(), units.Bytes(61*7*whole*2); got != want {
		t.Errorf("eight GPUs have %d bytes of weights more than one, want %d", got, want)
	}
	if query, kv := eight.ShardHeads(); query != 16 || kv != 1 || eight.KVReplicas() != 8 || eight.KVBytesOnGPUs() != 8*one.KVBytesPerToken() {
		t.Errorf("a GPU has %d query heads, %d KV heads; %d hold each, %d bytes of a token", query, kv, eight.KVReplicas(), eight.KVBytesOnGPUs())
	}
	// For one token: two streams on each GPU; 128 queries of 576 and outputs of 512, and the compressed vectors; gate, up and outputs of
	// eight experts.
	attention, experts := 128*(576+512)+8*(576+1536), 8*(2*2048+8*7168)+2*2048
	if got, want := eight.ActivationBytes(1), units.Bytes(2*(2*8*7168+max(attention, experts))); got != want {
		t.Errorf("%d bytes of activations, want %d", got, want)
	}
	for _, n := range []int{3, 5, 256} {
		if eight.SplitsOver(n) != (n <= 128) {
			t.Errorf("%d GPUs", n)
		}
	}
}

// TestLatentFormats: FP8 has one byte an element and no scales; integers have one scale a token, since it has one vector.
func TestLatentFormats(t *testing.T) {
	m := deepSeekV3(t)
	for format, want := range map[KVFormat]units.Bytes{FP16: 1152, BF16: 1152, FP8: 576, INT8: 576 + 4, INT4: 288 + 4} {
		if m.KVFormat = format; m.KVBytesPerTokenLayer() != want {
			t.Errorf("%s: %d bytes, want %d", format, m.KVBytesPerTokenLayer(), want)
		}
	}
}

// TestKeptLatent: the weights of latent attention that a checkpoint keeps in 16 bits, by hand.
func TestKeptLatent(t *testing.T) {
	const all = 7168*(576+1536) + 1536*128*192 + 512*128*256 + 128*128*7168
	text := latentConfig("deepseek_v3", 61, 7168, 128, 1536, 18432, 2048, 256, 8, 1, 3, 129280)
	for module, kept := range map[string]float64{
		"model.layers.0.self_attn.kv_b_proj":          512. * 128 * 256 / 61,
		"model.layers.0.self_attn.kv_a_proj_with_mqa": 7168. * 576 / 61,
		"model.layers.0.self_attn.q_a_proj":           7168. * 1536 / 61,
		"re:.*self_attn.fused_qkv_a_proj":             7168. * (576 + 1536),
		"model.layers.60.self_attn":                   all / 61.,
		"re:.*self_attn.(q_b|o)_proj":                 1536.*128*192 + 128.*128*7168,
	} {
		quantised := strings.TrimSuffix(text, "}") + `, "quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["` + module + `"]}}`
		m, err := FromHuggingFace([]byte(quantised))
		if err != nil || math.Abs(m.KeptAttention-kept/all) > 1e-12 || m.KeptNetwork != 0 {
			t.Errorf("%s: %+v, %v; want %g", module, m, err, kept/all)
		}
	}
}

// TestLatentRefused: keys that contradict each other.
func TestLatentRefused(t *testing.T) {
	for change, want := range map[*Model]string{
		{KVHeads: 8, HeadDim: 576, Latent: Latent{512, 1536, 128, 128}}:                                 "kv_heads = 8: expected 1 with model.latent_dim = 512",
		{KVHeads: 1, HeadDim: 500, Latent: Latent{512, 1536, 128, 128}}:                                 "head_dim = 500: expected at least latent_dim = 512",
		{KVHeads: 1, HeadDim: 576, Latent: Latent{512, 0, 0, 128}}:                                      "nope_dim = 0: expected at least 1",
		{KVHeads: 1, HeadDim: 576, Latent: Latent{512, 0, 128, 0}}:                                      "value_dim = 0: expected at least 1",
		{KVHeads: 1, HeadDim: 128, Latent: Latent{0, 7, 0, 0}}:                                          "query_rank = 7: expected 0 without model.latent_dim",
		{KVHeads: 1, HeadDim: 576}:                                                                      "head_dim = 576: expected 8 to 512",
		{KVHeads: 1, HeadDim: 576, Latent: Latent{512, 0, 128, 128}, LayerKinds: LayerKinds{Window: 9}}: "window = 9: expected 0",
	} {
		m, k := deepSeekV3(t), input.Check{}
		m.KVHeads, m.HeadDim, m.Latent, m.LayerKinds = change.KVHeads, change.HeadDim, change.Latent, change.LayerKinds
		if m.Check(&k); k.Err() == nil || !strings.Contains(k.Err().Error(), want) {
			t.Errorf("%+v: %v, want %s", change.Latent, k.Err(), want)
		}
	}
	text := latentConfig("deepseek_v3", 61, 7168, 128, 1536, 18432, 2048, 256, 8, 1, 3, 129280)
	for was, now := range map[string]string{`"qk_rope_head_dim": 64, `: `qk_rope_head_dim: expected this key of model_type "deepseek_v3"`, `"v_head_dim": 128, `: `v_head_dim: expected this key`} {
		if _, err := FromHuggingFace([]byte(strings.Replace(text, was, "", 1))); err == nil || !strings.Contains(err.Error(), now) {
			t.Errorf("without %s: %v", was, err)
		}
	}
	if _, err := FromHuggingFace([]byte(strings.Replace(text, `"q_lora_rank": 1536`, `"q_lora_rank": "wide"`, 1))); err == nil || !strings.Contains(err.Error(), `q_lora_rank = "wide": expected a whole number`) {
		t.Error(err)
	}
}
