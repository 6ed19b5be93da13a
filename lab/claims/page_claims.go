package claims

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results/tables"
)

// claimTable returns the judgements as a table; with says, what the paper says, too.
func (r *Report) claimTable(says bool) *tables.Table {
	t := &tables.Table{Columns: []string{"claim", "the paper says", "paper", "ours", "verdict"}}
	shown := []int{0, 1, 2, 3, 4}
	if !says {
		shown = slices.Delete(shown, 1, 2)
	}
	if r.Target == Fair { // nothing is judged
		shown = shown[:len(shown)-1]
	}
	for i := range r.Judgements {
		j := &r.Judgements[i]
		paper := fmt.Sprintf("%.3g", j.Paper)
		if j.Paper == 0 {
			paper = "-"
		}
		switch j.claim.Kind {
		case atLeast:
			paper = "> " + paper
		case atMost:
			paper = "< " + paper
		}
		id := j.ID
		if says {
			id = "`" + id + "`"
		}
		t.Add(id, j.claim.Says, paper, j.number(), j.judged())
	}
	return t.Select(shown)
}

// pageTable is claimTable with what the paper says, claims of several contexts in one row.
func (r *Report) pageTable() *tables.Table {
	t := r.claimTable(true)
	rows := t.Rows
	t.Rows = nil
	for i := 0; i < len(rows); {
		end := r.familyEnd(i)
		if r.Judgements[i].Number == nil {
			// a statement, whose reason is all that there is
		} else if end == i+1 {
			t.Rows = append(t.Rows, rows[i])
		} else {
			first, last, comesOut := &r.Judgements[i], &r.Judgements[end-1], 0
			for k := i; k < end; k++ {
				if r.Judgements[k].Verdict == reproduced {
					comesOut++
				}
			}
			says := strings.NewReplacer("{paper}", "so many", "{context}", "each length").Replace(first.claim.family.Says)
			t.Add(first.name(last), says, fmt.Sprintf("%.3g to %.3g", first.Paper, last.Paper), first.number()+" to "+last.number(), fmt.Sprintf("%d of %d %s", comesOut, end-i, reproduced))
		}
		i = end
	}
	return t
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

// familyEnd returns the index behind the claims that differ from claim i in the context alone.
func (r *Report) familyEnd(i int) int {
	end, family := i+1, r.Judgements[i].claim.family
	for family != nil && end < len(r.Judgements) && r.Judgements[end].claim.family == family {
		end++
	}
	return end
}

// name is the claim's on the page, up to the last of its family.
func (j *judgement) name(last *judgement) string {
	if j == last {
		return "`" + j.ID + "`"
	}
	at := strings.Index(j.claim.family.ID, "{")
	return fmt.Sprintf("`%s` to `%s`", j.ID, last.ID[at:])
}

// writeWhys says in a line of every claim that does not come out why, claims of several contexts together.
func (r *Report) writeWhys(w io.Writer) {
	for i := 0; i < len(r.Judgements); {
		end := r.familyEnd(i)
		j, last, missed := &r.Judgements[i], &r.Judgements[end-1], false
		for k := i; k < end; k++ {
			missed = missed || slices.Contains([]string{direction, sameSide, notReproduced, contradicted}, r.Judgements[k].Verdict)
		}
		if missed && j.Why != "" {
			fmt.Fprintf(w, "- %s: %s\n", j.name(last), j.Why)
		}
		i = end
	}
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

// writeReasons says of every claim where its number comes from, how the claim is read
// and what other readings give.
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
