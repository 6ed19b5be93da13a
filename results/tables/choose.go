package tables

import (
	"cmp"
	"slices"
	"strings"
)

// Headlines are the metrics that a table for people shows by default; those of stalls only if a run
// has stalls or preemptions.
var (
	Headlines = []string{"output_tokens_per_s", "tbt_mean_ms", "tbt_p99_ms", "tbt_decode_p99_ms", "stall_count", "stall_max_ms", "preemptions",
		"ttft_mean_ms", "decode_batch_mean", "utilization_gpu", "utilization_pim", "gpu_energy_per_output_token_j", "output_tokens_per_site_joule", "usd_per_million_output_tokens"}
	stalling = []string{"tbt_decode_p99_ms", "stall_count", "stall_max_ms", "preemptions"}
)

// Headline returns the Headlines that t has and that vary or matter for its runs.
func (t *Table) Headline() []string {
	t = cmp.Or(t, &Table{})
	stalls := false
	for _, name := range []string{"stall_count", "preemptions"} {
		if i := slices.Index(t.Columns, name); i >= 0 {
			stalls = stalls || slices.ContainsFunc(t.Rows, func(row []Value) bool { return !row[i].Empty() && row[i] != Of(0) })
		}
	}
	return slices.DeleteFunc(slices.Clone(Headlines), func(m string) bool {
		return !slices.Contains(t.Columns, m) || !stalls && slices.Contains(stalling, m)
	})
}

// Choose returns the columns that a flag names. Without names, it returns those that identify a row and the main results, or
// all columns if there are none of these. Points with long names are identified by their keys.
func (t *Table) Choose(flag string, names []string) ([]int, error) {
	if err := t.given(); err != nil {
		return nil, err
	}
	var chosen []int
	for _, name := range names {
		i, err := t.Column(flag, name)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, i)
	}
	if len(names) > 0 {
		return chosen, nil
	}
	isConfig, metrics, long := t.IsConfig(), t.Headline(), false
	for _, name := range t.ShortPoints() {
		long = long || strings.HasPrefix(name.String(), "#")
	}
	for i, c := range t.Columns {
		varies := t.Varies(i)
		if isConfig[i] && varies || c == PointColumn && !long || c == ErrorColumn && varies || slices.Contains(metrics, c) {
			chosen = append(chosen, i)
		}
	}
	if len(chosen) == 0 {
		chosen = indices(len(t.Columns))
	}
	return chosen, nil
}
