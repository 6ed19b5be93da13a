package policy

import (
	"math"
	"slices"
)

// pagesProfile is what a profile says of heads that choose pages: means over these heads of all
// layers, by bucket of contexts.
type pagesProfile struct {
	contexts    []int
	rows, share []float64
}

// newPagesProfile returns the means over the heads for which pages(layer, head) is true; nil without a
// profile or without a head that chooses pages.
func newPagesProfile(p *Profile, pages func(layer, head int) bool) *pagesProfile {
	if p == nil {
		return nil
	}
	n := len(p.Measured.Contexts)
	m, heads := &pagesProfile{p.Measured.Contexts, make([]float64, n), make([]float64, n)}, 0
	for i := range p.Heads {
		if !pages(i/p.Model.KVHeads, i%p.Model.KVHeads) {
			continue
		}
		heads++
		for bucket := range n {
			m.rows[bucket] += p.Heads[i].Rows[bucket]
			m.share[bucket] += p.Heads[i].Share[bucket]
		}
	}
	if heads == 0 {
		return nil
	}
	for bucket := range n {
		m.rows[bucket] /= float64(heads)
		m.share[bucket] /= float64(heads)
	}
	return m
}

// at returns the rows that the attended tokens of a context lie in, and how many of them any query
// head of a group attends to, both rounded up.
func (m *pagesProfile) at(context int) (rows, read int) {
	bucket, found := slices.BinarySearch(m.contexts, context)
	if !found {
		bucket = max(0, bucket-1)
	}
	return int(math.Ceil(m.rows[bucket])), min(context, int(math.Ceil(float64(m.share[bucket]*float64(context)))))
}
