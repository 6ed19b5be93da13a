package batching

import (
	"cmp"
	"slices"

	"github.com/l3sim/l3sim/scheduler"
)

// exactSplit is the number of values up to which split tries all sums, at most 2^11, and finds the
// best split.
const exactSplit = 12

// splitter divides numbers into two sums as even as it can. It reuses its memory.
type splitter struct {
	side []bool // the side of each value: true for the second
	best []bool
}

// split returns for each of values whether it goes to the second side. values must be in descending
// order. Up to exactSplit values the difference of the sums is the smallest. With more values, it
// deals them largest first, then moves and exchanges values while that helps. The result is valid
// until the next call.
func (s *splitter) split(values []int64) []bool {
	s.side = append(s.side[:0], make([]bool, len(values))...)
	difference := s.deal(values)
	switch {
	case len(values) <= 2 || difference == 0:
	case len(values) <= exactSplit:
		s.enumerate(values, difference)
	default:
		s.improve(values, difference)
	}
	return s.side
}

// deal gives each value to the side with the smaller sum, largest first. It returns
// the sum of the first side less that of the second.
func (s *splitter) deal(values []int64) int64 {
	var difference int64
	for i, v := range values {
		s.side[i] = difference > 0
		if s.side[i] {
			v = -v
		}
		difference += v
	}
	return difference
}

// enumerate tries all splits that leave the first value on the first side, in
// the order of a Gray code: each differs from the one before by one value.
func (s *splitter) enumerate(values []int64, difference int64) {
	s.best = append(s.best[:0], s.side...)
	least := abs(difference)
	var sum int64
	for i, v := range values {
		s.side[i] = false
		sum += v
	}
	for code := 1; code < 1<<(len(values)-1); code++ {
		i := 1
		for code>>(i-1)&1 == 0 {
			i++
		}
		s.side[i] = !s.side[i]
		if s.side[i] {
			sum -= 2 * values[i]
		} else {
			sum += 2 * values[i]
		}
		if abs(sum) < least {
			least = abs(sum)
			copy(s.best, s.side)
		}
	}
	s.side, s.best = s.best, s.side
}

// improve moves a value to the other side, or exchanges two, while the best of these
// changes makes the sums more even. Every change lowers the difference, so it ends.
func (s *splitter) improve(values []int64, difference int64) {
	for {
		from := difference < 0 // the side with the larger sum
		gap := abs(difference)
		best, bestI, bestJ := gap, -1, -1
		for i, v := range values {
			if s.side[i] != from {
				continue
			}
			if d := abs(gap - 2*v); d < best {
				best, bestI, bestJ = d, i, -1
			}
			for j, w := range values {
				if s.side[j] == from || w >= v {
					continue
				}
				if d := abs(gap - 2*(v-w)); d < best {
					best, bestI, bestJ = d, i, j
				}
			}
		}
		if bestI < 0 {
			return
		}
		moved := 2 * values[bestI]
		s.side[bestI] = !from
		if bestJ >= 0 {
			moved -= 2 * values[bestJ]
			s.side[bestJ] = from
		}
		if from {
			moved = -moved
		}
		difference -= moved
	}
}

func abs(v int64) int64 { return max(v, -v) }

// sharer divides decoding requests over two sub-batches.
type sharer struct {
	splitter
	values  []int64
	offsets []int // from the largest difference to the smallest
	halves  []half
	parts   []part // of the offset at hand
	orient  splitter
}

// half is the split of one offset's requests: the difference of its two sums, and the
// side of each request.
type half struct {
	difference int64
	members    []int
	side       []bool
}

// part is the split of those requests of a half that begin on one channel.
type part struct {
	from, to   int
	difference int64
}

// byTokens divides all requests so that the sums of contexts of the two sub-batches are
// even (L3, section 5.3, step 2).
func (s *sharer) byTokens(b *scheduler.Batch, decoding []scheduler.Decoding) {
	s.values = s.values[:0]
	for i := range decoding {
		s.values = append(s.values, decoding[i].Base+b.Step)
	}
	for i, second := range s.split(s.values) {
		give(b, &decoding[i], second)
	}
}

// byOffset divides the requests of every rankset offset evenly. If all requests together are
// balanced over the ranksets, then so is each sub-batch. It then chooses the sides so that the
// sub-batches have even sums. If begins is not nil, it also divides the requests of an offset that
// begin on one channel evenly, for every channel.
func (s *sharer) byOffset(b *scheduler.Batch, decoding []scheduler.Decoding, ranksets int, begins func(request int32) int) {
	for len(s.halves) < ranksets {
		s.halves = append(s.halves, half{})
	}
	order := s.offsets[:0]
	for offset := range ranksets {
		h := &s.halves[offset]
		h.members = h.members[:0]
		for i := range decoding {
			if int(decoding[i].Offset) == offset {
				h.members = append(h.members, i)
			}
		}
		if begins != nil {
			channel := func(i int) int { return begins(decoding[i].Request) }
			slices.SortStableFunc(h.members, func(i, j int) int { return channel(i) - channel(j) })
		}
		s.halve(h, decoding, b.Step, begins)
		order = append(order, offset)
	}
	s.offsets = order
	s.turn(b, decoding, order)
}

// halve splits the requests of one offset. Those that begin on one channel are adjacent and are split evenly; the sides of these
// splits are then chosen so that the sums are even.
func (s *sharer) halve(h *half, decoding []scheduler.Decoding, step int64, begins func(request int32) int) {
	h.side, s.parts = h.side[:0], s.parts[:0]
	for from := 0; from < len(h.members); {
		to := len(h.members)
		if begins != nil {
			channel := begins(decoding[h.members[from]].Request)
			for to = from + 1; to < len(h.members) && begins(decoding[h.members[to]].Request) == channel; to++ {
			}
		}
		s.parts = append(s.parts, s.splitPart(h, decoding, step, from, to))
		from = to
	}
	slices.SortStableFunc(s.parts, func(p, q part) int { return cmp.Compare(abs(q.difference), abs(p.difference)) })
	s.values = s.values[:0]
	for _, p := range s.parts {
		s.values = append(s.values, abs(p.difference))
	}
	h.difference = 0
	for k, second := range s.orient.split(s.values) {
		p := &s.parts[k]
		if second != (p.difference < 0) {
			for i := p.from; i < p.to; i++ {
				h.side[i] = !h.side[i]
			}
		}
		if second {
			h.difference -= abs(p.difference)
		} else {
			h.difference += abs(p.difference)
		}
	}
}

// splitPart splits some members of an offset.
func (s *sharer) splitPart(h *half, decoding []scheduler.Decoding, step int64, from, to int) part {
	p := part{from: from, to: to}
	s.values = s.values[:0]
	for _, i := range h.members[from:to] {
		s.values = append(s.values, decoding[i].Base+step)
	}
	for i, second := range s.split(s.values) {
		h.side = append(h.side, second)
		if v := s.values[i]; second {
			p.difference -= v
		} else {
			p.difference += v
		}
	}
	return p
}

// turn chooses which half of each offset goes to which sub-batch.
func (s *sharer) turn(b *scheduler.Batch, decoding []scheduler.Decoding, order []int) {
	// Few offsets: an insertion sort by the size of the difference.
	for i := 1; i < len(order); i++ {
		for j := i; j > 0 && abs(s.halves[order[j]].difference) > abs(s.halves[order[j-1]].difference); j-- {
			order[j], order[j-1] = order[j-1], order[j]
		}
	}
	s.values = s.values[:0]
	for _, offset := range order {
		s.values = append(s.values, abs(s.halves[offset].difference))
	}
	for k, second := range s.orient.split(s.values) {
		h := &s.halves[order[k]]
		if h.difference < 0 {
			second = !second
		}
		for i, other := range h.side {
			give(b, &decoding[h.members[i]], other != second)
		}
	}
}

// give puts a decoding request into the first or the second sub-batch.
func give(b *scheduler.Batch, d *scheduler.Decoding, second bool) {
	s := 0
	if second {
		s = 1
	}
	b.Sub[s].Decode = append(b.Sub[s].Decode, *d)
}
