package power

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/units"
)

// TestEquipment: the priced parts of each system.
func TestEquipment(t *testing.T) {
	for system, want := range map[string]energy.Equipment{
		"l3": {BankPIM: true}, "rank-pim": {RankPIM: true}, "hbm-pim": {HBMPIM: true}, "gpu-only": {}, "cpu-offload": {}, "gpu+cpu": {},
		"gpu-only pim.processing_unit=rank": {}, "l3 pim.processing_unit=rank": {RankPIM: true}, // no units without their system
	} {
		cfg := metered(t, append(strings.Fields("run.system="+system), "energy.unused_memory=0B")...)
		want.GPU, want.GPUs, want.Servers, want.Memory, want.DIMMs, want.DIMMGiB = "a100-sxm-80gb", 8, 1, "ddr4", 32, 64
		if got := equipment(cfg); got != want {
			t.Errorf("%s: %+v, want %+v", system, got, want)
		}
	}
}

// TestServersBySlots: nodes of 1, 2, 4, 8, and 16 GPUs take as many slots of servers of eight, and that share of their price, board and
// idle sockets. A system that uses the host's memory has all sockets, since it uses their channels.
func TestServersBySlots(t *testing.T) {
	board := func(m *Meter) float64 {
		return m.Power(energy.Mid).each[byTime][drawBoard] * float64(m.Hardware.Config.Replicas())
	}
	idle := func(m *Meter) float64 {
		return m.Power(energy.Mid).each[byTime][drawCPUs] * float64(m.Hardware.Config.Replicas())
	}
	for _, gpus := range []int{1, 2, 4, 8, 16} {
		share := float64(gpus) / 8
		for system, sockets := range map[string]float64{"gpu-only": 2 * share, "hbm-pim": 2 * share, "l3": max(2, 2*share), "gpu+cpu": max(2, 2*share)} {
			sets := []string{"run.system=" + system, fmt.Sprint("node.gpus=", gpus), "model.tensor_parallel=1", `run.model="llama-3-8b"`}
			m := meterOf(t, sets...)
			if e := equipment(m.Hardware.Config); e.Servers != share || board(m) != 1000*share || idle(m) != 75*sockets {
				t.Errorf("%d GPUs of %s: %v servers, board %v W, sockets %v W, want %v, %v and %v", gpus, system, e.Servers, board(m), idle(m), share, 1000*share, 75*sockets)
			}
			own := meterOf(t, append(sets, fmt.Sprint("energy.server_slots=", gpus))...)
			if e := equipment(own.Hardware.Config); e.Servers != 1 || board(own) != 1000 || idle(own) != 150 {
				t.Errorf("%d GPUs of %s fill a server of their own: %v servers, board %v W, sockets %v W", gpus, system, e.Servers, board(own), idle(own))
			}
		}
	}
}

// TestUnusedMemory: systems that do not use the host's memory have 16 DIMMs of 32 GiB instead of 32 of 64. The others, and one with a
// tier of prefixes there, have all. Four times fewer dies refresh. Stacks beside the GPUs are priced.
func TestUnusedMemory(t *testing.T) {
	for system, used := range map[string]bool{"l3": true, "rank-pim": true, "cpu-offload": true, "gpu+cpu": true, "gpu-only": false, "hbm-pim": false} {
		dimms, gib, dies := 32, 64.0, 1.0
		if !used {
			dimms, gib, dies = 16, 32, 4
		}
		sets := []string{"run.system=" + system}
		if got := equipment(metered(t, sets...)); got.DIMMs != dimms || got.DIMMGiB != gib {
			t.Errorf("%s: %+v, want %d DIMMs of %v GiB", system, got, dimms, gib)
		}
		own, all := meterOf(t, sets...).Power(energy.Mid).each[byTime], meterOf(t, sets[0], "energy.unused_memory=0B").Power(energy.Mid).each[byTime]
		if a, b := own[drawRefresh]*dies, all[drawRefresh]; math.Abs(a/b-1) > 1e-12 {
			t.Errorf("%s: refresh draws %v W of %v", system, own[drawRefresh], b)
		}
		if a, b := own[drawBuffers]*float64(32/dimms), all[drawBuffers]; a != b {
			t.Errorf("%s: buffers draw %v W of %v", system, own[drawBuffers], b)
		}
	}
	tier := metered(t, "run.system=gpu-only", "cache.prefix=true", "cache.host_capacity=1GiB")
	if got := equipment(tier); got.DIMMs != 32 {
		t.Errorf("with a tier of prefixes: %+v", got)
	}
	if got := equipment(metered(t, "run.system=hbm-pim", "hbm_pim.memory_beside=80GiB")); got.HBMGiB != 80 || !got.HBMPIM {
		t.Errorf("stacks beside: %+v", got)
	}
}

// TestUnusedMemoryBySlots: a GPU that does not use the host's memory has two DIMMs of 32 GiB and their power, whatever the number of
// GPUs and the preset, but no more than the node has. A system that uses the memory has what is set.
func TestUnusedMemoryBySlots(t *testing.T) {
	for _, preset := range []string{"dgx-a100-l3", "dgx-b200-l3", "dgx-h100-l3", "dgx-h200-l3", "fair", "paper"} {
		for _, gpus := range []int{1, 2, 4, 8, 16} {
			sets := []string{"preset=" + preset, "run.system=gpu-only", fmt.Sprint("node.gpus=", gpus), "model.tensor_parallel=1", `run.model="llama-3-8b"`}
			m := meterOf(t, sets...)
			e, a := equipment(m.Hardware.Config), m.Power(energy.Mid).each[byTime]
			if e.DIMMGiB != 32 || e.DIMMs != 2*gpus || Memory(m.Hardware.Config) != units.Bytes(64*gpus)*units.GiB {
				t.Errorf("%s, %d GPUs: %d DIMMs of %v GiB", preset, gpus, e.DIMMs, e.DIMMGiB)
			}
			if got := a[drawBuffers] * float64(gpus); got != 1.5*float64(e.DIMMs) {
				t.Errorf("%s, %d GPUs: buffers draw %v W", preset, gpus, got)
			}
			if own := equipment(metered(t, append(sets, "run.system=l3")...)); own.DIMMs*int(own.DIMMGiB) != 2048 {
				t.Errorf("%s, %d GPUs: l3 has %d DIMMs of %v GiB", preset, gpus, own.DIMMs, own.DIMMGiB)
			}
		}
	}
	if got := Memory(metered(t, "preset=desk", "run.system=gpu-only", `run.model="tiny-lm"`)); got != 32*units.GiB {
		t.Errorf("desk has %v", got)
	}
}

// TestDIMMsOfDDR5: 32 channels of four ranks are 32 DIMMs of two ranks on each of two sub-channels. Their buffers draw as much as
// those of 16 channels of DDR4.
func TestDIMMsOfDDR5(t *testing.T) {
	sets := []string{"run.system=l3", `dram.preset="ddr5-4800-16gb-x8"`, "node.channels=32"}
	cfg := metered(t, sets...)
	if got := equipment(cfg); got.DIMMs != 32 || got.DIMMGiB != 64 || got.Memory != "ddr5" {
		t.Errorf("%+v, want 32 DIMMs of 64 GiB", got)
	}
	buffers := func(sets ...string) float64 { return meterOf(t, sets...).Power(energy.Mid).each[byTime][drawBuffers] }
	if a, b := buffers(sets...), buffers("run.system=l3"); a != b {
		t.Errorf("buffers draw %v W, want %v", a, b)
	}
}

// TestCostOfRun: the cost of a run of 100 tokens a second at 4 kW, by hand.
func TestCostOfRun(t *testing.T) {
	cfg := metered(t, "prices.server=0", "prices.gpu.a100_sxm_80gb=0", "prices.dimm.ddr4=0", "prices.electricity=0.1", "prices.carbon=0.5")
	c := Cost(cfg, &results.EnergyReport{Total: 8e6, Low: 4e6, High: 16e6, Watts: 4000}, 100)
	for what, v := range map[string][2]float64{
		"an hour": {c.PerHour, 0.4}, "a million": {c.PerMToken, 0.4 / 0.36}, "at the low end": {c.PerMTokenLow, 0.2 / 0.36}, "at the high end": {c.PerMTokenHigh, 0.8 / 0.36},
		"a megawatt": {c.TokensPerMW, 25000}, "carbon": {c.CO2PerMToken, 2 / 0.36}, "capital": {c.Capital, 0},
	} {
		if math.Abs(v[0]-v[1]) > 1e-9*(v[1]+1e-9) {
			t.Errorf("%s: %v, want %v", what, v[0], v[1])
		}
	}
	// A run without tokens or joules has no cost per token or per joule; a run with one of each has
	// both.
	for _, run := range []struct{ joules, tokensPerS float64 }{{0, 0}, {0, 100}, {1, 0}} {
		if c := Cost(cfg, &results.EnergyReport{Total: run.joules, Watts: run.joules}, run.tokensPerS); c.PerMToken != 0 || c.PerHour != 0 || c.Date == "" {
			t.Errorf("%+v: %+v", run, c)
		}
	}
	if c := Cost(cfg, &results.EnergyReport{Total: 1, Watts: 4000}, 1); math.Abs(c.PerHour-0.4) > 1e-9 {
		t.Errorf("%+v", c)
	}
}

// meterOf returns the meter of the default node with some keys set.
func meterOf(t interface{ Fatal(...any) }, sets ...string) *Meter {
	cfg := metered(t, sets...)
	s := kinds.Of(cfg)
	h := s.Derive(cfg)
	tables, err := s.Measure(h)
	if err != nil {
		t.Fatal(err)
	}
	return NewMeter(h, tables, s.Host)
}

// metered returns the default configuration with some keys set.
func metered(t interface{ Fatal(...any) }, sets ...string) *configs.Config {
	cfg, err := kinds.Loader().Load(configs.Options{Sets: sets})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// alike9 reports whether two numbers agree to nine digits.
func alike9(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }
