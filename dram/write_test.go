package dram

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
)

// written returns the description of a part, with tabs as bars.
func written(s *Spec) string {
	var b bytes.Buffer
	s.Write(&b)
	return strings.ReplaceAll(b.String(), "\t", "|")
}

// TestWriteByHand: the description of a part has its organisation, timings, currents, commands and rules in this order.
func TestWriteByHand(t *testing.T) {
	s, err := LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	text := written(s)
	for _, want := range []string{
		"ddr4-3200-8gb-x8: DDR4 SDRAM, JESD79-4C\n8 chips x8, 4 bank groups x 4 banks, 65536 rows of 8KiB, 8GiB a rank, tCK 625ps, bursts of 64 B in 4 clocks\n" +
			"with check bits (--set ecc=...): side-band 9 chips, inline 7GiB a rank for data, inline-16 7.5GiB\n\ntiming|clocks|ns|meaning|source\n" +
			"CL|22|13.750|read command to first data|JESD79-4C, \"Speed Bins\"\nCWL|16|10.000|",
		"\ntRFC|560|350.000|",
		"\n\ncurrent|mA|(one chip, VDD = 1.2 V)\nIDD0|57\nIDD2N|37\nIDD2P|25\nIDD3N|52\nIDD3P|43\nIDD4R|168\nIDD4W|150\nIDD5B|250\nIDD6|30\nbank_share|0|of IDD3N",
		"\n\ncommand|bus|steps|banks|needs|leaves\nACT|command|1|bank|closed|open\nACTA|command|1|rank|closed|open\nPRE|command|1|bank|any|closed\n",
		"\n\nrule|scope|command|next|steps|window\ntRCD|bank|ACT|RD|22|1\n", "\ntRC|rank|ACT|REF|74|1\n", "\ntFAW|rank|ACT|ACT|34|4\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("without\n%s\nin\n%s", want, text)
		}
	}
	if strings.Contains(text, "pseudo-channels") || strings.Contains(text, "not published") {
		t.Error("one pseudo-channel and all currents are said of")
	}
	s.Power.IDD2P, s.Power.IDD6, s.Power.BankShare = 0, 0, .5
	if text := written(s); !strings.Contains(text, "IDD2N|37\nIDD2P|-|not published: energy counts as that of standby\nIDD3N|52\n") || !strings.Contains(text, "\nbank_share|0.5|") {
		t.Errorf("currents that are not published:\n%s", text)
	}
	s.Power = PowerSpec{}
	if text := written(s); !strings.Contains(text, "\n\ncurrents: none are published, energy is not estimated\n\ncommand|") || s.NotKnown() != "no currents of ddr4-3200-8gb-x8 are published" {
		t.Errorf("no currents: %q in\n%s", s.NotKnown(), text)
	}
	hbm, err := LookupSpec("hbm2-2000-8gb-4h")
	if err != nil {
		t.Fatal(err)
	}
	if text := written(hbm); !strings.Contains(text, "\n2 pseudo-channels a channel, 1 steps a clock\n") || !strings.Contains(text, "--set ecc=...): inline ") {
		t.Errorf("HBM2 has one chip and two pseudo-channels:\n%s", text)
	}
}

// TestWriteStandards: one line for each standard with its number of parts, and one for each part.
func TestWriteStandards(t *testing.T) {
	var b bytes.Buffer
	WriteStandards(&b, Standards())
	text := strings.ReplaceAll(b.String(), "\t", "|")
	for _, want := range []string{
		"standard|parts|what it is\nddr4|18|DDR4 SDRAM, JESD79-4C\n", "\nhbm2|1|HBM2 DRAM",
		"\n\npart|tCK|bandwidth|CL-tRCD-tRP|rank|bank groups x banks|chips\nddr4-2400-8gb-x4|833ps|19.2GB/s|17-17-17|16GiB|4 x 4|16 x4\n",
		"\nddr5-4800-16gb-x16|416ps|19.2GB/s|40-39-39|4GiB|4 x 4|2 x16\n", "\ngddr6-16000-8gb-x16|500ps|32.0GB/s|28-31-31|512MiB|4 x 4|1 x16\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("without\n%s\nin\n%s", want, text)
		}
	}
	if lines := strings.Count(text, "\n"); lines != 3+len(Standards())+len(SpecNames()) {
		t.Errorf("%d lines for %d standards with %d parts", lines, len(Standards()), len(SpecNames()))
	}
}

// TestNames: commands, scopes, spans and states by name, and the counts of commands.
func TestNames(t *testing.T) {
	for c, name := range CommandNames() {
		if got, ok := ParseCommand(name); !ok || got != Command(c) || got.String() != name {
			t.Errorf("%s is read as %v", name, got)
		}
	}
	if c, ok := ParseCommand("NOP"); ok || c != 0 || Command(Commands).String() != "Command(?)" {
		t.Errorf("a command that there is not: %v %t", c, ok)
	}
	counts := make([]int64, Commands)
	counts[ACT], counts[WR] = 1, 7
	if got := CommandCounts(counts); len(got) != 2 || got["ACT"] != 1 || got["WR"] != 7 {
		t.Errorf("counts %v", got)
	}
	scopes := []string{SameBank.String(), Scope(1).String(), SameRank.String(), OtherRank.String(), SamePseudoChannel.String(), SameChannel.String(), Scope(99).String()}
	if got := strings.Join(scopes, ","); got != "bank,bank group,rank,other rank,pseudo-channel,channel,scope(?)" {
		t.Errorf("scopes %s", got)
	}
	if got := WholeRank.String() + "," + SameBanks.String() + "," + Closed.String() + "," + Open.String() + "," + AnyState.String(); got != "rank,same banks,closed,open,any" {
		t.Errorf("spans and states %s", got)
	}
}

// TestPartsOfTables: a part in a table is named by both; a table's only part needs no name; a part in another simulator's format is refused
// by its name.
func TestPartsOfTables(t *testing.T) {
	for name, want := range map[string][2]string{"a.toml": {"a.toml", ""}, "d/a.toml:p": {"d/a.toml", "p"}, "a.toml:": {"a.toml", ""}, "a:p": {"a:p", ""}} {
		if file, part := TablePart(name); file != want[0] || part != want[1] {
			t.Errorf("%s: %s and %s", name, file, part)
		}
	}
	one, err := LookupSpec("hbm2-2000-8gb-4h")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := one.Rules().OnePart(""); err != nil || s.Name != one.Name {
		t.Errorf("the only part: %v", err)
	}
	ddr4, err := LookupSpec("DDR4-3200-8GB-X8")
	if err != nil || ddr4.Name != "ddr4-3200-8gb-x8" {
		t.Fatal(ddr4, err)
	}
	if s, err := ddr4.Rules().OnePart("ddr4-2400-8gb-x4"); err != nil || s.Name != "ddr4-2400-8gb-x4" {
		t.Errorf("a named part: %v", err)
	}
	if _, err := ddr4.Rules().OnePart(""); err == nil || !strings.HasPrefix(err.Error(), "expected the name of one of its parts behind a colon: ddr4-2400-8gb-x4, ddr4-2400-8gb-x8, ") {
		t.Errorf("one of 18 parts: %v", err)
	}
	for name, want := range map[string]string{"x.ini": "files that end with .ini are DRAMsim3's", "x.YAML": "files that end with .YAML are Ramulator's", "x.yml": ".yml are Ramulator's", "x.cfg": ".cfg are Ramulator or NVMain's",
		"ddr4-3200-8gb-x9": `spec = "ddr4-3200-8gb-x9": `} {
		if _, err := LookupSpec(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if err := ForeignForm("spec", "a.toml"); err != nil {
		t.Error(err)
	}
	if err := (*Spec)(nil).Given(); err == nil || err.Error() != "part = nil: expected one of a standard, as LookupSpec returns" || ddr4.Given() != nil {
		t.Errorf("no part: %v", err)
	}
	ddr4.Standard = "ddr9"
	if errs := input.Faults(ddr4); len(errs) != 1 || !strings.Contains(errs[0].Error(), "ddr4, ddr5, gddr6, hbm2, hbm3, lpddr4, lpddr5x") {
		t.Errorf("a standard that there is not: %v", errs)
	}
}

// TestOwnTable: a user's table over a base has its own family, rows and sources, and inherits the rest from the base.
func TestOwnTable(t *testing.T) {
	if !IsTable("standard = 'mine'\n") || !IsTable("# x\nbase = 'ddr4'\n") || IsTable("[run]\nseed = 1\n") || IsTable("") {
		t.Error("tables and other files are not told apart")
	}
	own, err := ReadStandard("t.toml", strings.NewReader("standard = 'mine'\nbase = 'ddr5'\nvalues = [\n\"| CWL | 50\",\n\"x4 | tRP | 51 | a sheet\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	base, err := LookupSpec("ddr5-4800-16gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	if own.Name != "mine" || own.Family != "ddr5" || base.Rules().Family != "ddr5" || own.Title != base.Rules().Title {
		t.Errorf("name %s, family %s, title %s", own.Name, own.Family, own.Title)
	}
	_, err = ReadStandard("t.toml", strings.NewReader("standard = 'mine'\nbase = 'ddr'\n"))
	if bad := new(input.Error); !errors.As(err, &bad) || bad.File != "t.toml" || bad.Line != 2 || bad.Key != "base" || bad.Value != `"ddr"` {
		t.Errorf("a base that there is not: %v", err)
	}
	part := own.PartNames()[0]
	for key, want := range map[string]int{"CWL": 4, "tRCD": 0, "tRP": 5} {
		if line, source := own.Source("mine-4800-16gb-x4", key); line != want || (source == "a sheet") != (key == "tRP") {
			t.Errorf("%s: line %d, source %q", key, line, source)
		}
	}
	if line, source := own.Source("mine-4800-16gb-x8", "tRP"); line != 0 || source == "a sheet" {
		t.Errorf("tRP of another width: line %d, source %q", line, source)
	}
	if line, source := own.Source(part, "tNONE"); line != 0 || source != "" {
		t.Errorf("no such key: line %d, source %q", line, source)
	}
	s, err := own.Part(part)
	if err != nil {
		t.Fatal(err)
	}
	s.standard = nil
	if s.Rules() == own {
		t.Error("a table that does not ship is found by name")
	}
	if s.Obey(own); s.Rules() != own {
		t.Error("the part does not obey its table")
	}
}

// TestSetByHand sets a part's own keys and a timing of its standard, and refuses other names.
func TestSetByHand(t *testing.T) {
	s, err := LookupSpec("ddr5-4800-16gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	own := slices.IndexFunc(s.Parameters(), func(p Parameter) bool { return p.Term == "tPPD" })
	if own < 0 || s.Set("tRCD", "41") != nil || s.TRCD != 41 || s.Set("tPPD", "9") != nil || s.Parameters()[own].Clocks != 9 {
		t.Errorf("tRCD %d, tPPD %+v", s.TRCD, s.Parameters())
	}
	for _, c := range [][3]string{{"tPPD", "-1", "tPPD = -1: expected a whole number of clocks"}, {"tPPD", "1048577", "tPPD = 1048577: expected a whole number of clocks"},
		{"tPPD", "x", "tPPD = x: expected a whole number of clocks"}, {"tPPDD", "1", `tPPDD: expected a key of the part; did you mean "tPPD"?`}} {
		if err := s.Set(c[0], c[1]); err == nil || err.Error() != c[2] {
			t.Errorf("got %v, want %s", err, c[2])
		}
	}
	if s.Set("tPPD", "0") != nil || s.Set("tPPD", "1048576") != nil {
		t.Error("0 and 2^20 clocks are refused")
	}
	if names := s.Rules().RuleNames(); !slices.Contains(names, "tRCD") || len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) {
		t.Errorf("rules %v", names)
	}
}

// TestEnergySums: each component of the energy is multiplied, summed and shared by itself.
func TestEnergySums(t *testing.T) {
	e := Energy{1, 2, 4, 8, 16, 32}
	if e.TotalJoules() != 63 || e.Times(3) != (Energy{3, 6, 12, 24, 48, 96}) || e.UnitReads(.25) != (Energy{1, 2, 1, 8, 16, 32}) ||
		e.Plus(Energy{100, 200, 400, 800, 1600, 3200}) != (Energy{101, 202, 404, 808, 1616, 3232}) {
		t.Errorf("%v %v %v", e.TotalJoules(), e.Times(3), e.UnitReads(.25))
	}
}

// TestRepeatedMeter: what a meter counted since a copy is added again for each repetition; the copy does not change.
func TestRepeatedMeter(t *testing.T) {
	s, err := LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	m := NewEnergyMeter(s, 1)
	bank, all := Address{Row: 1}, Address{BankGroup: -1, Bank: -1, Row: -1, Column: -1}
	round := func(m *EnergyMeter, at int64) {
		m.Record(ACT, bank, at)
		m.Record(RD, bank, at+30)
		m.Record(PRE, bank, at+60)
		m.Record(PDE, all, at+100)
		m.Record(PDX, all, at+150)
	}
	idle := func(m *EnergyMeter, at int64) {
		m.Record(REF, all, at)
		m.Record(PDE, all, at+700)
		m.Record(PDX, all, at+750)
	}
	m.Add(WR, 5)
	round(m, 0)
	earlier := m.Clone()
	idle(m, 1000)
	m.Repeat(earlier, 1000, 2000, 2)
	byHand := NewEnergyMeter(s, 1)
	byHand.Add(WR, 5)
	round(byHand, 0)
	for i := range int64(3) {
		idle(byHand, 1000*(i+1))
	}
	if m.Entries(0) != byHand.Entries(0) || m.Entries(0)[PrechargedPowerDown] != 4 || m.Standby(0, 4000) != byHand.Standby(0, 4000) || m.counts != byHand.counts || m.counts[WR] != 5 {
		t.Errorf("repeated: %v %+v, by hand %v %+v", m.Entries(0), m.Standby(0, 4000), byHand.Entries(0), byHand.Standby(0, 4000))
	}
	if earlier.counts[ACT] != 1 || earlier.Entries(0)[PrechargedPowerDown] != 1 {
		t.Errorf("the copy has counted on: %v", earlier.counts)
	}
}
