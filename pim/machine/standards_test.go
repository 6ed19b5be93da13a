package machine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/pim"
)

// burstRule has rows that keep the bursts of buffer commands apart, in either direction.
const burstRule = `  "burst | rank | RDRES WRBUF | RD WR RDRES WRBUF | max(CL, CWL) - min(CL, CWL) + burst",
  "burst | rank | RD WR | RDRES WRBUF | max(CL, CWL) - min(CL, CWL) + burst",
`

// withUnits returns a part of a user's table that adds the PIM commands to a standard without them.
func withUnits(t *testing.T, s *dram.Standard, rows, more string) *dram.Spec {
	t.Helper()
	var axes []string
	for _, word := range strings.Split(strings.TrimPrefix(s.PartNames()[0], s.Name+"-"), "-") {
		axes = append(axes, fmt.Sprintf("%q", word))
	}
	text := fmt.Sprintf("standard = \"own\"\nbase = %q\nparts = [%s]\n", s.Name, strings.Join(axes, ", "))
	if !s.Action(dram.ACTA).Known {
		row, column := s.Buses[0], s.Buses[len(s.Buses)-1]
		text += fmt.Sprintf(`commands = [
  "ACTA  | %[1]s | 1 | rank | closed | open",
  "MACA  | %[2]s | 1 | rank | open | any",
  "RDRES | %[2]s | 1 | rank | any | any",
  "WRBUF | %[2]s | 1 | rank | any | any",
]
rules = [
  "tRCD   | bank | ACT ACTA    | MACA     | tRCD",
  "tCCD_L | rank | RD MACA     | MACA     | tCCD_L",
  "tRTP   | bank | MACA        | PRE PREA | tRTP",
%[3]s]
`, row, column, rows)
	}
	own, err := dram.ReadStandard("own.toml", strings.NewReader(text+more))
	if err != nil {
		t.Fatal(err)
	}
	part, err := own.OnePart("")
	if err != nil {
		t.Fatal(err)
	}
	return part
}

// TestEveryStandardAsBase: a user's table may have any built-in standard as its base. The program is refused with a reason,
// or its commands break no rule.
func TestEveryStandardAsBase(t *testing.T) {
	deep.Heavy(t)
	refused := map[string]string{
		"hbm3":    `dram.standard = "own": expected a standard whose commands begin once a clock: its clock has 2 steps, and PIM programs are timed in whole clocks; base the table on another standard, such as ddr4`,
		"lpddr5x": `dram.standard = "own": expected a standard whose data move with CK: its data clock runs after CAS, which PIM programs do not send; base the table on another standard, such as ddr4`,
	}
	for _, s := range dram.Standards() {
		for _, unit := range []string{pim.BankUnits, pim.RankLevelUnit} {
			part, spec := withUnits(t, s, burstRule, ""), pim.Default()
			spec.ProcessingUnit = unit
			c := check.NewChecker(part, 1, true)
			commands := 0
			m, err := Measure(t.Context(), spec, part, Load{Context: 2048, KVHeads: 2, Shape: fp16Head}, func(clock int64, cmd dram.Command, a dram.Address, _ *Instruction) {
				commands++
				c.Check(check.Record{Clock: clock, Command: cmd, Address: a})
			}, nil)
			if reason := refused[s.Name]; reason != "" {
				var bad *input.Error
				if !errors.As(err, &bad) || bad.Error() != reason || commands > 0 {
					t.Errorf("%s, %s: %v after %d commands, expected %s", s.Name, unit, err, commands, reason)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s, %s: %v", s.Name, unit, err)
				continue
			}
			if v := c.Violations(); len(v) > 0 || commands == 0 {
				t.Errorf("%s, %s: %d commands, %d violations: %+v", s.Name, unit, commands, len(v), v[:min(1, len(v))])
			}
			t.Logf("%s, %s: %d clocks a head", s.Name, unit, m.Cycles)
		}
	}
}

// TestRefreshInTime: on any built-in standard with reads and MACAs far apart, a rank never owes more REFs than the standard allows, or
// the program is refused with the tREFI that it needs.
func TestRefreshInTime(t *testing.T) {
	deep.Heavy(t)
	for i, s := range dram.Standards() {
		if s.Name == "hbm3" || s.Name == "lpddr5x" {
			continue // refused in any case
		}
		for _, unit := range []string{pim.BankUnits, pim.RankLevelUnit} {
			for j, c := range []struct {
				clocks  string
				queries int
			}{{"max(CL, CWL) - min(CL, CWL) + burst", 1}, {"64", 1}, {"32", 8}, {"64", 8}} {
				if !deep.Case(i+j, 2) || c.clocks == "32" && unit == pim.RankLevelUnit && !deep.On() {
					continue
				}
				slow := fmt.Sprintf("  \"slow | rank | RD MACA | RD MACA | %s\",\n", c.clocks)
				more := ""
				if s.Action(dram.ACTA).Known {
					more = "rules = [\n" + slow + "]\n"
				}
				part, spec, shape := withUnits(t, s, burstRule+slow, more), pim.Default(), fp16Head
				spec.ProcessingUnit, shape.Queries = unit, c.queries
				checker := check.NewChecker(part, 1, true)
				_, err := Measure(t.Context(), spec, part, Load{Context: 1024, KVHeads: 1, Shape: shape}, func(clock int64, cmd dram.Command, a dram.Address, _ *Instruction) {
					checker.Check(check.Record{Clock: clock, Command: cmd, Address: a})
				}, nil)
				what := fmt.Sprintf("%s, %s, %s clocks, %d query heads", s.Name, unit, c.clocks, c.queries)
				if err != nil && (c.queries == 1 || !strings.HasPrefix(err.Error(), fmt.Sprintf("dram.tREFI = %d: expected ", part.TREFI)) || !strings.HasSuffix(err.Error(), "; or fewer query heads, or more sets of multipliers (pim.macs_per_read)")) {
					t.Errorf("%s: %v", what, err)
				}
				if v := checker.Violations(); len(v) > 0 && err == nil {
					t.Errorf("%s: %d violations: %+v", what, len(v), v[0])
				}
				t.Log(what, err)
			}
		}
	}
}

// TestRefusedTables: a table is refused for a two-part command; for chips narrower than an element on a bus without a
// re-layout, unless a chip takes whole elements; and for bursts that may collide on the data bus.
func TestRefusedTables(t *testing.T) {
	of := func(name string) *dram.Standard {
		for _, s := range dram.Standards() {
			if s.Name == name {
				return s
			}
		}
		t.Fatal(name)
		return nil
	}
	halves := withUnits(t, of("ddr4"), burstRule, "commands = [\"ACT | command | 1 | bank | closed | open | and 1 within 8\"]\n")
	narrow := withUnits(t, of("gddr6"), burstRule, "")
	narrow.DeviceWidth = 8
	meet := withUnits(t, of("gddr6"), "", "")
	for _, c := range []struct {
		part    *dram.Spec
		bits    int
		problem string
	}{
		{halves, 16, "dram.standard = \"own\": expected a standard whose commands are whole: ACT comes in two halves"},
		{narrow, 16, "dram.bus_width = 16, burst_length = 16: expected 64 or 32, and bursts of 512 bits, for which the re-layout is made; or chips of 16 pins or more"},
		{narrow, 8, ""},
		{meet, 16, "dram.standard = \"own\": expected rules that keep bursts apart on the data bus: RDRES may follow RDRES within 2 clocks; add \"burst | rank | RDRES | RDRES | 2\""},
	} {
		_, err := pim.NewGeometry(c.part, pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: c.bits})
		if (err == nil) != (c.problem == "") || err != nil && !strings.HasPrefix(err.Error(), c.problem) {
			t.Errorf("%s, %d bits: %v", c.part.Name, c.bits, err)
		}
	}
}
