package kinds

import (
	"testing"

	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// TestLeavingWorkTakesTime: vectors interrupt attention. Its rows are closed (PREA, tRP) before a
// burst goes to the rank (CWL), and attention goes on when all banks are active again: on DDR4-3200
// 22, 16 and 114 + 22 clocks of 625 ps.
func TestLeavingWorkTakesTime(t *testing.T) {
	const tCK, vacate, open, reactivate = 625, 22, 16, 114 + 22
	interrupts := 0
	drive(t, []string{"node.ranksets=1", allAtOnce}, equal(2, 20_000, 3), keep, func(r *loop, d driven) {
		if len(d.batch.Sub[0].Decode) == 0 {
			return
		}
		c := &r.Engine.(*l3).costs
		spans, _ := r.Engine.Core().Record(0)
		var attention, down []flow.Span
		for _, s := range spans {
			switch {
			case s.Resource == flow.TrackRank && s.B == 0:
				attention = append(attention, s)
			case s.Resource == flow.TrackDown && s.B == 0:
				down = append(down, s)
			}
		}
		if len(attention) < 3 || len(down) != 2 || attention[0].A != 0 || attention[1].A != 0 || down[1].A != 1 {
			t.Fatalf("no attention of layer 0 in two parts, by the other sub-batch's vectors: %v, %v", attention, down)
		}
		interrupts++
		if got := down[1].Start - attention[0].End; got != (vacate+open)*tCK {
			t.Errorf("data comes %v after attention stops, want %v", got, units.Duration((vacate+open)*tCK))
		}
		if got := attention[1].Start - down[1].End - c.groups[1].Decode.Close; got != reactivate*tCK {
			t.Errorf("attention goes on %v after the transfer is over, want %v", got, units.Duration(reactivate*tCK))
		}
	})
	if interrupts == 0 {
		t.Error("nothing is ever interrupted")
	}
}
