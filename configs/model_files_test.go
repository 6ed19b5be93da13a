package configs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
)

const llamaShape = `{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256`

// TestModelFiles: the forms of Hugging Face models that --model accepts, and the names that it gives them.
func TestModelFiles(t *testing.T) {
	deep.Heavy(t)
	t.Chdir(t.TempDir())
	write := func(path, text string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	long := `, "quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["lm_head"` + strings.Repeat(`, "model.layers.1.input_layernorm"`, 90_000) + `]}}`
	write("Own-8B/config.json", llamaShape+`}`)
	write("models--org--Hub-8B/snapshots/0123abc/config.json", llamaShape+`}`)
	write("a_config.json", llamaShape+`}`)
	write("folder/b_config.json", llamaShape+`}`)
	write("config.json", llamaShape+`}`)
	write("mark/config.json", "\ufeff"+llamaShape+`}`)
	write("long/config.json", llamaShape+long)
	write("quartz/config.json", strings.Replace(llamaShape, "llama", "quartz", 1)+`}`)
	write("empty/README.md", "")
	write("wide/config.json", "\xff\xfe{\x00")
	for path, want := range map[string]string{
		"Own-8B": "Own-8B", "Own-8B/": "Own-8B", "./Own-8B/config.json": "Own-8B", "folder/../Own-8B": "Own-8B",
		"models--org--Hub-8B/snapshots/0123abc": "Hub-8B", "a_config.json": "a_config", "folder/b_config.json": "b_config", "config.json": "config", "mark": "mark", "long": "long-fp8",
	} {
		c, err := Load(Options{Flags: []Flag{{"--model", "run.model", path}}})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if strings.TrimSuffix(want, "-fp8") != c.Model.Name || c.Model.Layers != 32 || (c.Model.WeightBits == 8) != strings.HasSuffix(want, "-fp8") || c.ReadingNotes() != nil {
			t.Errorf("%s: got %q, %+v, notes %q", path, c.Model.Name, c.Model, c.ReadingNotes())
		}
	}
	c, err := Load(Options{Flags: []Flag{{"--model", "run.model", "quartz"}}})
	if err != nil || len(c.ReadingNotes()) != 1 || !strings.HasPrefix(c.ReadingNotes()[0], `quartz/config.json: model_type "quartz" is not known and read as llama`) {
		t.Errorf("got %q, %v", c.ReadingNotes(), err)
	}
	for path, want := range map[string]string{
		"empty/": `run.model = "empty/config.json": no such file or directory; expected a model's config.json, the folder that has it,`,
		"empty":  `run.model = "empty": expected a folder with a config.json`,
		"wide":   "wide/config.json: expected text in UTF-8, not UTF-16",
	} {
		if _, err := Load(Options{Flags: []Flag{{"--model", "run.model", path}}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
}
