package llm

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
)

// TestAsLlama: models of unknown types with Llama's keys, and text decoders of multimodal models, have the checkpoints' parameters, in
// billions as published or counted by hand.
func TestAsLlama(t *testing.T) {
	dense := func(kind, more string) string {
		return `{"model_type": "` + kind + `", "hidden_size": 4096, "intermediate_size": 12800, "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 49155` + more + `}`
	}
	for _, c := range []struct {
		text     string
		billions float64
		windows  LayerKinds
		note     string
	}{
		// The shape of granite-3.0-8b: 8.17.
		{dense("quartz", `, "tie_word_embeddings": true`), 8.171, LayerKinds{}, `model_type "quartz" is not known and read as llama, by its keys: a dense model with three matrices in a feed-forward network`},
		// Mistral Small 3.1: 23.57 without the image encoder.
		{`{"model_type": "mistral3", "text_config": {"model_type": "mistral", "hidden_size": 5120, "intermediate_size": 32768, "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8,
			"head_dim": 128, "vocab_size": 131072, "max_position_embeddings": 131072}, "vision_config": {"hidden_size": 1024}}`, 23.572, LayerKinds{}, `of model_type "mistral3" the decoder of text alone is read (text_config)`},
		// MiniMax-M2: 228.7, with the file's list of layers that all have attention.
		{`{"model_type": "minimax_m2", "hidden_size": 3072, "intermediate_size": 1536, "num_hidden_layers": 62, "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 200064,
			"num_local_experts": 256, "num_experts_per_tok": 8, "shared_intermediate_size": 0, "attn_type_list": [1, 1]}`, 228.689, LayerKinds{}, ""},
		// StarCoder2-7B: 7.17, with two matrices a feed-forward network.
		{`{"model_type": "starcoder2", "hidden_size": 4608, "intermediate_size": 18432, "num_hidden_layers": 32, "num_attention_heads": 36, "num_key_value_heads": 4, "vocab_size": 49152,
			"sliding_window": 4096, "max_position_embeddings": 16384}`, 7.173, LayerKinds{Window: 4096}, ""},
		// OLMoE-1B-7B: 6.92; intermediate_size is the width of an expert.
		{`{"model_type": "olmoe", "hidden_size": 2048, "intermediate_size": 1024, "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 50304, "num_experts": 64, "num_experts_per_tok": 8}`,
			6.919, LayerKinds{}, ""},
		// Command R7B: 8.03, windows in three of four layers.
		{`{"model_type": "cohere2", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 256000,
			"sliding_window": 4096, "sliding_window_pattern": 4, "max_position_embeddings": 132096}`, 8.028, LayerKinds{Window: 4096, LayerPattern: "LLLG"}, ""},
		{dense("new", `, "sliding_window": 4096, "sliding_window_pattern": "LLLG"`), 8.373, LayerKinds{Window: 4096, LayerPattern: "LLLG"}, "a dense model with three matrices in a feed-forward network; 30 of 40 layers are read with a window of 4096 tokens"},
		{dense("new", `, "hidden_act": "relu2"`), 6.276, LayerKinds{}, "two matrices"},
		{dense("new", `, "num_experts": 4, "num_experts_per_tok": 2`), 27.251, LayerKinds{}, "a mixture of experts with three"},
		{dense("", ""), 8.373, LayerKinds{}, "a file without model_type is not known and read as llama"},
		// Qwen3-VL-30B-A3B: the 30.53 of Qwen3-30B-A3B.
		{`{"model_type": "qwen3_vl_moe", "tie_word_embeddings": false, "text_config": {"model_type": "qwen3_vl_moe_text", "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_hidden_layers": 48,
			"num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936, "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": []}}`, 30.532, LayerKinds{}, "text_config"},
		// Trinity Mini: 26.1 with gates of 32 · 2048 · 4096 weights.
		{`{"model_type": "afmoe", "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 1024, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
			"vocab_size": 200192, "num_experts": 128, "num_experts_per_tok": 8, "num_shared_experts": 1, "num_dense_layers": 2, "sliding_window": 2048, "global_attn_every_n_layers": 4, "max_position_embeddings": 131072}`, 27.403, // were all layers mixtures
			LayerKinds{Window: 2048, LayerPattern: "LLLG"}, "the gates on the output of attention are left out: 0.27 billion parameters beside 25.86"},
		// A decoder nested twice, and a window of Qwen's that use_sliding_window turns off.
		{`{"model_type": "omni", "thinker_config": {"model_type": "thinker", "text_config": ` + dense("qwen2_omni_text", `, "sliding_window": 32768`) + `}}`, 8.373, LayerKinds{}, "the decoder of text alone"},
	} {
		m, _, notes, err := FromCheckpoint([]byte(c.text), "", nil)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := float64(m.parameterCount()) / 1e9; got < 0.999*c.billions || got > 1.001*c.billions || m.LayerKinds != c.windows || !strings.Contains(strings.Join(notes, "; "), c.note) {
			t.Errorf("%s:\ngot %.3f billion parameters, %+v, %q\nwant %.3f, %+v, %s", c.text, got, m.LayerKinds, notes, c.billions, c.windows, c.note)
		}
	}
}

// TestKnownTypesHaveNoNotes: a known model_type gives no note.
func TestKnownTypesHaveNoNotes(t *testing.T) {
	for _, text := range []string{phi3Mini, gemma2, oss(24, 32)} {
		if _, _, notes, err := FromCheckpoint([]byte(text), "", nil); err != nil || notes != nil {
			t.Errorf("%s: %q, %v", text, notes, err)
		}
	}
}

// TestRefusesShapes: each feature that Model lacks is refused in a sentence that names it, whatever the model_type.
func TestRefusesShapes(t *testing.T) {
	const llama = `"hidden_size": 4096, "intermediate_size": 12800, "num_hidden_layers": 4, "num_attention_heads": 32, "vocab_size": 100, "head_dim": 128`
	const experts = `, "num_experts": 8, "num_experts_per_tok": 2`
	for more, want := range map[string]string{
		`"model_type": "new", "kv_lora_rank": 512`:                                                                "qk_nope_head_dim: expected this key of model_type",
		`"model_type": "new", "moe_layer_freq": [0, 1, 1]` + experts:                                              "moe_layer_freq = [0,1,1]: expected 4 entries, one for each layer, not 3",
		`"model_type": "new", "attention_chunk_size": 8192`:                                                       `attention_chunk_size = 8192: expected layer_types, of which "chunked_attention" says which layers attend within chunks`,
		`"model_type": "new", "linear_num_key_heads": 16`:                                                         "linear_num_key_heads = 16: expected a model without layers of linear attention, which are not modelled",
		`"model_type": "new", "layer_types": ["linear_attention", "full_attention"]`:                              `layer_types = ["linear_attention","full_attention"]: expected a model without layers of linear attention, which are`,
		`"model_type": "new", "layer_types": ["conv", "full_attention"]`:                                          `layer_types = ["conv","full_attention"]: expected a model without layers of conv`,
		`"model_type": "new", "attn_type_list": [0, 1]`:                                                           "attn_type_list = [0,1]: expected a model without layers of linear attention",
		`"model_type": "new", "ssm_state_size": 128`:                                                              "ssm_state_size = 128: expected a model without layers of state spaces or convolutions, which are",
		`"model_type": "new", "cross_attention_layers": [3]`:                                                      "cross_attention_layers = [3]: expected a model without cross-attention, which is not modelled",
		`"model_type": "new", "num_kv_shared_layers": 20`:                                                         "num_kv_shared_layers = 20: expected a model without keys and values that layers share, which are",
		`"model_type": "new", "block_configs": [{"a": 1}]`:                                                        `block_configs = [{"a":1}]: expected a model without layers that differ in their shape`,
		`"model_type": "new", "layer_types": ["full_attention", "chunked_attention"]`:                             `layer_types = ["full_attention","chunked_attention"]: expected num_hidden_layers = 4 entries, not 2`,
		`"model_type": "plamo2", "mamba_step": 2`:                                                                 "mamba_step = 2: expected a model without layers of state spaces or convolutions",
		`"model_type": "new", "num_mamba_heads": 2`:                                                               "num_mamba_heads = 2: expected a model without layers of state spaces or convolutions",
		`"model_type": "llama", "layer_types": ["hybrid", "full_attention"]`:                                      `layer_types = "hybrid": expected "full_attention" or "sliding_attention" for each layer`,
		`"model_type": "llama", "layer_types": "sliding_attention"`:                                               `layer_types = "sliding_attention": expected a list`,
		`"model_type": "llama", "layer_types": ["sliding_attention", "full_attention"]`:                           "sliding_window: expected this key of model_type",
		`"model_type": "llama", "quantization_config": {"quant_method": "fp8", "weight_block_size": [128]}`:       `quantization_config = {"quant_method":"fp8","weight_block_size":[128]}: expected one of fp8`,
		`"model_type": "llama", "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, -128]}`: `quantization_config = {"quant_method":"fp8","weight_block_size":[128,-128]}: expected one of fp8`,
		`"model_type": "llama", "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": -128}`:    `quantization_config = {"bits":4,"group_size":-128,"quant_method":"awq"}: expected one of fp8`,
		`"model_type": "new", "share_q_dim": 2048`:                                                                "share_q_dim = 2048: expected a model without a low-rank projection of queries",
		`"model_type": "new", "blocksparse_block_size": 64`:                                                       "blocksparse_block_size = 64: expected a model without block-sparse attention, which is",
		`"model_type": "new", "layer_group_size": 8`:                                                              "layer_group_size = 8: expected a model without layers of linear attention",
		`"model_type": "new", "compress_ratios": [0, 4], "o_lora_rank": 1024`:                                     "compress_ratios = [0,4]: expected a model without compressed attention",
		`"model_type": "new", "zero_expert_num": 256`:                                                             "zero_expert_num = 256: expected a model without experts that compute nothing, which are",
		`"model_type": "new", "use_cla": true`:                                                                    "use_cla = true: expected a model without keys and values that layers share, which are",
		`"model_type": "new", "mamba_d_state": 8, "layer_types": ["attention", "mamba"]`:                          "mamba_d_state = 8: expected a model without layers of state spaces or convolutions",
		`"model_type": "bert"`:                                                  `model_type = "bert": expected a decoder: encoders are not modelled`,
		`"model_type": "new", "layer_types": "full_attention"`:                  `layer_types = "full_attention": expected a list`,
		`"model_type": "new", "hybrid_layer_pattern": 1, "sliding_window": 128`: `hybrid_layer_pattern = 1: expected a list`,
		`"model_type": "new", "layer_types": ["sliding_attention", "full_attention", "full_attention", "full_attention"]`: `sliding_window: expected this key of model_type "new", which is missing`,
		`"model_type": "new", "mlp_only_layers": [0, 4]` + experts:                                                        "mlp_only_layers = [0,4]: expected layers from 0 to 3, not 4",
		`"model_type": "new", "mlp_layer_types": "dense"` + experts:                                                       `mlp_layer_types = "dense": expected a list`,
		`"model_type": "new", "n_group": 3` + experts:                                                                     "n_group = 3: expected a divisor of num_experts = 8",
		`"model_type": "new", "n_group": 4, "topk_group": 5` + experts:                                                    "topk_group = 5: expected at most n_group = 4",
		`"model_type": "new", "qk_nope_head_dim": 128, "v_head_dim": 128`:                                                 `kv_lora_rank: expected this key of model_type "new", which is missing`,
		`"model_type": "new", "num_experts": 8`:                                                                           `num_experts_per_tok: expected this key of model_type "new", which is missing`,
	} {
		for _, text := range []string{`{` + llama + `, ` + more + `}`, `{"model_type": "outer", "text_config": {` + llama + `, ` + more + `}}`} {
			_, err := FromHuggingFace([]byte(text))
			if bad := new(input.Error); !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
			}
		}
	}
}

// TestNoFeature: a key whose value says that the model lacks a feature is accepted.
func TestNoFeature(t *testing.T) {
	for _, f := range notModelled {
		for _, key := range f.keys {
			for _, v := range []string{"null", "false", "0", `""`, "[]", "{}"} {
				text := fmt.Sprintf(`{"model_type": "new", "hidden_size": 64, "intermediate_size": 8, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 9, "num_experts": 4, "num_experts_per_tok": 2, %q: %s}`, key, v)
				if _, err := FromHuggingFace([]byte(text)); err != nil {
					t.Errorf("%s: %v", text, err)
				}
			}
		}
	}
}

// TestOddText: a byte-order mark, and Python's Infinity and NaN.
func TestOddText(t *testing.T) {
	text := "\ufeff" + `{"model_type": "llama", "hidden_size": 64, "intermediate_size": 8, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 9, "time_step_limit": [0.0, Infinity], "x": NaN}`
	for _, beside := range []string{"", `{"quantization": {"quant_algo": "FP8"}}`} {
		if m, _, _, err := FromCheckpoint([]byte(text), "hf_quant_config.json", []byte(beside)); beside != "" && (err != nil || m.WeightBits != 8) {
			t.Errorf("%+v, %v", m, err)
		}
		if _, err := FromHuggingFace([]byte(text)); err != nil {
			t.Error(err)
		}
	}
}

// TestKVHeadsOfUnknownFamilies: in an unknown family, Llama's key of KV heads counts before Falcon's.
func TestKVHeadsOfUnknownFamilies(t *testing.T) {
	const shape = `"model_type": "new", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 10, "intermediate_size": 100`
	for keys, want := range map[string]int{``: 4, `, "num_key_value_heads": 2`: 2, `, "num_kv_heads": 1`: 1, `, "num_key_value_heads": 2, "num_kv_heads": 1`: 2} {
		if m, err := FromHuggingFace([]byte(`{` + shape + keys + `}`)); err != nil || m.KVHeads != want {
			t.Errorf("%q: %d KV heads, %v; want %d", keys, m.KVHeads, err, want)
		}
	}
}
