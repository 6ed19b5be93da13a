package values

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// TestWidthsAreTheReference: keys and values of different widths agree with float64 attention within the formats' bounds, and with the
// direct computation bit for bit, in the banks and in a rank-level unit.
func TestWidthsAreTheReference(t *testing.T) {
	for i, s := range []synthetic{
		{queryHeads: 4, kvHeads: 1, queries: 2, keys: 130, dim: 576, valueDim: 512, size: 1},
		{queryHeads: 8, kvHeads: 2, queries: 3, keys: 400, dim: 192, valueDim: 128, size: 1},
		{queryHeads: 2, kvHeads: 1, queries: 1, keys: 300, dim: 64, valueDim: 200, size: 1, dtype: "BF16"},
	} {
		x := oneCase(t, s)
		for j, preset := range []string{"paper", "fp32"} {
			for k, unit := range []string{pim.BankUnits, pim.RankLevelUnit} {
				if !deep.Case(i+j+2*k, 4) {
					continue
				}
				spec := precision(preset)
				spec.ProcessingUnit, spec.MACsPerRead = unit, 2
				if r, err := Verify(t.Context(), spec, parts.DDR4(t), x); err != nil || !r.Pass || r.ValueDim != s.valueDim {
					t.Errorf("%+v, %s, %s: %+v, %v", s, preset, unit, r, err)
				}
			}
		}
	}
}

// TestLatentValues: 128 query heads on a latent, whose value is the first 512 of its key's 576 elements.
func TestLatentValues(t *testing.T) {
	deep.Heavy(t)
	const d, valueDim, tokens = 576, 512, 120
	r := rand.New(rand.NewPCG(1, 2))
	vector := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = attention.RoundHalf(float32(r.NormFloat64()))
		}
		return x
	}
	q, k := vector(128*d), vector(tokens*d)
	var v []float32
	for at := 0; at < len(k); at += d {
		v = append(v, k[at:at+valueDim]...)
	}
	c, err := NewVerifyCase("latent", d, valueDim, q, k, v)
	parts.Must(t, err)
	for _, d := range []string{"ddr4-3200-8gb-x8", "ddr5-4800-16gb-x8"}[:deep.Of(1, 2, 2)] {
		if got, err := Verify(t.Context(), pim.Default(), parts.Of(t, d), c); err != nil || !got.Pass {
			t.Errorf("%s: %+v, %v", d, got, err)
		}
	}
	if _, err := NewVerifyCase("latent", d, valueDim, q, k, k); err == nil {
		t.Error("values as wide as keys pass for narrower ones")
	}
}

// TestSwappedBurstsShow: commands that assume as many bursts for a key as for a value, or a value at a key's columns, fail.
func TestSwappedBurstsShow(t *testing.T) {
	for _, s := range []synthetic{
		{queryHeads: 1, kvHeads: 1, queries: 1, keys: 40, dim: 576, valueDim: 512, size: 1}, {queryHeads: 1, kvHeads: 1, queries: 1, keys: 400, dim: 192, valueDim: 128, size: 1},
	} {
		x := oneCase(t, s)
		scores := func(in *machine.Instruction) bool { return in.Op == machine.OpScore || in.Op == machine.OpReadKey }
		for name, change := range map[string]func(*machine.Program, *machine.Instruction){
			"none": nil,
			"key bursts of a value": func(p *machine.Program, in *machine.Instruction) {
				if g := &p.Geometry; scores(in) && int(in.Burst) >= g.ValueBursts {
					in.Column -= int32(g.ValueBursts)
				}
			},
			"keys as far apart as values": func(p *machine.Program, in *machine.Instruction) {
				if g := &p.Geometry; scores(in) {
					in.Column -= int32(int(in.Token) % g.RowTokens / g.ChunkTokens * (g.KeyBursts - g.ValueBursts))
				}
			},
			"values at the columns of keys": func(p *machine.Program, in *machine.Instruction) {
				if g := &p.Geometry; in.Op == machine.OpContext || in.Op == machine.OpReadValue {
					in.Column = min(in.Column/int32(g.ValueBursts)*int32(g.KeyBursts)+in.Column%int32(g.ValueBursts), int32(g.RowBursts-1))
				}
			},
			"a query of a value's bursts": func(p *machine.Program, in *machine.Instruction) {
				if g := &p.Geometry; in.Op == machine.OpLoadQuery && int(in.Burst) >= g.ValueBursts {
					in.Burst -= uint8(g.ValueBursts)
				}
			},
		} {
			for _, unit := range []string{pim.BankUnits, pim.RankLevelUnit} {
				spec := precision("fp32")
				spec.ProcessingUnit = unit
				right := change == nil || unit == pim.RankLevelUnit && name == "a query of a value's bursts" // which has no load
				if r, err := verify(t.Context(), spec, parts.DDR4(t), x, spoil(nil, change)); err != nil || r.Pass != right {
					t.Errorf("%+v, %s, %s: %+v, %v", s, name, unit, r, err)
				}
			}
		}
	}
}

// TestScaleOfScores: a head with a score scale of its own equals one with queries larger by that factor. Powers of two round
// nothing.
func TestScaleOfScores(t *testing.T) {
	const tokens = 50
	shape := pim.HeadShape{HeadDim: 192, ValueDim: 128, Queries: 1, ElementBits: 16}
	g, err := pim.NewGeometry(parts.DDR4(t), shape)
	parts.Must(t, err)
	for _, unit := range []string{pim.BankUnits, pim.RankLevelUnit} {
		spec := precision("fp32")
		spec.ProcessingUnit = unit
		rank, err := NewHostRank(spec, parts.DDR4(t), shape, g.Rows(tokens), 1, true)
		parts.Must(t, err)
		r := rand.New(rand.NewPCG(3, 4))
		vector := func(n int) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			return x
		}
		for token := range tokens {
			parts.Must(t, rank.Store(0, token, EncodeHalf(nil, vector(192)), EncodeHalf(nil, vector(128))))
		}
		query := vector(192)
		attend := func(factor, scale float32) (out []float32, lse float64) {
			larger := make([]float32, len(query))
			for e, x := range query {
				larger[e] = attention.RoundHalf(x) * factor
			}
			all, l, err := rank.Attend(0, &DecodeHead{Context: tokens, Query: [][]uint16{EncodeHalf(nil, larger)}, Scale: scale})
			parts.Must(t, err)
			return append(out, all[0]...), l[0]
		}
		want, lse := attend(2, 0)
		got, lseGot := attend(1, 2*float32(1/math.Sqrt(192)))
		if lse != lseGot || len(got) != 128 {
			t.Errorf("%s: log-sum-exp %v and %v, %d elements", unit, lseGot, lse, len(got))
		}
		for e := range want {
			if got[e] != want[e] {
				t.Fatalf("%s, element %d: %v, %v with larger queries", unit, e, got[e], want[e])
			}
		}
	}
}
