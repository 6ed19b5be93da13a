package llm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// family describes how the config.json of some model types gives the shape of a decoder (Hugging Face Transformers,
// https://huggingface.co/docs/transformers).
type family struct {
	types                       []string
	layers, hidden, heads, ffn  string // keys of whole numbers; ffn may be null, for 4 × hidden if wide is true, or for ratio × hidden
	wide                        bool
	kvHeads, headDim, positions string // keys that may be absent; "" where the family lacks the key
	experts, active             string // keys of the experts and of those that a token takes; "" for a dense model
	gated, tied                 bool   // tied is the default of tie_word_embeddings
	windows                     bool   // layers have the window sliding_window
	// fullEvery is the period of layers without a window, the last of each group, for files without a key for it; 0: every layer has a
	// window.
	fullEvery int
	// shared reports that each layer with experts has a shared one of the same width. dense is the key of the width of layers without
	// experts, "" for intermediate_size.
	shared bool
	dense  string
	absent map[string]any // defaults of keys that files leave out
	ratio  string         // the key of the width of ffn over hidden, "" for none
	vocab  string         // the key of the vocabulary, "" for vocab_size
}

// families are the supported kinds of models by model_type, with the keys of their config.json.
var families = []family{
	{types: []string{"mistral", "qwen2", "qwen3", "phi3"}, layers: "num_hidden_layers", hidden: "hidden_size", heads: "num_attention_heads",
		ffn: "intermediate_size", kvHeads: "num_key_value_heads", headDim: "head_dim", gated: true, windows: true},
	{types: []string{"gemma2"}, layers: "num_hidden_layers", hidden: "hidden_size", heads: "num_attention_heads",
		ffn: "intermediate_size", kvHeads: "num_key_value_heads", headDim: "head_dim", gated: true, tied: true, windows: true, fullEvery: 2},
	{types: []string{"gemma3", "gemma3_text"}, layers: "num_hidden_layers", hidden: "hidden_size", heads: "num_attention_heads",
		ffn: "intermediate_size", kvHeads: "num_key_value_heads", headDim: "head_dim", gated: true, tied: true, windows: true, fullEvery: 6,
		absent: map[string]any{"num_attention_heads": 8.0, "num_key_value_heads": 4.0, "head_dim": 256.0, "vocab_size": 262208.0, "max_position_embeddings": 131072.0}},
	{types: []string{"gpt_oss"}, layers: "num_hidden_layers", hidden: "hidden_size", heads: "num_attention_heads",
		ffn: "intermediate_size", kvHeads: "num_key_value_heads", headDim: "head_dim", gated: true,
		experts: "num_local_experts", active: "num_experts_per_tok", windows: true, fullEvery: 2},
	{types: []string{"llama"}, layers: "num_hidden_layers", hidden: "hidden_size", heads: "num_attention_heads",
		ffn: "intermediate_size", kvHeads: "num_key_value_heads", headDim: "head_dim", gated: true},
	{types: []string{"mixtral"}, layers: "num_hidden_layers", hidden: "hidden_size", heads: "num_attention_heads",
		ffn: "intermediate_size", kvHeads: "num_key_value_heads", headDim: "head_dim", gated: true,
		experts: "num_local_experts", active: "num_experts_per_tok", windows: true},
	{types: []string{"qwen3_moe"}, layers: "num_hidden_layers", hidden: "hidden_size", heads: "num_attention_heads",
		ffn: "moe_intermediate_size", kvHeads: "num_key_value_heads", headDim: "head_dim", gated: true,
		experts: "num_experts", active: "num_experts_per_tok", windows: true},
	{types: []string{"glm4_moe"}, layers: "num_hidden_layers", hidden: "hidden_size", heads: "num_attention_heads",
		ffn: "moe_intermediate_size", kvHeads: "num_key_value_heads", headDim: "head_dim", gated: true,
		experts: "n_routed_experts", active: "num_experts_per_tok"},
	{types: []string{"deepseek_v2", "deepseek_v3", "deepseek_v32", "glm_moe_dsa", "glm4_moe_lite", "kimi_k2"}, layers: "num_hidden_layers", hidden: "hidden_size", heads: "num_attention_heads",
		ffn: "moe_intermediate_size", gated: true, experts: "n_routed_experts", active: "num_experts_per_tok"},
	{types: []string{"llama4", "llama4_text"}, layers: "num_hidden_layers", hidden: "hidden_size", heads: "num_attention_heads",
		ffn: "intermediate_size", kvHeads: "num_key_value_heads", headDim: "head_dim", gated: true,
		experts: "num_local_experts", active: "num_experts_per_tok", shared: true, dense: "intermediate_size_mlp"},
	{types: []string{"minimax_m2"}, layers: "num_hidden_layers", hidden: "hidden_size", heads: "num_attention_heads",
		ffn: "intermediate_size", kvHeads: "num_key_value_heads", headDim: "head_dim", gated: true,
		experts: "num_local_experts", active: "num_experts_per_tok"},
	{types: []string{"qwen2_moe"}, layers: "num_hidden_layers", hidden: "hidden_size", heads: "num_attention_heads",
		ffn: "moe_intermediate_size", kvHeads: "num_key_value_heads", headDim: "head_dim", gated: true,
		experts: "num_experts", active: "num_experts_per_tok", windows: true},
	// ChatGLM 2 and 3, GLM-4-9B: Megatron's keys.
	{types: []string{"chatglm"}, layers: "num_layers", hidden: "hidden_size", heads: "num_attention_heads", ffn: "ffn_hidden_size",
		kvHeads: "multi_query_group_num", headDim: "kv_channels", gated: true, vocab: "padded_vocab_size"},
	{types: []string{"exaone"}, layers: "num_layers", hidden: "hidden_size", heads: "num_attention_heads", ffn: "intermediate_size",
		kvHeads: "num_key_value_heads", headDim: "head_dim", gated: true},
	{types: []string{"qwen"}, layers: "num_hidden_layers", hidden: "hidden_size", heads: "num_attention_heads",
		ffn: "intermediate_size", headDim: "kv_channels", gated: true},
	{types: []string{"gpt2", "gpt_bigcode"}, layers: "n_layer", hidden: "n_embd", heads: "n_head", ffn: "n_inner", wide: true,
		positions: "n_positions", tied: true},
	{types: []string{"gptj", "codegen"}, layers: "n_layer", hidden: "n_embd", heads: "n_head", ffn: "n_inner", wide: true},
	{types: []string{"gpt_neo"}, layers: "num_layers", hidden: "hidden_size", heads: "num_heads", ffn: "intermediate_size", wide: true,
		positions: "max_position_embeddings", tied: true, windows: true},
	{types: []string{"bloom"}, layers: "n_layer", hidden: "hidden_size", heads: "n_head", wide: true, tied: true},
	{types: []string{"xglm"}, layers: "num_layers", hidden: "d_model", heads: "attention_heads", ffn: "ffn_dim", tied: true},
	// Falcon 7B to 180B: Falcon's own keys give the KV heads.
	{types: []string{"falcon"}, layers: "num_hidden_layers", hidden: "hidden_size", heads: "num_attention_heads", ffn: "ffn_hidden_size", wide: true,
		kvHeads: "num_kv_heads", tied: true, absent: map[string]any{"max_position_embeddings": 2048.0}},
	{types: []string{"mpt"}, layers: "n_layers", hidden: "d_model", heads: "n_heads", ffn: "ffn_hidden_size", ratio: "expansion_ratio", wide: true, kvHeads: "kv_n_heads", tied: true},
	{types: []string{"dbrx"}, layers: "n_layers", hidden: "d_model", heads: "n_heads", ffn: "ffn_hidden_size", kvHeads: "kv_n_heads", gated: true,
		experts: "moe_num_experts", active: "moe_top_k"},
	{types: []string{"gpt_neox"}, layers: "num_hidden_layers", hidden: "hidden_size", heads: "num_attention_heads", ffn: "intermediate_size"},
	{types: []string{"opt"}, layers: "num_hidden_layers", hidden: "hidden_size", heads: "num_attention_heads", ffn: "ffn_dim",
		positions: "max_position_embeddings", tied: true},
}

// modelTypes returns the values of model_type that FromHuggingFace knows.
func modelTypes() []string {
	var types []string
	for _, f := range families {
		types = append(types, f.types...)
	}
	return slices.Sorted(slices.Values(types))
}

// FromHuggingFace returns the shape in a model's config.json. It reads the types of modelTypes, and other types that have Llama's keys.
// Weights, activations and KV cache have 16 bits, as servers run them, whatever the checkpoint's type; exceptions are MXFP4 experts and the
// widths in quantization_config. Of a multimodal model it reads the text decoder alone. It ignores what has no cost here: softcaps of
// logits, attention sinks, rotary scaling. TensorParallel is 0, since the file does not have it, and Name is empty if the file has no
// _name_or_path. An *input.Error names the key at fault.
func FromHuggingFace(text []byte) (*Model, error) {
	m, _, _, err := fromHuggingFace(text)
	return m, err
}

func fromHuggingFace(text []byte) (m *Model, quantised string, notes []string, err error) {
	keys, err := configKeys(text)
	if err != nil {
		return nil, "", nil, err
	}
	var kind string
	keys, kind, notes = decoderOf(keys)
	rename(keys, kind)
	i := slices.IndexFunc(families, func(f family) bool { return slices.Contains(f.types, kind) })
	if bad := refused(keys, kind); bad != nil {
		return nil, "", nil, bad
	}
	var f family
	switch {
	case i >= 0:
		f = families[i]
	case known(kind) || likeLlama(keys):
		var note string
		if f, note = asLlama(keys, kind); !known(kind) {
			notes = append(notes, note)
		}
	default:
		return nil, "", nil, input.Edit(input.UnknownName("model_type", kind, modelTypes()), func(e *input.Error) {
			e.Expected += "; or another with Llama's keys: hidden_size, intermediate_size, num_attention_heads, num_hidden_layers, vocab_size"
			if what := otherFile(keys); what != "" {
				e.Err = fmt.Errorf("this is %s, not the config.json of a model", what)
			}
		})
	}
	if bad := f.otherExperts(keys); bad != nil {
		return nil, "", nil, bad
	}
	for _, part := range []string{"attn_config", "ffn_config"} { // MPT's and DBRX's
		within, _ := keys[part].(map[string]any)
		for key, value := range within {
			if keys[key] == nil && i >= 0 {
				keys[key] = value
			}
		}
	}
	for key, value := range f.absent {
		if keys[key] == nil {
			keys[key] = value
		}
	}
	r := reader{keys: keys, kind: kind, family: &f}
	m = r.model(&f)
	switch {
	case chunked(keys, kind):
		r.chunks(m)
	case !isNone(keys[chunkKey], nil) && isNone(keys[windowKey], nil):
		r.fail(chunkKey, `layer_types, of which "chunked_attention" says which layers attend within chunks`)
	case f.windows || slices.Contains(r.list("layer_types"), any("sliding_attention")):
		r.windows(m, f.fullEvery)
	}
	r.heads(m)
	r.valid(m)
	quantised = r.quantised(m)
	if r.bad != nil {
		return nil, "", nil, r.bad
	}
	if i < 0 && !known(kind) && m.Window > 0 {
		notes = append(notes, m.windowNote())
	}
	if kind == "afmoe" {
		notes = append(notes, m.gateNote())
	}
	return m, quantised, notes, nil
}

// configKeys decodes a config.json, which may begin with a byte-order mark and contain Python's NaN and Infinity.
func configKeys(text []byte) (map[string]any, error) {
	text, err := io.ReadAll(input.FiniteJSON(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff")))))
	var keys map[string]any
	if err == nil {
		err = json.Unmarshal(text, &keys)
	}
	if err != nil {
		return nil, &input.Error{Err: fmt.Errorf("not JSON: %w", err), Expected: "a Hugging Face config.json"}
	}
	if keys[quantized] == nil && keys[oldQuantized] != nil {
		keys[quantized] = keys[oldQuantized]
	}
	return keys, nil
}

const (
	quantized    = "quantization_config"
	oldQuantized = "compression_config" // in early files of compressed-tensors
)

// inMXFP4 reports whether a model's experts, and no other weights, are in MXFP4.
func inMXFP4(kind string, keys map[string]any) bool {
	q, _ := keys[quantized].(map[string]any)
	return kind == "gpt_oss" && q["quant_method"] == "mxfp4"
}

// reader reads keys of one config.json and keeps the first error.
type reader struct {
	keys map[string]any
	kind string
	bad  *input.Error

	family *family
}

func (r *reader) model(f *family) *Model {
	m := &Model{
		Layers: r.layers(f.layers), Hidden: r.whole(f.hidden), Heads: r.whole(f.heads),
		GatedFFN: f.gated, Vocab: r.whole(cmp.Or(f.vocab, "vocab_size")), TiedEmbedding: r.flag("tie_word_embeddings", f.tied), ElementBits: 16,
	}
	if f.wide && r.keys[f.ffn] == nil {
		m.FFNHidden = r.wholeOr(f.ratio, 4) * m.Hidden
	} else {
		m.FFNHidden = r.whole(f.ffn)
	}
	m.KVHeads = r.wholeOr(f.kvHeads, m.Heads)
	if m.Heads > 0 {
		m.HeadDim = r.wholeOr(f.headDim, m.Hidden/m.Heads)
		if r.bad == nil && r.keys[f.headDim] == nil && m.Hidden%m.Heads != 0 && isNone(r.keys[rankKey], nil) {
			r.fail(f.heads, fmt.Sprintf("a divisor of %s = %d", f.hidden, m.Hidden))
		}
	}
	r.latent(m)
	r.indexer(m)
	if f.positions != "" {
		m.MaxPositions = r.whole(f.positions)
	}
	m.Context = r.context()
	if f.experts != "" {
		m.Experts, m.ActiveExperts = r.whole(f.experts), r.whole(f.active)
		if inMXFP4(r.kind, r.keys) {
			m.ExpertBits = 4
		}
		r.beside(m)
	}
	switch r.kind {
	case "qwen": // its width covers gate and up together
		m.FFNHidden /= 2
	case "gpt_bigcode":
		if r.flag("multi_query", true) {
			m.KVHeads = 1
		}
	case "falcon":
		if !r.flag("new_decoder_architecture", false) {
			m.KVHeads = m.Heads
			if r.flag("multi_query", true) {
				m.KVHeads = 1
			}
		}
	case "opt":
		if r.wholeOr("word_embed_proj_dim", m.Hidden) != m.Hidden {
			r.fail("word_embed_proj_dim", fmt.Sprintf("hidden_size = %d: projected embeddings are not modelled", m.Hidden))
		}
	}
	if name, _ := r.keys["_name_or_path"].(string); name != "" {
		m.Name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	}
	return m
}

// fail keeps the first error about a key.
func (r *reader) fail(key, expected string) {
	if r.bad == nil {
		r.bad = &input.Error{Key: key, Value: written(r.keys[key]), Expected: expected}
	}
}

func (r *reader) whole(key string) int {
	v, given := r.keys[key]
	if !given || v == nil {
		if r.bad == nil {
			present := slices.Sorted(maps.Keys(r.keys))
			r.bad = &input.Error{Key: key, Expected: fmt.Sprintf("this key of model_type %q, which is missing", r.kind)}
			if near := input.Nearest(key, present); near != "" && !r.knows(near) {
				r.bad.Err = fmt.Errorf("unknown key %q", near)
			}
		}
		return 0
	}
	if list, ok := v.([]any); ok && len(list) > 0 {
		if v = r.forAll(key, list); v == nil {
			return 0
		}
	}
	n, ok := v.(float64)
	if !ok || n != math.Trunc(n) || n < 1 || n > 1<<24 {
		r.fail(key, "a whole number, 1 to 16777216")
		return 0
	}
	return int(n)
}

// layers reads the number of layers, and bounds it since lists and loops have that length.
func (r *reader) layers(key string) int {
	n := r.whole(key)
	if n > mostLayers {
		r.fail(key, fmt.Sprintf("a whole number, 1 to %d", mostLayers))
		return 0
	}
	return n
}

// forAll returns the value that a per-layer list (Hunyuan) has for all layers, or nil if they differ.
func (r *reader) forAll(key string, list []any) any {
	if layers, _ := r.keys[r.family.layers].(float64); float64(len(list)) != layers {
		r.fail(key, fmt.Sprintf("a whole number, or %v of them, one for each layer, not %d", r.keys[r.family.layers], len(list)))
		return nil
	}
	for _, v := range list {
		if !reflect.DeepEqual(v, list[0]) {
			r.fail(key, fmt.Sprintf("a whole number, 1 to 16777216, the same for all layers, not %s and %s: layers that differ in it are not modelled", written(list[0]), written(v)))
			return nil
		}
	}
	return list[0]
}

// knows reports whether the file's family reads a key.
func (r *reader) knows(key string) bool {
	f := r.family
	return slices.Contains([]string{f.layers, f.hidden, f.heads, f.ffn, f.kvHeads, f.headDim, f.positions, f.experts, f.active, f.dense, "vocab_size", f.vocab}, key) || slices.Contains(latentKeys, key) || slices.Contains(indexKeys, key)
}

// wholeOr reads a whole number, with a default for a key that is absent or null, or that the family lacks.
func (r *reader) wholeOr(key string, otherwise int) int {
	if key == "" || r.keys[key] == nil {
		return otherwise
	}
	return r.whole(key)
}

// flag reads a boolean that may be absent or null.
func (r *reader) flag(key string, otherwise bool) bool {
	switch v := r.keys[key].(type) {
	case nil:
		return otherwise
	case bool:
		return v
	}
	r.fail(key, "true or false")
	return otherwise
}

// written formats a decoded JSON value for an error, a long one shortened.
func written(v any) string {
	text, _ := json.Marshal(v) // v was decoded from JSON
	if len(text) > 60 {
		return string(text[:60]) + "..."
	}
	return string(text)
}
