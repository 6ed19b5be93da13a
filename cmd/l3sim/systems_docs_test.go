package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/system"
)

var update = flag.Bool("update", false, "write the table of systems, and what commands on pages print")

// TestSystemsTable: the table of docs/lab/systems.md is what the list of systems says.
func TestSystemsTable(t *testing.T) {
	const path, head = "../../docs/lab/systems.md", "| system | hardware | schedule | source | sections |\n"
	var b strings.Builder
	b.WriteString(head + "| --- | --- | --- | --- | --- |\n")
	for _, s := range system.Systems() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | `%s` |\n", s.Name, s.Hardware, s.Schedule, s.Source, strings.ReplaceAll(s.Sections, ", ", "`, `"))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), head)
	_, after, end := strings.Cut(rest, "\n\n")
	if !ok || !end {
		t.Fatalf("%s has no table %q", path, head)
	}
	want := before + b.String() + "\n" + after
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("the table of %s is not the list's; 'go test ./cmd/l3sim -run SystemsTable -update' writes it", path)
	}
	if err := os.WriteFile(path, []byte(want), 0o666); err != nil {
		t.Fatal(err)
	}
}
