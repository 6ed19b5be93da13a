package search

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmv"
	"gonum.org/v1/gonum/stat/samplemv"
)

// The methods of a search.
const (
	NSGA2          = "nsga2"
	Random         = "random"
	LatinHypercube = "latin_hypercube"
)

// Methods returns all methods, NSGA-II first.
func Methods() []string { return []string{NSGA2, Random, LatinHypercube} }

// Variable is one axis.
type Variable struct {
	// Levels are the genes of the axis's values, rising. nil: every gene from 0 to 1 is one.
	Levels []float64
	// Categorical levels have no order.
	Categorical bool
}

// Score is what an evaluation says of a candidate.
type Score struct {
	Costs     []float64 // each to be minimised; finite unless Violation is infinite
	Violation float64   // of the constraints together; 0: all are met; +Inf: it has no costs
}

// Problem is a design space and its goals.
type Problem struct {
	Variables []Variable
	Goals     int // 1 to 3
	// Key names the design of a candidate: two candidates with one name are one design. ""
	// is no design, and costs nothing. nil: candidates of other genes are other designs.
	Key func(genes []float64) string
	// Evaluate scores a batch, in its order.
	Evaluate func(ctx context.Context, batch [][]float64) ([]Score, error)
}

// Options are how a search runs.
type Options struct {
	Method      string // of Methods
	Population  int    // candidates of a batch, and of a generation; at least 4 and even
	Evaluations int    // designs to evaluate, each once
	Seed        uint64
}

// Individual is an evaluated candidate.
type Individual struct {
	Genes []float64
	Score
}

// Result is what a search evaluated.
type Result struct {
	History []Individual // in the order of evaluation; no design twice
	Last    []int        // indices of the last population in History; nil but for NSGA-II
}

// Run carries out a search. It evaluates fewer designs than asked for where there are no
// more. Its errors are those of Evaluate.
func Run(ctx context.Context, p *Problem, o Options) (*Result, error) {
	r := &run{problem: p, options: o, seen: map[string]bool{}, source: rand.NewPCG(o.Seed, uint64(slices.Index(Methods(), o.Method)))}
	r.random = rand.New(r.source)
	var err error
	switch o.Method {
	case NSGA2:
		err = r.nsga2(ctx)
	case Random:
		err = r.sample(ctx, r.draw)
	case LatinHypercube:
		err = r.sample(ctx, r.latin())
	default:
		err = fmt.Errorf("no method %q", o.Method)
	}
	return &r.Result, err
}

// run is a search under way.
type run struct {
	Result
	problem *Problem
	options Options
	source  *rand.PCG
	random  *rand.Rand
	seen    map[string]bool
}

// left returns the size of the next batch.
func (r *run) left() int { return min(r.options.Population, r.options.Evaluations-len(r.History)) }

// sample evaluates what next draws. A draw that is no new design is replaced by a random one.
func (r *run) sample(ctx context.Context, next func() []float64) error {
	for r.left() > 0 {
		batch := r.batch(r.left(), 1, next)
		if len(batch) == 0 {
			return nil
		}
		if err := r.evaluate(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// batch returns n new designs, fewer where there are no more. Each takes up to tries
// candidates from next, then random ones.
func (r *run) batch(n, tries int, next func() []float64) [][]float64 {
	// A space counts as exhausted when randomTries draws in a row are not new.
	const randomTries = 2000
	var batch [][]float64
	for try := 0; len(batch) < n && try < tries+randomTries; try++ {
		source := next
		if try >= tries {
			source = r.draw
		}
		genes := source()
		r.snap(genes)
		key := r.key(genes)
		if key == "" || r.seen[key] {
			continue
		}
		r.seen[key] = true
		batch, try = append(batch, genes), -1
	}
	return batch
}

// evaluate scores a batch and adds it to the history.
func (r *run) evaluate(ctx context.Context, batch [][]float64) error {
	scores, err := r.problem.Evaluate(ctx, batch)
	if err != nil {
		return err
	}
	for i, genes := range batch {
		r.History = append(r.History, Individual{genes, scores[i]})
	}
	return nil
}

// key is Problem.Key or its default.
func (r *run) key(genes []float64) string {
	if r.problem.Key != nil {
		return r.problem.Key(genes)
	}
	var b []byte
	for _, g := range genes {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(g))
	}
	return string(b)
}

// draw returns genes that are all equally likely.
func (r *run) draw() []float64 {
	genes := make([]float64, len(r.problem.Variables))
	for i := range genes {
		genes[i] = r.random.Float64()
	}
	return genes
}

// latin returns a function that draws the samples of one Latin hypercube, then random ones.
func (r *run) latin() func() []float64 {
	n, dims := r.options.Evaluations, len(r.problem.Variables)
	batch := mat.NewDense(n, dims, nil)
	samplemv.LatinHypercube{Q: distmv.NewUnitUniform(dims, r.source), Src: r.source}.Sample(batch)
	next := 0
	return func() []float64 {
		if next == n {
			return r.draw()
		}
		next++
		return slices.Clone(batch.RawRowView(next - 1))
	}
}

// snap moves each gene to its nearest level.
func (r *run) snap(genes []float64) {
	for i, v := range r.problem.Variables {
		if v.Levels != nil {
			genes[i] = v.Levels[v.nearest(genes[i])]
		}
	}
}

// nearest returns the index of the level that is nearest to a gene.
func (v *Variable) nearest(gene float64) int {
	at, exact := slices.BinarySearch(v.Levels, gene)
	if exact || at == 0 {
		return at
	}
	if at == len(v.Levels) || gene-v.Levels[at-1] < v.Levels[at]-gene {
		return at - 1
	}
	return at
}
