package pim

import (
	"slices"
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

// TestSpecRanges: each range includes both ends, and excludes the numbers next to them.
func TestSpecRanges(t *testing.T) {
	const second = 1_000_000_000_000 // ps
	for _, c := range []struct {
		key     string
		set     func(s *Spec, v int)
		in, out []int
	}{
		{"mac_latency", func(s *Spec, v int) { s.MACLatency = v }, []int{1, 4096}, []int{0, 4097}},
		{"softmax_latency", func(s *Spec, v int) { s.SoftmaxLatency = v }, []int{0, 65536}, []int{-1, 65537}},
		{"macs_per_read", func(s *Spec, v int) { s.MACsPerRead = v }, []int{1, 128}, []int{0, 129}},
		{"multipliers", func(s *Spec, v int) { s.Multipliers = v }, []int{0, 128}, []int{-1, 129}},
		{"postponed_refreshes", func(s *Spec, v int) { s.PostponedRefreshes = v }, []int{0, 8}, []int{-1, 9}},
		{"score_buffer", func(s *Spec, v int) { s.ScoreBuffer = units.Bytes(v) }, []int{1024, 1 << 30}, []int{1023, 1<<30 + 1}},
		{"mc_buffer", func(s *Spec, v int) { s.MCBuffer = units.Bytes(v) }, []int{0, 4096, 1 << 40}, []int{-1, 1, 4095, 1<<40 + 1}},
		{"descriptor", func(s *Spec, v int) { s.Descriptor = units.Bytes(v) }, []int{0, 1 << 20}, []int{-1, 1<<20 + 1}},
		{"power_limit", func(s *Spec, v int) { s.PowerLimit = float64(v) }, []int{0, 10000}, []int{-1, 10001}},
		{"host_access", func(s *Spec, v int) { s.HostAccess = units.Duration(v) }, []int{0, second}, []int{-1, second + 1}},
	} {
		for i, v := range append(c.in, c.out...) {
			s := Default()
			c.set(s, v)
			if errs := input.Faults(s); (len(errs) > 0) != (i >= len(c.in)) || len(errs) > 0 && errs[0].Key != c.key {
				t.Errorf("%s = %d: %v", c.key, v, errs)
			}
		}
	}
	for _, c := range []struct {
		key string
		set func(s *Spec, v string)
		in  []string
	}{
		{"processing_unit", func(s *Spec, v string) { s.ProcessingUnit = v }, []string{"bank", "rank"}}, {"activation", func(s *Spec, v string) { s.Activation = v }, []string{"staggered", "simultaneous"}},
		{"relayout", func(s *Spec, v string) { s.Relayout = v }, []string{"in-flight", "cpu"}}, {"scales", func(s *Spec, v string) { s.Scales = v }, []string{"rows", "buffer"}},
		{"beyond_buffer", func(s *Spec, v string) { s.BeyondBuffer = v }, []string{"refetch", "segment"}}, {"transfer_boundary", func(s *Spec, v string) { s.TransferBoundary = v }, []string{"head", "row", "chunk"}},
		{"precision.preset", func(s *Spec, v string) { s.Precision.Preset = v }, []string{"fp32", "paper"}},
	} {
		for _, v := range append(c.in, "other") {
			s := Default()
			c.set(s, v)
			if errs := input.Faults(s); (len(errs) > 0) != (v == "other") || len(errs) > 0 && errs[0].Key != c.key {
				t.Errorf("%s = %s: %v", c.key, v, errs)
			}
		}
	}
}

// TestPrecisionResolve: the paper's numbers are FP16 except the softmax's sum. Each stage can be set alone, and another format is then refused.
func TestPrecisionResolve(t *testing.T) {
	keys := []string{"multiply", "accumulate", "score", "softmax_sum", "weights", "context", "output"}
	for set := -1; set < len(keys); set++ {
		for _, preset := range []string{"paper", "fp32"} {
			p := Precision{Preset: preset}
			want := []Format{FP32, FP32, FP32, FP32, FP32, FP32, FP32}
			if preset == "paper" {
				want = []Format{FP16, FP16, FP16, FP32, FP16, FP16, FP16}
			}
			if set >= 0 {
				other := FP16
				if want[set] == FP16 {
					other = FP32
				}
				*p.Stages()[set].Format, want[set] = other, other
			}
			p = p.Resolve()
			got := []Format{p.Multiply, p.Accumulate, p.Score, p.SoftmaxSum, p.Weights, p.Context, p.Output}
			if !slices.Equal(got, want) || len(input.Faults(&p)) > 0 {
				t.Errorf("%s with stage %d set: %v, want %v", preset, set, got, want)
			}
			if set >= 0 {
				*p.Stages()[set].Format = "fp8"
				if faults := input.Faults(&p); len(faults) != 1 || faults[0].Key != keys[set] {
					t.Errorf("stage %s in fp8: %v", keys[set], faults)
				}
			}
		}
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
	// 128K scores in FP16 for all query heads; below a row, halves of it.
	for queries, want := range map[int]int{1: 131_072, 2: 65_536, 3: 43_520, 7: 18_432, 128: 1024} {
		shape := HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16}
		shape.Queries = queries
		if got, err := Default().SegmentTokens(d, shape); err != nil || got != want {
			t.Errorf("%d query heads: %d tokens, want %d; %v", queries, got, want, err)
		}
	}
}

// TestSegmentsBelowARow: a row of 512 tokens has 32 chunks, so its parts are halves to 32nds; a row of 960, with scales, has 60 chunks, so thirds, fifths and so
// on.
func TestSegmentsBelowARow(t *testing.T) {
	d := parts.DDR4(t)
	whole := HeadShape{HeadDim: 128, Queries: 3, ElementBits: 16}
	scaled := HeadShape{HeadDim: 128, Queries: 3, ElementBits: 16, KVBits: 8, ScaleBytes: 4}
	for _, c := range []struct {
		shape     HeadShape
		score     Format
		fit, want int
	}{
		{whole, FP16, 1535, 1024}, {whole, FP16, 1024, 1024}, {whole, FP16, 1023, 512}, {whole, FP16, 512, 512}, {whole, FP16, 511, 256}, {whole, FP16, 256, 256}, {whole, FP16, 255, 128},
		{whole, FP16, 127, 64}, {whole, FP16, 31, 16}, {whole, FP16, 16, 16}, {whole, FP16, 15, 0}, {whole, FP32, 511, 256}, {whole, FP32, 512, 512},
		{scaled, FP16, 960, 960}, {scaled, FP16, 959, 480}, {scaled, FP16, 479, 320}, {scaled, FP16, 319, 240}, {scaled, FP16, 239, 192}, {scaled, FP16, 191, 160}, {scaled, FP16, 159, 96},
		{scaled, FP16, 16, 16}, {scaled, FP16, 15, 0},
	} {
		s := *Default()
		s.Precision.Score = c.score
		s.ScoreBuffer = units.Bytes(c.fit * 3 * c.score.Bytes())
		got, err := s.SegmentTokens(d, c.shape)
		if got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%+v: %d tokens, %v", c, got, err)
		}
		if err != nil && err.Error() != "score_buffer = 90B: expected room for 16 scores of 3 query heads" {
			t.Error(err)
		}
	}
	if _, err := Default().SegmentTokens(d, HeadShape{}); err == nil {
		t.Error("a shape of nothing has segments")
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
