package llm

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
)

// TestFromHuggingFace: shapes are as published, and parameters are the checkpoints' less norms and biases, which Model leaves out.
func TestFromHuggingFace(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Model
		parameters float64
	}{
		{"Llama-2-7b-hf", `{"_name_or_path": "meta-llama/Llama-2-7b-hf", "architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
			"hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008, "max_position_embeddings": 4096,
			"model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "pretraining_tp": 1,
			"rms_norm_eps": 1e-05, "rope_scaling": null, "tie_word_embeddings": false, "torch_dtype": "float16", "vocab_size": 32000}`,
			Model{Context: 4096, Layers: 32, Hidden: 4096, Heads: 32, KVHeads: 32, HeadDim: 128, FFNHidden: 11008, GatedFFN: true, Vocab: 32000}, 6738415616},
		{"", `{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 8192,
			"model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rope_theta": 500000.0,
			"tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 128256}`,
			Model{Context: 8192, Layers: 32, Hidden: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, FFNHidden: 14336, GatedFFN: true, Vocab: 128256}, 8030261248},
		{"", `{"architectures": ["LlamaForCausalLM"], "hidden_size": 8192, "intermediate_size": 28672, "model_type": "llama",
			"num_attention_heads": 64, "num_hidden_layers": 80, "num_key_value_heads": 8, "tie_word_embeddings": false, "vocab_size": 128256}`,
			Model{Layers: 80, Hidden: 8192, Heads: 64, KVHeads: 8, HeadDim: 128, FFNHidden: 28672, GatedFFN: true, Vocab: 128256}, 70553706496},
		{"", `{"architectures": ["MistralForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
			"model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "sliding_window": 4096,
			"tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 32000}`,
			Model{Context: 32768, Layers: 32, Hidden: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, FFNHidden: 14336, GatedFFN: true, Vocab: 32000, LayerKinds: LayerKinds{Window: 4096}}, 7241732096},
		{"", `{"architectures": ["Qwen2ForCausalLM"], "hidden_size": 3584, "intermediate_size": 18944, "max_window_layers": 28, "model_type": "qwen2",
			"num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4, "tie_word_embeddings": false, "use_sliding_window": false,
			"vocab_size": 152064}`,
			Model{Layers: 28, Hidden: 3584, Heads: 28, KVHeads: 4, HeadDim: 128, FFNHidden: 18944, GatedFFN: true, Vocab: 152064}, 7615616512},
		{"", `{"architectures": ["Qwen2ForCausalLM"], "hidden_size": 896, "intermediate_size": 4864, "model_type": "qwen2", "num_attention_heads": 14,
			"num_hidden_layers": 24, "num_key_value_heads": 2, "tie_word_embeddings": true, "vocab_size": 151936}`,
			Model{Layers: 24, Hidden: 896, Heads: 14, KVHeads: 2, HeadDim: 64, FFNHidden: 4864, GatedFFN: true, Vocab: 151936, TiedEmbedding: true}, 494032768},
		{"", `{"architectures": ["Qwen3ForCausalLM"], "head_dim": 128, "hidden_size": 4096, "intermediate_size": 12288, "model_type": "qwen3",
			"num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8, "tie_word_embeddings": false, "vocab_size": 151936}`,
			Model{Layers: 36, Hidden: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, FFNHidden: 12288, GatedFFN: true, Vocab: 151936}, 8190735360},
		{"", `{"architectures": ["QWenLMHeadModel"], "hidden_size": 4096, "intermediate_size": 22016, "kv_channels": 128, "model_type": "qwen",
			"num_attention_heads": 32, "num_hidden_layers": 32, "tie_word_embeddings": false, "vocab_size": 151936}`,
			Model{Layers: 32, Hidden: 4096, Heads: 32, KVHeads: 32, HeadDim: 128, FFNHidden: 11008, GatedFFN: true, Vocab: 151936}, 7721324544},
		{"", `{"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
			"n_layer": 12, "n_positions": 1024, "vocab_size": 50257}`,
			Model{Context: 1024, Layers: 12, Hidden: 768, Heads: 12, KVHeads: 12, HeadDim: 64, FFNHidden: 3072, Vocab: 50257, TiedEmbedding: true, MaxPositions: 1024}, 124439808},
		{"starcoder", `{"_name_or_path": "bigcode/starcoder", "model_type": "gpt_bigcode", "multi_query": true, "n_embd": 6144, "n_head": 48, "n_inner": 24576,
			"n_layer": 40, "n_positions": 8192, "vocab_size": 49152}`,
			Model{Context: 8192, Layers: 40, Hidden: 6144, Heads: 48, KVHeads: 1, HeadDim: 128, FFNHidden: 24576, Vocab: 49152, TiedEmbedding: true, MaxPositions: 8192}, 15517456384},
		{"", `{"architectures": ["GPTJForCausalLM"], "model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_inner": null, "n_layer": 28, "n_positions": 2048,
			"rotary_dim": 64, "tie_word_embeddings": false, "vocab_size": 50400}`,
			Model{Context: 2048, Layers: 28, Hidden: 4096, Heads: 16, KVHeads: 16, HeadDim: 256, FFNHidden: 16384, Vocab: 50400}, 6050882784},
		{"", `{"architectures": ["GPTNeoXForCausalLM"], "hidden_size": 6144, "intermediate_size": 24576, "model_type": "gpt_neox", "num_attention_heads": 64,
			"num_hidden_layers": 44, "rotary_pct": 0.25, "tie_word_embeddings": false, "vocab_size": 50432}`,
			Model{Layers: 44, Hidden: 6144, Heads: 64, KVHeads: 64, HeadDim: 96, FFNHidden: 24576, Vocab: 50432}, 20554567680},
		{"", `{"architectures": ["MixtralForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
			"model_type": "mixtral", "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
			"num_local_experts": 8, "output_router_logits": false, "router_aux_loss_coef": 0.02, "sliding_window": null,
			"tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 32000}`,
			Model{Context: 32768, Layers: 32, Hidden: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, FFNHidden: 14336, GatedFFN: true, Vocab: 32000,
				Experts: 8, ActiveExperts: 2}, 46702792704},
		{"", `{"architectures": ["Qwen3MoeForCausalLM"], "decoder_sparse_step": 1, "head_dim": 128, "hidden_size": 2048, "intermediate_size": 6144,
			"mlp_only_layers": [], "model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": true, "num_attention_heads": 32,
			"num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4, "tie_word_embeddings": false,
			"vocab_size": 151936}`,
			Model{Layers: 48, Hidden: 2048, Heads: 32, KVHeads: 4, HeadDim: 128, FFNHidden: 768, GatedFFN: true, Vocab: 151936,
				Experts: 128, ActiveExperts: 8}, 30532122624},
		{"opt-66b", `{"_name_or_path": "facebook/opt-66b", "architectures": ["OPTForCausalLM"], "ffn_dim": 36864, "hidden_size": 9216,
			"max_position_embeddings": 2048, "model_type": "opt", "num_attention_heads": 72, "num_hidden_layers": 64, "vocab_size": 50272,
			"word_embed_proj_dim": 9216}`,
			Model{Context: 2048, Layers: 64, Hidden: 9216, Heads: 72, KVHeads: 72, HeadDim: 128, FFNHidden: 36864, Vocab: 50272, TiedEmbedding: true, MaxPositions: 2048}, 65.72e9},
	} {
		m, err := FromHuggingFace([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		c.want.Name, c.want.ElementBits = c.name, 16
		if *m != c.want {
			t.Errorf("got  %+v\nwant %+v", *m, c.want)
		}
		if off := float64(m.parameterCount())/c.parameters - 1; math.Abs(off) > 0.001 {
			t.Errorf("%+v: %d parameters, the checkpoint has %.0f", *m, m.parameterCount(), c.parameters)
		}
	}
}

// TestFromHuggingFaceDefaults: a missing or null key has the family's default.
func TestFromHuggingFaceDefaults(t *testing.T) {
	const llama = `"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 32000, "intermediate_size": 11008`
	const code = `"model_type": "gpt_bigcode", "n_embd": 64, "n_head": 4, "n_layer": 1, "n_positions": 8, "vocab_size": 16777216`
	for text, want := range map[string]Model{
		`{` + llama + `, "num_experts": 1, "num_local_experts": 0, "is_encoder_decoder": false, "quantization_config": null, "head_dim": null, "num_key_value_heads": null}`: {
			Layers: 32, Hidden: 4096, Heads: 32, KVHeads: 32, HeadDim: 128, FFNHidden: 11008, GatedFFN: true, Vocab: 32000, ElementBits: 16},
		`{` + llama + `, "head_dim": 64, "num_key_value_heads": 8, "_name_or_path": "C:\\models\\x"}`: {
			Name: "x", Layers: 32, Hidden: 4096, Heads: 32, KVHeads: 8, HeadDim: 64, FFNHidden: 11008, GatedFFN: true, Vocab: 32000, ElementBits: 16},
		`{` + code + `}`: {
			Layers: 1, Hidden: 64, Heads: 4, KVHeads: 1, HeadDim: 16, FFNHidden: 256, Vocab: 1 << 24, TiedEmbedding: true, MaxPositions: 8, Context: 8, ElementBits: 16},
		`{` + code + `, "multi_query": false, "tie_word_embeddings": false, "n_inner": 100}`: {
			Layers: 1, Hidden: 64, Heads: 4, KVHeads: 4, HeadDim: 16, FFNHidden: 100, Vocab: 1 << 24, MaxPositions: 8, Context: 8, ElementBits: 16},
	} {
		if m, err := FromHuggingFace([]byte(text)); err != nil || *m != want {
			t.Errorf("%s:\ngot  %+v, %v\nwant %+v", text, m, err, want)
		}
	}
}

// moe returns the keys of a model type with 8 experts.
func moe(kind, experts string) string {
	return `"model_type": "` + kind + `", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 10, "intermediate_size": 100, ` +
		`"moe_intermediate_size": 50, "` + experts + `": 8`
}

// TestFromHuggingFaceRefuses: the error names the key that is missing or not modelled.
func TestFromHuggingFaceRefuses(t *testing.T) {
	const llama = `"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 32000, "intermediate_size": 11008`
	for text, want := range map[string]string{
		`{"model_type": "granitemoe", "num_local_experts": 8}`:                 `num_hidden_layers: expected this key of model_type "granitemoe", which is missing`,
		`{"model_type": "mixtral", "num_experts": 8}`:                          `num_experts = 8: expected the experts of this model_type in the key num_local_experts`,
		`{"model_type": "qwen1_moe", "num_experts": 60}`:                       `model_type = "qwen1_moe": expected one of`,
		`{` + moe("mixtral", "num_local_experts") + `}`:                        `num_experts_per_tok: expected this key of model_type "mixtral", which is missing`,
		`{"model_type": "minimax_m3", "sparse_attention_config": {"a": 1}}`:    `sparse_attention_config = {"a":1}: expected a model without block-sparse attention, which is not modelled`,
		`{"model_type": "deepseek_v9", "n_routed_experts": 256}`:               `model_type = "deepseek_v9": expected one of`,
		`{` + llama + `, "quantization_config": {"bits": 4}}`:                  `quantization_config = {"bits":4}: expected one of fp8, fbgemm_fp8, modelopt`,
		`{"model_type": "gemma1"}`:                                             `model_type = "gemma1": expected one of bloom, chatglm, codegen, dbrx, deepseek_v2, deepseek_v3, deepseek_v32, exaone, falcon, gemma2, gemma3, gemma3_text, glm4_moe, glm4_moe_lite, glm_moe_dsa, gpt2, gpt_bigcode, gpt_neo, gpt_neox, gpt_oss, gptj, kimi_k2, llama, llama4, llama4_text, minimax_m2, mistral, mixtral, mpt, opt, phi3, qwen, qwen2, qwen2_moe, qwen3, qwen3_moe, xglm; or another with Llama's keys: hidden_size, intermediate_size, num_attention_heads, num_hidden_layers, vocab_size`,
		`{"hidden_size": 5}`:                                                   `model_type = "": expected one of`,
		`{"model_type": "llama", "hidden_size": 4096}`:                         `num_hidden_layers: expected this key of model_type "llama", which is missing`,
		`{"model_type": "llama", "hiden_size": 4, "num_hidden_layers": 1}`:     `hidden_size: unknown key "hiden_size"; expected this key of model_type "llama"`,
		`{"model_type": "llama", "hidden_size": 40.5, "num_hidden_layers": 1}`: `hidden_size = 40.5: expected a whole number, 1 to 16777216`,
		`{"model_type": "llama", "hidden_size": "40", "num_hidden_layers": 1}`: `hidden_size = "40": expected a whole number`,
		`{` + llama + `, "num_key_value_heads": 0}`:                            `num_key_value_heads = 0: expected a whole number`,
		`{` + llama + `, "tie_word_embeddings": 1}`:                            `tie_word_embeddings = 1: expected true or false`,
		`{"model_type": "llama", "hidden_size": 100, "num_attention_heads": 3, "num_hidden_layers": 1, "vocab_size": 1, "intermediate_size": 1}`:                                                            `num_attention_heads = 3: expected a divisor of hidden_size = 100`,
		`{"model_type": "opt", "ffn_dim": 4096, "hidden_size": 1024, "max_position_embeddings": 2048, "num_attention_heads": 16, "num_hidden_layers": 24, "vocab_size": 50272, "word_embed_proj_dim": 512}`: `word_embed_proj_dim = 512: expected hidden_size = 1024`,
		`{` + llama + `, "num_experts": 2}`:           `num_experts = 2: expected none: models of this model_type are dense`,
		`{` + llama + `, "num_experts": 0.5}`:         `num_experts = 0.5: expected none: models of this model_type are dense`,
		`{` + llama + `, "is_encoder_decoder": true}`: `is_encoder_decoder = true: expected a model without an encoder, which is not modelled`,
		`{"model_type": "llama", "intermediate_size": null, "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 1}`: `intermediate_size: expected this key of model_type "llama"`,
		`{"model_type": "llama", "hidden_size": 16777217, "num_hidden_layers": 1}`:                                                                `hidden_size = 16777217: expected a whole number, 1 to 16777216`,
		`{"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "vocab_size": 5}`:                                                         `n_positions: expected this key of model_type "gpt2"`,
		`{` + llama + `, "quantization_config": {"quant_method": "bitsandbytes", "bits": 4, "group_size": 128}}`:                                  `quantization_config = {"bits":4,"group_size":128,"quant_method":"bitsandbytes"}: expected`,
		`{"o_lora_rank": "` + strings.Repeat("x", 58) + `"}`:                                                                                      `o_lora_rank = "` + strings.Repeat("x", 58) + `": expected`,
		`{"o_lora_rank": "` + strings.Repeat("x", 59) + `"}`:                                                                                      `o_lora_rank = "` + strings.Repeat("x", 59) + `...: expected`,
		`[model]`: `not JSON: `,
		`[1]`:     `not JSON: `,
	} {
		_, err := FromHuggingFace([]byte(text))
		var bad *input.Error
		if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func FuzzFromHuggingFace(f *testing.F) {
	f.Add(`{"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 32000, "intermediate_size": 11008}`)
	f.Add(`{"model_type": "gpt_bigcode", "n_embd": 64, "n_head": 4, "n_layer": 1, "n_positions": 8, "vocab_size": 5, "_name_or_path": ".\\x"}`)
	f.Add(`{"model_type": "granitemoe", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 9, "intermediate_size": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_layer_freq": [1, 1]}`)
	f.Add(`{"model_type": "x", "text_config": {"text_config": {"model_type": "mistral", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 9, "intermediate_size": 8, "sliding_window": 4, "layer_types": ["full_attention"]}}}`)
	f.Add("\ufeff" + `{"model_type": "chatglm", "num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "ffn_hidden_size": 9, "padded_vocab_size": 7, "kv_channels": 16, "multi_query_group_num": 2, "x": -Infinity}`)
	f.Fuzz(func(t *testing.T, text string) {
		m, _, notes, err := FromCheckpoint([]byte(text), "", nil)
		if err == nil && (m.Layers < 1 || m.Hidden < 1 || m.Heads < 1 || m.KVHeads < 1 || m.Vocab < 1 || slices.Contains(notes, "")) {
			t.Errorf("%s: %+v", text, *m)
		}
	})
}
