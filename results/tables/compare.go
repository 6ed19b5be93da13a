package tables

import (
	"encoding/json"
	"math"
	"slices"

	"github.com/l3sim/l3sim/input"
)

// Comparison is the differences between two results.
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
	OldName      string `json:"old_name,omitempty"` // if another name has the same configuration
	Fate         Fate   `json:"fate"`
	Reconfigured bool   `json:"reconfigured"`    // the effective configuration differs
	Lost         int    `json:"lost_seeds"`      // seeds that only the old table has
	Error        string `json:"error,omitempty"` // why it fails now
	// Metrics are those with a number in both tables, over the seeds in both.
	Metrics map[string]*Change `json:"metrics"`
}

// Change is a metric in both tables: means and sample standard deviations over the seeds.
type Change struct {
	Old            float64 `json:"old"`
	New            float64 `json:"new"`
	Relative       share   `json:"change"` // of the mean, relative to the old one; infinite from 0
	oldStd, newStd float64
	spread         float64 // of the changes of each seed
	seeds          int
	differs        bool // some seed has another value
}

// share is a share; an infinite one is null in JSON.
type share float64

// MarshalJSON writes a finite share.
func (s share) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(s), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(s))
}

// newChange compares the values of seeds, pair by pair.
func newChange(old, updated []float64) *Change {
	each := make([]float64, len(old))
	for i := range old {
		each[i] = relativeChange(old[i], updated[i])
	}
	c := &Change{seeds: len(old), differs: !slices.Equal(old, updated)}
	c.Old, c.oldStd = MeanStd(old)
	c.New, c.newStd = MeanStd(updated)
	_, c.spread = MeanStd(each)
	c.Relative = share(relativeChange(c.Old, c.New))
	return c
}

// relativeChange is infinite from 0 to another value.
func relativeChange(a, b float64) float64 {
	if a == b {
		return 0
	}
	return (b - a) / math.Abs(a)
}

// MeanStd returns the mean and the sample standard deviation; the latter is 0 for one sample or if
// it is not finite.
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

// side is one table's points: their rows by name.
type side struct {
	*Table
	point, seed, status, failure, config int // columns
	names                                []string
	rows                                 map[string][]int // by name
}

func newSide(t *Table) (*side, error) {
	if err := t.given(); err != nil {
		return nil, err
	}
	s := &side{Table: t, rows: map[string][]int{}}
	for _, c := range []struct {
		name string
		to   *int
	}{{PointColumn, &s.point}, {SeedColumn, &s.seed}, {StatusColumn, &s.status}, {ErrorColumn, &s.failure}, {ConfigColumn, &s.config}} {
		if *c.to = slices.Index(t.Columns, c.name); *c.to < 0 {
			return nil, &input.Error{File: t.Name, Line: 1, Expected: "results that l3sim wrote, with a column " + c.name}
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

func (s *side) text(row, column int) string { return s.Rows[row][column].String() }

// metrics returns the columns after ConfigColumn.
func (s *side) metrics() []string { return s.Columns[s.config+1:] }

func (s *side) fails(name string) bool {
	return slices.ContainsFunc(s.rows[name], func(r int) bool { return s.text(r, s.status) == StatusFailed })
}

// Compare matches the points of two results by name. A point whose name is in one result alone is matched with the point
// of the other that has the same configuration. A table that lacks a column of every sweep (point, run.seed, status,
// error, config_sha256) returns an *input.Error.
func Compare(old, updated *Table) (*Comparison, error) {
	a, err := newSide(old)
	if err != nil {
		return nil, err
	}
	b, err := newSide(updated)
	if err != nil {
		return nil, err
	}
	lacks := func(names []string) func(string) bool {
		return func(name string) bool { return !slices.Contains(names, name) }
	}
	c := &Comparison{}
	c.Metrics = slices.DeleteFunc(slices.Clone(b.metrics()), lacks(a.metrics()))
	c.GainedMetrics = slices.DeleteFunc(slices.Clone(b.metrics()), func(m string) bool { return !lacks(a.metrics())(m) })
	c.LostMetrics = slices.DeleteFunc(slices.Clone(a.metrics()), func(m string) bool { return !lacks(b.metrics())(m) })
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

// renamed returns, for names that only b has, the name of the same configuration that only a has.
func (s *side) renamed(b *side) map[string]string {
	byConfig := map[Value]string{}
	for _, name := range s.names {
		if config := s.Rows[s.rows[name][0]][s.config]; b.rows[name] == nil && !config.Empty() {
			byConfig[config] = name
		}
	}
	names := map[string]string{}
	for _, name := range b.names {
		config := b.Rows[b.rows[name][0]][b.config]
		if old, ok := byConfig[config]; ok && s.rows[name] == nil {
			names[name] = old
			delete(byConfig, config)
		}
	}
	return names
}

func (c *Comparison) point(a, b *side, oldName, name string) PointChange {
	p := PointChange{Name: name, Fate: OtherSeeds, Lost: len(a.rows[oldName]), Metrics: map[string]*Change{}}
	var oldRows, newRows []int // rows of the seeds that both tables have and the new one has finished
	for _, rb := range b.rows[name] {
		ra := slices.IndexFunc(a.rows[oldName], func(r int) bool { return a.Rows[r][a.seed] == b.Rows[rb][b.seed] })
		if ra >= 0 {
			p.Lost--
		}
		if b.text(rb, b.status) == StatusFailed {
			p.Error = b.text(rb, b.failure)
		} else if ra >= 0 {
			ra = a.rows[oldName][ra]
			oldRows, newRows, p.Fate = append(oldRows, ra), append(newRows, rb), Equal
			p.Reconfigured = p.Reconfigured || a.Rows[ra][a.config] != b.Rows[rb][b.config]
		}
	}
	for _, m := range c.Metrics {
		var old, updated []float64
		for i := range oldRows {
			x, hasOld := a.Float(oldRows[i], m)
			y, hasNew := b.Float(newRows[i], m)
			if hasOld && hasNew {
				old, updated = append(old, x), append(updated, y)
			}
		}
		if len(old) > 0 {
			p.Metrics[m] = newChange(old, updated)
			if p.Metrics[m].differs {
				p.Fate = Changed
			}
		}
	}
	switch oldFails, newFails := a.fails(oldName), b.fails(name); {
	case newFails && oldFails:
		p.Fate = StillFails
	case newFails:
		p.Fate = FailsNow
	case oldFails:
		p.Fate = WorksNow
	}
	return p
}

// count returns the number of points for which is is true.
func (c *Comparison) count(is func(*PointChange) bool) (n int) {
	for i := range c.Points {
		if is(&c.Points[i]) {
			n++
		}
	}
	return n
}

// Lost returns the points and seeds that only the old table has.
func (c *Comparison) Lost() (n int) {
	for i := range c.Points {
		n += c.Points[i].Lost
	}
	return n
}

func (c *Comparison) changedMetrics() []string {
	return slices.DeleteFunc(slices.Clone(c.Metrics), func(m string) bool {
		return c.count(func(p *PointChange) bool { return p.Metrics[m] != nil && p.Metrics[m].differs }) == 0
	})
}
