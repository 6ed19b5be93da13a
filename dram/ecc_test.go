package dram

import "testing"

// TestChipsOfECC: side-band check bits add an eighth of the bus width in whole chips: DDR4 DIMMs have 72 bits, DDR5 sub-channels 36 or 40.
// In-line check bits add no chips and take an eighth or a sixteenth of each row.
func TestChipsOfECC(t *testing.T) {
	for _, c := range []struct {
		bus, width, plain, sideBand int
	}{{64, 4, 16, 18}, {64, 8, 8, 9}, {64, 16, 4, 5}, {32, 4, 8, 9}, {32, 8, 4, 5}, {32, 16, 2, 3}} {
		part := "ddr4-3200-8gb-x8"
		if c.bus == 32 {
			part = "ddr5-4800-16gb-x8"
		}
		s, err := LookupSpec(part)
		if err != nil {
			t.Fatal(err)
		}
		s.DeviceWidth = c.width
		for ecc, want := range map[string]int{NoECC: c.plain, SideBandECC: c.sideBand, InlineECC: c.plain, InlineECC16: c.plain} {
			if s.ECC = ecc; s.Devices() != want {
				t.Errorf("%s, a bus of %d bits on chips of %d: %d chips, want %d", ecc, s.BusWidth, c.width, s.Devices(), want)
			}
		}
		row := s.RowBursts()
		for ecc, want := range map[string]int{NoECC: row, SideBandECC: row, InlineECC: row - row/8, InlineECC16: row - row/16} {
			if s.ECC = ecc; s.DataBursts() != want {
				t.Errorf("%s: %d of %d bursts hold data, want %d", ecc, s.DataBursts(), row, want)
			}
		}
	}
}
