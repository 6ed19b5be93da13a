package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/controller"
)

// replayPower tells how one rank spent its time: clocks in each state until the end, how often it went into power-down and
// self-refresh, and the energy of the states, without commands and REFs.
type replayPower struct {
	Active        replayStandby `json:"active_standby"`
	Precharged    replayStandby `json:"precharged_standby"`
	ActiveDown    replayStandby `json:"active_power_down"`
	Down          replayStandby `json:"precharged_power_down"`
	SelfRefresh   replayStandby `json:"self_refresh"`
	PowerDowns    int64         `json:"power_downs"`
	SelfRefreshes int64         `json:"self_refreshes"`
	// NotEstimated says why the states' energy is 0, where it is not known.
	NotEstimated string `json:"not_estimated,omitempty"`
}

// replayStandby is one of the states.
type replayStandby struct {
	Clocks   int64   `json:"clocks"`
	EnergyMJ float64 `json:"energy_mj"`
}

func newReplayPower(spec *dram.Spec, r *controller.RankStats) *replayPower {
	of := func(state dram.Standby) replayStandby {
		return replayStandby{r.Standby[state], spec.StandbyJoules(state, spec.Steps(int(r.Standby[state])), spec.Steps(int(r.OpenBanks))) * 1e3}
	}
	return &replayPower{of(dram.ActiveStandby), of(dram.PrechargedStandby), of(dram.ActivePowerDown), of(dram.PrechargedPowerDown), of(dram.SelfRefresh),
		r.PowerDowns, r.SelfRefreshes, spec.NotKnown()}
}

// writeLine writes the states as a line of cells, nothing without any.
func (p *replayPower) writeLine(w io.Writer) {
	if p == nil {
		return
	}
	all := float64(max(1, p.Active.Clocks+p.Precharged.Clocks+p.ActiveDown.Clocks+p.Down.Clocks+p.SelfRefresh.Clocks))
	share := func(s replayStandby) float64 { return 100 * float64(s.Clocks) / all }
	fmt.Fprintf(w, "  standby\tactive %.1f%%, precharged %.1f%%\tpower-down active %.1f%%, precharged %.1f%% (%d times), self-refresh %.1f%% (%d times)\n",
		share(p.Active), share(p.Precharged), share(p.ActiveDown), share(p.Down), p.PowerDowns, share(p.SelfRefresh), p.SelfRefreshes)
}

// unknownCurrents names the currents that the energy of the set-up's power-down and self-refresh lacks.
func unknownCurrents(s *controller.Setup) (names []string) {
	if s.Policy.PowerDown == "off" {
		return nil
	}
	for state, name := range map[dram.Standby]string{dram.ActivePowerDown: "IDD3P", dram.PrechargedPowerDown: "IDD2P", dram.SelfRefresh: "IDD6"} {
		if _, known := s.Spec.Power.Current(state); !known {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
