package check

import "github.com/l3sim/l3sim/dram"

// helper is the common part of testing.TB and rapid.T.
type helper interface {
	Helper()
	Fatal(...any)
}

const ddr43200 = "ddr4-3200-8gb-x8"

// part returns the named spec.
func part(tb helper, name string) *dram.Spec {
	tb.Helper()
	s, err := dram.LookupSpec(name)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// at returns an address from all its parts.
func at(rank, group, bank, row, column int32) dram.Address {
	return dram.Address{Rank: rank, BankGroup: group, Bank: bank, Row: row, Column: column}
}
