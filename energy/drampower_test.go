package energy

import (
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestPins: a bit on the pins takes what DRAMPower says of random data over the same resistances
// (dram/testdata/drampower), within 3% over three traces.
func TestPins(t *testing.T) {
	const folder = "../dram/testdata/drampower/"
	rows := table(t, folder+"expected.csv")
	var io float64
	constants, err := os.ReadFile("../configs/energy/constants-2026.toml")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(constants)) {
		if rest, ok := strings.CutPrefix(line, `dram_io = "`); ok {
			io = Constant(rest[:strings.Index(rest, `"`)]).Estimate().Value * 1e-12
		}
	}
	var bits, joules [2]float64 // of a chip: read, written
	for _, row := range rows {
		if !strings.HasPrefix(row[0], "ddr4") {
			continue
		}
		for _, c := range table(t, folder+row[0]+".csv") {
			switch {
			case strings.HasPrefix(c[1], "RD"):
				bits[0] += 64
			case strings.HasPrefix(c[1], "WR"):
				bits[1] += 64
			}
		}
		for i, column := range []int{10, 11} {
			v, err := strconv.ParseFloat(row[column], 64)
			if err != nil {
				t.Fatal(err)
			}
			joules[i] += v
		}
	}
	for i := range bits {
		if math.Abs(bits[i]*io/joules[i]-1) > 0.03 {
			t.Errorf("%v bits take %v J on the pins, in DRAMPower %v J", bits[i], bits[i]*io, joules[i])
		}
	}
}

// table returns the rows of a CSV file without its header.
func table(t *testing.T, path string) [][]string {
	f, err := os.Open(path)
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
