package power

import (
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/system/ranks"
)

// TestDiesOfRanks: a rank has as many dies as its capacity needs. All of them draw standby, refresh and word-line power, by
// hand from the part's currents; reads take no more. The timing is that of one die.
func TestDiesOfRanks(t *testing.T) {
	for _, c := range []struct {
		capacity, part string
		ranksets, dies int // at each of 8 positions, of 4 in DDR5
	}{
		{"2TiB", "ddr4-3200-8gb-x8", 4, 4}, {"512GiB", "ddr4-3200-8gb-x8", 4, 1}, {"4TiB", "ddr4-3200-8gb-x8", 4, 8}, {"2TiB", "ddr4-3200-8gb-x8", 16, 1},
		{"2TiB", "ddr4-3200-16gb-x8", 4, 2}, {"4TiB", "ddr4-3200-16gb-x8", 16, 1}, {"3TiB", "ddr4-3200-8gb-x8", 4, 6}, {"520GiB", "ddr4-3200-8gb-x8", 4, 2},
		{"64GiB", "ddr4-3200-8gb-x8", 4, 1}, {"2TiB", "ddr4-2400-8gb-x4", 4, 2}, {"2TiB", "ddr5-4800-16gb-x8", 4, 4}, {"2TiB", "ddr5-5600-32gb-x4", 4, 1},
	} {
		n := meterOf(t, "run.system=gpu-only", "energy.unused_memory=0B", "node.memory_capacity="+c.capacity, fmt.Sprintf("node.ranksets=%d", c.ranksets), "dram.preset="+c.part)
		cfg := n.Hardware.Config
		if got := cfg.RankDies(); got != c.dies {
			t.Errorf("%s on %d ranksets of %s: %d dies, want %d", c.capacity, c.ranksets, c.part, got, c.dies)
		}
		s, rankCount := &cfg.DRAM.Spec, float64(16*c.ranksets)
		mA := s.Power.VDD * 1e-3 * float64(s.Chips()*c.dies) // in all dies of a rank
		draw := n.Power(energy.Mid).each[byTime]
		all := draw[drawClosed] * float64(cfg.Replicas())
		if want := rankCount * mA * s.Power.IDD2N; !alike9(all, want) {
			t.Errorf("%s on %d ranksets of %s: standby draws %v W, by hand %v W", c.capacity, c.ranksets, c.part, all, want)
		}
		if got, want := draw[drawRefresh]/draw[drawClosed], (s.Power.IDD5B-s.Power.IDD2N)*float64(s.TRFC)/float64(s.TREFI)/s.Power.IDD2N; !alike9(got, want) {
			t.Errorf("%s: refresh draws %v of standby, by hand %v", c.part, got, want)
		}
		if got, want := draw[drawVPP]*float64(cfg.Replicas()), rankCount*float64(s.Chips()*c.dies)*7.5e-3; !alike9(got, want) {
			t.Errorf("%s: word lines draw %v W, by hand %v W", c.part, got, want)
		}
		point := cfg.Energy.At(energy.Mid)
		one, stack := ranks.NewDraw(s, &point), ranks.NewDraw(cfg.RankSpec(), &point)
		x, y := one.OfEach(), stack.OfEach()
		if x.Activates != y.Activates || x.UnitReads != y.UnitReads || x.Reads != y.Reads || x.Writes != y.Writes || !alike9(x.Open, y.Open) || x.Clocks != y.Clocks {
			t.Errorf("%s: one die %+v, a stack %+v", c.part, x, y)
		}
		part, err := dram.LookupSpec(c.part)
		if err != nil || part.TRFC != s.TRFC {
			t.Errorf("%s: tRFC %d, of one die %d", c.part, s.TRFC, part.TRFC)
		}
		given := fmt.Sprintf("dram.dies=%d", c.dies+1)
		if _, err := kinds.Loader().Load(configs.Options{Sets: []string{"node.memory_capacity=" + c.capacity, fmt.Sprintf("node.ranksets=%d", c.ranksets), "dram.preset=" + c.part, given}}); err == nil ||
			!strings.Contains(err.Error(), "dram.dies") || !strings.Contains(err.Error(), "node.memory_capacity") {
			t.Errorf("%s and %s: %v", c.capacity, given, err)
		}
	}
}
