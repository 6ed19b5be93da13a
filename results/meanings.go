package results

import (
	_ "embed"
	"strings"
)

// meanings has a line "column, tab, what the comments of its fields say" for each metric.
//
//go:embed meanings.tsv
var meanings string

// MetricMeaning returns what a column of MetricNames means, "" for any other column.
func MetricMeaning(column string) string {
	_, line, _ := strings.Cut("\n"+meanings, "\n"+column+"\t")
	meaning, _, _ := strings.Cut(line, "\n")
	return meaning
}
