package llm

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// family is how the config.json of some model types (Hugging Face Transformers,
// https://huggingface.co/docs/transformers) describes the shape of a decoder.
type family struct {
	types                       []string
	layers, hidden, heads, ffn  string // keys, each a whole number; ffn may be null for 4 hidden where wide is true
	wide                        bool
	kvHeads, headDim, positions string // keys that may be absent; "" where the family lacks the key
	experts, active             string // keys of the experts and of those that a token takes; "" for a dense model
	gated, tied                 bool   // tied where tie_word_embeddings is absent
	windows                     bool   // layers have the window sliding_window
	// fullEvery is the layers of a group whose last has no window, where no key says so; 0: every layer has one.
	fullEvery int
	absent    map[string]any // values of keys that files leave out
}

// families are the kinds of models that are read, by model_type, with the keys of their config.json.
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
	{types: []string{"qwen"}, layers: "num_hidden_layers", hidden: "hidden_size", heads: "num_attention_heads",
		ffn: "intermediate_size", headDim: "kv_channels", gated: true},
	{types: []string{"gpt2", "gpt_bigcode"}, layers: "n_layer", hidden: "n_embd", heads: "n_head", ffn: "n_inner", wide: true,
		positions: "n_positions", tied: true},
	{types: []string{"gptj"}, layers: "n_layer", hidden: "n_embd", heads: "n_head", ffn: "n_inner", wide: true},
	{types: []string{"gpt_neox"}, layers: "num_hidden_layers", hidden: "hidden_size", heads: "num_attention_heads", ffn: "intermediate_size"},
	{types: []string{"opt"}, layers: "num_hidden_layers", hidden: "hidden_size", heads: "num_attention_heads", ffn: "ffn_dim",
		positions: "max_position_embeddings", tied: true},
}

// notModelled says, verb included, which features Model does not describe, or not for the types that have
// them, by their keys. A model has the feature unless the key is null, false, 0 or 1.
var notModelled = map[string]string{
	"num_experts": otherExperts, "num_local_experts": otherExperts, "n_routed_experts": otherExperts, "moe_num_experts": otherExperts,
	"shared_expert_intermediate_size": "shared experts are", "n_shared_experts": "shared experts are",
	"kv_lora_rank": "multi-head latent attention is", "q_lora_rank": "multi-head latent attention is",
	"is_encoder_decoder": "encoders are", "text_config": "models of more than text are",
}

// otherExperts are mixtures of families that have no keys for them.
const otherExperts = "mixtures of experts other than gpt_oss, mixtral and qwen3_moe are"

// modelTypes returns the values of model_type that FromHuggingFace reads.
func modelTypes() []string {
	var types []string
	for _, f := range families {
		types = append(types, f.types...)
	}
	return slices.Sorted(slices.Values(types))
}

// FromHuggingFace returns the shape that a model's config.json describes, of the types of
// modelTypes. It is read as servers run it: weights, activations and KV cache in 16 bits whatever
// the checkpoint's type, but for experts in MXFP4 and what quantization_config narrows. Of gemma3 it is the decoder of text alone. What is not read has no
// cost here: softcaps of logits, attention sinks, rotary scaling. TensorParallel is left 0, as the file says nothing about it, and Name is empty where the file has
// no _name_or_path. An *input.Error names the key at fault.
func FromHuggingFace(text []byte) (*Model, error) {
	m, _, err := fromHuggingFace(text)
	return m, err
}

func fromHuggingFace(text []byte) (m *Model, quantised string, err error) {
	var keys map[string]any
	if err := json.Unmarshal(text, &keys); err != nil {
		return nil, "", &input.Error{Err: fmt.Errorf("not JSON: %w", err), Expected: "a Hugging Face config.json"}
	}
	kind, _ := keys["model_type"].(string)
	if text, ok := keys["text_config"].(map[string]any); ok && kind == "gemma3" {
		keys = text
	}
	i := slices.IndexFunc(families, func(f family) bool { return slices.Contains(f.types, kind) })
	for _, key := range slices.Sorted(maps.Keys(notModelled)) {
		if i >= 0 && key == families[i].experts {
			continue
		}
		switch keys[key] {
		case nil, false, 0.0, 1.0:
		default:
			return nil, "", &input.Error{Key: key, Value: written(keys[key]), Expected: "a dense decoder: " + notModelled[key] + " not modelled"}
		}
	}
	if i < 0 {
		return nil, "", input.UnknownName("model_type", kind, modelTypes())
	}
	for key, value := range families[i].absent {
		if keys[key] == nil {
			keys[key] = value
		}
	}
	r := reader{keys: keys, kind: kind}
	m = r.model(&families[i])
	quantised = r.quantised(m)
	if families[i].windows {
		r.windows(m, families[i].fullEvery)
	}
	if r.bad != nil {
		return nil, "", r.bad
	}
	return m, quantised, nil
}

const quantized = "quantization_config"

// inMXFP4 says that a model's experts are in MXFP4, and its other weights are not.
func inMXFP4(kind string, keys map[string]any) bool {
	q, _ := keys[quantized].(map[string]any)
	return kind == "gpt_oss" && q["quant_method"] == "mxfp4"
}

// reader reads keys of one config.json and keeps the first error.
type reader struct {
	keys map[string]any
	kind string
	bad  *input.Error
}

func (r *reader) model(f *family) *Model {
	m := &Model{
		Layers: r.whole(f.layers), Hidden: r.whole(f.hidden), Heads: r.whole(f.heads),
		GatedFFN: f.gated, Vocab: r.whole("vocab_size"), TiedEmbedding: r.flag("tie_word_embeddings", f.tied), ElementBits: 16,
	}
	if f.wide && r.keys[f.ffn] == nil {
		m.FFNHidden = 4 * m.Hidden
	} else {
		m.FFNHidden = r.whole(f.ffn)
	}
	m.KVHeads = r.wholeOr(f.kvHeads, m.Heads)
	if m.Heads > 0 {
		m.HeadDim = r.wholeOr(f.headDim, m.Hidden/m.Heads)
		if r.bad == nil && r.keys[f.headDim] == nil && m.Hidden%m.Heads != 0 {
			r.fail(f.heads, fmt.Sprintf("a divisor of %s = %d", f.hidden, m.Hidden))
		}
	}
	if f.positions != "" {
		m.MaxPositions = r.whole(f.positions)
	}
	m.Context = r.context()
	if f.experts != "" {
		m.Experts, m.ActiveExperts = r.whole(f.experts), r.whole(f.active)
		if inMXFP4(r.kind, r.keys) {
			m.ExpertBits = 4
		}
	}
	switch r.kind {
	case "qwen3_moe":
		if r.wholeOr("decoder_sparse_step", 1) != 1 {
			r.fail("decoder_sparse_step", "1: layers without experts are not modelled")
		}
		if dense, _ := r.keys["mlp_only_layers"].([]any); len(dense) > 0 {
			r.fail("mlp_only_layers", "[]: layers without experts are not modelled")
		}
	case "qwen": // its width is that of gate and up together
		m.FFNHidden /= 2
	case "gpt_bigcode":
		if r.flag("multi_query", true) {
			m.KVHeads = 1
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

// fail keeps an error about a key, unless there is one already.
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
	n, ok := v.(float64)
	if !ok || n != math.Trunc(n) || n < 1 || n > 1<<24 {
		r.fail(key, "a whole number, 1 to 16777216")
		return 0
	}
	return int(n)
}

// knows says that a family of the file's type reads a key.
func (r *reader) knows(key string) bool {
	return slices.ContainsFunc(families, func(f family) bool {
		return slices.Contains(f.types, r.kind) &&
			slices.Contains([]string{f.layers, f.hidden, f.heads, f.ffn, f.kvHeads, f.headDim, f.positions, f.experts, f.active, "vocab_size"}, key)
	})
}

// wholeOr is whole for a key that may be absent or null, or that the family lacks.
func (r *reader) wholeOr(key string, otherwise int) int {
	if key == "" || r.keys[key] == nil {
		return otherwise
	}
	return r.whole(key)
}

// flag reads a truth value that may be absent or null.
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

// written writes a decoded JSON value for an error, a long one in short.
func written(v any) string {
	text, _ := json.Marshal(v) // it has been JSON
	if len(text) > 60 {
		return string(text[:60]) + "..."
	}
	return string(text)
}
