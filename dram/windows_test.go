package dram

import "testing"

// TestWindowsOfStandards: after as many simultaneous commands as a window holds, one more waits for the window's clocks; with one command
// fewer, only the other rules apply.
func TestWindowsOfStandards(t *testing.T) {
	seen := 0
	for _, standard := range Standards() {
		s, err := standard.Part(standard.PartNames()[0])
		if err != nil {
			t.Fatal(err)
		}
		address := func(c Command, bank int) Address {
			a := Address{BankGroup: int32(bank % s.BankGroups), Bank: int32(bank / s.BankGroups), Row: 1, Column: -1}
			switch standard.Action(c).Span {
			case WholeRank, WholeChannel:
				a.BankGroup, a.Bank = -1, -1
			case SameBanks:
				a.BankGroup = -1
			}
			return a
		}
		for _, row := range s.Constraints() {
			if row.Window < 2 || row.Window+1 > s.Banks() || standard.Action(row.Command).Span >= SameBanks || standard.Action(row.Next).Span >= SameBanks {
				continue
			}
			seen++
			after := func(n int) int64 {
				state := NewState(s, standard.PseudoChannels)
				for i := range n {
					state.Issue(row.Command, address(row.Command, i), 0)
				}
				return state.Earliest(row.Next, address(row.Next, row.Window))
			}
			if full, room := after(row.Window), after(row.Window-1); full < int64(row.Clocks) || room >= full && full == int64(row.Clocks) {
				t.Errorf("%s: %s, %v behind %d %v: %d steps, %d behind one fewer; the window has %d", s.Name, row.Rule, row.Next, row.Window, row.Command, full, room, row.Clocks)
			}
		}
	}
	if seen < 7 {
		t.Errorf("%d windows of %d standards", seen, len(Standards()))
	}
}
