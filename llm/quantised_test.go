package llm

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/units"
)

// TestQuantised: memory of checkpoints from their parameters and bits, by hand. Llama-3.1-70B has 80·8192·(8192·2+1024·2) parameters of
// attention, 80·3·8192·28672 of feed-forward networks and 2·128256·8192 of embeddings.
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
	// Meta's list for fbgemm: the first and the last layer, the others' attention, and the LM head.
	kept := []string{`"model.layers.0"`, `"model.layers.125"`, `"lm_head"`}
	for i := 1; i < 125; i++ {
		kept = append(kept, fmt.Sprintf(`"model.layers.%d.self_attn"`, i))
	}
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
		{llama405, `{"quant_method": "fbgemm_fp8", "modules_to_not_convert": [` + strings.Join(kept, ",") + `]}`, 2*a405 + n405*128/126 + 2*e405,
			Widths{WeightBits: 8, ActivationBits: 8, AttentionBits: 16, KeptNetwork: 2. / 126}, ""}, // 461.6 GiB with the 16 KV heads that the files of July 2024 have; vLLM logs 57.75 on each of eight GPUs
		{qwen32, `{"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head", "model.layers.0.input_layernorm"]}`, 34328276992 + 31205621760./4096,
			Widths{WeightBits: 8, ActivationBits: 8, WeightBlock: 4096}, ""}, // 32.0 GiB
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

// TestQuantisedRefuses: if no keys of [model] can express a format, the error ends with the keys to set.
func TestQuantisedRefuses(t *testing.T) {
	const shape = `"model_type": "llama", "hidden_size": 64, "intermediate_size": 100, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 10`
	for _, quant := range []string{
		`{"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*down_proj": {"bits": 8}}}`, `{"quant_method": "gptq", "bits": 4, "modules_in_block_to_quantize": [["strange"]]}`, `{"quant_method": "gptq", "bits": 4, "modules_in_block_to_quantize": [["mlp.gate_proj"], ["strange"]]}`,
		`{}`, `7`, `{"quant_method": "bitsandbytes"}`, `{"quant_method": "gptq", "bits": 3}`, `{"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}`,
		`{"quant_method": "compressed-tensors", "ignore": ["re:(?=self_attn)"], "config_groups": {"g": {"targets": ["Linear"], "weights": {"num_bits": 8}}}}`,
		`{"quant_method": "fp8", "modules_to_not_convert": ["layers.0", "layers.1", "layers.2", "layers.3"]}`, `{"quant_method": "fp8", "modules_to_not_convert": ["unheard_of"]}`,
		`{"quant_method": "fp8", "modules_to_not_convert": ["self_attn", "mlp"]}`, `{"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "NVFP4"}`,
	} {
		_, err := FromHuggingFace([]byte(`{` + shape + `, "quantization_config": ` + quant + `}`))
		if err == nil || !strings.HasSuffix(err.Error(), "model.weight_block and model.kv_format") {
			t.Errorf("%s: %v", quant, err)
		}
	}
}

// TestManyLayers: a file with millions of layers or experts is refused without delay.
func TestManyLayers(t *testing.T) {
	for _, c := range []struct{ layers, experts int }{{1000, 99}, {1 << 24, 1 << 24}, {1 << 24, 8}, {40, 1 << 24}}[:deep.Of(1, 4, 4)] { // 4 + 3·99 matrices a layer
		_, err := FromHuggingFace(fmt.Appendf(nil, `{"model_type": "qwen3_moe", "hidden_size": 64, "intermediate_size": 100, "moe_intermediate_size": 10, "num_hidden_layers": %d, "num_attention_heads": 4,
			"num_experts": %d, "num_experts_per_tok": 2, "head_dim": 16, "max_position_embeddings": 100, "vocab_size": 10,
			"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.mlp.experts.7"]}}`, c.layers, c.experts))
		at := quantized
		if c.layers > mostLayers {
			at = "num_hidden_layers = 16777216: expected a whole number, 1 to 10000"
		} else if c.experts > mostMatrices {
			at = "num_experts = 16777216: expected 0 to 4096"
		}
		if err == nil || !strings.HasPrefix(err.Error(), at) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestKept: the shares of attention and of networks that lists of every form keep in 16 bits, and the notes about them. With four query
// heads and two KV heads, q and o are a third of attention each, k and v a sixth.
func TestKept(t *testing.T) {
	const (
		dense   = `"model_type": "llama", "hidden_size": 64, "intermediate_size": 100, "num_hidden_layers": 20, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 10`
		mixture = `"model_type": "qwen3_moe", "hidden_size": 64, "intermediate_size": 100, "moe_intermediate_size": 10, "num_hidden_layers": 20, "num_attention_heads": 4, "num_key_value_heads": 2, "num_experts": 8, "num_experts_per_tok": 2, "head_dim": 16, "max_position_embeddings": 100, "vocab_size": 10`
		// Llama 4: layers 0, 2 and so on are dense. A dense network has three matrices of 64 x 100, a mixture has 8 + 1 experts with three
		// of 64 x 10.
		llama4 = `"model_type": "llama4_text", "hidden_size": 64, "intermediate_size": 10, "intermediate_size_mlp": 100, "num_hidden_layers": 20, "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 8, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "vocab_size": 10`
		// Latent attention: 64 x 24, 16 x 4 x 16, 32 x 64 and 64 x 4 x 16 parameters, 8,704 in all. The indexer: 64 x 2 x 16, 64 x 16 and
		// 64 x 2, 3,200 in all.
		dsa      = `"model_type": "deepseek_v32", "hidden_size": 64, "intermediate_size": 100, "moe_intermediate_size": 10, "num_hidden_layers": 20, "num_attention_heads": 4, "n_routed_experts": 8, "num_experts_per_tok": 2, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "index_topk": 4, "index_n_heads": 2, "index_head_dim": 16, "vocab_size": 10`
		gemma4   = `"model_type": "gemma4_text", "hidden_size": 64, "intermediate_size": 20, "moe_intermediate_size": 10, "num_hidden_layers": 20, "num_attention_heads": 4, "num_experts": 8, "top_k_experts": 2, "enable_moe_block": true, "head_dim": 16, "vocab_size": 10`
		opt      = `"model_type": "opt", "hidden_size": 64, "ffn_dim": 100, "num_hidden_layers": 20, "num_attention_heads": 4, "max_position_embeddings": 100, "vocab_size": 10`
		none     = "embeddings, LM head"
		dsaLayer = 64*24. + 16*4*16 + 32*64 + 64*4*16 + 64*2*16 + 64*16 + 64*2
	)
	const fp8, ct, modelopt = `{"quant_method": "fp8", "modules_to_not_convert": [%s]}`,
		`{"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"}}}, "ignore": [%s]}`,
		`{"quant_algo": "FP8", "kv_cache_scheme": "FP8", "exclude_modules": [%s]}`
	for _, c := range []struct {
		shape, form, list  string
		attention, network float64 // shares; 1 for attention_bits = 16, and for weight_bits = 16
		words              string
	}{
		{dense, fp8, `"lm_head", "model.layers.0.input_layernorm", "model.layers.3.mlp.gate", "model.norm"`, 0, 0, none},
		{dense, fp8, `"model.layers.0.mlp.up_proj"`, 0, 1. / 60, none + ", parts of feed-forward networks of layer 0"},
		{dense, fp8, `"model.layers.0.mlp.gate_up_proj"`, 0, 2. / 60, none + ", parts of feed-forward networks of layer 0"},
		{dense, fp8, `"model.layers.7.self_attn.q_proj", "model.layers.8.self_attn.k_proj"`, 1./60 + 1./120, 0, none + ", parts of attention of layers 7 and 8"},
		{dense, fp8, `"model.layers.7.self_attn.qkv_proj"`, 2. / 60, 0, none + ", parts of attention of layer 7"},
		{dense, fp8, `"model.layers.1", "model.layers.19"`, .1, .1, none + ", attention of layers 1 and 19, feed-forward networks of layers 1 and 19"},
		{dense, fp8, `"language_model.model.layers.1.self_attn.o_proj.weight"`, 1. / 60, 0, none + ", parts of attention of layer 1"},
		{dense, fp8, `"self_attn"`, 1, 0, none + ", attention"},
		{dense, fp8, `"mlp", "model.layers.1.self_attn"`, .05, 1, none + ", attention of layer 1, feed-forward networks"},
		{dense, fp8, `"self_attn", "model.layers.1.mlp"`, 1, .05, none + ", attention, feed-forward networks of layer 1"},
		{dense, ct, `"re:.*self_attn.*", "re:vision_tower.*"`, 1, 0, none + ", attention"},
		{dense, ct, `"re:.*layers\\.1[0-9]\\.mlp\\.(gate|up)_proj.*"`, 0, 1. / 3, none + ", parts of feed-forward networks of 10 layers"},
		{dense, modelopt, `"model.layers.1*", "model.layers.20*", "mtp*"`, .55, .55, none + ", attention of 11 layers, feed-forward networks of 11 layers"}, // 1 and 10 to 19; 20 is none
		{dense, modelopt, `"model.layers.1.*"`, .05, .05, none + ", attention of layer 1, feed-forward networks of layer 1"},
		{dense, modelopt, `"model.layers.*.self_attn"`, 1, 0, none + ", attention"},
		{mixture, fp8, `"model.layers.0.mlp.gate", "model.layers.1.mlp.experts"`, 0, .05, none + ", feed-forward networks of layer 1"},
		{mixture, fp8, `"model.layers.0.mlp.experts.5.down_proj", "model.layers.0.mlp.experts.6"`, 0, 4. / 3 / 160, none + ", parts of feed-forward networks of layer 0"},
		{dense, `{"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"-:model\\.layers\\.[01]\\.self_attn": {}, "-:.*down_proj": {}}}`, "",
			.1, 1. / 3, none + ", attention of layers 0 and 1, parts of feed-forward networks of 20 layers"},
		{dense, `{"quant_method": "gptq", "bits": 4, "modules_in_block_to_quantize": [["mlp.gate_proj", "mlp.up_proj"], ["mlp.down_proj"]]}`, "", 1, 0, none + ", attention"},
		{dense, `{"quant_method": "gptq", "bits": 4, "modules_in_block_to_quantize": null, "dynamic": null}`, "", 0, 0, none},
		{mixture, fp8, `"model.layers.0.mlp.shared_expert_gate"`, 0, 0, none},
		{dense, fp8, `"vision_model.model.layers.0.self_attn.q_proj", "model.vision_tower.layers.1*", "audio_tower.layers.0.mlp"`, 0, 0, none},
		{llama4, ct, `"language_model.model.layers.0.feed_forward.up_proj", "language_model.model.layers.1.feed_forward.shared_expert.up_proj", "language_model.model.layers.1.feed_forward.router"`,
			0, 110. / (10 * 3 * (100 + 90)), none + ", parts of feed-forward networks of layers 0 and 1"},
		{llama4, ct, `"re:.*feed_forward\\.(gate|up|down)_proj"`, 0, 100. / (100 + 90), none + ", feed-forward networks of 10 layers"},
		{dsa, modelopt, `"model.layers.0.self_attn.indexer*", "model.layers.1.self_attn.indexer.wk", "model.layers.20.eh_proj", "model.layers.20*"`, (3200. + 1024) / (20 * dsaLayer), 0, none + ", parts of attention of layers 0 and 1"},
		{dsa, fp8, `"model.layers.7.self_attn.indexers_proj", "model.layers.7.self_attn.indexer.k_norm.bias", "model.layers.20.self_attn.indexers_proj"`, 128 / (20 * dsaLayer), 0, none + ", parts of attention of layer 7"},
		{gemma4, modelopt, `"model.language_model.layers.0.mlp*", "model.language_model.layers.*.router*", "model.embed_vision*"`, 0, 20. / (20 * 100), none + ", parts of feed-forward networks of layer 0"},
		{gemma4, modelopt, `"model.language_model.layers.0.experts*"`, 0, 80. / (20 * 100), none + ", parts of feed-forward networks of layer 0"},
		{opt, fp8, `"model.decoder.layers.0.fc1", "model.decoder.layers.0.fc2", "model.decoder.layers.1.fc2"`, 0, 1.5 / 20, none + ", feed-forward networks of layer 0, parts of feed-forward networks of layer 1"},
	} {
		list := strings.ReplaceAll(c.form, "%s", c.list)
		m, words, _, err := FromCheckpoint([]byte(`{`+c.shape+`, "quantization_config": `+list+`}`), "", nil)
		if err != nil {
			t.Errorf("%s: %v", list, err)
			continue
		}
		attention, network := m.KeptAttention, m.KeptNetwork
		if m.AttentionBits == 16 {
			attention = 1
		}
		if m.WeightBits == 16 {
			network = 1
		}
		if math.Abs(attention-c.attention) > 1e-12 || math.Abs(network-c.network) > 1e-12 || !strings.HasSuffix(words, "; in 16 bits: "+c.words) {
			t.Errorf("%s: shares %v and %v, %q; want %v and %v, %q", list, attention, network, words, c.attention, c.network, c.words)
		}
	}
}

// TestWeightWidths: the description of the widths of weights for the user.
func TestWeightWidths(t *testing.T) {
	for _, c := range []struct {
		of      Widths
		experts int
		want    string
	}{
		{Widths{}, 0, ""}, {Widths{WeightBits: 16}, 0, ""},
		{Widths{WeightBits: 8}, 0, "8-bit matrices; in 16 bits: embeddings, LM head"},
		{Widths{ExpertBits: 4}, 8, "4-bit experts, 16-bit attention; in 16 bits: embeddings, LM head"},
		{Widths{WeightBits: 8, AttentionBits: 16, KeptNetwork: 2. / 126}, 0, "8-bit feed-forward networks, 16-bit attention; in 16 bits: embeddings, LM head, feed-forward networks of 2 of 126 layers"},
		{Widths{WeightBits: 4, KeptAttention: 0.3, KeptNetwork: 1. / 126}, 0, "4-bit matrices; in 16 bits: embeddings, LM head, 30.0% of attention, feed-forward networks of 1 of 126 layers"},
		{Widths{WeightBits: 8, KeptAttention: 0.0004}, 0, "8-bit matrices; in 16 bits: embeddings, LM head, less than 0.1% of attention"},
	} {
		if got := (&Model{Layers: 126, ElementBits: 16, Experts: c.experts, Widths: c.of}).WeightWidths(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.of, got, c.want)
		}
	}
}

// TestScalesOfGroups: a group of 128 weights has a scale of 16 bits and a zero point of as many bits as a weight, except in AWQ files
// without zero points. WeightBlock is the weights for each byte of these.
func TestScalesOfGroups(t *testing.T) {
	const shape = `"model_type": "llama", "hidden_size": 64, "intermediate_size": 100, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 10`
	for quant, want := range map[string]Widths{
		`"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": false`:  {WeightBits: 4, WeightBlock: 64}, // 16 bits: 2 B
		`"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": true`:   {WeightBits: 4, WeightBlock: 51}, // 20 bits
		`"quant_method": "awq", "bits": 4, "group_size": 128`:                       {WeightBits: 4, WeightBlock: 51},
		`"quant_method": "awq", "bits": 4, "group_size": 64`:                        {WeightBits: 4, WeightBlock: 25},
		`"quant_method": "gptq", "bits": 4, "group_size": 128, "zero_point": false`: {WeightBits: 4, WeightBlock: 51}, // AutoGPTQ has no such key
		`"quant_method": "gptq", "bits": 8, "group_size": 128`:                      {WeightBits: 8, WeightBlock: 42}, // 24 bits
		`"quant_method": "modelopt", "quant_algo": "W4A16_AWQ", "group_size": 128`:  {WeightBits: 4, WeightBlock: 64},
		`"quant_method": "modelopt", "quant_algo": "NVFP4"`:                         {WeightBits: 4, ActivationBits: 8, WeightBlock: 16}, // 8 bits for 16
		`"quant_method": "fp8"`: {WeightBits: 8, ActivationBits: 8},
	} {
		m, err := FromHuggingFace([]byte(`{` + shape + `, "quantization_config": {` + quant + `}}`))
		if err != nil || m.Widths != want {
			t.Errorf("%s: %+v, %v; want %+v", quant, m.Widths, err, want)
		}
	}
}

// TestMatricesByHand: a layer with hidden size 6, four query heads and one KV head of 2, and networks of width 5: 48, 12, 12 and 48
// parameters of attention, and 30 for each of a network's matrices, of which each expert has three.
func TestMatricesByHand(t *testing.T) {
	parameters := func(m Model, eachExpert bool) (n []int64) {
		m.Hidden, m.Heads, m.KVHeads, m.HeadDim, m.FFNHidden = 6, 4, 1, 2, 5
		layer := m.mixture()
		for _, x := range m.matrices(&layer, Global, &naming{usualParents, eachExpert}) {
			n = append(n, x.parameters)
		}
		return n
	}
	for _, c := range []struct {
		m    Model
		each bool
		want []int64
	}{
		{Model{}, false, []int64{48, 12, 12, 48, 30, 30}}, {Model{GatedFFN: true}, true, []int64{48, 12, 12, 48, 30, 30, 30}},
		{Model{Experts: 3, GatedFFN: true}, false, []int64{48, 12, 12, 48, 90, 90, 90}}, {Model{Experts: 3}, true, []int64{48, 12, 12, 48, 30, 30, 30, 30, 30, 30}},
		{Model{Experts: 3, Beside: Beside{SharedFFN: 7}}, false, []int64{48, 12, 12, 48, 90, 90, 42, 42}},
	} {
		if got := parameters(c.m, c.each); !slices.Equal(got, c.want) {
			t.Errorf("%d experts, each %v: %v, want %v", c.m.Experts, c.each, got, c.want)
		}
	}
}
