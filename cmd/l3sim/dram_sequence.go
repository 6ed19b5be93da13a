package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results/figure"
)

// maxSequence bounds the commands of a sequence: a figure has room for no more.
const maxSequence = 200

// parseSequence reads "COMMAND RANK[.BANKGROUP.BANK] [xN], ...".
func parseSequence(s *dram.Spec, ranks int, text string) ([]check.Record, error) {
	var records []check.Record
	bad := func(part, expected string) error {
		return &input.Error{Key: "--sequence", Value: part, Expected: expected}
	}
	for _, part := range strings.Split(text, ",") {
		words := strings.Fields(part)
		if len(words) < 2 || len(words) > 3 {
			return nil, bad(part, `"COMMAND RANK.BANKGROUP.BANK", such as "ACT 0.1.2", or with "x4" behind it`)
		}
		c, known := dram.ParseCommand(words[0])
		if !known || !s.Rules().Action(c).Known {
			return nil, input.UnknownName("--sequence", words[0], list.Map(s.Rules().Commands(), dram.Command.String))
		}
		a, err := parsePlace(s, ranks, c, words[1])
		if err != nil {
			return nil, bad(part, err.Error())
		}
		times := 1
		if len(words) == 3 {
			if times, err = strconv.Atoi(strings.TrimPrefix(words[2], "x")); err != nil || times < 1 || times > maxSequence {
				return nil, bad(part, fmt.Sprintf("x1 to x%d", maxSequence))
			}
		}
		for range times {
			records = append(records, check.Record{Command: c, Address: a})
		}
		if len(records) > maxSequence {
			return nil, bad(part, fmt.Sprintf("at most %d commands", maxSequence))
		}
	}
	return records, nil
}

// parsePlace reads the place that a command needs: a rank, a bank, or a bank of every group.
func parsePlace(s *dram.Spec, ranks int, c dram.Command, text string) (dram.Address, error) {
	a := dram.Address{BankGroup: -1, Bank: -1, Row: -1, Column: -1}
	parts := strings.Split(text, ".")
	want := 3
	if c.AllBank() {
		want = 1
	}
	if len(parts) != want {
		return a, fmt.Errorf("%d numbers for %v with dots between them", want, c)
	}
	same := s.Rules().Action(c).Span == dram.SameBanks
	for i, to := range []*int32{&a.Rank, &a.BankGroup, &a.Bank}[:want] {
		if i == 1 && same {
			continue
		}
		most := []int{ranks, s.BankGroups, s.BanksPerGroup}[i]
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < 0 || n >= most {
			return a, fmt.Errorf("a %s of 0 to %d", []string{"rank", "bank group", "bank"}[i], most-1)
		}
		*to = int32(n)
	}
	if s.Rules().Action(c).Leaves == dram.Open || c.IsColumn() {
		a.Row = 0
	}
	return a, nil
}

// timeSequence issues the commands one after another and returns when each does, with those that
// start a data clock.
func timeSequence(s *dram.Spec, ranks int, commands []check.Record) []check.Record {
	var records []check.Record
	q := dram.NewSequence(s, ranks)
	q.Issued = func(step int64, c dram.Command, a dram.Address) {
		records = append(records, check.Record{Clock: step, Command: c, Address: a})
	}
	now := int64(0)
	for _, r := range commands {
		now = q.Issue(r.Command, r.Address, now)
	}
	return records
}

// place writes an address as --sequence takes it.
func place(a dram.Address) string {
	switch {
	case a.Bank < 0:
		return fmt.Sprint(a.Rank)
	case a.BankGroup < 0:
		return fmt.Sprintf("%d.*.%d", a.Rank, a.Bank)
	}
	return fmt.Sprintf("%d.%d.%d", a.Rank, a.BankGroup, a.Bank)
}

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
			data.Bars = append(data.Bars, figure.Bar{From: done - float64(s.BurstClocks()), To: done, Label: place(r.Address), Colour: bar.Colour})
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
