package system

import (
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/hbm"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/units"
)

// Components of what a node draws, in the order of results.EnergyComponents.
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

// restsOn returns the constants that a component is made of, beside those of [gpu.power] and [dram.power].
func (n *Node) restsOn(component int) []energy.Constant {
	s := &n.cfg.Energy
	if component == drawHBMPIM && n.stack != nil {
		return []energy.Constant{s.HBMRow, s.HBMArray, s.HBMGroup, s.HBMDie, s.HBMPins, s.HBMMultiply}
	}
	return [draws][]energy.Constant{
		drawGPU: {s.GPU}, drawActivate: {s.DRAMCurrents}, drawRead: {s.DRAMCurrents}, drawWrite: {s.DRAMCurrents}, drawIO: {s.DRAMIO},
		drawRefresh: {s.DRAMCurrents}, drawOpen: {s.DRAMCurrents}, drawClosed: {s.DRAMCurrents}, drawVPP: {s.DRAMVPP}, drawUnitRead: {s.DRAMCurrents, s.PIMRead},
		drawBankUnits: {s.BankUnit}, drawRankUnits: {s.AdderUnit, s.SoftmaxUnit, s.RelayoutUnit}, drawBuffers: {s.DIMMBuffer}, drawHBMPIM: {s.HBMPIMRead},
		drawLinks: {s.Link}, drawCPUs: {s.CPUIdle, s.CPUBusy}, drawBoard: {s.Board}, drawCooling: {s.PUE},
	}[component]
}

// What a replica does that draws power.
const (
	byTime      = iota // seconds
	byGPUWork          // joules that its GPUs take while they work
	byGPUTime          // seconds for which they work
	byTokens           // that KV heads attend over at home in all layers, where that is not DIMM-PIM
	byActivates        // what ranks of DIMM-PIM do, as pim.Activity has it
	byUnitReads
	byRankReads
	byRankWrites
	byOpen
	byClocks
	byDown     // seconds of its links down
	byUp       // and up
	byChannels // seconds for which its memory channels carry data for the host's cores
	byRows     // what units in its GPUs' memory open, read, take in and move, as hbm.Tally has it
	byReads
	byQueries
	byMoves
	causes
)

// draw is joules, or watts, by component.
type draw [draws]float64

// add adds n times another one.
func (d *draw) add(o *draw, n float64) {
	for i := range d {
		d[i] += float64(n * o[i])
	}
}

// total returns all components together.
func (d *draw) total() (sum float64) {
	for _, v := range d {
		sum += v
	}
	return sum
}

// power is the watts of a replica with its share of the node. It is linear in everything that the replica does, so
// that the parts of a run add up to the run.
type power struct {
	each [causes]draw
	pue  float64
	rank float64 // watts of one while it attends, or is read at the channel's rate
	dimm float64 // watts of one with all its ranks attending, or one read so
}

// of turns the amounts of all causes into joules, and adds cooling.
func (p *power) of(q *[causes]float64) (sum draw) {
	for i := range q {
		if q[i] != 0 { // most systems have few causes
			sum.add(&p.each[i], q[i])
		}
	}
	sum[drawCooling] = float64((p.pue - 1) * sum.total())
	return sum
}

// joules returns what a replica and its cooling take that does this in so long a time.
func (p *power) joules(did *work, took units.Duration) float64 {
	q := did.does(took)
	d := p.of(&q)
	return d.total()
}

// powerDraw is watts of a replica and its share of the node on a timeline.
type powerDraw struct{ gpus, memory, host, cooling float64 }

func (p powerDraw) args() map[string]any {
	return map[string]any{"GPUs": p.gpus, "DIMMs and units": p.memory, "host and board": p.host, "cooling": p.cooling}
}

// draws returns the mean watts of a replica that does this in the time took.
func (p *power) draws(did *work, took units.Duration) powerDraw {
	if took <= 0 {
		return powerDraw{}
	}
	q, seconds := did.does(took), took.Seconds()
	d := p.of(&q)
	w := powerDraw{gpus: (d[drawGPU] + d[drawHBMPIM]) / seconds, host: (d[drawCPUs] + d[drawBoard] + d[drawLinks]) / seconds, cooling: d[drawCooling] / seconds}
	w.memory = d.total()/seconds - w.gpus - w.host - w.cooling
	return w
}

// does returns what work amounts to, in so long a time.
func (w *work) does(took units.Duration) [causes]float64 {
	var seconds [booked]float64
	for i := range seconds {
		seconds[i] = w.time[i].Seconds()
	}
	return w.causes(took.Seconds(), &seconds)
}

// does is the same of all replicas, each for so long.
func (b *busy) does(took units.Duration, replicas int) [causes]float64 {
	var seconds [booked]float64
	for i := range seconds {
		seconds[i] = b.time[i].Picoseconds() * 1e-12
	}
	return b.causes(float64(replicas)*took.Seconds(), &seconds)
}

// causes returns what draws power in a time, in which resources were busy for these seconds.
func (e *effort) causes(took float64, busy *[booked]float64) [causes]float64 {
	return [causes]float64{
		byTime: took, byGPUWork: e.joules.prefill + e.joules.decode, byGPUTime: busy[ofGPU], byTokens: float64(e.tokens),
		byDown: busy[ofDown], byUp: busy[ofUp], byChannels: busy[ofChannel],
		byActivates: e.ranks.Activates, byUnitReads: e.ranks.UnitReads, byRankReads: e.ranks.Reads, byRankWrites: e.ranks.Writes, byOpen: e.ranks.Open, byClocks: e.ranks.Clocks,
		byRows: e.hbm.Rows, byReads: e.hbm.Reads, byQueries: e.hbm.Queries, byMoves: e.hbm.Moves,
	}
}

// power returns what a replica draws, with constants at a place of their bands.
func (n *Node) power(at energy.Place) *power {
	cfg, e := n.cfg, n.cfg.Energy.At(at)
	m, replicas := &cfg.Model, float64(n.Replicas())
	gpus, sockets := float64(m.TensorParallel), float64(cfg.Energy.HostCPUs)/replicas
	ranks := float64(cfg.ReplicaChannels() * cfg.Node.Ranksets)
	d := newRankDraw(cfg.RankSpec(), &e)

	p := &power{pue: e.PUE}
	t := &p.each[byTime]
	t[drawGPU] = gpus * cfg.GPU.Power.ActiveIdle * e.GPU
	t[drawRefresh], t[drawClosed], t[drawVPP], t[drawBuffers] = ranks*d.refresh, ranks*d.closed, ranks*d.vpp, float64(cfg.DIMMs())/replicas*e.DIMMBuffer
	t[drawCPUs], t[drawBoard] = sockets*e.CPUIdle, e.Board/replicas
	p.each[byGPUWork][drawGPU] = e.GPU
	p.each[byGPUTime][drawGPU] = -t[drawGPU]

	link := gpus * float64(n.linkShare()) // bytes a second
	if n.system.Host || hostTier(cfg) {
		p.each[byDown], p.each[byUp] = d.stream(link, 0, 1), d.stream(link, 1, 0)
		p.each[byDown][drawRankUnits] = link / d.rate * e.RelayoutUnit
		if n.system.kv.inDIMM && cfg.PIM.Relayout == pim.CPUTransposition {
			p.each[byDown] = d.stream(link, 1, 2)
		}
		p.each[byDown][drawLinks], p.each[byUp][drawLinks] = 8*link*e.Link, 8*link*e.Link
	}
	token := float64(newAttends(cfg).kv(1)) / float64(m.KVHeads)
	reading := d.stream(d.rate, 1, 0)
	p.rank = reading.total() + d.idle()
	sides := cfg.DRAM.Rules().SubChannels // of a DIMM, each with as many ranks
	p.dimm = float64(float64(sides)*p.rank) + float64(float64((cfg.Energy.RanksPerDIMM-1)*sides)*d.idle()) + e.DIMMBuffer
	switch {
	case n.kernels != nil:
		d.rankLevel = rankSpec(cfg).ProcessingUnit == pim.RankPU
		for i, one := range []pim.Activity{{Activates: 1}, {UnitReads: 1}, {Reads: 1}, {Writes: 1}, {Open: 1}, {Clocks: 1}} {
			p.each[byActivates+i] = d.attention(&one)
		}
		rows := n.table.RowTokens()
		long := n.table.Activity(4*rows).Plus(n.table.Activity(2*rows), -1)
		attending := d.attention(&long)
		computes := 1 - float64(cfg.DRAM.TRFC)/float64(cfg.DRAM.TREFI)
		p.rank = float64(attending.total()/(long.Clocks*cfg.DRAM.TCK.Seconds())*computes) + d.idle()
		p.dimm = float64(p.rank*float64(cfg.Energy.RanksPerDIMM*sides)) + e.DIMMBuffer
	case n.system.Host: // CPUs attend
		p.each[byTokens] = d.stream(token, 1, 0)
		p.each[byChannels][drawCPUs] = sockets * max(0, e.CPUBusy-e.CPUIdle)
	case n.stack != nil:
		costs := hbm.CostsOf(&e)
		each := costs.Each(hbm.Level(configs.Section[HBMPIM](cfg).Level))
		p.each[byRows][drawHBMPIM], p.each[byReads][drawHBMPIM] = each.Rows, each.Reads
		p.each[byQueries][drawHBMPIM], p.each[byMoves][drawHBMPIM] = each.Queries, each.Moves
	case n.system.kv.inHBM:
		p.each[byTokens][drawHBMPIM] = 8 * token * e.HBMPIMRead
	}
	return p
}

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

// idle returns the watts of a rank that waits.
func (d *rankDraw) idle() float64 { return d.closed + d.refresh + d.vpp }

// stream returns the joules of bytes that the host reads reads times and writes writes times, row after row.
func (d *rankDraw) stream(bytes, reads, writes float64) draw {
	bursts := bytes / float64(d.spec.BurstBytes())
	return d.commands(&pim.Activity{
		Activates: (reads + writes) * bytes / float64(d.spec.RowBytes()), Reads: reads * bursts, Writes: writes * bursts,
		Open: (reads + writes) * bursts * float64(d.spec.BurstClocks()),
	})
}

// commands returns the joules of the commands of a rank's activity, and of open rows, one bank at a time.
func (d *rankDraw) commands(a *pim.Activity) (sum draw) {
	sum[drawActivate], sum[drawUnitRead] = a.Activates*d.activate, a.UnitReads*d.read*d.e.PIMRead
	sum[drawRead], sum[drawWrite], sum[drawIO] = a.Reads*d.read, a.Writes*d.write, (a.Reads+a.Writes)*d.io
	sum[drawOpen] = a.Open * d.spec.TCK.Seconds() * d.opens
	return sum
}

// attention returns the joules of a rank's activity with its units: those at the banks work while banks read for them, or
// as many multipliers on the buffer chip while bursts come, and adders and softmax all the time. All banks stand open while
// one does, which is so but for the clocks in which they open one after another.
func (d *rankDraw) attention(a *pim.Activity) draw {
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

// energyLaw verifies LawEnergy of a run that ended at end.
func energyLaw(r *results.EnergyReport, end units.Duration) error {
	if bad := energy.Broken(r.Components.Parts(), r.Total, r.Low, r.High); bad != "" {
		return &Violation{LawEnergy, end, bad}
	}
	return nil
}

// report returns what the node draws in a run that ends at end, without ratios to tokens.
func (n *Node) report(b *busy, end units.Duration) results.EnergyReport {
	q := b.does(end, n.Replicas())
	var at [energy.Places]draw
	for place := range at {
		at[place] = n.power(energy.Place(place)).of(&q)
	}
	mid, high := n.power(energy.Mid), n.power(energy.High)
	sum := &at[energy.Mid]
	r := results.EnergyReport{
		Total: sum.total(), Low: at[energy.Low].total(), High: at[energy.High].total(), Components: results.NewEnergyComponents(sum[:]),
		RankDies: n.cfg.DRAM.Devices() * n.cfg.RankDies(), Die: n.cfg.DieText(), Rank: mid.rank, DIMM: mid.dimm, DIMMHigh: high.dimm, DIMMLimit: n.cfg.Energy.DIMMLimit.Estimate().Value,
	}
	if why := notKnown(n.cfg); why != "" {
		r.NotEstimated = []string{why}
	} else {
		r.DRAMEstimated = true
	}
	var worst energy.Grade
	for i, joules := range sum {
		if joules <= 0 {
			continue
		}
		var own energy.Grade
		for _, c := range n.restsOn(i) {
			own = energy.Worse(own, c.Estimate().Grade)
		}
		if worst = energy.Worse(worst, own); own == energy.Assumption {
			r.AssumedShare += joules / r.Total
		}
	}
	r.Grade = string(worst)
	if seconds := end.Seconds(); seconds > 0 {
		r.Watts = r.Total / seconds
	}
	return r
}
