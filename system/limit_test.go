package system

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/traces"
)

// TestBusyLongerThanATimeHolds: the ranksets of a run of many days together work longer than 64
// bits of picoseconds can count.
func TestBusyLongerThanATimeHolds(t *testing.T) {
	deep.Only(t)
	for system, between := range map[string]string{"l3": "300", "rank-pim": "20"} { // clocks between reads
		cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=" + system, "dram.tCK=900ns", "dram.tCCD_S=" + between, "dram.tCCD_L=" + between, "node.ranksets=16"}})
		if err != nil {
			t.Fatal(err)
		}
		node := mustNode(t, cfg)
		r, err := node.Run(context.Background(), &traces.Trace{Requests: equalLengths(64, 100, 2000)}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		days := r.busy.PIM * 16 * r.end.Seconds() / 86400
		t.Logf("%s: %.1f days, PIM %.3f busy: %.0f rankset-days", system, r.end.Seconds()/86400, r.busy.PIM, days)
		if days < 107 || r.busy.PIM > 1 || r.imbalance < 1 || r.imbalance > 16 {
			t.Errorf("%s: PIM %v busy, imbalance %v", system, r.busy.PIM, r.imbalance)
		}
	}
}

// TestSlowHardwareIsNamed: if hardware makes a run exceed the range of times, the error names the
// user's key.
func TestSlowHardwareIsNamed(t *testing.T) {
	for _, c := range []struct {
		set, system, key string
	}{
		{"gpu.memory_bandwidth=1B/s", "l3", "gpu.memory_bandwidth"},
		{"gpu.memory_bandwidth=1B/s", "gpu-only", "gpu.memory_bandwidth"},
		{"gpu.peak_16bit=1FLOP/s", "hbm-pim", "gpu.peak_16bit"},
		{"pcie.efficiency=1e-20", "l3", "pcie.efficiency"},
		{"pcie.efficiency=1e-20", "cpu-offload", ""}, // the GPUs need none
		{"hbm_pim.bandwidth_factor=1e-9", "hbm-pim", "hbm_pim.bandwidth_factor"},
		{"gpu.all_reduce.flagged_bandwidth=1B/s,gpu.all_reduce.bandwidth=1B/s", "l3", "gpu.all_reduce.flagged_bandwidth"}, // NCCL's faster protocol
	} {
		cfg, err := everything().Load(configs.Options{Sets: append(strings.Split(c.set, ","), "run.system="+c.system)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = mustNode(t, cfg).Run(context.Background(), &traces.Trace{Requests: equalLengths(3, 3000, 5)}, Options{Check: true})
		var bad *input.Error
		switch {
		case c.key == "" && err != nil, c.key != "" && (!errors.As(err, &bad) || bad.Key != c.key || !strings.Contains(err.Error(), "106 days")):
			t.Errorf("%s, %s: %v", c.system, c.set, err)
		}
	}
}
