package hbm

import (
	"math"
	"testing"
)

// TestRowEnergyByHand: what commands take at each level, in microjoules: 256 bits of a column on their way, 16 products of it, rows.
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
