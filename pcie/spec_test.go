package pcie

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/units"
)

// TestRawBandwidth pins x16 of each generation to PCI-SIG's numbers.
func TestRawBandwidth(t *testing.T) {
	for generation, want := range map[int]float64{3: 15.754e9, 4: 31.508e9, 5: 63.015e9, 6: 121e9} {
		s := Spec{Generation: generation, Lanes: 16}
		if got := float64(s.RawBandwidth()); math.Abs(got/want-1) > 1e-4 {
			t.Errorf("generation %d: %v, want %v", generation, s.RawBandwidth(), units.Bandwidth(want))
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
}

func TestValidate(t *testing.T) {
	if errs := gen4(2).Validate(); len(errs) > 0 {
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
		if errs := s.Validate(); len(errs) != 1 || errs[0].Key != key {
			t.Errorf("%s: got %v", key, errs)
		}
	}
}
