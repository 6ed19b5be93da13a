package controller_test

import (
	"context"
	"fmt"
	"log"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/controller"
)

// A read of a closed bank, a hit of its row, and a conflict.
func ExampleSetup_Replay() {
	spec, err := dram.LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		log.Fatal(err)
	}
	policy, err := controller.LookupPolicy("default")
	if err != nil {
		log.Fatal(err)
	}
	system := controller.Setup{Spec: spec, Policy: policy, Channels: 1, Ranks: 4}
	stats, err := system.Replay(context.Background(), []controller.Request{
		{Clock: 0, Address: 0x0}, {Clock: 200, Address: 0x40}, {Clock: 400, Address: 0x80000},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d ACT, %d row hit, mean latency %.1f clocks, end at clock %d\n",
		stats.Count(dram.ACT), stats.RowHits, stats.Latency.Mean(), stats.EndClock)
	// Output: 2 ACT, 1 row hit, mean latency 50.0 clocks, end at clock 472
}
