package tables

import (
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/units"
)

// counted runs a head command by command and counts commands independently of the machine. Package dram's meter measures how long rows are
// open.
func counted(b *machine.Runner, d *dram.Spec, h machine.Head) machine.Activity {
	var a machine.Activity
	meter, banks := dram.NewEnergyMeter(d, 1), float64(d.Banks())
	b.Machine.Repeats.On = false
	b.Machine.Observe = func(clock int64, cmd dram.Command, at dram.Address, _ *machine.Instruction) {
		meter.Record(cmd, at, clock)
		switch cmd {
		case dram.ACT:
			a.Activates++
		case dram.ACTA:
			a.Activates += banks
		case dram.MACA:
			a.UnitReads += banks
		case dram.RD, dram.RDRES:
			a.Reads++
		case dram.WR, dram.WRBUF:
			a.Writes++
		}
	}
	end := b.Run(h)
	b.Machine.Observe = nil
	a.Clocks = float64(end)
	a.Open = float64(meter.Standby(0, end)[dram.ActiveStandby]) / float64(d.BusSteps(1))
	return a
}

// TestActivityBeyondTheBuffer: keys beyond the score buffer are scored twice, and the table counts both. Contexts end on both
// sides of the end of the buffer and of a row.
func TestActivityBeyondTheBuffer(t *testing.T) {
	deep.Heavy(t)
	for _, c := range []struct {
		buffer    units.Bytes
		queries   int
		precision string
		unit      string
	}{
		{units.KiB, 1, "paper", pim.BankUnits}, {2 * units.KiB, 1, "fp32", pim.BankUnits}, {32 * units.KiB, 16, "paper", pim.BankUnits}, {256 * units.KiB, 128, "fp32", pim.BankUnits},
		{units.KiB, 2, "paper", pim.RankLevelUnit},
	} {
		if c.buffer > 2*units.KiB && !deep.On() {
			continue
		}
		spec := pim.Default()
		spec.ScoreBuffer, spec.Precision.Preset, spec.ProcessingUnit = c.buffer, c.precision, c.unit
		shape := pim.HeadShape{HeadDim: 128, Queries: c.queries, ElementBits: 16}
		d := parts.DDR4(t)
		b, err := machine.NewRunner(spec, d, shape)
		parts.Must(t, err)
		table, err := NewKernelTable(spec, d, shape)
		parts.Must(t, err)
		segment := table.segment
		for _, context := range []int{1, segment, segment + 1, max(512, segment) + 17, 3 * max(512, segment)} {
			if got, want := table.Activity(context), counted(b, d, machine.Head{Context: context, Appends: true}); got != want {
				t.Errorf("%+v, %d tokens:\ntable %+v\nrun   %+v", c, context, got, want)
			}
		}
	}
}

// TestActivityByHand: for each query head, 4 MACAs for 16 keys and 1 for 4 values (lab/docs/model-dimm.md), in 16 banks, and 4 more for each 16 keys
// beyond the score buffer. Each row of keys or values opens 16 banks. An append opens the key's bank and the value's four, and may open the key's
// again.
func TestActivityByHand(t *testing.T) {
	spec := pim.Default()
	spec.ScoreBuffer = 2 * units.KiB // 1,024 scores of one query head
	table, err := NewKernelTable(spec, parts.DDR4(t), oneHead)
	parts.Must(t, err)
	for context, want := range map[int]machine.Activity{
		16:   {Activates: 2*16 + 5, UnitReads: 16 * 8},
		17:   {Activates: 2*16 + 5, UnitReads: 16 * (8 + 5)},
		1024: {Activates: 4*16 + 5, UnitReads: 16 * 8 * 64},
		2048: {Activates: 8*16 + 2*16 + 5, UnitReads: 16 * (8*128 + 4*64)}, // the second half's keys again
	} {
		got := table.Activity(context)
		if got.Activates != want.Activates || got.UnitReads != want.UnitReads {
			t.Errorf("%d tokens: %v activates and %v unit reads, want %v and %v", context, got.Activates, got.UnitReads, want.Activates, want.UnitReads)
		}
	}
}
