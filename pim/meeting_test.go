package pim

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
)

// ddr4Like returns a part of a standard of its own: DDR4 with its table edited, a line at a time. An edit returns "" to drop a line.
func ddr4Like(t *testing.T, edit func(line string) string) (*dram.Spec, error) {
	t.Helper()
	text, err := os.ReadFile("../dram/standards/ddr4.toml")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		lines = append(lines, edit(line))
	}
	own, err := dram.ReadStandard("t.toml", strings.NewReader(strings.Replace(strings.Join(lines, ""), `"ddr4"`, `"mine"`, 1)))
	if err != nil {
		return nil, err
	}
	d, err := own.Part("mine-3200-8gb-x8")
	if err != nil {
		return nil, err
	}
	d.Obey(own)
	return d, nil
}

// TestBurstsThatMeet: on DDR4-3200 (CL 22, CWL 16, bursts of 4 clocks) a read's data are on the bus from clock 22 to 26, a write's from 16
// to 20. Two reads or two writes need 4 clocks, a write after a read 22 + 4 - 16 = 10, a read after a write none. Each pair with a command
// of the buffers is accepted with exactly the clocks that it needs and refused with one less.
func TestBurstsThatMeet(t *testing.T) {
	pairs := []struct {
		from, next string
		clocks     int
	}{
		{"RDRES", "RDRES", 4}, {"RDRES", "RD", 4}, {"RD", "RDRES", 4}, {"WRBUF", "WRBUF", 4}, {"WRBUF", "WR", 4}, {"WR", "WRBUF", 4},
		{"RDRES", "WRBUF", 10}, {"RDRES", "WR", 10}, {"RD", "WRBUF", 10},
	}
	for short := -1; short < len(pairs); short++ {
		d, err := ddr4Like(t, func(line string) string {
			name := strings.TrimLeft(strings.Fields(line + " -")[0], `"`)
			if name == "burst" || name == "tRTW" || name == "tWPRE" {
				if !strings.Contains(line, "WRBUF           | WR WRA WRBUF") {
					return ""
				}
				rows := ""
				for i, p := range pairs {
					clocks := p.clocks
					if i == short {
						clocks--
					}
					rows += fmt.Sprintf("%q,\n", fmt.Sprintf("burst | rank | %s | %s | %d", p.from, p.next, clocks))
				}
				return rows
			}
			return line
		})
		if err != nil {
			t.Fatal(err)
		}
		want, got := "", ""
		if short >= 0 {
			p := pairs[short]
			want = fmt.Sprintf("dram.standard = \"mine\": expected rules that keep bursts apart on the data bus: %[2]s may follow %[1]s within %[3]d clocks; add \"burst | rank | %[1]s | %[2]s | %[3]d\"",
				p.from, p.next, p.clocks)
		}
		if err := CheckCommands(d); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("pair %d:\ngot  %s\nwant %s", short, got, want)
		}
	}
	// Rules of windows and between ranks do not keep two bursts apart.
	for _, row := range []string{"rank | RDRES | RDRES | 4 | 2", "other rank | RDRES | RDRES | 4"} {
		d, err := ddr4Like(t, func(line string) string {
			if strings.Contains(line, "RDRES           | RD RDA RDRES        | burst") {
				return fmt.Sprintf("%q,\n%q,\n", "burst | rank | RDRES | RD RDA | burst", "burst | "+row)
			}
			return line
		})
		if err != nil {
			t.Fatalf("%s: %v", row, err)
		}
		if err := CheckCommands(d); err == nil || !strings.Contains(err.Error(), "RDRES may follow RDRES within 4 clocks") {
			t.Errorf("%s: %v", row, err)
		}
	}
}

// TestCommandsThatAreMissing: a standard needs every command of the programs, each in one part.
func TestCommandsThatAreMissing(t *testing.T) {
	for _, c := range []string{"ACTA", "MACA", "RDRES", "WRBUF", "ACT", "PREA", "RD", "WR", "REF"} {
		d, err := ddr4Like(t, func(line string) string {
			if f := strings.Fields(strings.Trim(line, "\" \n,")); len(f) > 0 && f[0] == c && strings.Contains(line, "| command |") {
				return strings.Replace(line, `",`, ` | and 1 within 8",`, 1)
			}
			return line
		})
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		if err := CheckCommands(d); err == nil || !strings.Contains(err.Error(), c+" comes in two halves") {
			t.Errorf("%s in two halves: %v", c, err)
		}
		d, err = ddr4Like(t, func(line string) string {
			if f := strings.Fields(strings.Trim(line, "\" \n,")); len(f) > 0 && f[0] == c && strings.Contains(line, "| command |") {
				return ""
			}
			cells := strings.Split(line, "|")
			for i, cell := range cells {
				words := strings.Fields(cell)
				kept := words[:0]
				for _, w := range words {
					if w != c {
						kept = append(kept, w)
					}
				}
				if len(kept) < len(words) && i > 0 {
					if len(kept) == 0 {
						return ""
					}
					cells[i] = " " + strings.Join(kept, " ") + " "
				}
			}
			return strings.Join(cells, "|")
		})
		if err != nil {
			if c != "REF" && c != "RD" && c != "WR" && c != "ACT" { // a standard must have these
				t.Errorf("without %s: %v", c, err)
			}
			continue
		}
		if err := CheckCommands(d); err == nil || !strings.Contains(err.Error(), "it has no "+c) {
			t.Errorf("without %s: %v", c, err)
		}
	}
}
