package tables

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const longestName = 32 // letters, the space in figures and tables

// ShortPoints returns a short name for each point: its own, without the parts "key=value" that all points have or whose key
// is among said. A name that is still too long becomes "#" and the point's number.
func (t *Table) ShortPoints(said ...string) map[Value]Value {
	t = cmp.Or(t, &Table{})
	point := slices.Index(t.Columns, PointColumn)
	if point < 0 {
		return nil
	}
	points, with := t.Group(t.All(), point), map[string]int{} // points with a part
	parts := func(rows []int) []string { return strings.Split(t.Rows[rows[0]][point].String(), ",") }
	for _, rows := range points {
		for _, part := range parts(rows) {
			with[part]++
		}
	}
	short := map[Value]Value{}
	for i, rows := range points {
		name := t.Rows[rows[0]][point]
		kept := slices.DeleteFunc(parts(rows), func(part string) bool {
			key, _, is := strings.Cut(part, "=")
			return is && (slices.Contains(said, key) || with[part] == len(points))
		})
		if short[name] = name; len(kept) > 0 {
			short[name] = Of(strings.Join(kept, ","))
		}
		if utf8.RuneCountInString(short[name].String()) > longestName {
			short[name] = Of(fmt.Sprintf("#%d", i+1))
		}
	}
	return short
}
