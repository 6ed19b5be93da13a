package sweep

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/sweep/design"
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
	type sum struct {
		failed, rejected int64
		throughput       float64
		first            int
	}
	if !p.tries() {
		for i := range p.own() {
			best = append(best, i)
		}
		return best
	}
	columns := []int{} // that tell combinations apart
	variant := slices.Index(p.columns, variantKey)
	for i := range p.columns[:len(p.columns)-1] {
		if i != variant {
			columns = append(columns, i)
		}
	}
	of := func(i int) (combination, name string) {
		var b strings.Builder
		for _, c := range columns {
			b.WriteString(p.Points[i].cells[c].String() + "\x00")
		}
		return b.String(), p.Points[i].cells[variant].String()
	}
	sums := map[string]map[string]*sum{}
	for i := range p.own() {
		combination, name := of(i)
		if sums[combination] == nil {
			sums[combination] = map[string]*sum{}
		}
		s := sums[combination][name]
		if s == nil {
			s = &sum{first: i}
			sums[combination][name] = s
		}
		if e := o.Entries[i]; e == nil || e.Summary == nil {
			s.failed++
		} else {
			s.rejected, s.throughput = s.rejected+e.Summary.RejectedRequests, s.throughput+e.Summary.OutputTokensPerS
		}
	}
	for i := range p.own() {
		combination, name := of(i)
		own := sums[combination][name]
		beaten := false
		for _, s := range sums[combination] { // in any order: only whether there is a better one
			beaten = beaten || cmp.Or(cmp.Compare(s.failed, own.failed), cmp.Compare(s.rejected, own.rejected), cmp.Compare(own.throughput, s.throughput), cmp.Compare(s.first, own.first)) < 0
		}
		if !beaten {
			best = append(best, i)
		}
	}
	return best
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
