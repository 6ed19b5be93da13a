package pim

import (
	"cmp"
	"fmt"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Values of the choices in Spec.
const (
	// Activation: one ACT for each bank within tRRD and tFAW, or all banks at once, which no DDR4 device allows.
	Staggered    = "staggered"
	Simultaneous = "simultaneous"

	// ProcessingUnit: multipliers at each bank (L3), or one unit for each rank that reads at the rate of the rank's data bus (Hermes).
	BankUnits     = "bank"
	RankLevelUnit = "rank"

	// BeyondBuffer: how to handle contexts whose scores exceed the score buffer.
	Refetch = "refetch" // score the keys beyond it a second time, with maximum and sum known (L3, section 4.4)
	Segment = "segment" // online softmax by segments; the buffer unit merges partial outputs

	// Scales: where a rank keeps scale and zero of narrow keys and values.
	ScalesInRows   = "rows"   // in the same rows, read over the rank's bus
	ScalesInBuffer = "buffer" // in memory of the buffer unit, 8 B for each token and KV head of the rank

	// TransferBoundary: where a transfer into the rank may interrupt a head.
	BoundaryHead  = "head"
	BoundaryRow   = "row"
	BoundaryChunk = "chunk"

	// Relayout: the buffer unit exchanges elements in flight (L3, section 4.1), or the CPU transposes them, which reads and writes the data
	// again.
	InFlight         = "in-flight"
	CPUTransposition = "cpu"
)

// Spec is the configuration of the DIMM-PIM. Latencies are in DRAM clocks.
type Spec struct {
	ProcessingUnit string `toml:"processing_unit"` // "bank" or "rank"
	Activation     string `toml:"activation"`      // "staggered" or "simultaneous"
	Relayout       string `toml:"relayout"`        // "in-flight" or "cpu"

	Precision Precision `toml:"precision"`
	// NormalizedWeights divides the weights by the softmax sum before they are
	// broadcast (L3, section 4.3); else the output is divided at the end.
	NormalizedWeights bool `toml:"normalized_weights"`

	// MACLatency is the time from a MACA to its result in the result buffer.
	MACLatency int `toml:"mac_latency"`
	// SoftmaxLatency is the time from the last beat of a chunk's partial sums to its first weight being ready for broadcast: sum over the
	// chips, scaling, exponential, running sum, normalisation.
	SoftmaxLatency int `toml:"softmax_latency"`
	// MACsPerRead is the number of multiplier sets of a bank PU, which is the number of a group's query heads that one MACA serves.
	MACsPerRead int `toml:"macs_per_read"`
	// Multipliers is the number of multipliers in a set. Each takes one element of a chip's share of a read, then the next, while further
	// reads wait. A rank-level unit has that many for each chip. 0 has one for each element of model.element_bits: four on x8 chips, as in
	// L3. With that number, narrower keys and values are read no faster: 8 bits at the full rate need eight.
	Multipliers int `toml:"multipliers"`
	// Scales is the location of tokens' scales (model.kv_scales). "rows" reads them over the rank's bus when a row opens, and leaves room
	// for a few tokens less in a row. "buffer" keeps those of all the rank's tokens in the buffer chip; no real chip has that much memory,
	// so it is a bound.
	Scales string `toml:"scales"`
	// ScoreBuffer is the buffer unit's memory for scores, shared by the query heads of a group (L3, section 4.4: 256 KB hold 128K tokens in
	// FP16).
	ScoreBuffer  units.Bytes `toml:"score_buffer"`
	BeyondBuffer string      `toml:"beyond_buffer"` // "refetch" or "segment"

	// PostponedRefreshes is the number of REFs that the refresh manager may postpone, at most the standard's limit: 8 in DDR4 (JESD79-4,
	// section 4.26), 4 in DDR5.
	PostponedRefreshes int `toml:"postponed_refreshes"`

	TransferBoundary string `toml:"transfer_boundary"` // "head", "row" or "chunk"
	// MCBuffer is the size of the pieces in which the memory controller collects a transfer. It stops the receiving rank only while it
	// writes a piece, at channel rate. 0 stops the rank for the whole transfer, at the rate of its source.
	MCBuffer units.Bytes `toml:"mc_buffer"`

	// The host's part of a head's attention (L3, section 4.3): it writes a descriptor for each head into the rank's control region and
	// polls there until a group of heads is done. Descriptor is the size of a descriptor, HostAccess the time of a round trip from the
	// host's cores to the DIMMs. 0 charges nothing.
	Descriptor units.Bytes    `toml:"descriptor"`
	HostAccess units.Duration `toml:"host_access"`

	// PowerLimit is the limit on a DIMM's power, in watts, while all its ranks compute attention: energy.ranks_per_dimm on each of its
	// channels, each with an equal share. If commands at full speed would draw more, by the constants of [energy] at the middle of their
	// bands, the ranks delay activations so that a head's mean power is at the limit. 0 is no limit; tables then mark a DIMM with ‡ if it
	// draws more than its slot supplies (energy.dimm_limit).
	PowerLimit float64 `toml:"power_limit"`

	// Periodic lets KernelTable skip repetitions of a run. The clocks are the same, which a run without it shows.
	Periodic bool `toml:"periodic"`
}

// Default returns L3's DIMM-PIM with the activation that devices allow.
func Default() *Spec {
	return &Spec{
		ProcessingUnit: BankUnits, Activation: Staggered, Relayout: InFlight,
		Precision: Precision{Preset: "paper"}, NormalizedWeights: true,
		MACLatency: 4, SoftmaxLatency: 28, MACsPerRead: 1, Scales: ScalesInRows,
		ScoreBuffer: 256 * units.KiB, BeyondBuffer: Refetch,
		PostponedRefreshes: 8, TransferBoundary: BoundaryRow, Periodic: true,
		Descriptor: 64, HostAccess: 122 * units.Nanosecond,
	}
}

// Check has the rules of the section [pim].
func (s *Spec) Check(c *input.Check) {
	input.OneOf(c, "processing_unit", s.ProcessingUnit, BankUnits, RankLevelUnit)
	input.OneOf(c, "activation", s.Activation, Staggered, Simultaneous)
	input.OneOf(c, "relayout", s.Relayout, InFlight, CPUTransposition)
	c.In("precision", &s.Precision)
	input.Within(c, "mac_latency", s.MACLatency, 1, 1<<12)
	input.Within(c, "softmax_latency", s.SoftmaxLatency, 0, 1<<16)
	input.Within(c, "macs_per_read", s.MACsPerRead, 1, 128)
	input.Within(c, "multipliers", s.Multipliers, 0, 128)
	input.OneOf(c, "scales", s.Scales, ScalesInRows, ScalesInBuffer)
	input.OneOf(c, "beyond_buffer", s.BeyondBuffer, Refetch, Segment)
	input.Within(c, "postponed_refreshes", s.PostponedRefreshes, 0, 8)
	input.OneOf(c, "transfer_boundary", s.TransferBoundary, BoundaryHead, BoundaryRow, BoundaryChunk)
	input.Within(c, "score_buffer", s.ScoreBuffer, units.KiB, units.GiB)
	c.That(s.MCBuffer == 0 || s.MCBuffer >= 4*units.KiB && s.MCBuffer <= units.TiB, "mc_buffer", s.MCBuffer,
		"0B, or 4KiB (a write queue of 64 bursts) to 1TiB")
	c.That(s.Descriptor >= 0 && s.Descriptor <= units.MiB, "descriptor", s.Descriptor, "0B (none) to 1MiB")
	input.Within(c, "power_limit", s.PowerLimit, 0, 1e4)
	input.Within(c, "host_access", s.HostAccess, 0, units.Second)
}

// UnitBytes returns the bytes of one allocation unit on a rank: one key row and one value row over all banks.
func (s *Spec) UnitBytes(d *dram.Spec) units.Bytes {
	return 2 * units.Bytes(d.Banks()) * d.RowBytes()
}

// MultiplierPasses returns the number of passes of a multiplier set for one read.
func (s *Spec) MultiplierPasses(d *dram.Spec, shape HeadShape) int {
	n, multipliers := d.BurstBytes()*8/d.Chips()/shape.StoredBits(), s.SetMultipliers(d, shape)
	return (n + multipliers - 1) / multipliers
}

// SetMultipliers returns the number of multipliers in a set.
func (s *Spec) SetMultipliers(d *dram.Spec, shape HeadShape) int {
	return max(1, cmp.Or(s.Multipliers, d.BurstBytes()*8/d.Chips()/shape.ElementBits))
}

// SegmentTokens returns the number of tokens whose scores fit the score buffer for all query heads of shape, rounded down to whole rows. If
// not even one row fits, it is the largest half, third, quarter and so on of a row, in whole chunks, so that segments repeat with the rows.
func (s *Spec) SegmentTokens(d *dram.Spec, shape HeadShape) (int, error) {
	g, err := NewGeometry(d, shape)
	if err != nil {
		return 0, err
	}
	n := int(s.ScoreBuffer) / (shape.Queries * s.Precision.Resolve().Score.Bytes())
	if n >= g.RowTokens {
		return n / g.RowTokens * g.RowTokens, nil
	}
	for parts := 2; parts <= g.RowTokens/g.ChunkTokens; parts++ {
		if part := g.RowTokens / parts; part*parts == g.RowTokens && part%g.ChunkTokens == 0 && n >= part {
			return part, nil
		}
	}
	return 0, &input.Error{Key: "score_buffer", Value: s.ScoreBuffer.String(),
		Expected: fmt.Sprintf("room for %d scores of %d query heads", g.ChunkTokens, shape.Queries)}
}

// ActivationClocks returns the clocks from the first to the last ACT of an all-bank activation on a rank of d: 114 staggered
// on DDR4-3200 x8, 0 simultaneous.
func (s *Spec) ActivationClocks(d *dram.Spec) int64 {
	return ActivationSpan(d, s.Activation == Simultaneous)
}

// ActivationSpan returns the clocks from the first to the last ACT of an
// all-bank activation: 3·tFAW + 3·tRRD_S = 114 on DDR4-3200 x8.
func ActivationSpan(d *dram.Spec, simultaneous bool) int64 {
	if simultaneous {
		return 0
	}
	state := dram.NewState(d, 1)
	g := Geometry{BankGroups: d.BankGroups}
	clock := int64(0)
	for b := range d.Banks() {
		a := dram.Address{}
		a.BankGroup, a.Bank = g.Bank(b)
		clock = state.Earliest(dram.ACT, a)
		state.Issue(dram.ACT, a, clock)
	}
	return clock
}

// Format is the number format of one stage of attention.
type Format string

// The formats. The empty Format stands for the preset's.
const (
	FP16 Format = "fp16"
	FP32 Format = "fp32"
)

// Bytes returns the width of a number in bytes.
func (f Format) Bytes() int {
	if f == FP32 {
		return 4
	}
	return 2
}

// Precision is the number format of each stage of attention. Widths affect timing: partial sums and accumulators are read out, and weights
// broadcast, over the rank's data bus; scores fill the score buffer.
type Precision struct {
	// Preset fills the stages left empty: "paper" (L3, section 4.4: FP16 units with an FP32 softmax sum) or "fp32" (every stage in FP32).
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

// precisionStage is the format of one stage, with its key.
type precisionStage struct {
	Key    string
	Format *Format
}

// Stages lists the per-stage formats.
func (p *Precision) Stages() []precisionStage {
	return []precisionStage{
		{"multiply", &p.Multiply}, {"accumulate", &p.Accumulate}, {"score", &p.Score}, {"softmax_sum", &p.SoftmaxSum},
		{"weights", &p.Weights}, {"context", &p.Context}, {"output", &p.Output},
	}
}

// Resolve returns p with empty stages filled from its preset.
func (p Precision) Resolve() Precision {
	preset := precisionPresets[p.Preset]
	base := preset.Stages()
	for i, s := range p.Stages() {
		if *s.Format == "" {
			*s.Format = *base[i].Format
		}
	}
	return p
}

// Check has the rules of the section [pim.precision].
func (p *Precision) Check(c *input.Check) {
	input.OneOf(c, "preset", p.Preset, "fp32", "paper")
	for _, s := range p.Stages() {
		f := *s.Format
		c.That(f == "" || f == FP16 || f == FP32, s.Key, f, `"fp16", "fp32" or "" (the preset's)`)
	}
}
