package results

import (
	"cmp"
	_ "embed"
	"reflect"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/input/schema"
)

// Metric is a number of a Summary as a column of a table.
type Metric struct {
	Name    string // of the column: the keys of the number, unit last, as in kv_peak_bytes
	Type    reflect.Type
	Meaning string // from the comments of its fields
	key     schema.Key
}

// meanings has a line "column, tab, meaning" for each metric.
//
//go:embed meanings.tsv
var meanings string

// notMetrics are the fields of a Summary that are no results (what was simulated, and the wall
// time) or duplicate another column.
var notMetrics = map[string]bool{"seed": true, "wall_s": true,
	"site_energy.components.gpu_j": true} // gpu_energy_total_j is the same number

// Metrics returns the columns that a run's summary fills, in the order of its fields. Numbers that depend on the
// machine (wall_s) are no metrics.
var Metrics = sync.OnceValue(func() []Metric {
	var all []Metric
	for _, k := range schema.Walk(reflect.TypeFor[Summary](), "json") {
		switch k.Type.Kind() {
		case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64, reflect.Bool:
			if !notMetrics[k.Name] && !strings.HasPrefix(k.Name, "slo_ms.") {
				name := metricName(strings.Split(k.Name, "."))
				_, line, _ := strings.Cut("\n"+meanings, "\n"+name+"\t")
				meaning, _, _ := strings.Cut(line, "\n")
				all = append(all, Metric{name, k.Type, meaning, k})
			}
		}
	}
	return all
})

// metricName joins the keys of a number to a column's name with the unit at its
// end: tbt_ms and p99 to tbt_p99_ms, kv_bytes and peak to kv_peak_bytes. A count has no
// unit: stall_ms and count to stall_count.
func metricName(path []string) string {
	if path[0] == "trace" && len(path) > 1 {
		path = path[1:]
	}
	switch {
	case path[0] == "site_energy" && path[1] == "components":
		path = []string{"site_energy", path[2]}
	case path[0] == "site_energy" && !strings.HasSuffix(path[1], "_j") && path[1] != "assumed_share":
		path = path[1:] // drop "site": the sums are of the whole node
	case path[0] == "cost":
		path = path[1:]
	}
	name := path[0]
	for _, key := range path[1:] {
		unit := ""
		for _, u := range []string{"_ms", "_s", "_bytes", "_j"} {
			if strings.HasSuffix(name, u) {
				name, unit = strings.TrimSuffix(name, u), u
				break
			}
		}
		if key == "count" {
			unit = ""
		}
		name += "_" + key + unit
	}
	return name
}

// MetricNames returns the names of Metrics.
func MetricNames() []string { return list.Map(Metrics(), func(m Metric) string { return m.Name }) }

// MetricValues returns the values of Metrics: numbers and truth values.
func (s *Summary) MetricValues() []any {
	s = cmp.Or(s, &Summary{})
	return list.Map(Metrics(), func(m Metric) any {
		switch f := m.key.Get(s); {
		case f.CanInt():
			return f.Int()
		case f.CanUint():
			return f.Uint()
		case f.CanFloat():
			return f.Float()
		default:
			return f.Bool()
		}
	})
}
