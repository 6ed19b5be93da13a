package machine

import (
	"context"
	"fmt"
	"slices"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
)

// Occupancy is the share of a run's clocks for which each unit was busy, 0 to 1.
type Occupancy struct {
	BankPUs    float64 `json:"bank_pus"`    // a column read of tCCD_L at each MACA
	CommandBus float64 `json:"command_bus"` // of the rank, one command a clock
	DataBus    float64 `json:"data_bus"`    // of the rank, BL/2 a burst
	Adders     float64 `json:"adders"`      // of the buffer unit
	Softmax    float64 `json:"softmax"`     // of the buffer unit's softmax unit, a score and a weight a clock
}

// bufferAdders is the number of adders in the buffer unit (L3, Table 5 gives the area of one FP16 adder). The rank's bus brings 8 bytes a
// beat from each chip, so 8 adders keep up with any FP16 partial sums.
const bufferAdders = 8

// Measurement is the cost of the attention of one layer's heads on one rank.
type Measurement struct {
	Geometry pim.Geometry
	plan     Plan

	// One query head, without append and refresh.
	Cycles       int64
	Phases       Phases
	AppendCycles int64 // clocks that the append of the newest token adds to Cycles
	Occupancy    Occupancy
	// PeakShare is the data rate at which the head's keys and values were read, without padding, relative to that of all banks at tCCD_L.
	PeakShare float64

	// All KV heads in sequence with their query heads, append and refresh.
	TotalCycles    int64
	AllCycles      int64 // clocks of TotalCycles for attention
	AllAppends     int64 // clocks of TotalCycles added by appends
	RefreshCycles  int64 // clocks of TotalCycles added by refreshes
	Refreshes      int64 // REFs issued; up to Spec.PostponedRefreshes more are owed
	TotalOccupancy Occupancy
	Commands       [dram.WRBUF + 1]int64
	Energy         dram.Energy
}

// Load is a decode step of one layer on one rank.
type Load struct {
	Context int // tokens, the newest included
	KVHeads int
	Shape   pim.HeadShape // of each KV head
}

func (l *Load) heads(g *pim.Geometry, d *dram.Spec) ([]Head, error) {
	rows := g.Rows(l.Context)
	if l.KVHeads < 1 || l.Context < 1 {
		return nil, &input.Error{Key: "context", Value: fmt.Sprint(l.Context), Expected: "at least one token and one KV head"}
	}
	if rows > d.Rows/l.KVHeads {
		return nil, &input.Error{Key: "context", Value: fmt.Sprint(l.Context), Expected: fmt.Sprintf(
			"at most %d tokens: %d KV heads share the %d rows of a rank", d.Rows/l.KVHeads/2*g.RowTokens, l.KVHeads, d.Rows)}
	}
	heads := make([]Head, l.KVHeads)
	for i := range heads {
		heads[i] = Head{Context: l.Context, FirstRow: int32(i * rows), Appends: true}
	}
	return heads, nil
}

// Measure runs the load command by command, until ctx is done. observe is called for the commands of all heads, including refresh, in the
// order of their clocks. progress is called now and then with the simulated clocks and an estimate of their total. Both may be nil.
func Measure(ctx context.Context, spec *pim.Spec, d *dram.Spec, load Load, observe observe, progress func(done, of int64)) (*Measurement, error) {
	out := &Measurement{}
	b, err := NewRunner(spec, d, load.Shape)
	if err != nil {
		return nil, err
	}
	heads, err := load.heads(&b.Program.Geometry, d)
	if err != nil {
		return nil, err
	}
	run := func(heads []Head) int64 {
		if ends := b.Ends(heads...); len(ends) > 0 {
			return ends[len(ends)-1]
		}
		return 0 // interrupted
	}
	w := &watch{ctx: ctx, progress: progress}
	w.over(b.Machine)
	without := run(heads) // skips repetitions, if allowed
	w.of = without
	stored := slices.Clone(heads)
	for i := range stored {
		stored[i].Appends = false
	}
	out.AllCycles = run(stored)
	out.AllAppends = without - out.AllCycles
	if err := out.single(w, spec, d, load); err != nil {
		return nil, err
	}
	w.over(b.Machine)
	meter := dram.NewEnergyMeter(d, 1)
	b.Machine.Repeats.On = false
	b.Machine.Refresh.On = true
	b.Machine.Observe = func(clock int64, cmd dram.Command, a dram.Address, in *Instruction) {
		meter.Record(cmd, a, clock)
		if observe != nil {
			observe(clock, cmd, a, in)
		}
	}
	out.TotalCycles = run(heads)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := b.Machine.Refresh.late(out.TotalCycles, d, load.Shape.Queries); err != nil {
		return nil, err
	}
	out.finish(&b.Machine.Counters, without, meter, d)
	return out, nil
}

// watch stops machines when ctx is done, and reports the progress of all their runs.
type watch struct {
	ctx      context.Context
	progress func(done, of int64) // may be nil
	done, of int64                // clocks of earlier runs, and of all; 0 before they are known
}

func (w *watch) over(m *Machine) {
	m.interrupt = func() error {
		if w.progress != nil && w.of > 0 {
			w.progress(w.done+m.now, w.of)
		}
		return w.ctx.Err()
	}
}

// single measures one query head.
func (m *Measurement) single(w *watch, spec *pim.Spec, d *dram.Spec, load Load) error {
	shape := load.Shape
	shape.Queries = 1
	b, err := NewRunner(spec, d, shape)
	if err != nil {
		return err
	}
	rest := w.of
	w.of = 0
	w.over(b.Machine)
	w.of = rest + 2*b.Attention(load.Context) // skips repetitions, if allowed
	b.Machine.Repeats.On = false
	m.AppendCycles = b.Run(Head{Context: load.Context, Appends: true})
	w.done += m.AppendCycles
	m.Cycles = b.Attention(load.Context)
	w.done += m.Cycles
	m.AppendCycles -= m.Cycles
	if err := w.ctx.Err(); err != nil {
		return err
	}
	m.Geometry, m.plan = b.Program.Geometry, b.Program.Plan
	c := &b.Machine.Counters
	m.Phases = c.phases
	m.Occupancy = b.Program.occupancy(c, d, m.Cycles)
	m.PeakShare = peakShare(&m.Geometry, d, b.Program.RankLevel, load.Context, m.Cycles)
	return nil
}

// finish stores the counts of the run of all heads.
func (m *Measurement) finish(c *counters, withoutRefresh int64, meter *dram.EnergyMeter, d *dram.Spec) {
	m.RefreshCycles = m.TotalCycles - withoutRefresh
	m.Refreshes = c.Commands[dram.REF]
	m.Commands = c.Commands
	m.Energy = meter.Energy(m.TotalCycles)
	p := Program{Geometry: m.Geometry, Plan: m.plan}
	m.TotalOccupancy = p.occupancy(c, d, m.TotalCycles)
}

// peakShare returns the share of the rank's peak bandwidth with which a head of context tokens was read in the given clocks. The peak is
// one burst of every bank at tCCD_L; for a rank-level unit it is the rank's data bus.
func peakShare(g *pim.Geometry, d *dram.Spec, rankLevel bool, context int, clocks int64) float64 {
	bytes := float64(context) * float64((g.HeadDim+g.ValueDim)*g.ElementBits) / 8
	peak := float64(g.Banks*g.BurstBytes) / float64(d.TCCDL)
	if rankLevel {
		peak = float64(g.BurstBytes) / float64(d.BurstClocks())
	}
	return bytes / (peak * float64(clocks))
}

func (p *Program) occupancy(c *counters, d *dram.Spec, clocks int64) Occupancy {
	g := &p.Geometry
	var commands int64 // clocks of the command bus
	for cmd, clocks := range commandLengths(d) {
		if cmd < len(c.Commands) {
			commands += c.Commands[cmd] * clocks
		}
	}
	bursts := c.Commands[dram.RDRES] + c.Commands[dram.WRBUF] + c.Commands[dram.RD] + c.Commands[dram.WR]
	macs := c.ops[OpScore] + c.ops[OpContext]
	// A burst of partial sums has as many values as fit from each chip, which are added over the chips. A burst of the context is added
	// over the banks that hold the same burst of a value.
	values := int64(g.BurstBytes / p.partialBytes)
	adds := c.ops[OpReadPartials] * values * int64(g.Chips-1) / int64(g.Chips)
	values = int64(g.BurstBytes / p.contextBytes)
	adds += c.ops[OpReadContext] * values * int64(g.ColumnTokens-1) / int64(g.ColumnTokens)
	// The softmax unit sees each score, and each weight once.
	scores := c.ops[OpReadPartials] * int64(g.BurstBytes/p.partialBytes/g.Chips)
	weights := c.ops[OpLoadWeights] * int64(p.WeightsPerBurst)
	share := func(busy, of int64) float64 { return float64(busy) / float64(of) }
	return Occupancy{
		BankPUs:    share(macs*int64(p.multiplierPasses*d.TCCDL), clocks),
		CommandBus: share(commands, clocks),
		DataBus:    share(bursts*int64(d.BurstClocks()), clocks),
		Adders:     share(adds, bufferAdders*clocks),
		Softmax:    share(scores+weights, 2*clocks),
	}
}

// WaivedRules returns the DRAM rules, by the checker's names, that programs of spec break on purpose: with simultaneous activation, those
// that limit the current of activations.
func WaivedRules(spec *pim.Spec) []string {
	if spec.Activation == pim.Simultaneous && spec.ProcessingUnit == pim.BankUnits {
		return []string{"tRRD_S", "tRRD_L", "tFAW"}
	}
	return nil
}
