package controller

import (
	"math/bits"

	"github.com/l3sim/l3sim/dram"
)

// channel receives the controller's commands. It has the ranks' timing state, the command buses, the energy meter and the log.
type channel struct {
	spec  *dram.Spec
	state *dram.State
	// References into state, which alone changes them.
	rankNodes, groupNodes, bankNodes []dram.Node
	rows                             []int32 // open row of each bank over all ranks, or -1

	openBanks       []uint64 // by rank: banks that hold a row open
	places          []place  // by bank over all ranks
	banksPerRank    int
	groupShift      int                 // log2 of the banks of a bank group
	steps           int64               // steps of a clock; the controller counts steps, requests and results count clocks
	pseudoPrecharge bool                // PREA closes all ranks of a pseudo-channel
	dataEnds        [dram.WRA + 1]int64 // steps from a column command to the end of its data
	burstSteps      int64               // of a burst on the data bus
	buses           commandBuses

	issued [dram.Commands]int64 // number of commands so far
	energy *dram.EnergyMeter
	log    dram.Observe // may be nil
}

// commandBuses tracks when the command buses of the channel are free.
type commandBuses struct {
	dram.CommandBuses
	simple bool // one bus takes any command at any step: no state is needed, as at most one command issues a step
	count  int
}

// newChannel returns an idle channel of ranks ranks.
func newChannel(spec *dram.Spec, policy *Policy, ranks int, log dram.Observe) channel {
	ch := channel{
		spec: spec, state: dram.NewState(spec, ranks, asked(spec, policy)...), energy: dram.NewEnergyMeter(spec, ranks), log: log,
		openBanks: make([]uint64, ranks), places: places(spec, ranks), banksPerRank: spec.Banks(), groupShift: bits.TrailingZeros(uint(spec.BanksPerGroup)),
		steps: spec.BusSteps(1), pseudoPrecharge: spec.Rules().Action(dram.PREA).Span == dram.WholeChannel,
		burstSteps: spec.BusSteps(spec.BurstClocks()),
		buses:      commandBuses{dram.CommandBuses{Standard: spec.Rules()}, simpleBuses(spec, policy), len(spec.Rules().Buses)},
	}
	ch.rankNodes, ch.groupNodes, ch.bankNodes = ch.state.Nodes()
	ch.rows = ch.state.Rows()
	for cmd := dram.RD; cmd <= dram.WRA; cmd++ {
		ch.dataEnds[cmd] = spec.DataEnd(cmd)
	}
	return ch
}

// place is the position of a bank, by its index over all ranks.
type place struct {
	dram.Address
	bit uint64 // bit of the bank in its rank
}

// places returns the places of all banks.
func places(spec *dram.Spec, ranks int) []place {
	list := make([]place, ranks*spec.Banks())
	for i := range list {
		bank := i % spec.Banks()
		list[i] = place{dram.Address{Rank: int32(i / spec.Banks()), BankGroup: int32(bank / spec.BanksPerGroup),
			Bank: int32(bank % spec.BanksPerGroup), Row: -1, Column: -1}, 1 << bank}
	}
	return list
}

// issue records a command in all parts of the channel.
func (ch *channel) issue(cmd dram.Command, a dram.Address, t int64) {
	ch.state.Issue(cmd, a, t)
	if !ch.buses.simple {
		ch.buses.Take(cmd, t)
	}
	ch.energy.Record(cmd, a, t)
	ch.issued[cmd]++
	if ch.log != nil {
		ch.log(t, cmd, a)
	}
}

// clocks converts steps to clocks, rounded up.
func (ch *channel) clocks(steps int64) int64 {
	if ch.steps == 1 {
		return steps
	}
	return (steps + ch.steps - 1) / ch.steps
}

// earliest returns the first clock at which the constraints allow what the bank needs.
func (ch *channel) earliest(n need, bank int) int64 {
	cmd := needCommands[n]
	return max(ch.rankNodes[ch.places[bank].Rank][cmd], ch.groupNodes[bank>>ch.groupShift][cmd], ch.bankNodes[bank][cmd])
}

// earliestOf returns the first step, at least t, at which constraints and bus allow cmd at a.
func (ch *channel) earliestOf(cmd dram.Command, a dram.Address, t int64) int64 {
	at := ch.state.Earliest(cmd, a)
	return ch.gate(cmd, max(at, t))
}

// gate returns the first step, at least t, at which the command's bus accepts it. With one bus and commands of one step, tick itself issues
// at most one command a step.
func (ch *channel) gate(cmd dram.Command, t int64) int64 {
	if ch.buses.simple {
		return t
	}
	return ch.buses.Earliest(cmd, t)
}

// simpleBuses reports whether the standard has one command bus and one step a clock, and every command of the controller takes one step
// without a second half.
func simpleBuses(spec *dram.Spec, p *Policy) bool {
	s := spec.Rules()
	if len(s.Buses) > 1 || s.StepsPerClock > 1 {
		return false
	}
	for _, cmd := range asked(spec, p) {
		if a := s.Action(cmd); a.Steps > 1 || a.Second > 0 {
			return false
		}
	}
	return true
}

// asked returns the commands that the controller issues.
func asked(spec *dram.Spec, p *Policy) []dram.Command {
	s := spec.Rules()
	list := []dram.Command{dram.ACT, dram.PRE, dram.PREA, dram.RD, dram.WR}
	for _, r := range s.Refreshes {
		list = append(list, r.Command)
	}
	if sync, ok := s.DataClockCommand(); ok {
		list = append(list, sync)
	}
	if most, _ := spec.Managed(); most > 0 {
		command, _ := managementCommand(s, p)
		list = append(list, command)
	}
	if p.Page == "closed" {
		list = append(list, dram.RDA, dram.WRA)
	}
	if p.PowerDown != "off" {
		list = append(list, dram.PDE, dram.PDX, dram.SRE, dram.SRX)
	}
	return list
}
