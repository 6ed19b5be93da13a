package check

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/deep"
)

var twoClocks = map[dram.Command]int{dram.ACT: 2, dram.RD: 2, dram.RDA: 2, dram.WR: 2, dram.WRA: 2}

// judges have a part of each standard, with clocks from the sources that its table names.
var judges = []judge{
	{part: "ddr4-3200-8gb-x8", ranks: 2, perPseudo: 2, groups: 4, banks: 4, cl: 22, cwl: 16, burst: 4, rcdRead: 22, rcdWrite: 22, ras: 52, rc: 74,
		rp: 22, rpAll: 22, rrdShort: 4, rrdLong: 8, faw: 34, ccdShort: 4, ccdLong: 8, ccdWrite: 8, rtp: 12, wr: 24, wtrShort: 4, wtrLong: 12,
		rtw: 12, rankGap: 1, rfc: 560},
	{part: "ddr5-4800-16gb-x8", ranks: 2, perPseudo: 2, groups: 8, banks: 4, cl: 40, cwl: 38, burst: 8, rcdRead: 39, rcdWrite: 39, ras: 77, rc: 116,
		rp: 39, rpAll: 39, rrdShort: 8, rrdLong: 12, faw: 32, ccdShort: 8, ccdLong: 12, ccdWrite: 24, rtp: 18, wr: 72, wtrShort: 6, wtrLong: 24,
		rtw: 14, ppd: 2, rankGap: 2, rfc: 708, rfcOne: 312, afterOne: 72, oneToOne: 312, actToOne: 12, steps: twoClocks, late: true},
	{part: "ddr5-4800-16gb-x4", ranks: 2, perPseudo: 2, groups: 8, banks: 4, cl: 40, cwl: 38, burst: 8, rcdRead: 39, rcdWrite: 39, ras: 77, rc: 116,
		rp: 39, rpAll: 39, rrdShort: 8, rrdLong: 12, faw: 32, ccdShort: 8, ccdLong: 12, ccdWrite: 48, rtp: 18, wr: 72, wtrShort: 6, wtrLong: 24,
		rtw: 14, ppd: 2, rankGap: 2, rfc: 708, rfcOne: 312, afterOne: 72, oneToOne: 312, actToOne: 12, steps: twoClocks, late: true},
	{part: "hbm3-6400-16gb-8h", ranks: 4, perPseudo: 2, groups: 4, banks: 4, cl: 20, cwl: 10, burst: 2, rcdRead: 31, rcdWrite: 15, ras: 45, rc: 72,
		rp: 26, rpAll: 26, rrdShort: 4, rrdLong: 5, faw: 24, ccdShort: 2, ccdLong: 4, ccdWrite: 4, rtp: 9, wr: 33, wtrShort: 7, wtrLong: 10,
		rtw: 20, ppd: 2, ccdRank: 3, rfc: 560, rfcOne: 320, afterOne: 13, oneToOne: 13, actToOne: 4, half: true, late: true, wholePseudo: true,
		steps: map[dram.Command]int{dram.ACT: 3, dram.RD: 2, dram.RDA: 2, dram.WR: 2, dram.WRA: 2},
		rows:  []dram.Command{dram.ACT, dram.PRE, dram.PREA, dram.REF, dram.REFpb}},
	{part: "hbm2-2000-8gb-4h", ranks: 2, perPseudo: 1, groups: 4, banks: 4, cl: 14, cwl: 5, burst: 2, rcdRead: 14, rcdWrite: 12, ras: 34, rc: 48,
		rp: 14, rpAll: 14, rrdShort: 4, rrdLong: 4, faw: 15, ccdShort: 2, ccdLong: 4, ccdWrite: 4, rtp: 5, wr: 16, wtrShort: 6, wtrLong: 8,
		rtw: 13, rfc: 350, rfcOne: 160, afterOne: 8, oneToOne: 8, actToOne: 4, late: true, wholePseudo: true,
		steps: map[dram.Command]int{dram.ACT: 2}, rows: []dram.Command{dram.ACT, dram.PRE, dram.PREA, dram.REF, dram.REFpb}},
	{part: "lpddr5x-8533-16gb-x16", ranks: 2, perPseudo: 2, groups: 4, banks: 4, cl: 23, cwl: 12, burst: 2, rcdRead: 20, rcdWrite: 20, ras: 45, rc: 65,
		rp: 20, rpAll: 23, rrdShort: 6, rrdLong: 6, faw: 22, ccdShort: 2, ccdLong: 4, ccdWrite: 4, rtp: 8, wr: 37, wtrShort: 7, wtrLong: 13,
		rtw: 15, ppd: 2, rankGap: 2, rfc: 299, rfcOne: 150, afterOne: 8, oneToOne: 96, actToOne: 6, pairs: true, wck: true, second: 8, groupBurst: 2},
	{part: "gddr6-16000-8gb-x16", ranks: 1, perPseudo: 1, groups: 4, banks: 4, cl: 28, cwl: 7, burst: 2, rcdRead: 31, rcdWrite: 19, ras: 61, rc: 92,
		rp: 31, rpAll: 31, rrdShort: 10, rrdLong: 10, faw: 34, ccdShort: 2, ccdLong: 4, ccdWrite: 4, rtp: 5, wr: 31, wtrShort: 11, wtrLong: 13,
		rtw: 29, ppd: 1, rfc: 241, rfcOne: 121, afterOne: 18, oneToOne: 18, actToOne: 10, oneCounts: true},
	{part: "lpddr4-2400-8gb-x16", ranks: 2, perPseudo: 2, groups: 2, banks: 4, cl: 17, cwl: 14, burst: 8, rcdRead: 15, rcdWrite: 15, ras: 32, rc: 47,
		rp: 15, rpAll: 15, rrdShort: 8, rrdLong: 8, faw: 32, ccdShort: 8, ccdLong: 8, ccdWrite: 8, rtp: 12, wr: 30, wtrShort: 8, wtrLong: 16,
		rtw: 12, ppd: 2, rankGap: 1, writesMeet: true, rfc: 392},
}

// judged are the commands that judges know.
var judged = []dram.Command{dram.ACT, dram.ACT, dram.ACT, dram.PRE, dram.RD, dram.RD, dram.RD, dram.WR, dram.WR, dram.RDA, dram.WRA, dram.PREA,
	dram.REF, dram.REFsb, dram.REFpb, dram.PREsb}

// place returns a as an address for the command c.
func place(s *dram.Spec, c dram.Command, a dram.Address) dram.Address {
	switch s.Rules().Action(c).Span {
	case dram.WholeRank, dram.WholeChannel:
		a.BankGroup, a.Bank = -1, -1
	case dram.SameBanks:
		a.BankGroup = -1
	}
	if !c.IsColumn() {
		a.Column = -1
		if c != dram.ACT {
			a.Row = -1
		}
	}
	return a
}

// legalLog draws a legal log of n commands on few banks, so that they interact. They are as close as the rules allow, or a little further
// apart.
func legalLog(random *rand.Rand, s *dram.Spec, ranks, n int) []Record {
	var log []Record
	q := dram.NewSequence(s, ranks)
	q.Issued = func(step int64, c dram.Command, a dram.Address) { log = append(log, Record{step, c, a}) }
	now, refreshes := int64(0), 0
	for len(log) < n {
		c := judged[random.IntN(len(judged))]
		if !s.Rules().Action(c).Known {
			continue
		}
		a := at(int32(random.IntN(ranks)), int32(random.IntN(s.BankGroups)), int32(random.IntN(2)), int32(random.IntN(2)), 0)
		if random.IntN(2) == 0 { // often the bank of the command before
			if last := len(log) - 1; last >= 0 && log[last].Address.BankGroup >= 0 {
				a.Rank, a.BankGroup, a.Bank = log[last].Address.Rank, log[last].Address.BankGroup, log[last].Address.Bank
			}
		}
		row := q.State.Rows()[(int(a.Rank)*s.BankGroups+int(a.BankGroup))*s.BanksPerGroup+int(a.Bank)]
		if c.IsColumn() && row >= 0 {
			a.Row = row
		}
		a = place(s, c, a)
		refresh := slices.ContainsFunc(s.Rules().Refreshes, func(r dram.Refresh) bool { return r.Command == c })
		if !suits(q.State, s, ranks, c, a) || refresh && refreshes == 4 {
			continue
		}
		if refresh {
			refreshes++
		}
		now = q.Issue(c, a, now+int64(max(0, random.IntN(8)-5)))
	}
	return log
}

// suits reports whether c's banks are in the state that it needs.
func suits(state *dram.State, s *dram.Spec, ranks int, c dram.Command, a dram.Address) bool {
	action := s.Rules().Action(c)
	first, count := int(a.Rank), 1
	if action.Span == dram.WholeChannel {
		count = ranks / s.Rules().PseudoChannels
		first = first / count * count
	}
	for rank := first; rank < first+count; rank++ {
		bank, stride, end := s.Spanned(c, a)
		for ; bank < end; bank += stride {
			open := state.Rows()[rank*s.Banks()+bank] >= 0
			if action.Needs == dram.Open && !open || action.Needs == dram.Closed && open {
				return false
			}
		}
	}
	return true
}

// mutant changes one command of a log.
func mutant(random *rand.Rand, s *dram.Spec, ranks int, log []Record) []Record {
	log = slices.Clone(log)
	i := random.IntN(len(log))
	r := &log[i]
	switch random.IntN(8) {
	case 0, 1, 2:
		r.Clock -= 1 + int64(random.IntN(3)*random.IntN(20))
	case 3:
		r.Clock += 1 + int64(random.IntN(40))
	case 4:
		log = slices.Delete(log, i, i+1)
	case 5:
		again := *r
		again.Clock += int64(random.IntN(100))
		log = append(log, again)
	case 6:
		c := judged[random.IntN(len(judged))]
		if s.Rules().Action(c).Known {
			a := r.Address
			a.BankGroup, a.Bank, a.Row, a.Column = max(a.BankGroup, 0), max(a.Bank, 0), max(a.Row, 0), 0
			r.Command, r.Address = c, place(s, c, a)
		}
	default:
		a := at(int32(random.IntN(ranks)), int32(random.IntN(s.BankGroups)), int32(random.IntN(2)), int32(random.IntN(2)), 0)
		r.Address = place(s, r.Command, a)
	}
	log = slices.DeleteFunc(log, func(r Record) bool { return r.Clock < 0 })
	slices.SortStableFunc(log, func(a, b Record) int { return int(a.Clock - b.Clock) })
	return log
}

// TestMutants: the checker and an independent judge agree on legal logs of every standard, and on mutants with one command changed: every
// illegal log is rejected and every legal one accepted.
func TestMutants(t *testing.T) {
	deep.Heavy(t)
	logs := deep.Of(4, 12, 400)
	judging := map[string]bool{}
	for _, j := range judges {
		s := part(t, j.part)
		judging[s.Standard] = true
		random := rand.New(rand.NewPCG(20, 1))
		legal, illegal := 0, 0
		for range logs {
			log := legalLog(random, s, j.ranks, 40)
			if wrong := j.legal(log); wrong != "" {
				t.Fatalf("%s: the judge finds %s in a log of the rules", j.part, wrong)
			}
			for range 40 {
				changed := mutant(random, s, j.ranks, log)
				wrong := j.legal(changed)
				found := checkRecords(s, j.ranks, false, changed)
				if (wrong == "") != (len(found) == 0) {
					t.Fatalf("%s: the judge says %q, the checker %+v", j.part, wrong, found)
				}
				if wrong == "" {
					legal++
				} else {
					illegal++
				}
			}
			if found := checkRecords(s, j.ranks, false, log); len(found) > 0 {
				t.Fatalf("%s: %+v", j.part, found[0])
			}
		}
		if legal < logs*3 || illegal < logs*10 {
			t.Errorf("%s: %d legal mutants, %d illegal ones", j.part, legal, illegal)
		}
	}
	for _, s := range dram.Standards() {
		if !judging[s.Name] {
			t.Errorf("%s has no judge", s.Name)
		}
	}
}
