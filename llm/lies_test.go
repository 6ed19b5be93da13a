package llm

import (
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
)

// lies are values put in place of a file's own.
var lies = []any{nil, 0.0, -1.0, 3.0, 1 << 24, 1e300, "x", []any{}, map[string]any{}, true}

// eachLie calls a function for each key, nested ones included, and each way of leaving it out or replacing its value.
func eachLie(keys map[string]any, try func(key string, lie any)) {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		value := keys[key]
		delete(keys, key)
		try(key, "left out")
		for _, lie := range lies {
			keys[key] = lie
			try(key, lie)
		}
		keys[key] = value
		if within, ok := value.(map[string]any); ok {
			eachLie(within, func(inner string, lie any) { try(key+"."+inner, lie) })
		}
	}
}

// checkLie fails unless a file is read as a valid model, or refused with an error that names a key.
func checkLie(t *testing.T, keys map[string]any, what ...any) {
	t.Helper()
	text, err := json.Marshal(keys)
	if err != nil {
		t.Fatal(err)
	}
	m, err := FromHuggingFace(text)
	if bad := new(input.Error); err != nil {
		if !errors.As(err, &bad) || bad.Key == "" || bad.Expected == "" {
			t.Errorf("%v: %v", what, err)
		}
		return
	}
	m.Name, m.TensorParallel = "x", 1
	if faults := input.Faults(m); len(faults) > 0 {
		t.Errorf("%v: %v", what, faults)
	}
}

// liars returns the keys of all configurations, by model.
func liars(t *testing.T) (texts map[string]map[string]any) {
	t.Helper()
	if err := json.Unmarshal(publishedConfigs, &texts); err != nil {
		t.Fatal(err)
	}
	return texts
}

// TestLies: a file with one missing or wrong value is read as a valid model, or refused with an error that names one of its keys.
func TestLies(t *testing.T) {
	deep.Heavy(t)
	texts := liars(t)
	for i, name := range slices.Sorted(maps.Keys(texts)) {
		if testing.Short() && i%4 > 0 || !deep.Case(i, 3) {
			continue
		}
		keys := texts[name]
		eachLie(keys, func(key string, lie any) { checkLie(t, keys, name, key, lie) })
	}
}

// TestTwoLies does the same as TestLies with two or three values at once, sampled with a fixed seed.
func TestTwoLies(t *testing.T) {
	deep.Heavy(t)
	texts, r := liars(t), rand.New(rand.NewPCG(1, 1))
	names := slices.Sorted(maps.Keys(texts))
	n := 2000
	if testing.Short() {
		n = 500
	}
	for range n {
		name := names[r.IntN(len(names))]
		keys, what := maps.Clone(texts[name]), []any{name}
		if text, ok := keys["text_config"].(map[string]any); ok {
			keys = maps.Clone(text)
		}
		all := slices.Sorted(maps.Keys(keys))
		for range 2 + r.IntN(2) {
			key, lie := all[r.IntN(len(all))], lies[r.IntN(len(lies))]
			keys[key], what = lie, append(what, key, lie)
		}
		checkLie(t, keys, what...)
	}
}

// TestLiesAreNamed: if a value breaks a rule of [model], the error names the file's key, and the value of the model's key if that differs.
func TestLiesAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		shape("llama", 64, 8, 3, 4, 3, 9, ""):                       "num_key_value_heads = 3: expected a divisor of heads = 4",
		shape("llama", 4096, 8, 3, 4, 0, 9, ""):                     "num_attention_heads = 4: expected another: this makes head_dim = 1024, which should be 8 to 512",
		shape("llama", 64, 8, 3, 4, 0, 9, `, "head_dim": 4`):        "head_dim = 4: expected 8 to 512",
		shape("llama", 64, 8, 10001, 4, 0, 9, ""):                   "num_hidden_layers = 10001: expected a whole number, 1 to 10000",
		shape("llama", 64, 8, 3, 4, 0, 9, `, "v_head_dim": 100000`): "v_head_dim = 100000: expected 0 to 65536",
		shape("qwen3_moe", 64, 8, 3, 4, 0, 9, `, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "decoder_sparse_step": -1`):              "decoder_sparse_step = -1: expected a whole number, 1 to 16777216",
		shape("qwen3_moe", 64, 8, 3, 4, 0, 9, `, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "decoder_sparse_step": 0`):               "decoder_sparse_step = 0: expected a whole number, 1 to 16777216",
		shape("llama4_text", 64, 8, 3, 4, 0, 9, `, "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size_mlp": 8, "interleave_moe_layer_step": 0`): "interleave_moe_layer_step = 0: expected a whole number, 1 to 16777216",
	} {
		if _, err := FromHuggingFace([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
}
