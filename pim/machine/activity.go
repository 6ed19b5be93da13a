package machine

import "github.com/l3sim/l3sim/dram"

// Activity is what attention has a rank do, refresh apart, for its energy. It has fractions where it is a mean; tables hold whole numbers.
type Activity struct {
	Activates float64 // of single banks, each with its precharge
	UnitReads float64 // bursts that banks read for their units, which do not cross the chips' pins
	Reads     float64 // bursts that leave the chips
	Writes    float64 // bursts that enter them
	Open      float64 // clocks with a row open in any bank
	Clocks    float64 // clocks of the rank
}

// Plus returns a and b, n times.
func (a Activity) Plus(b Activity, n float64) Activity {
	return Activity{
		a.Activates + float64(n*b.Activates), a.UnitReads + float64(n*b.UnitReads), a.Reads + float64(n*b.Reads),
		a.Writes + float64(n*b.Writes), a.Open + float64(n*b.Open), a.Clocks + float64(n*b.Clocks),
	}
}

// activity returns what a run of that many clocks did on a rank of so many banks.
func (c *counters) activity(clocks int64, banks int) Activity {
	n := &c.Commands
	return Activity{
		Activates: float64(n[dram.ACT] + int64(banks)*n[dram.ACTA]), UnitReads: float64(int64(banks) * n[dram.MACA]),
		Reads: float64(n[dram.RD] + n[dram.RDRES]), Writes: float64(n[dram.WR] + n[dram.WRBUF]), Open: float64(c.open), Clocks: float64(clocks),
	}
}
