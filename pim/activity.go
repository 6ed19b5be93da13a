package pim

import (
	"math/bits"

	"github.com/l3sim/l3sim/dram"
)

// Activity is what attention has a rank do, refresh apart, for its energy. It counts fractions where it is a mean.
type Activity struct {
	Activates float64 // of single banks, each with its precharge
	UnitReads float64 // bursts that banks read for their units, which do not cross the chips' pins
	Reads     float64 // bursts that leave the chips
	Writes    float64 // bursts that enter them
	Open      float64 // clocks with a row open
	Clocks    float64 // clocks of the rank
}

// Plus returns a and b, n times.
func (a Activity) Plus(b Activity, n float64) Activity {
	return Activity{
		a.Activates + float64(n*b.Activates), a.UnitReads + float64(n*b.UnitReads), a.Reads + float64(n*b.Reads),
		a.Writes + float64(n*b.Writes), a.Open + float64(n*b.Open), a.Clocks + float64(n*b.Clocks),
	}
}

// HeadActivity returns the activity of a KV head of the shape with its append: a part of each head, and a part of each
// token. It is the mean over the places in a row, and in a chunk, at which a context can end: rows are opened
// and chunks scored whole, so that one head is up to half of its last rows and a chunk off. Scores beyond the score buffer are not part of it.
func HeadActivity(spec *Spec, d *dram.Spec, shape HeadShape) (head, token Activity, err error) {
	b, err := newTableBuilder(spec, d, shape)
	if err != nil {
		return head, token, err
	}
	b.machine.periodic.on = false
	of := func(context int) Activity {
		a := activityMeter{banks: d.Banks(), group: d.BanksPerGroup}
		b.machine.observe = a.record
		clocks := b.run(headRun{context: context, appends: true})
		a.sum.Clocks = float64(clocks)
		return a.sum
	}
	row := b.program.geometry.RowTokens
	most := min(2*row*activityRows, max(1, d.Rows/2)*row)
	token = of(most).Plus(of(most/2), -1)
	token = Activity{}.Plus(token, 1/float64(most-most/2))
	for part := 1; part <= activityParts; part++ {
		context := max(1, most/2-row+(2*part-1)*row/(2*activityParts)+2*part-activityParts)
		head = head.Plus(of(context).Plus(token, -float64(context)), 1.0/activityParts)
	}
	return head, token, nil
}

// activityRows is rows of tokens of the shorter head that HeadActivity compares, activityParts the places in a row.
const activityRows, activityParts = 2, 8

// activityMeter counts the commands of one rank.
type activityMeter struct {
	sum   Activity
	banks int
	group int    // banks of a group
	open  uint64 // banks
	since int64  // clock at which the first of them opened
}

// record counts a command. It is an observer of a machine.
func (m *activityMeter) record(clock int64, cmd dram.Command, a dram.Address, _ *instruction) {
	all := ^uint64(0) >> (64 - m.banks)
	one := uint64(1) << uint(int(a.BankGroup)*m.group+int(a.Bank))
	switch cmd {
	case dram.ACT:
		m.opens(one, clock)
	case dram.ACTA:
		m.opens(all, clock)
	case dram.PRE:
		m.closes(one, clock)
	case dram.PREA:
		m.closes(all, clock)
	case dram.MACA:
		m.sum.UnitReads += float64(m.banks)
	case dram.RD, dram.RDA, dram.RDRES:
		m.sum.Reads++
	case dram.WR, dram.WRA, dram.WRBUF:
		m.sum.Writes++
	}
}

// opens counts banks that were closed as activated. The rank is open from its first open bank on.
func (m *activityMeter) opens(banks uint64, clock int64) {
	if m.open == 0 {
		m.since = clock
	}
	m.sum.Activates += float64(bits.OnesCount64(banks &^ m.open))
	m.open |= banks
}

// closes ends the time that the rank is open if no other bank is.
func (m *activityMeter) closes(banks uint64, clock int64) {
	if m.open&banks != 0 && m.open&^banks == 0 {
		m.sum.Open += float64(clock - m.since)
	}
	m.open &^= banks
}
