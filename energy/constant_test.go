package energy

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// TestConstants: a constant's text, its canonical form, and invalid texts.
func TestConstants(t *testing.T) {
	for _, c := range []struct {
		text string
		want Estimate
	}{
		{"1.5", Estimate{1.5, 1.5, 1.5, Given}},
		{" 2 [1,3] paper", Estimate{2, 1, 3, Paper}},
		{"2 [2, 2] datasheet", Estimate{2, 2, 2, Datasheet}},
		{"1e-3 [0, 1] assumption", Estimate{0.001, 0, 1, Assumption}},
	} {
		var k Constant
		if err := k.UnmarshalText([]byte(c.text)); err != nil || k.Estimate() != c.want || k.Number() != c.want.Value {
			t.Errorf("%q: %v, %+v, want %+v", c.text, err, k.Estimate(), c.want)
		}
	}
	for _, text := range []string{"", "x", "-1", "1 [0, 2]", "1 [0 2] paper", "1 [0, 2 paper", "1 [2, 3] paper", "3 [1, 2] paper", "1 [0, 2] guess", "NaN", "1 [0, Inf] paper", "1 [a, 2] paper"} {
		k := Constant("7")
		if err := k.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "is not a constant") || k != "7" {
			t.Errorf("%q: %v, %q", text, err, k)
		}
	}
	if text, err := json.Marshal(Constant("2 [1, 3] press")); err != nil || string(text) != `{"grade":"press","high":3,"low":1,"value":2}` {
		t.Errorf("%s, %v", text, err)
	}
}

// TestConstantsReadBack: a written constant reads back as the same.
func TestConstantsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(0, 1e6).Draw(t, "low")
		e := Estimate{Low: low, Value: low + rapid.Float64Range(0, 1e6).Draw(t, "above"), Grade: rapid.SampledFrom(grades).Draw(t, "grade")}
		e.High = e.Value + rapid.Float64Range(0, 1e6).Draw(t, "beyond")
		if e.Grade == Given {
			e.Low, e.High = e.Value, e.Value
		}
		var k Constant
		if err := k.UnmarshalText([]byte(e.String())); err != nil || k.Estimate() != e {
			t.Fatalf("%+v reads back as %+v, %v", e, k.Estimate(), err)
		}
		for place, want := range []float64{e.Low, e.Value, e.High} {
			if e.At(Place(place)) != want {
				t.Fatalf("%+v at %d is %v", e, place, e.At(Place(place)))
			}
		}
	})
}

// TestWorse: the order of grades is total, and nothing is better than a grade.
func TestWorse(t *testing.T) {
	for i, a := range grades {
		if Worse("", a) != a || Worse(a, "") != a {
			t.Errorf("nothing is worse than %s", a)
		}
		for j, b := range grades {
			if want := grades[max(i, j)]; Worse(a, b) != want {
				t.Errorf("of %s and %s %s is worse", a, b, Worse(a, b))
			}
		}
	}
}

// TestCheck: each constant out of its range is a fault of its own key.
func TestCheck(t *testing.T) {
	for _, bad := range []struct {
		key string
		set func(*Spec)
	}{
		{"pue", func(s *Spec) { s.PUE = "0.9" }}, {"pim_read_share", func(s *Spec) { s.PIMRead = "1 [0.5, 1.1] paper" }},
		{"dimm_limit", func(s *Spec) { s.DIMMLimit = "0" }}, {"board", func(s *Spec) { s.Board = "" }},
		{"ranks_per_dimm", func(s *Spec) { s.RanksPerDIMM = 0 }}, {"host_cpus", func(s *Spec) { s.HostCPUs = -1 }}, {"server_slots", func(s *Spec) { s.ServerSlots = 0 }},
		{"unused_memory", func(s *Spec) { s.UnusedMemory = -1 }}, {"ranks_per_dimm", func(s *Spec) { s.RanksPerDIMM = 9 }}, {"host_cpus", func(s *Spec) { s.HostCPUs = 65 }}, {"server_slots", func(s *Spec) { s.ServerSlots = 1025 }},
	} {
		s := valid()
		if faults := input.Faults(&s); len(faults) > 0 {
			t.Fatal(faults[0])
		}
		if bad.set(&s); len(input.Faults(&s)) != 1 || input.Faults(&s)[0].Key != bad.key {
			t.Errorf("%s: %v", bad.key, input.Faults(&s))
		}
	}
}

// valid returns a section without a fault.
func valid() Spec {
	s := Spec{DIMMUnits: DIMMUnits{RanksPerDIMM: 2, DIMMLimit: "1"}, Host: Host{PUE: "1", ServerSlots: 8}}
	for _, c := range []*Constant{&s.GPU, &s.DRAMCurrents, &s.DRAMIO, &s.DRAMVPP, &s.PIMRead, &s.BankUnit, &s.RelayoutUnit, &s.AdderUnit, &s.SoftmaxUnit, &s.DIMMBuffer,
		&s.HBMPIMRead, &s.HBMRow, &s.HBMArray, &s.HBMGroup, &s.HBMDie, &s.HBMPins, &s.HBMMultiply, &s.Link, &s.CPUIdle, &s.CPUBusy, &s.Board} {
		*c = "0.5"
	}
	return s
}

// TestRanges: each range includes both ends, excludes the numbers next to them, and its text names
// them.
func TestRanges(t *testing.T) {
	for _, c := range []struct {
		key      string
		at       func(s *Spec) *Constant
		low, top float64
		text     string
	}{
		{"pue", func(s *Spec) *Constant { return &s.PUE }, 1, 1e6, "1 to 1e+06"}, {"pim_read_share", func(s *Spec) *Constant { return &s.PIMRead }, 0, 1, "0 to 1"},
		{"dimm_limit", func(s *Spec) *Constant { return &s.DIMMLimit }, 0.1, 1e6, "0.1 to 1e+06"}, {"link", func(s *Spec) *Constant { return &s.Link }, 0, 1e6, "0 to 1e+06"},
	} {
		for _, text := range []string{Estimate{c.low, c.low, c.top, Paper}.String(), Estimate{c.top, c.low, c.top, Paper}.String()} {
			s := valid()
			if *c.at(&s) = Constant(text); len(input.Faults(&s)) > 0 {
				t.Errorf("%s = %s: %v", c.key, text, input.Faults(&s))
			}
		}
		for _, e := range []Estimate{{c.low, c.low - 0.01, c.top, Paper}, {c.low, c.low, c.top + 0.01, Paper}} {
			s := valid()
			*c.at(&s) = Constant(e.String())
			if faults := input.Faults(&s); len(faults) != 1 || faults[0].Key != c.key || faults[0].Expected != "a constant whose band lies in "+c.text {
				t.Errorf("%s = %s: %v", c.key, e, faults)
			}
		}
	}
	for _, c := range []struct {
		key     string
		set     func(s *Spec, n int)
		in, out []int
	}{
		{"ranks_per_dimm", func(s *Spec, n int) { s.RanksPerDIMM = n }, []int{1, 8}, []int{0, 9}}, {"server_slots", func(s *Spec, n int) { s.ServerSlots = n }, []int{1, 1024}, []int{0, 1025}},
		{"host_cpus", func(s *Spec, n int) { s.HostCPUs = n }, []int{0, 64}, []int{-1, 65}}, {"unused_memory", func(s *Spec, n int) { s.UnusedMemory = units.Bytes(n) }, []int{0, 1 << 40}, []int{-1}},
	} {
		for i, n := range append(c.in, c.out...) {
			s := valid()
			c.set(&s, n)
			if faults := input.Faults(&s); (len(faults) > 0) != (i >= len(c.in)) || len(faults) > 0 && faults[0].Key != c.key {
				t.Errorf("%s = %d: %v", c.key, n, faults)
			}
		}
	}
}

// TestUnitsOfConstants: keys are in the units of data sheets and papers, a Point is in joules and watts.
func TestUnitsOfConstants(t *testing.T) {
	s := Spec{
		GPU: "1 [0.5, 2] paper", DRAMCurrents: "3", DRAMVPP: "5", DRAMIO: "7", PIMRead: "0.25",
		DIMMUnits: DIMMUnits{BankUnit: "11", RelayoutUnit: "13", AdderUnit: "17", SoftmaxUnit: "19", DIMMBuffer: "23"},
		HBMUnits:  HBMUnits{HBMPIMRead: "29", HBMRow: "31", HBMArray: "37", HBMGroup: "41", HBMDie: "43", HBMPins: "47", HBMMultiply: "53"},
		Host:      Host{Link: "59", CPUIdle: "61", CPUBusy: "67", Board: "71", PUE: "73"},
	}
	const mW, pJ, nJ = 1e-3, 1e-12, 1e-9
	want := [...]float64{1, 3, 5 * mW, 7 * pJ, 0.25, 11 * mW, 13 * mW, 17 * mW, 19 * mW, 23, 29 * pJ, 59 * pJ, 61, 67, 71, 73, 31 * nJ, 37 * pJ, 41 * pJ, 43 * pJ, 47 * pJ, 53 * pJ}
	of := func(p Point) [22]float64 {
		return [...]float64{p.GPU, p.DRAMCurrents, p.DRAMVPP, p.DRAMIO, p.PIMRead, p.BankUnit, p.RelayoutUnit, p.AdderUnit, p.SoftmaxUnit, p.DIMMBuffer, p.HBMPIMRead, p.Link, p.CPUIdle, p.CPUBusy, p.Board, p.PUE,
			p.HBMRow, p.HBMArray, p.HBMGroup, p.HBMDie, p.HBMPins, p.HBMMultiply}
	}
	for place, gpu := range map[Place]float64{Low: 0.5, Mid: 1, High: 2} {
		want[0] = gpu
		for i, got := range of(s.At(place)) {
			if math.Abs(got-want[i]) > 1e-12*want[i] {
				t.Errorf("constant %d at %d: %v, want %v", i, place, got, want[i])
			}
		}
	}
}

// FuzzConstant: a text that is a constant has a value within its band, and is written as it is read.
func FuzzConstant(f *testing.F) {
	for _, text := range []string{"1.5", " 2 [1,3] paper", "1e-3 [0, 1] assumption", "0x1p-2 [0,1] measured", "-0", "1 [0, 2", "1_0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var k, again Constant
		if k.UnmarshalText([]byte(text)) != nil {
			return
		}
		e := k.Estimate()
		if !(0 <= e.Low && e.Low <= e.Value && e.Value <= e.High) {
			t.Fatalf("%q is %+v", text, e)
		}
		if err := again.UnmarshalText([]byte(k)); err != nil || again != k || again.Estimate() != e {
			t.Fatalf("%q is written %q, which is %q, %v", text, k, again, err)
		}
	})
}

// TestServers: GPUs take up a share of a server, or several.
func TestServers(t *testing.T) {
	for gpus, want := range map[int]float64{0: 0, 3: 0.375, 8: 1, 20: 2.5} {
		if got := (&Host{ServerSlots: 8, HostCPUs: 2}).Servers(gpus); got != want {
			t.Errorf("%d GPUs take up %v servers of eight, want %v", gpus, got, want)
		}
	}
}
