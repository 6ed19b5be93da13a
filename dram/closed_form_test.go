package dram

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

// access is one read of a Ramulator benchmark, available at step 0.
type access struct {
	bank int // within rank 0
	row  int32
}

// readAll serves reads of rank 0 with all banks closed. Of the next reads of each bank, it issues the oldest whose command is allowed,
// column commands first. It returns the step after the last data, and the steps of the ACTs.
func readAll(s *Spec, ranks int, reads []access) (end int64, acts []int64) {
	q := NewSequence(s, ranks)
	queues := make([][]int, s.Banks()) // indices into reads, by bank
	for i, r := range reads {
		queues[r.bank] = append(queues[r.bank], i)
	}
	for t, left := int64(0), len(reads); left > 0; {
		// The best command on each bus at t, and the first later step at which any command may issue.
		type choice struct {
			command Command
			at      Address
			age     int
		}
		best := make([]choice, len(s.Rules().Buses))
		for i := range best {
			best[i].age = math.MaxInt
		}
		next := int64(math.MaxInt64)
		for bank, queue := range queues {
			if len(queue) == 0 {
				continue
			}
			a := Address{0, int32(bank / s.BanksPerGroup), int32(bank % s.BanksPerGroup), reads[queue[0]].row, -1}
			c, age := RD, queue[0]
			switch open := q.State.Rows()[bank]; {
			case open < 0:
				c, age = ACT, age+len(reads)
			case open != a.Row:
				c, age = PRE, age+2*len(reads)
			}
			earliest := q.Earliest(c, a, t)
			if earliest > t {
				next = min(next, earliest)
				continue
			}
			if b := &best[s.Rules().Action(c).Bus]; age < b.age {
				*b = choice{c, a, age}
			}
		}
		for _, b := range best {
			if b.age == math.MaxInt {
				continue
			}
			at := q.Issue(b.command, b.at, t)
			next = min(next, at+1)
			bank := int(b.at.BankGroup)*s.BanksPerGroup + int(b.at.Bank)
			switch b.command {
			case ACT:
				acts = append(acts, at)
			case RD:
				queues[bank] = queues[bank][1:]
				left--
				end = max(end, at+s.DataEnd(RD))
			}
		}
		t = next
	}
	return end, acts
}

// spread returns n banks, iterating over bank groups fastest.
func spread(s *Spec, n int) []int {
	banks := make([]int, n)
	for i := range banks {
		banks[i] = i%s.BankGroups*s.BanksPerGroup + i/s.BankGroups%s.BanksPerGroup
	}
	return banks
}

// bench returns a single-rank read benchmark of Ramulator's.
func bench(s *Spec, name string) []access {
	var list []access
	add := func(n int, of func(i int) access) {
		for i := range n {
			list = append(list, of(i))
		}
	}
	order := spread(s, s.Banks())
	switch name {
	case "one_read":
		add(1, func(int) access { return access{} })
	case "hit_1bank":
		add(s.RowBursts(), func(int) access { return access{} })
	case "act_rate":
		add(8192, func(i int) access { return access{order[i%len(order)], int32(i / len(order))} })
	case "conflict_1bank":
		add(2000, func(i int) access { return access{0, int32(i)} })
	case "hit_bgs":
		each := s.RowBursts() * s.BankGroups
		add(16384, func(i int) access {
			return access{order[i/each*s.BankGroups%len(order)+i%s.BankGroups], int32(i / each / s.BanksPerGroup)}
		})
	}
	return list
}

// TestRamulatorClosedForms: our results equal Ramulator's to the clock if its closed form is exact, and are not below it if the form is a
// lower bound.
func TestRamulatorClosedForms(t *testing.T) {
	exact := 0
	for _, row := range ramulatorRows(t, "closed_form.csv") {
		name, kind := row["standard"], row["bench"]
		if kind == "random_read" { // depends on the controller's choices
			continue
		}
		s := ramulatorPart(t, name)
		end, acts := readAll(s, ramulatorParts[name].ranks, bench(s, kind))
		// Ramulator's first command comes one step after the request's clock.
		got := float64(end+1) / float64(s.Rules().StepsPerClock)
		if kind == "one_read" {
			got += 100
		}
		want, _ := strconv.ParseFloat(row["measured_end"], 64)
		if bound, _ := strconv.ParseFloat(row["expected_end"], 64); got < bound {
			t.Errorf("%s %s ends at %v, before the bound %v", name, kind, got, bound)
		}
		if row["kind"] == "exact" {
			exact++
			if got != want {
				t.Errorf("%s %s ends at %v, Ramulator's at %v", name, kind, got, want)
			}
		} else if math.Abs(got-want) > 0.001*want {
			t.Errorf("%s %s ends at %v, Ramulator's at %v, more than 0.1%% apart", name, kind, got, want)
		}
		for _, r := range ramulatorRows(t, "results.csv") {
			if r["standard"] == name && r["bench"] == kind && kind == "act_rate" {
				five := int64(math.MaxInt64)
				for i := 4; i < len(acts); i++ {
					five = min(five, acts[i]-acts[i-4])
				}
				if want := strings.TrimSuffix(r["min_five_act_window"], ".0"); strconv.FormatInt(five/int64(s.Rules().StepsPerClock), 10) != want {
					t.Errorf("%s: five ACTs in %d steps, Ramulator's in %s clocks", name, five, want)
				}
			}
		}
	}
	if exact != 26 {
		t.Errorf("%d exact figures", exact)
	}
}
