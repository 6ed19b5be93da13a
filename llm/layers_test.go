package llm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"pgregory.net/rapid"
)

// step returns config.json of Step-3.7-Flash: full attention in every fourth layer from the first one on, three dense layers, and one
// shared expert.
func step(types string) string {
	return `{"model_type": "step3p7", "first_k_dense_replace": 3, "head_dim": 128, "hidden_size": 4096, "intermediate_size": 11264, "layer_types": ` + types + `,
		"max_position_embeddings": 65536, "moe_intermediate_size": 1280, "n_shared_experts": 1, "num_attention_heads": 64, "num_experts": 288, "num_experts_per_tok": 8,
		"num_hidden_layers": 45, "num_key_value_heads": 8, "num_nextn_predict_layers": 3, "share_expert_dim": 1280, "sliding_window": 512, "vocab_size": 128896}`
}

// layerTypes writes the list layer_types, one letter a layer.
func layerTypes(order string) string {
	return `[` + strings.TrimSuffix(strings.NewReplacer("G", `"full_attention",`, "L", `"sliding_attention",`).Replace(order), ",") + `]`
}

// TestFullFirst: 12 of Step-3.7-Flash's 45 layers have full attention: 0, 4, ..., 44. A request of 10,000 tokens stores 12·10,000 + 33·512
// tokens of 4,096 bytes.
func TestFullFirst(t *testing.T) {
	m, err := FromHuggingFace([]byte(step(layerTypes(strings.Repeat("GLLL", 12)[:45]))))
	if err != nil {
		t.Fatal(err)
	}
	if want := (LayerKinds{Window: 512, LayerPattern: "GLLL"}); m.LayerKinds != want || m.WindowedLayers() != 33 || m.Layers != 45 {
		t.Errorf("%+v in %d of %d layers, want %+v", m.LayerKinds, m.WindowedLayers(), m.Layers, want)
	}
	for layer := range m.Layers {
		if m.Windowed(layer) != (layer%4 != 0) {
			t.Errorf("layer %d has a window: %v", layer, m.Windowed(layer))
		}
	}
	if got := m.KVBytes(10000); got != (12*10000+33*512)*4096 {
		t.Errorf("10,000 tokens have %d bytes", got)
	}
	// Embeddings; attention with 64 query heads and 8 KV heads; three dense layers; 42 layers of a router, 288 experts and a shared one.
	if got := m.Parameters(); got != 2*128896*4096+45*4096*128*144+3*3*4096*11264+42*(4096*288+289*3*4096*1280) {
		t.Errorf("%d parameters", got)
	}
}

// TestAnyOrder: in whatever order a file lists the layers, each has the kind that the list says, and the rules accept the model.
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
			t.Fatalf("%+v: %v", m.LayerKinds, input.Faults(m))
		}
		m.Check(&k)
		for layer := range m.Layers {
			if got, want := m.Windowed(layer), order[layer] == 'L'; got != want {
				t.Fatalf("%s as %+v: layer %d has a window: %v, want %v", order, m.LayerKinds, layer, got, want)
			}
		}
		if got, want := m.WindowedLayers(), strings.Count(order, "L"); got != want {
			t.Fatalf("%s: %d layers with a window, want %d", order, got, want)
		}
	})
}

// TestLayerPatternRules: limits of a pattern's keys.
func TestLayerPatternRules(t *testing.T) {
	m, err := FromHuggingFace([]byte(step(layerTypes(strings.Repeat("L", 45)))))
	if err != nil {
		t.Fatal(err)
	}
	m.Name, m.TensorParallel = "step", 1
	for pattern, want := range map[string]string{
		"GL": "", "L": "", strings.Repeat("L", 45): "",
		"GX":                    `layer_pattern = "GX": expected letters G (global), L (local), C (chunk), I (indexed) and S (shared), such as "LLLG"`,
		"GG":                    `layer_pattern = "GG": expected a letter L or C with model.window above 0, none with 0: it is 512`,
		"GLC":                   `layer_pattern = "GLC": expected L or C, not both: one window serves all layers`,
		"IL":                    `layer_pattern = "IL": expected a letter I with model.index_top_k above 0, neither I nor S with 0: it is 0`,
		strings.Repeat("L", 46): `expected at most a letter for each of layers = 45, not 46`,
	} {
		m.LayerPattern = pattern
		if got := fmt.Sprint(input.Faults(m)); want == "" && got != "[]" || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", pattern, got, want)
		}
	}
	m.LayerPattern, m.Window = "L", 0
	if got := fmt.Sprint(input.Faults(m)); !strings.Contains(got, `layer_pattern = "L": expected a letter L or C with model.window above 0, none with 0: it is 0`) {
		t.Error(got)
	}
}

// llama4 returns config.json of Llama 4 Scout or Maverick. Newer files list the layers with rotary positions, all but every fourth, or the
// kind of attention of each layer.
func llama4(step, experts int, more string) string {
	return fmt.Sprintf(`{"architectures": ["Llama4ForConditionalGeneration"], "model_type": "llama4", "text_config": {"attention_chunk_size": 8192, "head_dim": 128,
		"hidden_size": 5120, "interleave_moe_layer_step": %d, "intermediate_size": 8192, "intermediate_size_mlp": 16384, "max_position_embeddings": 1048576,
		"model_type": "llama4_text", "num_attention_heads": 40, "num_experts_per_tok": 1, "num_hidden_layers": 48, "num_key_value_heads": 8, "num_local_experts": %d,
		"vocab_size": 202048%s}}`, step, experts, more)
}

// TestLlama4: parameters of Llama 4 by hand, and which layers attend within chunks. 20,000 tokens are stored in 12 layers, 8,192 in 36
// layers, at 4,096 bytes a token. A chunk as long as the longest context is none.
func TestLlama4(t *testing.T) {
	const (
		all     = 2*202048*5120 + 48*5120*128*(40+8+8+40)
		experts = 3 * 5120 * 8192
		router  = 5120
		dense   = 3 * 5120 * 16384
	)
	rotary, types := strings.TrimSuffix(strings.Repeat("1,1,1,0,", 12), ","), strings.ReplaceAll(layerTypes(strings.Repeat("LLLG", 12)), "sliding", "chunked")
	for _, more := range []string{"", `, "no_rope_layers": []`, `, "no_rope_layers": [` + rotary + `]`, `, "layer_types": ` + types, `, "moe_layers": []`} {
		for _, c := range []struct {
			step, experts     int
			total, active     int64
			billions, oneTook float64
		}{
			{1, 16, all + 48*(16*router+17*experts), all + 48*(16*router+2*experts), 107.77, 17.17},
			{2, 128, all + 24*(128*router+129*experts+dense), all + 24*(128*router+2*experts+dense), 400.71, 17.18},
		} {
			m, err := FromHuggingFace([]byte(llama4(c.step, c.experts, more)))
			if err != nil {
				t.Fatal(err)
			}
			got, active := m.Parameters(), m.ActiveParameters()
			if got != c.total || active != c.active || fmt.Sprintf("%.2f %.2f", float64(got)/1e9, float64(active)/1e9) != fmt.Sprint(c.billions, " ", c.oneTook) {
				t.Errorf("%d experts: %d parameters, %d of a token, want %d, %d", c.experts, got, active, c.total, c.active)
			}
			if want := (LayerKinds{Window: 8192, LayerPattern: "CCCG"}); m.LayerKinds != want || m.WindowedLayers() != 36 {
				t.Errorf("%s: %+v in %d layers, want %+v", more, m.LayerKinds, m.WindowedLayers(), want)
			}
			if got := m.KVBytes(20000); got != (12*20000+36*8192)*4096 {
				t.Errorf("20,000 tokens have %d bytes", got)
			}
			if m.Name, m.TensorParallel = "llama4", 8; len(input.Faults(m)) > 0 {
				t.Error(input.Faults(m))
			}
		}
	}
	for more, want := range map[string]string{
		`, "attention_chunk_size": 1048576`: "{ 0 0 0 {0 0 0}}", `, "attention_chunk_size": null`: "{ 0 0 0 {0 0 0}}", `, "no_rope_layer_interval": 3`: "{CCG 8192 0 0 {0 0 0}}",
		`, "no_rope_layer_interval": 1`: "{ 0 0 0 {0 0 0}}", `, "no_rope_layers": [0, ` + rotary[2:] + `]`: "{GCCG" + strings.Repeat("CCCG", 10) + "CCC 8192 0 0 {0 0 0}}",
		`, "no_rope_layers": [1, 0]`:                   "no_rope_layers = [1,0]: expected num_hidden_layers = 48 entries, not 2",
		`, "no_rope_layers": [2, ` + rotary[2:] + `]`:  "expected 0 or 1 for each layer, not 2",
		`, "layer_types": []`:                          "layer_types = []: expected num_hidden_layers = 48 entries, not 0",
		`, "layer_types": ["sliding_attention"]`:       `expected "chunked_attention" or "full_attention" for each layer, not "sliding_attention"`,
		`, "moe_layers": [0.5]`:                        "moe_layers = [0.5]: expected whole numbers, from 0 on",
		`, "intermediate_size_mlp": null`:              "intermediate_size_mlp: expected this key",
		`, "attention_chunk_size": "long"`:             `attention_chunk_size = "long": expected a whole number`,
		`, "num_experts_per_tok": 200`:                 "num_experts_per_tok = 200: expected at most num_local_experts = 128",
		`, "quantization_config": {"quant_method": 3}`: "quantization_config",
	} {
		m, err := FromHuggingFace([]byte(llama4(2, 128, more)))
		if err == nil && fmt.Sprint(m.LayerKinds) != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %s", more, m, err, want)
		}
	}
}

// TestChunkTokens: the tokens that one token, or several drafts together, read in a layer with chunks, counted one by one. The pieces of a
// prompt have all its tokens and exactly as many pairs of tokens as the mask.
func TestChunkTokens(t *testing.T) {
	for n := 1; n < 8; n++ {
		w := LayerKinds{Window: n, LayerPattern: "C"}
		attends := func(token, to int) bool { return to <= token && to/n == token/n }
		for context := 1; context < 30; context++ {
			for last := 1; last <= min(context, 4); last++ {
				read := 0
				for to := range context {
					for token := context - last; token < context; token++ {
						if attends(token, to) {
							read++
							break
						}
					}
				}
				if got := w.WindowTokens(context, last); got != read || got > n+last-1 {
					t.Errorf("chunks of %d: the last %d tokens of %d read %d, want %d", n, last, context, got, read)
				}
			}
		}
		for chunk := range 30 {
			for finished := range 20 {
				pairs, tokens, got := 0, 0, 0
				for token := finished; token < finished+chunk; token++ {
					for to := range token + 1 {
						if attends(token, to) {
							pairs++
						}
					}
				}
				for _, p := range w.PromptPieces(chunk, finished) {
					tokens += p.Count * p.Tokens
					got += p.Count * (p.Tokens*p.Behind + p.Tokens*(p.Tokens+1)/2)
				}
				if tokens != chunk || got != pairs {
					t.Errorf("chunks of %d, %d tokens after %d: pieces have %d tokens and %d pairs, want %d pairs", n, chunk, finished, tokens, got, pairs)
				}
			}
		}
	}
}

// TestHeadsByKind: models whose layers with a window have other heads than those without, by hand. MiMo-V2-Flash has 8 KV heads in 39
// layers and 4 in 9, with keys of 192 and values of 128. Gemma 4 26B-A4B has 8 KV heads of 256 in 25 layers and 2 of 512 in 5, and a dense
// network of 2,112 beside the experts of each layer.
func TestHeadsByKind(t *testing.T) {
	mimo, gemma := publishedModel(t, "XiaomiMiMo/MiMo-V2-Flash"), publishedModel(t, "google/gemma-4-26B-A4B")
	const (
		mimoAttention  = 4096 * (39*(64+8) + 9*(64+4)) * (192 + 128)
		mimoNetworks   = 3*4096*16384 + 47*(4096*256+256*3*4096*2048)
		gemmaAttention = 2816 * (25*(16+8)*512 + 5*(16+2)*1024)
		gemmaNetworks  = 30 * (2816*128 + 3*2816*(128*704+2112))
	)
	for _, c := range []struct {
		m             *Model
		parameters    int64
		token, window int64 // bytes of a token in a layer without and with a window
		tokens        int64 // bytes of 10,000 tokens
	}{
		{mimo, 2*152576*4096 + mimoAttention + mimoNetworks, 4 * 320 * 2, 8 * 320 * 2, 9*10000*2560 + 39*128*5120},
		{gemma, 262144*2816 + gemmaAttention + gemmaNetworks, 2 * 1024 * 2, 8 * 512 * 2, 5*10000*4096 + 25*1024*8192},
	} {
		if got := c.m.Parameters(); got != c.parameters {
			t.Errorf("%s: %d parameters, want %d", c.m.Name, got, c.parameters)
		}
		local, _ := c.m.storedBytes(Local)
		if got := int64(c.m.KVBytesPerTokenLayer()); got != c.token || int64(local) != c.window || int64(c.m.KVBytes(10000)) != c.tokens {
			t.Errorf("%s: %d and %d bytes of a token, %d of 10,000; want %d, %d, %d", c.m.Name, got, local, c.m.KVBytes(10000), c.token, c.window, c.tokens)
		}
		if !c.m.HeadsDiffer() {
			t.Errorf("%s: heads are alike", c.m.Name)
		}
	}
	// On four GPUs, a Gemma 4 layer without a window stores each of its 2 KV heads twice.
	before := gemma.WeightBytes()
	gemma.TensorParallel = 4
	if got := gemma.WeightBytes() - before; got != 2*5*2816*2*1024 {
		t.Errorf("on four GPUs weights take %d bytes more, want %d", got, 2*5*2816*2*1024)
	}
	for _, gpus := range []int{1, 2, 4, 8, 16} {
		if gemma.SplitsOver(gpus) != (gpus <= 16) || mimo.SplitsOver(gpus) != true {
			t.Errorf("%d GPUs", gpus)
		}
	}
	if mimo.SplitsOver(3) || gemma.SplitsOver(32) {
		t.Error("heads split over 3 or 32 GPUs")
	}
	for want, change := range map[string]func(m *Model){
		"window_kv_heads = 3: expected a divisor of heads = 64":              func(m *Model) { m.WindowKVHeads = 3 },
		"window_kv_heads = 8: expected 0 without model.window":               func(m *Model) { m.Window, m.LayerPattern = 0, "" },
		"window_head_dim = 1000: expected 0 for model.head_dim, or 8 to 512": func(m *Model) { m.WindowHeadDim = 1000 },
		"window_head_dim = 64: expected 0 without model.window":              func(m *Model) { m.WindowHeadDim, m.Window, m.LayerPattern = 64, 0, "" },
		"value_dim = -1: expected":                                           func(m *Model) { m.ValueDim = -1 },
	} {
		m := *mimo
		if change(&m); !strings.Contains(fmt.Sprint(input.Faults(&m)), want) {
			t.Errorf("%v\nwant %s", input.Faults(&m), want)
		}
	}
}
