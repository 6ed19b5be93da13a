package check

import (
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
)

// rules returns the rules that the records violate.
func rules(spec *dram.Spec, ranks int, records []Record) []string {
	var names []string
	for _, v := range checkRecords(spec, ranks, false, records) {
		names = append(names, v.Rule)
	}
	return names
}

// TestPowerDown: the commands that a rank in power-down or self-refresh accepts, and when it accepts others again.
func TestPowerDown(t *testing.T) {
	s := part(t, ddr43200)
	all, bank := at(0, -1, -1, -1, -1), at(0, 0, 0, 7, -1)
	read := bank
	read.Column = 0
	for _, c := range []struct {
		rules   []string
		records []Record
	}{
		{nil, []Record{{0, dram.ACT, bank}, {30, dram.PDE, all}, {38, dram.PDX, all}, {48, dram.RD, read}}},
		{[]string{"tXP"}, []Record{{0, dram.ACT, bank}, {30, dram.PDE, all}, {38, dram.PDX, all}, {47, dram.RD, read}}},
		{[]string{"tPD"}, []Record{{30, dram.PDE, all}, {37, dram.PDX, all}}},
		{[]string{"tPDEN"}, []Record{{0, dram.ACT, bank}, {1, dram.PDE, all}}},
		{[]string{"power state"}, []Record{{0, dram.ACT, bank}, {30, dram.PDE, all}, {60, dram.RD, read}}},
		{[]string{"power state"}, []Record{{30, dram.PDE, all}, {60, dram.PDE, all}}},
		{[]string{"power state"}, []Record{{30, dram.PDX, all}}},
		{[]string{"power state"}, []Record{{30, dram.SRE, all}, {60, dram.PDX, all}}},
		{nil, []Record{{30, dram.SRE, all}, {39, dram.SRX, all}, {39 + 576, dram.ACT, bank}}},
		{[]string{"tXS"}, []Record{{30, dram.SRE, all}, {39, dram.SRX, all}, {39 + 575, dram.ACT, bank}}},
		{[]string{"tCKESR"}, []Record{{30, dram.SRE, all}, {38, dram.SRX, all}}},
		{[]string{"tXSDLL"}, []Record{{30, dram.SRE, all}, {39, dram.SRX, all}, {700, dram.ACT, bank}, {39 + 1023, dram.RD, read}}},
		{[]string{"bank state"}, []Record{{0, dram.ACT, bank}, {100, dram.SRE, all}}},
		// Other ranks continue.
		{nil, []Record{{30, dram.SRE, all}, {31, dram.ACT, at(1, 0, 0, 7, -1)}}},
		// No refresh becomes due in self-refresh; after it, 8 REFs may be owed as before.
		{nil, []Record{{30, dram.SRE, all}, {50 * 12480, dram.SRX, all}, {58*12480 - 100, dram.ACT, bank}}},
		{[]string{"refresh debt"}, []Record{{30, dram.SRE, all}, {50 * 12480, dram.SRX, all}, {59 * 12480, dram.ACT, bank}}},
	} {
		ranks := 1 + int(slices.MaxFunc(c.records, func(a, b Record) int { return int(a.Address.Rank - b.Address.Rank) }).Address.Rank)
		if got := rules(s, ranks, c.records); !slices.Equal(got, c.rules) {
			t.Errorf("%v: %q, want %q", c.records, got, c.rules)
		}
	}
}

// TestRefreshExcess: a rank may have at most 16 REFs within 2 tREFI, even if it may owe 8 and be 8 ahead.
func TestRefreshExcess(t *testing.T) {
	s := part(t, ddr43200)
	var records []Record
	for i := range int64(17) {
		records = append(records, Record{9*12480 - 1 + i*560, dram.REF, at(0, -1, -1, -1, -1)})
	}
	if got := rules(s, 1, records); !slices.Equal(got, []string{"refresh excess"}) {
		t.Errorf("%q, want the seventeenth", got)
	}
	records[16].Clock = records[0].Clock + 2*12480
	if got := rules(s, 1, records); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

// TestExtraRefresh: after self-refresh a rank may be one more REF ahead, since it needs one beyond those of every tREFI.
func TestExtraRefresh(t *testing.T) {
	s := part(t, ddr43200)
	for _, asleep := range []bool{false, true} {
		var records []Record
		most := 9 // the first becomes due within the first tREFI
		if asleep {
			records, most = []Record{{30, dram.SRE, at(0, -1, -1, -1, -1)}, {39, dram.SRX, at(0, -1, -1, -1, -1)}}, 10
		}
		for i := range most + 1 {
			if got := rules(s, 1, records); len(got) > 0 {
				t.Errorf("after self-refresh %v: %d REFs: %q", asleep, i, got)
			}
			records = append(records, Record{700 + int64(i)*560, dram.REF, at(0, -1, -1, -1, -1)})
		}
		if got := rules(s, 1, records); !slices.Equal(got, []string{"refresh pull-in"}) {
			t.Errorf("after self-refresh %v: %d REFs: %q", asleep, most+1, got)
		}
	}
}

// TestRefreshByBanks: on every standard, partial refreshes that cover all banks are sufficient, and leaving out one bank is not.
func TestRefreshByBanks(t *testing.T) {
	for _, standard := range dram.Standards() {
		s := part(t, standard.PartNames()[0])
		for _, f := range standard.Refreshes {
			for _, skip := range []bool{false, true} {
				ranks := standard.PseudoChannels
				q := dram.NewSequence(s, ranks)
				var records []Record
				q.Issued = func(step int64, c dram.Command, a dram.Address) { records = append(records, Record{step, c, a}) }
				interval := s.BusSteps(s.TREFI)
				for n := range int64(12) {
					for rank := range int32(ranks) {
						for i := range s.Banks() {
							a := place(s, f.Command, at(rank, int32(i/s.BanksPerGroup), int32(i%s.BanksPerGroup), -1, -1))
							first, stride, _ := s.Spanned(f.Command, a)
							if i != first || skip && i == 1 || skip && i == 0 && stride == 1 && f.Command.AllBank() && n > 0 {
								continue // refreshed together with another bank
							}
							q.Issue(f.Command, a, n*interval)
						}
					}
				}
				q.Issue(dram.PREA, at(0, -1, -1, -1, -1), 12*interval) // late enough for debts to be found
				slices.SortStableFunc(records, func(a, b Record) int { return int(a.Clock - b.Clock) })
				got := rules(s, ranks, records)
				if late := slices.Contains(got, "refresh debt"); late != skip || !skip && len(got) > 0 {
					t.Errorf("%s, %v, one left out: %v: %q", s.Name, f.Command, skip, got)
				}
			}
		}
	}
}

// TestRefreshManagement: with a device that requires RFM, the activations of each bank are counted.
func TestRefreshManagement(t *testing.T) {
	s := part(t, "ddr5-4800-16gb-x8")
	for key, value := range map[string]string{"RAAIMT": "2", "RAAMMT": "4"} {
		if err := s.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		want   bool
		manage dram.Command
		times  int
	}{{true, dram.PRE, 0}, {true, dram.RFMsb, 1}, {false, dram.RFMsb, 2}, {false, dram.REFsb, 2}, {false, dram.RFM, 2}} {
		q := dram.NewSequence(s, 1)
		var records []Record
		q.Issued = func(step int64, c dram.Command, a dram.Address) { records = append(records, Record{step, c, a}) }
		now := int64(0)
		cycle := func(times int) {
			for range times {
				now = q.Issue(dram.ACT, at(0, 1, 2, 7, -1), now)
				now = q.Issue(dram.PRE, at(0, 1, 2, -1, -1), now)
			}
		}
		cycle(4)
		for range c.times {
			now = q.Issue(c.manage, place(s, c.manage, at(0, 1, 2, -1, -1)), now)
		}
		cycle(3)
		got := rules(s, 1, records)
		if slices.Contains(got, "refresh management") != c.want || !c.want && len(got) > 0 {
			t.Errorf("%d %v after four activations, then three: %q", c.times, c.manage, got)
		}
	}
}

// TestSelfRefreshTakesAllOff: if a device allows four activations, it allows four more after self-refresh, and not five.
func TestSelfRefreshTakesAllOff(t *testing.T) {
	s := part(t, "ddr5-4800-16gb-x8")
	for key, value := range map[string]string{"RAAIMT": "2", "RAAMMT": "4"} {
		if err := s.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	for more, want := range map[int]bool{4: false, 5: true} {
		q := dram.NewSequence(s, 1)
		var records []Record
		q.Issued = func(step int64, c dram.Command, a dram.Address) { records = append(records, Record{step, c, a}) }
		now := int64(0)
		for i := range 4 + more {
			if i == 4 {
				now = q.Issue(dram.SRE, place(s, dram.SRE, at(0, 1, 2, -1, -1)), now)
				now = q.Issue(dram.SRX, place(s, dram.SRX, at(0, 1, 2, -1, -1)), now)
			}
			now = q.Issue(dram.ACT, at(0, 1, 2, 7, -1), now)
			now = q.Issue(dram.PRE, at(0, 1, 2, -1, -1), now)
		}
		if got := rules(s, 1, records); slices.Contains(got, "refresh management") != want || !want && len(got) > 0 {
			t.Errorf("%d activations after self-refresh: %q", more, got)
		}
	}
}

// TestManagementOfPseudoChannel: an RFM of a pseudo-channel lowers the counts of all its ranks, and of no other's.
func TestManagementOfPseudoChannel(t *testing.T) {
	table, err := dram.ReadStandard("managed.toml", strings.NewReader(`
standard = "managed"
base = "hbm3"
activations = "4 | 4"
`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := table.Part("managed-6400-16gb-8h")
	if err != nil {
		t.Fatal(err)
	}
	for rank := range int32(4) {
		q := dram.NewSequence(s, 4)
		c := NewChecker(s, 4, false)
		q.Issued = func(step int64, cmd dram.Command, a dram.Address) { c.Check(Record{step, cmd, a}) }
		now := int64(0)
		for i := range 8 {
			if i == 4 {
				now = q.Issue(dram.RFM, at(0, -1, -1, -1, -1), now)
			}
			now = q.Issue(dram.ACT, at(rank, 1, 2, 7, -1), now)
			now = q.Issue(dram.PRE, at(rank, 1, 2, -1, -1), now)
		}
		if broken := len(c.Violations()) > 0; broken != (rank >= 2) {
			t.Errorf("rank %d after an RFM of ranks 0 and 1: %+v", rank, c.Violations())
		}
	}
}
