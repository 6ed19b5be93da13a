package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Local returns the errors of the simplest prediction from the rows themselves: for each row, linear interpolation in logarithms between
// its neighbours in size with the same shape. The smallest and the largest row of a shape have no such prediction.
func Local(samples []Sample) Errors {
	shapes := map[string][]*Sample{}
	for i := range samples {
		s := &samples[i]
		shapes[s.local()] = append(shapes[s.local()], s)
	}
	var points []Point
	for _, name := range sortedKeys(shapes) {
		rows := shapes[name]
		slices.SortStableFunc(rows, func(a, b *Sample) int { return cmp.Compare(a.size(), b.size()) })
		for i := 1; i+1 < len(rows); i++ {
			low, s, high := rows[i-1], rows[i], rows[i+1]
			if low.size() == s.size() || high.size() == s.size() {
				continue
			}
			at := math.Log(s.size()/low.size()) / math.Log(high.size()/low.size())
			p := low.Seconds * math.Pow(high.Seconds/low.Seconds, at)
			points = append(points, Point{Sample: *s, Predicted: p, Error: p/s.Seconds - 1})
		}
	}
	return pooled(points)
}

// local identifies the rows between which Local interpolates.
func (s *Sample) local() string {
	if s.kind.latent() {
		return fmt.Sprintf("%d %d %d %d", s.heads.Query, s.batch, s.n, s.finished)
	}
	if s.single() {
		switch {
		case s.bytes > 0:
			return fmt.Sprint(s.kind, s.gpus)
		case s.gpus > 0:
			return fmt.Sprint(s.kind, s.ffn.Hidden, s.shares.experts, s.shares.active)
		}
		return fmt.Sprint(s.kind, s.batch, s.finished, s.op)
	}
	return fmt.Sprintf("%s %s %s %v", s.shape(), s.source, s.op, s.shares.skewed)
}

// size is the variable of Local's interpolation.
func (s *Sample) size() float64 {
	if tabledOf(s.kind) != nil && s.bytes == 0 && s.gpus == 0 {
		return float64(s.chunk)
	}
	if expertsOf(s.kind) != nil || s.kind == Dispatch || s.kind == Combine {
		return float64(s.shares.tokens)
	}
	if s.kind.latent() { // tokens of a product, contexts, or prompts
		return float64(max(s.m, s.context, s.chunk))
	}
	return float64(s.bytes)
}

func sortedKeys(m map[string][]*Sample) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
