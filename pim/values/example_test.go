package values_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/pim/tables"
	"github.com/l3sim/l3sim/pim/values"
)

// Clocks of one decode step of a head at several lengths: alone on an idle rank, and
// as one more in a long sequence of heads.
func ExampleKernelTable() {
	part, err := dram.LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		log.Fatal(err)
	}
	shape := pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16}
	table, err := tables.NewKernelTable(pim.Default(), part, shape)
	if err != nil {
		log.Fatal(err)
	}
	for _, context := range []int{512, 4096, 131_072} {
		fmt.Printf("%d tokens: %d clocks alone, %d in sequence\n", context, table.Alone(context), table.InSequence(context))
	}
	// Output:
	// 512 tokens: 2628 clocks alone, 2592 in sequence
	// 4096 tokens: 19232 clocks alone, 19196 in sequence
	// 131072 tokens: 607488 clocks alone, 607452 in sequence
}

// One head by command, with the share of time that its units are busy.
func ExampleMeasure() {
	part, err := dram.LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		log.Fatal(err)
	}
	load := machine.Load{Context: 4096, KVHeads: 1, Shape: pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16}}
	m, err := machine.Measure(context.Background(), pim.Default(), part, load, nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d clocks, bank PUs busy %.0f%%, %d MACA\n", m.Cycles, 100*m.Occupancy.BankPUs, m.Commands[dram.MACA])
	// Output: 19032 clocks, bank PUs busy 86%, 2048 MACA
}

// Attention of one head, computed by the commands on bytes in the banks, against
// reference attention.
func ExampleVerify() {
	const keys, d = 100, 64
	q, k, v := make([]float32, d), make([]float32, keys*d), make([]float32, keys*d)
	for i := range k {
		k[i], v[i] = float32(math.Sin(float64(i))), float32(math.Cos(float64(3*i)))
	}
	copy(q, k[7*d:8*d]) // the query of token 7's key
	head, err := values.NewVerifyCase("head", d, d, q, k, v)
	if err != nil {
		log.Fatal(err)
	}
	part, err := dram.LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		log.Fatal(err)
	}
	result, err := values.Verify(context.Background(), pim.Default(), part, head)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: pass %v, relative error below 0.2%%: %v, %d outputs differ from the same roundings in direct order\n",
		result.Name, result.Pass, result.RelativeL2 < 0.002, result.Differing)
	// Output: head: pass true, relative error below 0.2%: true, 0 outputs differ from the same roundings in direct order
}
