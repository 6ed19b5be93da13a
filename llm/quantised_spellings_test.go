package llm

import (
	"strings"
	"testing"
)

const smallShape = `"model_type": "llama", "hidden_size": 64, "intermediate_size": 100, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 10`

// TestSpellings: one kind of checkpoint is read alike under all its spellings.
func TestSpellings(t *testing.T) {
	const (
		fp8     = `"weights": {"num_bits": 8, "type": "float"}, "input_activations": {"num_bits": 8, "type": "float"}`
		linear  = `"config_groups": {"group_0": {"targets": ["Linear"], ` + fp8 + `}}`
		skipped = `["lm_head", "model.layers.0.self_attn"]`
	)
	eight, four := Widths{WeightBits: 8, ActivationBits: 8}, Widths{WeightBits: 4, WeightBlock: 51}
	kv := eight
	kv.KVFormat = FP8
	part := eight
	part.KeptAttention = .25
	for config, want := range map[string]Widths{
		`"quantization_config": {"quant_method": "FP8"}`:                                                                                                           eight,
		`"quantization_config": {"quant_method": "fp8", "ignored_layers": ` + skipped + `}`:                                                                        part,
		`"quantization_config": {"quant_method": "fp8", "ignored_layers": ["lm_head"], "kv_cache_scheme": "static"}`:                                               kv,
		`"compression_config": {"quant_method": "compressed-tensors", ` + linear + `, "ignore": ` + skipped + `}`:                                                  part,
		`"compression_config": {"quant_method": "sparseml", ` + linear + `}, "quantization_config": null`:                                                          eight,
		`"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme": {"num_bits": 8, "type": "float"}}`:                  {KVFormat: FP8},
		`"quantization_config": {"quant_method": "modelopt", "quant_algo": null, "kv_cache_quant_algo": "FP8"}`:                                                    {KVFormat: FP8},
		`"quantization_config": {"quant_method": "modelopt", "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}`: kv,
		`"quantization_config": {"quant_method": "modelopt_fp4", "quant_algo": "NVFP4"}`:                                                                           {WeightBits: 4, ActivationBits: 8, WeightBlock: 16},
		`"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8_PB_WO"}`:                                                                           eight,
		`"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"}`:                                                           eight,
		`"quantization_config": {"quant_method": "gptq_marlin", "bits": 4, "group_size": 128}`:                                                                     four,
		`"quantization_config": {"quant_method": "awq", "w_bit": 4, "q_group_size": 128, "zero_point": true, "version": "GEMM"}`:                                   four,
	} {
		m, err := FromHuggingFace([]byte(`{` + smallShape + `, ` + config + `}`))
		if err != nil || m.Widths != want {
			t.Errorf("%s: %+v, %v; want %+v", config, m, err, want)
		}
	}
}

// TestFromCheckpoint: a file of ModelOpt, AutoGPTQ or AutoAWQ beside config.json counts if config.json has no quantisation.
func TestFromCheckpoint(t *testing.T) {
	eight, four := Widths{WeightBits: 8, ActivationBits: 8}, Widths{WeightBits: 4, WeightBlock: 51}
	for _, c := range []struct {
		config, name, beside string
		want                 Widths
		words                string
	}{
		{"", "hf_quant_config.json", `{"quantization": {"quant_algo": "FP8"}}`, eight, "modelopt FP8; in 16 bits: embeddings, LM head"},
		{"", "hf_quant_config.json", `{"quantization": {"quant_algo": null, "kv_cache_quant_algo": "FP8"}}`, Widths{KVFormat: FP8}, "modelopt: keys and values alone"},
		{"", "hf_quant_config.json", `{"quantization": {"quant_algo": null}}`, Widths{}, ""},
		{"", "hf_quant_config.json", `{}`, Widths{}, ""},
		{"", "quantize_config.json", `{"bits": 4, "group_size": 128, "damp_percent": 0.01, "desc_act": false, "sym": true, "true_sequential": true}`, four, "gptq; in 16 bits: embeddings, LM head"},
		{"", "quant_config.json", `{"zero_point": true, "q_group_size": 128, "w_bit": 4, "version": "GEMM"}`, four, "awq; in 16 bits: embeddings, LM head"},
		{`, "quantization_config": {"quant_method": "fp8"}`, "quantize_config.json", `{"bits": 4}`, eight, "fp8; in 16 bits: embeddings, LM head"},
	} {
		m, words, _, err := FromCheckpoint([]byte(`{`+smallShape+c.config+`}`), c.name, []byte(c.beside))
		if err != nil || m.Widths != c.want || words != c.words {
			t.Errorf("%s, %s: %+v, %q, %v", c.name, c.beside, m, words, err)
		}
	}
	for _, beside := range []string{`{`, `{"quantization": {"quant_algo": "MIXED_PRECISION"}}`} {
		if _, _, _, err := FromCheckpoint([]byte(`{`+smallShape+`}`), "hf_quant_config.json", []byte(beside)); err == nil || !strings.Contains(err.Error(), "hf_quant_config.json") {
			t.Errorf("%s: %v", beside, err)
		}
	}
}
