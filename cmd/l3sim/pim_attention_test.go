package main

import (
	"testing"

	"github.com/l3sim/l3sim/dram"
)

// TestEnergyLawOfAttention: contradictory energies are detected.
func TestEnergyLawOfAttention(t *testing.T) {
	right := dram.Millijoules{Activate: 1, Read: 2, UnitRead: 3, Write: 4, Refresh: 5, Background: 6, Total: 21}
	if err := energyLaw(&right); err != nil {
		t.Error(err)
	}
	for i, plant := range []func(*dram.Millijoules){
		func(e *dram.Millijoules) { e.Activate, e.Total = -1, 19 }, func(e *dram.Millijoules) { e.Read, e.Total = -2, 17 }, func(e *dram.Millijoules) { e.UnitRead, e.Total = -3, 15 },
		func(e *dram.Millijoules) { e.Write, e.Total = -4, 13 }, func(e *dram.Millijoules) { e.Refresh, e.Total = -5, 11 }, func(e *dram.Millijoules) { e.Background, e.Total = -6, 9 }, func(e *dram.Millijoules) { e.Total = 20 },
	} {
		wrong := right
		if plant(&wrong); energyLaw(&wrong) == nil {
			t.Errorf("mistake %d passes: %+v", i, wrong)
		}
	}
}
