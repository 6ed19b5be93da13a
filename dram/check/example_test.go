package check_test

import (
	"fmt"
	"log"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
)

// The checker names the rule, both commands and the clocks.
func ExampleChecker() {
	spec, err := dram.LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		log.Fatal(err)
	}
	c := check.NewChecker(spec, 1, false)
	bank := dram.Address{Rank: 0, BankGroup: 2, Bank: 1, Row: 7, Column: -1}
	c.Check(check.Record{Clock: 0, Command: dram.ACT, Address: bank})
	c.Check(check.Record{Clock: 20, Command: dram.RD, Address: bank})
	for _, v := range c.Violations() {
		fmt.Printf("%s: %v at %d, %v at %d, %d clocks of %d\n", v.Rule, v.First.Command, v.First.Clock,
			v.Second.Command, v.Second.Clock, v.Actual, v.Required)
	}
	// Output: tRCD: ACT at 0, RD at 20, 20 clocks of 22
}
