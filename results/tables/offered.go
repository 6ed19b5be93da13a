package tables

import (
	"fmt"
	"slices"
	"strings"
)

// The largest number of columns that a message lists: all columns, if there are no more; else
// similar ones.
const (
	mostListed = 40
	mostAlike  = 12
)

// offered lists columns for a message on an unknown name: all if they are few, else the keys and the columns
// that share a word with the name, and how to see all.
func (t *Table) offered(name string) []string {
	if len(t.Columns) <= mostListed {
		return []string{"columns: " + strings.Join(t.Columns, ", ")}
	}
	words := strings.FieldsFunc(strings.ToLower(name), func(c rune) bool { return strings.ContainsRune("_.- ", c) })
	var keys, alike []string
	for i, config := range t.IsConfig() {
		c := t.Columns[i]
		if config {
			keys = append(keys, c)
		} else if slices.ContainsFunc(words, func(w string) bool { return len(w) > 1 && strings.Contains(c, w) }) {
			alike = append(alike, c)
		}
	}
	var lines []string
	if len(keys) > 0 {
		lines = append(lines, "keys: "+strings.Join(keys, ", "))
	}
	if len(alike) > 0 {
		lines = append(lines, "alike: "+strings.Join(alike[:min(len(alike), mostAlike)], ", "))
	}
	return append(lines, fmt.Sprintf("all %d columns: l3sim table %s --list-columns", len(t.Columns), t.Name))
}
