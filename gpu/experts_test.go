package gpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/llm"
)

// drawExperts draws the shares of experts.
func drawExperts(t *rapid.T) (shares []llm.ExpertShare, active int) {
	m := llm.Model{Experts: size(t, "experts", 1, 256), ExpertSkew: rapid.SampledFrom([]float64{0, 0.5, 1, 3}).Draw(t, "skew")}
	m.ActiveExperts = rapid.IntRange(1, m.Experts).Draw(t, "active")
	return m.ExpertShares(), m.ActiveExperts
}

// TestTouchedExperts: the expected number of touched experts equals that of drawn batches. Drawing at equal distances takes each expert
// with its share, and none twice (W. G. Madow 1949, https://doi.org/10.1214/aoms/1177729988).
func TestTouchedExperts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, m := range []llm.Model{
		{Experts: 8, ActiveExperts: 2}, {Experts: 8, ActiveExperts: 2, ExpertSkew: 1}, {Experts: 128, ActiveExperts: 8},
		{Experts: 128, ActiveExperts: 8, ExpertSkew: 1.5}, {Experts: 5, ActiveExperts: 5}, {Experts: 1, ActiveExperts: 1},
	} {
		shares := m.ExpertShares()
		var each []float64
		for _, s := range shares {
			for range s.Experts {
				each = append(each, s.Share)
			}
		}
		for _, tokens := range []int{1, 2, 7, 40} {
			batches := deep.Of(1000, 4000, 4000)
			drawn := 0
			for range batches {
				touched := map[int]bool{}
				for range tokens {
					below, next := 0.0, random.Float64()
					for _, i := range random.Perm(len(each)) {
						if below += each[i]; below > next {
							touched[i], next = true, next+1
						}
					}
				}
				drawn += len(touched)
			}
			got, want := newExpertLoad(shares, m.ActiveExperts, tokens).Touched, float64(drawn)/float64(batches)
			if math.Abs(got/want-1) > 0.01 {
				t.Errorf("%+v: %d tokens touch %.3f experts, drawn %.3f", m, tokens, got, want)
			}
		}
	}
}

// TestExpertLoad: by hand for Mixtral's 2 of 8. Touched experts are never more than all, nor fewer than a token takes. More tokens touch
// more experts and give each more rows; skew touches fewer.
func TestExpertLoad(t *testing.T) {
	uniform := []llm.ExpertShare{{Experts: 8, Share: 0.25}}
	for tokens, want := range map[int]float64{1: 2, 2: 3.5, 3: 4.625, 4: 5.46875} {
		if got := newExpertLoad(uniform, 2, tokens).Touched; math.Abs(got-want) > 1e-12 {
			t.Errorf("%d tokens touch %v experts, want %v", tokens, got, want)
		}
	}
	for tokens, want := range map[int]int{1: 1, 2: 2, 8: 3, 64: 16, 512: 128, 513: 129} {
		if got := newExpertLoad(uniform, 2, tokens).rows(); got != want {
			t.Errorf("%d tokens: %d rows an expert, want %d", tokens, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		shares, active := drawExperts(t)
		experts := 0
		for _, s := range shares {
			experts += s.Experts
		}
		tokens := size(t, "tokens", 1, 1<<20)
		l, more := newExpertLoad(shares, active, tokens), newExpertLoad(shares, active, tokens+size(t, "more", 1, 1000))
		if l.Touched < float64(active)*(1-1e-12) || l.Touched > float64(experts) || more.Touched < l.Touched || more.rows() < l.rows() {
			t.Fatalf("%d of %d experts: %+v, then %+v", active, experts, l, more)
		}
		if float64(l.rows())*l.Touched < float64(l.Pairs)*(1-1e-5) {
			t.Fatalf("%d rows of %v experts for %d pairs", l.rows(), l.Touched, l.Pairs)
		}
		even := newExpertLoad([]llm.ExpertShare{{Experts: experts, Share: float64(active) / float64(experts)}}, active, tokens)
		if l.Touched > even.Touched*(1+1e-12) {
			t.Fatalf("skew touches %v experts, equal shares %v", l.Touched, even.Touched)
		}
	})
}

// TestGroupedReduces: one expert that all tokens take is a plain product. Equal experts are a product of one expert's rows by all columns,
// except for the rows that each reads and writes. One kernel has one overhead.
func TestGroupedReduces(t *testing.T) {
	forPresets(t, func(t *rapid.T, s *Spec) {
		tokens, n, k := size(t, "tokens", 1, 1<<20), size(t, "n", 1, 1<<15), size(t, "k", 1, 1<<15)
		one := newExpertLoad([]llm.ExpertShare{{Experts: 1, Share: 1}}, 1, tokens)
		if got, want := s.groupedCost(one, tokens, n, k, uniform(16)), s.GEMMCost(tokens, n, k, 16); got != want {
			t.Fatalf("one expert: %+v, want %+v", got, want)
		}
		experts, rows := size(t, "experts", 1, 64), size(t, "rows", 1, 2048)
		l := expertLoad{Pairs: rows * experts, Touched: float64(experts)}
		got, plain := s.groupedCost(l, rows, n, k, uniform(16)), s.GEMMCost(rows, experts*n, k, 16)
		if got != plain {
			t.Fatalf("%d equal experts: %+v, want %+v", experts, got, plain)
		}
		apart := s.groupedCost(l, l.Pairs, n, k, uniform(16))
		if read := apart.Bytes - got.Bytes; read != float64(2*(experts-1)*rows*k) || apart.Seconds < got.Seconds {
			t.Fatalf("rows of its own for each expert: %+v, shared %+v", apart, got)
		}
		if none := s.groupedCost(expertLoad{}, 0, n, k, uniform(16)); none != (Cost{}) {
			t.Fatalf("no tokens cost %+v", none)
		}
	})
}

// TestGroupedBytes: a grouped product reads the weights of the touched experts: never more than all, and all with many tokens.
func TestGroupedBytes(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	c := NewModelCost(s, loadModel(t, "mixtral-8x7b"))
	f := &c.feedForwards[0]
	up := c.up(f.width)
	expert := 2 * float64(up*4096)
	for _, tokens := range []int{1, 2, 10, 100, 1000, 100_000} {
		l := newExpertLoad(f.experts, 2, tokens)
		activations := 2 * float64(tokens*4096+l.Pairs*up)
		weights := s.groupedCost(l, tokens, up, 4096, uniform(16)).Bytes - activations
		want := 8 * (1 - math.Pow(0.75, float64(tokens)))
		if got := weights / expert; math.Abs(got-want) > 1e-9*want || got > 8 {
			t.Errorf("%d tokens read %v experts, want %v", tokens, got, want)
		}
	}
}

// TestMixtureSums: an FFN of experts is the sum of its kernels; with one expert it is the dense one plus the router; skewed experts read
// fewer weights.
func TestMixtureSums(t *testing.T) {
	s, m := loadPreset(t, "h200-sxm"), *loadModel(t, "mixtral-8x7b")
	const n = 16
	l := newExpertLoad([]llm.ExpertShare{{Experts: 8, Share: 0.25}}, 2, n)
	around := s.addNorm(n, 4096, 16).Seconds + s.allReduce(2, n*4096*2)
	router := func(experts, active int) float64 {
		return s.gemmTime(n, experts, 4096, 16) + s.Elementwise(2, n, experts, 16).Seconds + s.Elementwise(2, n, active, 32).Seconds +
			s.Elementwise(active+1, n, 4096, 16).Seconds
	}
	want := around + router(8, 2) + s.groupedCost(l, n, 14336, 4096, uniform(16)).Seconds + s.activation(2*n, 7168, true, 16).Seconds +
		s.groupedCost(l, 2*n, 4096, 7168, uniform(16)).Seconds
	s.Collective.Skew = 0 // tested separately
	mixture := NewModelCost(s, &m).FFN(n).Seconds
	if !near(mixture, want) {
		t.Errorf("%g s, want %g", mixture, want)
	}
	if got := NewModelCost(s, &m).FFN(0); got != (Work{}) {
		t.Errorf("no tokens: %+v", got)
	}
	skewed := m
	skewed.ExpertSkew = 2
	if got := NewModelCost(s, &skewed).FFN(n).Seconds; got >= mixture {
		t.Errorf("skewed: %g s, equal %g", got, mixture)
	}
	dense := m
	dense.Experts, dense.ActiveExperts = 0, 0
	single := m
	single.Experts, single.ActiveExperts = 1, 1
	if got, want := NewModelCost(s, &single).FFN(n).Seconds, NewModelCost(s, &dense).FFN(n).Seconds+router(1, 1); !near(got, want) {
		t.Errorf("one expert: %g s, dense and router %g", got, want)
	}
}

// TestMixtureMonotone: more tokens never make a layer of experts faster. AttAcc's products are not monotone by construction, so they use
// tiles here.
func TestMixtureMonotone(t *testing.T) {
	m := loadModel(t, "mixtral-8x7b")
	forPresets(t, func(t *rapid.T, preset *Spec) {
		s := *preset
		s.MatMul.Model, s.MatMul.WaveQuantization = GEMMTiles, false
		model := *m
		model.ExpertSkew = rapid.SampledFrom([]float64{0, 0.5, 2}).Draw(t, "skew")
		model.TensorParallel = 1 // all-reduces are tested separately
		c := NewModelCost(&s, &model)
		tokens := size(t, "tokens", 1, 1<<15)
		if a, b := c.FFN(tokens).Seconds, c.FFN(tokens+size(t, "more", 1, 100)).Seconds; b < a*(1-1e-9) {
			t.Fatalf("%d tokens take %g s, more only %g", tokens, a, b)
		}
	})
}

// TestPaddedExperts: experts with sides padded to tiles take longer, but no longer than experts with the padded sides; without 4 bits, or
// if tiles divide the sides, nothing changes.
func TestPaddedExperts(t *testing.T) {
	s := loadPreset(t, "h100-sxm")
	of := func(bits, ffn, hiddenTile, ffnTile int) Work { // activations of 2,880 columns take slightly less than those of 2,944
		m := &llm.Model{Name: "padded", Layers: 1, Hidden: 3072, Heads: 8, KVHeads: 8, HeadDim: 64, FFNHidden: ffn, GatedFFN: true, Experts: 8, ActiveExperts: 2, Vocab: 1000, ElementBits: 16, TensorParallel: 1}
		m.ExpertBits, m.ExpertTileHidden, m.ExpertTileFFN = bits, hiddenTile, ffnTile
		c := NewModelCost(s, m)
		return c.mixture(&c.feedForwards[0], 16)
	}
	if got, whole := of(4, 2880, 256, 128), of(4, 2944, 0, 0); got.Seconds >= whole.Seconds || got.Seconds <= of(4, 2880, 0, 0).Seconds {
		t.Errorf("padded %+v, whole %+v", got, whole)
	}
	if of(4, 2944, 256, 128) != of(4, 2944, 0, 0) || of(8, 2880, 256, 128) != of(8, 2880, 0, 0) {
		t.Error("tiles change experts that they do not pad")
	}
}
