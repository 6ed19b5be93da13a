package power

import (
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/hbm"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/units"
)

// Meter computes the power of a node's hardware for its work.
type Meter struct {
	Hardware *flow.Hardware
	kinds.CommandTables
	host bool // the system uses the host's memory
}

// NewMeter returns the meter of a node; host says that its system uses the host's memory.
func NewMeter(h *flow.Hardware, t kinds.CommandTables, host bool) *Meter {
	own := *h
	own.Config = priced(h.Config, host)
	return &Meter{&own, t, host}
}

// restsOn returns the constants on which a component rests, beside those of [gpu.power] and [dram.power].
func (n *Meter) restsOn(component int) []energy.Constant {
	s := &n.Hardware.Config.Energy
	if component == drawHBMPIM && n.Stack != nil {
		return []energy.Constant{s.HBMRow, s.HBMArray, s.HBMGroup, s.HBMDie, s.HBMPins, s.HBMMultiply}
	}
	return [draws][]energy.Constant{
		drawGPU: {s.GPU}, drawActivate: {s.DRAMCurrents}, drawRead: {s.DRAMCurrents}, drawWrite: {s.DRAMCurrents}, drawIO: {s.DRAMIO},
		drawRefresh: {s.DRAMCurrents}, drawOpen: {s.DRAMCurrents}, drawClosed: {s.DRAMCurrents}, drawVPP: {s.DRAMVPP}, drawUnitRead: {s.DRAMCurrents, s.PIMRead},
		drawBankUnits: {s.BankUnit}, drawRankUnits: {s.AdderUnit, s.SoftmaxUnit, s.RelayoutUnit}, drawBuffers: {s.DIMMBuffer}, drawHBMPIM: {s.HBMPIMRead},
		drawLinks: {s.Link}, drawCPUs: {s.CPUIdle, s.CPUBusy}, drawBoard: {s.Board}, drawCooling: {s.PUE},
	}[component]
}

// Power returns the power of a replica, with constants at a place of their bands.
func (n *Meter) Power(at energy.Place) *Watts {
	cfg, e := n.Hardware.Config, n.Hardware.Config.Energy.At(at)
	m, replicas := &cfg.Model, float64(n.Hardware.Config.Replicas())
	gpus, servers := float64(m.TensorParallel), cfg.Energy.Servers(cfg.Node.GPUs)/replicas
	sockets := float64(cfg.Energy.HostCPUs) * servers
	if n.host || n.Hardware.HostTier() { // the node's channels are those of whole sockets
		sockets = max(sockets, float64(cfg.Energy.HostCPUs)/replicas)
	}
	rankCount := float64(cfg.ReplicaChannels() * cfg.Node.Ranksets)
	d := ranks.NewDraw(cfg.RankSpec(), &e)

	p := &Watts{pue: e.PUE}
	t := &p.each[byTime]
	t[drawGPU] = gpus * cfg.GPU.Power.ActiveIdle * e.GPU
	t[drawRefresh], t[drawClosed], t[drawVPP], t[drawBuffers] = rankCount*d.Refresh, rankCount*d.Closed, rankCount*d.VPP, float64(cfg.DIMMs())/replicas*e.DIMMBuffer
	t[drawCPUs], t[drawBoard] = sockets*e.CPUIdle, e.Board*servers
	p.each[byGPUWork][drawGPU] = e.GPU
	p.each[byPrompts][drawGPU] = float64([energy.Places]float64{energy.Low: -1, energy.High: 1}[at] * cfg.GPU.Power.PromptBand * e.GPU)
	p.each[byGPUTime][drawGPU] = -t[drawGPU]

	link := gpus * float64(n.Hardware.LinkShare()) // bytes per second
	if n.host || n.Hardware.HostTier() {
		p.each[byDown], p.each[byUp] = ofRank(d.Stream(link, 0, 1)), ofRank(d.Stream(link, 1, 0))
		p.each[byDown][drawRankUnits] = link / d.Rate * e.RelayoutUnit
		split, _ := pim.Rearranges(m.KVElementBits(), &cfg.DRAM.Spec) // validated with the configuration
		if split && n.Hardware.KV.InDIMM && cfg.PIM.Relayout == pim.CPUTransposition {
			p.each[byDown] = ofRank(d.Stream(link, 1, 2))
		}
		p.each[byDown][drawLinks], p.each[byUp][drawLinks] = 8*link*e.Link, 8*link*e.Link
	}
	token := float64(flow.NewAttends(n.Hardware).KV(1)) / float64(m.KVHeads)
	reading := d.Stream(d.Rate, 1, 0)
	p.rank = reading.Total() + d.Idle()
	sides := cfg.DRAM.Rules().SubChannels // of a DIMM, each with as many ranks
	p.dimm = float64(float64(sides)*p.rank) + float64(float64((cfg.Energy.RanksPerDIMM-1)*sides)*d.Idle()) + e.DIMMBuffer
	switch {
	case n.Kernels != nil:
		d.RankLevel = ranks.Spec(n.Hardware).ProcessingUnit == pim.RankLevelUnit
		for i, one := range []machine.Activity{{Activates: 1}, {UnitReads: 1}, {Reads: 1}, {Writes: 1}, {Open: 1}, {Clocks: 1}} {
			p.each[byActivates+i] = ofRank(d.Attention(&one))
		}
		rows := n.Kernels.Table.RowTokens()
		long := n.Kernels.Table.Activity(4*rows).Plus(n.Kernels.Table.Activity(2*rows), -1)
		attending := d.Attention(&long)
		computes := 1 - float64(cfg.DRAM.TRFC)/float64(cfg.DRAM.TREFI)
		clocks := n.Kernels.Table.Pace.Clocks(int64(long.Clocks), &long)
		p.rank = float64(attending.Total()/(float64(clocks)*cfg.DRAM.TCK.Seconds())*computes) + d.Idle()
		p.dimm = float64(p.rank*float64(ranks.DIMMRanks(cfg))) + e.DIMMBuffer
		if limit := cfg.PIM.PowerLimit; limit > 0 { // with constants at their high ends, ranks would wait longer
			p.dimm = min(p.dimm, limit)
		}
	case n.host: // CPUs attend
		p.each[byTokens] = ofRank(d.Stream(token, 1, 0))
		p.each[byChannels][drawCPUs] = sockets * max(0, e.CPUBusy-e.CPUIdle)
	case n.Stack != nil:
		costs := hbm.CostsOf(&e)
		each := costs.Each(hbm.Level(configs.Section[kinds.HBMPIM](cfg).Level))
		p.each[byRows][drawHBMPIM], p.each[byReads][drawHBMPIM] = each.Rows, each.Reads
		p.each[byQueries][drawHBMPIM], p.each[byMoves][drawHBMPIM] = each.Queries, each.Moves
	case n.Hardware.KV.InHBM:
		p.each[byTokens][drawHBMPIM] = 8 * token * e.HBMPIMRead
	}
	return p
}

// EnergyLaw verifies LawEnergy of a run that ended at end.
func EnergyLaw(r *results.EnergyReport, end units.Duration) error {
	if bad := energy.Broken(r.Components.Parts(), r.Total, r.Low, r.High); bad != "" {
		return &flow.Violation{Law: flow.LawEnergy, Time: end, Detail: bad}
	}
	return nil
}

// Report returns the energy of a node in a run that ends at end, without ratios to tokens.
func (n *Meter) Report(b *flow.Busy, end units.Duration) results.EnergyReport {
	q := causesOfRun(b, end, n.Hardware.Config.Replicas())
	var at [energy.Places]draw
	for place := range at {
		at[place] = n.Power(energy.Place(place)).of(&q)
	}
	mid, high := n.Power(energy.Mid), n.Power(energy.High)
	sum := &at[energy.Mid]
	r := results.EnergyReport{
		Total: sum.total(), Low: at[energy.Low].total(), High: at[energy.High].total(), Components: results.NewEnergyComponents(sum[:]),
		RankDies: n.Hardware.Config.DRAM.Devices() * n.Hardware.Config.RankDies(), Die: n.Hardware.Config.DieText(), Rank: mid.rank, DIMM: mid.dimm, DIMMHigh: high.dimm, DIMMLimit: n.Hardware.Config.Energy.DIMMLimit.Estimate().Value,
	}
	if why := notKnown(n.Hardware.Config); why != "" {
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

// notKnown says which energy of DIMMs is missing, "" for none.
func notKnown(cfg *configs.Config) string {
	if why := cfg.DRAM.NotKnown(); why != "" {
		return "DRAM chips: " + why
	}
	return ""
}
