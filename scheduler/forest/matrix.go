package forest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// matrix is the data of one fit, with rows in canonical order: by features, then by target.
// Bootstrap samples are drawn from canonical row numbers. The order in which rows arrive therefore
// has no effect.
type matrix struct {
	columns [][]float64 // [feature][row]
	y       []float64   // [row]
	order   [][]int32   // [feature]: rows by ascending value, ties by row
}

// newMatrix copies n = len(y) rows of len(x)/n features, row-major in x.
func newMatrix(x []float64, y []float64) (*matrix, error) {
	n := len(y)
	if n == 0 || len(x) == 0 || len(x)%n != 0 {
		return nil, fmt.Errorf("forest: %d feature values for %d rows", len(x), n)
	}
	if int64(n) > math.MaxInt32/2 {
		return nil, fmt.Errorf("forest: %d rows are more than %d", n, math.MaxInt32/2)
	}
	p := len(x) / n
	for i, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("forest: feature %d of row %d is %v", i%p, i/p, v)
		}
	}
	for i, v := range y {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("forest: target of row %d is %v", i, v)
		}
	}
	canonical := rows(n)
	slices.SortFunc(canonical, func(a, b int32) int {
		if c := slices.Compare(x[int(a)*p:int(a)*p+p], x[int(b)*p:int(b)*p+p]); c != 0 {
			return c
		}
		return cmp.Compare(y[a], y[b])
	})
	m := &matrix{columns: make([][]float64, p), y: make([]float64, n), order: make([][]int32, p)}
	for i, row := range canonical {
		m.y[i] = y[row]
	}
	for f := range p {
		column := make([]float64, n)
		for i, row := range canonical {
			column[i] = x[int(row)*p+f]
		}
		m.columns[f], m.order[f] = column, rows(n)
		slices.SortStableFunc(m.order[f], func(a, b int32) int { return cmp.Compare(column[a], column[b]) })
	}
	return m, nil
}

// rows returns 0 … n−1.
func rows(n int) []int32 {
	r := make([]int32, n)
	for i := range r {
		r[i] = int32(i)
	}
	return r
}

// bounds returns the least and greatest value of feature f.
func (m *matrix) bounds(f int) (low, high float64) {
	o := m.order[f]
	return m.columns[f][o[0]], m.columns[f][o[len(o)-1]]
}

// check returns an error for a specification with impossible values.
func (s *Spec) check() error {
	switch {
	case s.Trees < 1:
		return fmt.Errorf("forest: %d trees", s.Trees)
	case s.MaxDepth < 0 || s.MaxDepth > 64:
		return fmt.Errorf("forest: depth %d, expected 0 to 64", s.MaxDepth)
	case s.MinLeaf < 1:
		return fmt.Errorf("forest: leaves of at least %d rows", s.MinLeaf)
	}
	return nil
}
