package main

import (
	"fmt"
	"slices"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/results/figure"
)

// sequenceLanes draws each command bus, the data bus of each pseudo-channel, and from when to when
// the banks have a row open.
func sequenceLanes(s *dram.Spec, records []check.Record) *figure.Lanes {
	rules := s.Rules()
	clocks := func(steps int64) float64 { return float64(steps) / float64(s.Steps(1)) }
	l := &figure.Lanes{Title: s.Name, X: fmt.Sprintf("clocks of %v", s.TCK)}
	lane := func(name string) *figure.Lane {
		i := slices.IndexFunc(l.Lanes, func(l figure.Lane) bool { return l.Name == name })
		if i < 0 {
			i = len(l.Lanes)
			l.Lanes = append(l.Lanes, figure.Lane{Name: name})
		}
		return &l.Lanes[i]
	}
	for _, name := range rules.Buses {
		lane(name + " bus")
	}
	end := 0.0
	for _, r := range records {
		a := rules.Action(r.Command)
		from := clocks(r.Clock)
		bar := figure.Bar{From: from, To: from + clocks(int64(a.Steps)), Label: r.Command.String(), Colour: commandColour(r.Command, a)}
		bus := lane(rules.Buses[a.Bus] + " bus")
		bus.Bars = append(bus.Bars, bar)
		end = max(end, bar.To)
		if r.Command.IsRead() || r.Command.IsWrite() {
			done := clocks(r.Clock + s.DataEnd(r.Command))
			data := lane(fmt.Sprintf("data, rank %d", r.Address.Rank))
			data.Bars = append(data.Bars, figure.Bar{From: done - float64(s.BurstClocks()), To: done, Label: check.Place(r.Address), Colour: bar.Colour})
			end = max(end, done)
		}
	}
	openBanks(s, records, end, clocks, lane)
	return l
}

// openBanks adds a lane for each bank that has a row open at some time.
func openBanks(s *dram.Spec, records []check.Record, end float64, clocks func(int64) float64, lane func(string) *figure.Lane) {
	type bank struct{ rank, number int }
	opened := map[bank]float64{}
	var order []bank
	bar := func(b bank, to float64) {
		name := fmt.Sprintf("bank %d.%d.%d", b.rank, b.number/s.BanksPerGroup, b.number%s.BanksPerGroup)
		l := lane(name)
		l.Bars = append(l.Bars, figure.Bar{From: opened[b], To: to, Label: "row open", Colour: 5})
		delete(opened, b)
	}
	for _, r := range records {
		first, stride, last := s.Spanned(r.Command, r.Address)
		for n := first; n < last; n += stride {
			b := bank{int(r.Address.Rank), n}
			_, open := opened[b]
			switch s.Rules().Action(r.Command).Leaves {
			case dram.Open:
				if !open {
					opened[b], order = clocks(r.Clock), append(order, b)
				}
			case dram.Closed:
				if open {
					bar(b, clocks(r.Clock))
				}
			}
		}
	}
	for _, b := range order {
		if _, open := opened[b]; open {
			bar(b, end)
		}
	}
}

// commandColour tells kinds of commands apart.
func commandColour(c dram.Command, a dram.Action) int {
	switch {
	case c.IsRead():
		return 2
	case c.IsWrite():
		return 1
	case a.Leaves == dram.Open:
		return 0
	case a.Leaves == dram.Closed:
		return 3
	}
	return 4
}
