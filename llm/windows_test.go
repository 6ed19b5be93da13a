package llm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"pgregory.net/rapid"
)

// step has the numbers of Step-3.7-Flash's config.json: full attention in each fourth layer, the first one among them, three dense layers,
// and one shared expert.
func step(types string) string {
	return `{"model_type": "step3p7", "first_k_dense_replace": 3, "head_dim": 128, "hidden_size": 4096, "intermediate_size": 11264, "layer_types": ` + types + `,
		"max_position_embeddings": 65536, "moe_intermediate_size": 1280, "n_shared_experts": 1, "num_attention_heads": 64, "num_experts": 288, "num_experts_per_tok": 8,
		"num_hidden_layers": 45, "num_key_value_heads": 8, "num_nextn_predict_layers": 3, "share_expert_dim": 1280, "sliding_window": 512, "vocab_size": 128896}`
}

// layerTypes writes a list of layer_types of letters.
func layerTypes(order string) string {
	return `[` + strings.TrimSuffix(strings.NewReplacer("G", `"full_attention",`, "L", `"sliding_attention",`).Replace(order), ",") + `]`
}

// TestFullFirst: Step-3.7-Flash has 12 layers of 45 that attend to everything, 0, 4, ..., 44. A request of 10,000 tokens has
// 12·10,000 + 33·512 tokens of 4,096 bytes.
func TestFullFirst(t *testing.T) {
	m, err := FromHuggingFace([]byte(step(layerTypes(strings.Repeat("GLLL", 12)[:45]))))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Windows{Window: 512, WindowPattern: "GLLL"}); m.Windows != want || m.WindowedLayers() != 33 || m.Layers != 45 {
		t.Errorf("%+v in %d of %d layers, want %+v", m.Windows, m.WindowedLayers(), m.Layers, want)
	}
	for layer := range m.Layers {
		if m.Windowed(layer) != (layer%4 != 0) {
			t.Errorf("layer %d has a window: %v", layer, m.Windowed(layer))
		}
	}
	if got := m.KVBytes(10000); got != (12*10000+33*512)*4096 {
		t.Errorf("10,000 tokens have %d bytes", got)
	}
	// Embeddings, attention of 64 and 8 heads, three dense layers, and 42 of a router, 288 experts and a shared one.
	if got := m.Parameters(); got != 2*128896*4096+45*4096*128*144+3*3*4096*11264+42*(4096*288+289*3*4096*1280) {
		t.Errorf("%d parameters", got)
	}
}

// TestAnyOrder: whatever the order in which a file lists the layers, each has what the list says; and rules accept what is read.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.StringMatching(`[GL]{45}`).Draw(t, "order")
		if rapid.Bool().Draw(t, "periodic") {
			n := rapid.IntRange(1, 8).Draw(t, "of")
			order = strings.Repeat(order[:n], 45)[:45]
		}
		m, err := FromHuggingFace([]byte(step(layerTypes(order))))
		if err != nil {
			t.Fatal(err)
		}
		var k input.Check
		if m.Name, m.TensorParallel = "step", 1; len(input.Faults(m)) > 0 {
			t.Fatalf("%+v: %v", m.Windows, input.Faults(m))
		}
		m.Check(&k)
		for layer := range m.Layers {
			if got, want := m.Windowed(layer), order[layer] == 'L'; got != want {
				t.Fatalf("%s as %+v: layer %d has a window: %v, want %v", order, m.Windows, layer, got, want)
			}
		}
		if got, want := m.WindowedLayers(), strings.Count(order, "L"); got != want {
			t.Fatalf("%s: %d layers with a window, want %d", order, got, want)
		}
	})
}

// TestWindowPatternRules: what a pattern must be.
func TestWindowPatternRules(t *testing.T) {
	m, err := FromHuggingFace([]byte(step(layerTypes(strings.Repeat("L", 45)))))
	if err != nil {
		t.Fatal(err)
	}
	m.Name, m.TensorParallel = "step", 1
	for pattern, want := range map[string]string{
		"GL": "", "L": "", strings.Repeat("L", 45): "",
		"GX":                    `window_pattern = "GX": expected the letters L, for a layer with a window, and G, for one without`,
		"GG":                    `window_pattern = "GG": expected the letters L, for a layer with a window, and G, for one without`,
		strings.Repeat("L", 46): `expected at most a letter for each of layers = 45, not 46`,
	} {
		m.WindowPattern = pattern
		if got := fmt.Sprint(input.Faults(m)); want == "" && got != "[]" || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", pattern, got, want)
		}
	}
	m.WindowPattern, m.FullEvery = "GL", 2
	if got := fmt.Sprint(input.Faults(m)); !strings.Contains(got, `window_pattern = "GL": expected "" with model.full_every = 2: either says which layers have the window`) {
		t.Error(got)
	}
}
