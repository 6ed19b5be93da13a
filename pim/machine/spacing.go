package machine

import "github.com/l3sim/l3sim/dram"

// spacing returns the mean clocks between many equal commands, rounded up: reads or writes of one bank of each bank group in turn, as for a
// rank-level unit and the host, or commands to all banks. In a user's table they may be slower than tCCD suggests.
func spacing(d *dram.Spec, cmd dram.Command) int {
	const rounds = 32
	state := dram.NewState(d, 1, programCommands...)
	banks := []dram.Address{allBankAddress}
	if cmd == dram.RD || cmd == dram.WR {
		banks = banks[:0]
		for g := range d.BankGroups {
			banks = append(banks, dram.Address{BankGroup: int32(g)})
		}
	}
	issue := func(cmd dram.Command, a dram.Address) int64 {
		clock := state.Earliest(cmd, a)
		state.Issue(cmd, a, clock)
		return clock
	}
	for b := range d.Banks() { // rows are open
		issue(dram.ACT, dram.Address{BankGroup: int32(b % d.BankGroups), Bank: int32(b / d.BankGroups)})
	}
	var first, last int64
	for round := range rounds + 1 {
		if round == 1 { // the first round waits for the activations
			first = last
		}
		for _, a := range banks {
			last = issue(cmd, a)
		}
	}
	steps := int64(rounds * len(banks))
	return int((last - first + steps - 1) / steps)
}
