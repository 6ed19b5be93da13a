package tables

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/units"
)

// WriteText writes the exploration for a person to read.
func (e *Exploration) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d points on the front of %s\n", len(e.Front), e.Points, strings.Join(list.Map(e.Goals, Goal.String), ", "))
	if e.Failed > 0 {
		fmt.Fprintf(&b, "left out: %d that failed\n", e.Failed)
	}
	if e.Incomplete > 0 {
		fmt.Fprintf(&b, "left out: %d without a number for each goal\n", e.Incomplete)
	}
	b.WriteByte('\n')
	if err := e.frontTable().WriteText(&b); err != nil {
		return err
	}
	var beyond results.Limits
	for i := range e.Front {
		beyond = beyond.Or(e.Front[i].limits())
	}
	if legend := beyond.Legend(); legend != "" {
		b.WriteString(legend + "\n")
	}
	for _, k := range e.Shared {
		fmt.Fprintf(&b, "all of them: %s = %s\n", k.Column, ForPeople(k.Column, k.Value))
	}
	if len(e.Knobs) == 0 {
		b.WriteString("\nno key varies over the points but goals\n")
	} else if err := e.writeKnobs(&b); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// frontTable returns the points on the front: their knobs, then their goals.
func (e *Exploration) frontTable() *Table {
	if len(e.Front) == 0 {
		return &Table{}
	}
	t := &Table{Columns: list.Map(e.Front[0].Knobs, func(k KnobValue) string { return k.Column })}
	repeated := slices.ContainsFunc(e.Front, func(f FrontPoint) bool { return f.Seeds > 1 })
	for _, g := range e.Goals {
		t.Columns = append(t.Columns, g.Column)
		if repeated {
			t.Columns = append(t.Columns, "std")
		}
	}
	if repeated {
		t.Columns = append(t.Columns, "seeds")
	}
	for i := range e.Front {
		f := &e.Front[i]
		row := list.Map(f.Knobs, func(k KnobValue) any { return ForPeople(k.Column, k.Value) })
		for g, goal := range e.Goals {
			row = append(row, ForPeople(goal.Column, Of(f.Values[g])))
			if repeated {
				row = append(row, ForPeople(goal.Column, Of(f.Std[g])))
			}
		}
		if repeated {
			row = append(row, f.Seeds)
		}
		t.Add(row...)
		t.mark(i, f.limits())
	}
	return t
}

// writeKnobs writes for each knob the value that the front prefers, and all counts.
func (e *Exploration) writeKnobs(b *strings.Builder) error {
	b.WriteString(`
what the front has in common: for each key the value whose share of the front exceeds its share of all points most,
then the points on the front and all points for each value

`)
	t := &Table{Columns: []string{"key", "value", "on the front", "of all", "on the front / of all, by value"}}
	for _, k := range e.Knobs {
		levels := list.Map(k.Levels, func(l Level) string { return fmt.Sprintf("%s: %d/%d", l.label(k.Column), l.Front, l.All) })
		const most = 12
		if len(levels) > most {
			levels = append(levels[:most], fmt.Sprintf("%d more", len(levels)-most))
		}
		t.Add(k.Column, k.Most.label(k.Column), fmt.Sprintf("%d of %d", k.Most.Front, len(e.Front)),
			fmt.Sprintf("%.0f%%", 100*float64(k.Most.All)/float64(e.Points)), strings.Join(levels, ", "))
	}
	return t.WriteText(b)
}

// label writes a level's value or range.
func (l *Level) label(column string) string {
	if l.To.Empty() {
		return ForPeople(column, l.Value)
	}
	return ForPeople(column, l.Value) + ".." + ForPeople(column, l.To)
}

// ForPeople writes a cell for people: numbers with at most six digits, bytes with a unit. Whole numbers keep all
// digits, since these tell values of a key apart.
func ForPeople(column string, cell Value) string {
	v, number := cell.Float()
	switch {
	case cell.Empty():
		return "-"
	case number && strings.HasSuffix(column, "_bytes") && math.Abs(v) < 1<<62:
		if exact := units.Bytes(v).String(); len(exact) <= len("123.4567TiB") {
			return exact
		}
		short, unit := results.BinaryPrefix(math.Trunc(v)) // the exact text is no longer than one with a prefix, so bytes has a prefix, too
		return strconv.FormatFloat(short, 'f', 1, 64) + " " + unit
	case number && (v != math.Trunc(v) || math.Abs(v) >= 1<<63):
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	return cell.String()
}
