package dram

import (
	"testing"

	"pgregory.net/rapid"
)

// helper is the common part of testing.TB and rapid.T.
type helper interface {
	Helper()
	Fatal(...any)
}

// part returns the named spec.
func part(tb helper, name string) *Spec {
	tb.Helper()
	s, err := LookupSpec(name)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

const ddr43200 = "ddr4-3200-8gb-x8"

// at returns the address of a bank of rank 0.
func at(group, bank int32) Address { return Address{BankGroup: group, Bank: bank} }

// all is the address of an all-bank command of rank 0.
var all = Address{BankGroup: -1, Bank: -1}

// TestDistances compares Earliest after one command with the distances of the standard's timing diagrams, for DDR4-3200AA 8 Gb x8.
func TestDistances(t *testing.T) {
	other := Address{Rank: 1}
	for _, c := range []struct {
		first Command
		a     Address
		next  Command
		b     Address
		want  int64
	}{
		{ACT, at(0, 0), RD, at(0, 0), 22},                // tRCD
		{ACT, at(0, 0), PRE, at(0, 0), 52},               // tRAS
		{ACT, at(0, 0), ACT, at(0, 0), 74},               // tRC
		{ACT, at(0, 0), ACT, at(0, 1), 8},                // tRRD_L
		{ACT, at(0, 0), ACT, at(1, 0), 4},                // tRRD_S
		{ACT, at(0, 0), ACT, other, 0},                   // ranks are independent
		{ACT, at(0, 0), RD, at(0, 1), 0},                 // tRCD concerns one bank alone
		{ACT, at(0, 0), REF, all, 74},                    // tRC
		{PRE, at(0, 0), ACT, at(0, 0), 22},               // tRP
		{PRE, at(0, 0), REF, all, 22},                    // tRP
		{PREA, all, ACT, at(3, 3), 22},                   // tRP
		{RD, at(0, 0), RD, at(0, 0), 8},                  // tCCD_L
		{RD, at(0, 0), RDA, at(0, 3), 8},                 // tCCD_L
		{RD, at(0, 0), RD, at(1, 0), 4},                  // tCCD_S
		{RD, at(0, 0), RD, other, 5},                     // BL/2 + tRTRS
		{RD, at(0, 0), WR, at(2, 0), 12},                 // CL + BL/2 + 2 - CWL
		{RD, at(0, 0), WR, other, 11},                    // CL + BL/2 + tRTRS - CWL
		{RD, at(0, 0), PRE, at(0, 0), 12},                // tRTP
		{RD, at(0, 0), PRE, at(0, 1), 0},                 //
		{RD, at(0, 0), PREA, all, 12},                    // tRTP
		{RDA, at(0, 0), ACT, at(0, 0), 34},               // tRTP + tRP
		{RDA, at(0, 0), REF, all, 34},                    // tRTP + tRP
		{WR, at(0, 0), WR, at(1, 0), 4},                  // tCCD_S
		{WR, at(0, 0), WR, at(0, 1), 8},                  // tCCD_L
		{WR, at(0, 0), WR, other, 5},                     // BL/2 + tRTRS
		{WR, at(0, 0), RD, at(1, 0), 24},                 // CWL + BL/2 + tWTR_S
		{WR, at(0, 0), RD, at(0, 1), 32},                 // CWL + BL/2 + tWTR_L
		{WR, at(0, 0), RD, other, 0},                     // the write's data is over before the read's
		{WR, at(0, 0), PRE, at(0, 0), 44},                // CWL + BL/2 + tWR
		{WRA, at(0, 0), ACT, at(0, 0), 66},               // CWL + BL/2 + tWR + tRP
		{REF, all, ACT, at(0, 0), 560},                   // tRFC
		{REF, all, REF, all, 560},                        // tRFC
		{REF, all, ACT, other, 0},                        //
		{ACTA, all, MACA, all, 22},                       // tRCD
		{ACT, at(3, 3), MACA, all, 22},                   // tRCD
		{MACA, all, MACA, all, 8},                        // tCCD_L
		{MACA, all, PREA, all, 12},                       // tRTP
		{MACA, all, RDRES, all, 0},                       // buffers pass the banks
		{WR, at(1, 1), MACA, all, 32},                    // CWL + BL/2 + tWTR_L
		{RDRES, all, RDRES, all, 4},                      // BL/2
		{WRBUF, all, WRBUF, all, 4},                      // BL/2
		{RDRES, all, WRBUF, all, 12},                     // CL + BL/2 + 2 - CWL
		{WRBUF, all, RDRES, all, 0},                      // CWL + BL/2 + 2 - CL
		{RDRES, all, RD, Address{Rank: 1}, 0},            // a rank's private bus
		{ACTA, all, ACTA, all, 74},                       // tRC
		{PREA, all, ACTA, all, 22},                       // tRP
		{RDRES, all, RD, at(0, 0), 4},                    // BL/2
		{WR, at(0, 0), WRBUF, all, 4},                    // BL/2
		{MACA, all, WR, at(0, 0), 8},                     // tCCD_L
		{ACTA, all, PREA, all, 52},                       // tRAS
		{REF, all, RDRES, all, 560},                      // tRFC
		{WRA, at(0, 0), ACTA, all, 66},                   // tWR + tRP
		{ACT, at(2, 1), ACTA, all, 74},                   // tRC
		{ACT, at(0, 0), WRA, at(0, 0), 22},               // tRCD
		{RDA, at(0, 0), WRA, Address{1, 0, 0, 0, 0}, 11}, // CL + BL/2 + tRTRS - CWL
	} {
		s := NewState(part(t, ddr43200), 2)
		s.Issue(c.first, c.a, 1000)
		if got := s.Earliest(c.next, c.b); got != max(0, c.want+1000) && (c.want != 0 || got != 0) {
			t.Errorf("%v %v then %v %v: got %d, want %d", c.first, c.a, c.next, c.b, got-1000, c.want)
		}
	}
}

// TestPIMDistancesOnDDR5: commands of the DIMM-PIM on DDR5-4800, 12 clocks between columns. Rules count from a command's last clock, so
// that a command of two clocks before one of one adds a clock, and the reverse order subtracts one.
func TestPIMDistancesOnDDR5(t *testing.T) {
	at := func(group, bank int32) Address { return Address{0, group, bank, 0, 0} }
	all := Address{0, -1, -1, -1, -1}
	for _, c := range []struct {
		first Command
		a     Address
		next  Command
		b     Address
		want  int64
	}{
		{ACTA, all, MACA, all, 39},     // tRCD
		{ACT, at(7, 3), MACA, all, 39}, // tRCD
		{ACTA, all, PREA, all, 77 + 1}, // tRAS
		{ACTA, all, ACTA, all, 116},    // tRC
		{ACTA, all, REF, all, 116 + 1}, // tRC
		{PREA, all, ACTA, all, 39 - 1}, // tRP
		{PREsb, Address{0, -1, 2, -1, -1}, ACTA, all, 39 - 1},
		{REFsb, Address{0, -1, 2, -1, -1}, ACTA, all, 312 - 1}, // tRFCsb, not tREFSBRD
		{REF, all, MACA, all, 708 - 1},                         // tRFC
		{REF, all, WRBUF, all, 708 - 1},                        // tRFC
		{MACA, all, MACA, all, 12},                             // tCCD_L
		{MACA, all, RD, at(3, 1), 12},                          // tCCD_L
		{MACA, all, WR, at(3, 1), 12},                          // tCCD_L, not tCCD_L_WR
		{MACA, all, PREA, all, 18 + 1},                         // tRTP
		{MACA, all, RDRES, all, 0},                             // buffers pass the banks
		{MACA, all, WRBUF, all, 0},                             //
		{WR, at(1, 1), MACA, all, 38 + 8 + 24},                 // CWL + BL/2 + tWTR_L
		{WRBUF, all, MACA, all, 0},                             // the program has to wait for the buffer itself
		{RDRES, all, RDRES, all, 8},                            // BL/2
		{WRBUF, all, WRBUF, all, 8},                            // BL/2
		{RDRES, all, RD, at(0, 0), 8},                          // BL/2
		{WR, at(0, 0), WRBUF, all, 8},                          // BL/2
		{RDRES, all, WRBUF, all, 14},                           // CL + BL/2 + 4 - CWL
		{WRBUF, all, RDRES, all, 38 + 8 + 3 - 40},              // CWL + BL/2 + 3 - CL
		{RDRES, all, RDRES, Address{1, -1, -1, -1, -1}, 0},     // a rank's private bus
	} {
		s := NewState(part(t, "ddr5-4800-16gb-x8"), 2)
		s.Issue(c.first, c.a, 10_000)
		if got := s.Earliest(c.next, c.b); got != c.want+10_000 && (c.want != 0 || got > 10_000) {
			t.Errorf("%v %v then %v %v: got %d, want %d", c.first, c.a, c.next, c.b, got-10_000, c.want)
		}
	}
}

// TestLongestRuleCounts: if two rules apply to the same commands, the longer distance counts.
func TestLongestRuleCounts(t *testing.T) {
	for _, clocks := range [][2]int64{{3, 5}, {5, 3}} {
		list := addStep(addStep(nil, step{uint8(ACT), clocks[0]}), step{uint8(ACT), clocks[1]})
		if len(list) != 1 || list[0].clocks != 5 {
			t.Errorf("%v: %v", clocks, list)
		}
	}
}

// TestStaggeredActivation opens all 16 banks as fast as tRRD and tFAW allow:
// three windows of 34 and three steps of 4 in the last (DESIGN: A = 114).
func TestStaggeredActivation(t *testing.T) {
	s := NewState(part(t, ddr43200), 1)
	var last int64
	for i := range int32(16) {
		a := at(i%4, i/4)
		last = s.Earliest(ACT, a)
		s.Issue(ACT, a, last)
	}
	if want := int64(3*34 + 3*4); last != want {
		t.Errorf("16th ACT at %d, want %d", last, want)
	}
	if got := s.Earliest(MACA, all); got != last+22 {
		t.Errorf("MACA at %d, want %d", got, last+22)
	}
}

// TestActivationWindows issues random ACTs at or after the earliest clock, for every part, and checks tRRD_S, tRRD_L and tFAW from the
// clocks alone.
func TestActivationWindows(t *testing.T) {
	names := SpecNames()
	rapid.Check(t, func(t *rapid.T) {
		spec, err := LookupSpec(rapid.SampledFrom(names).Draw(t, "spec"))
		if err != nil {
			t.Fatal(err)
		}
		s := NewState(spec, 1)
		var clocks []int64
		var groups []int32
		var clock int64
		for range 40 {
			a := at(rapid.Int32Range(0, int32(spec.BankGroups)-1).Draw(t, "group"),
				rapid.Int32Range(0, int32(spec.BanksPerGroup)-1).Draw(t, "bank"))
			earliest := s.Earliest(ACT, a)
			clock = max(clock, earliest) + rapid.SampledFrom([]int64{0, 0, 0, 1, 50}).Draw(t, "wait")
			s.Issue(ACT, a, clock)
			n := len(clocks)
			if n > 0 && clock-clocks[n-1] < int64(spec.TRRDS) {
				t.Fatalf("tRRD_S: %d after %d", clock, clocks[n-1])
			}
			if n >= 4 && clock-clocks[n-4] < int64(spec.TFAW) {
				t.Fatalf("tFAW: %d after %d", clock, clocks[n-4])
			}
			for i, g := range groups {
				if g == a.BankGroup && clock-clocks[i] < int64(spec.TRRDL) {
					t.Fatalf("tRRD_L: %d after %d", clock, clocks[i])
				}
			}
			clocks, groups = append(clocks, clock), append(groups, a.BankGroup)
		}
	})
}

func TestOpenRows(t *testing.T) {
	s := NewState(part(t, ddr43200), 2)
	one, two := Address{0, 1, 2, 77, 0}, Address{1, 1, 2, 78, 0}
	s.Issue(ACT, one, 0)
	s.Issue(ACT, two, 4)
	if s.openRow(one) != 77 || s.openRow(two) != 78 || s.openRow(at(0, 0)) != -1 {
		t.Errorf("after ACT: %d, %d, %d", s.openRow(one), s.openRow(two), s.openRow(at(0, 0)))
	}
	s.Issue(RDA, one, 30)
	s.Issue(PREA, Address{Rank: 1, BankGroup: -1, Bank: -1}, 90)
	if s.openRow(one) != -1 || s.openRow(two) != -1 {
		t.Errorf("after RDA and PREA: %d, %d", s.openRow(one), s.openRow(two))
	}
	s.Issue(ACTA, Address{0, -1, -1, 5, 0}, 200)
	if s.openRow(one) != 5 || s.openRow(at(3, 3)) != 5 || s.openRow(two) != -1 {
		t.Errorf("after ACTA: %d, %d, %d", s.openRow(one), s.openRow(at(3, 3)), s.openRow(two))
	}
	s.Reset()
	if s.openRow(one) != -1 || s.Earliest(ACT, one) != 0 {
		t.Errorf("after Reset: row %d, ACT at %d", s.openRow(one), s.Earliest(ACT, one))
	}
}

func TestStateDoesNotAllocate(t *testing.T) {
	s := NewState(part(t, ddr43200), 4)
	a := Address{2, 1, 3, 9, 1}
	if n := testing.AllocsPerRun(100, func() {
		for c := range Command(Commands) {
			s.Issue(c, a, s.Earliest(c, a))
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkMACA times Earliest and Issue in the stream of all-bank reads of a PIM program.
func BenchmarkMACA(b *testing.B) {
	s := NewState(part(b, ddr43200), 1)
	s.Issue(ACTA, all, 0)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for range 1000 {
			s.Issue(MACA, all, s.Earliest(MACA, all))
		}
		n += 1000
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mcommands/s")
}

// openRow returns the row that is open in a's bank, -1 if it is precharged.
func (s *State) openRow(a Address) int32 {
	return s.rows[(int(a.Rank)*s.groupsPerRank+int(a.BankGroup))*s.banksPerGroup+int(a.Bank)]
}

// TestShift: a shifted state allows every command later by the shift, also with activations before it in the tFAW window.
func TestShift(t *testing.T) {
	const by = 12345
	run := func(shift int64) *State {
		s := NewState(part(t, ddr43200), 2)
		for i, clock := range []int64{0, 8, 16, 24} {
			if i == 2 {
				s.Shift(shift)
			}
			if i >= 2 {
				clock += shift
			}
			s.Issue(ACT, Address{BankGroup: int32(i), Row: 7}, clock)
		}
		return s
	}
	still, shifted := run(0), run(by)
	for _, cmd := range []Command{ACT, PRE, RD, WR, REF} {
		for _, a := range []Address{{Bank: 1, Row: 7}, {BankGroup: 2, Row: 7}, {Rank: 1, Row: 7}} {
			if before, after := still.Earliest(cmd, a), shifted.Earliest(cmd, a); after != before+by {
				t.Errorf("%v at %+v is allowed at %d, shifted by %d at %d", cmd, a, before, int64(by), after)
			}
		}
	}
}
