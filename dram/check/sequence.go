package check

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
)

const maxSequence = 200 // bounds the commands of a sequence, which a figure shows

// ParseSequence reads "COMMAND RANK[.BANKGROUP.BANK] [xN], ...", the value of a flag.
func ParseSequence(flag string, s *dram.Spec, ranks int, text string) ([]Record, error) {
	var records []Record
	bad := func(part, expected string) error {
		return &input.Error{Key: flag, Value: part, Expected: expected}
	}
	for _, part := range strings.Split(text, ",") {
		words := strings.Fields(part)
		if len(words) < 2 || len(words) > 3 {
			return nil, bad(part, `"COMMAND RANK.BANKGROUP.BANK", such as "ACT 0.1.2", or with "x4" behind it`)
		}
		c, known := dram.ParseCommand(words[0])
		if !known || !s.Rules().Action(c).Known {
			return nil, input.UnknownName(flag, words[0], list.Map(s.Rules().Commands(), dram.Command.String))
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
			records = append(records, Record{Command: c, Address: a})
		}
		if len(records) > maxSequence {
			return nil, bad(part, fmt.Sprintf("at most %d commands", maxSequence))
		}
	}
	return records, nil
}

// parsePlace reads the address that a command needs: a rank, a bank, or a bank of every group.
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

// TimeSequence issues the commands one after another and returns them with their steps, together with the commands that start a data clock.
func TimeSequence(s *dram.Spec, ranks int, commands []Record) []Record {
	var records []Record
	q := dram.NewSequence(s, ranks)
	q.Issued = func(step int64, c dram.Command, a dram.Address) {
		records = append(records, Record{Clock: step, Command: c, Address: a})
	}
	now := int64(0)
	for _, r := range commands {
		now = q.Issue(r.Command, r.Address, now)
	}
	return records
}

// Place formats an address as ParseSequence reads it.
func Place(a dram.Address) string {
	switch {
	case a.Bank < 0:
		return fmt.Sprint(a.Rank)
	case a.BankGroup < 0:
		return fmt.Sprintf("%d.*.%d", a.Rank, a.Bank)
	}
	return fmt.Sprintf("%d.%d.%d", a.Rank, a.BankGroup, a.Bank)
}
