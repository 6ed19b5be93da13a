package dram

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// TestDDR4 compares parts with the clocks of data sheets.
func TestDDR4(t *testing.T) {
	for _, c := range []struct {
		name string
		want map[string]int
	}{
		{"ddr4-3200-8gb-x8", map[string]int{"CL": 22, "CWL": 16, "tRCD": 22, "tRP": 22, "tRAS": 52, "tRC": 74,
			"tRRD_S": 4, "tRRD_L": 8, "tFAW": 34, "tCCD_S": 4, "tCCD_L": 8, "tRTP": 12, "tWR": 24, "tWTR_S": 4,
			"tWTR_L": 12, "tRFC": 560, "tREFI": 12480}},
		{"ddr4-3200-16gb-x8", map[string]int{"tRFC": 880, "tFAW": 34}},
		{"ddr4-3200-8gb-x4", map[string]int{"tRRD_S": 4, "tRRD_L": 8, "tFAW": 16}},
		{"ddr4-3200-16gb-x16", map[string]int{"tRRD_S": 9, "tRRD_L": 11, "tFAW": 48}},
		{"ddr4-2933-8gb-x8", map[string]int{"CL": 21, "CWL": 16, "tRAS": 47, "tFAW": 31, "tCCD_L": 8, "tWR": 22,
			"tRTP": 11, "tRFC": 514, "tREFI": 11436}},
		{"ddr4-2400-8gb-x8", map[string]int{"CL": 17, "CWL": 12, "tRAS": 39, "tRRD_S": 4, "tRRD_L": 6, "tFAW": 26,
			"tCCD_L": 6, "tWR": 18, "tRTP": 9, "tWTR_S": 3, "tWTR_L": 9, "tRFC": 421, "tREFI": 9363}},
		{"ddr4-2400-8gb-x16", map[string]int{"tRRD_S": 7, "tRRD_L": 8, "tFAW": 36}},
	} {
		s := part(t, c.name)
		for key, want := range c.want {
			if got := s.clocks(key); *got != want {
				t.Errorf("%s: %s is %d, want %d", c.name, key, *got, want)
			}
		}
	}
}

// TestParts checks that every part is valid and that its banks, rows and columns have the capacity in its name: in HBM, one die of the
// stack in 16 channels.
func TestParts(t *testing.T) {
	if _, err := shipped(); err != nil {
		t.Fatal(err)
	}
	if len(SpecNames()) < 18+36 {
		t.Errorf("%d parts", len(SpecNames()))
	}
	for _, name := range SpecNames() {
		s := part(t, name)
		for _, e := range input.Faults(s) {
			t.Errorf("%s: %v", name, e)
		}
		var gigabits int
		for _, word := range strings.Split(name, "-") {
			if digits, ok := strings.CutSuffix(word, "gb"); ok {
				gigabits, _ = strconv.Atoi(digits)
			}
		}
		chip := s.RankBytes() / units.Bytes(s.Chips())
		switch s.Standard {
		case "hbm3": // a SID of four dies holds a rank of each of the 32 pseudo-channels
			chip = chip * 32 / 4
		case "hbm2": // four dies, 16 pseudo-channels
			chip = chip * 16 / 4
		case "gddr6": // two channels a chip
			chip *= 2
		}
		if want := units.Bytes(gigabits) << 27; chip != want {
			t.Errorf("%s: a chip holds %v, want %v", name, chip, want)
		}
	}
}

func TestLookupUnknown(t *testing.T) {
	_, err := LookupSpec("ddr4-3200-8gb-x9")
	var in *input.Error
	if !errors.As(err, &in) || in.Nearest == "" {
		t.Errorf("got %v, want an input error with a nearest name", err)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		key    string
		change func(*Spec)
	}{
		{"tRCD", func(s *Spec) { s.TRCD = 0 }},
		{"tREFI", func(s *Spec) { s.TREFI = s.TRFC + 2*(22+16+4+24+22) - 1 }},
		{"tREFI", func(s *Spec) { s.TRCD = s.TREFI }},
		{"bank_groups", func(s *Spec) { s.BankGroups = 3 }},
		{"tCCD_S", func(s *Spec) { s.TCCDS = 3 }},
		{"tRC", func(s *Spec) { s.TRC = 10 }},
		{"tCK", func(s *Spec) { s.TCK = 0 }},
		{"device_width", func(s *Spec) { s.DeviceWidth = 1 }}, // JESD79-4 has x4, x8 and x16
		{"device_width", func(s *Spec) { s.DeviceWidth = 12 }},
		{"device_width", func(s *Spec) { s.DeviceWidth = 32 }},
		{"device_width", func(s *Spec) { s.DeviceWidth = 64 }},
	} {
		s := part(t, ddr43200)
		c.change(s)
		errs := input.Faults(s)
		if len(errs) != 1 || errs[0].Key != c.key {
			t.Errorf("%s: got %v", c.key, errs)
		}
	}
}

func TestBandwidth(t *testing.T) {
	if got := part(t, ddr43200).Bandwidth(); got != 25.6e9 {
		t.Errorf("DDR4-3200 on 64 bits moves %v, want 25.6GB/s", got)
	}
}
