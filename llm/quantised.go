package llm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

const quantKeys = `one of fp8, fbgemm_fp8, modelopt, compressed-tensors, awq or gptq, all matrices of a kind alike; for others remove it and set ` +
	`model.weight_bits, model.attention_bits, model.expert_bits, model.activation_bits, model.weight_block and model.kv_format`

// checkpoint is the description of a checkpoint's number formats in quantization_config, or in a file beside config.json.
type checkpoint struct {
	spellings
	Method     string         `json:"quant_method"`
	Algorithm  string         `json:"quant_algo"`
	Bits       int            `json:"bits"`
	Group      int            `json:"group_size"`
	ZeroPoint  *bool          `json:"zero_point"`
	Block      []int          `json:"weight_block_size"`
	KVAlgo     string         `json:"kv_cache_quant_algo"`
	KVScheme   *number        `json:"kv_cache_scheme"`
	NotConvert []string       `json:"modules_to_not_convert"`
	Exclude    []string       `json:"exclude_modules"`
	Ignore     []string       `json:"ignore"`
	Dynamic    map[string]any `json:"dynamic"`
	Only       [][]string     `json:"modules_in_block_to_quantize"`
	Groups     map[string]struct {
		Targets []string `json:"targets"`
		Weights number   `json:"weights"`
		Inputs  *number  `json:"input_activations"`
	} `json:"config_groups"`
}

// number is a number format in compressed-tensors.
type number struct {
	Bits  int    `json:"num_bits"`
	Type  string `json:"type"`
	Group int    `json:"group_size"`
}

// UnmarshalJSON also reads a format given as a word. Early files of ModelOpt have "FP8" as kv_cache_scheme. AutoFP8's and AMD's have
// "static": the checkpoint has the scales of 8-bit keys and values.
func (n *number) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case `"FP8"`, `"static"`:
		*n = number{Bits: 8, Type: "float"}
		return nil
	}
	type plain number
	return json.Unmarshal(text, (*plain)(n))
}

// quantised gives a model the bit widths of its checkpoint, and describes them, "" if there are none. Embedding, LM head, norms and routers
// stay in 16 bits or cost almost nothing. Scales of a tensor or a row take below 0.1% and are left out.
func (r *reader) quantised(m *Model) string {
	q, given := r.keys[quantized]
	if !given || q == nil || inMXFP4(r.kind, r.keys) {
		return ""
	}
	c, read := readCheckpoint(q)
	if !read || !c.widths(m) {
		r.fail(quantized, quantKeys)
		return ""
	}
	if m.WeightBits == 0 {
		return c.String() + ": keys and values alone"
	}
	of := usualParents
	if r.flag(besideKey, false) {
		of = besideParents
	}
	wide, ok := c.keep(m, of, func(layer int) bool { return r.denseLayer(layer, m.Layers) })
	if !ok {
		r.fail(quantized, quantKeys)
		return ""
	}
	suffix := map[int]string{8: "-fp8", 4: "-4bit"}[m.WeightBits]
	integers := c.Method == "gptq"
	for _, g := range c.Groups {
		integers = integers || g.Weights.Type == "int"
	}
	if integers && m.WeightBits == 8 {
		suffix = "-int8"
	}
	if lower := strings.ToLower(m.Name); m.Name != "" && !slices.ContainsFunc([]string{"fp8", "fp4", "awq", "gptq", "int4", "int8", "w4", "w8", "4bit"}, func(s string) bool { return strings.Contains(lower, s) }) {
		m.Name += suffix
	}
	return c.String() + "; in 16 bits: " + strings.Join(wide, ", ")
}

// String names the format of a checkpoint's weights.
func (c *checkpoint) String() string {
	name := c.Method
	if c.Algorithm != "" {
		name += " " + c.Algorithm
	}
	if len(c.Block) == 2 {
		name += fmt.Sprintf(", blocks of %d x %d", c.Block[0], c.Block[1])
	}
	return name
}

// widths sets the widths of all matrices. It returns false for an unsupported format.
func (c *checkpoint) widths(m *Model) bool {
	if c.Group < -1 || len(c.Block) != 0 && (len(c.Block) != 2 || c.Block[0] < 1 || c.Block[1] < 1) {
		return false
	}
	scale := 0 // bits of a group's scale and zero
	switch c.Method {
	case "fp8", "fbgemm_fp8":
		m.WeightBits, m.ActivationBits = 8, 8
		if len(c.Block) == 2 { // each block has a scale of 32 bits
			m.WeightBlock = c.Block[0] * c.Block[1] / 4
		}
	case "awq", "gptq":
		m.WeightBits, scale = c.Bits, 16
		if c.Method == "gptq" || c.ZeroPoint == nil || *c.ZeroPoint {
			scale += c.Bits
		}
	case "modelopt":
		switch c.Algorithm {
		case "": // only keys and values are quantised
		case "FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO": // for the last, kernels also narrow activations by blocks
			m.WeightBits, m.ActivationBits = 8, 8
		case "NVFP4": // 4-bit activations run at the rate of 8-bit ones here
			m.WeightBits, m.ActivationBits, c.Group, scale = 4, 8, 16, 8
		case "W4A16_AWQ":
			m.WeightBits, scale = 4, 16
		default:
			return false
		}
	case "compressed-tensors":
		if len(c.Groups) > 1 {
			return false
		}
		for _, g := range c.Groups {
			if !slices.Equal(g.Targets, []string{"Linear"}) {
				return false
			}
			m.WeightBits, c.Group, scale = g.Weights.Bits, g.Weights.Group, 16
			if g.Weights.Type == "float" && g.Weights.Bits == 4 { // NVFP4
				scale = 8
			}
			if g.Inputs != nil && g.Inputs.Bits <= 8 {
				m.ActivationBits = 8
			}
		}
	default:
		return false
	}
	if c.Group > 0 && scale > 0 {
		m.WeightBlock = c.Group * 8 / scale
	}
	if kv := c.KVScheme; c.KVAlgo == "FP8" || kv != nil && kv.Bits == 8 && kv.Type == "float" {
		m.KVFormat = FP8
	} else if c.KVAlgo != "" || kv != nil {
		return false
	}
	return m.WeightBits == 4 || m.WeightBits == 8 || m.WeightBits == 0 && m.KVFormat == FP8
}
