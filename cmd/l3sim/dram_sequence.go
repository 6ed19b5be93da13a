package main

import (
	"fmt"
	"slices"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/results/figure"
)

// sequenceLanes draws each command bus, the bursts of each rank, and the times in which banks have a row open or
// refresh.
func sequenceLanes(s *dram.Spec, ranks int, records []check.Record) *figure.Lanes {
	rules := s.Rules()
	clocks := func(steps int64) float64 { return float64(steps) / float64(s.BusSteps(1)) }
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
	end := int64(0)
	busy := dram.NewOccupancy(s, ranks, func(b dram.Busy) {
		end = max(end, b.To)
		name, bar := "", figure.Bar{From: clocks(b.From), To: clocks(b.To), Label: b.Command.String(), Colour: commandColour(b.Command, rules.Action(b.Command))}
		switch b.Part {
		case dram.OnCommandBus:
			name = rules.Buses[b.Index] + " bus"
		case dram.OnDataBus:
			name, bar.Label = fmt.Sprintf("data, rank %d", b.Index), check.Place(b.Address)
		case dram.OnRank:
			name = fmt.Sprintf("rank %d", b.Index)
		case dram.OnBank:
			bank := b.Index % s.Banks()
			name = fmt.Sprintf("bank %d.%d.%d", b.Index/s.Banks(), bank/s.BanksPerGroup, bank%s.BanksPerGroup)
			if rules.Action(b.Command).Leaves == dram.Open {
				bar.Label, bar.Colour = "row open", 5
			}
		}
		l := lane(name)
		l.Bars = append(l.Bars, bar)
	})
	for _, r := range records {
		busy.Command(r.Clock, r.Command, r.Address)
	}
	busy.Close(end)
	return l
}

// commandColour distinguishes kinds of commands.
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
