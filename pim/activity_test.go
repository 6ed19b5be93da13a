package pim

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/dram"
)

// TestHeadActivity: the line is the mean of heads command by command, and off by less than what half of a head's last
// rows take; and it has the commands that the mapping asks for.
func TestHeadActivity(t *testing.T) {
	d, err := dram.LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range []string{BankPU, RankPU} {
		for _, queries := range []int{1, 4} {
			spec, shape := Default(), HeadShape{HeadDim: 128, Queries: queries, ElementBits: 16}
			spec.ProcessingUnit = unit
			head, token, err := HeadActivity(spec, d, shape)
			if err != nil {
				t.Fatal(err)
			}
			b, err := newTableBuilder(spec, d, shape)
			if err != nil {
				t.Fatal(err)
			}
			b.machine.periodic.on = false
			var mean, line Activity
			const first, last, step = 3072 - 448, 3072, 64
			for context := first; context <= last; context += step {
				meter := dram.NewEnergyMeter(d, 1)
				b.machine.observe = func(clock int64, cmd dram.Command, a dram.Address, _ *instruction) { meter.Record(cmd, a, clock) }
				clocks := b.run(headRun{context: context, appends: true})
				c := &b.machine.counters.commands
				banks := float64(d.Banks())
				got := head.Plus(token, float64(context))
				want := Activity{
					Activates: float64(c[dram.ACT]) + banks*float64(c[dram.ACTA]), UnitReads: banks * float64(c[dram.MACA]),
					Reads: float64(c[dram.RD] + c[dram.RDRES]), Writes: float64(c[dram.WR] + c[dram.WRBUF]), Clocks: float64(clocks),
				}
				standby := meter.Energy(clocks).BackgroundJoules / (d.Power.VDD * 1e-3 * float64(d.Chips()) * d.TCK.Seconds())
				want.Open = (standby - d.Power.IDD2N*float64(clocks)) / (d.Power.IDD3N - d.Power.IDD2N)
				if off := math.Abs(got.Activates - want.Activates); off > banks+1e-6 { // half of a row of keys and one of values, of all banks
					t.Errorf("%s, %d tokens: %v activates, the line has %v", unit, context, want.Activates, got.Activates)
				}
				mean, line = mean.Plus(want, 1), line.Plus(got, 1)
			}
			for what, c := range map[string][2]float64{
				"activates": {line.Activates, mean.Activates}, "unit reads": {line.UnitReads, mean.UnitReads}, "reads": {line.Reads, mean.Reads},
				"writes": {line.Writes, mean.Writes}, "open": {line.Open, mean.Open}, "clocks": {line.Clocks, mean.Clocks},
			} {
				if math.Abs(c[0]-c[1]) > 0.015*c[1] {
					t.Errorf("%s, %d queries: %s are %v by the line, %v command by command", unit, queries, what, c[0], c[1])
				}
			}
			// 4 MACAs for 16 tokens and 1 for 4 (docs/pim-timing.md), of 16 banks, for each query head.
			if want := float64(queries) * (4.0/16 + 1.0/4) * 16; unit == BankPU && math.Abs(token.UnitReads-want) > 1e-9 {
				t.Errorf("%v unit reads a token, want %v", token.UnitReads, want)
			}
			if want := 2.0 * 16 / 512; math.Abs(token.Activates-want) > 1e-9 {
				t.Errorf("%s: %v activates a token, want %v", unit, token.Activates, want)
			}
		}
	}
}
