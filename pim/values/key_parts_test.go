package values

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/pim/tables"
)

// drawKeyParts draws heads whose values are the first parts of their keys.
func drawKeyParts(t *rapid.T) *valueProblem {
	p := &valueProblem{spec: pim.Default(), device: drawWidth(t, 8, 8, 4, 16), storage: rapid.SampledFrom([]Storage{StoreFP16, StoreBF16}).Draw(t, "storage")}
	p.spec.Precision.Preset = rapid.SampledFrom([]string{"fp32", "paper"}).Draw(t, "preset")
	p.spec.NormalizedWeights = rapid.Bool().Draw(t, "normalised")
	p.spec.MACsPerRead = rapid.IntRange(1, 4).Draw(t, "macs")
	p.spec.BeyondBuffer = rapid.SampledFrom([]string{pim.Refetch, pim.Segment}).Draw(t, "beyond")
	if rapid.Bool().Draw(t, "small buffer") {
		p.spec.ScoreBuffer = 1024
	}
	p.spec.Multipliers = rapid.SampledFrom([]int{0, 0, 4, 8, 3}).Draw(t, "multipliers")
	dim := rapid.SampledFrom([]int{8, 33, 80, 200, 576, 1000}).Draw(t, "d")
	p.shape = pim.HeadShape{HeadDim: dim, ValueDim: min(dim, rapid.SampledFrom([]int{8, 31, 64, 512, 1000}).Draw(t, "value")), Queries: rapid.IntRange(1, 6).Draw(t, "queries"), ElementBits: 16, ValueInKey: true}
	g, err := pim.NewGeometry(p.device, p.shape)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 5))
	kind := rapid.SampledFrom(dataKinds).Draw(t, "data")
	for range rapid.IntRange(1, 2).Draw(t, "heads") {
		n := rapid.IntRange(1, 300).Draw(t, "context")
		h := machine.Head{Context: n, FirstRow: int32(p.rows), Appends: rapid.Bool().Draw(t, "append")}
		p.rows += g.Rows(n)
		if rapid.Bool().Draw(t, "list") {
			h.List = drawPages(t, &g, n)
			p.rows += g.Rows(n) + 4
		}
		p.heads, p.vectors = append(p.heads, h), append(p.vectors, kind.vectors(r, p.storage, p.shape, n))
	}
	return p
}

// TestKeyPartsAreTheDirectComputation: values read from their keys' places equal a direct computation, bit for bit, in program order and by
// the clock.
func TestKeyPartsAreTheDirectComputation(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		p := drawKeyParts(t)
		p.compare(t)
		p.replay(t)
	})
}

// latentHead is the latent of DeepSeek's models: a key of 576 elements whose first 512 are the value.
var latentHead = pim.HeadShape{HeadDim: 576, ValueDim: 512, ValueInKey: true, Queries: 4, ElementBits: 16}

// TestLatentHead: attention over latents agrees with the reference within the formats' bounds, and differs if elements change.
func TestLatentHead(t *testing.T) {
	d := parts.DDR4(t)
	g, err := pim.NewGeometry(d, latentHead)
	parts.Must(t, err)
	if g.KeyBursts != 18 || g.ValueBursts != 16 || g.RowTokens != 112 || g.Rows(112) != 1 || g.Rows(113) != 2 || g.ColumnTokens != 16 {
		t.Errorf("%+v", g)
	}
	scale := 1 / math.Sqrt(576)
	for _, preset := range []string{"fp32", "paper"} {
		spec := precision(preset)
		for _, n := range []int{1, 16, 17, 112, 113, 700} {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			q, k := randomVectors(r, StoreFP16, latentHead.Queries, 576, 1), randomVectors(r, StoreFP16, n, 576, 1)
			rank, err := NewHostRank(spec, d, latentHead, g.Rows(n), 1, true)
			parts.Must(t, err)
			for i := range n - 1 {
				parts.Must(t, rank.Store(0, i, k[i], nil))
			}
			out, lse, err := rank.Attend(0, &DecodeHead{Context: n, Query: q, Key: k[n-1]})
			parts.Must(t, err)
			rows := decode(StoreFP16, k)
			for h := range q {
				query, want, got := decode(StoreFP16, q[h:h+1]), make([]float64, 512), make([]float64, 512)
				wantLSE := attention.RowsReference(want, query, rows, scale)
				for i, x := range out[h] {
					got[i] = float64(x)
				}
				_, _, largest := exponentials(query, rows)
				bound := errorBound(spec, n, g.ColumnTokens, largest*scale)
				if e := attention.Compare(got, want); e.NonFinite > 0 || e.RelativeL2 > bound || len(out[h]) != 512 || math.Abs(lse[h]-wantLSE) > 1e-2 {
					t.Errorf("%s, %d tokens, query %d: %+v, expected at most %g; log-sum-exp %g, want %g", preset, n, h, e, bound, lse[h], wantLSE)
				}
			}
		}
	}
}

// TestKeyPartsByHand counts commands: each pass reads a chunk of 16 tokens in 18 columns for scores and 16 for values; a row that holds
// all tokens opens once; a read-out has bursts for each of the value's.
func TestKeyPartsByHand(t *testing.T) {
	d, spec := parts.DDR4(t), precision("fp32")
	for _, c := range []struct{ context, rows int }{{16, 1}, {100, 1}, {112, 1}, {113, 2}, {500, 5}} {
		m, err := machine.Measure(t.Context(), spec, d, machine.Load{KVHeads: 1, Shape: latentHead, Context: c.context}, nil, nil)
		parts.Must(t, err)
		chunks, passes := int64((c.context+15)/16), int64((latentHead.Queries+spec.MACsPerRead-1)/spec.MACsPerRead)
		if got, want := m.Commands[dram.MACA], passes*chunks*(18+16); got != want {
			t.Errorf("%d tokens: %d MACA, want %d", c.context, got, want)
		}
		if got, want := m.Commands[dram.WR], int64(18); got != want {
			t.Errorf("%d tokens: %d WR, want %d", c.context, got, want)
		}
		opens := int64(c.rows)
		if c.rows > 1 { // for scores and again for values; the last row of a pass may stay open
			opens = int64(2 * c.rows)
		}
		if got := m.Commands[dram.ACT]; got != 16*opens+1 {
			t.Errorf("%d tokens: %d ACT, want %d", c.context, got, 16*opens+1)
		}
		// Partial sums and accumulators of FP32: 8 bytes of a chip in a burst.
		partials, accumulators := int64(latentHead.Queries)*chunks*8, int64(latentHead.Queries)*16*32
		if got := m.Commands[dram.RDRES]; got != partials+accumulators {
			t.Errorf("%d tokens: %d RDRES, want %d and %d", c.context, got, partials, accumulators)
		}
	}
}

// TestKeyPartsRefused: the error names the feature that such heads do not support.
func TestKeyPartsRefused(t *testing.T) {
	d := parts.DDR4(t)
	program := func(spec *pim.Spec, shape pim.HeadShape) error {
		_, err := machine.NewProgram(spec, d, shape, nil)
		return err
	}
	rank, wide := pim.Default(), latentHead
	rank.ProcessingUnit = pim.RankLevelUnit
	for want, err := range map[string]func() error{
		"value_in_key = true: expected false with pim.processing_unit": func() error { return program(rank, latentHead) },
		"value_dim = 577: expected 8 to head_dim = 576, of which":      func() error { s := wide; s.ValueDim = 577; return program(pim.Default(), s) },
		"value_dim = 0: expected 8 to head_dim = 576, of which":        func() error { s := wide; s.ValueDim = 0; return program(pim.Default(), s) },
		"head_dim = 1025: expected 8 to 1024":                          func() error { s := wide; s.HeadDim = 1025; return program(pim.Default(), s) },
		"value_in_key = true: expected false with keys and values of":  func() error { s := wide; s.KVBits = 8; return program(pim.Default(), s) },
		"queries = 128: expected fewer: with accumulators for all 16":  func() error { s := wide; s.Queries = 128; return program(pim.Default(), s) },
		"value_in_key = true: expected false: tables of clocks":        func() error { _, err := tables.NewKernelTable(pim.Default(), d, latentHead); return err },
		"value_in_key = true: expected false: tables of":               func() error { _, err := tables.NewTransferTable(d, latentHead); return err },
	} {
		if err, said := err(), new(input.Error); !errors.As(err, &said) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
