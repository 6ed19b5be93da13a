package hbm

import (
	"testing"

	"github.com/l3sim/l3sim/energy"
)

// TestSumsByHand: each kind of work alone, several times, and each cost under its own key.
func TestSumsByHand(t *testing.T) {
	if got := (Tally{1, 2, 3, 4}).Plus(Tally{10, 200, 3000, 40000}, 2); got != (Tally{21, 402, 6003, 80004}) {
		t.Errorf("%+v", got)
	}
	if got := CostsOf(&energy.Point{HBMRow: 1, HBMArray: 2, HBMGroup: 3, HBMDie: 4, HBMPins: 5, HBMMultiply: 6, HBMPIMRead: 7}); got != (Costs{Row: 1, Array: 2, Group: 3, Die: 4, Pins: 5, Multiply: 6}) {
		t.Errorf("%+v", got)
	}
	list := appendLine([]amounts{{10, 1}}, amounts{40, 7}, 4)
	for i, want := range []amounts{{10, 1}, {20, 3}, {30, 5}, {40, 7}} {
		for j := range want {
			if d := list[i][j] - want[j]; len(list) != 4 || d > 1e-9 || d < -1e-9 {
				t.Errorf("%v on the line from 10 to 40 and from 1 to 7", list)
			}
		}
	}
	if list = appendLine(nil, amounts{5}, 1); len(list) != 1 || list[0] != (amounts{5}) {
		t.Errorf("a first amount %v", list)
	}
}

// TestWhatHasNoTable: every function refuses unknown places of units and empty shapes.
func TestWhatHasNoTable(t *testing.T) {
	good, shape := Spec{Bank, AttAcc, 5200, true, true}, Shape{HeadDim: 128, ElementBytes: 2}
	elsewhere := good
	elsewhere.Level = "die"
	for _, c := range []struct {
		spec  Spec
		shape Shape
	}{{elsewhere, shape}, {good, Shape{}}, {good, Shape{HeadDim: 128, ElementBytes: 3}}} {
		if table, err := NewTable(c.spec, c.shape); table != nil || err == nil {
			t.Errorf("%+v of %+v: a table", c.spec, c.shape)
		}
		if _, err := Measure(c.spec, StackLoad(c.shape, 64, 1), nil); err == nil {
			t.Errorf("%+v of %+v: a run", c.spec, c.shape)
		}
	}
}
