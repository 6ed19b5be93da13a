package flow

import (
	"errors"
	"math"
	"strings"
	"testing"

	"slices"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/units"
)

// TestLoadThatTakesTooLong: if only the load was changed, the error names the load.
func TestLoadThatTakesTooLong(t *testing.T) {
	cfg, err := configs.New(policies.Builtin(), configs.System{Name: "l3"}).Load(configs.Options{Sets: []string{"run.requests=3"}})
	if err != nil {
		t.Fatal(err)
	}
	f := Flow{cfg: cfg}
	for _, c := range []struct {
		start, largest units.Duration
		tasks          int64
		fits           bool
	}{
		{0, units.Second, 100, true},
		{0, LongestTask, 1, false},
		{0, LongestTask - 1, 1 << 10, true},
		{0, LongestTask - 1, 1 << 12, false},
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

// TestChangesThatTakeTooLong: the error blames the hardware key that was changed first, and names the others. Of another fit it gives
// only the name.
func TestChangesThatTakeTooLong(t *testing.T) {
	sets := []string{"run.requests=3", "pcie.latency=1ms", "batching.max_num_seqs=7", "predictor.trees=5", "traces.prefix_tokens=64", "gpu.fit=h200-sxm"}
	cfg, err := configs.New(policies.Builtin(), configs.System{Name: "l3"}).Load(configs.Options{Sets: sets})
	if err != nil {
		t.Fatal(err)
	}
	f := Flow{cfg: cfg}
	err = f.inTime(0, LongestTask, 1)
	const want = "a kernel or a transfer of one layer takes more than an hour; also changed: "
	_, also, found := strings.Cut(err.Error(), want)
	blamed, _, _ := strings.Cut(err.Error(), " ")
	if value := map[string]string{"batching.max_num_seqs": "7", "pcie.latency": "1ms", "gpu.fit": `"h200-sxm"`}[blamed]; !strings.HasPrefix(err.Error(), blamed+" = "+value+": expected") {
		t.Errorf("%v, with a value of %s", err, value)
	}
	keys := append(strings.Split(also, ", "), blamed)
	slices.Sort(keys)
	if err := f.inTime(86400*25*units.Second/2, LongestTask-1, 1<<20); err == nil || !strings.Contains(err.Error(), "at 12.5 days the next iteration") {
		t.Error(err)
	}
	if !found || !slices.Equal(keys, []string{"batching.max_num_seqs", "gpu.fit", "pcie.latency"}) {
		t.Error(err)
	}
}

// TestBusyLaw: no resource is busy for less than no time or for more than all of it.
func TestBusyLaw(t *testing.T) {
	total := func(on int, d units.Duration, n int64) (b Busy) { b.Time[on].AddTimes(d, n); return }
	const end = 100 * units.Second
	var all Busy
	for i := range all.Time {
		all.Time[i].Add(end)
	}
	all.Time[OfPIM].AddTimes(end, 3)
	for _, c := range []struct {
		name string
		busy Busy
		bad  string
	}{
		{"all of it", all, ""},
		{"none", Busy{}, ""},
		{"GPUs", total(OfGPU, end+1000, 1), "GPUs"},
		{"down", total(OfDown, -1000, 1), "PCIe down"},
		{"up", total(OfUp, 2*end, 1), "PCIe up"},
		{"channels", total(OfChannel, end, 2), "channels"},
		{"ranksets", total(OfPIM, end, 5), "PIM"},
		{"wrapped", total(OfPIM, -end, 1), "PIM"},
	} {
		err := c.busy.Within(end, 4)
		var v *Violation
		if (err != nil) != (c.bad != "") || err != nil && (!errors.As(err, &v) || v.Law != LawBusy || !strings.HasPrefix(v.Detail, c.bad)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	err := new(Busy).Within(-units.Second, 1) // less than no time
	if all := total(OfUp, 150*units.Second, 1); err == nil || !strings.Contains(all.Within(end, 4).Error(), "150.000000 s of work in 100.000000 s") {
		t.Error(err, all.Within(end, 4))
	}
}

// TestHeldIsHandedOn: a ledger gets everything that a policy says about what heads hold; equal heads form one
// class.
func TestHeldIsHandedOn(t *testing.T) {
	held := []policy.Held{
		{Heads: 2, Bytes: 4, AfterPrompt: true}, {Heads: 2, Bytes: 4, OfPrompt: true, Skip: -1, Share: 0.5, Most: 9}, {Heads: 5, Bytes: 4, Device: policy.GPU},
		{Heads: 1, Bytes: 4, AfterPrompt: true}, {Bytes: 8},
	}
	want := []memory.HeadClass{{Heads: 9, TokenBytes: 4, AfterPrompt: true}, {Heads: 6, TokenBytes: 4, OfPrompt: true, Skip: -1, Share: 0.5, Most: 9}}
	if got := AddClasses(nil, held, policy.Home, 3); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestImbalanceOfReplicas: for several replicas, the times of the busiest ranksets of each are compared with the mean
// over all.
func TestImbalanceOfReplicas(t *testing.T) {
	var sum, other Imbalance
	sum.Add(3, 4)
	other.Add(5, 20)
	sum.Join(&other)
	if got := sum.Ratio(4); got != 8./6 {
		t.Errorf("%v, want 8 over a mean of 6", got)
	}
	for _, c := range []struct {
		busiest, all units.Duration
		want         float64
	}{{0, 0, 0}, {0, 4, 0}, {2, 8, 1}, {8, 8, 4}} {
		var m Imbalance
		if m.Add(c.busiest, c.all); m.Ratio(4) != c.want {
			t.Errorf("%+v: %v", c, m.Ratio(4))
		}
	}
}
