package results

import "testing"

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		l            Limits
		sign, legend string
	}{
		{Limits{}, "", ""},
		{Limits{Boards: true}, " †", boardsLegend},
		{Limits{Slot: true}, " ‡", slotLegend},
		{Limits{Boards: true, Slot: true}, " †‡", boardsLegend + "\n" + slotLegend},
	} {
		if c.l.Sign() != c.sign || c.l.Legend() != c.legend {
			t.Errorf("%+v: %q, %q", c.l, c.l.Sign(), c.l.Legend())
		}
		s := Summary{EnergyReport: EnergyReport{DIMM: 10, DIMMLimit: 10}}
		s.BeyondBoards = c.l.Boards
		if c.l.Slot {
			s.EnergyReport.DIMM = 10.001
		}
		if s.Limits() != c.l || (Limits{}).Or(c.l) != c.l || c.l.Or(Limits{}) != c.l {
			t.Errorf("%+v is %+v", c.l, s.Limits())
		}
	}
}
