package llm

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/units"
)

// TestQuantised: checkpoints take the memory that their parameters and bits come to, by hand. Of Llama-3.1-70B layers have 80·8192·(8192·2+1024·2)
// parameters of attention and 80·3·8192·28672 of the networks, and 2·128256·8192 of embeddings.
func TestQuantised(t *testing.T) {
	const (
		llama70  = `"_name_or_path": "meta/Llama-3.1-70B", "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256`
		llama405 = `"model_type": "llama", "hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126, "num_attention_heads": 128, "num_key_value_heads": 16, "vocab_size": 128256`
		qwen32   = `"model_type": "qwen3", "hidden_size": 5120, "intermediate_size": 25600, "num_hidden_layers": 64, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936`
		a70, n70 = 80. * 8192 * (2*8192 + 2*1024), 80. * 3 * 8192 * 28672
		e70      = 2. * 128256 * 8192
		a405     = 126. * 16384 * (2*16384 + 2*2048)
		n405     = 126. * 3 * 16384 * 53248
		e405     = 2. * 128256 * 16384
	)
	var attention []string // fbgemm's list, with the networks of the first and the last layer
	for i := range 126 {
		attention = append(attention, fmt.Sprintf(`"model.layers.%d.self_attn.q_proj"`, i))
	}
	attention = append(attention, `"model.layers.0.mlp.up_proj"`, `"model.layers.125.mlp.up_proj"`)
	for _, c := range []struct {
		shape, quant string
		bytes        float64
		widths       Widths
		name         string
	}{
		{llama70, `{"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}`, a70 + n70 + 2*e70,
			Widths{WeightBits: 8, ActivationBits: 8, KVFormat: FP8}, "Llama-3.1-70B-fp8"}, // 67.7 GiB
		{llama70, `{"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}`, (a70+n70)*4.5/8 + 2*e70,
			Widths{WeightBits: 4, ActivationBits: 8, WeightBlock: 16}, "Llama-3.1-70B-4bit"},
		{llama70, `{"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": true}`, (a70+n70)*(4./8+1./51) + 2*e70,
			Widths{WeightBits: 4, WeightBlock: 51}, "Llama-3.1-70B-4bit"},
		{llama70, `{"quant_method": "gptq", "bits": 8, "group_size": -1}`, a70 + n70 + 2*e70, Widths{WeightBits: 8}, "Llama-3.1-70B-int8"},
		{llama70, `{"quant_method": "compressed-tensors", "ignore": ["lm_head"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"}, "input_activations": {"num_bits": 8, "type": "float"}}}}`,
			a70 + n70 + 2*e70, Widths{WeightBits: 8, ActivationBits: 8}, "Llama-3.1-70B-fp8"},
		{llama70, `{"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float"}, "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 128}, "input_activations": null}}}`,
			(a70+n70)*(4./8+1./64) + 2*e70, Widths{WeightBits: 4, WeightBlock: 64, KVFormat: FP8}, "Llama-3.1-70B-4bit"},
		{llama405, `{"quant_method": "fbgemm_fp8", "modules_to_not_convert": [` + strings.Join(attention, ",") + `]}`, 2*a405 + n405 + 2*e405,
			Widths{WeightBits: 8, ActivationBits: 8, AttentionBits: 16}, ""}, // 457 GiB: the two layers that count as the others are 5 GiB
		{qwen32, `{"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head", "model.layers.0.input_layernorm"]}`, 34328276992,
			Widths{WeightBits: 8, ActivationBits: 8}, ""}, // 32.0 GiB
	} {
		m, err := FromHuggingFace([]byte(`{` + c.shape + `, "quantization_config": ` + c.quant + `}`))
		if err != nil {
			t.Errorf("%s: %v", c.quant, err)
			continue
		}
		m.TensorParallel = 1
		if got := float64(m.WeightBytes()); math.Abs(got/c.bytes-1) > 1e-3 || m.Widths != c.widths || m.Name != c.name {
			t.Errorf("%s: %q, %.2f GiB, %+v; want %q, %.2f, %+v", c.quant, m.Name, got/float64(units.GiB), m.Widths, c.name, c.bytes/float64(units.GiB), c.widths)
		}
	}
}

// TestQuantisedRefuses: what the keys of a model cannot say ends with the keys to set.
func TestQuantisedRefuses(t *testing.T) {
	const shape = `"model_type": "llama", "hidden_size": 64, "intermediate_size": 100, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 10`
	for _, quant := range []string{
		`{}`, `7`, `{"quant_method": "bitsandbytes"}`, `{"quant_method": "gptq", "bits": 3}`, `{"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}`,
		`{"quant_method": "fp8", "modules_to_not_convert": ["model.layers.1.mlp.up_proj"]}`, `{"quant_method": "fp8", "modules_to_not_convert": ["unheard_of"]}`,
		`{"quant_method": "fp8", "modules_to_not_convert": ["self_attn", "mlp"]}`, `{"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "NVFP4"}`,
	} {
		_, err := FromHuggingFace([]byte(`{` + shape + `, "quantization_config": ` + quant + `}`))
		if err == nil || !strings.HasSuffix(err.Error(), "model.weight_block and model.kv_format") {
			t.Errorf("%s: %v", quant, err)
		}
	}
}

// TestFromCheckpoint: ModelOpt's file beside config.json counts where that says nothing.
func TestFromCheckpoint(t *testing.T) {
	const shape = `{"model_type": "llama", "hidden_size": 64, "intermediate_size": 100, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 10}`
	for beside, want := range map[string]int{`{"quantization": {"quant_algo": "FP8"}}`: 8, `{"quantization": {"quant_algo": null}}`: 0, `{}`: 0} {
		if m, err := FromCheckpoint([]byte(shape), []byte(beside)); err != nil || m.WeightBits != want {
			t.Errorf("%s: %+v, %v", beside, m, err)
		}
	}
	if _, err := FromCheckpoint([]byte(shape), []byte(`{`)); err == nil || !strings.Contains(err.Error(), "hf_quant_config.json") {
		t.Error(err)
	}
}
