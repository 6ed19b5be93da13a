package tables

import (
	"math"
	"slices"

	"github.com/l3sim/l3sim/input"
)

// Comparison is the changes between two sweeps' results.
type Comparison struct {
	Points  []PointChange // in the order of the new table, then those that vanished
	Metrics []string      // that both tables have
	// GainedMetrics and LostMetrics are those that only the new or the old table has.
	GainedMetrics, LostMetrics []string
}

// Fate is the outcome of comparing a point.
type Fate string

// The fates of a point.
const (
	Equal      Fate = "equal"     // every metric has the same value
	Changed    Fate = "changed"   // some metric has another value
	Added      Fate = "added"     // only the new table has it
	Vanished   Fate = "vanished"  // only the old table has it
	FailsNow   Fate = "fails now" // it had results
	WorksNow   Fate = "works now" // it had no results
	StillFails Fate = "still fails"
	OtherSeeds Fate = "other seeds" // both tables have it, and no seed of it is in both
)

// PointChange is one point in both tables; its repeats over seeds are taken together.
type PointChange struct {
	Name         string `json:"name"`               // in the new table, where it is there
	OldName      string `json:"old_name,omitempty"` // where another name has the same configuration
	Fate         Fate   `json:"fate"`
	Reconfigured bool   `json:"reconfigured"`    // the effective configuration differs
	Lost         int    `json:"lost_seeds"`      // seeds that only the old table has
	Error        string `json:"error,omitempty"` // why it fails now
	// Old and New are the values by metric of the seeds that both tables have, in
	// the order of the new table; nil where both have no seed in common.
	Old map[string][]float64 `json:"-"`
	New map[string][]float64 `json:"-"`
}

// side is one table's points: their rows by name.
type side struct {
	table                        *Table
	point, seed, status, failure int
	config                       int
	names                        []string
	rows                         map[string][]int // by name
}

func newSide(t *Table) (*side, error) {
	s := &side{table: t, rows: map[string][]int{}}
	for _, c := range []struct {
		name string
		to   *int
	}{{PointColumn, &s.point}, {SeedColumn, &s.seed}, {StatusColumn, &s.status}, {ErrorColumn, &s.failure}, {ConfigColumn, &s.config}} {
		if *c.to = slices.Index(t.Columns, c.name); *c.to < 0 {
			return nil, &input.Error{File: t.Name, Line: 1, Expected: "the results of a sweep, with a column " + c.name}
		}
	}
	for _, rows := range t.Group(t.All(), s.point, s.seed) {
		if len(rows) > 1 {
			return nil, &input.Error{File: t.Name, Line: rows[1] + 2, Key: s.text(rows[1], s.point), Value: "seed " + s.text(rows[1], s.seed), Expected: "each point and seed once"}
		}
	}
	for _, rows := range t.Group(t.All(), s.point) {
		name := s.text(rows[0], s.point)
		s.names, s.rows[name] = append(s.names, name), rows
	}
	return s, nil
}

func (s *side) text(row, column int) string { return s.table.Rows[row][column].String() }

// metrics returns the columns after the configuration's hash.
func (s *side) metrics() []string { return s.table.Columns[s.config+1:] }

// Compare matches the points of two sweeps by name; those whose name only one
// of them has, by configuration. Tables that no sweep wrote are an
// *input.Error.
func Compare(old, updated *Table) (*Comparison, error) {
	a, err := newSide(old)
	if err != nil {
		return nil, err
	}
	b, err := newSide(updated)
	if err != nil {
		return nil, err
	}
	c := &Comparison{}
	c.Metrics, c.GainedMetrics = parted(b.metrics(), a.metrics())
	_, c.LostMetrics = parted(a.metrics(), b.metrics())
	renamed := a.renamed(b)
	matched := map[string]bool{}
	for _, name := range b.names {
		oldName := name
		if a.rows[name] == nil {
			oldName = renamed[name]
		}
		if a.rows[oldName] == nil {
			c.Points = append(c.Points, PointChange{Name: name, Fate: Added})
			continue
		}
		matched[oldName] = true
		p := c.point(a, b, oldName, name)
		if oldName != name {
			p.OldName = oldName
		}
		c.Points = append(c.Points, p)
	}
	for _, name := range a.names {
		if !matched[name] {
			c.Points = append(c.Points, PointChange{Name: name, Fate: Vanished, Lost: len(a.rows[name])})
		}
	}
	return c, nil
}

// parted returns those of names that others has, and those that it has not.
func parted(names, others []string) (have, lack []string) {
	for _, n := range names {
		if slices.Contains(others, n) {
			have = append(have, n)
		} else {
			lack = append(lack, n)
		}
	}
	return have, lack
}

// renamed returns for names that only b has the name that only a has of the same configuration.
func (s *side) renamed(b *side) map[string]string {
	byConfig := map[string]string{}
	for _, name := range s.names {
		if config := s.text(s.rows[name][0], s.config); b.rows[name] == nil && config != "" {
			byConfig[config] = name
		}
	}
	names := map[string]string{}
	for _, name := range b.names {
		config := b.text(b.rows[name][0], b.config)
		if old, ok := byConfig[config]; ok && s.rows[name] == nil {
			names[name] = old
			delete(byConfig, config)
		}
	}
	return names
}

func (s *side) fails(name string) bool {
	return slices.ContainsFunc(s.rows[name], func(r int) bool { return s.text(r, s.status) == StatusFailed })
}

func (c *Comparison) point(a, b *side, oldName, name string) PointChange {
	p := PointChange{Name: name, Fate: OtherSeeds, Old: map[string][]float64{}, New: map[string][]float64{}}
	p.Lost = len(a.rows[oldName])
	oldFails, newFails := a.fails(oldName), b.fails(name)
	for _, rb := range b.rows[name] {
		row := b.table.Rows[rb]
		ra := slices.IndexFunc(a.rows[oldName], func(r int) bool { return a.table.Rows[r][a.seed] == row[b.seed] })
		if ra >= 0 {
			p.Lost--
		}
		if b.text(rb, b.status) == StatusFailed {
			p.Error = b.text(rb, b.failure)
			continue
		}
		if ra < 0 {
			continue
		}
		ra = a.rows[oldName][ra]
		if p.Fate == OtherSeeds {
			p.Fate = Equal
		}
		p.Reconfigured = p.Reconfigured || a.table.Rows[ra][a.config] != row[b.config]
		for _, m := range c.Metrics {
			x, hasOld := a.table.Number(ra, slices.Index(a.table.Columns, m))
			y, hasNew := b.table.Number(rb, slices.Index(b.table.Columns, m))
			if !hasOld || !hasNew {
				continue
			}
			p.Old[m], p.New[m] = append(p.Old[m], x), append(p.New[m], y)
			if x != y {
				p.Fate = Changed
			}
		}
	}
	switch {
	case newFails && oldFails:
		p.Fate = StillFails
	case newFails:
		p.Fate = FailsNow
	case oldFails:
		p.Fate = WorksNow
	}
	return p
}

// Delta returns the relative change of a metric's mean, and the sample standard deviation of the
// seeds' own changes; false where the point has no value in both tables. From 0 to 0 is no change,
// from 0 to anything else an infinite one.
func (p *PointChange) Delta(metric string) (relative, spread float64, ok bool) {
	old, updated := p.Old[metric], p.New[metric]
	if len(old) == 0 {
		return 0, 0, false
	}
	each := make([]float64, len(old))
	for i := range old {
		each[i] = relativeChange(old[i], updated[i])
	}
	_, spread = MeanStd(each)
	a, _ := MeanStd(old)
	b, _ := MeanStd(updated)
	return relativeChange(a, b), spread, true
}

func relativeChange(a, b float64) float64 {
	if a == b {
		return 0
	}
	return (b - a) / math.Abs(a)
}

// MeanStd returns the mean and the sample standard deviation, 0 for one sample
// and where it is not finite.
func MeanStd(samples []float64) (mean, std float64) {
	sum, squares := 0.0, 0.0
	for _, v := range samples {
		sum += v
	}
	mean = sum / float64(len(samples))
	for _, v := range samples {
		squares += float64((v - mean) * (v - mean))
	}
	if len(samples) > 1 {
		std = math.Sqrt(squares / float64(len(samples)-1))
	}
	if !isFinite(std) {
		std = 0
	}
	return mean, std
}

// Lost returns the points and seeds that only the old table has.
func (c *Comparison) Lost() int {
	n := 0
	for i := range c.Points {
		n += c.Points[i].Lost
	}
	return n
}

func (c *Comparison) count(f Fate) int {
	n := 0
	for i := range c.Points {
		if c.Points[i].Fate == f {
			n++
		}
	}
	return n
}

func (c *Comparison) changedMetrics() []string {
	var changed []string
	for _, m := range c.Metrics {
		if slices.ContainsFunc(c.Points, func(p PointChange) bool { return !slices.Equal(p.Old[m], p.New[m]) }) {
			changed = append(changed, m)
		}
	}
	return changed
}
