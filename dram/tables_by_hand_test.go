package dram

import (
	"regexp"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
)

var listOfCommands = regexp.MustCompile(`ACT, [A-Za-z, ]*;`)

// TestTablesByHand: each kind of row and key at its limits, which are accepted, and one beyond; the error names the line and what is
// expected there.
func TestTablesByHand(t *testing.T) {
	const head = "standard = 'mine'\nbase = 'ddr5'\n"
	for _, c := range []struct{ text, want string }{
		{"", " standard: expected the standard's name, one word"},
		{"name = 1", "1: name: expected a key of a standard's table; did you mean \"base\"?"},
		{"[dram]\ntRCD = 30", "1: dram: expected a key of a standard's table; a file with [dram] is a configuration, for --config: here --set KEY=VALUE changes a part"},
		{"standrd = 1", "1: standrd: expected a key of a standard's table; did you mean \"standard\"?"},
		{"base = 'ddr6'", "1: base = \"ddr6\": expected one of ddr4, ddr5, gddr6, hbm2, hbm3, lpddr4, lpddr5x; did you mean \"ddr4\"?"},
		{"standard = 'a b'\nbase='ddr5'", "1: standard = a b: expected the standard's name, one word"},
		{"base = 'ddr5'", " standard: expected the standard's name, one word"},
		{"standard='nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn'\nbase='ddr5'", ""},
		{"standard='nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn'\nbase='ddr5'", "1: standard = nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn: expected the standard's name, one word"},
		{"standard = '" + strings.Repeat("n", 40) + "'\nbase = 'ddr5'", ""},
		{"standard = '" + strings.Repeat("n", 41) + "'\nbase = 'ddr5'", "1: standard = " + strings.Repeat("n", 41) + ": expected the standard's name, one word"},
		{head + "transfers_per_clock = 65", "3: transfers_per_clock = 65: expected 1 to 64"},
		{head + "transfers_per_clock = -1", "3: transfers_per_clock = -1: expected 1 to 64"},
		{head + "transfers_per_clock = 64", "153: burst_length = 16: expected 64 to columns = 2048, in the part mine-4800-16gb-x4"},
		{head + "parts = ['8800', '16gb', 'x8']", " CL = 0: expected 1 to 1048576 clocks, in the part mine-8800-16gb-x8, for which no row gives CL: rows are for 4800, 4800an, 5600"},
		{head + "steps_per_clock = 3", "3: steps_per_clock = 3: expected 1 to 2"},
		{head + "pseudo_channels = 9", "3: pseudo_channels = 9: expected 1 to 8"},
		{head + "pseudo_channels = 8", ""},
		{head + "sub_channels = 8", ""},
		{head + "sub_channels = 9", "3: sub_channels = 9: expected 1 to 8"},
		{head + "postpone = 64", ""},
		{head + "postpone = 65", "3: postpone = 65: expected 1 to 64"},
		{head + "pull_in = 64", ""},
		{head + "pull_in = 65", "3: pull_in = 65: expected 1 to 64"},
		{head + "device_widths = [1024]", "149: device_width = 4: expected 1024, in the part mine-4800-16gb-x4"},
		{head + "device_widths = [1025]", "3: device_widths = 1025: expected 1 to 1024"},
		{head + "buses = []", ""},
		{head + "buses = ['a','b','c','d']", ""},
		{head + "buses = ['a','b','c','d','e']", "3: buses: expected 1 to 4 names"},
		{head + "counts_from = 'x'", "3: counts_from = \"x\": expected one of first, last"},
		{head + "rounding = 'x'", "3: rounding = \"x\": expected one of jedec, jedec5, up"},
		{head + "rounding = 'up'", ""},
		{head + "rules = ['x | bank | RD | WR']", "3: rules = \"x | bank | RD | WR\": expected 5 cells between bars"},
		{head + "rules = ['x | bank | RD | WR | 3 | 4 | 5']", "3: rules = \"x | bank | RD | WR | 3 | 4 | 5\": expected 5 cells between bars"},
		{head + "rules = ['x | bnk | RD | WR | 3']", "3: rules = \"bnk\": expected one of bank, bank group, channel, other rank, pseudo-channel, rank; did you mean \"bank\"?"},
		{head + "rules = ['x | bank | | WR | 3']", "3: rules = \"x | bank | | WR | 3\": expected commands"},
		{head + "rules = ['x | bank | RDX | WR | 3']", "3: rules = \"RDX\": expected one of …; did you mean \"PDX\"?"},
		{head + "rules = ['x | rank | RD | WR | 3 | 1024']", ""},
		{head + "rules = ['x | rank | RD | WR | 3 | 1025']", "3: rules = 1025: expected a window of 1 to 1024 commands of a rank, a pseudo-channel or the channel"},
		{head + "rules = ['x | rank | RD | WR | 3 | 0']", "3: rules = 0: expected a window of 1 to 1024 commands of a rank, a pseudo-channel or the channel"},
		{head + "rules = ['x | other rank | RD | WR | 3 | 2']", "3: rules = 2: expected a window of 1 to 1024 commands of a rank, a pseudo-channel or the channel"},
		{head + "rules = ['x | rank | RD | WR | 1/0']", " timings: expected a value for each name in the rule x, 1/0: division by 0, in the part mine-4800-16gb-x4"},
		{head + "rules = ['x | rank | RD | WR | 0.5']", " timings: expected a value for each name in the rule x, 0.5: 0.5 gives 0.5: expected a whole number, in the part mine-4800-16gb-x4"},
		{head + "rules = ['x | rank | RD | WR | 1/0', 'y | rank | RD | WR | tNone']", " timings: expected a value for each name in the rule x, 1/0: division by 0, in the part mine-4800-16gb-x4"}, // the first counts
		{head + "rules = ['x | rank | RD | WR | 3', 'y | rank | RD | WR | tNone']\nactivations = '1/0 | 0'", " timings: expected a value for each name in the rule y, tNone: no value of tNone, in the part mine-4800-16gb-x4"},
		{head + "rules = ['x | rank | RD | WR | tNone']", " timings: expected a value for each name in the rule x, tNone: no value of tNone, in the part mine-4800-16gb-x4"},
		{head + "commands = ['RD | command | 17 | bank | open | any']", "3: commands = 17: expected the steps that the command takes, 1 to 16"},
		{head + "commands = ['RD | command | 16 | bank | open | any']", ""},
		{head + "commands = ['RD | command | 1 | rank | open | any']", "3: commands = rank: expected the span of RD, whose address has a bank: true"},
		{head + "commands = ['REF | command | 1 | bank | closed | any']", "3: commands = bank: expected the span of REF, whose address has a bank: false"},
		{head + "commands = ['RD | command | 1 | bank | opn | any']", "3: commands = \"opn\": expected one of any, closed, open; did you mean \"open\"?"},
		{head + "commands = ['RD | command | 1 | bank | open | any | and 1 within 64']", ""},
		{head + "commands = ['RD | command | 1 | bank | open | any | and 1 within 65']", "3: commands = and 1 within 65: expected nothing, \"any step\", or \"and 1 within 8\", the steps until a second half"},
		{head + "commands = ['RD | command | 1 | bank | open | any | any step']", ""},
		{head + "commands = ['RD | row | 1 | bank | open | any']", "3: commands = \"row\": expected one of command"},
		{head + "commands = ['RDX | command | 1 | bank | open | any']", "3: commands = \"RDX\": expected one of …; did you mean \"PDX\"?"},
		{head + "commands = ['RD | command | 1 | bank']", "3: commands = \"RD | command | 1 | bank\": expected 6 cells between bars"},
		{head + "data_clock = 'RD'", "3: data_clock = \"RD\": expected 2 cells between bars"},
		{head + "data_clock = 'RDX | 1'", "3: data_clock = \"RDX\": expected one of …; did you mean \"PDX\"?"},
		{head + "data_clock = 'none'", ""},
		{head + "data_clock = 'RD | 1'", ""},
		{head + "activations = '1 | 2 | 3'", "3: activations = \"1 | 2 | 3\": expected 2 cells between bars"},
		{head + "refreshes = ['REF | tREFI']", "3: refreshes = \"REF | tREFI\": expected 3 cells between bars"},
		{head + "refreshes = ['REFX | tREFI | tRFC']", "3: refreshes = \"REFX\": expected one of …; did you mean \"REF\"?"},
		{head + "timings = ['a | b']", "3: timings = \"a | b\": expected 3 cells between bars"},
		{head + "parts = ['']", "3: parts: expected the words of each axis of the parts' names, 1000 parts at most"},
		{head + "values = ['|tFAW|' ]", "3: values: column 1 of \"\": want a number, a time, a name or a parenthesis"},
		{head + "values = ['|rank|1']", "3: values = rank: expected a key of a part, a timing, or a name that an expression has"},
		{head + "values = ['|name|1']", "3: values = \"|name|1\": no table sets name; expected another value, in the part mine-4800-16gb-x4"},
		{head + "values = ['|tRFC|1 +']", "3: values: column 4 of \"1 +\": want a number, a time, a name or a parenthesis"},
		{head + "values = ['|timings|1']", "3: values = \"|timings|1\": no table sets timings; expected another value, in the part mine-4800-16gb-x4"},
		{head + "values = ['|power.IDD0|1ns']", ""},
		{head + "values = ['|tCK|0ps']", " values = \"          | tRAS            | 32ns\": standards/ddr5.toml, line 164: a time before tCK is known; expected another value, in the part mine-4800-16gb-x4"},
		{head + "values = ['|tFAW|" + strings.Repeat("1+", 99) + "11']", ""}, // 200 bytes
		{head + "values = ['|tFAW|" + strings.Repeat("1+", 99) + "111']", "3: values: expected an expression of at most 200 bytes"},
	} {
		got := ""
		if _, err := ReadStandard("t", strings.NewReader(c.text)); err != nil {
			got = listOfCommands.ReplaceAllString(strings.TrimPrefix(err.Error(), "t:"), "…;")
		}
		if got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.text, got, c.want)
		}
	}
}

// TestOwnTimings: a part's own timings of the standard at both ends of their range; if a name is given twice, the first counts.
func TestOwnTimings(t *testing.T) {
	const form = `: expected names and clocks, such as "tPPD 2, tRREFD 8"`
	d, err := LookupSpec("ddr5-4800-16gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text   Timings
		clocks int
		want   string
	}{
		{"tPPD 3", 3, ""}, {"tPPD 0", 0, ""}, {"tPPD 1048576", 1 << 20, ""}, {"tPPD 3, tPPD 4", 3, ""}, {", tPPD  5 ,", 5, ""}, {"tPPD 1048577", 0, "tPPD 1048577" + form}, {"tPPD -1", 0, "tPPD -1" + form}, {"tPPD x", 0, "tPPD x" + form},
		{"tPPD", 0, "tPPD" + form}, {"tNone 2", 0, "tNone: expected timings of ddr5"}, {"tPPDD 2", 0, `tPPDD: expected timings of ddr5; did you mean "tPPD"?`},
	} {
		s := *d
		s.Timings = c.text
		got := ""
		if errs := input.Faults(&s); len(errs) > 0 {
			got = errs[0].Error()
		}
		if n, ok := s.Timing("tPPD"); !strings.HasSuffix(got, c.want) || (got == "") != (c.want == "") || c.want == "" && (n != c.clocks || !ok) {
			t.Errorf("%s: %d, %t, %s", c.text, n, ok, got)
		}
	}
	for name, want := range map[string]int{"burst": 8, "bank_groups": 8, "banks_per_group": 4, "tREFI": 9375, "tPPD": 2} { // 16 beats at two a clock; 3.9 us of 416 ps
		if got, ok := d.Timing(name); !ok || got != want {
			t.Errorf("%s: %d, %t, want %d", name, got, ok, want)
		}
	}
	if got, ok := d.Timing("tNone"); ok || got != 0 {
		t.Errorf("tNone: %d, %t", got, ok)
	}
	s := *d
	if s.Set("tREFSBRD", "9") != nil || s.Set("tPPD", "3") != nil || s.Set("tPPD", "4") != nil || s.Timings != "tPPD 4, tREFSBRD 9" {
		t.Errorf("set one by one: %s", s.Timings)
	}
}
