package dram_test

import (
	"fmt"
	"log"

	"github.com/l3sim/l3sim/dram"
)

// A read of a closed row of LPDDR5X, command by command: CAS starts the data clock.
func ExampleSequence() {
	spec, err := dram.LookupSpec("lpddr5x-8533-16gb-x16")
	if err != nil {
		log.Fatal(err)
	}
	q := dram.NewSequence(spec, 1)
	q.Issued = func(step int64, c dram.Command, _ dram.Address) {
		fmt.Printf("%v at %.1f ns\n", c, float64(step)*spec.Nanoseconds(1))
	}
	bank := dram.Address{BankGroup: 2, Bank: 1, Row: 7}
	q.Issue(dram.ACT, bank, 0)
	read := q.Issue(dram.RD, bank, 0)
	fmt.Printf("data until %.1f ns\n", float64(read+spec.DataEnd(dram.RD))*spec.Nanoseconds(1))
	// Output:
	// ACT at 0.0 ns
	// CAS at 18.8 ns
	// RD at 19.7 ns
	// data until 43.1 ns
}
