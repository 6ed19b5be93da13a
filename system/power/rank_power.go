package power

import (
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/pim/machine"
)

// rankDraw is what the commands of one rank take.
type rankDraw struct {
	spec                  *dram.Spec
	e                     *energy.Point
	activate, read, write float64 // joules of a bank's ACT and PRE, and of a burst without its pins
	io                    float64 // joules of a burst on the pins
	refresh, closed       float64 // watts: of REFs, and of standby with rows closed
	opens, opensAll       float64 // watts that open rows add to standby: of one bank, of all banks
	vpp                   float64 // watts of the word lines' supply
	rate                  float64 // bytes a second of the channel
	rankLevel             bool    // units are on the buffer chips
}

// newRankDraw derives the joules of single commands and the watts of states from the standard's own meter, so that
// both agree.
func newRankDraw(s *dram.Spec, e *energy.Point) rankDraw {
	of := func(clocks int64, commands ...dram.Command) dram.Energy {
		m := dram.NewEnergyMeter(s, 1)
		for _, c := range commands {
			m.Record(c, dram.Address{}, 0)
		}
		return m.Energy(clocks).Times(e.DRAMCurrents)
	}
	const clocks = 1 << 20
	second := clocks * s.TCK.Seconds()
	d := rankDraw{spec: s, e: e, activate: of(0, dram.ACT).ActivateJoules, read: of(0, dram.RD).ReadJoules, write: of(0, dram.WR).WriteJoules}
	d.closed = of(clocks).BackgroundJoules / second
	d.opens = of(clocks, dram.ACT).BackgroundJoules/second - d.closed
	d.opensAll = s.StandbyJoules(dram.ActiveStandby, s.Steps(clocks), s.Steps(clocks*s.Banks()))*e.DRAMCurrents/second - d.closed
	d.refresh = of(0, dram.REF).RefreshJoules / (float64(s.TREFI) * s.TCK.Seconds())
	d.vpp = float64(s.Devices()*s.Stack()) * e.DRAMVPP
	d.io, d.rate = 8*float64(s.BurstBytes())*e.DRAMIO*float64(s.Devices())/float64(s.Chips()), float64(s.Bandwidth())
	return d
}

func (d *rankDraw) idle() float64 { return d.closed + d.refresh + d.vpp }

// stream returns the joules of bytes that the host reads reads times and writes writes times, row after row.
func (d *rankDraw) stream(bytes, reads, writes float64) draw {
	bursts := bytes / float64(d.spec.BurstBytes())
	return d.commands(&machine.Activity{
		Activates: (reads + writes) * bytes / float64(d.spec.RowBytes()), Reads: reads * bursts, Writes: writes * bursts,
		Open: (reads + writes) * bursts * float64(d.spec.BurstClocks()),
	})
}

// commands returns the joules of the commands of a rank's activity, and of open rows, one bank at a time.
func (d *rankDraw) commands(a *machine.Activity) (sum draw) {
	sum[drawActivate], sum[drawUnitRead] = a.Activates*d.activate, a.UnitReads*d.read*d.e.PIMRead
	sum[drawRead], sum[drawWrite], sum[drawIO] = a.Reads*d.read, a.Writes*d.write, (a.Reads+a.Writes)*d.io
	sum[drawOpen] = a.Open * d.spec.TCK.Seconds() * d.opens
	return sum
}

// attention returns the joules of a rank's activity with its units: those at the banks work while banks read for them, or
// as many multipliers on the buffer chip while bursts come, and adders and softmax all the time. All banks stand open while
// one does, which is so but for the clocks in which they open one after another.
func (d *rankDraw) attention(a *machine.Activity) draw {
	s, tCK := d.spec, d.spec.TCK.Seconds()
	sum, busy := d.commands(a), float64(a.UnitReads*float64(s.TCCDL))
	if d.rankLevel {
		busy = float64(a.Reads * float64(s.BurstClocks()))
	}
	sum[drawOpen] = a.Open * tCK * d.opensAll
	sum[drawBankUnits] = busy * tCK * float64(s.Chips()) * d.e.BankUnit
	sum[drawRankUnits] = a.Clocks * tCK * (d.e.AdderUnit + d.e.SoftmaxUnit)
	return sum
}

// notKnown says what energy of DIMMs lacks, "" where nothing.
func notKnown(cfg *configs.Config) string {
	if why := cfg.DRAM.NotKnown(); why != "" {
		return "DRAM chips: " + why
	}
	return ""
}
