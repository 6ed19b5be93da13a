package measure

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/l3sim/l3sim/input/list"
)

// Validation is the errors of a target by kind, in the order of reports.
type Validation struct {
	target *Target
	kinds  []Kind
	Errors map[Kind]Errors
}

// Validate returns the errors of a target's predictions, by kind of sample.
func Validate(t *Target, samples []Sample) *Validation {
	v := &Validation{target: t, Errors: map[Kind]Errors{}}
	byKind := ByKind(samples)
	for _, kind := range Kinds() {
		if len(byKind[kind]) > 0 {
			v.kinds = append(v.kinds, kind)
			v.Errors[kind] = t.Judge(byKind[kind])
		}
	}
	return v
}

const worstShown = 10 // the number of worst predictions in a report

// WriteText writes a table of kinds and regions, then the worst predictions.
func (v *Validation) WriteText(w io.Writer) error {
	if err := v.writeErrors(w); err != nil {
		return err
	}
	return v.writeWorst(w)
}

func (v *Validation) writeErrors(w io.Writer) error {
	return aligned(w, tabwriter.AlignRight, func(table io.Writer) {
		fmt.Fprintf(table, "%s\tpoints\tmean\tmedian\tp90\tbias\t\n", v.target.GPU.Name)
		line := func(name string, e Errors) {
			fmt.Fprintf(table, "%s\t%d\t%.1f%%\t%.1f%%\t%.1f%%\t%+.1f%%\t\n",
				name, e.Points, 100*e.MAPE, 100*e.Median, 100*e.P90, 100*e.Bias)
		}
		for _, kind := range v.kinds {
			e := v.Errors[kind]
			line(string(kind), e)
			samples := list.Map(e.Relative, func(p Point) Sample { return p.Sample })
			for _, region := range Regions(kind) {
				if in := region.Select(samples); len(in) > 0 {
					line(region.Name, v.target.Judge(in))
				}
			}
		}
	})
}

func (v *Validation) writeWorst(w io.Writer) error {
	for _, kind := range v.kinds {
		e := v.Errors[kind]
		unit, scale := kind.Unit()
		fmt.Fprintf(w, "\nworst of %s\n", kind)
		err := aligned(w, 0, func(worst io.Writer) {
			for _, p := range e.Worst(worstShown) {
				fmt.Fprintf(worst, "  %+.0f%%\tpredicted %.2f %s\tmeasured %.2f %s\t%s\t%s:%d\n",
					100*p.Error, p.Predicted*scale, unit, p.Sample.Seconds*scale, unit, p.Sample.String(), p.Sample.File, p.Sample.Line)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Above returns an error that names the kinds whose mean error is above limit.
func (v *Validation) Above(limit float64) error {
	var over []string
	for _, kind := range v.kinds {
		if mape := v.Errors[kind].MAPE; mape > limit {
			over = append(over, fmt.Sprintf("%s %.4f", kind, mape))
		}
	}
	if len(over) == 0 {
		return nil
	}
	return fmt.Errorf("mean absolute percentage error above %v: %s", limit, strings.Join(over, ", "))
}

// aligned writes lines whose cells tabs divide in columns.
func aligned(w io.Writer, flags uint, lines func(io.Writer)) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', flags)
	lines(t)
	return t.Flush()
}
