package hbm

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
)

// TestRowEnergyByHand: energy of commands at each level, in microjoules: moving 256 bits of a column, 16 products of it, rows.
func TestRowEnergyByHand(t *testing.T) {
	c := Costs{Row: 1e-6, Array: 2e-6, Group: 4e-6, Die: 8e-6, Pins: 16e-6, Multiply: 32e-6}
	done := Tally{Rows: 3, Reads: 5, Queries: 7, Moves: 11}
	for level, want := range map[Level]RowEnergy{
		Bank:      {Rows: 3, Reads: 5 * 256 * 2, Multiply: 5 * 16 * 32, Moves: 7*256*(16+8+4) + 11*256*(8+4)},
		BankGroup: {Rows: 3, Reads: 5 * 256 * (2 + 4), Multiply: 5 * 16 * 32, Moves: 7*256*(16+8) + 11*256*8},
		Buffer:    {Rows: 3, Reads: 5 * 256 * (2 + 4 + 8), Multiply: 5 * 16 * 32, Moves: 7 * 256 * 16},
	} {
		want.Total = want.Rows + want.Reads + want.Multiply + want.Moves
		got := newRowEnergy(done, level, c)
		for _, x := range [][2]float64{{got.Rows, want.Rows}, {got.Reads, want.Reads}, {got.Multiply, want.Multiply}, {got.Moves, want.Moves}, {got.Total, want.Total}} {
			if math.Abs(x[0]-x[1]) > 1e-9*x[1] {
				t.Errorf("level %v: %+v, by hand %+v", level, got, want)
				break
			}
		}
	}
}

// TestRowsByHand: a row for 2 heads in 1,000 clocks of 1 ns has the microseconds, the ratio to reading all columns in sequence, the
// commands' joules, and the watts of 16 channels.
func TestRowsByHand(t *testing.T) {
	part, err := dram.LookupSpec("hbm2-2000-8gb-4h")
	if err != nil {
		t.Fatal(err)
	}
	spec, load := Spec{Level: Bank}, StackLoad(Shape{HeadDim: 128, ElementBytes: 2}, 4096, 32)
	run := Run{Clocks: 1000}
	run.Commands[dram.ACT], run.Commands[dram.PREA] = 7, 3
	c := Costs{Row: 1e-6}
	r := NewRow(spec, part, load, run, c)
	used := newRowEnergy(run.Tally(spec), Bank, c)
	if r.Context != 4096 || r.Heads != load.Heads || r.Clocks != 1000 || r.Time != 1 || r.Factor != float64(load.PlainClocks(load.Heads, 4096))/1000 || len(r.Commands) != 2 || r.Commands["ACT"] != 7 ||
		r.Energy != used || r.Watts != 16*used.Total {
		t.Errorf("got %+v", r)
	}
	var text strings.Builder
	other := Row{Context: 5, Heads: 6, Clocks: 7, Time: 8.125, Factor: 9.5, Commands: map[string]int64{"RD": 11}, Energy: RowEnergy{Total: 12.25}, Watts: 13}
	if err := WriteRows(&text, BankGroup, "a part", []Row{other, {Commands: map[string]int64{"ACT": 4, "RD": 2}}}); err != nil {
		t.Fatal(err)
	}
	if want := "\n        5      6       7  8.12    9.50  12.2  13.0    0  11\n"; !strings.Contains(text.String(), want) {
		t.Errorf("columns two blanks apart:\n%s\nwant%s", text.String(), want)
	}
	lines := strings.Split(text.String(), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	want := []string{"a part, units of level " + string(BankGroup) + ", the busiest of 16 channels", "", "context heads clocks us factor uJ W ACT RD", "5 6 7 8.12 9.50 12.2 13.0 0 11", "0 0 0 0.00 0.00 0.0 0.0 4 2", ""}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if Bank.Ways() < 1 || Level("none").Ways() != 1 {
		t.Errorf("ways %d, of no level %d", Bank.Ways(), Level("none").Ways())
	}
}
