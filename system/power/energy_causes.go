package power

import (
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/units"
)

// Components of the power of a node, in the order of results.EnergyComponents.
const (
	drawGPU = iota
	drawActivate
	drawRead
	drawWrite
	drawIO
	drawRefresh
	drawOpen
	drawClosed
	drawVPP
	drawUnitRead
	drawBankUnits
	drawRankUnits
	drawBuffers
	drawHBMPIM
	drawLinks
	drawCPUs
	drawBoard
	drawCooling
	draws
)

// Causes of power: what a replica does.
const (
	byTime      = iota // seconds
	byGPUWork          // joules of its GPUs while they work
	byPrompts          // joules of these for prompts
	byGPUTime          // seconds in which they work
	byTokens           // tokens that KV heads attend over in all layers where they are stored, if that is not DIMM-PIM
	byActivates        // activity of DIMM-PIM ranks, as in machine.Activity
	byUnitReads
	byRankReads
	byRankWrites
	byOpen
	byClocks
	byDown     // seconds of its links down
	byUp       // seconds of its links up
	byChannels // seconds in which its memory channels carry data for the host's cores
	byRows     // activity of units in its GPUs' memory, as in hbm.Tally
	byReads
	byQueries
	byMoves
	causes
)

// draw is joules, or watts, by component.
type draw [draws]float64

// ofRank places the joules of a rank among the components of a node.
func ofRank(j ranks.Joules) (d draw) {
	copy(d[drawActivate:], j[:])
	return d
}

var _ [ranks.DrawParts]struct{} = [drawRankUnits - drawActivate + 1]struct{}{} // the parts of a rank are adjacent

func (d *draw) add(o *draw, n float64) {
	for i := range d {
		d[i] += float64(n * o[i])
	}
}

func (d *draw) total() (sum float64) {
	for _, v := range d {
		sum += v
	}
	return sum
}

// Watts is the power of a replica with its share of the node. It is linear in the replica's work, so that the
// parts of a run add up to the run.
type Watts struct {
	each [causes]draw
	pue  float64
	rank float64 // watts of one rank while it attends, or is read at the channel's rate
	dimm float64 // watts of one DIMM with all ranks attending, or one of them read at the channel's rate
}

// of converts the amounts of all causes to joules, and adds cooling.
func (p *Watts) of(q *[causes]float64) (sum draw) {
	for i := range q {
		if q[i] != 0 { // most systems have few causes
			sum.add(&p.each[i], q[i])
		}
	}
	sum[drawCooling] = float64((p.pue - 1) * sum.total())
	return sum
}

// Joules returns the energy of a replica and its cooling for this work in the time took.
func (p *Watts) Joules(did *flow.Work, took units.Duration) float64 {
	q := causesOfWork(did, took)
	d := p.of(&q)
	return d.total()
}

// DeviceWatts is watts of a replica and its share of the node on a timeline.
type DeviceWatts struct{ gpus, memory, host, cooling float64 }

func (p DeviceWatts) Args() map[string]any {
	return map[string]any{"GPUs": p.gpus, "DIMMs and units": p.memory, "host and board": p.host, "cooling": p.cooling}
}

// Draws returns the mean watts of a replica that does this work in the time took.
func (p *Watts) Draws(did *flow.Work, took units.Duration) DeviceWatts {
	if took <= 0 {
		return DeviceWatts{}
	}
	q, seconds := causesOfWork(did, took), took.Seconds()
	d := p.of(&q)
	w := DeviceWatts{gpus: (d[drawGPU] + d[drawHBMPIM]) / seconds, host: (d[drawCPUs] + d[drawBoard] + d[drawLinks]) / seconds, cooling: d[drawCooling] / seconds}
	w.memory = d.total()/seconds - w.gpus - w.host - w.cooling
	return w
}

// causesOfWork returns the causes of power of work in the time took.
func causesOfWork(w *flow.Work, took units.Duration) [causes]float64 {
	var seconds [flow.Booked]float64
	for i := range seconds {
		seconds[i] = w.Time[i].Seconds()
	}
	return causesOf(&w.Effort, took.Seconds(), &seconds)
}

// causesOfRun returns the causes of power of all replicas in the time took.
func causesOfRun(b *flow.Busy, took units.Duration, replicas int) [causes]float64 {
	var seconds [flow.Booked]float64
	for i := range seconds {
		seconds[i] = b.Time[i].Picoseconds() * 1e-12
	}
	return causesOf(&b.Effort, float64(replicas)*took.Seconds(), &seconds)
}

// causesOf returns the causes of power in a time, in which resources were busy for these seconds.
func causesOf(e *flow.Effort, took float64, busy *[flow.Booked]float64) [causes]float64 {
	return [causes]float64{
		byTime: took, byGPUWork: e.Joules.Prefill + e.Joules.Decode, byPrompts: e.Joules.Prefill, byGPUTime: busy[flow.OfGPU], byTokens: float64(e.Tokens),
		byDown: busy[flow.OfDown], byUp: busy[flow.OfUp], byChannels: busy[flow.OfChannel],
		byActivates: e.Ranks.Activates, byUnitReads: e.Ranks.UnitReads, byRankReads: e.Ranks.Reads, byRankWrites: e.Ranks.Writes, byOpen: e.Ranks.Open, byClocks: e.Ranks.Clocks,
		byRows: e.HBM.Rows, byReads: e.HBM.Reads, byQueries: e.HBM.Queries, byMoves: e.HBM.Moves,
	}
}
