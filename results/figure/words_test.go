package figure

import (
	"testing"

	"github.com/l3sim/l3sim/results/tables"
)

// TestShown: figures write names as readers know them, and keep names that a user gave.
func TestShown(t *testing.T) {
	for _, c := range []struct{ column, value, want string }{
		{"run.system", "gpu-only", "GPUs alone"},
		{"system", "l3, h100-sxm", "L3, h100-sxm"},
		{"point", "hbm-pim 9x 3/4", "PIM in HBM 9x 3/4"},
		{"point", "l3sim", "l3sim"},
		{"point", "L3 KV8", "L3 KV8"},
		{"model", "gpt-175b", "GPT-175B"},
		{"run.model", "llama-3.1-8b", "Llama-3.1-8B"},
		{"run.model", "deepseek-v3.2", "DeepSeek-V3.2"},
		{"run.model", "qwen3-30b-a3b", "Qwen3-30B-A3B"},
		{"run.model", "tiny-lm", "Tiny-LM"},
		{"run.trace", "openr1", "OpenR1"},
		{"trace", "dolphin", "Dolphin"},
		{"trace", "out/mine.csv", "out/mine.csv"},
		{"trace", "mooncakes", "mooncakes"},
		{"model", "models/my-llama.json", "models/my-llama.json"},
		{"comm.balance", "l3", "l3"},
	} {
		if got := shown(c.column, tables.Of(c.value)); got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.value, c.column, got, c.want)
		}
	}
}
