package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
)

// TestReportByHand: counts of rules are in the order of the tables, other rules last. Failures come before allowed violations, each in the
// log's order. Parts that an address lacks are left out, as are a missing first command and distance; clock 0 is written.
func TestReportByHand(t *testing.T) {
	act := Record{10, dram.ACT, at(1, 2, 3, 44, -1)}
	read := Record{25, dram.RD, at(1, 2, 3, 44, 5)}
	refresh := Record{31, dram.REF, at(1, -1, -1, -1, -1)}
	found := []Violation{
		{Rule: "tFAW", First: act, Second: act, Required: 30, Actual: 12, Detail: "window"},
		{Rule: "own rule", First: Record{Clock: -1}, Second: refresh, Detail: "late"},
		{Rule: "tRCD", First: act, Second: read, Required: 22, Actual: 15, Detail: "early"},
		{Rule: "tFAW", First: Record{0, dram.ACT, at(0, 0, 0, 0, 0)}, Second: act, Required: 30, Actual: 0, Detail: "again"},
	}
	r := NewReport("a.log", 77, found, []string{"tFAW", "tRP"})
	if r.Failing != 2 || r.Allowed != 2 || r.Commands != 77 || r.Log != "a.log" || found[0].Allowed {
		t.Errorf("got %+v; the caller's violations %+v", r, found)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text.String(), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	want := []string{
		"rule count", "tRCD 1", "tFAW 2 allowed", "own rule 1", "",
		"rule first second required actual detail",
		"own rule - 31 REF 1 - - late",
		"tRCD 10 ACT 1.2.3 row 44 25 RD 1.2.3 row 44 column 5 22 15 early",
		"tFAW 10 ACT 1.2.3 row 44 10 ACT 1.2.3 row 44 30 12 window (allowed)",
		"tFAW 0 ACT 0.0.0 row 0 column 0 10 ACT 1.2.3 row 44 30 0 again (allowed)",
		"", "77 commands, 2 violations, 2 more of allowed rules", "",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	data, err := json.Marshal(found[1:])
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"first":null,"second":{"clock":31,"command":"REF","rank":1,"bank_group":-1,"bank":-1,"row":-1,"column":-1}`,
		`"second":{"clock":25,"command":"RD","rank":1,"bank_group":2,"bank":3,"row":44,"column":5}`, `"first":{"clock":0,"command":"ACT","rank":0,"bank_group":0,"bank":0,"row":0,"column":0},"second":{"clock":10,`} {
		if !strings.Contains(string(data), part) {
			t.Errorf("JSON without %s:\n%s", part, data)
		}
	}
}

// TestReportOfMany: without violations only the counts are printed; of many violations, 50 are listed and the rest counted.
func TestReportOfMany(t *testing.T) {
	print := func(n int) string {
		var text bytes.Buffer
		if err := NewReport("a", 9, make([]Violation, n), nil).WriteText(&text); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	if got := print(0); got != "9 commands, 0 violations, 0 more of allowed rules\n" {
		t.Errorf("got %q", got)
	}
	for n, more := range map[int]string{1: "", 50: "", 51: "\n... and 1 more\n\n", 60: "\n... and 10 more\n\n"} {
		got := print(n)
		if strings.Count(got, "0.0.0") != min(n, 50)*2 || strings.Contains(got, "more\n") != (more != "") || !strings.Contains(got, more) {
			t.Errorf("%d violations:\n%s", n, got)
		}
	}
	for _, limit := range []int{1, 40, 400, 2500} {
		if err := NewReport("a", 9, make([]Violation, 60), nil).WriteText(&full{limit}); !errors.Is(err, errFull) {
			t.Errorf("a writer that is full after %d bytes: %v", limit, err)
		}
	}
}

var errFull = errors.New("full")

// full is a writer with room for left bytes.
type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestLog: a log's own part, ranks and buses override the caller's; what cannot be checked is reported.
func TestLog(t *testing.T) {
	spec := part(t, ddr43200)
	const read = logColumns + "\n0,ACT,1,0,0,7,-1\n# pause\n\n21,RD,1,0,0,7,0\n"
	for _, c := range []struct {
		text  string
		spec  *dram.Spec
		ranks int
		want  string
	}{
		{read, spec, 2, "tRCD 21 of 22; 2 records"},
		{read, spec, 1, "address 0 of 0, address 0 of 0; 2 records"},
		{"# ranks = 2\n" + read, spec, 1, "tRCD 21 of 22; 2 records"},
		{"# ranks = 2\n# spec = " + ddr43200 + "\n# set tRCD = 24\n" + read, spec, 0, "tRCD 21 of 24; 2 records"},
		{"# spec = " + ddr43200 + "\n# set tRCD = 21\n" + read, nil, 2, "; 2 records"},
		{read + "20,PRE,0,0,0,-1,-1\n", spec, 2, "tRCD 21 of 22; 2 records; x.log:6: clock = 20: expected at least 21, the clock of the command before"},
		{read + "21,PRE,0,0,0,-1\n", spec, 2, `tRCD 21 of 22; 2 records; x.log:6: "21,PRE,0,0,0,-1": expected seven columns`},
		{read + "21,PRE,0,0,x,-1,-1\n", spec, 2, `tRCD 21 of 22; 2 records; x.log:6: bank = "x": expected a number, -1 or nothing`},
		{read, spec, 0, "; 0 records; ranks = 0: expected at least 1"},
	} {
		l, err := NewLogReader("x.log", strings.NewReader(c.text))
		if err != nil {
			t.Fatal(err)
		}
		found, err := Log(l, c.spec, c.ranks)
		var all []string
		for _, v := range found {
			all = append(all, fmt.Sprintf("%s %d of %d", v.Rule, v.Actual, v.Required))
		}
		got := fmt.Sprintf("%s; %d records", strings.Join(all, ", "), l.Records())
		if err != nil {
			got += "; " + err.Error()
		}
		if got != c.want {
			t.Errorf("%q with %d ranks:\ngot  %s\nwant %s", c.text, c.ranks, got, c.want)
		}
	}
	for _, l := range []*LogReader{nil, {}} {
		if _, err := Log(l, spec, 1); err == nil || err.Error() != "log: expected one that NewLogReader returned" {
			t.Errorf("got %v", err)
		}
	}
	if _, err := Log(must(t, read), nil, 1); err == nil {
		t.Error("no part is checked")
	}
	found, err := checkLog(must(t, read), spec, 1, 1)
	if len(found) != 2 || !errors.Is(err, ErrManyViolations) {
		t.Errorf("more than one violation: %d, %v", len(found), err)
	}
	if found, err = checkLog(must(t, read), spec, 1, 2); len(found) != 2 || err != nil {
		t.Errorf("two violations: %d, %v", len(found), err)
	}
}

func must(t *testing.T, text string) *LogReader {
	l, err := NewLogReader("x.log", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestDeclarations: what a log's header may declare, and errors in it.
func TestDeclarations(t *testing.T) {
	for text, want := range map[string]string{
		"# ranks = 0":               "x.log:1: ranks = 0: expected 1 to 64",
		"# ranks = 65":              "x.log:1: ranks = 65: expected 1 to 64",
		"#\n# buses = bank":         "x.log:2: buses = bank: expected rank or channel",
		"# set tRCD = 3":            "x.log:1: set tRCD: expected a line '# spec = PART' before it",
		"# spec = ddr4-3200-8gb-x9": `x.log:1: spec = ddr4-3200-8gb-x9: expected a part that ships, or one of the table that the log is checked with: a part of your own table needs --dram FILE.toml:PART; did you mean "ddr4-3200-8gb-x4"?`,
		"# allow = tRCD, tRPP":      `did you mean "tRP"?`,
		"# note = x\n# a comment":   `x.log: expected a command log with the header clock,command,rank,bankgroup,bank,row,column`,
		"clock,command":             `x.log:1: "clock,command": expected the header clock,command,rank,bankgroup,bank,row,column`,
	} {
		if _, err := NewLogReader("x.log", strings.NewReader(text+"\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	l := must(t, "# spec = "+ddr43200+"\n# ranks = 64\n# buses = rank\n# allow = tRCD, , tRP,tRCD\n# buses = channel\n#buses=rank\n\ncycle, cmd, rank, bankgroup, bank, row, col\n")
	if h := l.Header; h.Spec.Name != ddr43200 || h.Ranks != 64 || !h.PrivateBuses || !slices.Equal(h.Allow, []string{"tRCD", "tRP"}) {
		t.Errorf("got %+v", h)
	}
	for n, want := range map[int]string{200: "expected a part that ships", 201: "expected a declaration of at most 200 bytes"} {
		if _, err := NewLogReader("x.log", strings.NewReader("# spec = "+strings.Repeat("a", n-len("spec"))+"\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a declaration of %d bytes: %v, want %s", n, err, want)
		}
	}
}

// TestKnownRules: names that are rules of a standard, and names that are not.
func TestKnownRules(t *testing.T) {
	ddr4, ddr5 := part(t, ddr43200).Rules(), part(t, "ddr5-4800-16gb-x8").Rules()
	if err := KnownRules("--allow", []string{"tRCD", "bank state", "refresh pull-in", "command", "address", "row", "power state", "command bus", "burst", "data clock", "refresh management", "refresh debt"}, ddr4); err != nil {
		t.Error(err)
	}
	if err := KnownRules("--allow", []string{"tRCD", "tRCDD"}); err == nil || !strings.HasPrefix(err.Error(), `--allow = "tRCDD": `) || !strings.HasSuffix(err.Error(), `did you mean "tRCD"?`) {
		t.Errorf("got %v", err)
	}
	own := func(s *dram.Standard) string { return RuleNames(s)[0] }
	if names := RuleNames(ddr4, ddr5); !slices.Contains(names, own(ddr4)) || names[len(names)-1] != "refresh pull-in" || len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) {
		t.Errorf("rules %v", names)
	}
	only := slices.IndexFunc(RuleNames(ddr5), func(n string) bool { return !slices.Contains(RuleNames(ddr4), n) })
	if only < 0 || KnownRules("k", RuleNames(ddr5)[only:only+1], ddr4) == nil || KnownRules("k", RuleNames(ddr5)[only:only+1]) != nil {
		t.Error("a rule of DDR5 alone is taken as one of DDR4, or not as one of any")
	}
}

// TestTimeSequence times a sequence on DDR4-3200: tRCD 22, tCCD_L 8, tRAS 52 (later than the end of the read), tRP 22. The other rank waits
// for the command bus alone.
func TestTimeSequence(t *testing.T) {
	spec := part(t, ddr43200)
	commands, err := ParseSequence("--commands", spec, 2, "ACT 0.1.2, RD 0.1.2 x2, ACT 1.0.0, PRE 0.1.2, ACT 0.1.2")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range TimeSequence(spec, 2, commands) {
		got = append(got, fmt.Sprintf("%d %v %s", r.Clock, r.Command, Place(r.Address)))
	}
	if want := "0 ACT 0.1.2, 22 RD 0.1.2, 30 RD 0.1.2, 31 ACT 1.0.0, 52 PRE 0.1.2, 74 ACT 0.1.2"; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
	if place := Place(at(1, -1, -1, -1, -1)); place != "1" {
		t.Errorf("a rank is written %s", place)
	}
}
