package tables

import (
	"cmp"
	"strings"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// oneHead is one query head of d = 128 in FP16.
var oneHead = pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16}

// drawRank draws a rank and heads of every kind that a table has.
func drawRank(t *rapid.T) (*pim.Spec, *dram.Spec, pim.HeadShape) {
	spec := pim.Default()
	spec.ProcessingUnit = rapid.SampledFrom([]string{pim.BankUnits, pim.BankUnits, pim.BankUnits, pim.RankLevelUnit}).Draw(t, "unit")
	spec.Activation = rapid.SampledFrom([]string{pim.Staggered, pim.Simultaneous}).Draw(t, "activation")
	spec.Precision.Preset = rapid.SampledFrom([]string{"fp32", "paper"}).Draw(t, "precision")
	spec.BeyondBuffer = rapid.SampledFrom([]string{pim.Refetch, pim.Segment}).Draw(t, "beyond")
	spec.ScoreBuffer = units.KiB * rapid.SampledFrom([]units.Bytes{256, 256, 24, 1}).Draw(t, "buffer")
	spec.MACLatency, spec.SoftmaxLatency = rapid.IntRange(1, 20).Draw(t, "mac"), rapid.IntRange(0, 100).Draw(t, "softmax")
	shape := pim.HeadShape{
		HeadDim: rapid.SampledFrom([]int{8, 64, 80, 128, 256, 512}).Draw(t, "d"), Queries: rapid.IntRange(1, 9).Draw(t, "g"),
		ElementBits: rapid.SampledFrom([]int{8, 16}).Draw(t, "bits"), KVBits: rapid.SampledFrom([]int{0, 0, 4, 8, 16}).Draw(t, "kv bits"),
		ScaleBytes: rapid.SampledFrom([]int{0, 0, 4}).Draw(t, "scales"),
	}
	if bits := cmp.Or(shape.KVBits, shape.ElementBits); bits < 16 {
		shape.KeyGroup = rapid.SampledFrom([]int{0, 0, 128}).Draw(t, "group")
	}
	shape.ValueDim = rapid.SampledFrom([]int{0, 0, 0, 8, 64, 80, 256, 512}).Draw(t, "value d")
	if shape.ValueDim > 0 && rapid.Bool().Draw(t, "latent") {
		shape.HeadDim, shape.ValueDim = 576, 512
	}
	spec.Multipliers = rapid.SampledFrom([]int{0, 0, 4, 8, 16}).Draw(t, "multipliers")
	spec.MACsPerRead = rapid.IntRange(1, shape.Queries).Draw(t, "macs")
	d := parts.Of(t, rapid.SampledFrom([]string{"ddr4-3200-8gb-x8", "ddr4-3200-8gb-x8", "ddr4-3200-8gb-x4", "ddr4-2400-16gb-x16",
		"ddr5-4800-16gb-x8", "ddr5-5600-16gb-x8", "ddr5-4800an-32gb-x4", "ddr5-5600-16gb-x16"}).Draw(t, "part"))
	if _, err := spec.SegmentTokens(d, shape); err != nil {
		t.Skip(err)
	}
	if _, err := machine.NewProgram(spec, d, shape, nil); err != nil {
		if strings.Contains(err.Error(), "REFs") && shape.ValueDim > 0 {
			t.Skip(err) // rows of wide keys take longer than REFs can wait
		}
		t.Fatal(err)
	}
	return spec, d, shape
}
