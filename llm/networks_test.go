package llm

import (
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/units"
)

// glmAir has GLM-4.5-Air's config.json: 106.85 billion parameters, of which a token uses 13.42 (106 and 12 by its model card).
const glmAir = `"hidden_size": 4096, "intermediate_size": 10944, "moe_intermediate_size": 1408, "num_hidden_layers": 46, "num_attention_heads": 96,
	"num_key_value_heads": 8, "head_dim": 128, "n_routed_experts": 128, "num_experts_per_tok": 8, "n_shared_experts": 1, "first_k_dense_replace": 1, "vocab_size": 151552`

// TestGLMAir: parameters and bytes of a model with a dense first layer and a shared expert, by hand.
func TestGLMAir(t *testing.T) {
	for _, kind := range []string{"glm4_moe", "another"} {
		m, err := FromHuggingFace([]byte(`{"model_type": "` + kind + `", ` + glmAir + `}`))
		if err != nil {
			t.Fatal(err)
		}
		const (
			embeddings = 2 * 151552 * 4096
			attention  = 4096 * 128 * (96 + 8 + 8 + 96)
			router     = 4096 * 128
			expert     = 3 * 4096 * 1408
			dense      = 3 * 4096 * 10944
		)
		if got, want := m.Parameters(), int64(embeddings+46*attention+45*(router+129*expert)+dense); got != want || got/1e7 != 10684 && got/1e7 != 10685 {
			t.Errorf("%d parameters, want %d", got, want)
		}
		if got, want := m.ActiveParameters(), int64(embeddings+46*attention+45*(router+9*expert)+dense); got != want {
			t.Errorf("%d active parameters, want %d", got, want)
		}
		m.TensorParallel, m.ExpertBits, m.WeightBits, m.WeightBlock = 1, 4, 8, 16
		embedded, layers := units.Bytes(2*embeddings), units.Bytes(46*attention)*17/16
		networks := 45*(router+units.Bytes(128*expert)*9/16+units.Bytes(expert)*17/16) + units.Bytes(dense)*17/16
		if got := m.WeightBytes(); got != embedded+layers+networks {
			t.Errorf("experts of 4 bits, the rest of 8: %d bytes, want %d", got, embedded+layers+networks)
		}
		if got, want := m.ActiveLayersBytes(), layers+networks-45*units.Bytes(120*expert)*9/16; got != want {
			t.Errorf("a token needs %d bytes of the layers, want %d", got, want)
		}
		// Gate and up of eight experts and the shared one, and the outputs of eight; a dense layer has fewer elements.
		if got := m.ActivationBytes(1); got != 2*(2*4096+8*(2*1408+4096)+2*1408) {
			t.Errorf("%d bytes of activations", got)
		}
		var k input.Check
		if m.Name = "glm"; k.Err() != nil {
			t.Error(k.Err())
		}
		m.Check(&k)
		if k.Err() != nil {
			t.Error(k.Err())
		}
	}
}

// TestDenseLayers: which layers have no experts, as configurations describe it, and descriptions with faults.
func TestDenseLayers(t *testing.T) {
	read := func(keys string) (*Model, error) {
		return FromHuggingFace([]byte(`{"model_type": "new", "hidden_size": 64, "intermediate_size": 256, "moe_intermediate_size": 32, "num_hidden_layers": 6,
			"num_attention_heads": 4, "num_experts": 8, "num_experts_per_tok": 2, "vocab_size": 100` + keys + `}`))
	}
	for keys, want := range map[string][3]int{ // dense layers, their width, the width of shared experts
		``:                             {0, 0, 0},
		`, "first_k_dense_replace": 0`: {0, 0, 0},
		`, "first_k_dense_replace": 2, "n_shared_experts": 2`:                                                   {2, 256, 64},
		`, "num_dense_layers": 1, "shared_expert_intermediate_size": 48`:                                        {1, 256, 48},
		`, "decoder_sparse_step": 2`:                                                                            {3, 256, 0},
		`, "decoder_sparse_step": 1, "mlp_only_layers": [0, 5]`:                                                 {2, 256, 0},
		`, "interleave_moe_layer_step": 3`:                                                                      {4, 256, 0},
		`, "interleave_moe_layer_step": 2, "moe_layers": [0, 1, 2, 5]`:                                          {2, 256, 0},
		`, "moe_layer_freq": 2`:                                                                                 {3, 256, 0},
		`, "moe_layer_freq": 2, "first_k_dense_replace": 1`:                                                     {4, 256, 0},
		`, "moe_layer_freq": [0, 1, 1, 1, 1, 1]`:                                                                {1, 256, 0},
		`, "mlp_layer_types": ["dense","dense","dense","sparse","sparse","sparse"], "first_k_dense_replace": 3`: {3, 256, 0},
		`, "n_shared_experts": 1, "share_expert_dim": 40`:                                                       {0, 0, 40},
		`, "n_shared_experts": null, "shared_intermediate_size": 0`:                                             {0, 0, 0},
	} {
		m, err := read(keys)
		if err != nil || [3]int{m.DenseLayers, m.DenseFFN, m.SharedFFN} != want {
			t.Errorf("%s: %+v, %v; want %v", keys, m, err, want)
		}
	}
	for keys, want := range map[string]string{
		`, "first_k_dense_replace": 6`:           `num_experts = 8: expected a layer with experts: by the other keys all are dense`,
		`, "first_k_dense_replace": "x"`:         `first_k_dense_replace = "x": expected a whole number`,
		`, "moe_layer_freq": [0, 1]`:             `moe_layer_freq = [0,1]: expected 6 entries, one for each layer, not 2`,
		`, "moe_layer_freq": [0, 1, 1, 1, 1, 2]`: `expected 0 or 1, or "dense" or "sparse", for each layer, not 2`,
		`, "mlp_only_layers": [0.5]`:             `mlp_only_layers = [0.5]: expected whole numbers, from 0 on`,
		`, "moe_layers": [1, true]`:              `moe_layers = [1,true]: expected whole numbers, from 0 on`,
		`, "num_experts_per_tok": 9`:             `num_experts_per_tok = 9: expected at most num_experts = 8`,
		`, "n_shared_experts": 0.5`:              `n_shared_experts = 0.5: expected a whole number`,
		`, "moe_layer_interval": 2`:              `moe_layer_interval = 2: expected a model without layers with experts in an order of their own, which are not modelled`,
	} {
		if _, err := read(keys); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", keys, err, want)
		}
	}
}

// TestKeptBeside: the weights of a dense first layer and of shared experts that a checkpoint keeps in 16 bits, counted by hand.
func TestKeptBeside(t *testing.T) {
	deep.Heavy(t)
	const one = 4096 * 1408
	all := 3 * (45*129*one + 4096*10944)
	for module, kept := range map[string]float64{
		"model.layers.0.mlp":                        3 * 4096 * 10944,
		"model.layers.3.mlp.shared_experts":         3 * one,
		"re:.*shared_experts.*down_proj":            45 * one,
		"model.layers.1.mlp.experts.0.up_proj":      one,
		"model.layers.2.mlp.shared_experts.up_proj": one,
	} {
		m, err := FromHuggingFace([]byte(`{"model_type": "glm4_moe", ` + glmAir + `, "quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["` + module + `"]}}`))
		if err != nil || m.KeptNetwork != kept/float64(all) || m.KeptAttention != 0 {
			t.Errorf("%s: %+v, %v; want %g", module, m, err, kept/float64(all))
		}
	}
}

// TestNetworks: the numbers of layers of all kinds add up to the model's, and the rules refuse invalid ones.
func TestNetworks(t *testing.T) {
	m := mixtral()
	m.Beside = Beside{SharedFFN: 100, DenseLayers: 3, DenseFFN: 50}
	want := []Network{{Layers: 3, Width: 50}, {Layers: 29, Width: 14336, Experts: 8, Active: 2, Shared: 100}}
	if got := m.Networks(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for change, expected := range map[*Model]string{
		{Beside: Beside{DenseLayers: 32, DenseFFN: 1}}: "dense_layers = 32",
		{Beside: Beside{DenseLayers: 1}}:               "dense_ffn_hidden = 0",
		{Beside: Beside{DenseFFN: 9}}:                  "dense_ffn_hidden = 9",
		{Beside: Beside{SharedFFN: -1}}:                "shared_ffn_hidden = -1",
	} {
		bad, k := mixtral(), input.Check{}
		bad.Beside = change.Beside
		if bad.Check(&k); k.Err() == nil || !strings.Contains(k.Err().Error(), expected) {
			t.Errorf("%+v: %v, want %s", change.Beside, k.Err(), expected)
		}
	}
	dense := llama()
	dense.SharedFFN = 1
	if k := (input.Check{}); dense.check(&k) == nil || !strings.Contains(dense.check(&k).Error(), "0 without model.experts") {
		t.Error("shared experts of a dense model")
	}
}

func (m *Model) check(k *input.Check) error {
	m.Check(k)
	return k.Err()
}

func llama() *Model {
	m := mixtral()
	m.Experts, m.ActiveExperts = 0, 0
	return m
}
