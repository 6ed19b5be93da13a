package sweep

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/results/tables"
)

// variantKey is the key that names one of the variants that a preset has for a system.
const variantKey = "run.variant"

// trial is what a point is made of, but for its seed: the number of the combination of choices, of which the last axis changes fastest,
// and the variant that the plan tries, "" where the preset has none or the user has chosen.
type trial struct {
	combination int
	variant     string
}

// trials returns each combination with each of its variants. Where there are any, the table has a column with their names.
func (p *Plan) trials(combinations []int) ([]trial, error) {
	all, known := make([]trial, 0, len(combinations)), map[string][]string{}
	for _, c := range combinations {
		settings := p.settings(c)
		presets := presetsOf(p.keys(), settings)
		names, seen := known[presets]
		if !seen {
			var err error
			if names, err = p.File.Loader.Variants(p.options(settings)); input.IsSystemFault(err) {
				return nil, &unreadableError{err}
			} // another error is the point's
			known[presets] = names
		}
		if len(names) == 0 {
			all = append(all, trial{combination: c})
		}
		for _, name := range names {
			all = append(all, trial{c, name})
		}
	}
	if slices.ContainsFunc(all, func(t trial) bool { return t.variant != "" }) && !slices.Contains(p.columns, variantKey) {
		p.columns = slices.Insert(p.columns, len(p.columns)-1, variantKey) // before the seed
	}
	return all, nil
}

// settingsOf returns the settings of a trial, after those of the file.
func (p *Plan) settingsOf(t trial) []design.Setting {
	settings := p.settings(t.combination)
	if t.variant != "" {
		settings = append(settings, design.Setting{Key: variantKey, Value: strconv.Quote(t.variant)})
	}
	return settings
}

// nameOf returns the name of a trial.
func (p *Plan) nameOf(t trial) string {
	name := p.name(t.combination)
	switch {
	case t.variant == "":
		return name
	case len(p.File.Axes) == 0:
		return t.variant
	}
	return name + "," + t.variant
}

// dropInvalid drops the variants of a combination that are not valid with its other keys, such as stripes with a policy of pages, where
// another one is valid.
func (p *Plan) dropInvalid() {
	valid := map[int]bool{}
	for i := range p.Points {
		if p.Points[i].Err == nil {
			valid[p.Points[i].combination] = true
		}
	}
	p.Points = slices.DeleteFunc(p.Points, func(x Point) bool { return x.Err != nil && x.variant != "" && valid[x.combination] })
}

// tries says that the plan tries variants.
func (p *Plan) tries() bool {
	return slices.Contains(p.columns, variantKey) && !slices.Contains(p.Keys, variantKey)
}

// Best returns the points that count, in order: of the variants of a combination the one that over all seeds fails least, rejects the
// fewest requests and then has the highest throughput, of equals the first. All points count where there are no variants. Draws do
// not count: those of a point are read where the point is the best.
func (p *Plan) Best(o *Outcome) (best []int) {
	t := &tables.Table{Rows: list.Map(p.own(), func(x Point) []tables.Value { return x.cells })}
	if !p.tries() {
		return t.All()
	}
	variant := slices.Index(p.columns, variantKey)
	var columns []int                             // that tell combinations apart
	for i := range p.columns[:len(p.columns)-1] { // the last is the seed
		if i != variant {
			columns = append(columns, i)
		}
	}
	for _, combination := range t.Group(t.All(), columns...) {
		best = append(best, slices.MinFunc(t.Group(combination, variant), o.compare)...)
	}
	slices.Sort(best)
	return best
}

// compare is negative where the points of one variant are better than those of another, each over all seeds.
func (o *Outcome) compare(a, b []int) int {
	sum := func(points []int) (failed, rejected int64, throughput float64) {
		for _, i := range points {
			if e := o.Entries[i]; e == nil || e.Summary == nil {
				failed++
			} else {
				rejected, throughput = rejected+e.Summary.RejectedRequests, throughput+e.Summary.OutputTokensPerS
			}
		}
		return failed, rejected, throughput
	}
	failedA, rejectedA, throughputA := sum(a)
	failedB, rejectedB, throughputB := sum(b)
	return cmp.Or(cmp.Compare(failedA, failedB), cmp.Compare(rejectedA, rejectedB), cmp.Compare(throughputB, throughputA))
}

// counts returns whether the point of an index counts: one that Best returns, or a draw of one.
func (p *Plan) counts(o *Outcome) func(i int) bool {
	best := p.Best(o)
	return func(i int) bool {
		if draw := p.Points[i].draw; draw != nil {
			i = draw.of
		}
		_, is := slices.BinarySearch(best, i)
		return is
	}
}

// KeepBest leaves the points that count (Best), with their results.
func (p *Plan) KeepBest(o *Outcome) {
	if !p.tries() {
		return
	}
	var points []Point
	var entries []*Entry
	failed := 0
	for _, i := range p.Best(o) {
		points, entries = append(points, p.Points[i]), append(entries, o.Entries[i])
		if e := o.Entries[i]; e != nil && e.Summary == nil {
			failed++
		}
	}
	p.Points, o.Entries, o.Failed = points, entries, failed
}
