package cli

import (
	"testing"
)

// TestEnergyLawOfAttention: millijoules that contradict one another are seen.
func TestEnergyLawOfAttention(t *testing.T) {
	right := EnergyMJ{Activate: 1, Read: 2, UnitRead: 3, Write: 4, Refresh: 5, Background: 6, Total: 21}
	if err := right.Law(); err != nil {
		t.Error(err)
	}
	for i, plant := range []func(*EnergyMJ){
		func(e *EnergyMJ) { e.Activate, e.Total = -1, 19 }, func(e *EnergyMJ) { e.Read, e.Total = -2, 17 }, func(e *EnergyMJ) { e.UnitRead, e.Total = -3, 15 },
		func(e *EnergyMJ) { e.Write, e.Total = -4, 13 }, func(e *EnergyMJ) { e.Refresh, e.Total = -5, 11 }, func(e *EnergyMJ) { e.Background, e.Total = -6, 9 }, func(e *EnergyMJ) { e.Total = 20 },
	} {
		wrong := right
		if plant(&wrong); wrong.Law() == nil {
			t.Errorf("mistake %d passes: %+v", i, wrong)
		}
	}
}
