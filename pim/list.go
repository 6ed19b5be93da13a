package pim

import (
	"fmt"
	"sort"

	"github.com/l3sim/l3sim/input"
)

// extent is tokens of a list that lie together in an allocation unit: whole chunks, but for the last of the list.
type extent struct {
	start int // of the list's tokens, the one at which it begins
	unit  int // counted from the head's first row
	chunk int // of the unit, its first
}

// place returns where the tokens of a head lie from one of its list on: the unit, the place
// in it, and the first token of the list that does not follow in the open row.
func (h *headRun) place(g *Geometry, token int) (unit, within, end int) {
	if h.list == nil {
		unit = token / g.RowTokens
		return unit, token % g.RowTokens, (unit + 1) * g.RowTokens
	}
	i := sort.Search(len(h.list), func(i int) bool { return h.list[i].start > token }) - 1
	x := &h.list[i]
	within = x.chunk*g.ChunkTokens + token - x.start
	end = x.start + g.RowTokens - x.chunk*g.ChunkTokens
	if i+1 < len(h.list) {
		end = h.list[i+1].start
	}
	return x.unit, within, end
}

// checkList has the rules of a list: extents of whole chunks within a unit, one after another,
// that hold all tokens of the head.
func (h *headRun) checkList(g *Geometry) error {
	bad := func(i int, expected string) error {
		return &input.Error{Key: "list", Value: fmt.Sprintf("extent %d: %+v", i, h.list[i]), Expected: expected}
	}
	for i := range h.list {
		x := &h.list[i]
		end := h.context
		if i+1 < len(h.list) {
			end = h.list[i+1].start
		}
		switch {
		case i == 0 && x.start != 0:
			return bad(i, "the first extent to begin at token 0")
		case x.start%g.ChunkTokens != 0 || end <= x.start:
			return bad(i, fmt.Sprintf("extents of whole chunks of %d tokens, one after another", g.ChunkTokens))
		case x.unit < 0 || x.chunk < 0 || x.chunk*g.ChunkTokens+end-x.start > g.RowTokens:
			return bad(i, fmt.Sprintf("to lie within a unit of %d tokens", g.RowTokens))
		}
	}
	return nil
}

// pageList returns the list of pages of a head of context tokens, by number and in their order, and how many units it
// touches. A page is page tokens from page·number on, as far as there are any: a divisor or a multiple of RowTokens, and
// whole chunks. The newest page is the last. Pages that follow one another in a unit are one extent.
func pageList(g *Geometry, context, page int, pages []int) (list []extent, tokens, units int) {
	for _, number := range pages {
		list, tokens = appendRange(g, list, tokens, number*page, min((number+1)*page, context))
	}
	for i, x := range list {
		if i == 0 || x.unit != list[i-1].unit {
			units++
		}
	}
	return list, tokens, units
}

// appendRange adds a head's tokens from first to before end to a list that has tokens. It returns the list and its tokens.
func appendRange(g *Geometry, list []extent, tokens, first, end int) ([]extent, int) {
	for first < end {
		unit, chunk := first/g.RowTokens, first%g.RowTokens/g.ChunkTokens
		last := len(list) - 1
		if last < 0 || list[last].unit != unit || list[last].chunk+(tokens-list[last].start)/g.ChunkTokens != chunk {
			list = append(list, extent{tokens, unit, chunk})
		}
		stop := min(end, (unit+1)*g.RowTokens)
		tokens, first = tokens+stop-first, stop
	}
	return list, tokens
}

// rangeList returns the list of ranges of a head's tokens, from the first to before the second,
// ascending, and how many tokens it has. All but the last are whole chunks.
func rangeList(g *Geometry, list []extent, ranges [][2]int) ([]extent, int, error) {
	tokens := 0
	for i, r := range ranges {
		if r[0] < 0 || r[0]%g.ChunkTokens != 0 || r[1] <= r[0] || i+1 < len(ranges) && (r[1]%g.ChunkTokens != 0 || ranges[i+1][0] < r[1]) {
			return nil, 0, &input.Error{Key: "ranges", Value: fmt.Sprint(r), Expected: fmt.Sprintf(
				"ascending ranges of whole chunks of %d tokens, but for the end of the last", g.ChunkTokens)}
		}
		list, tokens = appendRange(g, list, tokens, r[0], r[1])
	}
	return list, tokens, nil
}
