package values

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// randomVectors returns n vectors of dim normal elements in FP16.
func randomVectors(r *rand.Rand, storage Storage, n, dim int, size float64) [][]uint16 {
	vectors := make([][]uint16, n)
	for i := range vectors {
		vectors[i] = make([]uint16, dim)
		for j := range vectors[i] {
			vectors[i][j] = storage.encode(float32(r.NormFloat64() * size))
		}
	}
	return vectors
}

// storedHead returns a machine with one head of context random tokens stored,
// and a program and data to run on it.
func storedHead(tb testing.TB, spec *pim.Spec, shape pim.HeadShape, tokens int, size float64) (*valueMachine, *machine.Program, []headData) {
	tb.Helper()
	d := parts.DDR4(tb)
	p, err := machine.NewProgram(spec, d, shape, []machine.Head{{Context: tokens}})
	if err != nil {
		tb.Fatal(err)
	}
	m, err := newValueMachine(spec, d, shape, StoreFP16, p.Geometry.Rows(tokens))
	if err != nil {
		tb.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, uint64(tokens)))
	k, v := randomVectors(r, StoreFP16, tokens, shape.HeadDim, 1), randomVectors(r, StoreFP16, tokens, shape.HeadDim, 1)
	for t := range tokens {
		if err := m.store(0, t, k[t], v[t]); err != nil {
			tb.Fatal(err)
		}
	}
	return m, p, []headData{{query: randomVectors(r, StoreFP16, shape.Queries, shape.HeadDim, size)}}
}

// BenchmarkValues computes a decode step over 32K tokens of d = 128.
func BenchmarkValues(b *testing.B) {
	const tokens = 32 << 10
	for _, preset := range []string{"fp32", "paper"} {
		for _, queries := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s/queries=%d", preset, queries), func(b *testing.B) {
				spec := pim.Default()
				spec.Precision.Preset = preset
				m, p, data := storedHead(b, spec, pim.HeadShape{HeadDim: 128, Queries: queries, ElementBits: 16}, tokens, 1)
				heads := p.Heads
				b.ReportAllocs()
				for b.Loop() {
					p.Restart(heads)
					if _, err := m.run(p, data); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(tokens)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
			})
		}
	}
}

// BenchmarkStore writes keys and values through the re-layout.
func BenchmarkStore(b *testing.B) {
	m, _, _ := storedHead(b, pim.Default(), halfHead, 512, 1)
	vector := randomVectors(rand.New(rand.NewPCG(1, 1)), StoreFP16, 1, 128, 1)[0]
	b.SetBytes(512)
	b.ReportAllocs()
	for b.Loop() {
		if err := m.store(0, 100, vector, vector); err != nil {
			b.Fatal(err)
		}
	}
}
