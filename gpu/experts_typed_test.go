package gpu

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/llm"
)

// expertsSpec returns a GPU with round numbers and expert kernels of 16 bits and of one narrow type.
func expertsSpec() *Spec {
	s := &Spec{SMs: 100, Peak16: 1e15, Peak8: 2e15, MemoryBandwidth: 1e12, MatMul: GEMMSpec{Model: GEMMTiles}}
	s.Experts.Whole = ExpertSpec{Efficiency: Efficiency{Compute: 0.5, Memory: 0.8, Overhead: 10e6}, PassMemory: 0.5, ExpertTime: 1e6, AbsentShare: 0.25}
	s.Experts.NVFP4 = s.Experts.Whole
	return s
}

// TestExpertsByHand: a small batch reads the weights of touched experts, and passes over its rows.
func TestExpertsByHand(t *testing.T) {
	s := expertsSpec()
	l := NewExpertLoad(4, 2, []int{4, 0, 1}) // 5 of the 8 pairs are on this GPU
	got := s.ExpertsCost(expertType("bf16"), &l, Experts{Hidden: 1024, Width: 512, Matrices: 3})
	up := (2*1024*1024 + 4*1024 + 5*1024) * 2.0 // two experts' weights, inputs and outputs
	down := (2*512*1024 + 5*512 + 5*1024) * 2.0
	rows := 5 + 0.25*3.0
	passes := rows*(2*512*2+512*2+1024*2) + 4*1024*2
	want := (up+down)/0.8e12 + passes/0.5e12 + 10e-6 + 2e-6
	if math.Abs(got.Seconds/want-1) > 1e-9 || got.Bytes != up+down || got.FLOPs != 2*5*3*512*1024 {
		t.Errorf("%+v, want %v s, %v B", got, want, up+down)
	}
	narrow := s.ExpertsCost(expertType("nvfp4"), &l, Experts{Hidden: 1024, Width: 512, Matrices: 3})
	up, down = 2*1024*1024*9/16.0+4*1024/2+5*1024*2, 2*512*1024*9/16.0+5*512/2+5*1024*2
	passes = rows*(2*512*2+512/2+1024*2) + 4*1024*2 + 4*1024*2.5
	want = (up+down)/0.8e12 + passes/0.5e12 + 10e-6 + 2e-6
	if math.Abs(narrow.Seconds/want-1) > 1e-9 {
		t.Errorf("NVFP4: %+v, want %v s", narrow, want)
	}
	if c := s.ExpertsCost(expertType("fp8"), &l, Experts{Hidden: 1024, Width: 512, Matrices: 3}); c != (Cost{}) {
		t.Errorf("a type without kernels costs %+v", c)
	}
}

// TestExpertTiles: rows are padded to tiles for each expert, so the same number of rows on more experts takes longer.
func TestExpertTiles(t *testing.T) {
	l := NewExpertLoad(300, 1, []int{1, 8, 9, 282})
	if want := [...]float64{1 + 1 + 2 + 36, 1 + 1 + 1 + 18, 3 + 9, 3 + 5, 3 + 3, 3 + 2}; l.tiles != want || l.Pairs != 300 || l.Touched != 4 || l.Tokens != 300 {
		t.Errorf("%+v, want tiles %v", l, want)
	}
	s := expertsSpec()
	x := Experts{Hidden: 4096, Width: 4096, Matrices: 3}
	even, skewed := NewExpertLoad(4096, 1, []int{1024, 1024, 1024, 1024}), NewExpertLoad(4096, 1, []int{4093, 1, 1, 1})
	if a, b := s.ExpertsCost(expertType("bf16"), &even, x), s.ExpertsCost(expertType("bf16"), &skewed, x); b.Compute <= a.Compute || b.Executed <= a.Executed {
		t.Errorf("even %v s of %v FLOPs, skewed %v s of %v", a.Compute, a.Executed, b.Compute, b.Executed)
	}
}

// TestOneExpertIsDense: one expert that all tokens take costs the same as a product with the same tiles and unsplit k.
func TestOneExpertIsDense(t *testing.T) {
	s := expertsSpec()
	e := s.Experts.Whole
	e.TileKnee, e.KRamp, e.StepLatency, e.Ridge = 20, 100, 3, 2
	g := Tiling{Efficiency: e.Efficiency, TileKnee: e.TileKnee, KRamp: e.KRamp, StepLatency: e.StepLatency}
	for _, m := range []int{1, 7, 100, 3000} {
		l := NewExpertLoad(m, 1, []int{m})
		spread := ExpertLoad{Tokens: m, All: float64(m), Pairs: float64(m), Touched: 1}
		if spread.spread([]llm.ExpertShare{{Experts: 1, Share: 1}}, m, 1); spread != l {
			t.Errorf("%d tokens on one expert of all are %+v, want %+v", m, spread, l)
		}
		got := e.product(s, &l, float64(m), 2048, 4096, uniform(16))
		want := math.Inf(1)
		for i, tm := range expertTileRows {
			for _, tn := range expertTileColumns {
				var one [1]limits
				base := Cost{Bytes: 2 * float64(m*4096+2048*4096+m*2048)}
				g.costs(one[:], s, base, tile{tm, tn}, l.tiles[i]*float64(ceilDiv(2048, tn)), float64(s.Peak16), 1, m, 2048, 4096)
				want = min(want, one[0].cost(base, g.Ridge).Seconds)
			}
		}
		if math.Abs(got.Seconds/want-1) > 1e-9 {
			t.Errorf("%d rows take %v s, a product %v", m, got.Seconds, want)
		}
	}
}

// TestSpreadTiles: expected tiles equal those of counted binomial loads.
func TestSpreadTiles(t *testing.T) {
	for _, c := range []struct {
		tokens int
		share  float64
	}{{64, 8. / 256}, {512, 8. / 256}, {4096, 4. / 128}, {100, 0.25}, {30000, 0.25}} {
		l := ExpertLoad{}
		l.spread([]llm.ExpertShare{{Experts: 1, Share: c.share}}, c.tokens, 1)
		probability, want := math.Pow(1-c.share, float64(c.tokens)), [len(expertTileRows)]float64{}
		for n := 1; n <= c.tokens; n++ {
			if probability == 0 {
				probability = math.SmallestNonzeroFloat64
			}
			logs := lchoose(c.tokens, n) + float64(n)*math.Log(c.share) + float64(c.tokens-n)*math.Log(1-c.share)
			for i, tile := range expertTileRows {
				want[i] += math.Exp(logs) * float64(ceilDiv(n, tile))
			}
		}
		for i := range want {
			if math.Abs(l.tiles[i]/want[i]-1) > 0.04 || math.Abs(l.tiles[i]-want[i]) > 0.3 {
				t.Errorf("%d tokens, share %.3f: %v tiles of %d rows, want %v", c.tokens, c.share, l.tiles[i], expertTileRows[i], want[i])
			}
		}
	}
}

func lchoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

func expertType(section string) *ExpertType {
	for i := range ExpertTypes {
		if ExpertTypes[i].Section == section {
			return &ExpertTypes[i]
		}
	}
	return nil
}

// TestExpertTypes: the kernels for a model's widths, by hand.
func TestExpertTypes(t *testing.T) {
	for _, c := range []struct {
		in, weights, block int
		section            string
	}{
		{16, 16, 0, "bf16"}, {8, 8, 0, "fp8"}, {8, 8, FP8Block, "fp8_block"}, {8, 8, 64, ""}, {4, 4, NVFP4Block, "nvfp4"}, {8, 4, NVFP4Block, "nvfp4"},
		{16, 4, NVFP4Block, "int4"}, {16, 4, MXFP4Block, "mxfp4"}, {8, 4, MXFP4Block, "mxfp4_fp8"}, {16, 4, 0, "int4"}, {16, 4, int4Block, "int4"}, {16, 8, 0, ""},
	} {
		s := &Spec{}
		s.MatMul.Model = GEMMTiles
		for i := range ExpertTypes {
			ExpertTypes[i].In(s).Compute = 1
		}
		want := (*ExpertSpec)(nil)
		if x := expertType(c.section); x != nil {
			want = x.In(s)
		}
		w := widths{In: c.in, Weights: c.weights, Out: 16, Block: c.block}
		if got := s.expertKernels(w); got != want {
			t.Errorf("%+v: %p, want those of %q, %p", w, got, c.section, want)
		}
		if want == nil {
			continue
		}
		if want.Compute = 0; s.expertKernels(w) != nil {
			t.Errorf("%+v: kernels of a fit that has none of %q", w, c.section)
		}
	}
}

// TestServedExperts: servers narrow activations of MXFP4 experts to 8 bits if a fit has such kernels, and of no other type.
func TestServedExperts(t *testing.T) {
	mx, narrow := widths{16, 4, 16, MXFP4Block}, widths{8, 4, 16, MXFP4Block}
	with := &Spec{Experts: ExpertTables{MXFP4: ExpertSpec{Efficiency: Efficiency{Compute: 0.5}}, MXFP4FP8: ExpertSpec{Efficiency: Efficiency{Compute: 0.5}}}}
	without := &Spec{Experts: ExpertTables{MXFP4: with.Experts.MXFP4}}
	for _, c := range []struct {
		gpu      *Spec
		in, want widths
	}{
		{with, mx, narrow}, {with, narrow, narrow}, {without, mx, mx}, {&Spec{}, mx, mx},
		{with, widths{4, 4, 16, MXFP4Block}, widths{4, 4, 16, MXFP4Block}}, // narrower already
		{with, widths{16, 4, 16, NVFP4Block}, widths{16, 4, 16, NVFP4Block}},
		{with, widths{16, 16, 16, MXFP4Block}, widths{16, 16, 16, MXFP4Block}},
		{with, uniform(16), uniform(16)},
	} {
		if got := c.gpu.served(c.in); got != c.want {
			t.Errorf("%v become %v, want %v", c.in, got, c.want)
		}
	}
	// The shipped fits of frameworks that do this on Blackwell have such kernels, so gpt-oss-120b decodes no slower on a B200 than on an
	// H200.
	m := loadModel(t, "gpt-oss-120b")
	m.TensorParallel = 1
	b := NewModelCost(loadPreset(t, "b200-sxm"), m)
	if b.grouped != narrow {
		t.Errorf("gpt-oss-120b on b200-sxm has %v", b.grouped)
	}
}
