package dram

import (
	"fmt"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// The DDR4 standard as tables, from JESD79-4C (https://www.jedec.org/standards-documents/docs/jesd79-4a):
// "Speed Bins", "Refresh parameters by device density" and "Timing Parameters by Speed Grade", the latter by
// page size. Times are in ps and become clocks by the standard's rounding (clocksOf); where the
// standard asks for the larger of a number of clocks and a time, both are given.

// atLeast is max(clocks, time), the form of most rules.
type atLeast struct {
	clocks int
	time   units.Duration
}

// speed is one speed bin.
type speed struct {
	rate    int // MT/s
	bin     string
	tck     units.Duration
	cl, cwl int // CL = nRCD = nRP in these bins; CWL of the first set, preamble of one clock
	// By page size: 512 B (x4), 1 KiB (x8), 2 KiB (x16).
	rrdS, rrdL, faw [3]atLeast
}

// speeds are the bins that carry the name of the rate in most data sheets.
var speeds = []speed{
	{2400, "2400T", 833, 17, 12,
		[3]atLeast{{4, 3300}, {4, 3300}, {4, 5300}},
		[3]atLeast{{4, 4900}, {4, 4900}, {4, 6400}},
		[3]atLeast{{16, 13000}, {20, 21000}, {28, 30000}}},
	{2933, "2933Y", 682, 21, 16,
		[3]atLeast{{4, 2700}, {4, 2700}, {4, 5300}},
		[3]atLeast{{4, 4900}, {4, 4900}, {4, 6400}},
		[3]atLeast{{16, 10875}, {20, 21000}, {28, 30000}}},
	{3200, "3200AA", 625, 22, 16,
		[3]atLeast{{4, 2500}, {4, 2500}, {4, 5300}},
		[3]atLeast{{4, 4900}, {4, 4900}, {4, 6400}},
		[3]atLeast{{16, 10000}, {20, 21000}, {28, 30000}}},
}

// Times that all speeds from 2400 share.
var (
	ras  = atLeast{0, 32000}
	ccdL = atLeast{5, 5000}
	rtp  = atLeast{4, 7500}
	wr   = atLeast{0, 15000}
	wtrS = atLeast{2, 2500}
	wtrL = atLeast{4, 7500}
	// refi is the mean refresh interval up to 85 degrees Celsius.
	refi = 7800 * units.Nanosecond
)

// density is one chip capacity.
type density struct {
	gigabits int
	rfc      units.Duration // tRFC1
	rows     [3]int         // by width x4, x8, x16
}

var densities = []density{
	{8, 350 * units.Nanosecond, [3]int{1 << 17, 1 << 16, 1 << 16}},
	{16, 550 * units.Nanosecond, [3]int{1 << 18, 1 << 17, 1 << 17}},
}

// widths are the data pins of a chip; x16 has two bank groups, the others four
// (JESD79-4C, "DDR4 SDRAM Addressing").
var widths = [3]struct{ pins, bankGroups int }{{4, 4}, {8, 4}, {16, 2}}

// clocksOf rounds a minimum time up to clocks by the "Rounding
// Algorithms" of JESD79-4C, which forgive 2.6% of a clock: tCK itself is written rounded.
func clocksOf(t, tck units.Duration) int {
	return int((int64(t)*1000/int64(tck) + 974) / 1000)
}

// of returns the rule in clocks of tck.
func (a atLeast) of(tck units.Duration) int { return max(a.clocks, clocksOf(a.time, tck)) }

// ddr4Name returns the name of a part, such as "ddr4-3200-8gb-x8".
func ddr4Name(v speed, d density, width int) string {
	return fmt.Sprintf("ddr4-%d-%dgb-x%d", v.rate, d.gigabits, widths[width].pins)
}

// ddr4 composes the spec of one part.
func ddr4(v speed, d density, width int) *Spec {
	w := widths[width]
	s := &Spec{
		Name:       ddr4Name(v, d, width),
		BankGroups: w.bankGroups, BanksPerGroup: 4, Rows: d.rows[width], Columns: 1024,
		DeviceWidth: w.pins, BusWidth: 64, BurstLength: 8,
		TCK: v.tck, CL: v.cl, CWL: v.cwl, TRCD: v.cl, TRP: v.cl, TRAS: ras.of(v.tck),
		TRRDS: v.rrdS[width].of(v.tck), TRRDL: v.rrdL[width].of(v.tck), TFAW: v.faw[width].of(v.tck),
		TCCDS: 4, TCCDL: ccdL.of(v.tck), TRTP: rtp.of(v.tck), TWR: wr.of(v.tck),
		TWTRS: wtrS.of(v.tck), TWTRL: wtrL.of(v.tck),
		TRFC: clocksOf(d.rfc, v.tck), TREFI: int(refi / v.tck), TRTRS: 1,
		Power: currents[v.rate][width],
	}
	s.TRC = s.TRAS + s.TRP
	return s
}

// LookupSpec returns a copy of the named part, or an input.Error that lists the
// names.
func LookupSpec(name string) (*Spec, error) {
	for _, v := range speeds {
		for _, d := range densities {
			for w := range widths {
				if strings.EqualFold(name, ddr4Name(v, d, w)) {
					return ddr4(v, d, w), nil
				}
			}
		}
	}
	return nil, input.UnknownName("spec", name, SpecNames())
}

// SpecNames returns the names of all parts, in the order of the tables.
func SpecNames() []string {
	var names []string
	for _, v := range speeds {
		for _, d := range densities {
			for w := range widths {
				names = append(names, ddr4Name(v, d, w))
			}
		}
	}
	return names
}
