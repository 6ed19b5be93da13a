package machine

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/pim"
)

// TestPeakShareByHand: 512 tokens have 2·512·256 B of keys and values. 16 banks with 64 B each 8 clocks read them in 2,048 clocks; a bus with 64 B
// each 4 clocks in 16,384.
func TestPeakShareByHand(t *testing.T) {
	g, d := &pim.Geometry{HeadDim: 128, ValueDim: 128, ElementBits: 16, Banks: 16, BurstBytes: 64}, new(dram.Spec)
	d.BurstLength, d.TCCDL = 8, 8 // two transfers a clock
	for _, c := range []struct {
		rankLevel bool
		context   int
		clocks    int64
		want      float64
	}{{false, 512, 2048, 1}, {false, 512, 4096, 0.5}, {false, 1024, 4096, 1}, {true, 512, 16_384, 1}, {true, 512, 65_536, 0.25}} {
		if got := peakShare(g, d, c.rankLevel, c.context, c.clocks); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v: %v", c, got)
		}
	}
	g.HeadDim, g.ValueDim = 192, 64 // as many in all
	if got := peakShare(g, d, false, 512, 2048); got != 1 {
		t.Errorf("with keys of 192 elements and values of 64 %v", got)
	}
	g.ElementBits = 4
	if got := peakShare(g, d, false, 512, 2048); got != 0.25 {
		t.Errorf("with four bits %v", got)
	}
}

// TestBoundariesByHand: transfers interrupt between heads, between rows, or between chunks of 16 tokens before a head's first score or context.
func TestBoundariesByHand(t *testing.T) {
	m := &Machine{Spec: pim.Default(), program: &Program{}}
	m.program.Geometry.ChunkTokens = 16
	for _, c := range []struct {
		in                Instruction
		head, row, chunks bool // at which the boundary of a spec lets it interrupt
	}{
		{Instruction{boundary: headBoundary, Query: 3}, true, true, true}, {Instruction{boundary: rowBoundary, Query: 3}, false, true, true},
		{Instruction{Op: OpScore}, false, false, true}, {Instruction{Op: OpScore, Token: 16}, false, false, true}, {Instruction{Op: OpScore, Token: 5}, false, false, true},
		{Instruction{Op: OpScore, Burst: 1}, false, false, false}, {Instruction{Op: OpScore, Query: 1}, false, false, false},
		{Instruction{Op: OpContext}, false, false, true}, {Instruction{Op: OpContext, Token: 32}, false, false, true}, {Instruction{Op: OpContext, Token: 33}, false, false, false},
		{Instruction{Op: OpContext, Query: 1}, false, false, false}, {Instruction{Op: OpPrecharge}, false, false, false}, {Instruction{Op: OpPrecharge, Token: 16}, false, false, false},
	} {
		for boundary, want := range map[string]bool{pim.BoundaryHead: c.head, pim.BoundaryRow: c.row, pim.BoundaryChunk: c.chunks} {
			m.Spec.TransferBoundary = boundary
			if got := m.atBoundary(&c.in); got != want {
				t.Errorf("%s: %v before %+v", boundary, got, c.in)
			}
		}
	}
}

// TestSegmentsByHand: a segment is one command, or a row where scales, key groups or visits begin inside rows. Skipping blocks of segments skips
// their tokens and their loads of q.
func TestSegmentsByHand(t *testing.T) {
	program := func(segment, visit, group, scales int) *Program {
		p := &Program{Heads: []Head{{Context: 5000}}}
		p.Geometry.RowTokens, p.Geometry.ScaleChunks, p.Shape.KeyGroup, p.VisitTokens, p.SegmentTokens = 512, scales, group, visit, segment
		return p
	}
	for _, c := range []struct{ segment, visit, group, scales, want int }{
		{64, 512, 0, 0, 64}, {64, 512, 0, 1, 512}, {64, 512, 128, 0, 512}, {64, 32, 0, 0, 64}, {64, 96, 0, 0, 512}, {1024, 512, 128, 1, 1024}, {512, 512, 128, 1, 512},
	} {
		if got := program(c.segment, c.visit, c.group, c.scales).segmentBlock(); got != c.want {
			t.Errorf("%+v: %d tokens", c, got)
		}
	}
	p := program(64, 512, 128, 0)
	p.segment, p.token, p.loaded = 2, 128, 1
	if p.jumpSegments(3, 512); p.segment != 2+24 || p.token != 128+1536 || p.loaded != 1+12 || p.rowEnd != p.token || p.limit != p.token+64 {
		t.Errorf("segment %d, token %d, %d groups, up to %d", p.segment, p.token, p.loaded, p.limit)
	}
	if p.jumpSegments(1, 3300); p.limit != 5000 {
		t.Errorf("up to %d, the context has 5,000", p.limit)
	}
	p = program(64, 512, 0, 0)
	if p.jumpSegments(5, 64); p.segment != 5 || p.token != 320 || p.loaded != 0 {
		t.Errorf("segment %d, token %d, %d groups", p.segment, p.token, p.loaded)
	}
}
