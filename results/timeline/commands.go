package timeline

import (
	"fmt"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/units"
)

// Commands writes the commands of one DRAM channel as a process. Its tracks are command buses, data buses, refreshes of
// ranks, and banks, if they have events. A bank's slices are its open rows, with reads and writes nested in each.
type Commands struct {
	w       *Writer
	process int
	spec    *dram.Spec
	perData int // ranks that share a data bus
	busy    *dram.Occupancy
	named   map[int]bool // tracks, by thread
	args    Args         // of the present command
	end     int64        // of all slices so far
}

// The first threads of each kind of track, in the order of display.
const (
	dataBuses = 10
	unitTrack = 50
	refreshes = 100
	bankTrack = 1000
)

// NewCommands begins the process of a channel of ranks ranks.
func NewCommands(w *Writer, process int, name string, s *dram.Spec, ranks int) *Commands {
	w.stretch()
	w.Process(process, name+" (1 ns shown is 1 ps)")
	c := &Commands{w: w, process: process, spec: s, perData: max(1, ranks/s.Rules().PseudoChannels), named: map[int]bool{}}
	c.busy = dram.NewOccupancy(s, ranks, c.tell)
	return c
}

// Command writes a command that issues at a step; also is further arguments of its slices, or nil.
func (c *Commands) Command(step int64, cmd dram.Command, a dram.Address, also Args) {
	c.args = Args{"clock": float64(step) / float64(c.spec.BusSteps(1))}
	for name, v := range map[string]int32{"rank": a.Rank, "bank group": a.BankGroup, "bank": a.Bank, "row": a.Row, "column": a.Column} {
		if v >= 0 {
			c.args[name] = v
		}
	}
	for name, v := range also {
		c.args[name] = v
	}
	c.busy.Command(step, cmd, a)
}

// Close ends the rows that are still open.
func (c *Commands) Close() { c.busy.Close(c.end) }

// tell writes the resources that a command keeps busy. It also writes a read or write within the open
// row of its bank.
func (c *Commands) tell(b dram.Busy) {
	s, args := c.spec, c.args
	bank := func(i int) (int, string) {
		n := i % s.Banks()
		return bankTrack + i, fmt.Sprintf("rank %d, bank %d.%d", i/s.Banks(), n/s.BanksPerGroup, n%s.BanksPerGroup)
	}
	name, thread, track := b.Command.String(), 0, ""
	switch b.Part {
	case dram.OnCommandBus:
		thread, track = b.Index, s.Rules().Buses[b.Index]+" bus"
		if b.Command.IsColumn() {
			n := int(b.Address.Rank)*s.Banks() + int(b.Address.BankGroup)*s.BanksPerGroup + int(b.Address.Bank)
			at, of := bank(n)
			c.slice(at, of, &Slice{Name: name, Category: "column", Args: args}, b.From, b.From+s.BusSteps(min(s.BurstClocks(), s.TRTP)))
		}
	case dram.OnDataBus:
		thread = dataBuses + b.Index/c.perData
		track = fmt.Sprintf("data bus %d", b.Index/c.perData)
	case dram.OnRank:
		thread, track = refreshes+b.Index, fmt.Sprintf("refresh, rank %d", b.Index)
	case dram.OnBank:
		thread, track = bank(b.Index)
		if s.Rules().Action(b.Command).Leaves == dram.Open {
			name, args = fmt.Sprintf("row %d", b.Address.Row), Args{"row": b.Address.Row}
		}
	}
	category := [...]string{dram.OnCommandBus: "command", dram.OnDataBus: "data", dram.OnBank: "bank", dram.OnRank: "refresh"}[b.Part]
	c.slice(thread, track, &Slice{Name: name, Category: category, Args: args}, b.From, b.To)
}

// slice writes a slice of these steps, and names its track before its first one.
func (c *Commands) slice(thread int, track string, s *Slice, from, to int64) {
	on := Track{c.process, thread}
	if !c.named[thread] {
		c.named[thread] = true
		c.w.Track(on, track)
	}
	c.end = max(c.end, to)
	time := func(step int64) units.Duration {
		return units.Duration(step) * c.spec.TCK / units.Duration(c.spec.BusSteps(1))
	}
	s.Start, s.End = time(from), time(to)
	c.w.Slice(on, s)
}
