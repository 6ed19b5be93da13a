package tables

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/l3sim/l3sim/input"
)

// ReadDraws reads the draws of a folder of a sweep with bands.
func ReadDraws(dir string) (*Table, error) {
	if _, _, err := ReadFolder(dir); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, DrawsParquet)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		file = filepath.Join(dir, DrawsFile)
	}
	if _, err := os.Stat(file); err != nil {
		return nil, &input.Error{File: dir, Err: errors.Unwrap(err), Expected: "a folder of 'l3sim sweep --bands N', which has the draws to rank by"}
	}
	return readFile(file)
}

// sureShare is the share of draws that a point must win to be said to be better.
const sureShare = 0.9

// Rank compares the points of a table of draws by a column, each pair that agrees in other columns: the model and the
// trace, and those of groups. Draws of the same number are compared; equal values are half a win for each. The first of
// a pair wins more draws, and pairs are in the order of their points' wins in the group. A pair without a draw in which
// both are done is left out. Errors name flag and groupFlag.
func (t *Table) Rank(flag, column, groupFlag string, groups ...string) (*Table, error) {
	value, err := t.Column(flag, column)
	if err != nil {
		return nil, err
	}
	better := Describe(t.Columns[value]).Better
	if better == Neither {
		return nil, &input.Error{Key: flag, Value: strconv.Quote(column), Expected: "a column that is better higher or lower ('l3sim table --list-columns' says which)"}
	}
	var by []int
	for _, name := range []string{"run.model", "run.trace"} {
		if c := slices.Index(t.Columns, name); c >= 0 && t.Varies(c) {
			by = append(by, c)
		}
	}
	for _, name := range groups {
		c, err := t.Column(groupFlag, name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(by, c) {
			by = append(by, c)
		}
	}
	out := &Table{Name: t.Name, Kinds: map[string]Kind{}}
	for _, c := range by {
		out.Columns = append(out.Columns, t.Columns[c])
	}
	out.Columns = append(out.Columns, PointColumn, "over", DrawsColumn, "wins", "share", "verdict")
	for _, rows := range t.Group(t.All(), by...) {
		var shared []any
		for _, c := range by {
			shared = append(shared, t.Rows[rows[0]][c])
		}
		for _, d := range t.duels(rows, value, better) {
			verdict := "wins"
			if d.share() < sureShare {
				verdict = "tie"
			}
			out.Add(append(slices.Clone(shared), d.point, d.over, d.draws, d.wins, d.share(), verdict)...)
		}
	}
	if len(out.Rows) == 0 {
		return nil, &input.Error{File: t.Name, Key: flag, Value: strconv.Quote(column), Expected: fmt.Sprintf("two points of one model and trace that have %s in one draw", t.Columns[value])}
	}
	return out, nil
}

// duel is two points and the number of draws that the first wins.
type duel struct {
	point, over Value
	draws       int
	wins        float64
}

func (d *duel) share() float64 { return d.wins / float64(d.draws) }

// contender is a point with its values by draw.
type contender struct {
	name   Value
	values map[Value]float64
	wins   float64 // over all others
}

// duels returns every pair of the points that rows belong to.
func (t *Table) duels(rows []int, value int, better Better) (pairs []duel) {
	point, draw := slices.Index(t.Columns, PointColumn), slices.Index(t.Columns, DrawColumn)
	var all []*contender
	for _, mine := range t.Group(rows, point) {
		c := &contender{name: t.Rows[mine[0]][point], values: map[Value]float64{}}
		for _, r := range mine {
			if v, is := t.Number(r, value); is {
				c.values[t.Rows[r][draw]] = v
			}
		}
		all = append(all, c)
	}
	meet := func(a, b *contender) duel {
		d := duel{point: a.name, over: b.name}
		for number, x := range a.values {
			y, done := b.values[number]
			switch {
			case !done:
				continue
			case x == y:
				d.wins += 0.5
			case (x > y) == (better == Higher):
				d.wins++
			}
			d.draws++
		}
		return d
	}
	for i, a := range all {
		for _, b := range all[i+1:] {
			d := meet(a, b)
			a.wins += d.wins
			b.wins += float64(d.draws) - d.wins
		}
	}
	slices.SortStableFunc(all, func(a, b *contender) int { return cmp.Compare(b.wins, a.wins) })
	for i, a := range all {
		for _, b := range all[i+1:] {
			d := meet(a, b)
			if d.wins < float64(d.draws)/2 {
				d = meet(b, a)
			}
			if d.draws > 0 {
				pairs = append(pairs, d)
			}
		}
	}
	return pairs
}
