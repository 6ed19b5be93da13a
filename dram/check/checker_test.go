package check

import (
	"os"
	"path/filepath"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
)

// checkRecords returns the violations of records, without those of allowed rules.
func checkRecords(spec *dram.Spec, ranks int, private bool, records []Record, allow ...string) []Violation {
	c := NewChecker(spec, ranks, private)
	for _, r := range records {
		c.Check(r)
	}
	return slices.DeleteFunc(c.Violations(), func(v Violation) bool { return slices.Contains(allow, v.Rule) })
}

// TestCheckerTable issues the second command of a pair one clock too early, then on time, and requires the name of the violated rule.
func TestCheckerTable(t *testing.T) {
	open := func(b int32) Record { return Record{0, dram.ACT, at(0, b/4, b%4, 7, -1)} }
	bank := func(g, b int32) dram.Address { return at(0, g, b, 7, 0) }
	two := []Record{open(0), {100, dram.ACT, at(0, 1, 0, 7, -1)}}
	three := append(slices.Clone(two), Record{200, dram.ACT, at(0, 0, 1, 7, -1)})
	other := append(slices.Clone(two), Record{200, dram.ACT, at(1, 0, 0, 7, -1)})
	allRanks := at(0, -1, -1, -1, -1)
	acta := []Record{{0, dram.ACTA, at(0, -1, -1, 7, -1)}}
	for _, c := range []struct {
		rule   string
		before []Record
		first  Record
		second dram.Command
		at     dram.Address
		clocks int64
	}{
		{"tRCD", nil, Record{1000, dram.ACT, bank(0, 0)}, dram.RD, bank(0, 0), 22},
		{"tRAS", nil, Record{1000, dram.ACT, bank(0, 0)}, dram.PRE, bank(0, 0), 52},
		{"tRRD_S", nil, Record{1000, dram.ACT, bank(0, 0)}, dram.ACT, bank(1, 0), 4},
		{"tRRD_L", nil, Record{1000, dram.ACT, bank(0, 0)}, dram.ACT, bank(0, 1), 8},
		{"tRP", two, Record{1000, dram.PRE, bank(0, 0)}, dram.ACT, bank(0, 0), 22},
		{"tRP", two[:1], Record{1000, dram.PREA, allRanks}, dram.REF, allRanks, 22},
		{"tRTP", two, Record{1000, dram.RD, bank(0, 0)}, dram.PRE, bank(0, 0), 12},
		{"tWR", two, Record{1000, dram.WR, bank(0, 0)}, dram.PREA, allRanks, 44},
		{"tCCD_L", three, Record{1000, dram.RD, bank(0, 0)}, dram.RD, bank(0, 1), 8},
		{"tCCD_S", two, Record{1000, dram.WR, bank(0, 0)}, dram.WR, bank(1, 0), 4},
		{"tWTR_L", three, Record{1000, dram.WR, bank(0, 0)}, dram.RD, bank(0, 1), 32},
		{"tWTR_S", two, Record{1000, dram.WR, bank(0, 0)}, dram.RD, bank(1, 0), 24},
		{"tRTW", two, Record{1000, dram.RD, bank(0, 0)}, dram.WR, bank(1, 0), 12},
		{"tWPRE", two, Record{1000, dram.RD, bank(0, 0)}, dram.WR, bank(1, 0), 11},
		{"tRTRS", other, Record{1000, dram.RD, bank(0, 0)}, dram.RD, at(1, 0, 0, 7, 0), 5},
		{"tRTRS", other, Record{1000, dram.WR, bank(0, 0)}, dram.WR, at(1, 0, 0, 7, 0), 5},
		{"tRTRS", other, Record{1000, dram.RD, bank(0, 0)}, dram.WR, at(1, 0, 0, 7, 0), 11},
		{"tRTP+tRP", two, Record{1000, dram.RDA, bank(0, 0)}, dram.ACT, bank(0, 0), 34},
		{"tWR+tRP", two, Record{1000, dram.WRA, bank(0, 0)}, dram.ACT, bank(0, 0), 66},
		{"tRFC", nil, Record{1000, dram.REF, allRanks}, dram.ACT, bank(0, 0), 560},
		{"command bus", two, Record{1000, dram.RD, bank(0, 0)}, dram.PRE, bank(1, 0), 1},
		{"tCCD_L", acta, Record{1000, dram.MACA, at(0, -1, -1, 7, 3)}, dram.MACA, at(0, -1, -1, 7, 4), 8},
		{"tRTP", acta, Record{1000, dram.MACA, at(0, -1, -1, 7, 3)}, dram.PREA, allRanks, 12},
		{"tRCD", nil, Record{1000, dram.ACTA, at(0, -1, -1, 7, -1)}, dram.MACA, at(0, -1, -1, 7, 0), 22},
		{"burst", nil, Record{1000, dram.RDRES, allRanks}, dram.RDRES, allRanks, 4},
		{"tRTW", nil, Record{1000, dram.RDRES, allRanks}, dram.WRBUF, allRanks, 12},
	} {
		for _, late := range []int64{-1, 0} {
			records := append(slices.Clone(c.before), c.first, Record{c.first.Clock + c.clocks + late, c.second, c.at})
			found := checkRecords(part(t, ddr43200), 2, false, records)
			found = slices.DeleteFunc(found, func(v Violation) bool {
				return v.Second.Command == dram.ACTA || v.First.Command == dram.ACT && v.Second.Command == dram.MACA
			})
			broken := slices.ContainsFunc(found, func(v Violation) bool {
				return v.Rule == c.rule && v.Required == c.clocks && v.Actual == c.clocks-1 && v.First == c.first
			})
			if broken != (late < 0) || late == 0 && len(found) > 0 && c.rule != "tWPRE" {
				t.Errorf("%s: %v then %v after %d: found %+v", c.rule, c.first, c.second, c.clocks+late, found)
			}
		}
	}
}

// TestCheckerStates: commands that the state of the banks forbids at any clock.
func TestCheckerStates(t *testing.T) {
	act := Record{0, dram.ACT, at(0, 0, 0, 7, -1)}
	for _, c := range []struct {
		rule    string
		records []Record
	}{
		{"bank state", []Record{{0, dram.RD, at(0, 0, 0, 7, 0)}}},
		{"bank state", []Record{act, {500, dram.ACT, at(0, 0, 0, 8, -1)}}},
		{"bank state", []Record{act, {500, dram.REF, at(0, -1, -1, -1, -1)}}},
		{"bank state", []Record{act, {500, dram.MACA, at(0, -1, -1, 7, 0)}}},
		{"bank state", []Record{act, {100, dram.RDA, at(0, 0, 0, 7, 0)}, {500, dram.RD, at(0, 0, 0, 7, 0)}}},
		{"row", []Record{act, {500, dram.WR, at(0, 0, 0, 8, 0)}}},
		{"row", []Record{act, {500, dram.WR, at(0, 0, 0, 0, 0)}}},
		{"address", []Record{{0, dram.ACT, at(4, 0, 0, 7, -1)}}},
		{"address", []Record{{0, dram.ACT, at(0, 4, 0, 7, -1)}}},
		{"address", []Record{{0, dram.ACT, at(0, 0, 0, 1<<16, -1)}}},
		{"address", []Record{{0, dram.PRE, at(0, -1, -1, -1, -1)}}},
		{"refresh debt", []Record{{9 * 12480, dram.PREA, at(0, -1, -1, -1, -1)}}},
	} {
		found := checkRecords(part(t, ddr43200), 1, false, c.records)
		if len(found) != 1 || found[0].Rule != c.rule {
			t.Errorf("%s: %v: found %+v", c.rule, c.records, found)
		}
	}
	// Of all commands that opened the row, the last is named.
	acta, prea := Record{1000, dram.ACTA, at(0, -1, -1, 3, -1)}, Record{2000, dram.PREA, at(0, -1, -1, -1, -1)}
	for _, openers := range [][]Record{{acta, prea, {3000, dram.ACT, at(0, 0, 0, 7, -1)}}, {act, {500, dram.PRE, act.Address}, acta}} {
		found := checkRecords(part(t, ddr43200), 1, false, append(slices.Clone(openers), Record{9000, dram.REF, prea.Address}), "tRRD_S", "tFAW")
		if want := openers[2]; len(found) != 1 || found[0].First != want {
			t.Errorf("%v: found %+v", openers, found)
		}
	}
	if found := checkRecords(part(t, ddr43200), 1, false, []Record{{9*12480 - 1, dram.PREA, at(0, -1, -1, -1, -1)}}); len(found) != 0 {
		t.Errorf("eight REFs may be owed: %+v", found)
	}
}

// TestOvertaking: a write's burst may come before that of an earlier read of another rank, if it ends tRTRS, one clock, before it. The
// read's burst begins 22 clocks after its command, the write's ends after 16 + 4.
func TestOvertaking(t *testing.T) {
	for clock, broken := range map[int64]bool{1001: false, 1002: true, 1010: true, 1011: false} {
		records := []Record{
			{100, dram.ACT, at(0, 0, 0, 7, -1)}, {200, dram.ACT, at(1, 0, 0, 7, -1)}, {1000, dram.RD, at(0, 0, 0, 7, 0)}, {clock, dram.WR, at(1, 0, 0, 7, 0)},
		}
		found := checkRecords(part(t, ddr43200), 2, false, records)
		if rtrs := slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == "tRTRS" }); rtrs != broken || !broken && len(found) > 0 {
			t.Errorf("a write at %d: found %+v", clock, found)
		}
	}
}

// TestCheckerWindow: a fifth ACT within tFAW.
func TestCheckerWindow(t *testing.T) {
	var records []Record
	for i, clock := range []int64{0, 4, 8, 12, 33} {
		records = append(records, Record{clock, dram.ACT, at(0, int32(i%4), int32(i/4), 7, -1)})
	}
	found := checkRecords(part(t, ddr43200), 1, false, records)
	if len(found) != 1 || found[0].Rule != "tFAW" || found[0].Actual != 33 {
		t.Errorf("found %+v", found)
	}
	records[4].Clock = 34
	if found := checkRecords(part(t, ddr43200), 1, false, records); len(found) != 0 {
		t.Errorf("found %+v", found)
	}
}

// TestDebtsAreReportedOnce: a rank that owes too many REFs, catches up and owes too many again violates the rule twice; one that stays in
// debt, once.
func TestDebtsAreReportedOnce(t *testing.T) {
	spec := part(t, ddr43200)
	interval, all := int64(12480), at(0, -1, -1, -1, -1)
	debts := func(refreshes int, last int64) int {
		var log []Record
		for i := range int64(refreshes) {
			log = append(log, Record{12*interval + 560*i, dram.REF, all})
		}
		log = append(log, Record{last * interval, dram.PREA, all}, Record{last*interval + 100, dram.PREA, all})
		n := 0
		for _, v := range checkRecords(spec, 1, false, log) {
			if v.Rule == ruleDebt {
				n++
			}
		}
		return n
	}
	if n := debts(15, 30); n != 2 {
		t.Errorf("late at 12 tREFI, caught up, late at 30 tREFI: %d debts, want 2", n)
	}
	if n := debts(1, 30); n != 1 {
		t.Errorf("in debt from 12 tREFI on: %d debts, want 1", n)
	}
}

// TestCheckerPullIn: a tenth REF is issued before the first is due.
func TestCheckerPullIn(t *testing.T) {
	var records []Record
	for i := range int64(10) {
		records = append(records, Record{i * 600, dram.REF, at(0, -1, -1, -1, -1)})
	}
	found := checkRecords(part(t, ddr43200), 1, false, records)
	if len(found) != 1 || found[0].Rule != "refresh pull-in" || found[0].Second != records[9] {
		t.Errorf("found %+v", found)
	}
}

// TestPrivateBuses: ranks with private buses do not conflict.
func TestPrivateBuses(t *testing.T) {
	records := []Record{{5, dram.RDRES, at(0, -1, -1, -1, -1)}, {5, dram.RDRES, at(1, -1, -1, -1, -1)}}
	if found := checkRecords(part(t, ddr43200), 2, true, records); len(found) != 0 {
		t.Errorf("private: %+v", found)
	}
	if found := checkRecords(part(t, ddr43200), 2, false, records); len(found) != 2 {
		t.Errorf("shared: %+v, want command bus and tRTRS", found)
	}
}

// referenceLogs are the first 12,000 commands of DRAMsim3 for traces of mixed reads and writes, with its rules on RD to WR and on writes to
// two ranks corrected (testdata/README.md).
var referenceLogs = []string{"m02", "m09", "mixed_4rank"}

// readReferenceLog returns a log of testdata with its part (ddr43200 if it names none) and number of ranks.
func readReferenceLog(t *testing.T, name string) (*dram.Spec, int, []Record) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	header, records, err := readLog(f)
	if err != nil {
		t.Fatal(err)
	}
	if header.Spec == nil {
		return part(t, ddr43200), 4, records
	}
	return header.Spec, header.Ranks, records
}

// TestCheckerPassesDRAMsim3: another simulator's logs are legal.
func TestCheckerPassesDRAMsim3(t *testing.T) {
	for _, name := range referenceLogs {
		spec, ranks, records := readReferenceLog(t, name)
		if found := checkRecords(spec, ranks, false, records); len(found) > 0 || len(records) < 2000 {
			t.Errorf("%s: %d commands, %d violations, %+v", name, len(records), len(found), found[:min(1, len(found))])
		}
	}
}

// mutate violates a rule at record i of a legal log, in a way that it draws. It returns a description, or "" if the record does not suit
// that way.
func mutate(t *rapid.T, spec *dram.Spec, ranks int, records []Record, i int) (string, []Record) {
	r := records[i]
	without := func() []Record { return slices.Delete(slices.Clone(records), i, i+1) }
	// next returns the next command to the bank of r.
	next := func() (Record, bool) {
		for _, o := range records[i+1:] {
			if o.Address.Rank == r.Address.Rank && (o.Command == dram.REF || o.Command == dram.PREA || !o.Command.AllBank() &&
				o.Address.BankGroup == r.Address.BankGroup && o.Address.Bank == r.Address.Bank) {
				return o, true
			}
		}
		return Record{}, false
	}
	switch way := rapid.SampledFrom([]string{"early", "dropped", "repeated"}).Draw(t, "way"); way {
	case "early":
		return early(spec, ranks, records, i)
	case "dropped":
		o, ok := next()
		if ok && (r.Command == dram.ACT && o.Command.IsColumn() || r.Command == dram.PRE && (o.Command == dram.ACT || o.Command == dram.REF)) {
			return way, without()
		}
	case "repeated":
		if r.Command == dram.ACT || r.Command == dram.RD || r.Command == dram.WR {
			r.Clock++
			return way, slices.Insert(slices.Clone(records), i+1, r)
		}
	}
	return "", nil
}

// early moves record i to one clock before the earliest that the previous records allow.
func early(spec *dram.Spec, ranks int, records []Record, i int) (string, []Record) {
	r := records[i]
	s := dram.NewState(spec, ranks)
	for _, o := range records[:i] {
		s.Issue(o.Command, o.Address, o.Clock)
	}
	earlier := s.Earliest(r.Command, r.Address) - 1
	if earlier < 0 || earlier >= r.Clock {
		return "", nil
	}
	r.Clock = earlier
	moved := slices.Delete(slices.Clone(records), i, i+1)
	at := sort.Search(len(moved), func(k int) bool { return moved[k].Clock > earlier })
	return "early", slices.Insert(moved, at, r)
}

// checkMutations mutates a legal log at random places and requires a violation that was not there before.
func checkMutations(t *testing.T, spec *dram.Spec, ranks int, records []Record) {
	t.Helper()
	const tail = 400 // commands after the mutation that may reveal it
	done := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(records)-tail).Draw(t, "record")
		way, mutated := mutate(t, spec, ranks, records[:i+tail], i)
		if way == "" {
			return
		}
		done[way+" "+records[i].Command.String()]++
		before := checkRecords(spec, ranks, false, records[:i+tail])
		isNew := func(v Violation) bool { return !slices.Contains(before, v) }
		found := slices.ContainsFunc(checkRecords(spec, ranks, false, mutated), isNew)
		if !found {
			t.Fatalf("%s %+v is not found", way, records[i])
		}
	})
	t.Logf("mutations found: %v", done)
}

// TestCheckerRejectsMutations mutates DRAMsim3's logs, and one of our controller with reads and writes of four ranks.
func TestCheckerRejectsMutations(t *testing.T) {
	for _, name := range referenceLogs {
		spec, ranks, records := readReferenceLog(t, name)
		checkMutations(t, spec, ranks, records[:min(len(records), 8000)])
	}
}

// TestSecondHalves: the second half of LPDDR5's ACT needs a free step of the bus within eight steps of the first half.
func TestSecondHalves(t *testing.T) {
	s := part(t, "lpddr5x-6400-16gb-x16")
	records := []Record{{0, dram.ACT, at(0, 0, 0, 7, -1)}}
	for i := range int64(8) {
		records = append(records, Record{1 + i, dram.PRE, at(int32(i%2), 1, 0, -1, -1)})
	}
	if found := checkRecords(s, 2, false, records[:8]); len(found) > 0 {
		t.Errorf("step 8 is free: %+v", found)
	}
	if found := checkRecords(s, 2, false, records); len(found) != 1 || found[0].Rule != "command bus" || found[0].First != records[0] || found[0].Second != records[8] {
		t.Errorf("no step is free: %+v", found)
	}
	// Two activations compete for the free steps: the older one takes the first.
	two := []Record{{0, dram.ACT, at(0, 0, 0, 7, -1)}, {1, dram.ACT, at(1, 0, 0, 7, -1)}}
	for i := range int64(7) {
		two = append(two, Record{2 + i, dram.PRE, at(int32(i%2), 1, 0, -1, -1)})
	}
	if found := checkRecords(s, 2, false, two[:8]); len(found) > 0 {
		t.Errorf("steps 8 and 9 are free: %+v", found)
	}
	if found := checkRecords(s, 2, false, two); len(found) != 1 || found[0].First != two[0] {
		t.Errorf("step 9 alone is free, too late for the first: %+v", found)
	}
}
