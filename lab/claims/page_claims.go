package claims

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results/tables"
)

// claimTable returns the judgements as a table for a terminal.
func (r *Report) claimTable() *tables.Table {
	t := &tables.Table{Columns: []string{"claim", "paper", "ours", "verdict"}}
	for i := range r.Judgements {
		j := &r.Judgements[i]
		t.Add(j.ID, j.claim.paperText(), j.number(), j.judged())
	}
	if r.Target == Fair { // nothing is judged
		return t.Select([]int{0, 1, 2})
	}
	return t
}

// paperText returns the paper's number, with the side of a bound.
func (c *claim) paperText() string {
	text := fmt.Sprintf("%.3g", c.Paper)
	if c.Paper == 0 {
		text = "-"
	}
	switch c.Kind {
	case atLeast:
		return "> " + text
	case atMost:
		return "< " + text
	}
	return text
}

// pageLine is a claim on the page, or the claims of several contexts together.
type pageLine struct {
	name, says, paper, ours, verdict, why string

	edge, missed bool
}

// pageLines returns the lines of the claims that have a number.
func (r *Report) pageLines() (all []pageLine) {
	for i := 0; i < len(r.Judgements); {
		end := r.familyEnd(i)
		j, last := &r.Judgements[i], &r.Judgements[end-1]
		l := pageLine{j.name(last), j.claim.Says, j.claim.paperText(), j.number(), j.Verdict, j.Why, j.Edge, false}
		comesOut := 0
		for k := i; k < end; k++ {
			v := r.Judgements[k].Verdict
			l.missed = l.missed || slices.Contains([]string{direction, sameSide, notReproduced, contradicted}, v)
			if v == reproduced {
				comesOut++
			}
		}
		if f := j.claim.family; end > i+1 {
			l.paper, l.ours = fmt.Sprintf("%.3g to %.3g", j.Paper, last.Paper), j.number()+" to "+last.number()
			l.verdict, l.edge = fmt.Sprintf("%d of %d %s", comesOut, end-i, reproduced), false
			contexts := tokens(f.Contexts[0]) + " to " + tokens(f.Contexts[end-i-1])
			l.says = strings.NewReplacer("{paper}", l.paper, "{context}", contexts).Replace(f.Says)
		}
		if j.Number != nil { // otherwise a statement, which has only its reason
			all = append(all, l)
		}
		i = end
	}
	return all
}

// onEdge marks the text of a claim whose verdict is on the edge.
func (l *pageLine) onEdge(text string) string {
	if l.edge {
		return text + ", on the edge"
	}
	return text
}

// writeClaims writes the claims of the page, and why some are missed: for sparse attention grouped by verdict,
// otherwise in one table followed by reasons.
func (r *Report) writeClaims(w io.Writer) error {
	lines := r.pageLines()
	if r.Target == Sparse {
		if err := writeGroups(w, lines); err != nil {
			return err
		}
	} else {
		t := &tables.Table{Columns: []string{"claim", "what is claimed", "paper", "ours", "verdict"}}
		for i := range lines {
			l := &lines[i]
			t.Add(l.name, l.says, l.paper, l.ours, l.onEdge(l.verdict))
		}
		if err := t.WriteMarkdown(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
		for _, l := range lines {
			if l.missed && l.why != "" {
				fmt.Fprintf(w, "- %s: %s\n", l.name, l.why)
			}
		}
	}
	if ids := r.statements(); len(ids) > 0 {
		fmt.Fprintf(w, "\nWithout a number here, for reasons in `%s.json`: %s.\n", r.Target.part(), strings.Join(ids, ", "))
	}
	return nil
}

// writeGroups writes claims by verdict: reproduced ones in tables, the others in a list with reasons.
func writeGroups(w io.Writer, lines []pageLine) error {
	for _, verdict := range []string{reproduced, shapeOnly} {
		t := &tables.Table{Columns: []string{"claim", "the paper says", "ours"}}
		for i := range lines {
			if l := &lines[i]; !l.missed && (l.verdict == shapeOnly) == (verdict == shapeOnly) {
				t.Add(l.name, l.says, l.onEdge(l.ours))
			}
		}
		fmt.Fprintf(w, "### Claims: %s\n\n", verdict)
		if err := t.WriteMarkdown(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "### Claims: missed\n\n")
	for i := range lines {
		if l := &lines[i]; l.missed {
			fmt.Fprintf(w, "- %s: %s. Ours %s, %s", l.name, l.says, l.ours, l.onEdge(l.verdict))
			if l.why != "" {
				fmt.Fprintf(w, ": %s", l.why)
			}
			fmt.Fprintln(w, ".")
		}
	}
	return nil
}

// statements are the claims without a number here.
func (r *Report) statements() (ids []string) {
	for i := range r.Judgements {
		if j := &r.Judgements[i]; j.Number == nil {
			ids = append(ids, "`"+j.ID+"`")
		}
	}
	return ids
}

// familyEnd returns the index after the claims that differ from claim i in the context alone.
func (r *Report) familyEnd(i int) int {
	end, family := i+1, r.Judgements[i].claim.family
	for family != nil && end < len(r.Judgements) && r.Judgements[end].claim.family == family {
		end++
	}
	return end
}

// name returns the claim's name on the page, up to the last of its family.
func (j *judgement) name(last *judgement) string {
	if j == last {
		return "`" + j.ID + "`"
	}
	at := strings.Index(j.claim.family.ID, "{")
	return fmt.Sprintf("`%s` to `%s`", j.ID, last.ID[at:])
}

func (r *Report) counts() string {
	n := map[string]int{}
	for i := range r.Judgements {
		n[r.Judgements[i].Verdict]++
	}
	each := list.Map([]string{reproduced, direction, sameSide, notReproduced, contradicted, shapeOnly, notJudged}, func(v string) string { return fmt.Sprintf("%d %s", n[v], v) })
	return fmt.Sprintf("%d claims: %s.", len(r.Judgements), strings.Join(each, ", "))
}

// number writes an Outcome, with its range where the seeds differ.
func (o *Outcome) number() string {
	if o.Number == nil {
		return "-"
	}
	text := fmt.Sprintf("%.3g", o.Ours)
	if o.Low < o.High {
		text += fmt.Sprintf(" (%.3g to %.3g)", o.Low, o.High)
	}
	return text
}

// writeReasons writes for every claim the origin of its number, its reading and the results of
// other readings.
func (r *Report) writeReasons(w io.Writer) {
	for i := range r.Judgements {
		j := &r.Judgements[i]
		fmt.Fprintf(w, "- `%s`: %s", j.ID, j.Reason)
		if c := j.claim; c.Kind == exactly && c.Ratio && c.holds(1) {
			fmt.Fprintf(w, "; 1, no difference at all, is within %.0f%% of %.3g, too", 100*tolerance, c.Paper)
		}
		fmt.Fprintln(w)
		if j.Reading != "" {
			fmt.Fprintf(w, "  - judged as: %s\n", j.Reading)
		}
		if j.Why != "" {
			fmt.Fprintf(w, "  - why: %s\n", j.Why)
		}
		for n := range j.Others {
			o := &j.Others[n]
			fmt.Fprintf(w, "  - %s: %s, %s\n", o.Reading, o.number(), o.judged())
		}
	}
}
