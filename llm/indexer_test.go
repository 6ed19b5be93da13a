package llm

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
)

// publishedModel reads one of the published configurations.
func publishedModel(t *testing.T, name string) *Model {
	t.Helper()
	var texts map[string]json.RawMessage
	if err := json.Unmarshal(publishedConfigs, &texts); err != nil {
		t.Fatal(err)
	}
	m, err := FromHuggingFace(texts[name])
	if err != nil {
		t.Fatal(err)
	}
	m.Name, m.TensorParallel = name, 1
	return m
}

// TestIndexersByHand: an indexer of DeepSeek V3.2 has 13.96 million weights a layer (1,536 x 64 x 128 for queries, 7,168 x 128 for keys,
// 7,168 x 64 for the heads' weights), and a token stores 1,152 + 132 bytes. 57 of GLM-5.2's 78 layers have no indexer. Every GPU has all
// indexers.
func TestIndexersByHand(t *testing.T) {
	for name, want := range map[string]struct {
		layers  int
		weights int64
		token   int64
	}{
		"deepseek-ai/DeepSeek-V3.2": {61, 1536*64*128 + 7168*(128+64), 61 * (1152 + 132)},
		"zai-org/GLM-5":             {78, 2048*32*128 + 6144*(128+32), 78 * (1152 + 132)},
		"zai-org/GLM-5.2":           {21, 2048*32*128 + 6144*(128+32), 78*1152 + 21*132},
	} {
		m := publishedModel(t, name)
		if got := m.indexersParameters(1); m.CountLayers("I") != want.layers || got != int64(want.layers)*want.weights {
			t.Errorf("%s: %d layers with an indexer, %d weights; want %d, %d", name, m.CountLayers("I"), got, want.layers, int64(want.layers)*want.weights)
		}
		if got := int64(m.KVBytesPerToken()); got != want.token || int64(m.KVBytes(10)) != 10*want.token {
			t.Errorf("%s: %d bytes of a token, %d of ten; want %d", name, got, m.KVBytes(10), want.token)
		}
		if got := int64(m.KVBytesPerTokenLayer()); got != 1152 {
			t.Errorf("%s: %d bytes of keys and values, want 1152", name, got)
		}
		without := *m
		without.LayerKinds = LayerKinds{}
		each := int64(want.layers) * want.weights * 2 // bytes
		if strings.HasSuffix(name, "V3.2") {
			each = each/2 + each/2/4096 // the checkpoint has 8 bits a weight and a scale of 32 bits for 128 × 128 weights
		}
		for _, gpus := range []int{1, 8} {
			m.TensorParallel, without.TensorParallel = gpus, gpus
			if got := int64(m.WeightBytes() - without.WeightBytes()); got != int64(gpus)*each {
				t.Errorf("%s on %d GPUs: indexers take %d bytes, want %d", name, gpus, got, int64(gpus)*each)
			}
		}
		m.TensorParallel = 1
		if faults := input.Faults(m); len(faults) > 0 {
			t.Errorf("%s: %v", name, faults)
		}
	}
}

// sparse returns config.json of a small model with an indexer.
func sparse(more string) string {
	return `{"model_type": "glm_moe_dsa", "hidden_size": 64, "intermediate_size": 96, "moe_intermediate_size": 32, "n_routed_experts": 4, "num_experts_per_tok": 2,
		"num_hidden_layers": 12, "num_attention_heads": 4, "vocab_size": 100, "kv_lora_rank": 32, "q_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8,
		"v_head_dim": 8` + more + `}`
}

// TestIndexedLayers: which layers have an indexer, as files describe it, and descriptions with faults.
func TestIndexedLayers(t *testing.T) {
	const index = `, "index_topk": 6, "index_n_heads": 2, "index_head_dim": 8`
	quote := func(kinds string) string {
		var all []string
		for _, k := range kinds {
			all = append(all, map[rune]string{'I': `"full"`, 'S': `"shared"`}[k])
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	for more, want := range map[string]string{
		"":    "",
		index: "IIIIIIIIIIII",
		index + `, "index_topk_freq": 4, "index_skip_topk_offset": 3`:       "IIISSSISSSIS",
		index + `, "index_topk_freq": 4`:                                    "ISSSISSSISSS",
		index + `, "index_topk_freq": 1, "index_skip_topk_offset": 3`:       "IIIIIIIIIIII",
		index + `, "indexer_types": ` + quote("IIISSSISSSIS"):               "IIISSSISSSIS",
		index + `, "index_topk_pattern": "FFSSFFSSFFSS"`:                    "IISSIISSIISS",
		index + `, "index_topk_pattern": "FFSS"`:                            `index_topk_pattern = "FFSS": expected a letter F or S for each of num_hidden_layers = 12 layers`,
		index + `, "index_topk_pattern": "FFSSFFSSFFSX"`:                    "expected a letter F or S",
		index + `, "indexer_types": ["full"]`:                               "expected num_hidden_layers = 12 entries, not 1",
		index + `, "indexer_types": ` + quote("SIISSSISSSIS"):               "expected an indexer in the first layer: there is no choice before it to share",
		index + `, "indexer_types": ["full", [1]]`:                          `expected "full" or "shared" for each layer, not [1]`,
		`, "index_topk": 6, "index_n_heads": 2`:                             `index_head_dim: expected this key of model_type "glm_moe_dsa", which is missing`,
		`, "index_n_heads": 2, "index_head_dim": 8`:                         `expected this key of model_type "glm_moe_dsa"`,
		`, "index_topk": 0.5, "index_n_heads": 2, "index_head_dim": 8`:      `index_topk = 0.5: expected a whole number`,
		`, "kv_lora_rank": null, "num_key_value_heads": 4` + index:          `index_topk = 6: expected a model without an indexer beside keys and values of heads, which is not modelled`,
		index + `, "index_topk_freq": "x"`:                                  `index_topk_freq = "x": expected a whole number`,
		index + `, "index_topk_freq": 2, "index_skip_topk_offset": "first"`: `index_skip_topk_offset = "first": expected a whole number`,
	} {
		m, err := FromHuggingFace([]byte(sparse(more)))
		if err != nil {
			if len(want) < 13 || !strings.Contains(err.Error(), want) {
				t.Errorf("%s:\ngot  %v\nwant %s", more, err, want)
			}
			continue
		}
		var got []byte
		for layer := range m.Layers {
			got = append(got, m.Kind(layer))
		}
		if want == "" {
			want = strings.Repeat("G", 12)
		}
		if string(got) != want {
			t.Errorf("%s: layers %s, want %s", more, got, want)
		}
		if m.Name, m.TensorParallel = "sparse", 2; len(input.Faults(m)) > 0 {
			t.Error(more, input.Faults(m))
		}
	}
}

// TestIndexerRules: limits of an indexer's keys.
func TestIndexerRules(t *testing.T) {
	base := publishedModel(t, "zai-org/GLM-5.2")
	for want, change := range map[string]func(m *Model){
		"[]": func(*Model) {},
		"index_top_k = 2048: expected 0 without model.latent_dim: indexers are modelled beside latents": func(m *Model) { m.Latent, m.KVHeads, m.HeadDim = Latent{}, 64, 128 },
		"index_heads = 0: expected at least 1 with model.index_top_k, 0 without: it is 2048":            func(m *Model) { m.IndexHeads = 0 },
		"index_dim = 128: expected at least 1 with model.index_top_k, 0 without: it is 0":               func(m *Model) { m.LayerPattern, m.IndexTopK, m.IndexHeads = "", 0, 0 },
		"expected I before the first S, which shares the choice of an I":                                func(m *Model) { m.LayerPattern = "GSI" },
		"expected a letter I with model.index_top_k above 0, neither I nor S with 0: it is 2048":        func(m *Model) { m.LayerPattern = "G" },
	} {
		m := *base
		if change(&m); !strings.Contains(fmt.Sprint(input.Faults(&m)), want) {
			t.Errorf("%v\nwant %s", input.Faults(&m), want)
		}
	}
}

// TestIndexingByCounting counts the pairs that are scored and the rows that are chosen, token by token, for a step and for a chunk.
func TestIndexingByCounting(t *testing.T) {
	const topK = 5
	x := Indexer{IndexHeads: 1, IndexDim: 1, IndexTopK: topK}
	for finished := range 12 {
		for chunk := 1; chunk < 12; chunk++ {
			end := finished + chunk
			var rows, pairs int64
			for token := finished; token < end; token++ {
				rows, pairs = rows+int64(min(token+1, topK)), pairs+int64(token+1)
			}
			wantChosen, want := Chosen{chunk, topK, rows}, Indexing{1, chunk, int64(end), end, pairs, topK, false}
			if end <= topK {
				wantChosen, want = Chosen{}, Indexing{}
			}
			if chosen, scores := x.Prompt(chunk, finished); chosen != wantChosen || scores != want {
				t.Errorf("%d tokens after %d: %+v, %+v; want %+v, %+v", chunk, finished, chosen, scores, wantChosen, want)
			}
		}
	}
	var step Indexing
	for _, context := range []int{3, 5, 6, 40} {
		x.Add(&step, context, 1)
	}
	if want := (Indexing{2, 1, 46, 40, 46, topK, true}); step != want {
		t.Errorf("%+v, want %+v", step, want)
	}
}

// TestRowFormats: bytes of a row of DeepSeek V3.2: 576 elements of 16 or 8 bits, or 512 of 8 bits with four scales and 64 of 16 bits.
func TestRowFormats(t *testing.T) {
	m := publishedModel(t, "deepseek-ai/DeepSeek-V3.2")
	for format, want := range map[KVFormat]int64{"": 1152, BF16: 1152, FP8: 576, FP8Latent: 656, INT8: 580} {
		m.KVFormat = format
		if got := int64(m.KVBytesPerTokenLayer()); got != want {
			t.Errorf("%q: %d bytes of a row, want %d", format, got, want)
		}
		if faults := input.Faults(m); len(faults) > 0 {
			t.Errorf("%q: %v", format, faults)
		}
	}
	dense := publishedModel(t, "Qwen/Qwen3-8B")
	if dense.KVFormat = FP8Latent; !strings.Contains(fmt.Sprint(input.Faults(dense)), "expected another format without model.latent_dim: it is of latents") {
		t.Error(input.Faults(dense))
	}
}
