package llm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// TestWindowTokensByHand: the tokens that the last tokens of a context read in a layer with 10 of them, one or three tokens at a time,
// where the window slides with each token and where the context is cut into chunks.
func TestWindowTokensByHand(t *testing.T) {
	for _, c := range []struct{ context, last, moves, chunks int }{
		{5, 1, 5, 5}, {10, 1, 10, 10}, {11, 1, 10, 1}, {25, 1, 10, 5}, {11, 3, 11, 11}, {12, 3, 12, 12}, {13, 3, 12, 3}, {30, 3, 12, 10}, {31, 3, 12, 11}, {2, 3, 2, 2},
	} {
		w := LayerKinds{Window: 10, LayerPattern: "LLG"}
		moves := w.WindowTokens(c.context, c.last)
		w.LayerPattern = "CCG"
		if chunks := w.WindowTokens(c.context, c.last); moves != c.moves || chunks != c.chunks {
			t.Errorf("%+v: %d and %d tokens", c, moves, chunks)
		}
	}
	w := LayerKinds{Window: 10, LayerPattern: "LLG"}
	if got := w.PromptPieces(25, 4); got != [3]Piece{{1, 6, 4}, {1, 10, 5}, {1, 9, 5}} { // six fill the window, 19 remain
		t.Errorf("%v", got)
	}
	if got := WindowPieces(10, 20, 10); got != [3]Piece{{}, {2, 10, 5}, {}} {
		t.Errorf("%v", got)
	}
	w.LayerPattern = "CCG"
	if got := w.PromptPieces(25, 4); got != [3]Piece{{1, 6, 4}, {1, 10, 0}, {1, 9, 0}} {
		t.Errorf("%v", got)
	}
	for layer, want := range []bool{true, true, false, true, true, false} {
		for _, pattern := range []string{"LLG", "CCG", "LLI", "LLS"} {
			if w := (LayerKinds{Window: 10, LayerPattern: pattern}); w.Windowed(layer) != want || w.Kind(layer) != pattern[layer%3] || w.Chunked() != (pattern == "CCG") {
				t.Errorf("layer %d of %s has the window: %t", layer, pattern, !want)
			}
		}
		for _, k := range []struct {
			w    LayerKinds
			want byte
		}{{LayerKinds{}, Global}, {LayerKinds{Window: 1}, Local}, {LayerKinds{Indexer: Indexer{IndexTopK: 9}}, Indexed}} {
			if got := k.w.Kind(layer); got != k.want || k.w.Windowed(layer) != (k.want == Local) || k.w.Chunked() {
				t.Errorf("layer %d of %+v is of kind %c", layer, k.w, got)
			}
		}
	}
}

// TestLoadedExpertsByHand: experts of 4 bits on two GPUs, padded to tiles of 4,096 by 1,024, so that 100 by 75 takes one tile on each. A
// quarter of the weights stays in 16 bits, without scales. The scales, one for 32 weights, are stored twice.
func TestLoadedExpertsByHand(t *testing.T) {
	m := mixtral()
	m.Layers, m.Hidden, m.FFNHidden, m.Heads, m.KVHeads, m.HeadDim, m.Vocab, m.SharedFFN = 5, 100, 149, 10, 10, 10, 7, 30
	m.ExpertBits, m.KeptNetwork, m.ExpertScaleCopies = 4, 0.25, 2
	plain := m.parameters()
	attention, experts, shared, router := 4*100*100., 8*3*100*149., 3*30*100., 8*100.
	if want := 2*7*100 + 5*(attention+experts+shared+router); plain != want {
		t.Errorf("%v parameters, by hand %v", plain, want)
	}
	if hidden, ffn := m.LoadedExpert(); hidden != 100 || ffn != 75 {
		t.Errorf("%d by %d", hidden, ffn)
	}
	weights := 8. * 3 * 100 * 75 * 2
	if got, want := m.spareScales(), units.Bytes(2*int64(weights*0.75/32)); got != want {
		t.Errorf("%d B of scales besides, by hand %d", got, want)
	}
	m.ExpertTileHidden, m.ExpertTileFFN = 4096, 1024
	if hidden, ffn := m.LoadedExpert(); hidden != 4096 || ffn != 1024 {
		t.Errorf("%d by %d", hidden, ffn)
	}
	weights = 8. * 3 * 4096 * 1024 * 2
	if got, want := m.spareScales(), units.Bytes(2*int64(weights*0.75/32)); got != want {
		t.Errorf("%d B of scales besides, by hand %d", got, want)
	}
	if got, want := m.parameters(), 2*7*100+5*(attention+weights+shared+router); got != want {
		t.Errorf("%v parameters in tiles, by hand %v", got, want)
	}
	m.ExpertTileHidden = 0
	if !m.padded() {
		t.Error("tiles of one side are tiles")
	}
	m.ExpertTileFFN = 0
	if m.padded() {
		t.Error("without tiles nothing is larger")
	}
	for what, change := range map[string]func(m *Model){"copies": func(m *Model) { m.ExpertScaleCopies = 0 }, "scales": func(m *Model) { m.ExpertBits = 16 }, "experts": func(m *Model) { m.Experts = 0 }} {
		other := *m
		if change(&other); other.spareScales() != 0 {
			t.Errorf("without %s %d B of scales besides", what, other.spareScales())
		}
	}
}

// TestLatentActivationsByHand: two GPUs share four heads. A decode step has 40 + 32 elements of each head, a prompt twice 6 + 8 + 5. Each
// GPU has a token's latent and compressed query. With wider heads the prompt needs more.
func TestLatentActivationsByHand(t *testing.T) {
	m := &Model{Layers: 1, Hidden: 10, Heads: 4, KVHeads: 1, HeadDim: 40, FFNHidden: 1, Vocab: 3, ElementBits: 16, TensorParallel: 2}
	m.LatentDim, m.NopeDim, m.ValueDim, m.QueryRank = 32, 6, 5, 7
	if m.RopeDim() != 8 {
		t.Fatal(m.RopeDim())
	}
	for nope, want := range map[int]int64{6: 4*(40+32) + 2*(40+7), 60: 4*2*(60+8+5) + 2*(40+7)} {
		if m.NopeDim = nope; m.latentActivations(4) != want {
			t.Errorf("%d elements, by hand %d", m.latentActivations(4), want)
		}
	}
	m.NopeDim = 6
	if got, want := m.ActivationBytes(5), units.Bytes(5*2*(2*20+4*(40+32)+2*(40+7))); got != want {
		t.Errorf("%v, by hand %v", got, want)
	}
}

// TestDealsByHand: which GPUs share KV heads, and the message if no number of query heads for each KV head would divide evenly.
func TestDealsByHand(t *testing.T) {
	for _, c := range []struct {
		heads, kv, gpus int
		want            bool
	}{{28, 4, 0, false}, {28, 4, -4, false}, {28, 4, 2, true}, {28, 4, 3, false}, {28, 4, 28, true}, {28, 4, 32, false}, {4, 4, 8, false}, {8, 4, 8, true}} {
		m := Model{Heads: c.heads, KVHeads: c.kv}
		if m.SplitsOver(c.gpus) != c.want {
			t.Errorf("%+v: %t", c, !c.want)
		}
	}
	for heads, want := range map[int]string{7: "a divisor of kv_heads = 4", 8: "a divisor of kv_heads = 4, or a multiple of it up to heads = 8"} {
		m := Model{Heads: heads, KVHeads: 4}
		if got := m.Splits(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	// 13 elements of half a byte take seven bytes, plus their scales.
	m := Model{KVHeads: 2, HeadDim: 13, ElementBits: 16}
	m.KVBits = 4
	if got := m.KVBytesPerTokenLayer(); got != units.Bytes(2*2*(7+m.KVScaleBytes())) {
		t.Errorf("a token takes %v", got)
	}
	if (&Model{Heads: 3}).QueryGroup() != 3 || (&Model{TensorParallel: 3}).KVReplicas() != 3 {
		t.Error("of a model without KV heads")
	}
}

// TestNetworkRules: layers with other networks need a model with experts and a width of their own, and must be fewer than all layers.
func TestNetworkRules(t *testing.T) {
	for what, c := range map[string]struct {
		change func(m *Model)
		bad    string
	}{
		"as it is":        {func(*Model) {}, ""},
		"dense layers":    {func(m *Model) { m.DenseLayers, m.DenseFFN = 31, 5 }, ""},
		"all layers":      {func(m *Model) { m.DenseLayers, m.DenseFFN = 32, 5 }, "dense_layers = 32: expected fewer than layers = 32"},
		"no width":        {func(m *Model) { m.DenseLayers = 3 }, "dense_ffn_hidden = 0: expected a width with model.dense_layers, 0 without: it is 3"},
		"a width alone":   {func(m *Model) { m.DenseFFN = 3 }, "dense_ffn_hidden = 3: expected a width with"},
		"without experts": {func(m *Model) { m.Experts, m.ActiveExperts, m.DenseLayers, m.DenseFFN = 0, 0, 3, 5 }, "dense_layers = 3: expected 0 without model.experts"},
		"shared":          {func(m *Model) { m.Experts, m.ActiveExperts, m.SharedFFN = 0, 0, 5 }, "shared_ffn_hidden = 5: expected 0 without model.experts"},
		"widest":          {func(m *Model) { m.SharedFFN = 1<<24 + 1 }, "shared_ffn_hidden = 16777217: expected 0 to 16777216"},
		"all experts":     {func(m *Model) { m.ActiveExperts = 8 }, ""},
		"too many":        {func(m *Model) { m.ActiveExperts = 9 }, "active_experts = 9: expected 1 to experts = 8"},
		"none":            {func(m *Model) { m.ActiveExperts = 0 }, "active_experts = 0: expected 1 to"},
		"most experts":    {func(m *Model) { m.Experts = 4097 }, "experts = 4097: expected 0 to 4096"},
		"skew":            {func(m *Model) { m.ExpertSkew = 4.5 }, "expert_skew = 4.5: expected 0 to 4"},
		"copies":          {func(m *Model) { m.ExpertScaleCopies = 9 }, "expert_scale_copies = 9: expected 0 to 8"},
		"a window alone":  {func(m *Model) { m.Window, m.LayerPattern = 9, "GG" }, `layer_pattern = "GG": expected a letter L or C with model.window above 0, none with 0: it is 9`},
		"no window":       {func(m *Model) { m.LayerPattern = "GG" }, ""},
		"two orders":      {func(m *Model) { m.Window, m.LayerPattern = 9, "LCG" }, `layer_pattern = "LCG": expected L or C, not both`},
		"chunks":          {func(m *Model) { m.LayerPattern = "CG" }, `layer_pattern = "CG": expected a letter L or C with model.window above 0, none with 0: it is 0`},
	} {
		m := mixtral()
		c.change(m)
		if err := m.check(&input.Check{}); (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%s: %v, want %q", what, err, c.bad)
		}
	}
	one := Model{Layers: 9, FFNHidden: 7, Experts: 4, ActiveExperts: 2}
	one.DenseLayers, one.DenseFFN, one.SharedFFN = 3, 11, 5
	if got := fmt.Sprint(one.Networks(), one.mixture()); got != "[{3 11 0 0 0} {6 7 4 2 5}] {6 7 4 2 5}" {
		t.Error(got)
	}
}

// TestFormatsByHand: bits of weights and of activations, and the weights for each byte of scales, for the names of formats in files.
func TestFormatsByHand(t *testing.T) {
	const shape = `"_name_or_path": "a/b", "model_type": "llama", "hidden_size": 64, "intermediate_size": 100, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 10`
	group := func(more string) string {
		return `{"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"], ` + more + `}}}`
	}
	for quant, want := range map[string]string{
		group(`"weights": {"num_bits": 4, "type": "float", "group_size": 16}, "input_activations": {"num_bits": 4, "type": "float"}`):                                                   "4 8 16 b-4bit",
		group(`"weights": {"num_bits": 4, "type": "int", "group_size": 32}, "input_activations": {"num_bits": 16, "type": "float"}`):                                                    "4 0 16 b-4bit",
		group(`"weights": {"num_bits": 8, "type": "float", "group_size": 32}, "input_activations": null`):                                                                               "8 0 16 b-fp8",
		group(`"weights": {"num_bits": 8, "type": "int"}, "input_activations": {"num_bits": 8, "type": "int"}`):                                                                         "8 8 0 b-int8",
		group(`"weights": {"num_bits": 3, "type": "int"}`):                                                                                                                              "refused",
		`{"quant_method": "compressed-tensors", "config_groups": {}}`:                                                                                                                   "refused",
		`{"quant_method": "compressed-tensors", "config_groups": {"a": {"targets": ["Linear"], "weights": {"num_bits": 8}}, "b": {"targets": ["Linear"], "weights": {"num_bits": 8}}}}`: "refused",
		`{"quant_method": "compressed-tensors", "config_groups": {"a": {"targets": ["re:.*mlp.*"], "weights": {"num_bits": 8}}}}`:                                                       "refused",
		`{"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": false}`:                                                                                                    "4 0 64 b-4bit",
		`{"quant_method": "awq", "bits": 4, "group_size": 128}`:                                                                                                                         "4 0 51 b-4bit",
		`{"quant_method": "gptq", "bits": 4, "group_size": 128, "zero_point": false}`:                                                                                                   "4 0 51 b-4bit",
		`{"quant_method": "gptq", "bits": 8, "group_size": 32}`:                                                                                                                         "8 0 10 b-int8",
		`{"quant_algo": "W4A16_AWQ", "group_size": 64}`:                                                                                                                                 "4 0 32 b-4bit",
		`{"quant_algo": "NVFP4"}`: "4 8 16 b-4bit",
		`{"quant_method": "fp8", "kv_cache_scheme": {"num_bits": 8, "type": "int"}}`:   "refused",
		`{"quant_method": "fp8", "kv_cache_scheme": {"num_bits": 4, "type": "float"}}`: "refused",
		`{"quant_method": "fp8", "kv_cache_scheme": "FP8"}`:                            "8 8 0 b-fp8 fp8",
	} {
		m, err := FromHuggingFace([]byte(`{` + shape + `, "quantization_config": ` + quant + `}`))
		got := "refused"
		if err == nil {
			got = strings.TrimSpace(fmt.Sprint(m.WeightBits, m.ActivationBits, m.WeightBlock) + " " + m.Name + " " + string(m.KVFormat))
		}
		if got != want {
			t.Errorf("%s: %s, want %s; %v", quant, got, want, err)
		}
	}
	// A name that already gives the bits stays as it is.
	m, err := FromHuggingFace([]byte(strings.Replace(`{`+shape+`, "quantization_config": {"quant_method": "fp8"}}`, "a/b", "a/B-INT8", 1)))
	if err != nil || m.Name != "B-INT8" {
		t.Errorf("%+v; %v", m, err)
	}
	// ModelOpt's file counts if config.json says nothing. A file that cannot be read, or says nothing either, does not.
	for _, c := range []struct{ text, beside, want string }{
		{`{` + shape + `, "quantization_config": {"quant_method": "fp8"}}`, `{"quantization": {"quant_algo": "NVFP4"}}`, "8"},
		{`{` + shape + `}`, `{"quantization": {"quant_algo": "NVFP4"}}`, "4"}, {`{` + shape + `}`, `{"quantization": {"kv_cache_quant_algo": "FP8"}}`, "0"},
		{`{` + shape, `{"quantization": {"quant_algo": "NVFP4"}}`, "refused"}, {`{` + shape + `}`, `{"quantization": {"quant_algo": "other"}}`, "refused"},
	} {
		m, _, _, err := FromCheckpoint([]byte(c.text), "hf_quant_config.json", []byte(c.beside))
		got := "refused"
		if err == nil {
			got = fmt.Sprint(m.WeightBits)
		}
		if got != c.want {
			t.Errorf("%s beside %s: %s, want %s; %v", c.beside, c.text, got, c.want, err)
		}
	}
}

// TestShapesOfFiles: keys that change how a file is read, or refuse it.
func TestShapesOfFiles(t *testing.T) {
	const shape = `"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 4, "vocab_size": 10, "intermediate_size": 100`
	for _, c := range []struct{ keys, want string }{
		{`"model_type": "llama", "max_position_embeddings": 100, "rope_scaling": {"type": "linear", "factor": -2.0}`, "100 0"},
		{`"model_type": "llama", "max_position_embeddings": 16777216, "rope_scaling": {"type": "linear", "factor": 64.1}`, "16777216 0"},
		{`"model_type": "llama", "max_position_embeddings": 16777216, "rope_scaling": {"type": "linear", "factor": 64.0}`, "1073741824 0"},
		{`"model_type": "llama", "max_position_embeddings": 100, "rope_scaling": {"type": "linear", "factor": 2.0, "original_max_position_embeddings": 7}`, "200 0"},
		{`"model_type": "exaone4", "num_key_value_heads": 4, "sliding_window": 20, "sliding_window_pattern": "LG", "max_position_embeddings": 100`, "100 20LG"},
		{`"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 20, "max_window_layers": 9, "max_position_embeddings": 100`, "100 0"},
		{`"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 20, "max_window_layers": 3, "max_position_embeddings": 100`, "100 20GGGL"},
		{`"model_type": "new", "head_dim": 16, "v_head_dim": 16`, "0 0"}, {`"model_type": "new", "v_head_dim": 8`, "0 0"},
		{`"model_type": "new", "layer_types": ["recurrent", "full_attention"]`, "refused"}, {`"model_type": "new", "layer_types": ["mamba", "full_attention"]`, "refused"},
	} {
		m, err := FromHuggingFace([]byte(`{` + shape + `, ` + c.keys + `}`))
		got := "refused"
		if err == nil {
			got = fmt.Sprint(m.Context, " ", m.Window, m.LayerPattern)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s; %v", c.keys, got, c.want, err)
		}
	}
	for _, c := range []struct {
		v, none any
		want    bool
	}{
		{nil, nil, true}, {false, nil, true}, {0.0, nil, true}, {"", nil, true}, {1.0, 1.0, true}, {1.0, nil, false}, {true, nil, false}, {"x", nil, false}, {[]any{}, nil, true}, {[]any{1.0, 1.0}, 1.0, true},
		{[]any{1.0, 2.0}, 1.0, false}, {[]any{1.0}, nil, false}, {[]any{nil}, nil, false}, {map[string]any{}, nil, true}, {map[string]any{"a": 1}, nil, false},
	} {
		if isNone(c.v, c.none) != c.want {
			t.Errorf("%v is none beside %v: %t", c.v, c.none, !c.want)
		}
	}
	for what, want := range map[string]string{"a gate": "is", "an index": "is", "cross-attention": "is", "layers of linear attention": "are", "values": "are"} {
		if got := without(what); got != "a model without "+what+", which "+want+" not modelled" {
			t.Error(got)
		}
	}
	whole := map[string]any{"hidden_size": 1.0, "num_hidden_layers": 1.0, "num_attention_heads": 1.0, "vocab_size": 1.0}
	if likeLlama(whole) {
		t.Error("keys without a width are Llama's")
	}
	for _, key := range append([]string{"intermediate_size"}, widthKeys...) {
		if whole[key] = 5.0; !likeLlama(whole) {
			t.Errorf("with %s keys are not Llama's", key)
		}
		delete(whole, key)
	}
	whole["intermediate_size"] = 5.0
	for _, key := range []string{"hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"} {
		if delete(whole, key); likeLlama(whole) {
			t.Errorf("without %s keys are Llama's", key)
		}
		whole[key] = 1.0
	}
}
