package pcie

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// TestRawBandwidth pins x16 of each generation to PCI-SIG's numbers.
func TestRawBandwidth(t *testing.T) {
	for generation, want := range map[int]float64{3: 15.754e9, 4: 31.508e9, 5: 63.015e9, 6: 121e9} {
		s := Spec{Generation: generation, Lanes: 16}
		if got := float64(s.rawBandwidth()); math.Abs(got/want-1) > 1e-4 {
			t.Errorf("generation %d: %v, want %v", generation, s.rawBandwidth(), units.Bandwidth(want))
		}
	}
}

func TestTransferTime(t *testing.T) {
	s := gen4(1)
	if got := s.TransferTime(0); got != 0 {
		t.Errorf("no bytes: %v, want 0", got)
	}
	if got, want := s.TransferTime(units.Bytes(s.Bandwidth())), units.Second+s.Latency; got < want-100 || got > want+100 {
		t.Errorf("a second's bytes: %v, want %v", got, want)
	}
	s.UplinkLanes = 8
	if got, want := s.TransferTime(units.MiB)-s.Latency, 2*s.Bandwidth().TransferTime(units.MiB); got < want-2 || got > want+2 {
		t.Errorf("behind half an uplink: %v, want %v", got, want)
	}
	s.UplinkLanes = 32
	if got, want := s.TransferTime(units.MiB)-s.Latency, s.Bandwidth().TransferTime(units.MiB); got != want {
		t.Errorf("behind an uplink of twice the lanes: %v, want %v", got, want)
	}
}

func TestValidate(t *testing.T) {
	if errs := input.Faults(gen4(2)); len(errs) > 0 {
		t.Fatal(errs[0])
	}
	for key, change := range map[string]func(*Spec){
		"generation":      func(s *Spec) { s.Generation = 7 },
		"lanes":           func(s *Spec) { s.Lanes = 12 },
		"efficiency":      func(s *Spec) { s.Efficiency = math.NaN() },
		"latency":         func(s *Spec) { s.Latency = -1 },
		"gpus_per_uplink": func(s *Spec) { s.GPUsPerUplink = 0 },
		"uplink_lanes":    func(s *Spec) { s.UplinkLanes = 3 },
	} {
		s := gen4(2)
		change(s)
		if errs := input.Faults(s); len(errs) != 1 || errs[0].Key != key {
			t.Errorf("%s: got %v", key, errs)
		}
	}
}

// TestTextsOfFaults: the expected values, in words.
func TestTextsOfFaults(t *testing.T) {
	for want, change := range map[string]func(*Spec){
		"generation = 7: expected 3 to 6":                               func(s *Spec) { s.Generation = 7 },
		"lanes = 3: expected 1, 2, 4, 8, 16 or 32":                      func(s *Spec) { s.Lanes = 3 },
		"uplink_lanes = 5: expected 0 (as lanes), 1, 2, 4, 8, 16 or 32": func(s *Spec) { s.UplinkLanes = 5 },
		"kernel_share = 1: expected at least 0, less than 1":            func(s *Spec) { s.KernelShare = 1 },
	} {
		s := gen4(2)
		change(s)
		if errs := input.Faults(s); len(errs) != 1 || errs[0].Error() != want {
			t.Errorf("%v, want %s", errs, want)
		}
	}
}

// TestRanges: each range includes both ends, and excludes the numbers next to them.
func TestRanges(t *testing.T) {
	for _, c := range []struct {
		key    string
		set    func(*Spec, int)
		in, ex []int
	}{
		{"generation", func(s *Spec, v int) { s.Generation = v }, []int{3, 4, 5, 6}, []int{2, 7}},
		{"lanes", func(s *Spec, v int) { s.Lanes = v }, []int{1, 2, 4, 8, 16, 32}, []int{-1, 0, 3, 6, 12, 24, 33, 64}},
		{"uplink_lanes", func(s *Spec, v int) { s.UplinkLanes = v }, []int{0, 1, 2, 4, 8, 16, 32}, []int{-1, 3, 31, 64}},
		{"gpus_per_uplink", func(s *Spec, v int) { s.GPUsPerUplink = v }, []int{1, 2, 1024}, []int{0, 1025}},
		{"latency", func(s *Spec, v int) { s.Latency = units.Duration(v) }, []int{0, 1, int(units.Second)}, []int{-1, int(units.Second) + 1}},
		{"wake", func(s *Spec, v int) { s.Wake = units.Duration(v) }, []int{0, 1, int(units.Second)}, []int{-1, int(units.Second) + 1}},
		{"join", func(s *Spec, v int) { s.Join = units.Duration(v) }, []int{0, 1, int(units.Second)}, []int{-1, int(units.Second) + 1}},
		{"join_all_reduce", func(s *Spec, v int) { s.JoinAllReduce = units.Duration(v) }, []int{0, 1, int(units.Second)}, []int{-1, int(units.Second) + 1}},
		{"kernel_share", func(s *Spec, v int) { s.KernelShare = float64(v) / 1000 }, []int{0, 1, 999}, []int{-1, 1000}},
		{"efficiency", func(s *Spec, v int) { s.Efficiency = float64(v) / 1000 }, []int{1, 1000}, []int{-1, 0, 1001}},
	} {
		for _, v := range c.in {
			s := gen4(2)
			c.set(s, v)
			if errs := input.Faults(s); len(errs) > 0 {
				t.Errorf("%s = %d: %v", c.key, v, errs[0])
			}
		}
		for _, v := range c.ex {
			s := gen4(2)
			c.set(s, v)
			if errs := input.Faults(s); len(errs) != 1 || errs[0].Key != c.key {
				t.Errorf("%s = %d: %v", c.key, v, errs)
			}
		}
	}
}

// TestTypical pins the link that a GPU without one gets.
func TestTypical(t *testing.T) {
	s := Typical(5)
	if errs := input.Faults(&s); len(errs) > 0 {
		t.Fatal(errs[0])
	}
	if got := s.TransferTime(256 * units.MiB).Seconds(); math.Abs(got-(3.377e-6+256*1024*1024/55.5e9)) > 1e-5 {
		t.Errorf("256 MiB take %g s", got)
	}
	if got := s.TransferTime(1); got.Microseconds() < 3.377 || got.Microseconds() > 3.3771 || s.TransferTime(-1) != 0 {
		t.Errorf("a byte takes %v", got)
	}
	for generation, want := range map[int]float64{3: 13.876e9, 4: 27.752e9, 5: 55.504e9, 6: 106.577e9} { // 88.08% of 16 lanes
		if s := Typical(generation); math.Abs(float64(s.Bandwidth())/want-1) > 1e-4 || s.UplinkBandwidth() != s.Bandwidth() {
			t.Errorf("generation %d: %v, %v behind a switch", generation, s.Bandwidth(), s.UplinkBandwidth())
		}
	}
}

// gen4 returns the links of a DGX A100: 16 lanes of generation 4.
func gen4(gpusPerUplink int) *Spec {
	return &Spec{Generation: 4, Lanes: 16, Efficiency: 0.8, Latency: 3 * units.Microsecond, GPUsPerUplink: gpusPerUplink}
}
