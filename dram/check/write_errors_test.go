package check

import (
	"errors"
	"strings"
	"testing"
)

// TestReportsThatCannotBeWritten: wherever a report stops, the error of the writer is returned.
func TestReportsThatCannotBeWritten(t *testing.T) {
	r := NewReport("log", 7, []Violation{{Rule: "tRCD"}, {Rule: "tRP"}}, []string{"tRP"})
	if r.Schema != "l3sim/dram_check/1" || r.Log != "log" || r.Commands != 7 || r.Failing != 1 || r.Allowed != 1 {
		t.Errorf("%+v", r)
	}
	var all strings.Builder
	if err := r.WriteText(&all); err != nil {
		t.Fatal(err)
	}
	for n := range all.Len() {
		if !errors.Is(r.WriteText(&full{n}), errFull) {
			t.Errorf("no error after %d of %d bytes", n, all.Len())
		}
	}
}
