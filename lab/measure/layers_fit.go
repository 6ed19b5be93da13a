package measure

import (
	"math"
	"strings"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/units"
)

// launchedAlone is the shortest module of attention that is judged: shorter ones are overheads.
const launchedAlone = 100e-6

// FitChosen fits the kernel of attention over chosen rows to modules of attention with an indexer, for frameworks whose tables have no such
// kernel and whose modules always take it. The other kernels of a module are those of the fit. Only its rate and its overhead move.
func (t *Target) FitChosen(rows []Sample) {
	var kept []*Sample
	var rest []float64 // of the module, without that kernel
	p := &t.GPU.Latent.Chosen
	p.Compute, p.Overhead = 1, 0
	for i := range rows {
		if s := &rows[i]; s.kind == IndexedLayer && s.Seconds >= launchedAlone {
			kept = append(kept, s)
			rest = append(rest, layerKernels(&t.GPU, s)-chosenOfLayer(&t.GPU, s))
		}
	}
	loss := func(compute, overhead float64) (sum float64) {
		p.Compute, p.Overhead = compute, units.FromSeconds(overhead)
		for i, s := range kept {
			sum += math.Abs(math.Log((rest[i] + chosenOfLayer(&t.GPU, s)) / s.Seconds))
		}
		return sum
	}
	compute, overhead := 0.4, 5e-6
	for range 4 {
		compute = lowest(0.05, 1, func(x float64) float64 { return loss(x, overhead) })
		overhead = lowest(1e-6, 100e-6, func(x float64) float64 { return loss(compute, x) })
	}
	loss(compute, overhead)
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
			if s := &rows[i]; s.chunk == 0 && s.Seconds >= launchedAlone && whole[i] > without[i] {
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
