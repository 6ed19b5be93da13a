package sweep

import (
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/traces"
)

// TestPlanReportByHand: points to run, done, failed, and certain to fail, each with its own tokens and reasons.
func TestPlanReportByHand(t *testing.T) {
	p := fake(plan(t, small+"[grid]\nnode.gpus = [4, 8]\nmodel.tensor_parallel = [1, 8]\n"))
	if len(p.Points) != 4 || p.Points[1].Err == nil {
		t.Fatalf("points %v, of which the second is not valid", names(p))
	}
	done := map[string]*Entry{p.Points[0].Hash: {Status: tables.StatusDone}, p.Points[2].Hash: {Status: tables.StatusFailed, Error: "too slow"}}
	r, err := p.Report(t.Context(), done, 3)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"done", "will fail", "failed", "to run"}
	for i, x := range r.Points {
		point := &p.Points[i]
		reason := map[int]string{1: p.Points[1].Err.Error(), 2: "too slow"}[i]
		if x.State != want[i] || x.Error != reason || x.Point != point.Name || x.Seed != point.Seed || x.Requests != point.Requests || x.OutputTokens != point.Tokens || point.Err == nil && x.Requests != 2 {
			t.Errorf("point %d: %+v, want %s, %s", i, x, want[i], reason)
		}
	}
	if r.Schema != "l3sim/sweep_plan/1" || len(r.Points) != 4 || r.Size != p.Size() || r.Estimate.Points != r.ToRun || r.Workers != r.Estimate.Workers || r.EstimateS != r.Estimate.Wall.Seconds() || r.ToRun != 1 && r.ToRun != 2 {
		t.Errorf("got %+v", r)
	}
}

// TestCombinationsByHand: each combination has its configuration, the name of its point and of its choices by key; an invalid one has an error instead.
func TestCombinationsByHand(t *testing.T) {
	const text = small + "[[list]]\nname = \"four\"\nnode.gpus = 4\n[[list]]\nname = \"eight\"\nnode.gpus = 8\n[grid]\nmodel.tensor_parallel = [1, 8]\n"
	f := parse(t, text)
	all, err := Combinations(f)
	if err != nil || len(all) != 4 {
		t.Fatalf("%d combinations, %v", len(all), err)
	}
	p := plan(t, text)
	for i, want := range []map[string]string{
		{"node.gpus": "four", "model.tensor_parallel": ""}, {"node.gpus": "four", "model.tensor_parallel": ""}, {"node.gpus": "eight", "model.tensor_parallel": ""}, {"node.gpus": "eight", "model.tensor_parallel": ""},
	} {
		c := all[i]
		if !reflect.DeepEqual(c.Names, want) || c.Point != p.Points[i].Name || (c.Err != nil) != (i == 1) || (c.Config == nil) != (i == 1) {
			t.Errorf("combination %d: %v, point %s, %v", i, c.Names, c.Point, c.Err)
		}
	}
	if all[2].Config.Node.GPUs != 8 || all[2].Config.Model.TensorParallel != 1 || all[0].Config.Node.GPUs != 4 {
		t.Errorf("configurations of %d and %d GPUs", all[0].Config.Node.GPUs, all[2].Config.Node.GPUs)
	}
}

// TestCombinationsLeftOut: a combination that a condition excludes is left out, and later ones keep their
// names.
func TestCombinationsLeftOut(t *testing.T) {
	const text = "where = [\"node.gpus > model.tensor_parallel\"]\n" + small + "[grid]\nnode.gpus = [1, 4, 8]\nmodel.tensor_parallel = [1, 4]\n"
	all, err := Combinations(parse(t, text))
	p := plan(t, text)
	if err != nil || len(all) != 3 || len(p.Points) != 3 {
		t.Fatalf("%d combinations, points %v, %v", len(all), names(p), err)
	}
	for i, want := range [][2]int{{4, 1}, {8, 1}, {8, 4}} {
		if c := all[i]; c.Err != nil || c.Config.Node.GPUs != want[0] || c.Config.Model.TensorParallel != want[1] || c.Point != p.Points[i].Name {
			t.Errorf("combination %d: %+v, want %v as point %s", i, c, want, p.Points[i].Name)
		}
	}
}

// TestMadeByHand: runs that a command made write the same folder as a sweep of the same points: a row each, in order, with their own
// numbers.
func TestMadeByHand(t *testing.T) {
	const text = small + "[grid]\nnode.gpus = [4, 8]\n"
	p := plan(t, text)
	var runs []Run
	for i := range p.Points {
		c := config(t, p, i)
		s := &results.Summary{}
		s.OutputTokensPerS, s.Trace.Requests, s.Trace.OutputTokens, s.Seed = 100*float64(i+1), 2, 30, c.Run.Seed
		runs = append(runs, Run{Name: p.Points[i].Name, Config: c, Trace: &traces.Trace{Requests: []traces.Request{{Input: 5, Output: 15 * (i + 1)}}}, Summary: s})
	}
	if version, err := CodeVersion(); err != nil || version == "" {
		t.Errorf("the code is %q, %v", version, err)
	}
	file := p.FileOf(&p.Points[1])
	if len(file.Axes) != 0 || len(p.File.Axes) != 1 || len(file.Set) != len(p.File.Set)+1 || !strings.Contains(string(file.Set[len(file.Set)-1].Key), "node.gpus") {
		t.Errorf("one point is described by %+v", file.Set)
	}
	folder, err := Made("tool run", parse(t, text), runs, func(w io.Writer) error { _, err := io.WriteString(w, "said"); return err }, "run.seed")
	if err != nil {
		t.Fatal(err)
	}
	table := folder.Table
	if len(table.Rows) != 2 {
		t.Fatalf("rows %v", table.Rows)
	}
	for i, gpus := range []string{"4", "8"} {
		if table.Value(i, "point").String() != p.Points[i].Name || table.Value(i, "node.gpus").String() != gpus || table.Value(i, "output_tokens_per_s").String() != []string{"100", "200"}[i] || table.Value(i, "status").String() != "done" {
			t.Errorf("row %d: %v", i, table.Rows[i])
		}
	}
}
