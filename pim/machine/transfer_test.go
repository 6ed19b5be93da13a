package machine

import (
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
)

// While one of four ranks receives, the other three compute: 75% (L3, section 5.1). At a row
// boundary the rank loses only the transfer's time, since all banks close and open there anyway;
// within a row it also loses a row switch.
func TestTransferShare(t *testing.T) {
	d := parts.DDR4(t)
	for _, c := range []struct {
		boundary string
		from     int64
		least    int64 // clocks lost beyond the transfer
		most     int64
		wait     int64 // at most
	}{
		{pim.BoundaryHead, 5000, -66, 66, 20_000},
		{pim.BoundaryRow, 5000, -66, 66, 1024 + 170},
		{pim.BoundaryChunk, 5000, 136 - 8, 170 + 66, 32 + 170},
	} {
		spec := pim.Default()
		spec.TransferBoundary = c.boundary
		m, err := MeasureTransfer(spec, d, fp16Head, 4, 4096, 2048, c.from)
		if err != nil {
			t.Fatal(err)
		}
		extra := m.LostClocks - m.WriteClocks
		t.Logf("%s: wait %d, write %d, lost %d more, bus %.3f, share %.4f", c.boundary, m.WaitClocks, m.WriteClocks, extra, m.BusShare, m.ComputeShare)
		if extra < c.least || extra > c.most {
			t.Errorf("%s: %d clocks lost beyond the transfer, want %d to %d", c.boundary, extra, c.least, c.most)
		}
		if m.WaitClocks < 0 || m.WaitClocks > c.wait {
			t.Errorf("%s: the transfer waited %d clocks, want at most %d", c.boundary, m.WaitClocks, c.wait)
		}
		if m.ComputeShare < 0.74 || m.ComputeShare > 0.76 {
			t.Errorf("%s: %.4f of the compute remains, want 3/4", c.boundary, m.ComputeShare)
		}
		if m.BusShare < 0.97 {
			t.Errorf("%s: data moved in %.3f of the transfer's clocks, want 0.97", c.boundary, m.BusShare)
		}
	}
}

// The interrupted run, host writes included, obeys the standard.
func TestTransfersPassTheChecker(t *testing.T) {
	d := parts.DDR4(t)
	for _, boundary := range []string{pim.BoundaryHead, pim.BoundaryRow, pim.BoundaryChunk} {
		for _, tokens := range []int{1, 17, 700} {
			spec := pim.Default()
			spec.TransferBoundary = boundary
			b, err := NewRunner(spec, d, fp16Head)
			if err != nil {
				t.Fatal(err)
			}
			b.Machine.Repeats.On = false
			checker := check.NewChecker(d, 1, true)
			b.Machine.Observe = checkedRun{checker}.Command
			b.Machine.Receive(&Transfer{Geometry: b.Program.Geometry, FirstRow: 100, Tokens: tokens}, 700)
			h := Head{Context: 1500, Appends: true}
			b.Ends(h, h)
			writes := b.Machine.Counters.Commands[dram.WR] - 16
			if want := int64(8 * tokens); writes != want {
				t.Errorf("%s: %d writes, want %d", boundary, writes, want)
			}
			if v := checker.Violations(); len(v) > 0 {
				t.Errorf("%s: %+v", boundary, v[0])
			}
		}
	}
}
