package power

import (
	"math"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/units"
)

// GPUs returns the energy of the node's GPUs in a run that ends at end: their work, and active idle
// in between.
func (n *Meter) GPUs(w *flow.Busy, end units.Duration, tokens int64) results.Energy {
	e := results.Energy{Prefill: w.Joules.Prefill, Decode: w.Joules.Decode}
	gpus := float64(n.Hardware.Config.Replicas() * n.Hardware.Config.Model.TensorParallel)
	worked := float64(w.Time[flow.OfGPU].Picoseconds() * 1e-12 * float64(n.Hardware.Config.Model.TensorParallel))
	e.Idle = float64(max(0, float64(gpus*end.Seconds())-worked) * n.Hardware.Config.GPU.Power.ActiveIdle)
	e.GPU = e.Prefill + e.Decode + e.Idle
	if tokens > 0 {
		e.Token = e.GPU / float64(tokens)
	}
	return e
}

// priced returns the configuration with the DIMMs that the node pays for. If its system does not use the host's memory, those are the
// DIMMs of energy.unused_memory, one a channel. GPUs have the channels and the memory of their slots of a server.
func priced(cfg *configs.Config, uses bool) *configs.Config {
	servers, replicas := cfg.Energy.Servers(cfg.Node.GPUs), cfg.Replicas()
	memory := units.Bytes(math.Round(servers * float64(cfg.Energy.UnusedMemory)))
	if memory == 0 || memory >= cfg.Node.MemoryCapacity || uses || cfg.Cache.Prefix && cfg.Cache.HostCapacity > 0 {
		return cfg
	}
	plain, each := *cfg, servers*float64(cfg.Node.Channels)/float64(replicas)
	plain.Node.Channels = int(math.Ceil(each)) * replicas
	plain.Node.MemoryCapacity, plain.Node.Ranksets, plain.DRAM.Dies = memory, min(cfg.Node.Ranksets, cfg.Energy.RanksPerDIMM), 0
	return &plain
}

// Memory returns the memory of the DIMMs that a node has and pays for.
func Memory(cfg *configs.Config) units.Bytes {
	return priced(cfg, kinds.Of(cfg).Host).Node.MemoryCapacity
}

func equipment(cfg *configs.Config) energy.Equipment {
	s, ranks := kinds.Of(cfg), cfg.Energy.RanksPerDIMM
	cfg = priced(cfg, s.Host)
	beside := units.Bytes(0)
	if s.KV.InHBM {
		beside = configs.Section[kinds.HBMPIM](cfg).MemoryBeside
	}
	unit := s.KV.Unit
	if unit == "" {
		unit = cfg.PIM.ProcessingUnit
	}
	base, _ := cfg.GPUBase()
	return energy.Equipment{
		GPU: cfg.GPU.Name, GPUBase: base, GPUPrice: cfg.GPU.Price, GPUs: cfg.Node.GPUs, Servers: cfg.Energy.Servers(cfg.Node.GPUs), HBMPIM: s.KV.InHBM, HBMGiB: float64(beside) / float64(units.GiB), Memory: cfg.DRAM.Rules().Family, DIMMs: cfg.DIMMs(),
		DIMMGiB: float64(cfg.Node.RankCapacity()) / float64(units.GiB) * float64(ranks*cfg.DRAM.Rules().SubChannels),
		BankPIM: s.KV.InDIMM && unit == pim.BankUnits, RankPIM: s.KV.InDIMM && unit == pim.RankLevelUnit,
	}
}

// Cost returns the cost of a run that emits tokensPerS.
func Cost(cfg *configs.Config, e *results.EnergyReport, tokensPerS float64) results.CostReport {
	p, node := &cfg.Prices.Prices, equipment(cfg)
	r := results.CostReport{Prices: p.Name, Date: p.Date}
	if tokensPerS == 0 || e.Total == 0 {
		return r
	}
	seconds, million := e.Total/e.Watts, tokensPerS*3600/1e6 // tokens per hour
	var at [energy.Places]energy.Cost
	for place, joules := range [energy.Places]float64{e.Low, e.Total, e.High} {
		at[place] = p.Cost(&node, joules/seconds, energy.Place(place))
	}
	mid := &at[energy.Mid]
	r.Grade, r.Capital, r.PerHour, r.EnergyPerHour = string(mid.Grade), mid.Capital, mid.PerHour, mid.Energy
	r.PerMToken, r.PerMTokenLow, r.PerMTokenHigh = mid.PerHour/million, at[energy.Low].PerHour/million, at[energy.High].PerHour/million
	r.TokensPerMW, r.CO2PerMToken = tokensPerS/(e.Watts/1e6), mid.CO2/million
	return r
}
