package main

import "testing"

// TestEnergyLawOfAttention: millijoules that contradict one another are seen.
func TestEnergyLawOfAttention(t *testing.T) {
	right := energyMJ{Activate: 1, Read: 2, UnitRead: 3, Write: 4, Refresh: 5, Background: 6, Total: 21}
	if err := right.law(); err != nil {
		t.Error(err)
	}
	for i, plant := range []func(*energyMJ){
		func(e *energyMJ) { e.Activate, e.Total = -1, 19 }, func(e *energyMJ) { e.Read, e.Total = -2, 17 }, func(e *energyMJ) { e.UnitRead, e.Total = -3, 15 },
		func(e *energyMJ) { e.Write, e.Total = -4, 13 }, func(e *energyMJ) { e.Refresh, e.Total = -5, 11 }, func(e *energyMJ) { e.Background, e.Total = -6, 9 }, func(e *energyMJ) { e.Total = 20 },
	} {
		wrong := right
		if plant(&wrong); wrong.law() == nil {
			t.Errorf("mistake %d passes: %+v", i, wrong)
		}
	}
}
