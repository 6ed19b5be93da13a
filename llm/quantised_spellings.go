package llm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// spellings are alternative keys for a checkpoint's format: AutoFP8's lists, AutoAWQ's bits and groups, and ModelOpt's whole file.
type spellings struct {
	Ignored      []string        `json:"ignored_layers"`
	WBit         int             `json:"w_bit"`
	QGroup       int             `json:"q_group_size"`
	Quantization json.RawMessage `json:"quantization"`
}

// methods are alternative names of quant_method, in lower case: of vLLM's kernels for a format, and of its early releases.
var methods = map[string]string{
	"gptq_marlin": "gptq", "awq_marlin": "awq", "modelopt_fp4": "modelopt", "modelopt_fp8": "modelopt", "compressed_tensors": "compressed-tensors", "sparseml": "compressed-tensors",
}

// readCheckpoint reads a quantization_config in any of its spellings, and returns false if it is not one.
func readCheckpoint(q any) (c checkpoint, ok bool) {
	text, _ := json.Marshal(q) // q was decoded from JSON
	if json.Unmarshal(text, &c) != nil {
		return c, false
	}
	if len(c.Quantization) > 0 && json.Unmarshal(c.Quantization, &c) != nil {
		return c, false
	}
	c.Method = strings.ToLower(c.Method)
	c.Method = cmp.Or(methods[c.Method], c.Method)
	if c.Method == "" && c.Algorithm != "" {
		c.Method = "modelopt" // early files leave it out
	}
	c.Bits, c.Group = cmp.Or(c.Bits, c.WBit), cmp.Or(c.Group, c.QGroup)
	c.NotConvert = slices.Concat(c.NotConvert, c.Ignored)
	return c, true
}

// BesideFiles are the files beside a config.json that may describe its checkpoint's quantisation, each with its format: ModelOpt, AutoGPTQ
// and AutoAWQ.
var BesideFiles = []struct{ Name, method string }{
	{"hf_quant_config.json", "modelopt"}, {"quantize_config.json", "gptq"}, {"quant_config.json", "awq"},
}

// FromCheckpoint is FromHuggingFace for a config.json with one of BesideFiles, "" and nil for none. It also describes which parts of the
// checkpoint are quantised, "" if none are, and returns remarks on how the shape was read.
func FromCheckpoint(text []byte, name string, beside []byte) (m *Model, quantised string, notes []string, err error) {
	if beside == nil {
		return fromHuggingFace(text)
	}
	keys, err := configKeys(text)
	if err != nil || keys[quantized] != nil {
		return fromHuggingFace(text)
	}
	quant, err := besideKeys(name, beside)
	if err != nil {
		return nil, "", nil, err
	}
	if quant == nil {
		return fromHuggingFace(text)
	}
	keys[quantized] = quant
	merged, err := json.Marshal(keys)
	if err != nil {
		return nil, "", nil, err
	}
	m, quantised, notes, err = fromHuggingFace(merged)
	var bad *input.Error
	if errors.As(err, &bad) && bad.Key == quantized {
		err = input.Edit(err, func(e *input.Error) { e.Key = name })
	}
	return m, quantised, notes, err
}

// besideKeys reads a file of BesideFiles as a quantization_config, or returns nil if it quantises nothing.
func besideKeys(name string, text []byte) (map[string]any, error) {
	at := slices.IndexFunc(BesideFiles, func(f struct{ Name, method string }) bool { return f.Name == name })
	var quant map[string]any
	if err := json.Unmarshal(text, &quant); err != nil {
		return nil, &input.Error{Key: name, Err: fmt.Errorf("not JSON: %w", err), Expected: "the file beside config.json that says how a checkpoint is quantised"}
	}
	if quant == nil { // the file is null
		return nil, nil
	}
	method := BesideFiles[at].method
	if method == "modelopt" {
		quant, _ = quant["quantization"].(map[string]any)
		if quant["quant_algo"] == nil && quant["kv_cache_quant_algo"] == nil {
			return nil, nil
		}
	}
	if quant["quant_method"] == nil {
		quant["quant_method"] = method
	}
	return quant, nil
}
