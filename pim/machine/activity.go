package machine

import "github.com/l3sim/l3sim/dram"

// Activity is the work of a rank for attention, without refresh, from which its energy follows. Means have fractions; tables hold whole
// numbers.
type Activity struct {
	Activates float64 // activations of single banks, each with its precharge
	UnitReads float64 // bursts that banks read for their units and that do not cross the chips' pins
	Reads     float64 // bursts that leave the chips
	Writes    float64 // bursts that enter them
	Open      float64 // clocks with a row open in any bank
	Clocks    float64 // clocks of the rank
}

// Plus returns a + n·b.
func (a Activity) Plus(b Activity, n float64) Activity {
	return Activity{
		a.Activates + float64(n*b.Activates), a.UnitReads + float64(n*b.UnitReads), a.Reads + float64(n*b.Reads),
		a.Writes + float64(n*b.Writes), a.Open + float64(n*b.Open), a.Clocks + float64(n*b.Clocks),
	}
}

// activity returns the activity of a run of the given clocks on a rank with the given number of banks.
func (c *counters) activity(clocks int64, banks int) Activity {
	n := &c.Commands
	return Activity{
		Activates: float64(n[dram.ACT] + int64(banks)*n[dram.ACTA]), UnitReads: float64(int64(banks) * n[dram.MACA]),
		Reads: float64(n[dram.RD] + n[dram.RDRES]), Writes: float64(n[dram.WR] + n[dram.WRBUF]), Open: float64(c.open), Clocks: float64(clocks),
	}
}
