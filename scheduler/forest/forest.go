package forest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
)

// Spec says how a forest is grown.
type Spec struct {
	Trees    int // at least 1
	MaxDepth int // most splits on a path from the root; 0 to 64
	MinLeaf  int // least rows of the bootstrap sample in a leaf, repeats counted; at least 1
}

// Forest predicts a number from a vector of features. It is safe for concurrent
// predictions, but not beside Refit.
type Forest struct {
	spec    Spec
	seed    uint64
	workers int
	grown   uint64 // number of trees grown so far; also the number of the next tree
	trees   []tree // oldest first

	low, high []float64 // [feature]: the range in which all trees have data
}

// Fit grows a forest on len(y) rows of len(x)/len(y) features, row-major in x. Tree number i of a
// forest has its own generator, seeded with (seed, i): neither the number of workers (0: one per
// processor) nor the order of the rows changes the result. It returns an error if the specification
// or the shape of the data is invalid, or a value is not finite.
func Fit(spec Spec, x, y []float64, seed uint64, workers int) (*Forest, error) {
	data, err := newMatrix(x, y)
	if err != nil {
		return nil, err
	}
	if err := spec.check(); err != nil {
		return nil, err
	}
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	f := &Forest{spec: spec, seed: seed, workers: workers}
	f.replace(data, spec.Trees)
	return f, nil
}

// Refit replaces the oldest trees by trees new ones (at most all), grown on the rows of x and y. x
// and y have the shape that Fit takes, and the forest's number of features. On an error the forest
// stays as it was.
func (f *Forest) Refit(x, y []float64, trees int) error {
	data, err := newMatrix(x, y)
	if err != nil {
		return err
	}
	if len(data.columns) != len(f.low) {
		return fmt.Errorf("forest: %d features, the forest has %d", len(data.columns), len(f.low))
	}
	f.replace(data, min(trees, f.spec.Trees))
	return nil
}

// replace grows n trees on data, and drops the oldest trees beyond the forest's number
// of trees.
func (f *Forest) replace(data *matrix, n int) {
	if n < 1 {
		return
	}
	fresh := make([]tree, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(f.workers, n) {
		wg.Go(func() {
			g := newGrower(&f.spec, data)
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				rng := rand.New(rand.NewPCG(f.seed, f.grown+uint64(i)))
				fresh[i] = g.grow(bootstrap(len(data.y), rng))
			}
		})
	}
	wg.Wait()
	f.grown += uint64(n)
	keep := f.trees[max(0, len(f.trees)+n-f.spec.Trees):]
	f.trees = append(append(make([]tree, 0, f.spec.Trees), keep...), fresh...)
	f.intersect()
}

// intersect sets the range in which all trees have data.
func (f *Forest) intersect() {
	features := len(f.trees[0].data.columns)
	f.low, f.high = make([]float64, features), make([]float64, features)
	for j := range features {
		f.low[j], f.high[j] = math.Inf(-1), math.Inf(1)
		for i := range f.trees {
			low, high := f.trees[i].data.bounds(j)
			f.low[j], f.high[j] = max(f.low[j], low), min(f.high[j], high)
		}
	}
}

// Predict returns the mean of the trees' values at x, which must have at least the features that
// the forest was fitted with. A NaN goes to the left child.
func (f *Forest) Predict(x []float64) float64 {
	sum := 0.0
	for i := range f.trees {
		sum += f.trees[i].predict(x)
	}
	return sum / float64(len(f.trees))
}

// Range returns the range of a feature, bounds included, that the data of every tree covered.
// Beyond it, the forest is constant in that feature. Where the data of old and new trees do not
// overlap, low is above high.
func (f *Forest) Range(feature int) (low, high float64) { return f.low[feature], f.high[feature] }
