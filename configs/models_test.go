package configs_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"

	. "github.com/l3sim/l3sim/configs"
)

// llamaSmall returns the number of LLaMA's parameters that Model leaves out: RMS norms before attention, before the feed-forward network
// and at the end.
func llamaSmall(m *llm.Model) int { return (2*m.Layers + 1) * m.Hidden }

// qwenSmall is llamaSmall plus Qwen2's biases of q, k and v.
func qwenSmall(m *llm.Model) int { return llamaSmall(m) + m.Layers*m.QKVWidth() }

// optSmall returns the number of OPT's parameters that Model leaves out: biases of all matrices, layer norms of two vectors, and two more
// positions.
func optSmall(m *llm.Model) int {
	layer := m.QKVWidth() + m.Hidden + m.FFNHidden + m.Hidden + 4*m.Hidden
	return m.Layers*layer + 2*m.Hidden + 2*m.Hidden
}

// TestPublishedParameters: each preset has exactly the published checkpoint's number of parameters, including the norms and biases that
// Model leaves out. The totals are those that Hugging Face shows for the safetensors; OPT has none, so its total is the sum of its tensors'
// shapes. The GPTs of the L3 paper are not published: their names give the number. kv is the bytes of
// a token's keys and values in all layers.
func TestPublishedParameters(t *testing.T) {
	published := map[string]struct {
		parameters, off float64
		kv              int // 2 × layers × KV heads × head dimension × 2 bytes
		small           func(*llm.Model) int
	}{
		"tiny-lm":       {6_524_160, 0, 12_288, llamaSmall}, // lm/data/tiny_lm.safetensors
		"llama-2-7b":    {6_738_415_616, 0, 524_288, llamaSmall},
		"llama-2-13b":   {13_015_864_320, 0, 819_200, llamaSmall},
		"llama-2-70b":   {68_976_648_192, 0, 327_680, llamaSmall},
		"llama-3-8b":    {8_030_261_248, 0, 131_072, llamaSmall},
		"llama-3-70b":   {70_553_706_496, 0, 327_680, llamaSmall},
		"llama-3.1-8b":  {8_030_261_248, 0, 131_072, llamaSmall},
		"llama-3.1-70b": {70_553_706_496, 0, 327_680, llamaSmall},
		"qwen2.5-32b":   {32_763_876_352, 0, 262_144, qwenSmall},
		"qwen3-32b":     {32_762_123_264, 0, 262_144, func(m *llm.Model) int { return llamaSmall(m) + 2*m.HeadDim*m.Layers }}, // norms of queries and keys
		"mistral-7b":    {7_241_732_096, 0, 131_072, llamaSmall},
		"qwen2-7b":      {7_615_616_512, 0, 57_344, qwenSmall},
		"qwen2-72b":     {72_706_203_648, 0, 327_680, qwenSmall},
		"mixtral-8x7b":  {46_702_792_704, 0, 131_072, llamaSmall},
		"opt-13b":       {12_853_473_280, 0, 819_200, optSmall},
		"opt-30b":       {29_974_540_288, 0, 1_376_256, optSmall},
		"opt-66b":       {65_719_701_504, 0, 2_359_296, optSmall},
		"gpt-89b":       {89e9, 0.02, 2_359_296, optSmall},
		"gpt-175b":      {175e9, 0.02, 4_718_592, optSmall},
	}
	for _, name := range Names(Model) {
		c, err := Load(Options{SectionsOnly: true, Flags: []Flag{{"--model", "run.model", name}}})
		if err != nil {
			t.Fatal(err)
		}
		want, ok := published[name]
		if _, read := fromFiles[name]; read {
			continue // TestPresetsOfFiles
		}
		if !ok {
			t.Errorf("%s: add the parameters of its checkpoint", name)
			continue
		}
		if got := c.Model.KVBytesPerToken(); got != units.Bytes(want.kv) {
			t.Errorf("%s: %d bytes of keys and values of a token, want %d", name, got, want.kv)
		}
		got := float64(c.Model.WeightBytes())*8/float64(c.Model.ElementBits) + float64(want.small(&c.Model))
		if math.Abs(got-want.parameters) > want.off*want.parameters {
			t.Errorf("%s: %.0f parameters, want %.0f within %g%%", name, got, want.parameters, 100*want.off)
		}
	}
}

// fromFiles are the presets of models whose config.json is in the reader's tests.
var fromFiles = map[string]string{
	"deepseek-v3": "deepseek-ai/DeepSeek-V3", "deepseek-v3.2": "deepseek-ai/DeepSeek-V3.2", "kimi-k2": "moonshotai/Kimi-K2-Instruct", "glm-4.5-air": "zai-org/GLM-4.5-Air",
	"glm-5-fp8": "zai-org/GLM-5-FP8", "qwen3-235b-a22b": "Qwen/Qwen3-235B-A22B", "qwen3-30b-a3b": "Qwen/Qwen3-30B-A3B", "gpt-oss-120b": "openai/gpt-oss-120b",
	"llama-4-scout": "meta-llama/Llama-4-Scout-17B-16E-Instruct", "minimax-m2.5": "MiniMaxAI/MiniMax-M2.5", "gemma-3-27b": "google/gemma-3-27b-it",
}

// TestPresetsOfFiles: a preset equals its published config.json, key by key.
func TestPresetsOfFiles(t *testing.T) {
	text, err := os.ReadFile("../llm/testdata/configs.json")
	var files map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(text, &files)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range fromFiles {
		c, err := Load(Options{SectionsOnly: true, Flags: []Flag{{"--model", "run.model", name}}})
		if err != nil {
			t.Fatal(err)
		}
		want, _, _, err := llm.FromCheckpoint(files[file], "", nil)
		if err != nil {
			t.Fatal(err)
		}
		want.Name, want.TensorParallel, want.KVScales, want.AttentionParallel = name, c.Model.TensorParallel, "token", "tensor"
		if c.Model != *want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, c.Model, *want)
		}
	}
}

// TestPublishedContext: each preset has the context of its published config.json, max_position_embeddings, or none if none is published.
func TestPublishedContext(t *testing.T) {
	published := map[string]int{
		"tiny-lm": 0, "gpt-89b": 0, "gpt-175b": 0, "opt-13b": 2048, "opt-30b": 2048, "opt-66b": 2048,
		"llama-2-7b": 4096, "llama-2-13b": 4096, "llama-2-70b": 4096, "llama-3-8b": 8192, "llama-3-70b": 8192, "llama-3.1-8b": 131072, "llama-3.1-70b": 131072,
		"mistral-7b": 32768, "mixtral-8x7b": 32768, "qwen2-7b": 131072, "qwen2-72b": 131072, "qwen2.5-32b": 131072, "qwen3-32b": 40960,
	}
	for _, name := range Names(Model) {
		c, err := Load(Options{SectionsOnly: true, Flags: []Flag{{"--model", "run.model", name}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, read := fromFiles[name]; read {
			continue
		}
		if want, ok := published[name]; !ok || c.Model.Context != want {
			t.Errorf("%s: a context of %d, want %d", name, c.Model.Context, want)
		}
	}
}

// TestPublishedWindow: of the presets, only Mistral 7B v0.1 has a sliding window in its config.json, as FromHuggingFace reads it. Mixtral's
// is null, and use_sliding_window is false in Qwen2, Qwen2.5 and Qwen3.
func TestPublishedWindow(t *testing.T) {
	for _, name := range Names(Model) {
		c, err := Load(Options{SectionsOnly: true, Flags: []Flag{{"--model", "run.model", name}}})
		if err != nil {
			t.Fatal(err)
		}
		want := llm.LayerKinds{}
		if _, read := fromFiles[name]; read {
			continue
		}
		if name == "mistral-7b" {
			want.Window = 4096
		}
		if c.Model.LayerKinds != want {
			t.Errorf("%s: windows %+v, want %+v", name, c.Model.LayerKinds, want)
		}
	}
}

// TestBesideFiles: files of AutoGPTQ and AutoAWQ beside config.json add what it lacks.
func TestBesideFiles(t *testing.T) {
	text, err := os.ReadFile("testdata/modelopt_fp8/config.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, beside := range map[string]string{"quantize_config.json": `{"bits": 4, "group_size": 128}`, "quant_config.json": `{"w_bit": 4, "q_group_size": 128, "zero_point": true}`} {
		dir := t.TempDir()
		for name, text := range map[string]string{"config.json": string(text), name: beside} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if c, err := Load(Options{Flags: []Flag{{"--model", "run.model", dir}}}); err != nil || c.Model.WeightBits != 4 || c.Model.WeightBlock != 51 {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

// TestModelOptBeside: hf_quant_config.json beside config.json adds what it lacks: 67.7 GiB of FP8, not 131.4.
func TestModelOptBeside(t *testing.T) {
	c, err := Load(Options{Flags: []Flag{{"--model", "run.model", "testdata/modelopt_fp8/config.json"}}})
	if err != nil {
		t.Fatal(err)
	}
	if gib := float64(c.Model.WeightBytes()) / float64(1<<30); math.Abs(gib-67.7) > 0.1 || c.Model.KVFormat != llm.FP8 {
		t.Errorf("%.2f GiB of weights, keys and values %q", gib, c.Model.KVFormat)
	}
}
