package llm

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// shape returns the keys that most config.json files have; kv = 0 leaves out num_key_value_heads.
func shape(kind string, hidden, ffn, layers, heads, kv, vocab int, more string) string {
	if kv > 0 {
		more = fmt.Sprintf(`, "num_key_value_heads": %d%s`, kv, more)
	}
	return fmt.Sprintf(`{"model_type": %q, "hidden_size": %d, "intermediate_size": %d, "num_hidden_layers": %d, "num_attention_heads": %d, "vocab_size": %d%s}`,
		kind, hidden, ffn, layers, heads, vocab, more)
}

// listed repeats a value for each layer.
func listed(value string, layers int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(value+", ", layers), ", ") + "]"
}

// TestKnownFamilies: models of widely served families are read without a note. Billions of parameters are those of the checkpoints. What a
// token stores in a layer without a window is computed by hand, with 2 bytes an element.
func TestKnownFamilies(t *testing.T) {
	const (
		tie, mamba = `, "tie_word_embeddings": true`, `, "mamba_d_state": 256, "mamba_n_heads": 128, "num_local_experts": 0, "num_experts_per_tok": 0`
		latent     = `, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "n_shared_experts": 1, "first_k_dense_replace": 1`
		falcon     = `, "new_decoder_architecture": true, "multi_query": true, "num_kv_heads": 8`
		hunyuan    = `, "num_experts": 64, "moe_topk": %s, "num_shared_expert": %s, "moe_intermediate_size": %s, "use_cla": false, "cla_share_factor": 2, "attention_head_dim": 128`
		ernie      = `, "moe_num_experts": 64, "moe_k": 6, "moe_intermediate_size": 1536, "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_layer_interval": 1`
	)
	for _, c := range []struct {
		name, text string
		billions   float64
		tokenLayer units.Bytes
		windowed   int
	}{
		// 71 query heads and one KV head of 64 store 2 · 64 elements; eight KV heads store 2 · 8 · 64 in the 40B and the 180B, 2 · 8 · 128
		// in the 11B.
		{"Falcon-7B", shape("falcon", 4544, 0, 32, 71, 0, 65024, `, "ffn_hidden_size": null, "new_decoder_architecture": false, "multi_query": true`), 6.922, 256, 0},
		{"Falcon-40B", shape("falcon", 8192, 0, 60, 128, 0, 65024, falcon), 41.303, 2048, 0},
		{"Falcon-180B", shape("falcon", 14848, 0, 80, 232, 0, 65024, falcon), 178.84, 2048, 0},
		{"Falcon-11B", shape("falcon", 4096, 0, 60, 32, 0, 65024, falcon+`, "ffn_hidden_size": 16384, "tie_word_embeddings": false`), 11.103, 4096, 0},
		{"Falcon-RW-1B", shape("falcon", 2048, 0, 24, 32, 0, 50304, `, "multi_query": false`), 1.312, 8192, 0},
		{"MPT-7B", `{"model_type": "mpt", "d_model": 4096, "n_heads": 32, "n_layers": 32, "expansion_ratio": 4, "vocab_size": 50432, "attn_config": {"alibi": true}}`, 6.649, 16384, 0},
		{"DBRX", `{"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "vocab_size": 100352, "attn_config": {"kv_n_heads": 8}, "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}}`, 131.6, 4096, 0},
		// 20 heads do not divide 2,048; a latent of 512 and a rotated key of 64.
		{"GLM-4.7-Flash", shape("glm4_moe_lite", 2048, 10240, 47, 20, 20, 154880, latent+`, "q_lora_rank": 768, "qk_nope_head_dim": 192, "v_head_dim": 256, "moe_intermediate_size": 1536, "n_routed_experts": 64, "num_experts_per_tok": 4`), 29.94, 1152, 0},
		{"MiniCPM3-4B", shape("minicpm3", 2560, 6400, 62, 40, 40, 73448, `, "kv_lora_rank": 256, "qk_rope_head_dim": 32, "q_lora_rank": 768, "qk_nope_head_dim": 64, "v_head_dim": 64`), 4.074, 576, 0},
		{"Hunyuan-A13B", shape("hunyuan_v1_moe", 4096, 3072, 32, 32, 8, 128167, fmt.Sprintf(hunyuan, listed("8", 32), listed("1", 32), listed("3072", 32))+tie), 80.39, 4096, 0},
		{"Hunyuan-7B", shape("hunyuan_v1_dense", 4096, 14336, 32, 32, 8, 128256, `, "num_experts": 1, "cla_share_factor": 2, "use_cla": false`+tie), 7.505, 4096, 0},
		// All its layers have attention, in spite of its keys of state-space models.
		{"Granite-4.0-Micro", shape("granitemoehybrid", 2560, 512, 40, 40, 8, 100352, `, "shared_intermediate_size": 8192, "layer_types": `+listed(`"attention"`, 40)+mamba+tie), 3.40, 2048, 0},
		{"Granite-3.0-3B-A800M", shape("granitemoe", 1536, 512, 32, 24, 8, 49155, `, "num_local_experts": 40, "num_experts_per_tok": 8`+tie), 3.30, 2048, 0},
		{"ERNIE-4.5-21B-A3B", shape("ernie4_5_moe", 2560, 12288, 28, 20, 4, 103424, ernie+tie), 21.83, 2048, 0},
		{"GLM-4-32B", shape("glm4", 6144, 23040, 61, 48, 2, 151552, `, "head_dim": 128`), 32.57, 1024, 0},
		{"Seed-OSS-36B", shape("seed_oss", 5120, 27648, 64, 80, 8, 155136, `, "head_dim": 128`), 36.151, 4096, 0},
		{"Command-A", shape("cohere2", 12288, 36864, 64, 96, 8, 256000, `, "head_dim": 128, "sliding_window": 4096, "sliding_window_pattern": 4`), 111.058, 4096, 48},
		{"OLMo-3-7B", shape("olmo3", 4096, 11008, 32, 32, 32, 100278, `, "sliding_window": 4096, "layer_types": `+listed(`"sliding_attention", "sliding_attention", "sliding_attention", "full_attention"`, 8)), 7.298, 16384, 24},
		{"dots.llm1", shape("dots1", 4096, 10944, 62, 32, 32, 152064, `, "moe_intermediate_size": 1408, "n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1`), 142.77, 16384, 0},
		{"Ling-flash-2.0", shape("bailing_moe_v2", 4096, 9216, 32, 32, 4, 157184, `, "head_dim": 128, "moe_intermediate_size": 1024, "num_experts": 256, "num_experts_per_tok": 8, "num_shared_experts": 1, "first_k_dense_replace": 1`), 102.9, 2048, 0},
		{"Solar-Open-100B", shape("solar_open", 4096, 10240, 48, 64, 8, 196608, `, "head_dim": 128, "moe_intermediate_size": 1280, "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 8`), 102.6, 4096, 0},
		{"Phi-3.5-MoE", shape("phimoe", 4096, 6400, 32, 32, 8, 32064, `, "num_local_experts": 16, "num_experts_per_tok": 2, "sliding_window": 131072, "max_position_embeddings": 131072`), 41.873, 4096, 0},
		{"BLOOM", `{"model_type": "bloom", "n_embed": 14336, "n_layer": 70, "num_attention_heads": 112, "vocab_size": 250880, "seq_length": 2048}`, 176.247, 57344, 0},
		{"BLOOM-560M", `{"model_type": "bloom", "hidden_size": 1024, "n_layer": 24, "n_head": 16, "vocab_size": 250880}`, 0.5592, 4096, 0},
		{"GPT-J-6B", `{"model_type": "gpt_j", "n_embd": 4096, "n_layer": 28, "n_head": 16, "n_inner": null, "vocab_size": 50400, "n_positions": 2048}`, 6.0509, 16384, 0},
		{"CodeGen-2B", `{"model_type": "codegen", "n_embd": 2560, "n_layer": 32, "n_head": 32, "n_inner": null, "vocab_size": 51200, "n_positions": 2048}`, 2.7797, 10240, 0},
		{"GPT-Neo-2.7B", `{"model_type": "gpt_neo", "hidden_size": 2560, "num_layers": 32, "num_heads": 20, "intermediate_size": null, "vocab_size": 50257, "max_position_embeddings": 2048, "window_size": 256, "attention_types": [[["global", "local"], 16]]}`, 2.6513, 10240, 16},
		{"XGLM-7.5B", `{"model_type": "xglm", "d_model": 4096, "num_layers": 32, "attention_heads": 32, "ffn_dim": 16384, "vocab_size": 256008}`, 7.4924, 16384, 0},
		{"Yi-34B", shape("llama", 7168, 20480, 60, 56, 8, 64000, ""), 34.389, 4096, 0},
		{"StableLM-2-12B", shape("stablelm", 5120, 13824, 40, 32, 8, 100352, ""), 12.143, 5120, 0},
		{"Nemotron-4-340B", shape("nemotron", 18432, 73728, 96, 96, 8, 256000, ""), 341.0, 6144, 0},
		{"Phi-1.5", shape("phi", 2048, 8192, 24, 32, 0, 51200, ""), 1.4183, 8192, 0},
		{"OLMoE-1B-7B", shape("olmoe", 2048, 1024, 16, 16, 16, 50304, `, "num_experts": 64, "num_experts_per_tok": 8`), 6.919, 8192, 0},
		{"DeepSeek-V2-Lite", shape("deepseek_v2", 2048, 10944, 27, 16, 16, 102400, `, "kv_lora_rank": 512, "q_lora_rank": null, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1`), 15.706, 1152, 0},
		{"Qwen2-57B-A14B", shape("qwen2_moe", 3584, 18944, 28, 28, 4, 151936, `, "num_experts": 64, "num_experts_per_tok": 8, "moe_intermediate_size": 2560, "shared_expert_intermediate_size": 20480, "decoder_sparse_step": 1`), 57.41, 2048, 0},
		{"Qwen2.5-VL-7B", shape("qwen2_5_vl", 3584, 18944, 28, 28, 4, 152064, `, "sliding_window": 32768, "use_sliding_window": false, "vision_config": {"hidden_size": 1280}`), 7.615, 2048, 0},
	} {
		m, _, notes, err := FromCheckpoint([]byte(c.text), "", nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		m.Name, m.TensorParallel = c.name, 1
		if faults := input.Faults(m); len(faults) > 0 || len(notes) > 0 {
			t.Errorf("%s: %v, notes %q", c.name, faults, notes)
		}
		if got := float64(m.Parameters()) / 1e9; math.Abs(got/c.billions-1) > 0.005 {
			t.Errorf("%s: %.3f billion parameters, want %v", c.name, got, c.billions)
		}
		if got := m.KVBytesPerTokenLayer(); got != c.tokenLayer || m.WindowedLayers() != c.windowed {
			t.Errorf("%s: %d bytes of a token and layer, %d layers with a window; want %d, %d", c.name, got, m.WindowedLayers(), c.tokenLayer, c.windowed)
		}
	}
}

// TestListsOfLayers: a list of equal values, one for each layer, is read as that value.
func TestListsOfLayers(t *testing.T) {
	for list, want := range map[string]string{
		"[2, 2, 2]":    "",
		"[2, 2]":       "num_experts_per_tok = [2,2]: expected a whole number, or 3 of them, one for each layer, not 2",
		"[2, 2, 1]":    "num_experts_per_tok = [2,2,1]: expected a whole number, 1 to 16777216, the same for all layers, not 2 and 1: layers that differ in it are not modelled",
		"[{}, {}, {}]": "num_experts_per_tok = [{},{},{}]: expected a whole number",
		"[]":           "num_experts_per_tok = []: expected a whole number",
	} {
		_, err := FromHuggingFace([]byte(shape("new", 64, 8, 3, 4, 0, 9, `, "num_experts": 4, "num_experts_per_tok": `+list)))
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s:\ngot  %v\nwant %s", list, err, want)
		}
	}
}

// TestLeftOutKeys: text decoders of multimodal models leave out keys that have Transformers' defaults; a note names these. A null, or a
// file of a text model alone, gets no default.
func TestLeftOutKeys(t *testing.T) {
	for _, c := range []struct {
		name, text string
		billions   float64
		kvHeads    int
		window     int
		note       string
	}{
		{"LLaVA-1.5-7B", `{"model_type": "llava", "vision_config": {"hidden_size": 1024}, "text_config": {"_name_or_path": "lmsys/vicuna-7b-v1.5", "model_type": "llama", "max_position_embeddings": 4096, "vocab_size": 32064}}`,
			6.739, 32, 0, "the file leaves out hidden_size = 4096, intermediate_size = 11008, num_attention_heads = 32, num_hidden_layers = 32: these are the defaults of Transformers for llama"},
		{"LLaVA-1.5-13B", `{"model_type": "llava", "text_config": {"model_type": "llama", "hidden_size": 5120, "intermediate_size": 13824, "num_attention_heads": 40, "num_hidden_layers": 40, "num_key_value_heads": 40, "max_position_embeddings": 4096, "vocab_size": 32064}}`,
			13.016, 40, 0, ""},
		{"Pixtral-12B", `{"model_type": "llava", "text_config": {"model_type": "mistral", "hidden_size": 5120, "head_dim": 128, "intermediate_size": 14336, "num_hidden_layers": 40, "max_position_embeddings": 1024000, "sliding_window": null, "vocab_size": 131072}}`,
			12.248, 8, 0, "leaves out num_attention_heads = 32, num_key_value_heads = 8: these are the defaults of Transformers for mistral"},
		{"LLaVA-NeXT-Mistral", `{"model_type": "llava_next", "text_config": {"model_type": "mistral", "vocab_size": 32064, "max_position_embeddings": 32768, "sliding_window": null}}`, 7.242, 8, 0, "num_hidden_layers = 32"},
		{"PaliGemma-2-3B", `{"model_type": "paligemma", "text_config": {"model_type": "gemma2", "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "vocab_size": 257216}}`,
			2.617, 4, 4096, "head_dim = 256, max_position_embeddings = 8192, num_attention_heads = 8, num_key_value_heads = 4, sliding_window = 4096"},
	} {
		m, _, notes, err := FromCheckpoint([]byte(c.text), "", nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if m.Name = c.name; math.Abs(float64(m.Parameters())/1e9/c.billions-1) > 0.005 || m.KVHeads != c.kvHeads || m.Window != c.window {
			t.Errorf("%s: %.3f billion parameters, want %v; %d KV heads, window %d", c.name, float64(m.Parameters())/1e9, c.billions, m.KVHeads, m.Window)
		}
		if said := strings.Join(notes, "\n"); strings.Contains(said, "leaves out") != (c.note != "") || !strings.Contains(said, c.note) {
			t.Errorf("%s: notes %q, want %q", c.name, notes, c.note)
		}
	}
	for text, want := range map[string]string{
		`{"model_type": "llama", "vocab_size": 32064}`:                                               `num_hidden_layers: expected this key of model_type "llama", which is missing`,
		`{"model_type": "llava", "text_config": {"model_type": "llama", "num_hidden_layers": null}}`: `num_hidden_layers: expected this key`,
		`{"model_type": "llava", "text_config": {"model_type": "phi3"}}`:                             `num_hidden_layers: expected this key of model_type "phi3"`,
		`{"model_type": "bloom", "n_layer": 4}`:                                                      `hidden_size: expected this key of model_type "bloom"`,
		`{"model_type": "gpt_neo", "hidden_size": 64, "num_layers": 3, "num_heads": 4, "vocab_size": 9, "max_position_embeddings": 9, "window_size": 256, "attention_types": [[["global", "local"], 1]]}`: `layer_types = `,
	} {
		if _, err := FromHuggingFace([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
}
