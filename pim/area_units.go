package pim

import "github.com/l3sim/l3sim/dram"

// Unit is a kind of hardware that L3 has on a chip, beside its banks, or on a rank's share of the buffer chip.
type Unit struct {
	Name string
	Bank bool // beside banks, in a DRAM process, else in the buffer chip
	// Count is how many a chip has, or a rank.
	Count int
	// Each is the area of one in logic of 28 nm, nil where nothing is published that it could be estimated from.
	Each *Area
}

// Total returns the area of all, µm², in the process where they are; false where it is not estimated.
func (u *Unit) Total() (Area, bool) {
	if u.Each == nil {
		return Area{}, false
	}
	a := u.Each.times(u.Count)
	if u.Bank {
		a = Area{DRAMProcess * a.Low, DRAMProcess * a.High}
	}
	return a, true
}

// Units returns L3's own hardware on ranks of d: Table 5 of the paper, the score buffer by its cells, and what neither has.
func Units(spec *Spec, d *dram.Spec) []Unit {
	exact := func(area float64) *Area { return &Area{area, area} }
	buffer := partAreas[SRAMByte].times(int(spec.ScoreBuffer))
	all := []Unit{
		{"re-layout unit", false, 1, exact(L3RelayoutArea)}, {"adder unit", false, 1, exact(L3AdderArea)}, {"softmax unit", false, 1, exact(L3SoftmaxArea)},
		{"score buffer", false, 1, &buffer},
		{"staging, commands, refresh", false, 1, nil}, {"host's links and polling", false, 1, nil},
	}
	if spec.ProcessingUnit == RankPU { // the same multipliers and adders, for the share of each chip
		return append(all, Unit{"multipliers and adders", false, d.Chips(), exact(L3BankArea)})
	}
	return append(all, Unit{"bank PU", true, d.Banks(), exact(L3BankArea)}, Unit{"shared and result buffers", true, 1, nil})
}
