package gpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/l3sim/l3sim/llm"
)

// parallelModel is a model with 64 experts, 6 chosen and one shared, on the given number of GPUs.
func parallelModel(gpus int, p llm.Parallel) *llm.Model {
	m := latentModel(gpus)
	m.Experts, m.ActiveExperts, m.FFNHidden, m.Parallel = 64, 6, 1408, p
	m.SharedFFN = 2816
	return m
}

// TestOneGPUIsParallel: on one GPU nothing is divided, whatever the parallel options.
func TestOneGPUIsParallel(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	x := Shape{Decode: UniformBatch(30, 4000), Prefills: 2, Chunk: 500, Finished: 100}
	want := NewModelCost(s, parallelModel(1, llm.Parallel{})).IterationParts(x)
	for _, p := range []llm.Parallel{{AttentionParallel: "data"}, {ExpertParallel: true}, {AttentionParallel: "data", ExpertParallel: true}} {
		got := NewModelCost(s, parallelModel(1, p)).IterationParts(x)
		for g := range got {
			if !near(got[g].Seconds+1e-9, want[g].Seconds+1e-9) {
				t.Errorf("%+v: %v takes %g s, want %g", p, Group(g), got[g].Seconds, want[g].Seconds)
			}
		}
	}
}

// TestDataAttentionByHand: each of eight GPUs computes attention with all 128 heads for an eighth of the requests, rounded up, one of which
// may be the longest, and queries for as many tokens; there is no sum after attention.
func TestDataAttentionByHand(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	s.Collective.Skew = 0
	c, one := NewModelCost(s, parallelModel(8, llm.Parallel{AttentionParallel: "data"})), NewModelCost(s, parallelModel(1, llm.Parallel{}))
	for _, x := range []struct{ b, own DecodeBatch }{
		{UniformBatch(80, 3000), UniformBatch(10, 3000)},
		{UniformBatch(81, 3000), DecodeBatch{Requests: 11, Tokens: 30_375, Longest: 3000}},
		{UniformBatch(3, 700), DecodeBatch{Requests: 1, Tokens: 700, Longest: 700}},
		{DecodeBatch{Requests: 16, Tokens: 20_000, Longest: 9000}, DecodeBatch{Requests: 2, Tokens: 9000, Longest: 9000}},
	} {
		if got, want := c.DecodeBatch(x.b).Seconds, one.DecodeBatch(x.own).Seconds; !near(got, want) {
			t.Errorf("%+v takes %g s, want %g", x.b, got, want)
		}
	}
	for tokens, own := range map[int]int{1: 1, 8: 1, 9: 2, 800: 100} {
		if got, want := c.QKV(tokens).Seconds, one.QKV(own).Seconds; !near(got, want) {
			t.Errorf("%d tokens: QKV takes %g s, want %g", tokens, got, want)
		}
		if got, want := c.projection(tokens), one.projection(own); !near(got[ProjectionProduct].Seconds, want[ProjectionProduct].Seconds) || got[AllReduce].Seconds != 0 {
			t.Errorf("%d tokens: the projection takes %+v, want %+v", tokens, got, want)
		}
	}
	// Prompts of 4, 1 and 1 units of time on eight GPUs take as long as the longest; eight of one unit on two GPUs take as long as four.
	spread := func(gpus int, each ...float64) (all float64) {
		a := NewModelCost(s, parallelModel(gpus, llm.Parallel{AttentionParallel: "data"})).Attention()
		for _, seconds := range each {
			w := a.spread(Work{Seconds: seconds, Clocked: seconds / 2, Dynamic: 8})
			if w.Dynamic != 8/float64(gpus) || !near(w.Clocked+1, w.Seconds/2+1) {
				t.Errorf("%+v of %g s", w, seconds)
			}
			all += w.Seconds
		}
		return all
	}
	for _, x := range []struct {
		got, want float64
	}{{spread(8, 4, 1, 1), 4}, {spread(8, 1, 1, 4), 4}, {spread(2, 1, 1, 1, 1, 1, 1, 1, 1), 4}, {spread(2, 1, 5), 5}, {spread(1, 1, 5), 6}} {
		if !near(x.got, x.want) {
			t.Errorf("prompts take %g s, want %g", x.got, x.want)
		}
	}
}

// TestWholeNetworks: with data-parallel attention and parallel experts, a GPU has dense networks and shared experts whole, for its own
// tokens, and no all-reduce: a dense layer transfers nothing. With data-parallel attention alone, networks stay divided.
func TestWholeNetworks(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	s.Collective.Skew = 0
	both := llm.Parallel{AttentionParallel: "data", ExpertParallel: true}
	c, one := NewModelCost(s, parallelModel(8, both)), NewModelCost(s, parallelModel(1, llm.Parallel{}))
	dense := &feedForward{share: 1, width: 18432}
	got, want := c.feedForward(dense, 801), one.feedForward(dense, 101)
	for g := range got {
		if !near(got[g].Seconds+1e-9, want[g].Seconds+1e-9) {
			t.Errorf("%v of a dense layer takes %g s, want %g", Group(g), got[g].Seconds, want[g].Seconds)
		}
	}
	divided := NewModelCost(s, parallelModel(8, llm.Parallel{AttentionParallel: "data"}))
	if got, want := divided.feedForward(dense, 801)[AllReduce], divided.allReduce(801); got != want || got.Seconds == 0 {
		t.Errorf("gathering and scattering takes %+v, want %+v", got, want)
	}
	if f := divided.feedForwards[0]; f.width != 176 || f.shared != 352 || f.dealt != nil {
		t.Errorf("networks of a GPU: %+v", f)
	}
	if f := c.feedForwards[0]; f.width != 1408 || f.shared != 2816 || f.dealt == nil {
		t.Errorf("whole networks of a GPU: %+v", f)
	}
	// 801 tokens are 101 on a GPU, each with six experts. Of the seven other GPUs, 7 · (1 − (7/8)^6) have at least one of them.
	f := &c.feedForwards[0]
	elements := 101 * 7 * (1 - math.Pow(7.0/8, 6)) * 7168
	cost := s.Collective.cost(Cost{Bytes: elements * 2}, 8, 0)
	if got, want := c.feedForward(f, 801)[AllReduce].Seconds, 2*s.work(cost).Seconds; !near(got, want) {
		t.Errorf("all to all takes %g s, want %g", got, want)
	}
}

// TestDealtExperts: rows and touched experts of the GPU with the most rows match random routing.
func TestDealtExperts(t *testing.T) {
	for _, x := range []struct {
		experts, active, gpus, tokens int
		skew                          float64
	}{{256, 8, 8, 128, 0}, {256, 8, 8, 2048, 0}, {128, 4, 4, 37, 0}, {64, 6, 2, 1, 0}, {64, 6, 8, 300, 0}} {
		m := &llm.Model{Experts: x.experts, ActiveExperts: x.active, ExpertSkew: x.skew}
		d := dealExperts(m.ExpertShares(), x.gpus)
		r := rand.New(rand.NewPCG(1, uint64(x.experts)))
		trials, experts := max(100, 100_000/x.tokens), r.Perm(x.experts)
		rows, touched := 0.0, 0.0
		for range trials {
			count, seen := make([]int, x.gpus), map[int]bool{}
			for range x.tokens {
				for i := range x.active { // first elements of a shuffle
					j := i + r.IntN(x.experts-i)
					experts[i], experts[j] = experts[j], experts[i]
				}
				for _, e := range experts[:x.active] {
					count[e%x.gpus]++
					if e%x.gpus == 0 {
						seen[e] = true
					}
				}
			}
			most := 0
			for _, n := range count {
				most = max(most, n)
			}
			rows, touched = rows+float64(most)/float64(trials), touched+float64(len(seen))/float64(trials)
		}
		l := d.load(x.active, x.tokens)
		if got := float64(l.Pairs); math.Abs(got/rows-1) > 0.02 && math.Abs(got-rows) > 1 {
			t.Errorf("%+v: %v rows on the fullest GPU, drawn %.1f", x, got, rows)
		}
		if math.Abs(l.Touched/touched-1) > 0.01 {
			t.Errorf("%+v: %.2f experts touched on a GPU, drawn %.2f", x, l.Touched, touched)
		}
	}
	// By popularity: GPU 0 of two has ranks 1 and 3 of four.
	d := dealExperts([]llm.ExpertShare{{Experts: 1, Share: 0.9}, {Experts: 1, Share: 0.5}, {Experts: 1, Share: 0.4}, {Experts: 1, Share: 0.2}}, 2)
	if d.mean != 0.9+0.4 || len(d.shares) != 2 || d.shares[1].Share != 0.4 {
		t.Errorf("%+v", d)
	}
	if l := d.load(2, 1000); l.Pairs < 1300 || l.Pairs > 1330 {
		t.Errorf("%d rows of 1,300 in the mean", l.Pairs)
	}
	for n, want := range map[int]float64{1: 0, 2: 0.5641895835, 8: 1.4236003060, 128: 2.5945973, 3: 0.8369} {
		if got := largestOf(n); math.Abs(got-want) > 1e-3 {
			t.Errorf("the largest of %d is %g, want %g", n, got, want)
		}
	}
}

// TestExpertsOfOneGPU: with parallel experts a GPU multiplies its own whole experts; with equal rows for each expert it computes as much as
// with columns of all.
func TestExpertsOfOneGPU(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	c, divided := NewModelCost(s, parallelModel(8, llm.Parallel{ExpertParallel: true})), NewModelCost(s, parallelModel(8, llm.Parallel{}))
	f, g := &c.feedForwards[0], &divided.feedForwards[0]
	l := f.dealt.load(6, 4096)
	if mean := 4096 * 6 / 8; l.Pairs < mean || l.Pairs > mean*11/10 || math.Abs(l.Touched-8) > 1e-9 {
		t.Errorf("%+v, want about %d rows of 8 experts", l, mean)
	}
	a, b := c.mixture(f, 4096).Seconds, divided.mixture(g, 4096).Seconds
	if a < 0.6*b || a > 1.2*b {
		t.Errorf("whole experts take %g s, columns of all %g", a, b)
	}
	if c.feedForward(f, 100)[AllReduce] != divided.feedForward(g, 100)[AllReduce] {
		t.Error("the sum of results takes another time")
	}
}
