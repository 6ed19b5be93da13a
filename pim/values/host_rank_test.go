package values

import (
	"slices"
	"testing"

	"math/rand/v2"

	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"pgregory.net/rapid"
)

// TestRankIsOneProgram: heads of a Rank, on several workers, decoded once or at each read, give the bits of one
// program with all heads on one machine.
func TestRankIsOneProgram(t *testing.T) {
	d := parts.DDR4(t)
	rapid.Check(t, func(t *rapid.T) {
		spec := pim.Default()
		spec.Precision.Preset = rapid.SampledFrom([]string{"fp32", "paper"}).Draw(t, "precision")
		spec.NormalizedWeights = rapid.Bool().Draw(t, "normalised")
		spec.ProcessingUnit = rapid.SampledFrom([]string{pim.BankUnits, pim.BankUnits, pim.RankLevelUnit}).Draw(t, "unit")
		shape := pim.HeadShape{HeadDim: rapid.SampledFrom([]int{8, 96, 128}).Draw(t, "d"), Queries: rapid.IntRange(1, 3).Draw(t, "queries"), ElementBits: 16}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		g, err := pim.NewGeometry(d, shape)
		if err != nil {
			t.Fatal(err)
		}
		var heads []machine.Head
		rows := 0
		for range rapid.IntRange(1, 4).Draw(t, "heads") {
			h := machine.Head{Context: rapid.IntRange(1, 600).Draw(t, "context"), FirstRow: int32(rows), Appends: rapid.Bool().Draw(t, "appends")}
			rows += g.Rows(h.Context)
			heads = append(heads, h)
		}
		p, err := machine.NewProgram(spec, d, shape, heads)
		if err != nil {
			t.Fatal(err)
		}
		m, err := newValueMachine(spec, d, shape, StoreFP16, rows)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := NewHostRank(spec, d, shape, rows, 2, true)
		if err != nil {
			t.Fatal(err)
		}
		exact, err := NewHostRank(spec, d, shape, rows, 2, false)
		if err != nil {
			t.Fatal(err)
		}
		if decoded.workers[1].machine.decoded == nil || exact.workers[1].machine.decoded != nil {
			t.Fatal("decoded when written where it should not be, or the other way round")
		}
		data := make([]headData, len(heads))
		for i, h := range heads {
			k, v := randomVectors(r, StoreFP16, h.Context, shape.HeadDim, 1), randomVectors(r, StoreFP16, h.Context, shape.HeadDim, 1)
			data[i].query = randomVectors(r, StoreFP16, shape.Queries, shape.HeadDim, 1)
			stored := h.Context
			if h.Appends {
				stored--
				data[i].key, data[i].value = k[stored], v[stored]
			}
			for token := range stored {
				for _, err := range []error{
					m.store(h.FirstRow, token, k[token], v[token]),
					decoded.Store(h.FirstRow, token, k[token], v[token]), exact.Store(h.FirstRow, token, k[token], v[token]),
				} {
					if err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		want, err := m.run(p, data)
		if err != nil {
			t.Fatal(err)
		}
		for i, h := range heads {
			head := DecodeHead{FirstRow: h.FirstRow, Context: h.Context, Query: data[i].query, Key: data[i].key, Value: data[i].value}
			for name, rank := range map[string]*HostRank{"decoded": decoded, "exact": exact} {
				got, _, err := rank.Attend(i%2, &head)
				if err != nil {
					t.Fatal(err)
				}
				for q := range got {
					if !slices.Equal(got[q], want[i].out[q]) {
						t.Errorf("%s, head %d, query %d: differs", name, i, q)
					}
				}
			}
		}
	})
}

// TestMultiplierSetsChangeNoValue: the number of query heads that share a read changes no bit.
func TestMultiplierSetsChangeNoValue(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		p := drawProblem(tb, t)
		var bits [2][]float32
		for i := range bits {
			p.spec.MACsPerRead = rapid.IntRange(1, p.shape.Queries).Draw(t, "sets")
			m, program, data := p.machine(t)
			results, err := m.run(program, data)
			parts.Must(tb, err)
			for _, r := range results {
				bits[i] = append(bits[i], slices.Concat(r.out...)...)
			}
		}
		if !slices.EqualFunc(bits[0], bits[1], sameBits) {
			t.Fatal("the number of multiplier sets changes what is computed")
		}
	})
}

// BenchmarkRank computes a head of 4,096 tokens, decoded once or at each read.
func BenchmarkRank(b *testing.B) {
	const tokens = 4096
	for _, decode := range []bool{true, false} {
		b.Run(map[bool]string{true: "decoded", false: "exact"}[decode], func(b *testing.B) {
			spec := precision("fp32")
			rank, err := NewHostRank(spec, parts.DDR4(b), halfHead, 16, 1, decode)
			if err != nil {
				b.Fatal(err)
			}
			r := rand.New(rand.NewPCG(1, 1))
			k, v := randomVectors(r, StoreFP16, tokens, 128, 1), randomVectors(r, StoreFP16, tokens, 128, 1)
			for t := range tokens {
				if err := rank.Store(0, t, k[t], v[t]); err != nil {
					b.Fatal(err)
				}
			}
			head := DecodeHead{Context: tokens, Query: k[:1]}
			for b.Loop() {
				if _, _, err := rank.Attend(0, &head); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(tokens*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}
