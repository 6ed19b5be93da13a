package controller

import (
	"testing"

	"github.com/l3sim/l3sim/dram"
)

// TestPlacesByHand: banks are numbered rank by rank, group by group: with 3 banks in each of 2 groups, the tenth is the second of the second rank's second
// group and its rank's fifth.
func TestPlacesByHand(t *testing.T) {
	spec := &dram.Spec{}
	spec.BankGroups, spec.BanksPerGroup = 2, 3
	list := places(spec, 2)
	for i, want := range map[int]place{
		0: {dram.Address{Row: -1, Column: -1}, 1}, 2: {dram.Address{Bank: 2, Row: -1, Column: -1}, 4}, 3: {dram.Address{BankGroup: 1, Row: -1, Column: -1}, 8},
		6: {dram.Address{Rank: 1, Row: -1, Column: -1}, 1}, 10: {dram.Address{Rank: 1, BankGroup: 1, Bank: 1, Row: -1, Column: -1}, 16},
	} {
		if list[i] != want {
			t.Errorf("bank %d: %+v, want %+v", i, list[i], want)
		}
	}
	if len(list) != 12 {
		t.Errorf("%d banks", len(list))
	}
}
