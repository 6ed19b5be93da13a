package values

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// quantise replaces keys and values by narrow ones, with scales for each token, or for keys also for each group of rows.
func (v *headVectors) quantise(p *valueProblem, g *pim.Geometry, h *machine.Head) {
	bits, n := p.shape.StoredBits(), len(v.k)
	all := append(decode(p.storage, v.k), decode(p.storage, v.v)...)
	fp8Scale := pim.FitFP8(max(slices.Max(all), -slices.Min(all)))
	v.fp8 = p.shape.KVFloat
	x := &narrowTokens{key: make([]pim.Scales, n), value: make([]pim.Scales, n)}
	k := decode(p.storage, v.k)
	narrow := func(vector []uint16) pim.Scales {
		wide := decode(p.storage, [][]uint16{vector})
		if p.shape.KVFloat {
			for e := range vector {
				vector[e] = fp8Scale.EncodeFP8(wide[e])
			}
			return fp8Scale
		}
		s := pim.FitScales(slices.Min(wide), slices.Max(wide), bits)
		for e := range vector {
			vector[e] = s.Encode(wide[e], bits)
		}
		return s
	}
	groups := map[int][]int{}
	for i := range n {
		x.value[i] = narrow(v.v[i])
		if size := p.shape.KeyGroup; size == 0 {
			x.key[i] = narrow(v.k[i])
		} else {
			unit, within, _ := h.List.Place(g, i)
			group := (unit*g.RowTokens + within) / size
			groups[group] = append(groups[group], i)
		}
	}
	for _, tokens := range groups {
		scales := make([]pim.Scales, p.shape.HeadDim)
		for e := range scales {
			low, high := float32(math.Inf(1)), float32(math.Inf(-1))
			for _, i := range tokens {
				low, high = min(low, k[i*len(scales)+e]), max(high, k[i*len(scales)+e])
			}
			scales[e] = pim.FitScales(low, high, bits)
			for _, i := range tokens {
				v.k[i][e] = scales[e].Encode(k[i*len(scales)+e], bits)
			}
		}
		if x.elements == nil {
			x.elements = make([][]pim.Scales, n)
		}
		for _, i := range tokens {
			x.elements[i] = scales
		}
	}
	v.narrow = x
}

// scales returns those of a token.
func (v *headVectors) scales(token int) (s [2]pim.Scales) {
	if v.narrow != nil {
		s = [2]pim.Scales{v.narrow.key[token], v.narrow.value[token]}
	}
	return s
}

// widen returns the numbers that stored keys or values represent, without scales.
func (v *headVectors) widen(storage Storage, x [][]uint16) (out []float32) {
	if v.narrow == nil {
		return decode(storage, x)
	}
	for i := range x {
		for _, element := range x[i] {
			if v.fp8 {
				out = append(out, attention.E4M3Table()[element])
			} else {
				out = append(out, float32(int16(element)))
			}
		}
	}
	return out
}

// TestFoldedScales: folding scales into scores and weights gives attention, in float64, over the numbers that elements represent, up to the
// rounding of the formats.
func TestFoldedScales(tb *testing.T) {
	worst := map[string]float64{}
	rapid.Check(tb, func(t *rapid.T) {
		p := &valueProblem{spec: precision(rapid.SampledFrom([]string{"fp32", "paper"}).Draw(t, "precision")), device: parts.DDR4(tb)}
		p.spec.ProcessingUnit = rapid.SampledFrom([]string{pim.BankUnits, pim.RankLevelUnit}).Draw(t, "unit")
		p.spec.NormalizedWeights = rapid.Bool().Draw(t, "normalised")
		p.shape = pim.HeadShape{HeadDim: 128, Queries: rapid.IntRange(1, 3).Draw(t, "queries"), ElementBits: 16, KVBits: rapid.SampledFrom([]int{8, 4}).Draw(t, "bits")}
		if p.shape.KVFloat = p.shape.KVBits == 8 && rapid.Bool().Draw(t, "fp8"); !p.shape.KVFloat {
			p.shape.KeyGroup = rapid.SampledFrom([]int{0, 0, 128}).Draw(t, "group")
		}
		g, err := pim.NewGeometry(p.device, p.shape)
		parts.Must(tb, err)
		h := machine.Head{Context: rapid.IntRange(1, 700).Draw(t, "context"), Appends: rapid.Bool().Draw(t, "append")}
		mean := rapid.SampledFrom([]float64{0, 1}).Draw(t, "mean of the values")
		kind := dataKind{element: func(r *rand.Rand, part, _, _ int) float64 { return r.NormFloat64() + []float64{0, 0, mean}[part] }}
		v := kind.vectors(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 4)), StoreFP16, p.shape, h.Context)
		v.quantise(p, &g, &h)
		p.heads, p.vectors, p.rows = []machine.Head{h}, []headVectors{v}, g.Rows(h.Context)
		name := p.spec.Precision.Preset
		worst[name] = max(worst[name], p.folded(t))
	})
	tb.Logf("worst: %v", worst)
}

// folded compares attention of a problem's head with attention in float64 to the numbers that its narrow elements stand for, and returns the
// largest relative error of an output.
func (p *valueProblem) folded(t rapid.TB) (worst float64) {
	t.Helper()
	h, v := p.heads[0], &p.vectors[0]
	m, program, data := p.machine(t)
	results, err := m.run(program, data)
	parts.Must(t, err)
	var k, values []float32
	for i := range h.Context {
		for e := range p.shape.HeadDim {
			s := v.narrow.key[i]
			if v.narrow.elements != nil {
				s = v.narrow.elements[i][e]
			}
			if p.shape.KVFloat {
				k, values = append(k, s.DecodeFP8(v.k[i][e])), append(values, s.DecodeFP8(v.v[i][e]))
				continue
			}
			k, values = append(k, s.Decode(v.k[i][e])), append(values, v.narrow.value[i].Decode(v.v[i][e]))
		}
	}
	for q, query := range v.q {
		want, got := make([]float64, p.shape.HeadDim), make([]float64, p.shape.HeadDim)
		lse := attention.Reference(want, decode(StoreFP16, [][]uint16{query}), k, values, 1/math.Sqrt(128))
		for e, x := range results[0].out[q] {
			got[e] = float64(x)
		}
		tolerance := map[string]float64{"fp32": toleranceFP32, "paper": toleranceScores}[p.spec.Precision.Preset]
		if p.shape.KeyGroup > 0 { // q with its scales is FP16
			tolerance = max(tolerance, 2e-3)
		}
		off := attention.Compare(got, want).RelativeL2
		worst = max(worst, off)
		if !(off <= tolerance && math.Abs(results[0].lse[q]-lse) <= tolerance*max(1, math.Abs(lse))) {
			t.Errorf("%+v: output off by %.2g, log-sum-exp by %.2g", p.shape, off, results[0].lse[q]-lse)
		}
	}
	return worst
}

// TestFoldedScalesBeyondBuffer: scales of values rise or fall by a factor of 32 between thirds of 700 tokens, and the score buffer holds only part
// of the context: the largest scale is in the last segment, or in the first.
func TestFoldedScalesBeyondBuffer(t *testing.T) {
	deep.Heavy(t)
	for _, unit := range []string{pim.BankUnits, pim.RankLevelUnit} {
		for _, beyond := range []string{pim.Refetch, pim.Segment} {
			for _, factor := range []float64{32, 1. / 32} {
				for _, bits := range []int{8, 4} {
					p := &valueProblem{spec: precision("paper"), device: parts.DDR4(t), shape: pim.HeadShape{HeadDim: 128, Queries: 2, ElementBits: 16, KVBits: bits}}
					p.spec.ProcessingUnit, p.spec.BeyondBuffer, p.spec.ScoreBuffer = unit, beyond, 1024 // 256 tokens of two query heads
					g, err := pim.NewGeometry(p.device, p.shape)
					parts.Must(t, err)
					h := machine.Head{Context: 700}
					kind := dataKind{element: func(r *rand.Rand, part, token, _ int) float64 {
						if part == 2 {
							return r.NormFloat64() * math.Pow(factor, float64(token/256))
						}
						return r.NormFloat64()
					}}
					v := kind.vectors(rand.New(rand.NewPCG(uint64(bits), 5)), StoreFP16, p.shape, h.Context)
					v.quantise(p, &g, &h)
					p.heads, p.vectors, p.rows = []machine.Head{h}, []headVectors{v}, g.Rows(h.Context)
					t.Run(fmt.Sprintf("%s, %s, %g, %d bits", unit, beyond, factor, bits), func(t *testing.T) { p.folded(t) })
				}
			}
		}
	}
}

// TestScalesFit: an element is within half a step of its number, plus the rounding of scale and zero to FP16; a tensor's scale keeps the
// sign.
func TestScalesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.SampledFrom([]int{4, 8}).Draw(t, "bits")
		x := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) float32 { return float32(rapid.IntRange(-9000, 9000).Draw(t, "x")) / 1000 }), 1, 30).Draw(t, "x")
		low, high := slices.Min(x), slices.Max(x)
		s := pim.FitScales(low, high, bits)
		most := max(-low, high)
		tensor := pim.FitTensor(most, bits)
		steps := float32(int(1)<<bits - 1)
		for _, v := range x {
			element := s.Encode(v, bits)
			if e := int16(element); e < -1<<(bits-1) || e >= 1<<(bits-1) {
				t.Fatalf("%v is %d in %d bits", v, e, bits)
			}
			// Scale and zero are off by 2^-11 of themselves; a zero is up to low/scale steps.
			slack := (high-low)*0x1p-10 + most*0x1p-10
			if d := s.Decode(element) - v; max(d, -d) > s.Scale/2+slack {
				t.Fatalf("%v of %v to %v is %v in %d bits", v, low, high, s.Decode(element), bits)
			}
			if d := tensor.Decode(tensor.Encode(v, bits)); d*v < 0 || max(d-v, v-d) > most/steps*2 {
				t.Fatalf("%v is %v with the scale of %v", v, d, most)
			}
		}
	})
	if s := pim.FitScales(3, 3, 8); s.Decode(s.Encode(3, 8)) != 3 {
		t.Errorf("equal numbers: %+v", s)
	}
	for _, most := range []float32{1e-3, 0.7, 448, 5000} { // the largest number becomes the largest element
		if s := pim.FitFP8(most); s.EncodeFP8(most) != 0x7e || s.EncodeFP8(-most) != 0xfe || s.EncodeFP8(most/448*120) != 0x6f || s.DecodeFP8(0x7e) != s.Scale*448 {
			t.Errorf("FP8 to %v: %+v", most, s)
		}
	}
	if s := pim.FitFP8(0); s.DecodeFP8(s.EncodeFP8(0)) != 0 {
		t.Errorf("zeros: %+v", s)
	}
	if s := pim.FitTensor(0, 4); s.Decode(s.Encode(0, 4)) != 0 {
		t.Errorf("zeros: %+v", s)
	}
}

// TestNarrowRank: a rank gives the bits of one machine, whether it decodes on write or on read; a key without its scales is NaN.
func TestNarrowRank(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		spec := precision(rapid.SampledFrom([]string{"fp32", "paper"}).Draw(t, "precision"))
		spec.ProcessingUnit = rapid.SampledFrom([]string{pim.BankUnits, pim.RankLevelUnit}).Draw(t, "unit")
		spec.Multipliers = rapid.SampledFrom([]int{0, 8}).Draw(t, "multipliers")
		p := &valueProblem{spec: spec, device: parts.DDR4(tb), shape: pim.HeadShape{HeadDim: 128, Queries: 2, ElementBits: 16, KVBits: rapid.SampledFrom([]int{8, 4}).Draw(t, "bits")}}
		if p.shape.KVFloat = p.shape.KVBits == 8 && rapid.Bool().Draw(t, "fp8"); !p.shape.KVFloat {
			p.shape.KeyGroup = rapid.SampledFrom([]int{0, 64}).Draw(t, "group")
		}
		g, err := pim.NewGeometry(p.device, p.shape)
		parts.Must(tb, err)
		h := machine.Head{Context: rapid.IntRange(2, 400).Draw(t, "context")}
		v := dataKinds[1].vectors(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 4)), StoreFP16, p.shape, h.Context)
		v.quantise(p, &g, &h)
		p.heads, p.vectors, p.rows = []machine.Head{h}, []headVectors{v}, g.Rows(h.Context)
		m, program, data := p.machine(t)
		want, err := m.run(program, data)
		parts.Must(tb, err)
		last := h.Context - 1
		for _, decode := range []bool{true, false} {
			rank, err := NewHostRank(spec, p.device, p.shape, p.rows, 2, decode)
			parts.Must(tb, err)
			head := DecodeHead{Context: h.Context, Query: v.q}
			for i := range last {
				parts.Must(tb, rank.StoreNarrow(0, i, v.k[i], v.v[i], v.scales(i)))
			}
			parts.Must(tb, rank.Store(0, last, v.k[last], v.v[last]))
			got, _, err := rank.Attend(1, &head)
			parts.Must(tb, err)
			if x := got[0][0]; x == x {
				t.Fatalf("a token without scales gives %v", x)
			}
			for i := 0; p.shape.KeyGroup > 0 && i < h.Context; i += p.shape.KeyGroup {
				parts.Must(tb, rank.StoreGroup(0, i/p.shape.KeyGroup, v.narrow.elements[i]))
			}
			head.Key, head.Value, head.Scales = v.k[last], v.v[last], v.scales(last)
			got, _, err = rank.Attend(1, &head)
			parts.Must(tb, err)
			for q := range got {
				if !slices.Equal(got[q], want[0].out[q]) {
					t.Fatalf("decoded when written: %v; query %d differs", decode, q)
				}
			}
		}
	})
}

// TestKeyGroupsTakeLoads: q is loaded again for each group of keys with scales by element. At a switch of rows this takes no time; within a
// row, the load waits for the last scores, and the next scores for the load.
func TestKeyGroupsTakeLoads(t *testing.T) {
	const context = 16384
	for _, shape := range []pim.HeadShape{
		{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: 8}, {HeadDim: 128, Queries: 4, ElementBits: 16, KVBits: 8},
		{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: 4}, {HeadDim: 128, Queries: 4, ElementBits: 16, KVBits: 4},
	} {
		d, spec := parts.DDR4(t), pim.Default()
		spec.Multipliers = 8
		clocks := func(group int) int64 {
			shape.KeyGroup = group
			b, err := machine.NewRunner(spec, d, shape)
			parts.Must(t, err)
			return b.Run(machine.Head{Context: context, Appends: true})
		}
		row := 512 * 16 / shape.KVBits
		without := clocks(0)
		if got := clocks(row); got != without {
			t.Errorf("%+v: groups of a row take %d clocks, %d without", shape, got, without)
		}
		more := clocks(128) - without
		load := int64(4*shape.Queries*d.BurstClocks() + d.CWL + 16 + d.TCCDL) // q, and partial sums that are read first
		if groups := int64(context/128 - context/row); more <= 0 || more > groups*load {
			t.Errorf("%+v: %d groups within rows take %d clocks more, at most %d each expected", shape, groups, more, load)
		}
	}
}

// TestFP8Attention: attention over FP8 keys and values with one scale a tensor is within 8% (relative L2) of attention in float64 over the
// original normal numbers; the error is FP8's, not the units'.
func TestFP8Attention(tb *testing.T) {
	worst := 0.0
	rapid.Check(tb, func(t *rapid.T) {
		p := &valueProblem{spec: precision(rapid.SampledFrom([]string{"fp32", "paper"}).Draw(t, "precision")), device: parts.DDR4(tb)}
		p.shape = pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: 8, KVFloat: true}
		g, err := pim.NewGeometry(p.device, p.shape)
		parts.Must(tb, err)
		h := machine.Head{Context: rapid.IntRange(1, 700).Draw(t, "context"), Appends: rapid.Bool().Draw(t, "append")}
		size := rapid.SampledFrom([]float64{0.1, 1, 30}).Draw(t, "size") // of keys and values; queries are as much smaller, so that sums of q·k̂ stay below 65,504
		kind := dataKind{element: func(r *rand.Rand, part, _, _ int) float64 {
			return r.NormFloat64() * []float64{1 / size, size, size}[part]
		}}
		v := kind.vectors(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 4)), StoreFP16, p.shape, h.Context)
		want, got := make([]float64, p.shape.HeadDim), make([]float64, p.shape.HeadDim)
		attention.Reference(want, decode(StoreFP16, v.q), decode(StoreFP16, v.k), decode(StoreFP16, v.v), 1/math.Sqrt(128))
		v.quantise(p, &g, &h)
		p.heads, p.vectors, p.rows = []machine.Head{h}, []headVectors{v}, g.Rows(h.Context)
		m, program, data := p.machine(t)
		results, err := m.run(program, data)
		parts.Must(tb, err)
		for e, x := range results[0].out[0] {
			got[e] = float64(x)
		}
		off := attention.Compare(got, want).RelativeL2
		if worst = max(worst, off); !(off <= 0.08) {
			t.Fatalf("off by %.2g", off)
		}
	})
	tb.Logf("worst: %.3f", worst)
}
