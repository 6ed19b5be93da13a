package tables

import (
	"bytes"
	"strings"
	"testing"
)

// TestLongMarkdownRows: only in Markdown, cells of rows beyond the bound are not padded.
func TestLongMarkdownRows(t *testing.T) {
	long := strings.Repeat("x", longestAligned)
	table := &Table{Columns: []string{"name", "n"}}
	table.Add(long, 1)
	table.Add("y", 25)
	var b bytes.Buffer
	if err := table.WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	if want := "| name | n |\n| --- | --: |\n| " + long + " | 1 |\n| y | 25 |\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	table.Rows[0][0] = Of("short")
	b.Reset()
	if err := table.WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	if want := "| name  |   n |\n| ----- | --: |\n| short |   1 |\n| y     |  25 |\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
