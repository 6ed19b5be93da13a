package pim

import (
	"fmt"
	"strconv"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// checkCommands refuses a part whose standard lacks a command of the program: no rule would time it.
func checkCommands(d *dram.Spec) error {
	rules := d.Rules()
	for _, c := range []dram.Command{dram.ACTA, dram.MACA, dram.RDRES, dram.WRBUF} {
		if !rules.Action(c).Known {
			return &input.Error{Key: "dram.standard", Value: strconv.Quote(rules.Name), Expected: fmt.Sprintf(
				"a standard with the commands of the PIM, such as %s; it has no %v", dram.DefaultStandard, c)}
		}
	}
	return nil
}
