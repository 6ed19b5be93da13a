package dram

import (
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
)

// TestSpecLimits: rules that relate keys of DDR4-3200 (tRAS 52, tRP 22, tRCD 22, tRFC 560, CWL 16, tWR 24, bursts of 4 clocks), each with
// the last valid value and the next one. A lone write takes 22 + 16 + 4 + 24 clocks to its precharge and 22 more.
func TestSpecLimits(t *testing.T) {
	for _, c := range []struct {
		change func(s *Spec)
		want   string
	}{
		{func(s *Spec) { s.TRC = 52 }, ""}, {func(s *Spec) { s.TRC = 51 }, "tRC = 51: expected at least tRAS = 52"},
		{func(s *Spec) { s.TRRDL = s.TRRDS }, ""}, {func(s *Spec) { s.TRRDS, s.TRRDL = 5, 4 }, "tRRD_L = 4: expected at least tRRD_S = 5"},
		{func(s *Spec) { s.TCCDL = 4 }, ""}, {func(s *Spec) { s.TCCDS, s.TCCDL = 6, 5 }, "tCCD_L = 5: expected at least tCCD_S = 6"},
		{func(s *Spec) { s.TCCDS = 3 }, "tCCD_S = 3: expected at least the burst's 4"},
		{func(s *Spec) { s.TREFI = 736 }, ""}, {func(s *Spec) { s.TREFI = 735 }, "tREFI = 735: expected at least 736: tRFC = 560, and two accesses of 88 clocks between REFs"},
		{func(s *Spec) { s.BurstLength = 1 }, "burst_length = 1: expected 2 to columns = 1024"}, {func(s *Spec) { s.Columns = 8 }, ""}, {func(s *Spec) { s.Columns = 4 }, "burst_length = 8: expected 2 to columns = 4"},
		{func(s *Spec) { s.BusWidth = 8 }, ""}, {func(s *Spec) { s.BusWidth = 4 }, "device_width = 8: expected at most bus_width = 4"},
		{func(s *Spec) { s.BankGroups, s.BanksPerGroup = 4, 16 }, ""}, {func(s *Spec) { s.BankGroups, s.BanksPerGroup = 8, 16 }, "banks_per_group = 16: expected at most 64 banks a rank"},
		{func(s *Spec) { s.Dies = 1024 }, ""}, {func(s *Spec) { s.Dies = 1025 }, "dies = 1025: expected 0 to 1024"}, {func(s *Spec) { s.Dies = -1 }, "dies = -1: expected 0 to 1024"},
		{func(s *Spec) { s.DeviceWidth = 32 }, "device_width = 32: expected 4, 8 or 16"},
		{func(s *Spec) { s.Rows = 1 << 24 }, ""}, {func(s *Spec) { s.Rows = 1 << 25 }, "rows = 33554432: "}, {func(s *Spec) { s.Rows = 3 }, "rows = 3: "}, {func(s *Spec) { s.Columns = 1 << 17 }, "columns = 131072: "},
		{func(s *Spec) { s.Columns = 1 << 16 }, ""}, {func(s *Spec) { s.BusWidth = 2048 }, "bus_width = 2048: "}, {func(s *Spec) { s.BurstLength = 128 }, "burst_length = 128: "},
	} {
		s := part(t, ddr43200)
		c.change(s)
		got := ""
		if errs := input.Faults(s); len(errs) > 0 {
			got = errs[0].Error()
		}
		if got != c.want && (c.want == "" || !strings.HasSuffix(c.want, ": ") || !strings.HasPrefix(got, c.want)) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	for i, key := range clockKeys {
		for _, v := range []int{-1, 0, 1<<20 + 1} {
			s := part(t, ddr43200)
			*s.clockFields()[i] = v
			want, low := fmt.Sprintf("%s = %d: expected ", key, v), 1
			if key == "tRTRS" {
				low = 0
			}
			errs := input.Faults(s)
			if ok := v >= low && v <= 1<<20; (len(errs) == 0) != ok || !ok && errs[0].Error() != want+fmt.Sprintf("%d to 1048576 clocks", low) {
				t.Errorf("%s = %d: %v", key, v, errs)
			}
		}
	}
}

// TestDataClockByHand: the command that starts LPDDR5X's data clock keeps it running for its own step. With two steps a clock, a command
// of two steps keeps it running until the next rising edge, three in all.
func TestDataClockByHand(t *testing.T) {
	s, err := LookupSpec("lpddr5x-8533-16gb-x16")
	if err != nil {
		t.Fatal(err)
	}
	sync, ok := s.Rules().DataClockCommand()
	if !ok || sync != CAS || s.DataClockKeeps(CAS) != 1 || s.DataClockKeeps(RD) <= 1 || s.DataClockKeeps(WR) != s.DataClockKeeps(RD) || s.DataClockKeeps(ACT) != 0 || part(t, ddr43200).DataClockKeeps(RD) != 0 {
		t.Errorf("%v keeps %d steps, RD %d, WR %d, ACT %d", sync, s.DataClockKeeps(sync), s.DataClockKeeps(RD), s.DataClockKeeps(WR), s.DataClockKeeps(ACT))
	}
	own, err := ReadStandard("t", strings.NewReader("standard = 'mine'\nbase = 'lpddr5x'\nsteps_per_clock = 2\ncommands = ['CAS | command | 2 | rank | any | any']\n"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := own.Part("mine-8533-16gb-x16")
	if err != nil {
		t.Fatal(err)
	}
	if two.Obey(own); two.DataClockKeeps(CAS) != 3 || two.DataClockKeeps(RD) != 2*s.DataClockKeeps(RD) {
		t.Errorf("of two steps: CAS %d, RD %d", two.DataClockKeeps(CAS), two.DataClockKeeps(RD))
	}
}

// TestOwnActivations: a table's own windows of activations, and timings that replace a text that was missing.
func TestOwnActivations(t *testing.T) {
	own, err := ReadStandard("t", strings.NewReader("standard = 'mine'\nbase = 'ddr4'\nactivations = '20 | 2 * 3'\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := own.Part("mine-3200-8gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	s.Obey(own)
	if most, less := s.Managed(); most != 20 || less != 6 {
		t.Errorf("%d activations, %d fewer", most, less)
	}
	if most, less := part(t, ddr43200).Managed(); most != 0 || less != 0 {
		t.Errorf("DDR4: %d activations, %d fewer", most, less)
	}
	ddr5, err := LookupSpec("ddr5-4800-16gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	ddr5.Timings = "tPPD one"
	if err := ddr5.Set("tPPD", "3"); err != nil || ddr5.Timings != "tPPD 3" {
		t.Errorf("%s, %v", ddr5.Timings, err)
	}
}
