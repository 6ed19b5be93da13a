package plan

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/units"
)

// Bind is a resource or a target that limits the rate: with more of it the rate rises.
type Bind struct {
	Name string  `json:"name"`
	Gain float64 `json:"gain"` // by which the rate rises, relative: one of gains, or more
}

// String returns the bind as text.
func (b Bind) String() string {
	sign := ""
	if b.Gain == slices.Max(gains) {
		sign = " or more"
	}
	return fmt.Sprintf("%s +%.0f%%%s", b.Name, 100*b.Gain, sign)
}

// gains are the relative rises of the rate that are tried, in this order. A resource
// or target that, doubled, raises the rate by less than the first does not bind.
var gains = []float64{0.05, 1, 0.25}

// more is a resource or a target, with the settings that double it.
type more struct {
	name string
	sets []string
}

// binds measures what limits a row's highest rate, with all requests. It doubles each resource, and relaxes each target that fails
// above the rate to its double, one at a time. The largest gain comes first. Nothing binds if the requested rate holds.
func (c *Contest) binds(row *Row, point []int) []Bind {
	out := []Bind{}
	if row.Asked != nil && row.Asked.Met {
		return out
	}
	raised := func(gain float64) float64 { return c.above(row.Highest, gain) }
	if row.Highest == 0 { // the least gain is the lowest rate that was tried
		raised = func(gain float64) float64 { return row.Tried[0].offered() / (1 + gains[0]) * (1 + gain) }
	}
	all := doubled(row.Config, row.Limit, !c.search.Tune)
	gained := make([]float64, len(all))
	sideBySide(all, func(i int, m more) {
		e := c.entrant(point, c.n, m.sets...)
		for _, gain := range gains { // a resource that reaches the first gain is tried at the largest, which others fail fast
			if c.holds(e, raised(gain)) {
				gained[i] = max(gain, gained[i])
			}
			if gained[i] == 0 {
				return
			}
		}
	})
	for i, gain := range gained {
		if gain > 0 {
			out = append(out, Bind{all[i].name, gain})
		}
	}
	slices.SortStableFunc(out, func(a, b Bind) int { return cmp.Compare(b.Gain, a.Gain) })
	return out
}

// doubled returns the resources of a configuration's system, and the targets that are missed, with the settings that double each. With
// knobs, they include knobs that are not searched.
func doubled(c *configs.Config, fails []Failure, knobs bool) (all []more) {
	add := func(name string, factor float64, keys ...string) {
		var sets []string
		for _, key := range keys {
			if text, ok := times(c, key, factor); ok {
				sets = append(sets, key+"="+text)
			}
		}
		if len(sets) > 0 {
			all = append(all, more{name, sets})
		}
	}
	p := &kinds.Of(c).Planning
	for _, r := range p.AllResources() {
		add(r.Name, 2, r.Keys...)
	}
	if knobs {
		add("batch limit", 2, maxSeqs)
		add("prefill chunk", 2, p.ChunkKey())
		add("smaller chunk", 0.25, p.ChunkKey())
	}
	for _, key := range system.Keys().Section("slo") {
		if key.Type != reflect.TypeFor[units.Duration]() {
			continue
		}
		section, last := schema.Split(key.Name) // slo.ttft, or slo.p99.ttft
		name := strings.ToUpper(last)
		missed := func(f Failure) bool { return strings.HasPrefix(f.Name, name) || f.Name == queueGrows }
		if len(fails) == 0 || slices.ContainsFunc(fails, missed) {
			add(strings.TrimSuffix("target "+name+" "+strings.TrimPrefix(section, "slo."), " slo"), 2, key.Name)
		}
	}
	return all
}

// times returns a number or a quantity of a configuration times a factor; false if that changes
// nothing.
func times(c *configs.Config, key string, factor float64) (string, bool) {
	k := system.Keys().Key(key)
	if k == nil {
		return "", false
	}
	old := k.Get(c)
	v := reflect.New(old.Type()).Elem()
	switch {
	case old.CanInt():
		v.SetInt(max(int64(float64(old.Int())*factor), 1))
	case old.CanFloat():
		v.SetFloat(old.Float() * factor)
	}
	return schema.Text(v), !old.IsZero() && !v.Equal(old)
}

// binding returns what binds a row as text.
func (r *Row) binding() string {
	if len(r.Binds) == 0 && r.Asked != nil && r.holds() {
		return "nothing at this rate"
	}
	return Text(r.Binds)
}

// Text returns the two binds with the largest gains as text.
func Text(binds []Bind) string {
	if len(binds) == 0 {
		return "nothing alone"
	}
	return strings.Join(list.Map(binds[:min(2, len(binds))], Bind.String), ", ")
}
