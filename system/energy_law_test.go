package system

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/power"
)

// TestEnergyLaw: a run with inconsistent energy fails with the law, checked or not. Values that no configuration allows
// are planted behind its rules.
func TestEnergyLaw(t *testing.T) {
	sees := func(where string, err error, bad string) {
		t.Helper()
		var v *flow.Violation
		if (err != nil) != (bad != "") || err != nil && (!errors.As(err, &v) || v.Law != flow.LawEnergy || !strings.Contains(v.Detail, bad)) {
			t.Errorf("%s: %v, want %q", where, err, bad)
		}
	}
	for cpus, bad := range map[int]string{2: "", -40: "part 16 of"} {
		cfg, err := everything().Load(configs.Options{Sets: []string{"model.layers=2"}})
		if err != nil {
			t.Fatal(err)
		}
		n := mustNode(t, cfg)
		n.cfg.Energy.HostCPUs = cpus
		for _, check := range []bool{false, true} {
			_, err = n.Run(context.Background(), coming(t, cfg, equalLengths(3, 100, 4)), Options{Check: check})
			sees("a run", err, bad)
		}
	}
}

// TestEnergyOfAnyBuffer: if the score buffer holds less than a head, keys are read twice and no energy is negative, in a table of large
// groups and in a run with the smallest buffer. More tokens take more energy.
func TestEnergyOfAnyBuffer(t *testing.T) {
	deep.Only(t) // a table of heads for each buffer
	for _, c := range []struct {
		group int
		sets  []string
	}{
		{128, []string{"pim.precision.preset=paper"}}, {4, []string{"pim.score_buffer=1KiB"}},
		{8, []string{"pim.score_buffer=8KiB", `pim.processing_unit="rank"`}}, {2, []string{"pim.score_buffer=2KiB", "dram.preset=ddr5-4800-16gb-x8", "pim.beyond_buffer=segment"}},
	} {
		cfg, err := everything().Load(configs.Options{Sets: c.sets})
		if err != nil {
			t.Fatal(err)
		}
		group := c.group
		g := &power.AttentionGrid{Contexts: []int{16, 128, 1024, 1100, 2048, 5000}, Batches: []int{1, 8}, Heads: []int{group}, Groups: []int{group}, Ranks: []int{64}, HeadDim: 128}
		rows, err := power.AttentionRows(cfg, g)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rows {
			if r.EnergyLow <= 0 || r.Context > 16 && r.EnergyUJ <= rows[i-1].EnergyUJ {
				t.Errorf("%v: %+v after %+v", c.sets, r, rows[max(0, i-1)])
			}
		}
	}
	_, wide := energyOf(t, equalLengths(20, 100, 20))
	n, narrow := energyOf(t, equalLengths(20, 100, 20), "pim.score_buffer=1KiB")
	a, b := wide.report.Components, narrow.report.Components
	if b.PIMRead < a.PIMRead || b.PIMRead > 1.01*a.PIMRead { // contexts of 100 to 119 tokens fit either buffer
		t.Errorf("units read %v J, with 1 KiB of scores %v J", a.PIMRead, b.PIMRead)
	}
	if bad := energy.Broken(b.Parts(), narrow.report.Total, narrow.report.Low, narrow.report.High); bad != "" {
		t.Errorf("%d: %s", n.Replicas(), bad)
	}
}

// TestEnergyLawOfReports: any contradiction between a report's parts, total and band is found.
func TestEnergyLawOfReports(t *testing.T) {
	_, r := energyOf(t, equalLengths(2, 50, 3), "model.layers=2")
	for i := range results.EnergyParts {
		broken := r.report
		parts := broken.Components.Parts()
		parts[i] = -1e-3 - parts[i]
		broken.Components = results.NewEnergyComponents(parts)
		if power.EnergyLaw(&broken, r.end) == nil {
			t.Errorf("component %d of %v J passes", i, parts[i])
		}
	}
	for _, plant := range []func(*results.EnergyReport){
		func(e *results.EnergyReport) { e.Total *= 1.001 }, func(e *results.EnergyReport) { e.Low, e.High = e.High, e.Low },
		func(e *results.EnergyReport) { e.Low = 1.01 * e.Total }, func(e *results.EnergyReport) { e.High = 0.99 * e.Total },
	} {
		broken := r.report
		if plant(&broken); power.EnergyLaw(&broken, r.end) == nil {
			t.Errorf("%+v passes", broken)
		}
	}
}

// TestEnergyIsTheSameWithIterations: heads are counted by length and looked up at the end, or after each iteration if its energy is needed. Both give
// the same, with requests of one length in parallel and in sequence.
func TestEnergyIsTheSameWithIterations(t *testing.T) {
	for _, sets := range [][]string{{"run.system=l3"}, {"run.system=rank-pim"}, {"run.system=l3", "comm.stripe=ranksets"}} {
		cfg, err := everything().Load(configs.Options{Sets: append(sets, "model.layers=2")})
		if err != nil {
			t.Fatal(err)
		}
		trace := coming(t, cfg, equalLengths(6, 600, 9))
		var reports [2]results.EnergyReport
		for i, o := range []Options{{}, {Iterations: true}} {
			r, err := mustNode(t, cfg).Run(context.Background(), trace, o)
			if err != nil {
				t.Fatal(err)
			}
			reports[i] = r.report
		}
		a, b := reports[0].Components.Parts(), reports[1].Components.Parts()
		for i := range a {
			if !close9(a[i], b[i]) {
				t.Errorf("%v: component %d takes %v J, with iterations %v J", sets, i, a[i], b[i])
			}
		}
	}
}
