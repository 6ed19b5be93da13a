package plan

import (
	"context"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Trial is what a search asks of the points of a grid. It is called from several goroutines.
type Trial interface {
	// Holds says whether the point holds a rate; false where it is not valid.
	Holds(ctx context.Context, point []int, rate float64) (bool, error)
	// Climb returns the highest rate that the point holds, upwards from one that it holds.
	Climb(ctx context.Context, point []int, from float64) (float64, error)
}

// tuner searches a grid, of which sizes are the numbers of values of each axis.
type tuner struct {
	sizes     []int
	trial     Trial
	precision float64
	best      []int
	rate      float64
	seen      map[string]bool // that were tried at a rate: a later one is higher
}

// Tune returns the point of a grid that holds the highest rate, from a point that holds a rate. It changes one axis of the best point after the
// other until none is better, and then two at a time. Values of an axis race: each runs once, all at one
// rate just above the best so far, and only those that hold it are searched for their own. Points of equal rates within the precision are
// ties, the first of which stays. The result is that of any number of processors.
func Tune(ctx context.Context, sizes, start []int, rate, precision float64, trial Trial) ([]int, float64, error) {
	t := &tuner{sizes: sizes, trial: trial, precision: precision, best: start, rate: rate, seen: map[string]bool{key(start): true}}
	for {
		better, err := t.round(ctx, t.single(), false)
		if err == nil && !better {
			better, err = t.round(ctx, t.pairs(), true)
		}
		if err != nil || !better {
			return t.best, t.rate, err
		}
	}
}

// round races the points that differ from the best in a group of axes, one group after the other, and says whether one of them is better.
// It may end with the first that is.
func (t *tuner) round(ctx context.Context, groups [][]int, first bool) (better bool, err error) {
	for _, axes := range groups {
		won, err := t.race(ctx, t.points(axes))
		if err != nil {
			return false, err
		}
		if better = better || won; won && first {
			break
		}
	}
	return better, nil
}

// single returns the groups of axes of which one changes.
func (t *tuner) single() (all [][]int) {
	for i := range t.sizes {
		all = append(all, []int{i})
	}
	return all
}

// pairs returns the groups of axes of which two change.
func (t *tuner) pairs() (all [][]int) {
	for i := range t.sizes {
		for j := range i {
			all = append(all, []int{j, i})
		}
	}
	return all
}

// points returns the points that differ from the best in some axes.
func (t *tuner) points(axes []int) [][]int {
	all := [][]int{t.best}
	for _, axis := range axes {
		var more [][]int
		for _, p := range all {
			for v := range t.sizes[axis] {
				q := slices.Clone(p)
				q[axis] = v
				more = append(more, q)
			}
		}
		all = more
	}
	return slices.DeleteFunc(all, func(p []int) bool { return t.seen[key(p)] })
}

// race runs points at a rate just above the best, and searches those that hold it. It says whether one is the new best.
func (t *tuner) race(ctx context.Context, points [][]int) (bool, error) {
	rates := make([]float64, len(points))
	bar := t.rate * (1 + t.precision)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range points {
		t.seen[key(p)] = true
		group.Go(func() error {
			ok, err := t.trial.Holds(ctx, p, bar)
			if ok && err == nil {
				rates[i], err = t.trial.Climb(ctx, p, bar)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return false, err
	}
	won := false
	for i, rate := range rates {
		if rate > t.rate {
			t.best, t.rate, won = points[i], rate, true
		}
	}
	return won, nil
}

// key returns a point as a key of a map.
func key(point []int) string {
	b := make([]byte, len(point))
	for i, v := range point {
		b[i] = byte(v)
	}
	return string(b)
}
