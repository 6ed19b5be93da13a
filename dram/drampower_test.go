package dram

import (
	"encoding/csv"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/l3sim/l3sim/units"
)

// readTable returns the rows of a file of testdata/drampower without its header.
func readTable(t *testing.T, name string) [][]string {
	t.Helper()
	f, err := os.Open("testdata/drampower/" + name + ".csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows[1:]
}

// recordTrace returns the meter of a rank after a trace of testdata/drampower, without the bank groups that the part lacks.
func recordTrace(t *testing.T, spec *Spec, trace string) *EnergyMeter {
	t.Helper()
	m := NewEnergyMeter(spec, 1)
	for _, c := range readTable(t, trace) {
		var n [7]int64
		for i := range c {
			n[i], _ = strconv.ParseInt(c[i], 10, 64)
		}
		if int(n[3]) < spec.BankGroups {
			m.Record(commandNamed(t, c[1]), Address{BankGroup: int32(n[3]), Bank: int32(n[4]), Row: int32(n[5]), Column: int32(n[6])}, n[0])
		}
	}
	return m
}

// numbers parses the numbers in cells.
func numbers(t *testing.T, cells []string) (list []float64) {
	t.Helper()
	for _, cell := range cells {
		v, err := strconv.ParseFloat(cell, 64)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
	return list
}

// TestDRAMPower: for traces of commands, each component of the energy of shipped parts is what DRAMPower's formulas give with the same
// currents, to 1e-9. testdata/drampower describes how the figures were made.
func TestDRAMPower(t *testing.T) {
	left := map[string]bool{}
	for _, name := range SpecNames() {
		if part(t, name).Power.Known() {
			left[name] = true
		}
	}
	for _, row := range readTable(t, "parts") {
		spec, want := part(t, row[1]), numbers(t, row[2:])
		got := recordTrace(t, spec, row[0]).Energy(int64(want[0]))
		for i, of := range []struct {
			what   string
			joules float64
		}{{"activation", got.ActivateJoules}, {"reading", got.ReadJoules}, {"writing", got.WriteJoules}, {"standby and refresh", got.BackgroundJoules + got.RefreshJoules}} {
			if math.Abs(of.joules-want[i+1]) > 1e-9*want[i+1] || of.joules <= 0 {
				t.Errorf("%s on %s: %s takes %.9g J, by DRAMPower %.9g J", row[0], row[1], of.what, of.joules, want[i+1])
			}
		}
		delete(left, row[1])
	}
	for name := range left {
		t.Errorf("%s has currents and no line", name)
	}
}

// TestDRAMPowerItself: the energy of six traces is DRAMPower's own, to 1e-9 for components that both count alike, and to 2% in total. The
// currents of its DDR5 are made up.
func TestDRAMPowerItself(t *testing.T) {
	ddr5 := *part(t, ddr43200)
	ddr5.BankGroups, ddr5.BurstLength, ddr5.BusWidth, ddr5.TCK = 8, 16, 32, 416*units.Picosecond
	ddr5.TRAS, ddr5.TRP, ddr5.TRC, ddr5.TRTP, ddr5.TWR, ddr5.CWL, ddr5.TRFC = 77, 39, 116, 18, 72, 38, 708
	ddr5.Power = PowerSpec{VDD: 1.1, IDD0: 60, IDD2N: 50, IDD3N: 55, IDD4R: 145, IDD4W: 140, IDD5B: 362}
	for _, row := range readTable(t, "expected") {
		spec, want := part(t, ddr43200), numbers(t, row[1:])
		if row[0][:4] == "ddr5" {
			spec = &ddr5
		}
		got := recordTrace(t, spec, row[0]).Energy(int64(want[0]))
		// DRAMPower counts a refresh as active standby and the excess over that; we count precharged standby and the excess.
		within := func(what string, got, want, share float64) {
			if math.Abs(got-want) > share*want {
				t.Errorf("%s: %s takes %.6g J, in DRAMPower %.6g J", row[0], what, got, want)
			}
		}
		within("activation", got.ActivateJoules, want[1]+want[2], 1e-9)
		within("reading", got.ReadJoules, want[3], 1e-9)
		within("writing", got.WriteJoules, want[4], 1e-9)
		within("standby and refresh", got.BackgroundJoules+got.RefreshJoules, want[5]+want[6]+want[7], 0.003)
		within("all", got.TotalJoules(), want[8], 0.02)
	}
}

// commandNamed returns the command with a name.
func commandNamed(t *testing.T, name string) Command {
	t.Helper()
	all := []Command{ACT, PRE, PREA, RD, RDA, WR, WRA, REF}
	i := slices.IndexFunc(all, func(c Command) bool { return c.String() == name })
	if i < 0 {
		t.Fatalf("no command %s", name)
	}
	return all[i]
}
