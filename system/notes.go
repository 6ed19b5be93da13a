package system

import (
	"fmt"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/results"
)

// mostDIMMs is how many DIMMs the boards of servers have on a channel at most: three with DDR4 at
// lower rates (Dell DL4000, owner's manual, slots A4, A8 and A12 of a channel), two with DDR4-3200 and
// with DDR5 (Dell XC750xa, installation manual, table 19). Ranks beyond that are a what-if, which
// L3's own 8 and 16 ranksets are, too.
const mostDIMMs = 3

// Notes says what the numbers of a configuration's runs rest on that none of them says.
func Notes(cfg *configs.Config) (notes []string) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	gpu, base := cfg.GPU.Name, ""
	if preset, changed := cfg.GPUBase(); preset != "" {
		base = preset
		keys := "nothing"
		if len(changed) > 0 {
			keys = strings.Join(changed, ", ")
		}
		note("GPU %s is %s with changed: %s; what is not changed (efficiencies of kernels, power and links among it) is that of %s", gpu, preset, keys, preset)
	}
	prices := &cfg.Prices.Prices
	switch price, whose := prices.GPU.Of(gpu, base); whose {
	case gpu:
	case "":
		note("price list %s has no GPU %s: it costs prices.gpu.other, %s, in USD", prices.Name, gpu, price)
	default:
		note("price list %s has no GPU %s: it costs what %s does, %s, in USD", prices.Name, gpu, whose, price)
	}
	dimms := (cfg.Node.Ranksets + cfg.Energy.RanksPerDIMM - 1) / cfg.Energy.RanksPerDIMM
	if ddr := strings.HasPrefix(cfg.DRAM.Rules().Family, "ddr"); ddr && dimms > mostDIMMs {
		note("node.ranksets = %d are %d DIMMs on a channel (energy.ranks_per_dimm = %d): boards of servers have 2 at DDR4-3200 and DDR5, at most %d",
			cfg.Node.Ranksets, dimms, cfg.Energy.RanksPerDIMM, mostDIMMs)
	}
	return notes
}

// notes adds to Notes what came of the run whose summary is s.
func (r *Result) notes(cfg *configs.Config, s *results.Summary) []string {
	notes := Notes(cfg)
	if r.wholePrompts > 0 {
		notes = append(notes, fmt.Sprintf("%d prompts of up to %d tokens ran whole, as the GPUs have no room for keys and values of a cut one: all that decodes waits for them, TBT p99 %.4g s, at most %.4g s",
			r.wholePrompts, r.longestWhole, s.TBT.P99/1e3, s.TBT.Max/1e3))
	}
	return notes
}
