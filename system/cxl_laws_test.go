package system_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/system/kinds"
)

// The laws of all systems hold for cxl, too.
func init() { system.CallersSystems = []kinds.System{cxlSystem} }

// extended returns a loader that knows cxl.
func extended(t *testing.T) *configs.Loader {
	ld, err := system.Extend(system.Extension{Systems: []kinds.System{cxlSystem}})
	if err != nil {
		t.Fatal(err)
	}
	return ld
}

// TestAddedSystemSweeps: a sweep and Explain know the section of a system that a caller added. The loader of the built-in
// systems does not.
func TestAddedSystemSweeps(t *testing.T) {
	loader := extended(t)
	f, err := design.ParseFile(loader, "cxl.toml", `where = 'cxl.bandwidth < "1TB/s"'
[set]
run.system = "cxl"
run.requests = 4
model.layers = 2
[grid]
cxl.bandwidth = ["64GB/s", "256GB/s", "2TB/s"]
`)
	if err != nil {
		t.Fatal(err)
	}
	p, err := sweep.NewPlan(f, "test")
	if err != nil {
		t.Fatal(err)
	}
	o, err := p.Run(context.Background(), sweep.RunOptions{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	table, err := p.Table(o)
	if err != nil {
		t.Fatal(err)
	}
	if table.Columns[1] != "cxl.bandwidth_GB_per_s" || len(table.Rows) != 2 || table.Rows[1][1].String() != "256" || slices.Equal(table.Rows[1][1:], table.Rows[0][1:]) {
		t.Errorf("%v\n%v", table.Columns[:6], table.Rows)
	}
	e, err := loader.Explain(configs.Options{Sets: []string{"run.system=cxl"}}, "cxl.latency")
	if err != nil || e.Value != "300ns" || e.Range != "0ps to 1s" || !strings.Contains(e.Source, "CXL switch") {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := loader.Load(configs.Options{Sets: []string{"cxl.latencyy=1ns"}}); err == nil || !strings.Contains(err.Error(), `did you mean "cxl.latency"?`) {
		t.Errorf("got %v", err)
	}
}
