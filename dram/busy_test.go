package dram

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestOccupancyByHand: the time for which commands keep ranks and banks busy, from the spec's timings. A step is one clock in DDR4 and
// DDR5.
func TestOccupancyByHand(t *testing.T) {
	type busy struct {
		part     Part
		index    int
		from, to int64
		command  Command
	}
	run := func(spec string, ranks int, commands ...Busy) (s *Spec, got []busy) {
		s, err := LookupSpec(spec)
		if err != nil {
			t.Fatal(err)
		}
		o := NewOccupancy(s, ranks, func(b Busy) {
			if b.Part != OnCommandBus {
				got = append(got, busy{b.Part, b.Index, b.From, b.To, b.Command})
			} else if b.From >= b.To || b.Command >= Commands {
				t.Errorf("%+v", b)
			}
		})
		for _, c := range commands {
			o.Command(c.From, c.Command, c.Address)
		}
		o.Close(9000)
		return s, got
	}
	at := func(step int64, c Command, rank, group, bank int) Busy {
		return Busy{From: step, Command: c, Address: Address{Rank: int32(rank), BankGroup: int32(group), Bank: int32(bank)}}
	}
	equal := func(got []busy, want ...busy) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("\ngot  %v\nwant %v", got, want)
		}
	}
	// Bank 2 of group 1 of rank 1 is bank 32 + 6 of all. It has a row open from its ACT to its PRE, bank 3 until the end.
	s, got := run("ddr4-3200-8gb-x8", 2, at(100, ACT, 1, 1, 2), at(130, ACT, 1, 1, 3), at(200, RD, 1, 1, 2), at(250, WR, 1, 1, 2), at(400, PRE, 1, 1, 2), at(500, PRE, 1, 1, 2))
	read, write, burst := int64(200+s.CL), int64(250+s.CWL), int64(s.BurstLength/2)
	if s.Banks() != 16 {
		t.Fatal(s.Banks())
	}
	equal(got, busy{OnDataBus, 1, read, read + burst, RD}, busy{OnDataBus, 1, write, write + burst, WR}, busy{OnBank, 16 + 6, 100, 400, ACT}, busy{OnBank, 16 + 7, 130, 9000, ACT})
	// An access with auto-precharge closes its row tRTP after a read, or tWR after a write's data.
	s, got = run("ddr4-3200-8gb-x8", 1, at(0, ACT, 0, 0, 0), at(100, RDA, 0, 0, 0), at(1000, ACT, 0, 0, 1), at(1100, WRA, 0, 0, 1))
	read, write = int64(100+s.CL), int64(1100+s.CWL)
	equal(got, busy{OnDataBus, 0, read, read + burst, RDA}, busy{OnBank, 0, 0, 100 + int64(s.TRTP), ACT},
		busy{OnDataBus, 0, write, write + burst, WRA}, busy{OnBank, 1, 1000, write + burst + int64(s.TWR), ACT})
	// PREA closes all rows of a rank; REF occupies that rank alone, for tRFC.
	s, got = run("ddr4-3200-8gb-x8", 2, at(0, ACT, 0, 0, 0), at(10, ACT, 0, 3, 3), at(20, ACT, 1, 0, 0), at(200, PREA, 0, -1, -1), at(300, REF, 0, -1, -1), at(2000, REF, 1, -1, -1))
	equal(got, busy{OnBank, 0, 0, 200, ACT}, busy{OnBank, 15, 10, 200, ACT}, busy{OnRank, 0, 300, 300 + int64(s.TRFC), REF}, busy{OnRank, 1, 2000, 2000 + int64(s.TRFC), REF},
		busy{OnBank, 16, 20, 9000, ACT})
	// REFsb occupies one bank of each group for tRFCsb (130 ns, 312 clocks with JEDEC's rounding), until the first of the two clocks of the
	// next ACT.
	s, got = run("ddr5-4800-16gb-x8", 1, at(50, REFsb, 0, -1, 2))
	var want []busy
	for group := range s.BankGroups {
		want = append(want, busy{OnBank, group*s.BanksPerGroup + 2, 50, 50 + 312 - 1, REFsb})
	}
	equal(got, want...)
	if len(want) != 8 {
		t.Errorf("%d groups", len(want))
	}
}

// TestRefreshOfAChannel: a refresh of a whole channel occupies all its ranks, whichever rank it names; in a device with two
// pseudo-channels, the ranks of one.
func TestRefreshOfAChannel(t *testing.T) {
	for pseudo, ranks := range map[int][]int{1: {0, 1, 2, 3}, 2: {2, 3}} {
		table, err := ReadStandard("t", strings.NewReader(fmt.Sprintf("standard = 'mine'\nbase = 'ddr4'\npseudo_channels = %d\ncommands = ['REF | command | 1 | pseudo-channel | closed | any']", pseudo)))
		if err != nil {
			t.Fatal(err)
		}
		s, err := table.Part("mine-3200-8gb-x8")
		if err != nil {
			t.Fatal(err)
		}
		var got []Busy
		NewOccupancy(s, 4, func(b Busy) {
			if b.Part != OnCommandBus {
				got = append(got, b)
			}
		}).Command(300, REF, Address{Rank: 3, BankGroup: -1, Bank: -1})
		if len(got) != len(ranks) {
			t.Fatalf("%d pseudo-channels: %+v", pseudo, got)
		}
		for i, rank := range ranks {
			if want := (Busy{OnRank, rank, 300, 300 + int64(s.TRFC), REF, Address{Rank: 3, BankGroup: -1, Bank: -1}}); got[i] != want {
				t.Errorf("%d pseudo-channels: %+v, want %+v", pseudo, got[i], want)
			}
		}
	}
}

// TestStackedRowsByHand: a stack of four dies has four times the rows of a bank, each with the row and layer of its own die.
func TestStackedRowsByHand(t *testing.T) {
	spec, err := LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	s := *spec
	for dies, want := range map[int]int{0: 1, 1: 1, 4: 4} {
		s.Dies = dies
		if s.Stack() != want || s.RankRows() != want*65536 || s.RowBytes() != 8192 || s.LayerBytes() != 8<<30 {
			t.Errorf("%d dies: %d rows of %v, %v a layer", dies, s.RankRows(), s.RowBytes(), s.LayerBytes())
		}
	}
}

// TestMillijoulesByHand: each component in millijoules, and as a line of text.
func TestMillijoulesByHand(t *testing.T) {
	spec, err := LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	e := &Energy{ActivateJoules: 1, ReadJoules: 2, UnitReadJoules: 4, WriteJoules: 8, RefreshJoules: 16, BackgroundJoules: 32}
	m := NewMillijoules(spec, e)
	if want := (Millijoules{"", 1000, 2000, 4000, 8000, 16_000, 32_000, 63_000}); m != want {
		t.Errorf("%+v, want %+v", m, want)
	}
	line := func(m Millijoules) string {
		var b strings.Builder
		m.WriteLine(&b)
		return b.String()
	}
	const want = "energy\t63000.0000 mJ\tactivate 1000.0000, read 2000.0000, write 8000.0000, refresh 16000.0000, background 32000.0000"
	if got := line(m); got != want+", for units 4000.0000\n" {
		t.Errorf("%q", got)
	}
	if m.UnitRead = 0; line(m) != want+"\n" {
		t.Errorf("%q", line(m))
	}
	if m.UnitRead, m.NotEstimated = 1e-4, "unknown"; line(m) != "energy\tnot estimated\tunknown\n" {
		t.Errorf("%q", line(m))
	}
}

// TestRelativeStateByHand: the same commands 1,000 steps later leave the same relative state, and other commands a different one.
func TestRelativeStateByHand(t *testing.T) {
	spec, err := LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	a := Address{}
	after := func(start, now int64, next Command) []int64 {
		s := NewState(spec, 2)
		s.Issue(ACT, a, start)
		s.Issue(next, a, start+200)
		return s.AppendRelative([]int64{7}, now)
	}
	first := after(100, 305, RD)
	if again := after(1100, 1305, RD); !slices.Equal(first, again) || first[0] != 7 || slices.Max(first[1:]) <= 0 {
		t.Errorf("%v, later %v", first, again)
	}
	for _, other := range [][]int64{after(100, 304, RD), after(100, 305, WR), after(101, 305, RD)} {
		if slices.Equal(first, other) {
			t.Errorf("%v of other commands", other)
		}
	}
	if gone := after(100, 1_000_000, RD); slices.Max(gone[1:]) > 0 {
		t.Errorf("%v long after all", gone)
	}
}
