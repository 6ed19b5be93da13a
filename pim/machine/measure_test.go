package machine

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
)

func TestMeasureLaws(t *testing.T) {
	d := parts.DDR4(t)
	for _, unit := range []string{pim.BankUnits, pim.RankLevelUnit} {
		for _, shape := range []pim.HeadShape{fp16Head, {HeadDim: 96, Queries: 4, ElementBits: 16}} {
			for _, tokens := range []int{1, 700, 9000} {
				spec := pim.Default()
				spec.ProcessingUnit = unit
				load := Load{Context: tokens, KVHeads: 3, Shape: shape}
				m, err := Measure(context.Background(), spec, d, load, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := m.Phases.total(); got != m.Cycles {
					t.Errorf("%s, %d tokens: the phases add up to %d of %d clocks", unit, tokens, got, m.Cycles)
				}
				// The peak share counts padding, so it bounds the occupancy from above.
				if m.PeakShare <= 0 || m.PeakShare > 1 || unit == pim.BankUnits && m.PeakShare > m.Occupancy.BankPUs+1e-12 {
					t.Errorf("%s, %d tokens: %.4f of the peak with the bank PUs busy %.4f", unit, tokens, m.PeakShare, m.Occupancy.BankPUs)
				}
				for _, o := range []Occupancy{m.Occupancy, m.TotalOccupancy} {
					for _, share := range []float64{o.BankPUs, o.CommandBus, o.DataBus, o.Adders, o.Softmax} {
						if share < 0 || share > 1 || math.IsNaN(share) {
							t.Errorf("%s, %d tokens: occupancy %+v", unit, tokens, o)
						}
					}
				}
				if m.TotalCycles < 3*m.Cycles || m.RefreshCycles < m.Refreshes*int64(d.TRFC) || m.AppendCycles < 100 {
					t.Errorf("%s, %d tokens: %d clocks, %d of refresh for %d REFs, %d of append", unit, tokens,
						m.TotalCycles, m.RefreshCycles, m.Refreshes, m.AppendCycles)
				}
				if m.Energy.ReadJoules <= 0 || m.Energy.ActivateJoules <= 0 || m.Energy.WriteJoules <= 0 {
					t.Errorf("%s, %d tokens: energy %+v", unit, tokens, m.Energy)
				}
			}
		}
	}
}

func TestMeasureRefusesWhatDoesNotFit(t *testing.T) {
	d := parts.DDR4(t)
	// 65,536 rows hold 32,768 units of 512 tokens.
	full := Load{Context: 32_768 * 512, KVHeads: 1, Shape: fp16Head}
	g, err := pim.NewGeometry(d, fp16Head)
	if err != nil {
		t.Fatal(err)
	}
	if heads, err := full.heads(&g, d); err != nil || len(heads) != 1 {
		t.Errorf("all of the rank's rows: %v", err)
	}
	full.Context++
	var wrong *input.Error
	if _, err := Measure(context.Background(), pim.Default(), d, full, nil, nil); !errors.As(err, &wrong) {
		t.Errorf("a context beyond the rank's rows: %v", err)
	}
}

func TestMeasureStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	// Short runs end before the first check of cancellation, long ones stop in the middle: neither
	// gives a result.
	for _, tokens := range []int{100, 200_000} {
		if _, err := Measure(ctx, pim.Default(), parts.DDR4(t), Load{Context: tokens, KVHeads: 4, Shape: fp16Head}, nil, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%d tokens: got %v, want context.Canceled", tokens, err)
		}
	}
}

// A machine that has run once allocates nothing in later runs.
func TestMachineDoesNotAllocate(t *testing.T) {
	b, err := NewRunner(pim.Default(), parts.DDR4(t), fp16Head)
	if err != nil {
		t.Fatal(err)
	}
	b.Machine.Repeats.On = false
	b.Attention(4096)
	if n := testing.AllocsPerRun(10, func() { b.Attention(4096) }); n != 0 {
		t.Errorf("%v allocations a run", n)
	}
}

// The log of a simultaneous activation breaks the waived rules and no others.
func TestWaivedRules(t *testing.T) {
	d := parts.DDR4(t)
	spec := pim.Default()
	if rules := WaivedRules(spec); rules != nil {
		t.Errorf("staggered activation waives %v", rules)
	}
	spec.Activation = pim.Simultaneous
	checker := check.NewChecker(d, 1, true)
	if _, err := Measure(context.Background(), spec, d, Load{Context: 100, KVHeads: 1, Shape: fp16Head}, func(clock int64, cmd dram.Command, a dram.Address, _ *Instruction) {
		checkedRun{checker}.Command(clock, cmd, a, nil)
	}, nil); err != nil {
		t.Fatal(err)
	}
	if len(checker.Violations()) == 0 {
		t.Error("16 banks activated at once pass the checker")
	}
	if err := check.KnownRules("", WaivedRules(spec)); err != nil {
		t.Error(err)
	}
}

// Busy clocks of each unit at 512 tokens, d = 128, FP16, counted by hand: 32 chunks of scores, 32
// chunks' columns of values, one context.
func TestOccupancyByHand(t *testing.T) {
	const chunks, burst, ccdl, chips, banks, quads = 32, 4, 8, 8, 16, 4
	m, err := Measure(t.Context(), pim.Default(), parts.DDR4(t), Load{Context: 512, KVHeads: 1, Shape: fp16Head}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	clocks := float64(m.Cycles)
	scores := chunks * banks
	for _, c := range []struct {
		name string
		got  float64
		busy int // clocks
	}{
		{"bank PUs", m.Occupancy.BankPUs, chunks * (4 + 4) * ccdl},
		// q, 4 bursts of partial sums and 4 of weights a chunk, 16 of accumulators.
		{"data bus", m.Occupancy.DataBus, (4 + chunks*(4+4) + 16) * burst},
		// The same bursts, plus MACA, two activations of 16 banks and two PREA.
		{"command bus", m.Occupancy.CommandBus, 4 + chunks*(4+4) + 16 + chunks*(4+4) + 2*16 + 2},
		// The adders sum a score over the chips and an output over the quads.
		{"adders", m.Occupancy.Adders, (scores*(chips-1) + 128*(quads-1)) / 8},
		{"softmax", m.Occupancy.Softmax, (scores + scores) / 2},
	} {
		if want := float64(c.busy) / clocks; math.Abs(c.got-want) > 1e-12 {
			t.Errorf("%s: busy %.6f of the time, want %.6f", c.name, c.got, want)
		}
	}
}

// A MACA takes the energy of a read in each bank, RDRES and WRBUF that of a burst, and the whole
// rank draws its standby power.
func TestEnergyOfCommands(t *testing.T) {
	d := parts.DDR4(t)
	m, err := Measure(t.Context(), pim.Default(), d, Load{Context: 3000, KVHeads: 12, Shape: fp16Head}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, p := &m.Commands, &d.Power
	burst := 1e-3 * p.VDD * 8 * 4 * 625e-12 // one milliampere for a burst, in all chips
	for _, part := range []struct {
		name      string
		got, want float64
	}{
		{"reads", m.Energy.ReadJoules, burst * (p.IDD4R - p.IDD3N) * float64(c[dram.RDRES])},
		{"unit reads", m.Energy.UnitReadJoules, burst * (p.IDD4R - p.IDD3N) * float64(16*c[dram.MACA])},
		{"half of them", m.Energy.UnitReads(0.5).UnitReadJoules, m.Energy.UnitReadJoules / 2},
		{"writes", m.Energy.WriteJoules, burst * (p.IDD4W - p.IDD3N) * float64(c[dram.WR]+c[dram.WRBUF])},
		{"refreshes", m.Energy.RefreshJoules, burst / 4 * 560 * (p.IDD5B - p.IDD2N) * float64(m.Refreshes)},
	} {
		if part.want <= 0 || math.Abs(part.got/part.want-1) > 1e-9 {
			t.Errorf("%s: %g J, want %g J", part.name, part.got, part.want)
		}
	}
	if least := m.Refreshes * 560; m.RefreshCycles < least || m.RefreshCycles > least+least/5 {
		t.Errorf("%d REFs add %d clocks, want %d and little more", m.Refreshes, m.RefreshCycles, least)
	}
	b, err := NewRunner(pim.Default(), d, fp16Head)
	parts.Must(t, err)
	if attention := b.Attention(3000); m.Cycles != attention || m.AppendCycles != b.Run(Head{Context: 3000, Appends: true})-attention {
		t.Errorf("append %d, attention %d clocks, alone %d", m.AppendCycles, m.Cycles, attention)
	}
	if standby := burst / 4 * float64(m.TotalCycles); m.Energy.BackgroundJoules < standby*p.IDD2N || m.Energy.BackgroundJoules > standby*p.IDD3N {
		t.Errorf("standby takes %g J, want %g to %g J", m.Energy.BackgroundJoules, standby*p.IDD2N, standby*p.IDD3N)
	}
}

// Score and context take tCCD_L for each MACA plus the bank PUs' waits. With one multiplier set for
// each query head, the rank's bus, which carries every head's sums and weights, is the bottleneck.
func TestStalls(t *testing.T) {
	for _, c := range []struct {
		queries, macs int
		stalled       bool
	}{{1, 1, false}, {4, 1, false}, {4, 4, true}, {8, 4, true}} {
		spec, shape := pim.Default(), fp16Head
		spec.MACsPerRead, shape.Queries = c.macs, c.queries
		_, m := runHead(t, spec, shape, 1024, false)
		counters := m.Counters
		p := &counters.phases
		reads := 8 * (counters.ops[OpScore] + counters.ops[OpContext])
		if p.Score+p.Context-p.Stall != reads || c.stalled != (p.Stall > reads/4) {
			t.Errorf("%d query heads, %d sets: %d and %d clocks with %d of stalls for %d of reads", c.queries, c.macs, p.Score, p.Context, p.Stall, reads)
		}
	}
}

// total returns the clocks of all phases.
func (p *Phases) total() int64 {
	return p.Load + p.Score + p.Context + p.RowSwitches + p.ReadOut + p.Drain
}

// The clocks of all heads are the sum of attention, appends and refresh. With one query head, attention takes what the head
// takes alone.
func TestMeasureAddsUp(t *testing.T) {
	for _, load := range []Load{
		{Context: 528, KVHeads: 1, Shape: pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16}}, {Context: 528, KVHeads: 3, Shape: pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16}},
		{Context: 3000, KVHeads: 2, Shape: pim.HeadShape{HeadDim: 64, Queries: 4, ElementBits: 16}},
	} {
		m, err := Measure(t.Context(), pim.Default(), parts.DDR4(t), load, nil, nil)
		parts.Must(t, err)
		b, err := NewRunner(pim.Default(), parts.DDR4(t), load.Shape)
		parts.Must(t, err)
		if want := b.Attention(load.Context); load.KVHeads == 1 && (m.AllCycles != want || m.AllCycles != m.Cycles) || m.AllCycles < int64(load.KVHeads)*want*9/10 || m.AllCycles > int64(load.KVHeads)*want {
			t.Errorf("%+v: %d clocks, %d a KV head, a query head alone %d", load, m.AllCycles, want, m.Cycles)
		}
		if m.AllAppends <= 0 || m.AllCycles+m.AllAppends+m.RefreshCycles != m.TotalCycles {
			t.Errorf("%+v: %d clocks with %d of appends and %d of refresh, %d in all", load, m.AllCycles, m.AllAppends, m.RefreshCycles, m.TotalCycles)
		}
	}
}
