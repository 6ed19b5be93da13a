package dram_test

import (
	"context"
	"fmt"
	"log"

	"github.com/l3sim/l3sim/dram"
)

// A read of a closed bank, a hit of its row, and a conflict.
func ExampleSetup_Replay() {
	spec, err := dram.LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		log.Fatal(err)
	}
	policy, err := dram.LookupPolicy("default")
	if err != nil {
		log.Fatal(err)
	}
	system := dram.Setup{Spec: spec, Policy: policy, Channels: 1, Ranks: 4}
	stats, err := system.Replay(context.Background(), []dram.Request{
		{Clock: 0, Address: 0x0}, {Clock: 200, Address: 0x40}, {Clock: 400, Address: 0x80000},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d ACT, %d row hit, mean latency %.1f clocks, end at clock %d\n",
		stats.Count(dram.ACT), stats.RowHits, stats.Latency.Mean(), stats.EndClock)
	// Output: 2 ACT, 1 row hit, mean latency 50.0 clocks, end at clock 472
}

// The checker names the rule, both commands and the clocks.
func ExampleChecker() {
	spec, err := dram.LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		log.Fatal(err)
	}
	c := dram.NewChecker(spec, 1, false)
	bank := dram.Address{Rank: 0, BankGroup: 2, Bank: 1, Row: 7, Column: -1}
	c.Check(dram.Record{Clock: 0, Command: dram.ACT, Address: bank})
	c.Check(dram.Record{Clock: 20, Command: dram.RD, Address: bank})
	for _, v := range c.Violations() {
		fmt.Printf("%s: %v at %d, %v at %d, %d clocks of %d\n", v.Rule, v.First.Command, v.First.Clock,
			v.Second.Command, v.Second.Clock, v.Actual, v.Required)
	}
	// Output: tRCD: ACT at 0, RD at 20, 20 clocks of 22
}
