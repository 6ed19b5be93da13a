package plan

import (
	"cmp"
	"context"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Trial is what a search asks of the points of a grid. It is called from several goroutines.
type Trial interface {
	// Climb returns the highest rate that the point holds, upwards from one; 0 where it does not hold that, or is not valid.
	Climb(ctx context.Context, point []int, from float64) (float64, error)
}

// candidate is a point of a grid and the highest rate that it holds.
type candidate struct {
	point []int
	rate  float64
}

// tuner searches a grid, of which sizes are the numbers of values of each axis.
type tuner struct {
	sizes     []int
	trial     Trial
	precision float64
	best      candidate
	climbed   []candidate // all that held a higher rate than the best of their time, and the start
	seen      map[string]bool
}

const (
	// heat is the points that race at one rate, after which the rate is raised. More than the processors of a machine are kept busy.
	heat = 64
	// finalists is the most candidates that a search returns.
	finalists = 2
)

// Tune returns the points of a grid that hold the highest rates, the best first, from a candidate that holds its rate. It changes one axis
// of the best point after the other until none is better: that finds a high rate soon. Then every other point of the grid races. To race is to
// run once, at a rate just above the best so far; only points that hold it are searched for their own. As most do not, a point
// costs one run, and that run ends with the first request too many that misses its targets. Valleys between two hills of the grid
// hide nothing so. The result is that of any number of processors.
func Tune(ctx context.Context, sizes []int, start candidate, precision float64, trial Trial) ([]candidate, error) {
	t := &tuner{sizes: sizes, trial: trial, precision: precision, best: start, climbed: []candidate{start}, seen: map[string]bool{key(start.point): true}}
	for before := 0.0; before < t.best.rate; {
		before = t.best.rate
		for axis, n := range sizes {
			var points [][]int
			for v := range n {
				points = append(points, slices.Clone(t.best.point))
				points[v][axis] = v
			}
			if err := t.race(ctx, points); err != nil {
				return nil, err
			}
		}
	}
	var rest [][]int
	for i := range volume(sizes) {
		rest = append(rest, place(sizes, i))
	}
	for points := range slices.Chunk(rest, heat) {
		if err := t.race(ctx, points); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(t.climbed, func(a, b candidate) int { return cmp.Compare(b.rate, a.rate) })
	return t.climbed[:min(len(t.climbed), finalists)], nil
}

// race runs the points that have not run at a rate just above the best, and searches those that hold it.
func (t *tuner) race(ctx context.Context, points [][]int) error {
	points = slices.DeleteFunc(points, func(p []int) bool { return t.seen[key(p)] })
	rates := make([]float64, len(points))
	bar := t.best.rate * (1 + t.precision)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range points {
		t.seen[key(p)] = true
		group.Go(func() (err error) {
			rates[i], err = t.trial.Climb(ctx, p, bar)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, rate := range rates {
		if rate > 0 {
			t.climbed = append(t.climbed, candidate{points[i], rate})
		}
		if rate > t.best.rate {
			t.best = candidate{points[i], rate}
		}
	}
	return nil
}

// volume returns the points of a grid.
func volume(sizes []int) int {
	n := 1
	for _, size := range sizes {
		n *= size
	}
	return n
}

// place returns a point of a grid by its place; the first axis changes fastest.
func place(sizes []int, at int) []int {
	point := make([]int, len(sizes))
	for axis, n := range sizes {
		point[axis], at = at%n, at/n
	}
	return point
}

// key returns a point as a key of a map.
func key(point []int) string {
	b := make([]byte, len(point))
	for i, v := range point {
		b[i] = byte(v)
	}
	return string(b)
}
