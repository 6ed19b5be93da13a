package ranks

import (
	"fmt"
	"math"
	"strconv"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/pim/tables"
)

// leastPower is the least power in watts that pim.power_limit must leave a DIMM for attention: with less, a head
// would take seconds.
const leastPower = 0.1

// AttentionDraw returns the energy of commands of a rank with such units, with constants at a place of their bands.
func AttentionDraw(cfg *configs.Config, unit *pim.Spec, at energy.Place) Draw {
	e := cfg.Energy.At(at)
	d := NewDraw(cfg.RankSpec(), &e)
	d.RankLevel = unit.ProcessingUnit == pim.RankLevelUnit
	return d
}

// OfEach returns the joules of one unit of each of an activity's counts.
func (d *Draw) OfEach() (each machine.Activity) {
	of := func(one machine.Activity) float64 {
		j := d.Attention(&one)
		return j.Total()
	}
	return machine.Activity{
		Activates: of(machine.Activity{Activates: 1}), UnitReads: of(machine.Activity{UnitReads: 1}), Reads: of(machine.Activity{Reads: 1}),
		Writes: of(machine.Activity{Writes: 1}), Open: of(machine.Activity{Open: 1}), Clocks: of(machine.Activity{Clocks: 1}),
	}
}

// DIMMRanks returns the number of ranks of a DIMM: in DDR5 over both of its sub-channels.
func DIMMRanks(cfg *configs.Config) int {
	return cfg.Energy.RanksPerDIMM * cfg.DRAM.Rules().SubChannels
}

// paceOf returns the pace of units at which a DIMM draws no more than pim.power_limit. Each rank has an equal share of what
// standby, refresh and buffers leave, whether its neighbours attend or not. A rank's clocks exclude refresh, so a clock gets the
// joules of a clock's time with refresh.
func paceOf(cfg *configs.Config, unit *pim.Spec) (p tables.Pace, err error) {
	limit := cfg.PIM.PowerLimit
	if limit == 0 {
		return p, nil
	}
	d, ranks := AttentionDraw(cfg, unit, energy.Mid), float64(DIMMRanks(cfg))
	static := float64(ranks*d.Idle()) + cfg.Energy.At(energy.Mid).DIMMBuffer
	if limit < static+leastPower {
		return p, InSection(cfg, "pim", &input.Error{Key: "power_limit", Value: strconv.FormatFloat(limit, 'g', -1, 64),
			Expected: fmt.Sprintf("at least %.2f W, or 0 for no limit: a DIMM of %d ranks draws %.2f W without attention, for standby, refresh and its buffers",
				math.Ceil(100*(static+leastPower))/100, DIMMRanks(cfg), static)})
	}
	s := &cfg.DRAM.Spec
	computes := 1 - float64(s.TRFC)/float64(s.TREFI)
	return tables.Pace{Each: d.OfEach(), Clock: (limit - static) / ranks * s.TCK.Seconds() / computes}, nil
}

// HeadTable measures attention on the ranks of a configuration with such units, at the pace of its power limit. Its errors
// name keys of the configuration.
func HeadTable(cfg *configs.Config, unit *pim.Spec, shape pim.HeadShape) (*tables.KernelTable, error) {
	pace, err := paceOf(cfg, unit)
	if err != nil {
		return nil, err
	}
	return headTable(cfg, unit, shape, pace, false)
}
