package pim

import (
	"fmt"
	"sort"

	"github.com/l3sim/l3sim/input"
)

// Extent is a run of tokens in a list that are consecutive in an allocation unit: whole chunks, except the last of the list.
type Extent struct {
	Start int // index in the list of its first token
	Unit  int // allocation unit, counted from the head's first row
	Chunk int // its first chunk in the unit
}

// TokenList is the tokens of a head that are attended to, in ascending order. Nil means all tokens from the first, without gaps.
type TokenList []Extent

// Place returns the position of a token of the list: the unit, the index within it, and the end of the run of list tokens that follow in
// the same row.
func (l TokenList) Place(g *Geometry, token int) (unit, within, end int) {
	if l == nil {
		unit = token / g.RowTokens
		return unit, token % g.RowTokens, (unit + 1) * g.RowTokens
	}
	i := sort.Search(len(l), func(i int) bool { return l[i].Start > token }) - 1
	x := &l[i]
	within = x.Chunk*g.ChunkTokens + token - x.Start
	end = x.Start + g.RowTokens - x.Chunk*g.ChunkTokens
	if i+1 < len(l) {
		end = l[i+1].Start
	}
	return x.Unit, within, end
}

// Check has the rules of a list with the given number of tokens: ascending extents of whole chunks within a unit, which hold all tokens.
func (l TokenList) Check(g *Geometry, tokens int) error {
	bad := func(i int, expected string) error {
		return &input.Error{Key: "list", Value: fmt.Sprintf("extent %d: %+v", i, l[i]), Expected: expected}
	}
	for i := range l {
		x := &l[i]
		end := tokens
		if i+1 < len(l) {
			end = l[i+1].Start
		}
		switch {
		case i == 0 && x.Start != 0:
			return bad(i, "the first extent to begin at token 0")
		case x.Start%g.ChunkTokens != 0 || end <= x.Start:
			return bad(i, fmt.Sprintf("extents of whole chunks of %d tokens, one after another", g.ChunkTokens))
		case x.Unit < 0 || x.Chunk < 0 || x.Chunk*g.ChunkTokens+end-x.Start > g.RowTokens:
			return bad(i, fmt.Sprintf("to lie within a unit of %d tokens", g.RowTokens))
		}
	}
	return nil
}

// PageList returns the list of a head's pages with the given numbers, its tokens, and the number of units that it touches. context is the
// head's number of tokens. A page holds page tokens from page·number on, fewer at the end; page must be a divisor or a multiple of
// RowTokens, and whole chunks. The newest page is last. Adjacent pages in a unit become one extent.
func PageList(g *Geometry, context, page int, pages []int) (list TokenList, tokens, units int) {
	for _, number := range pages {
		list, tokens = appendRange(g, list, tokens, number*page, min((number+1)*page, context))
	}
	for i, x := range list {
		if i == 0 || x.Unit != list[i-1].Unit {
			units++
		}
	}
	return list, tokens, units
}

// appendRange adds a head's tokens from first up to, excluding, end to a list with the given number of tokens. It returns the list and its
// new number of tokens.
func appendRange(g *Geometry, list TokenList, tokens, first, end int) (TokenList, int) {
	for first < end {
		unit, chunk := first/g.RowTokens, first%g.RowTokens/g.ChunkTokens
		last := len(list) - 1
		if last < 0 || list[last].Unit != unit || list[last].Chunk+(tokens-list[last].Start)/g.ChunkTokens != chunk {
			list = append(list, Extent{tokens, unit, chunk})
		}
		stop := min(end, (unit+1)*g.RowTokens)
		tokens, first = tokens+stop-first, stop
	}
	return list, tokens
}

// RangeList returns the list of ascending ranges of a head's tokens, each from its first number up to, excluding, its second, and the
// list's number of tokens. All but the last range are whole chunks.
func RangeList(g *Geometry, list TokenList, ranges [][2]int) (TokenList, int, error) {
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
