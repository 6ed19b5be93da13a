package system

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/lab/deep"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestBusyLongerThanATimeHolds: the ranksets of a run of many days work for longer,
// together, than 64 bits of picoseconds count.
func TestBusyLongerThanATimeHolds(t *testing.T) {
	deep.Only(t)
	for system, between := range map[string]string{"l3": "300", "rank-pim": "20"} { // clocks between reads
		cfg, err := Load(configs.Options{Sets: []string{"run.system=" + system, "dram.tCK=900ns", "dram.tCCD_S=" + between, "dram.tCCD_L=" + between, "node.ranksets=16"}})
		if err != nil {
			t.Fatal(err)
		}
		node := mustNode(t, cfg)
		r, err := node.Run(context.Background(), &traces.Trace{Requests: equal(64, 100, 2000)}, Options{})
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

// TestSlowHardwareIsNamed: hardware with which a run takes longer than a time holds
// is the user's to mend.
func TestSlowHardwareIsNamed(t *testing.T) {
	for _, c := range []struct {
		set, system, key string
	}{
		{"gpu.memory_bandwidth=1B/s", "l3", "gpu.memory_bandwidth"},
		{"gpu.memory_bandwidth=1B/s", "gpu-only", "gpu.memory_bandwidth"},
		{"gpu.peak_16bit=1FLOP/s", "hbm-pim", "gpu.peak_16bit"},
		{"pcie.efficiency=1e-20", "l3", "pcie.efficiency"},
		{"pcie.efficiency=1e-20", "cpu-offload", ""}, // the GPUs do without
		{"hbm_pim.bandwidth_factor=1e-9", "hbm-pim", "hbm_pim.bandwidth_factor"},
		{"gpu.all_reduce.flagged_bandwidth=1B/s,gpu.all_reduce.bandwidth=1B/s", "l3", "gpu.all_reduce.flagged_bandwidth"}, // NCCL's faster protocol
	} {
		cfg, err := Load(configs.Options{Sets: append(strings.Split(c.set, ","), "run.system="+c.system)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = mustNode(t, cfg).Run(context.Background(), &traces.Trace{Requests: equal(3, 3000, 5)}, Options{Check: true})
		var bad *input.Error
		switch {
		case c.key == "" && err != nil, c.key != "" && (!errors.As(err, &bad) || bad.Key != c.key || !strings.Contains(err.Error(), "106 days")):
			t.Errorf("%s, %s: %v", c.system, c.set, err)
		}
	}
}

// TestLoadThatTakesTooLong: where nothing is changed but the load, the load is named.
func TestLoadThatTakesTooLong(t *testing.T) {
	cfg, err := Load(configs.Options{Sets: []string{"run.requests=3"}})
	if err != nil {
		t.Fatal(err)
	}
	f := flow{cfg: cfg}
	for _, c := range []struct {
		start, largest units.Duration
		tasks          int64
		fits           bool
	}{
		{0, units.Second, 100, true},
		{0, longestTask, 1, false},
		{0, longestTask - 1, 1 << 10, true},
		{0, longestTask - 1, 1 << 12, false},
		{math.MaxInt64 - 200*units.Second, units.Second, 100, true},
		{math.MaxInt64 - 200*units.Second, units.Second, 300, false},
	} {
		if err := f.inTime(c.start, c.largest, c.tasks); (err == nil) != c.fits {
			t.Errorf("%+v: %v", c, err)
		} else if err != nil && !strings.HasPrefix(err.Error(), "run.requests = 3: expected a run that ends within 106 days") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestBusyLaw: no resource is busy for less than none or for more than all of the
// time.
func TestBusyLaw(t *testing.T) {
	total := func(on int, d units.Duration, n int64) (b busy) { b.time[on].AddTimes(d, n); return }
	const end = 100 * units.Second
	var all busy
	for i := range all.time {
		all.time[i].Add(end)
	}
	all.time[ofPIM].AddTimes(end, 3)
	for _, c := range []struct {
		name string
		busy busy
		bad  string
	}{
		{"all of it", all, ""},
		{"none", busy{}, ""},
		{"GPUs", total(ofGPU, end+1000, 1), "GPUs"},
		{"down", total(ofDown, -1000, 1), "PCIe down"},
		{"up", total(ofUp, 2*end, 1), "PCIe up"},
		{"channels", total(ofChannel, end, 2), "channels"},
		{"ranksets", total(ofPIM, end, 5), "PIM"},
		{"wrapped", total(ofPIM, -end, 1), "PIM"},
	} {
		err := c.busy.within(end, 4)
		var v *Violation
		if (err != nil) != (c.bad != "") || err != nil && (!errors.As(err, &v) || v.Law != LawBusy || !strings.HasPrefix(v.Detail, c.bad)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
