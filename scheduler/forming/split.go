package forming

import "github.com/l3sim/l3sim/scheduler"

// exactSplit is the number of values up to which split tries all sums, 2^11 at most,
// and so finds the best split.
const exactSplit = 12

// splitter divides numbers into two sums as even as it can. It reuses its memory.
type splitter struct {
	side []bool // the side of each value: true for the second
	best []bool
}

// split returns for each of values whether it goes to the second side. values must be
// in descending order. Up to exactSplit values the difference of the sums is the
// smallest. More values are dealt largest first; then values are moved and exchanged
// while that helps. The result is valid until the next call.
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
	orient  splitter
}

// half is the split of one offset's requests: the difference of its two sums, and the
// side of each request.
type half struct {
	difference int64
	members    []int
	side       []bool
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

// byOffset divides the requests of every rankset offset evenly. So if all requests
// together are balanced over the ranksets, each sub-batch is, too. Then it turns the
// splits so that the sub-batches have even sums.
func (s *sharer) byOffset(b *scheduler.Batch, decoding []scheduler.Decoding, ranksets int) {
	for len(s.halves) < ranksets {
		s.halves = append(s.halves, half{})
	}
	s.values = s.values[:0]
	order := s.offsets[:0]
	for offset := range ranksets {
		h := &s.halves[offset]
		h.members, h.side = h.members[:0], h.side[:0]
		start := len(s.values)
		for i := range decoding {
			if int(decoding[i].Offset) == offset {
				h.members = append(h.members, i)
				s.values = append(s.values, decoding[i].Base+b.Step)
			}
		}
		h.side = append(h.side, s.split(s.values[start:])...)
		h.difference = 0
		for i, second := range h.side {
			if v := s.values[start+i]; second {
				h.difference -= v
			} else {
				h.difference += v
			}
		}
		order = append(order, offset)
	}
	s.offsets = order
	s.turn(b, decoding, order)
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
