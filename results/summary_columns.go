package results

import (
	"reflect"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/input/schema"
)

// metric is one number of a Summary as a column of a table.
type metric struct {
	name string
	key  schema.Key
}

// notMetrics are the fields of a Summary that are no result of the simulation:
// what was simulated, and how long that took on the machine at hand; or have a column already.
var notMetrics = map[string]bool{"seed": true, "wall_s": true,
	"site_energy.components.gpu_j": true} // gpu_energy_total_j is the same number

// summaryMetrics returns the numbers of a Summary in the order of its fields.
var summaryMetrics = sync.OnceValue(func() []metric {
	var all []metric
	for _, k := range schema.Walk(reflect.TypeFor[Summary](), "json") {
		switch k.Type.Kind() {
		case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64, reflect.Bool:
			if !notMetrics[k.Name] && !strings.HasPrefix(k.Name, "slo_ms.") {
				all = append(all, metric{metricName(strings.Split(k.Name, ".")), k})
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
		path = path[1:] // what is of the whole node anyway
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

// MetricNames returns the columns that a run's summary fills, in the order of
// its keys and named by them, the unit last: output_tokens_per_s, tbt_p99_ms,
// kv_peak_bytes. What depends on the machine that ran it (wall_s) is no metric.
func MetricNames() []string {
	return list.Map(summaryMetrics(), func(m metric) string { return m.name })
}

// MetricTypes returns the types of the columns of MetricNames.
func MetricTypes() []reflect.Type {
	return list.Map(summaryMetrics(), func(m metric) reflect.Type { return m.key.Type })
}

// MetricValues returns the values of MetricNames: int64, uint64, float64 or bool.
func (s *Summary) MetricValues() []any {
	return list.Map(summaryMetrics(), func(m metric) any {
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

// Better says which direction of a metric is an improvement.
type Better int

// The directions of a metric.
const (
	Neither Better = iota
	Higher
	Lower
)

// MetricBetter returns the direction in which a column improves, by its name: rates and utilisation
// upwards; times, energy, and what went wrong, downwards; batch sizes and shapes in neither.
func MetricBetter(column string) Better {
	switch {
	case column == "arrivals_rate_per_s":
		return Neither
	case strings.HasSuffix(column, "_per_s"), strings.HasSuffix(column, "_per_site_joule"), column == "output_tokens_per_s_per_mw", strings.HasPrefix(column, "utilization_"), column == "goodput_attainment":
		return Higher
	case strings.HasSuffix(column, "_ms"), strings.HasSuffix(column, "_s"), strings.HasSuffix(column, "_j"), strings.HasSuffix(column, "_w") && column != "dimm_limit_w", strings.Contains(column, "usd"), column == "kg_co2_per_million_output_tokens",
		column == "rejected_requests", column == "refused_requests", column == "expired_requests", column == "preemptions", column == "stall_count", column == "rankset_imbalance":
		return Lower
	}
	return Neither
}
