package tables

import (
	"reflect"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/results"
)

// Column describes a column.
type Column struct {
	Name    string `json:"name"`
	Unit    string `json:"unit"` // "" for a text, a count or a share
	Better  Better `json:"better"`
	Meaning string `json:"meaning"` // "" if unknown
	Kind    Kind   `json:"kind"`
	Label   string `json:"-"` // the title of an axis: the quantity in words, then the unit in parentheses
}

// Better is the direction in which a column improves.
type Better string

// The directions of a column.
const (
	Neither Better = ""
	Higher  Better = "higher"
	Lower   Better = "lower"
)

// Kind is the type of a column's cells; any cell may be empty.
type Kind string

// The kinds of columns.
const (
	Text     Kind = "text"
	Integer  Kind = "integer"
	Unsigned Kind = "unsigned integer"
	Real     Kind = "real"
	Truth    Kind = "true or false"
)

// KindOf returns the kind of a column that holds values of a Go type.
func KindOf(t reflect.Type) Kind {
	switch v := reflect.Zero(t); {
	case v.CanInt():
		return Integer
	case v.CanUint():
		return Unsigned
	case v.CanFloat():
		return Real
	case t.Kind() == reflect.Bool:
		return Truth
	}
	return Text
}

// Describe describes a column by its name. Its kind is "" if the name does not determine it.
func Describe(name string) Column {
	c := Column{Name: name, Label: labels[name[strings.LastIndexByte(name, '.')+1:]]}
	if u := unitOf(name); u != nil {
		c.Unit, c.Better = u.unit, u.better
	}
	if d, ok := directions[name]; ok {
		c.Better = d
	}
	switch {
	case strings.Contains(name, "."): // a key of the configuration
		c.Better = Neither
	case strings.Contains(name, "usd"):
		c.Better = Lower
	}
	if m, ok := metrics()[name]; ok {
		c.Meaning, c.Kind = m.Meaning, KindOf(m.Type)
	}
	if end := drawEnd(name); end != "" {
		c = Describe(strings.TrimSuffix(name, end))
		c.Name, c.Meaning, c.Label = name, drawEnds[end]+" over draws of: "+c.Meaning, c.Label+", "+drawEnds[end]+" of draws"
	}
	switch name {
	case DrawColumn:
		c.Meaning, c.Kind = "number of the draw, from 1; draws of one number share what their points have in common", Integer
	case DrawsColumn:
		c.Meaning, c.Kind = "draws that are done", Integer
	}
	if meaning, ok := ownColumns[name]; ok {
		c.Meaning, c.Kind = meaning, Text
	}
	if c.Label == "" {
		c.Label = inWords(name)
	}
	return c
}

// The columns of draws: the number of a draw in a table of draws; the number of draws and the percentiles in a table of
// points. LowEnd and HighEnd are endings of a metric's name.
const (
	DrawColumn  = "draw"
	DrawsColumn = "draws"
	LowEnd      = "_p10"
	HighEnd     = "_p90"
)

var drawEnds = map[string]string{LowEnd: "10th percentile", HighEnd: "90th percentile"}

// drawEnd returns the ending that makes a column's name a percentile over draws, "" if there is none.
func drawEnd(name string) string {
	for end := range drawEnds {
		if _, whole := metrics()[name]; !whole && strings.HasSuffix(name, end) {
			if _, is := metrics()[strings.TrimSuffix(name, end)]; is {
				return end
			}
		}
	}
	return ""
}

var metrics = sync.OnceValue(func() map[string]results.Metric {
	all := map[string]results.Metric{}
	for _, m := range results.Metrics() {
		all[m.Name] = m
	}
	return all
})

// columnUnit is a unit that ends columns' names, as people write it, and the direction in which such columns improve.
type columnUnit struct {
	suffix, unit string
	better       Better
}

var columnUnits = []columnUnit{ // longer ones first
	{"_per_million_output_tokens", "", Lower}, // not a count of tokens
	{"_tokens_per_s", "tokens/s", Higher},
	{"_tokens_per_s_per_user", "tokens/s", Higher},
	{"_tokens_per_site_joule", "tokens/J", Higher},
	{"_w", "W", Lower},
	{"_TFLOP_per_s", "TFLOP/s", Higher},
	{"_GB_per_s", "GB/s", Higher},
	{"_MFLOP", "MFLOP", Neither},
	{"_per_s", "1/s", Higher},
	{"_bytes", "bytes", Neither},
	{"_tokens", "tokens", Neither},
	{"_ns", "ns", Lower},
	{"_us", "us", Lower},
	{"_ms", "ms", Lower},
	{"_s", "s", Lower},
	{"_j", "J", Lower},
}

// directions are those of columns whose units do not determine it.
var directions = map[string]Better{
	"arrivals_rate_per_s": Neither, "dimm_limit_w": Neither, "attainment": Higher, "goodput_attainment": Higher, "output_tokens_per_s_per_mw": Higher,
	"utilization_gpu": Higher, "utilization_pim": Higher, // links and channels are busy because work needs them: less is no loss
	"cache_hit_rate": Higher, "kv_fragmentation": Lower,
	"rejected_requests": Lower, "refused_requests": Lower, "expired_requests": Lower, "preemptions": Lower, "stall_count": Lower, "rankset_imbalance": Lower, "gpus": Lower,
}

// ownColumns are the columns of a sweep's results that are neither keys nor metrics, all of them texts.
var ownColumns = map[string]string{
	PointColumn: "name of the point; the repeats of one share it", StatusColumn: StatusDone + " or " + StatusFailed, ErrorColumn: "why the point failed",
	ConfigColumn: "SHA-256 of the effective configuration", SourceColumn: "folder or file that the row is from",
}

// SplitUnit splits a column's name into the quantity and the unit at its end, "" without a unit.
func SplitUnit(column string) (quantity, unit string) {
	if u := unitOf(column); u != nil && u.unit != "" {
		return strings.TrimSuffix(column, u.suffix), u.unit
	}
	return column, ""
}

func unitOf(column string) *columnUnit {
	for i := range columnUnits {
		if suffix := columnUnits[i].suffix; len(column) > len(suffix) && strings.HasSuffix(column, suffix) {
			return &columnUnits[i]
		}
	}
	return nil
}

// spelled are the words of column names that people write differently.
var spelled = map[string]string{
	"tbt": "TBT", "ttft": "TTFT", "tpot": "TPOT", "e2e": "end-to-end", "kv": "KV", "gpu": "GPU", "gpus": "GPUs", "pim": "PIM",
	"pcie": "PCIe", "dram": "DRAM", "std": "std.",
}

// labels are those of columns whose names do not give one.
var labels = map[string]string{
	"output_tokens_per_s":              "throughput (output tokens/s)",
	"output_tokens_per_s_per_user":     "output tokens/s per user",
	"decode_batch_step_mean":           "requests in a decode step, mean",
	"decode_batch_mean":                "requests in decode, mean over time",
	"decode_batch_max":                 "requests in a decode step, maximum",
	"gpu_energy_per_output_token_j":    "energy per output token (J)",
	"usd_per_million_output_tokens":    "cost (USD per million output tokens)",
	"kg_co2_per_million_output_tokens": "carbon (kg CO2 per million output tokens)",
	"output_tokens_per_s_per_mw":       "throughput of a megawatt (output tokens/s)",
	"site_power_mean_w":                "power, mean (W)",
	"rate_per_s":                       "request rate (requests/s)",
	"attention_attended_tokens_mean":   "attended tokens, mean",
	"nll_nats":                         "negative log-likelihood (nats)",
	"input_mean":                       "mean input length (tokens)",
	"output_mean":                      "mean output length (tokens)",
}

// inWords makes a label from a column's name.
func inWords(column string) string {
	quantity, unit := SplitUnit(column)
	if i := strings.LastIndexByte(quantity, '.'); i >= 0 {
		section, key := quantity[:i], quantity[i+1:]
		quantity = key
		switch {
		case key == "name": // policy.name is the policy
			quantity = section
		case section == "pcie" || section == "gpu" || section == "pim" || section == "cache" || strings.HasPrefix(section, "policy."):
			quantity = strings.TrimPrefix(section, "policy.") + "_" + key
		}
	}
	if rest, ok := strings.CutPrefix(quantity, "utilization_"); ok {
		quantity = rest + "_utilization"
	}
	words := strings.Split(strings.Replace(quantity, "_energy_", "_energy,_", 1), "_") // site energy, DRAM read
	for i, w := range words {
		if s := spelled[w]; s != "" {
			words[i] = s
		}
	}
	label := strings.Join(words, " ")
	if unit != "" && unit != "bytes" { // each tick writes bytes with a prefix
		label += " (" + unit + ")"
	}
	return label
}

// statistics end columns' names, abbreviations begin them. Words spells out both.
var (
	statistics = []struct{ end, words string }{
		{" mean", "mean"}, {" max", "maximum"}, {" p50", "median"},
		{" p90", "90th percentile"}, {" p95", "95th percentile"}, {" p99", "99th percentile"},
	}
	abbreviations = strings.NewReplacer("TBT", "time between tokens", "TTFT", "time to first token", "TPOT", "time per output token")
)

// Words writes a column's name out: "time between tokens, 99th percentile", and its unit, "ms".
func Words(column string) (words, unit string) {
	words, unit, _ = strings.Cut(Describe(column).Label, " (")
	for _, s := range statistics {
		if rest, ok := strings.CutSuffix(words, s.end); ok {
			words = strings.TrimSuffix(rest, ",") + ", " + s.words
		}
	}
	return abbreviations.Replace(words), strings.TrimSuffix(unit, ")")
}
