package tables

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// TestPaceByHand: an activity with 1 + 20 + 300 + 4000 + 50000 + 600000 J, in which each digit is one component.
func TestPaceByHand(t *testing.T) {
	a := machine.Activity{Activates: 1, UnitReads: 10, Reads: 100, Writes: 1000, Open: 10_000, Clocks: 100_000}
	each := machine.Activity{Activates: 1, UnitReads: 2, Reads: 3, Writes: 4, Open: 5, Clocks: 6}
	for _, c := range []struct {
		clock        float64 // joules
		clocks, want int64
	}{
		{0, 7, 7}, {654_321, 0, 1}, {654_320, 0, 2}, {1, 0, 654_321}, {0.5, 0, 1_308_642}, {1, 654_320, 654_321}, {1, 654_322, 654_322}, {1e9, 7, 7},
	} {
		p := Pace{Each: each, Clock: c.clock}
		if got := p.Clocks(c.clocks, &a); got != c.want {
			t.Errorf("%v J a clock: %d clocks take %d, by hand %d", c.clock, c.clocks, got, c.want)
		}
	}
}

// TestPacedListsByHand: if the power limit is the bottleneck, a list takes the time of its activations: 16 banks for a row of keys and 16
// for a row of values for each 512 tokens, 32 for each further row, and 5 for the append.
func TestPacedListsByHand(t *testing.T) {
	table, err := NewKernelTable(pim.Default(), parts.DDR4(t), oneHead)
	parts.Must(t, err)
	free := [2]int64{table.ListAlone(600, 5), table.ListInSequence(600, 5, 100)}
	table.Pace = Pace{Each: machine.Activity{Activates: 3000}, Clock: 10} // 300 clocks for each
	for _, c := range []struct {
		tokens, rows int
		activates    int64
	}{{16, 1, 32 + 5}, {16, 2, 64 + 5}, {512, 1, 32 + 5}, {600, 2, 64 + 5}, {600, 5, 64 + 3*32 + 5}} {
		want := 300 * c.activates
		if a, b := table.ListAlone(c.tokens, c.rows), table.ListInSequence(c.tokens, c.rows, 7); a != want || b != want {
			t.Errorf("%d tokens in %d rows: %d and %d clocks, by hand %d", c.tokens, c.rows, a, b, want)
		}
	}
	if a, b := table.Alone(600), table.InSequence(600); a != 300*69 || b != a {
		t.Errorf("%d and %d clocks, by hand %d", a, b, 300*69)
	}
	if got, want := table.Attention(600), int64(math.Ceil(300*64)); got != want { // without an append
		t.Errorf("attention takes %d clocks, by hand %d", got, want)
	}
	table.Pace.Clock = 1e9 // which never binds
	if got := [2]int64{table.ListAlone(600, 5), table.ListInSequence(600, 5, 100)}; got != free {
		t.Errorf("%v clocks under a high limit, %v without one", got, free)
	}
}
