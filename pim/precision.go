package pim

import "github.com/l3sim/l3sim/input"

// Format is the number format of one stage of attention.
type Format string

// The formats. The empty Format stands for the preset's.
const (
	FP16 Format = "fp16"
	FP32 Format = "fp32"
)

// bytes returns the width of a number.
func (f Format) bytes() int {
	if f == FP32 {
		return 4
	}
	return 2
}

// Precision is the number format of each stage after storage. Widths enter
// timing: partial sums and accumulators are read out, and weights broadcast,
// over the rank's data bus; scores fill the score buffer.
type Precision struct {
	// Preset fills the stages that are left empty: "paper" (L3, section 4.4: FP16
	// units with an FP32 softmax sum) or "fp32" (every stage in FP32).
	Preset string `toml:"preset"`

	Multiply   Format `toml:"multiply"`    // products in the bank PUs
	Accumulate Format `toml:"accumulate"`  // adder tree of the bank PUs, partial scores, their sum over the chips
	Score      Format `toml:"score"`       // scores in the score buffer
	SoftmaxSum Format `toml:"softmax_sum"` // running sum of exponentials
	Weights    Format `toml:"weights"`     // softmax weights broadcast to the bank PUs
	Context    Format `toml:"context"`     // accumulators of the context, their sum over the quads
	Output     Format `toml:"output"`      // attention result returned to the GPU
}

// precisionPresets has the formats of each stage, by the name of a preset.
var precisionPresets = map[string]Precision{
	"paper": {Preset: "paper", Multiply: FP16, Accumulate: FP16, Score: FP16, SoftmaxSum: FP32,
		Weights: FP16, Context: FP16, Output: FP16},
	"fp32": {Preset: "fp32", Multiply: FP32, Accumulate: FP32, Score: FP32, SoftmaxSum: FP32,
		Weights: FP32, Context: FP32, Output: FP32},
}

// precisionNames returns the names of the presets, sorted.
func precisionNames() []string { return []string{"fp32", "paper"} }

// precisionStage is the format of one stage under its key.
type precisionStage struct {
	key    string
	format *Format
}

// stages lists the per-stage formats.
func (p *Precision) stages() []precisionStage {
	return []precisionStage{
		{"multiply", &p.Multiply}, {"accumulate", &p.Accumulate}, {"score", &p.Score}, {"softmax_sum", &p.SoftmaxSum},
		{"weights", &p.Weights}, {"context", &p.Context}, {"output", &p.Output},
	}
}

// resolve returns p with each empty stage taken from its preset.
func (p Precision) resolve() Precision {
	preset := precisionPresets[p.Preset]
	base := preset.stages()
	for i, s := range p.stages() {
		if *s.format == "" {
			*s.format = *base[i].format
		}
	}
	return p
}

// Check has the rules of the section [pim.precision].
func (p *Precision) Check(c *input.Check) {
	input.OneOf(c, "preset", p.Preset, precisionNames()...)
	for _, s := range p.stages() {
		f := *s.format
		c.That(f == "" || f == FP16 || f == FP32, s.key, f, `"fp16", "fp32" or "" (the preset's)`)
	}
}
