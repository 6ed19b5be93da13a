package llm

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// publishedConfigs has the keys of shape in config.json of models on Hugging Face, by model.
//
//go:embed testdata/configs.json
var publishedConfigs []byte

// published lists the models of publishedConfigs. Those that are read have billions of parameters (as published, or summed by hand from the
// matrices), the elements that a token stores in a layer, and the number of layers with a window. The others have the key at fault.
var published = map[string]struct {
	billions   float64
	tokenLayer units.Bytes
	windowed   int
	refused    string
}{
	"MiniMaxAI/MiniMax-M2.5":                        {228.69, 4096, 0, ""},
	"Qwen/Qwen3-235B-A22B":                          {235.09, 2048, 0, ""},
	"Qwen/Qwen3-235B-A22B-FP8":                      {235.09, 2048, 0, ""},
	"Qwen/Qwen3-30B-A3B":                            {30.53, 2048, 0, ""},
	"Qwen/Qwen3-32B":                                {32.76, 4096, 0, ""},
	"Qwen/Qwen3-8B":                                 {8.19, 4096, 0, ""},
	"Qwen/Qwen3-Coder-480B-A35B-Instruct":           {480.15, 4096, 0, ""},
	"Qwen/Qwen3-Next-80B-A3B-Instruct":              {refused: `model_type = "qwen3_next": expected a model without layers of linear attention, which are not modelled`},
	"Qwen/Qwen3.5-397B-A17B":                        {refused: "linear_num_key_heads = 16: expected a model without layers of linear attention, which are not modelled"},
	"XiaomiMiMo/MiMo-V2-Flash":                      {308.8, 2560, 39, ""},
	"deepseek-ai/DeepSeek-V2-Lite":                  {15.71, 1152, 0, ""},
	"deepseek-ai/DeepSeek-V3":                       {671.03, 1152, 0, ""},
	"deepseek-ai/DeepSeek-V3.2":                     {671.88, 1152, 0, ""},
	"deepseek-ai/DeepSeek-V4-Flash":                 {refused: `model_type = "deepseek_v4": expected a model without compressed attention, which is not modelled`},
	"google/gemma-3-27b-it":                         {27.01, 8192, 52, ""},
	"google/gemma-4-26B-A4B":                        {25.2, 4096, 25, ""},
	"meta-llama/Llama-4-Maverick-17B-128E-Instruct": {400.71, 4096, 36, ""},
	"meta-llama/Llama-4-Scout-17B-16E-Instruct":     {107.77, 4096, 36, ""},
	"meta-llama/Meta-Llama-3.1-70B":                 {70.55, 4096, 0, ""},
	"meta-llama/Meta-Llama-3.1-8B":                  {8.03, 4096, 0, ""},
	"microsoft/Phi-3-mini-4k-instruct":              {3.821, 12288, 32, ""},
	"mistralai/Mixtral-8x7B-v0.1":                   {46.70, 4096, 0, ""},
	"moonshotai/Kimi-K2-Instruct":                   {1026.41, 1152, 0, ""},
	"moonshotai/Kimi-K3":                            {refused: `model_type = "kimi_linear": expected a model without layers of linear attention, which are not modelled`},
	"nvidia/DeepSeek-V3.2-NVFP4":                    {671.88, 1152, 0, ""},
	"nvidia/Kimi-K2.6-NVFP4":                        {1026.41, 576, 0, ""}, // keys and values in FP8
	"nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16":    {refused: "ssm_state_size = 128: expected a model without layers of state spaces or convolutions, which are not modelled"},
	"openai/gpt-oss-120b":                           {116.83, 2048, 18, ""},
	"stepfun-ai/Step-3.7-Flash":                     {195.9, 4096, 33, ""},
	"zai-org/GLM-4.5-Air":                           {106.85, 4096, 0, ""},
	"zai-org/GLM-5":                                 {743.91, 1152, 0, ""},
	"zai-org/GLM-5-FP8":                             {743.91, 1152, 0, ""},
	"zai-org/GLM-5.2":                               {743.38, 1152, 0, ""}, // 57 of 78 layers have no indexer
}

// TestPublishedConfigs: each model is read with its parameters and bytes of keys and values, or the error names the key of a feature that
// Model lacks.
func TestPublishedConfigs(t *testing.T) {
	var texts map[string]json.RawMessage
	if err := json.Unmarshal(publishedConfigs, &texts); err != nil || len(texts) != len(published) {
		t.Fatalf("%d models, want %d: %v", len(texts), len(published), err)
	}
	for name, want := range published {
		m, err := FromHuggingFace(texts[name])
		switch {
		case want.refused != "":
			if fmt.Sprint(err) != want.refused {
				t.Errorf("%s:\ngot  %v\nwant %s", name, err, want.refused)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", name, err)
			continue
		}
		m.Name, m.TensorParallel = name, 1
		if faults := input.Faults(m); len(faults) > 0 {
			t.Errorf("%s: %v", name, faults)
		}
		if got := float64(m.Parameters()) / 1e9; math.Abs(got/want.billions-1) > 0.005 {
			t.Errorf("%s: %.2f billion parameters, want %v", name, got, want.billions)
		}
		if got := m.KVBytesPerTokenLayer(); got != want.tokenLayer || m.WindowedLayers() != want.windowed {
			t.Errorf("%s: %d bytes of a token and layer, %d layers with a window; want %d, %d", name, got, m.WindowedLayers(), want.tokenLayer, want.windowed)
		}
	}
}

// TestHeadsOfSomeLayers: a file may describe heads twice if both agree; otherwise the error names both keys.
func TestHeadsOfSomeLayers(t *testing.T) {
	const llama = `{"model_type": "new", "hidden_size": 4096, "intermediate_size": 12800, "num_hidden_layers": 4, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 100, "head_dim": 128`
	for more, want := range map[string]string{
		`, "swa_head_dim": 128, "swa_num_attention_heads": 32, "swa_num_key_value_heads": 8, "global_head_dim": null, "num_global_key_value_heads": 8`: "",
		`, "swa_num_attention_heads": 64`:                          "swa_num_attention_heads = 64: expected num_attention_heads = 32: heads that differ between layers are not modelled",
		`, "swa_head_dim": [64]`:                                   "swa_head_dim = [64]: expected a whole number",
		`, "swa_head_dim": 64`:                                     "swa_head_dim = 64: expected a key that says which layers have a window, whose heads it describes: sliding_window and layer_types",
		`, "swa_num_key_value_heads": 4`:                           "swa_num_key_value_heads = 4: expected a key that says which layers have a window",
		`, "swa_v_head_dim": 64`:                                   "swa_v_head_dim = 64: expected none: heads",
		`, "num_global_key_value_heads": 2`:                        "",
		`, "attention_other_setting": {"num_attention_heads": 96}`: "expected a model without heads that differ between layers, which are not modelled",
	} {
		_, err := FromHuggingFace([]byte(llama + more + "}"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s:\ngot  %v\nwant %s", more, err, want)
		}
	}
}
