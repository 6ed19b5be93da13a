package controller

import (
	"fmt"
	"testing"

	"github.com/l3sim/l3sim/dram"
)

// TestWritesOfARowOfDDR5: writes to a row keep the distance within a bank group: 10 ns (24 clocks of 416 ps, 28 of 357 ps), or 20 ns if the
// device reads each code word first (x4).
func TestWritesOfARowOfDDR5(t *testing.T) {
	for rate, clocks := range map[string][2]int64{"4800": {48, 24}, "5600": {56, 28}} {
		for _, width := range []int{4, 8, 16} {
			s := setup(t, "default")
			s.Spec, s.Ranks = part(t, fmt.Sprintf("ddr5-%s-16gb-x%d", rate, width)), 1
			want := clocks[1]
			if width == 4 {
				want = clocks[0]
			}
			requests := make([]Request, 32)
			for i := range requests {
				requests[i] = Request{Address: uint64(i * s.Spec.BurstBytes()), Write: true}
			}
			_, records := replayLog(t, s, requests)
			var latest int64
			for _, r := range records {
				if r.Command != dram.WR {
					continue
				}
				if latest > 0 && r.Clock-latest != want {
					t.Errorf("DDR5-%s x%d: writes of a row %d clocks apart, want %d", rate, width, r.Clock-latest, want)
				}
				latest = r.Clock
			}
			if v := checkRecords(s.Spec, s.Ranks, records); len(v) > 0 || latest == 0 {
				t.Errorf("DDR5-%s x%d: %+v", rate, width, v)
			}
		}
	}
}
