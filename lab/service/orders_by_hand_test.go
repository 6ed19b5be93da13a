package service

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestDealsByEachKey: of five rows that differ in one key only, the middle one is fitted, at any position; earlier keys of the order count more.
func TestDealsByEachKey(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	for name, set := range map[string]func(r *Row, n int){
		"users":   func(r *Row, n int) { r.Batch, r.TTFT, r.Model, r.GPUs = n, 1, names[5-n], 6-n },
		"model":   func(r *Row, n int) { r.Model, r.GPUs, r.Input = names[n-1], 6-n, 6-n },
		"GPUs":    func(r *Row, n int) { r.GPUs, r.Input, r.Output = n, 6-n, 6-n },
		"input":   func(r *Row, n int) { r.Input, r.Output, r.Batch = n, 6-n, 6-n },
		"output":  func(r *Row, n int) { r.Output, r.Batch, r.Latency = n, 6-n, float64(6-n) },
		"batch":   func(r *Row, n int) { r.Batch, r.Latency = n, float64(6-n) },
		"latency": func(r *Row, n int) { r.Latency = float64(n) },
	} {
		var runs []run
		for _, n := range []int{4, 3, 1, 5, 2} {
			r := &Row{}
			set(r, n)
			runs = append(runs, run{row: r})
		}
		if got := deal(runs, []int{0, 1, 2, 3, 4}); !slices.Equal(got, []int{1}) {
			t.Errorf("by %s: row %v is fitted, want 1", name, got)
		}
	}
}

// TestSpillsInAnyOrder: a row waits for memory if it takes longer than smaller rows that fit imply, in any order of
// rows.
func TestSpillsInAnyOrder(t *testing.T) {
	row := func(batch int, latency float64) *Row {
		return &Row{Input: 100, Output: 100, Batch: batch, Latency: latency}
	}
	all := map[string]run{ // 16 requests take 0.5 s more than 8, and 16 more at most 1 s
		"8": {row: row(8, 1.5), share: 0.2, usable: 0.9}, "16": {row: row(16, 2), share: 0.3, usable: 0.9},
		"32": {row: row(32, 3.4), share: 0.85, usable: 0.9}, "64": {row: row(64, 3), share: 0.95, usable: 0.9},
	}
	want := map[string]string{"8": fits, "16": fits, "32": seen, "64": tooMuch}
	for _, order := range [][]string{{"8", "16", "32", "64"}, {"32", "8", "16", "64"}, {"64", "32", "16", "8"}, {"32", "64", "16", "8"}} {
		var runs []run
		for _, name := range order {
			runs = append(runs, all[name])
		}
		for i, got := range spills(runs) {
			if got != want[order[i]] {
				t.Errorf("of %v row %s shows %q, want %q", order, order[i], got, want[order[i]])
			}
		}
	}
}

// TestNothingSkipped: in JSON an empty report has empty lists, not missing ones.
func TestNothingSkipped(t *testing.T) {
	text, err := json.Marshal(report(&Measured{}, nil))
	if err != nil || !strings.Contains(string(text), "[]") || strings.Contains(strings.ReplaceAll(string(text), `"rows":null`, ""), "null") {
		t.Errorf("%s, %v", text, err)
	}
}
