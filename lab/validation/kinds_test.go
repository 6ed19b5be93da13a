package validation

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/report"
)

// kindsFile has the recorded errors that l3sim's report shows.
const kindsFile = "../../internal/report/errors.json"

// byKind summarises the recorded errors by kind: "kernels of h100-sxm: gemm, server, alone" belongs
// to "kernels, gemm".
func byKind(anchors map[string]errors) []report.ErrorOfParts {
	kinds := map[string]*report.ErrorOfParts{}
	for _, name := range slices.Sorted(maps.Keys(anchors)) {
		group, what, _ := strings.Cut(name, ": ")
		group, _, _ = strings.Cut(group, " o") // "kernels of", "iterations on", "energy of"
		what, _, _ = strings.Cut(what, ",")
		if group == "services" || group == "energy" {
			what = map[string]string{"services": "whole servers", "energy": "sustained kernels"}[group]
		}
		kind := group + ", " + what
		if kinds[kind] == nil {
			kinds[kind] = &report.ErrorOfParts{Kind: kind}
		}
		k, a := kinds[kind], anchors[name]
		k.Mean += float64(a.Mean * float64(a.Rows))
		if k.Rows += a.Rows; a.Mean >= k.Worst {
			k.Worst, k.Anchor = a.Mean, name
		}
	}
	var all []report.ErrorOfParts
	for _, k := range kinds {
		k.Mean /= float64(k.Rows)
		all = append(all, *k)
	}
	slices.SortFunc(all, func(a, b report.ErrorOfParts) int { return cmp.Compare(a.Kind, b.Kind) })
	return all
}

// TestKinds: the report of l3sim shows the recorded errors.
func TestKinds(t *testing.T) {
	var anchors map[string]errors
	readJSON(t, recorded, &anchors)
	want := byKind(anchors)
	if *update {
		text, err := json.MarshalIndent(want, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(kindsFile, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var shown []report.ErrorOfParts
	readJSON(t, kindsFile, &shown)
	if !reflect.DeepEqual(shown, want) {
		t.Errorf("%s is not of %s: go test ./validation -run Kinds -update", kindsFile, recorded)
	}
}

// TestByKind: two anchors of a kind by hand.
func TestByKind(t *testing.T) {
	got := byKind(map[string]errors{"kernels of a: gemm, alone": {Rows: 1, Mean: 0.3}, "kernels of b: gemm, server": {Rows: 3, Mean: 0.1}, "services of c: x": {Rows: 2, Mean: 0.2}})
	want := []report.ErrorOfParts{
		{Kind: "kernels, gemm", Rows: 4, Mean: 0.15, Worst: 0.3, Anchor: "kernels of a: gemm, alone"},
		{Kind: "services, whole servers", Rows: 2, Mean: 0.2, Worst: 0.2, Anchor: "services of c: x"},
	}
	for i := range want {
		if d := got[i].Mean - want[i].Mean; d > 1e-12 || d < -1e-12 {
			t.Errorf("%+v", got[i])
		}
		got[i].Mean = want[i].Mean
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// readJSON reads a file of JSON.
func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}
