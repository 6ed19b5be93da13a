package llm

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// The numbers of config.json of models on Hugging Face whose layers have windows, as published.
const (
	phi3Mini = `{"model_type": "phi3", "_name_or_path": "Phi-3-mini-4k-instruct", "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
		"num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 4096, "sliding_window": 2047, "rope_scaling": null,
		"tie_word_embeddings": false, "vocab_size": 32064, "torch_dtype": "bfloat16"}`
	phi3Mini128k = `{"model_type": "phi3", "_name_or_path": "Phi-3-mini-128k-instruct", "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
		"num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
		"sliding_window": 262144, "rope_scaling": {"type": "longrope", "long_factor": [1.08], "short_factor": [1.0]},
		"tie_word_embeddings": false, "vocab_size": 32064}`
	phi3Medium = `{"model_type": "phi3", "hidden_size": 5120, "intermediate_size": 17920, "num_hidden_layers": 40, "num_attention_heads": 40,
		"num_key_value_heads": 10, "max_position_embeddings": 4096, "sliding_window": 2047, "tie_word_embeddings": false, "vocab_size": 32064}`
	gemma2 = `{"model_type": "gemma2", "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
		"hidden_size": 3584, "intermediate_size": 14336, "max_position_embeddings": 8192, "num_attention_heads": 16, "num_hidden_layers": 42,
		"num_key_value_heads": 8, "query_pre_attn_scalar": 256, "sliding_window": 4096, "sliding_window_size": 4096, "vocab_size": 256000}`
	gemma2Large = `{"model_type": "gemma2", "head_dim": 128, "hidden_size": 4608, "intermediate_size": 36864, "max_position_embeddings": 8192,
		"num_attention_heads": 32, "num_hidden_layers": 46, "num_key_value_heads": 16, "sliding_window": 4096, "vocab_size": 256000}`
	gemma3Small = `{"model_type": "gemma3_text", "attn_logit_softcapping": null, "head_dim": 256, "hidden_size": 1152, "intermediate_size": 6912,
		"max_position_embeddings": 32768, "num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1,
		"sliding_window": 512, "sliding_window_pattern": 6, "vocab_size": 262144}`
	gemma3 = `{"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "image_token_index": 262144, "mm_tokens_per_image": 256,
		"text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
		"rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024}, "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27}}`
	gemma3Large = `{"model_type": "gemma3", "text_config": {"head_dim": 128, "hidden_size": 5376, "intermediate_size": 21504, "model_type": "gemma3_text",
		"num_attention_heads": 32, "num_hidden_layers": 62, "num_key_value_heads": 16, "sliding_window": 1024}, "vision_config": {}}`
	gptOSS = `{"model_type": "gpt_oss", "attention_bias": true, "experts_per_token": 4, "head_dim": 64, "hidden_size": 2880, "intermediate_size": 2880,
		"layer_types": [%s], "max_position_embeddings": 131072, "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": %d,
		"num_key_value_heads": 8, "num_local_experts": %d, "quantization_config": {"modules_to_not_convert": ["lm_head"], "quant_method": "mxfp4"},
		"sliding_window": 128, "swiglu_limit": 7.0, "tie_word_embeddings": false, "vocab_size": 201088}`
)

// oss returns the config.json of a gpt-oss, whose layer_types alternate.
func oss(layers, experts int) string {
	types := strings.TrimSuffix(strings.Repeat(`"sliding_attention", "full_attention", `, layers/2), ", ")
	return fmt.Sprintf(gptOSS, types, layers, experts)
}

// TestFamilies: shapes, windows and parameters of models on Hugging Face. Model's parameters, plus the norms, biases and sinks that it
// leaves out, are exactly the checkpoint's. For gemma3 they are those of the text decoder: of the 4B's 4,300,079,472 the image encoder has
// 416,866,032 and the projector 2,950,272.
func TestFamilies(t *testing.T) {
	norms := func(each int64) func(*Model) int64 {
		return func(m *Model) int64 { return (each*int64(m.Layers) + 1) * int64(m.Hidden) }
	}
	withQK := func(m *Model) int64 { return norms(4)(m) + 2*int64(m.Layers)*int64(m.HeadDim) }
	biases := func(m *Model) int64 { // biases of all matrices of the layers, experts included, and sinks
		each := m.QKVWidth() + m.Hidden + m.Heads + m.Experts + m.Experts*(2*m.FFNHidden+m.Hidden)
		return norms(2)(m) + int64(m.Layers)*int64(each)
	}
	for _, c := range []struct {
		text     string
		rest     func(*Model) int64
		total    int64
		windows  LayerKinds
		windowed int
		group    int
	}{
		{phi3Mini, norms(2), 3_821_079_552, LayerKinds{Window: 2047}, 32, 1},
		{phi3Mini128k, norms(2), 3_821_079_552, LayerKinds{}, 0, 1},
		{phi3Medium, norms(2), 13_960_238_080, LayerKinds{Window: 2047}, 40, 4},
		{gemma2, norms(4), 9_241_705_984, LayerKinds{Window: 4096, LayerPattern: "LG"}, 21, 2},
		{gemma2Large, norms(4), 27_227_128_320, LayerKinds{Window: 4096, LayerPattern: "LG"}, 23, 2},
		{gemma3Small, withQK, 999_885_952, LayerKinds{Window: 512, LayerPattern: "LLLLLG"}, 22, 4},
		{gemma3, withQK, 4_300_079_472 - 416_866_032 - 2_950_272, LayerKinds{Window: 1024, LayerPattern: "LLLLLG"}, 29, 2},
		{gemma3Large, withQK, 27_009_346_304, LayerKinds{Window: 1024, LayerPattern: "LLLLLG"}, 52, 2},
		{oss(24, 32), biases, 20_914_757_184, LayerKinds{Window: 128, LayerPattern: "LG"}, 12, 8},
		{oss(36, 128), biases, 116_829_156_672, LayerKinds{Window: 128, LayerPattern: "LG"}, 18, 8},
	} {
		m, err := FromHuggingFace([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		m.TensorParallel = 1
		if errs := input.Faults(m); len(errs) > 0 {
			t.Errorf("%+v: %v", m, errs)
		}
		if got := m.parameterCount() + c.rest(m); got != c.total {
			t.Errorf("%+v: %d parameters, the checkpoint has %d", m, got, c.total)
		}
		if m.LayerKinds != c.windows || m.WindowedLayers() != c.windowed || m.QueryGroup() != c.group {
			t.Errorf("%s: windows %+v in %d layers, groups of %d; want %+v, %d, %d", c.text, m.LayerKinds, m.WindowedLayers(), m.QueryGroup(), c.windows, c.windowed, c.group)
		}
	}
}

// TestGPTOSS: gpt-oss-120b's active parameters (5.13 billion, LM head included) and size of checkpoint (60.8 GiB) are those of its model
// card.
func TestGPTOSS(t *testing.T) {
	m, err := FromHuggingFace([]byte(oss(36, 128)))
	if err != nil {
		t.Fatal(err)
	}
	active := m.ActiveParameters() - int64(m.Vocab)*int64(m.Hidden)
	if math.Abs(float64(active)/5.13e9-1) > 0.001 {
		t.Errorf("%d active parameters", active)
	}
	const attention, router, expert = 2880*80*64 + 4096*2880, 2880 * 128, 3 * 2880 * 2880
	want := units.Bytes(36*(2*(attention+router)+128*expert*17/32) + 2*2*201088*2880)
	if got := m.WeightBytes(); got != want || math.Abs(float64(got)/(60.8*float64(units.GiB))-1) > 0.003 {
		t.Errorf("%d bytes of weights, want %d", got, want)
	}
	// With vLLM's Marlin kernels (65.97 GiB by its log, of which 0.08 are biases) the sides are 3,072 and 2,944, on two GPUs 1,536 each.
	for gpus, ffn := range map[int]int64{1: 2944, 2: 3072, 4: 3072} {
		loaded := *m
		loaded.TensorParallel, loaded.ExpertTileHidden, loaded.ExpertTileFFN = gpus, 256, 128
		if got := loaded.WeightBytes(); got != want+units.Bytes(36*128*3*(3072*ffn-2880*2880)*17/32) {
			t.Errorf("%d bytes as loaded by %d GPUs", got, gpus)
		}
		if got := float64(loaded.WeightBytes()) / float64(units.GiB); gpus == 1 && math.Abs(got/65.97-1) > 0.004 {
			t.Errorf("%.2f GiB as loaded", got)
		}
		if loaded.ExpertBits = 16; loaded.padded() {
			t.Error("experts of 16 bits are padded")
		}
	}
	// With the Triton kernels of vLLM 0.14 on an H100 (64.38 GiB by its log: github.com/vllm-project/vllm/issues/33155) the sides stay as
	// they are, and the scales of 32 weights each are stored twice. Biases in single precision and the padding of the reordered scales,
	// 0.27 GiB together, are not counted.
	triton := *m
	triton.TensorParallel, triton.ExpertTileFFN, triton.ExpertScaleCopies = 1, 64, 1
	if got := triton.WeightBytes(); got != want+units.Bytes(36*128*expert/32) || math.Abs(float64(got)/float64(units.GiB)/64.38-1) > 0.006 {
		t.Errorf("%.2f GiB as Triton's kernels load it", float64(got)/float64(units.GiB))
	}
	if triton.ActiveLayerWeightBytes() != m.ActiveLayerWeightBytes() || triton.LayerWeightBytes() != m.LayerWeightBytes() {
		t.Error("kernels read a copy of scales that they do not know")
	}
	triton.ExpertBits = 16
	if got := triton.WeightBytes(); got != units.Bytes(2*m.parameterCount()) {
		t.Errorf("%d bytes in 16 bits, of which nothing has scales", got)
	}
	if got, want := m.ActiveLayerWeightBytes(), units.Bytes(2*(attention+router)+4*expert*17/32); got != want {
		t.Errorf("%d bytes of a layer for a token, want %d", got, want)
	}
	for tokens, want := range map[int]units.Bytes{1: 36 * 2048, 128: 36 * 128 * 2048, 129: (18*128 + 18*129) * 2048, 8192: (18*128 + 18*8192) * 2048} {
		if got := m.KVBytes(tokens); got != want {
			t.Errorf("%d bytes of keys and values of %d tokens, want %d", got, tokens, want)
		}
	}
	m.ExpertBits = 0
	if got := m.WeightBytes(); got != units.Bytes(2*m.parameterCount()) {
		t.Errorf("%d bytes in 16 bits", got)
	}
}

// TestWindowKeys: the keys of config.json that describe windows, and which of their values are refused.
func TestWindowKeys(t *testing.T) {
	shape := func(kind, more string) string {
		return `{"model_type": "` + kind + `", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 4, "vocab_size": 9, "intermediate_size": 8, ` +
			`"num_local_experts": 4, "num_experts_per_tok": 2, "num_experts": 4, "moe_intermediate_size": 8, "sliding_window": 7` + more + `}`
	}
	const f, s = `"full_attention"`, `"sliding_attention"`
	types := func(list ...string) string { return `, "layer_types": [` + strings.Join(list, ", ") + `]` }
	for _, c := range []struct {
		text string
		want LayerKinds
		err  string
	}{
		{shape("mistral", `, "num_local_experts": 0, "num_experts": 0`), LayerKinds{Window: 7}, ""},
		{shape("gpt_oss", `, "num_experts": 0`), LayerKinds{Window: 7, LayerPattern: "LG"}, ""},
		{shape("gpt_oss", `, "num_experts": 0`+types(s, s, f, s)), LayerKinds{Window: 7, LayerPattern: "LLG"}, ""},
		{shape("gpt_oss", `, "num_experts": 0`+types(s, s, s, s)), LayerKinds{Window: 7}, ""},
		{shape("gpt_oss", `, "num_experts": 0`+types(f, f, f, f)), LayerKinds{}, ""},
		{shape("gpt_oss", `, "num_experts": 0, "max_position_embeddings": 7`), LayerKinds{}, ""},
		{shape("gpt_oss", `, "num_experts": 0, "max_position_embeddings": 8`), LayerKinds{Window: 7, LayerPattern: "LG"}, ""},
		{shape("gpt_oss", `, "num_experts": 0, "sliding_window_pattern": 3`), LayerKinds{Window: 7, LayerPattern: "LLG"}, ""},
		{shape("gpt_oss", `, "num_experts": 0, "sliding_window_pattern": 1`), LayerKinds{}, ""},
		{shape("afmoe", `, "num_local_experts": 0, "global_attn_every_n_layers": 3`), LayerKinds{Window: 7, LayerPattern: "LLG"}, ""},
		{shape("gpt_oss", `, "num_experts": 0`+types(s, f, f, s)), LayerKinds{Window: 7, LayerPattern: "LGG"}, ""},
		{shape("gpt_oss", `, "num_experts": 0`+types(f, s, f, s)), LayerKinds{Window: 7, LayerPattern: "GL"}, ""},
		{shape("gpt_oss", `, "num_experts": 0`+types(f, s, s, f)), LayerKinds{Window: 7, LayerPattern: "GLL"}, ""},
		{shape("gpt_oss", `, "num_experts": 0`+types(f, f, f, s)), LayerKinds{Window: 7, LayerPattern: "GGGL"}, ""},
		{shape("gpt_oss", `, "num_experts": 0`+types(s, s, s, f)), LayerKinds{Window: 7, LayerPattern: "LLLG"}, ""},
		{shape("gpt_oss", `, "num_experts": 0, "sliding_window_pattern": "GL"`), LayerKinds{Window: 7, LayerPattern: "GL"}, ""},
		{shape("gpt_oss", `, "num_experts": 0, "sliding_window_pattern": "LLG"`), LayerKinds{Window: 7, LayerPattern: "LLG"}, ""},
		{shape("gpt_oss", `, "num_experts": 0, "sliding_window_pattern": "LX"`), LayerKinds{}, `sliding_window_pattern = "LX": expected a whole number`},
		{shape("gpt_oss", `, "num_experts": 0, "hybrid_layer_pattern": [0, 1, 1, 0]`), LayerKinds{Window: 7, LayerPattern: "GLL"}, ""},
		{shape("gpt_oss", `, "num_experts": 0, "hybrid_layer_pattern": [0, 1, 2, 0]`), LayerKinds{}, `hybrid_layer_pattern = [0,1,2,0]: expected 0 or 1 for each layer, not 2`},
		{shape("gpt_oss", `, "num_experts": 0`+types(s, f)), LayerKinds{}, `layer_types = ["sliding_attention","full_attention"]: expected num_hidden_layers = 4 entries, not 2`},
		{shape("gpt_oss", `, "num_experts": 0`+types(s, f, s, `"chunked_attention"`)), LayerKinds{}, `layer_types = `},
		{shape("gpt_oss", `, "num_experts": 0, "quantization_config": {"quant_method": "hqq"}`), LayerKinds{}, `quantization_config = `},
		{shape("gpt_oss", `, "num_experts": 0, "sliding_window": 0.5`), LayerKinds{}, `sliding_window = 0.5: expected a whole number`},
		{shape("qwen3_moe", `, "num_local_experts": 0`), LayerKinds{}, ""},
		{shape("qwen3_moe", `, "num_local_experts": 0, "use_sliding_window": true`), LayerKinds{Window: 7}, ""},
		{shape("qwen3_moe", `, "num_local_experts": 0, "use_sliding_window": true, "max_window_layers": 4`), LayerKinds{}, ""},
		{shape("qwen3_moe", `, "num_local_experts": 0, "use_sliding_window": true, "max_window_layers": 0`), LayerKinds{Window: 7}, ""},
		{shape("qwen3_moe", `, "num_local_experts": 0, "use_sliding_window": true, "max_window_layers": 2`), LayerKinds{Window: 7, LayerPattern: "GGLL"}, ""},
		{shape("qwen3_moe", `, "num_local_experts": 0, "use_sliding_window": true, "max_window_layers": -2`), LayerKinds{}, `max_window_layers = -2: expected a whole number`},
		{strings.Replace(shape("deepseek_v3", ""), `"num_experts": 4,`, `"kv_lora_rank": 512,`, 1), LayerKinds{}, `num_local_experts = 4: expected the experts of this model_type in the key n_routed_experts`},
	} {
		m, err := FromHuggingFace([]byte(c.text))
		var bad *input.Error
		switch {
		case c.err == "" && (err != nil || m.LayerKinds != c.want):
			t.Errorf("%s:\ngot  %+v, %v\nwant %+v", c.text, m, err, c.want)
		case c.err != "" && (!errors.As(err, &bad) || !strings.HasPrefix(err.Error(), c.err)):
			t.Errorf("%s:\ngot  %v\nwant %s", c.text, err, c.err)
		}
	}
}

// TestWindowPieces: the pieces of a prompt have all its tokens, and as many pairs of tokens as the mask, to half a token of each.
func TestWindowPieces(t *testing.T) {
	for n := 1; n < 9; n++ {
		for chunk := 1; chunk < 30; chunk++ {
			for finished := range 12 {
				pairs, tokens, got := 0, 0, 0
				for i := range chunk {
					pairs += min(n, finished+i+1)
				}
				for _, p := range WindowPieces(n, chunk, finished) {
					tokens += p.Count * p.Tokens
					got += p.Count * (p.Tokens*p.Behind + p.Tokens*(p.Tokens+1)/2)
				}
				if tokens != chunk || 2*max(got-pairs, pairs-got) > chunk {
					t.Errorf("window %d, %d tokens after %d: pieces have %d tokens and %d pairs, want %d pairs", n, chunk, finished, tokens, got, pairs)
				}
			}
		}
	}
}
