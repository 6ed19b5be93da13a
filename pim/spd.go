package pim

import "github.com/l3sim/l3sim/dram"

// AdvertisedTiming returns the timing that the DIMM's SPD declares so that the
// re-layout unit may delay data by n clocks (L3, section 4.1, "spoofed timing
// constraints"; n is Exchange.Delay). The host sends write data n clocks early,
// so that it reaches the chips when they expect it, and counts what follows the end of
// write data from n clocks later: CWL - n, tWR + n, tWTR_S + n, tWTR_L + n. Every
// distance between commands that starts at a write stays what it was.
//
// With readBack, data that is read also passes the unit, as when a KV cache is
// swapped out: CL + n. Only then does the bus's turnaround from reads to writes
// grow, by 2n; otherwise by n.
//
// A CWL of 15 is none of JESD79-4's: a modelling assumption of the paper.
func AdvertisedTiming(d *dram.Spec, n int, readBack bool) *dram.Spec {
	a := *d
	a.CWL -= n
	a.TWR += n
	a.TWTRS += n
	a.TWTRL += n
	if readBack {
		a.CL += n
	}
	return &a
}
