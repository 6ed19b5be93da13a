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

// A caller's model in a closed loop: each of four threads reads the next address when its last data are there.
func ExampleSetup_Open() {
	spec, err := dram.LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		log.Fatal(err)
	}
	policy, err := controller.LookupPolicy("default")
	if err != nil {
		log.Fatal(err)
	}
	system := controller.Setup{Spec: spec, Policy: policy, Channels: 2, Ranks: 2}
	reads := 0
	var memory *controller.Memory
	memory, err = system.Open(func(c controller.Completion) {
		if reads++; c.End < 10_000 {
			next := controller.Request{Clock: c.End, Address: c.Address*5 + 0x40040, Tag: c.Tag}
			if err := memory.Enqueue(next); err != nil {
				log.Fatal(err)
			}
		}
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for thread := range int64(4) {
		if err := memory.Enqueue(controller.Request{Address: uint64(thread) << 13, Tag: thread}); err != nil {
			log.Fatal(err)
		}
	}
	memory.Advance(5_000) // the caller's own model may go on here
	stats, err := memory.Drain()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d reads, %.0f clocks each, the longest %d\n", reads, stats.ArrivalLatency.Mean(), stats.ArrivalLatency.Max())
	// Output: 551 reads, 73 clocks each, the longest 647
}
