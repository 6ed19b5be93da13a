package check

import (
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
)

// TestDetailsByHand: the checker's message about a command has the numbers of bank, row and rank, and the counts.
func TestDetailsByHand(t *testing.T) {
	all := at(0, -1, -1, -1, -1)
	ddr4, ddr5 := part(t, ddr43200), *part(t, "ddr5-4800-16gb-x8")
	for key, n := range map[string]int{"RAAIMT": 2, "RAAMMT": 3} {
		if err := ddr5.Set(key, strconv.Itoa(n)); err != nil {
			t.Fatal(err)
		}
	}
	var often []Record // one bank, four times: once more than allowed
	for i := range int64(4) {
		often = append(often, Record{2000 * i, dram.ACT, at(0, 1, 2, 7, -1)}, Record{2000*i + 1000, dram.PRE, at(0, 1, 2, -1, -1)})
	}
	var ahead []Record
	for i := range int64(10) {
		ahead = append(ahead, Record{i * 600, dram.REF, all})
	}
	open := Record{0, dram.ACT, at(0, 1, 2, 7, -1)}
	for _, c := range []struct {
		spec         *dram.Spec
		records      []Record
		rule, detail string
		first        int64 // clock of the first command, -1 where there is none
	}{
		{ddr4, []Record{{0, dram.RFM, all}}, "command", "not a command of ddr4", -1},
		{ddr4, []Record{{0, dram.ACT, at(0, 4, 0, 7, -1)}}, "address", "outside the device", -1},
		{ddr4, []Record{{0, dram.RD, at(0, 1, 2, 7, 0)}}, "bank state", "bank 2 of bank group 1 has no row open", -1},
		{ddr4, []Record{open, {500, dram.ACT, at(0, 1, 2, 9, -1)}}, "bank state", "bank 2 of bank group 1 has a row open", 0},
		{ddr4, []Record{open, {500, dram.RD, at(0, 1, 2, 9, 0)}}, "row", "row 7 is open", 0},
		{ddr4, []Record{{0, dram.PDX, all}}, "power state", "the rank is not where PDE leads", -1},
		{ddr4, []Record{{0, dram.SRX, all}}, "power state", "the rank is not where SRE leads", -1},
		{ddr4, []Record{{3, dram.PDE, all}, {500, dram.ACT, at(0, 0, 0, 7, -1)}}, "power state", "the rank takes no command", 3},
		{ddr4, []Record{{9 * 12480, dram.PREA, all}}, "refresh debt", "rank 0 owes 9 REFs, at most 8 may be postponed", -1},
		{ddr4, []Record{{30, dram.SRE, all}, {50 * 12480, dram.SRX, all}, {59 * 12480, dram.ACT, at(0, 1, 2, 7, -1)}}, "refresh debt", "rank 0 owes 9 REFs, at most 8 may be postponed", -1}, // SRX ends the self-refresh: REFs count from there
		{ddr4, ahead, "refresh pull-in", "9 REFs ahead, at most 8 may be pulled in", -1},
		{&ddr5, often, "refresh management", "4 activations of the bank, at most 3 without RFM", -1},
	} {
		found := checkRecords(c.spec, 1, false, c.records)
		if len(found) != 1 || found[0].Rule != c.rule || found[0].Detail != c.detail || found[0].First.Clock != c.first || found[0].Allowed {
			t.Errorf("%s: found %+v, want %q", c.rule, found, c.detail)
		}
	}
	var window []Record
	for i, clock := range []int64{0, 4, 8, 12, 33} {
		window = append(window, Record{clock, dram.ACT, at(0, int32(i%4), int32(i/4), 7, -1)})
	}
	if found := checkRecords(ddr4, 1, false, window); len(found) != 1 || found[0].Detail != "one more than the window holds" || found[0].Required != 34 || found[0].Actual != 33 || found[0].First != window[0] {
		t.Errorf("found %+v", found)
	}
	acta := Record{0, dram.ACTA, at(0, -1, -1, 7, -1)}
	found := checkRecords(ddr4, 1, false, []Record{acta})
	if len(found) != 2 || found[0] != (Violation{"tRRD_S", false, acta, acta, 4, 0, "ACTA activates all banks at once"}) || found[1].Rule != "tFAW" || found[1].First != acta || found[1].Required != 34 {
		t.Errorf("found %+v", found)
	}
	two := []Record{{5, dram.RDRES, all}, {5, dram.RDRES, at(1, -1, -1, -1, -1)}}
	for _, v := range checkRecords(ddr4, 2, false, two) {
		if want := map[string]Violation{"command bus": {"command bus", false, two[0], two[1], 1, 0, ""}, "burst": {"burst", false, two[0], two[1], 4, 0, "bursts on the data bus"}}[v.Rule]; v != want {
			t.Errorf("found %+v, want %+v", v, want)
		}
	}
}

// TestFaultsOfSequences: the error of each fault in a sequence names the flag, the wrong part of the text and the expected
// text.
func TestFaultsOfSequences(t *testing.T) {
	spec := part(t, ddr43200)
	for text, want := range map[string]string{
		"PRE 0.0.0, ACT":         `--commands =  ACT: expected "COMMAND RANK.BANKGROUP.BANK", such as "ACT 0.1.2", or with "x4" behind it`,
		"ACT 0.1.2 x2 x3":        `--commands = ACT 0.1.2 x2 x3: expected "COMMAND RANK.BANKGROUP.BANK"`,
		"ACTT 0.1.2":             `--commands = "ACTT": expected one of `,
		"RFM 0":                  `--commands = "RFM": expected one of `,
		"PRE 0.0.0,RD 0.1.2 x0":  `--commands = RD 0.1.2 x0: expected x1 to x200`,
		"RD 0.1.2 x201":          `--commands = RD 0.1.2 x201: expected x1 to x200`,
		"RD 0.1.2 y":             `--commands = RD 0.1.2 y: expected x1 to x200`,
		"RD 0.1.2 x200,WR 0.1.2": `--commands = WR 0.1.2: expected at most 200 commands`,
		"ACT 0.1":                `--commands = ACT 0.1: expected 3 numbers for ACT with dots between them`,
		"REF 0.1.2":              `--commands = REF 0.1.2: expected 1 numbers for REF with dots between them`,
		"ACT 2.0.0":              `--commands = ACT 2.0.0: expected a rank of 0 to 1`,
		"ACT 0.4.0":              `--commands = ACT 0.4.0: expected a bank group of 0 to 3`,
		"ACT 0.0.4":              `--commands = ACT 0.0.4: expected a bank of 0 to 3`,
		"ACT 0.-1.0":             `--commands = ACT 0.-1.0: expected a bank group of 0 to 3`,
		"REF x":                  `--commands = REF x: expected a rank of 0 to 1`,
	} {
		if _, err := ParseSequence("--commands", spec, 2, text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	records, err := ParseSequence("--commands", spec, 2, "ACT 1.3.2, RD 1.3.2 x3, PREA 1")
	if err != nil || len(records) != 5 || records[0].Address != at(1, 3, 2, 0, -1) || records[3] != (Record{0, dram.RD, at(1, 3, 2, 0, -1)}) || records[4].Address != at(1, -1, -1, -1, -1) {
		t.Errorf("%+v, %v", records, err)
	}
}
