package pim

import (
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/units"
)

func TestSpecValidate(t *testing.T) {
	if errs := input.Faults(Default()); len(errs) != 0 {
		t.Fatalf("the default: %v", errs[0])
	}
	for key, spoil := range map[string]func(*Spec){
		"processing_unit":     func(s *Spec) { s.ProcessingUnit = "chip" },
		"activation":          func(s *Spec) { s.Activation = "" },
		"relayout":            func(s *Spec) { s.Relayout = "gpu" },
		"precision.preset":    func(s *Spec) { s.Precision.Preset = "" },
		"precision.weights":   func(s *Spec) { s.Precision.Weights = "fp8" },
		"mac_latency":         func(s *Spec) { s.MACLatency = 0 },
		"softmax_latency":     func(s *Spec) { s.SoftmaxLatency = -1 },
		"macs_per_read":       func(s *Spec) { s.MACsPerRead = 0 },
		"score_buffer":        func(s *Spec) { s.ScoreBuffer = 0 },
		"beyond_buffer":       func(s *Spec) { s.BeyondBuffer = "spill" },
		"postponed_refreshes": func(s *Spec) { s.PostponedRefreshes = 9 },
		"transfer_boundary":   func(s *Spec) { s.TransferBoundary = "token" },
		"mc_buffer":           func(s *Spec) { s.MCBuffer = -1 },
	} {
		s := Default()
		spoil(s)
		errs := input.Faults(s)
		if len(errs) != 1 || errs[0].Key != key {
			t.Errorf("%s: %v", key, errs)
		}
	}
}

func TestPrecisionResolve(t *testing.T) {
	p := Precision{Preset: "paper", Accumulate: FP32}.Resolve()
	if p.Accumulate != FP32 || p.Multiply != FP16 || p.SoftmaxSum != FP32 {
		t.Errorf("got %+v", p)
	}
}

func TestAllocationUnit(t *testing.T) {
	s, d := Default(), parts.DDR4(t)
	for _, c := range []struct{ dim, bits, tokens int }{
		{128, 16, 512}, {96, 16, 512}, {64, 16, 1024}, {8, 16, 2048}, {256, 16, 256}, {512, 16, 128}, {128, 8, 1024}, {513, 16, 0},
	} {
		g, err := NewGeometry(d, HeadShape{HeadDim: c.dim, Queries: 1, ElementBits: c.bits})
		if g.RowTokens != c.tokens || (err == nil) != (c.tokens > 0) {
			t.Errorf("d = %d of %d bits: %d tokens a row, want %d; error %v", c.dim, c.bits, g.RowTokens, c.tokens, err)
		}
	}
	// One key row and one value row of 8 KiB in each of 16 banks: 512 tokens of 2 · 256 B.
	if got := s.UnitBytes(d); got != 256*units.KiB {
		t.Errorf("an allocation unit has %v, want 256KiB", got)
	}
}

// A head takes two rows for each started 512 tokens, and the score buffer holds
// whole rows of scores.
func TestRowsAndSegments(t *testing.T) {
	d := parts.DDR4(t)
	g, err := NewGeometry(d, HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16})
	if err != nil {
		t.Fatal(err)
	}
	for context, want := range map[int]int{1: 2, 511: 2, 512: 2, 513: 4, 1024: 4, 1025: 6} {
		if got := g.Rows(context); got != want {
			t.Errorf("%d tokens: %d rows, want %d", context, got, want)
		}
	}
	// 128K scores in FP16 for all query heads; below a row its halves.
	for queries, want := range map[int]int{1: 131_072, 2: 65_536, 3: 43_520, 7: 18_432, 128: 1024} {
		shape := HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16}
		shape.Queries = queries
		if got, err := Default().SegmentTokens(d, shape); err != nil || got != want {
			t.Errorf("%d query heads: %d tokens, want %d; %v", queries, got, want, err)
		}
	}
}

func TestGeometryOfOtherParts(t *testing.T) {
	for _, c := range []struct {
		part              string
		dim, chunk, token int
		ok                bool
	}{
		{"ddr4-3200-8gb-x4", 128, 16, 4, true},
		{"ddr4-3200-8gb-x16", 128, 8, 4, true},
		{"ddr4-3200-8gb-x16", 256, 8, 8, true},
		{"ddr4-3200-8gb-x16", 512, 0, 0, false}, // 16 bursts, 8 banks
		{"ddr5-4800-16gb-x8", 128, 32, 4, true}, // a burst of 32 pins and 16 beats has as many bytes
		{"ddr5-4800-16gb-x4", 512, 32, 16, true},
		{"ddr5-4800-16gb-x16", 512, 16, 16, true},
	} {
		d, err := dram.LookupSpec(c.part)
		if err != nil {
			t.Fatal(err)
		}
		g, err := NewGeometry(d, HeadShape{HeadDim: c.dim, Queries: 1, ElementBits: 16})
		if (err == nil) != c.ok {
			t.Errorf("%s, d = %d: %v", c.part, c.dim, err)
		} else if c.ok && (g.ChunkTokens != c.chunk || g.KeyBursts != c.token) {
			t.Errorf("%s, d = %d: chunks of %d, %d bursts a token", c.part, c.dim, g.ChunkTokens, g.KeyBursts)
		}
	}
}
