package system

import (
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/system/gpus"
)

// TestExactKeepsNothing: GPUs of an exact run, those of the spare memory included, compute each cost anew; others cache costs.
func TestExactKeepsNothing(t *testing.T) {
	for _, sets := range [][]string{{"run.system=gpu-only"}, {"run.system=l3", "memory.spare=decode"}, {"run.system=hbm-pim"}} {
		cfg, err := Load(configs.Options{Sets: sets})
		if err != nil {
			t.Fatal(err)
		}
		for _, exact := range []bool{false, true} {
			side := mustNode(t, cfg).replica(0, nil, Options{Exact: exact}).assembly.Engine.Side()
			for name, d := range map[string]*gpus.GPUs{"all": side, "spare": side.Spare} {
				if d == nil {
					continue
				}
				first, second := d.Dense.At(3), d.Dense.At(3)
				if kept := first == second; kept == exact {
					t.Errorf("%v, %s memory: with exact = %v costs are kept: %v", sets, name, exact, kept)
				}
			}
		}
	}
}
