package measure

import (
	"math"
	"strings"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"
	"github.com/l3sim/l3sim/units/portable"
)

// launchedAlone is the shortest module of attention that is judged: shorter ones are overheads.
const launchedAlone = 100e-6

// tellsOfKernels reports whether a module's time is that of its kernels, not of launches.
func (s *Sample) tellsOfKernels() bool { return s.Seconds >= max(launchedAlone, 2*s.launched()) }

// FitIndexed fits to modules of attention with an indexer what no kernel's table of their framework has: the indexer's small kernels, its
// choice, and the rate of attention over chosen rows if the fit has a kernel for it. The other kernels of a module are those of the fit.
func (t *Target) FitIndexed(rows []Sample) error {
	trial := *t
	g := &trial.GPU
	ps := indexedParameters(g)
	for _, p := range ps {
		p.set(&trial, p.start)
	}
	var kept []*Sample
	var rest []float64 // seconds of a module's other kernels
	for i := range rows {
		if s := &rows[i]; s.kind == IndexedLayer && s.tellsOfKernels() {
			kept, rest = append(kept, s), append(rest, layerKernels(g, s)-fittedOfLayer(g, s))
		}
	}
	err := search(&trial, ps, 200, func() (sum float64) {
		for i, s := range kept {
			sum += math.Abs(math.Log((rest[i] + fittedOfLayer(g, s)) / s.Seconds))
		}
		return sum / float64(len(kept))
	})
	if err != nil {
		return err
	}
	*t = trial
	for _, p := range ps {
		p.set(t, portable.Significant(p.get(t), 4))
	}
	return nil
}

// indexedParameters are those that modules of attention with an indexer determine.
func indexedParameters(g *gpu.Spec) []parameter {
	index := func(t *Target) *gpu.IndexTables { return &t.GPU.Index }
	ps := []parameter{
		duration("small_overhead", 0.01, 20, 100, func(t *Target) *units.Duration { return &index(t).SmallOverhead }),
		duration("small_token_time", 1e-5, 0.03, 1, func(t *Target) *units.Duration { return &index(t).SmallTime }),
	}
	if g.Index.TopK != (gpu.RankSpec{}) {
		ps = append(ps, duration("row_time", 0.01, 5, 100, func(t *Target) *units.Duration { return &index(t).TopK.RowTime }),
			duration("element_time", 1e-6, 3e-4, 0.1, func(t *Target) *units.Duration { return &index(t).TopK.ElementTime }),
			number("memory_efficiency", lowEfficiency, 0.5, highEfficiency, func(t *Target) *float64 { return &index(t).StepScores.Memory }))
	}
	if g.Latent.Chosen.Compute > 0 {
		ps = append(ps, number("compute_efficiency", lowEfficiency, 0.3, highEfficiency, func(t *Target) *float64 { return &t.GPU.Latent.Chosen.Compute }))
	}
	return ps
}

// fittedOfLayer returns the seconds of a module's kernels that FitIndexed fits.
func fittedOfLayer(g *gpu.Spec, s *Sample) float64 {
	x := &g.Index
	sum := x.SmallOverhead.Seconds() + float64(float64(s.batch*max(1, s.chunk))*x.SmallTime.Seconds())
	if g.Latent.Chosen.Compute > 0 {
		sum += chosenOfLayer(g, s)
	}
	m := s.model
	of := llm.Indexing{Requests: s.batch, Queries: 1, Longest: s.context, Pairs: int64(s.batch) * int64(s.context), Keep: m.IndexTopK, Step: true}
	if s.chunk > 0 {
		_, of = m.Indexer.Prompt(s.chunk, s.finished)
		of.Requests, of.Pairs = s.batch*of.Requests, int64(s.batch)*of.Pairs
	}
	if of.Longest > m.IndexTopK {
		if of.Step {
			of.Keys = of.Pairs
			sum += g.IndexScoreCost(of, m.IndexHeads, m.IndexDim, int(m.IndexBytes())).Seconds
		}
		sum += g.IndexTopKCost(of, false).Seconds
	}
	return sum
}

// FitWidened fits the share of its rates that the kernel over chosen rows reaches over FP8 rows to modules with such rows.
func (t *Target) FitWidened(rows []Sample) {
	share := &t.GPU.Latent.Chosen.WidenedShare
	*share = portable.Significant(lowest(0.2, 1, func(x float64) (sum float64) {
		*share = x
		for i := range rows {
			if s := &rows[i]; s.model.KVFloat() && s.tellsOfKernels() {
				sum += math.Abs(math.Log(layerKernels(&t.GPU, s) / s.Seconds))
			}
		}
		return sum
	}), 4)
}

// FitArrange fits the part of the overhead of products of FP8 blocks that arranges scales at each call in their table, and that modules of
// decode steps do not have. The other kernels are those of the fit.
func (t *Target) FitArrange(rows []Sample) {
	p := &t.GPU.FP8Block.Arrange
	sums := func(of units.Duration) (all []float64) {
		*p = of
		for i := range rows {
			all = append(all, layerKernels(&t.GPU, &rows[i]))
		}
		return all
	}
	whole, without := sums(0), sums(t.GPU.FP8Block.Overhead)
	most := t.GPU.FP8Block.Overhead.Seconds()
	*p = units.FromSeconds(lowest(1e-8, most, func(x float64) (sum float64) {
		for i := range rows {
			if s := &rows[i]; s.chunk == 0 && s.tellsOfKernels() && whole[i] > without[i] {
				sum += math.Abs(math.Log((whole[i] - float64(x/most*(whole[i]-without[i]))) / s.Seconds))
			}
		}
		return sum
	}))
}

// lowest returns where a function of one minimum has it, by golden section on a logarithmic scale.
func lowest(low, high float64, f func(float64) float64) float64 {
	const golden = 0.6180339887498949
	a, b := math.Log(low), math.Log(high)
	for range 30 {
		c, d := b-float64(golden*(b-a)), a+float64(golden*(b-a))
		if f(math.Exp(c)) < f(math.Exp(d)) {
			b = d
		} else {
			a = c
		}
	}
	return math.Exp((a + b) / 2)
}

// chosenOfLayer returns the seconds of a module's kernel over chosen rows.
func chosenOfLayer(g *gpu.Spec, s *Sample) float64 {
	m := s.model
	h := latentHeads(m.Heads)
	if m.KVFloat() {
		h.KVBits, h.KVFloat = 8, true
	}
	if s.chunk == 0 {
		n := min(s.context, m.IndexTopK)
		return g.ChosenCost(s.batch, int64(s.batch)*int64(n), n, h).Seconds
	}
	n, longest := chosen(s.batch, s.chunk, s.finished)
	return g.ChosenCost(s.batch*s.chunk, n, longest, h).Seconds
}

// launchesOf returns the time to launch the modules of a kernel with which the predictions of rows are closest: the larger of it and of the
// sum of kernels.
func launchesOf(kernel string, rows []Sample, sums []float64) (best float64) {
	least := math.Inf(1)
	for _, candidate := range rows {
		sum := 0.0
		for i := range rows {
			if s := &rows[i]; strings.Contains(s.source, kernel) {
				sum += math.Abs(math.Log(max(sums[i], candidate.Seconds) / s.Seconds))
			}
		}
		if sum < least {
			least, best = sum, candidate.Seconds
		}
	}
	return best
}
