package machine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/pim"
)

// TestCommandsOfTheUnits: a standard without one of the program's commands is refused, and the error names the command.
func TestCommandsOfTheUnits(t *testing.T) {
	all := []string{"ACTA  | command | 1 | rank | closed | open", "MACA  | command | 1 | rank | open | any", "RDRES | command | 1 | rank | any | any", "WRBUF | command | 1 | rank | any | any"}
	for missing := range len(all) + 1 {
		var rows []string
		for i, row := range all {
			if i != missing {
				rows = append(rows, fmt.Sprintf("%q", row))
			}
		}
		text := "standard = \"own\"\nbase = \"gddr6\"\nparts = [\"14000\", \"8gb\", \"x16\"]\ncommands = [" + strings.Join(rows, ", ") + "]\n"
		if missing == len(all) {
			text += "rules = [" + burstRule + "]\n"
		}
		s, err := dram.ReadStandard("own.toml", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		part, err := s.OnePart("")
		if err != nil {
			t.Fatal(err)
		}
		err = pim.CheckCommands(part)
		if missing == len(all) {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		name := strings.Fields(all[missing])[0]
		if err == nil || !strings.HasSuffix(err.Error(), "; it has no "+name) || !strings.HasPrefix(err.Error(), `dram.standard = "own": expected a standard with the commands of the PIM`) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}
