package ranks

import (
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/pim/machine"
)

// Parts of a rank's power, in the order of results.EnergyComponents.
const (
	DrawActivate = iota
	DrawRead
	DrawWrite
	DrawIO
	DrawRefresh
	DrawOpen
	DrawClosed
	DrawVPP
	DrawUnitRead
	DrawBankUnits
	DrawRankUnits
	DrawParts
)

// Joules is the energy of a rank, by part.
type Joules [DrawParts]float64

// Total returns the sum of all parts.
func (j *Joules) Total() (sum float64) {
	for _, v := range j {
		sum += v
	}
	return sum
}

// Draw is the energy of the commands of one rank.
type Draw struct {
	spec                  *dram.Spec
	e                     *energy.Point
	activate, read, write float64 // joules of a bank's ACT and PRE; of a burst without its pins
	io                    float64 // joules of a burst on the pins
	Refresh, Closed       float64 // watts of refresh; of standby with rows closed
	opens, opensAll       float64 // watts that open rows add to standby: of one bank; of all banks
	VPP                   float64 // watts of the word lines' supply
	Rate                  float64 // bytes per second of the channel
	RankLevel             bool    // units are on the buffer chips
}

// NewDraw derives the joules of single commands and the watts of states from the standard's own power meter,
// so that both agree.
func NewDraw(s *dram.Spec, e *energy.Point) Draw {
	of := func(clocks int64, commands ...dram.Command) dram.Energy {
		m := dram.NewEnergyMeter(s, 1)
		for _, c := range commands {
			m.Record(c, dram.Address{}, 0)
		}
		return m.Energy(clocks).Times(e.DRAMCurrents)
	}
	const clocks = 1 << 20
	second := clocks * s.TCK.Seconds()
	d := Draw{spec: s, e: e, activate: of(0, dram.ACT).ActivateJoules, read: of(0, dram.RD).ReadJoules, write: of(0, dram.WR).WriteJoules}
	d.Closed = of(clocks).BackgroundJoules / second
	d.opens = of(clocks, dram.ACT).BackgroundJoules/second - d.Closed
	d.opensAll = s.StandbyJoules(dram.ActiveStandby, s.BusSteps(clocks), s.BusSteps(clocks*s.Banks()))*e.DRAMCurrents/second - d.Closed
	d.Refresh = of(0, dram.REF).RefreshJoules / (float64(s.TREFI) * s.TCK.Seconds())
	d.VPP = float64(s.Devices()*s.Stack()) * e.DRAMVPP
	d.io, d.Rate = 8*float64(s.BurstBytes())*e.DRAMIO*float64(s.Devices())/float64(s.Chips()), float64(s.Bandwidth())
	return d
}

// Idle returns the watts of a rank without commands: standby, refresh, the word lines' supply.
func (d *Draw) Idle() float64 { return d.Closed + d.Refresh + d.VPP }

// Stream returns the joules of bytes that the host reads reads times and writes writes times, row by row.
func (d *Draw) Stream(bytes, reads, writes float64) Joules {
	bursts := bytes / float64(d.spec.BurstBytes())
	return d.commands(&machine.Activity{
		Activates: (reads + writes) * bytes / float64(d.spec.RowBytes()), Reads: reads * bursts, Writes: writes * bursts,
		Open: (reads + writes) * bursts * float64(d.spec.BurstClocks()),
	})
}

// commands returns the joules of the commands of a rank's activity, and of open rows, with one bank open
// at a time.
func (d *Draw) commands(a *machine.Activity) (sum Joules) {
	sum[DrawActivate], sum[DrawUnitRead] = a.Activates*d.activate, a.UnitReads*d.read*d.e.PIMRead
	sum[DrawRead], sum[DrawWrite], sum[DrawIO] = a.Reads*d.read, a.Writes*d.write, (a.Reads+a.Writes)*d.io
	sum[DrawOpen] = a.Open * d.spec.TCK.Seconds() * d.opens
	return sum
}

// Attention returns the joules of a rank's activity with its units. Units at the banks work while banks read for them, or
// as many multipliers on the buffer chip while bursts arrive; adders and softmax always work. All banks count as open while
// one is, which holds except for the clocks in which they open one after another.
func (d *Draw) Attention(a *machine.Activity) Joules {
	s, tCK := d.spec, d.spec.TCK.Seconds()
	sum, busy := d.commands(a), float64(a.UnitReads*float64(s.TCCDL))
	if d.RankLevel {
		busy = float64(a.Reads * float64(s.BurstClocks()))
	}
	sum[DrawOpen] = a.Open * tCK * d.opensAll
	sum[DrawBankUnits] = busy * tCK * float64(s.Chips()) * d.e.BankUnit
	sum[DrawRankUnits] = a.Clocks * tCK * (d.e.AdderUnit + d.e.SoftmaxUnit)
	return sum
}
