package tables

import "strings"

// columnUnits are the units that columns may end with, and how a figure's axis
// writes them. Longer ones come first.
var columnUnits = []struct{ suffix, unit string }{
	{"_per_million_output_tokens", ""}, // not a count of tokens
	{"_tokens_per_s", "tokens/s"},
	{"_tokens_per_site_joule", "tokens/J"},
	{"_w", "W"},
	{"_TFLOP_per_s", "TFLOP/s"},
	{"_GB_per_s", "GB/s"},
	{"_MFLOP", "MFLOP"},
	{"_per_s", "1/s"},
	{"_bytes", "bytes"},
	{"_tokens", "tokens"},
	{"_ns", "ns"},
	{"_us", "us"},
	{"_ms", "ms"},
	{"_s", "s"},
	{"_j", "J"},
}

// SplitUnit splits a column's name into the quantity and the unit that ends it,
// "" where it has no unit.
func SplitUnit(column string) (quantity, unit string) {
	for _, u := range columnUnits {
		if rest, ok := strings.CutSuffix(column, u.suffix); ok && rest != "" {
			if u.unit == "" {
				break
			}
			return rest, u.unit
		}
	}
	return column, ""
}

// spelled are the words of column names that are not written in lower case or
// not the way they are spelt.
var spelled = map[string]string{
	"tbt": "TBT", "ttft": "TTFT", "tpot": "TPOT", "e2e": "end-to-end", "kv": "KV", "gpu": "GPU", "gpus": "GPUs", "pim": "PIM",
	"pcie": "PCIe", "dram": "DRAM", "std": "std.",
}

// labels are those of columns whose names do not say it.
var labels = map[string]string{
	"output_tokens_per_s":              "throughput (output tokens/s)",
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
	"input_mean":                       "mean input length (tokens)",
	"output_mean":                      "mean output length (tokens)",
}

// Label writes a column's name for an axis: the quantity in words, then the unit in parentheses.
func Label(column string) string {
	if label := labels[column]; label != "" {
		return label
	}
	quantity, unit := SplitUnit(column)
	if i := strings.LastIndexByte(quantity, '.'); i >= 0 {
		section, key := quantity[:i], quantity[i+1:]
		quantity = key
		switch {
		case key == "name": // policy.name is the policy
			quantity = section
		case section == "pcie" || section == "gpu" || section == "pim":
			quantity = section + "_" + key
		}
	}
	if rest, ok := strings.CutPrefix(quantity, "utilization_"); ok {
		quantity = rest + "_utilization"
	}
	quantity = strings.Replace(quantity, "_energy_", "_energy,_", 1) // site energy, DRAM read
	words := strings.Split(quantity, "_")
	for i, w := range words {
		if s := spelled[w]; s != "" {
			words[i] = s
		}
	}
	label := strings.Join(words, " ")
	if unit != "" && unit != "bytes" { // bytes are written with a prefix at each tick
		label += " (" + unit + ")"
	}
	return label
}
