package configs_test

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/units"

	. "github.com/l3sim/l3sim/configs"
)

// TestNodeByHand: replicas and channels of a node, the ranks of its DIMMs, and a rank's capacity. A DDR5 DIMM has two of the channels;
// partly filled DIMMs count as whole ones.
func TestNodeByHand(t *testing.T) {
	for _, c := range []struct {
		part                                     string
		gpus, parallel, channels, ranksets, each int // ranks of a DIMM
		capacity                                 units.Bytes
		replicas, own, dimms                     int
		rank                                     units.Bytes
		dies                                     int
	}{
		{"ddr4-3200-8gb-x8", 8, 4, 16, 4, 1, 512 * units.GiB, 2, 8, 16 * 4, 8 * units.GiB, 1},
		{"ddr4-3200-8gb-x8", 8, 4, 16, 4, 2, 512 * units.GiB, 2, 8, 16 * 2, 8 * units.GiB, 1},
		{"ddr4-3200-8gb-x8", 8, 2, 16, 3, 2, 768 * units.GiB, 4, 4, 16 * 2, 16 * units.GiB, 2},
		{"ddr4-3200-8gb-x8", 4, 4, 6, 5, 4, 270 * units.GiB, 1, 6, 6 * 2, 9 * units.GiB, 2},
		{"ddr5-4800-16gb-x8", 6, 2, 9, 3, 2, 216 * units.GiB, 3, 3, 5 * 2, 8 * units.GiB, 1},
	} {
		cfg, err := Load(Options{Sets: []string{"dram.preset=" + c.part}, SectionsOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Node.GPUs, cfg.Model.TensorParallel, cfg.Node.Channels, cfg.Node.Ranksets, cfg.Energy.RanksPerDIMM, cfg.Node.MemoryCapacity = c.gpus, c.parallel, c.channels, c.ranksets, c.each, c.capacity
		if cfg.Replicas() != c.replicas || cfg.ReplicaChannels() != c.own || cfg.DIMMs() != c.dimms || cfg.Node.RankCapacity() != c.rank || cfg.RankDies() != c.dies || cfg.RankSpec().Dies != c.dies {
			t.Errorf("%+v: %d replicas with %d channels, %d DIMMs, ranks of %v and %d dies", c, cfg.Replicas(), cfg.ReplicaChannels(), cfg.DIMMs(), cfg.Node.RankCapacity(), cfg.RankDies())
		}
	}
}

// TestDiesThatAreGiven: dram.dies, if given, must equal the number that a rank's capacity needs.
func TestDiesThatAreGiven(t *testing.T) {
	// 1 TiB on 16 channels of 4 ranks is 16 GiB for each rank: two dies of 8 Gb at each of 8 positions.
	sets := []string{"dram.preset=ddr4-3200-8gb-x8", "node.channels=16", "node.ranksets=4", "node.memory_capacity=1TiB"}
	for dies, want := range map[string]string{"dram.dies=0": "", "dram.dies=2": "", "dram.dies=1": "dram.dies = 1: expected 2", "dram.dies=3": "dram.dies = 3: expected 2"} {
		c, err := Load(Options{Sets: append(sets, dies)})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || err == nil && c.RankDies() != 2 {
			t.Errorf("%s: %v, want %q", dies, err, want)
		}
	}
}

// TestHeadsThatVerify: each token that a step verifies has one query for each query head of a group. Also: which models and policies attend
// to all tokens.
func TestHeadsThatVerify(t *testing.T) {
	for sets, want := range map[string]struct {
		queries int
		all     bool
	}{
		"run.model=llama-3-70b": {8, true}, "run.model=llama-3-70b serving.verified_tokens=3 serving.acceptance=0.5": {24, true}, "run.model=llama-2-7b serving.verified_tokens=3 serving.acceptance=0.5": {3, true},
		"run.model=llama-3-70b policy.name=streaming run.system=gpu-only": {8, false}, "run.model=mistral-7b model.window=4096 run.system=gpu-only": {4, false},
	} {
		c, err := system.Configs().Load(Options{Sets: strings.Fields(sets)})
		if err != nil {
			t.Fatal(sets, err)
		}
		if got := c.HeadShape().Queries; got != want.queries || c.AttendsToAll() != want.all {
			t.Errorf("%s: %d queries of a KV head, attends to all %v", sets, got, c.AttendsToAll())
		}
	}
	for price, bad := range map[float64]bool{-0.01: true, 0: false, 1e9: false, 1.001e9: true} {
		g, _, err := LoadGPU("--gpu", "a100-sxm-80gb")
		if err != nil {
			t.Fatal(err)
		}
		own := GPU{Spec: *g, Price: price}
		if faults := input.Faults(&own); (len(faults) > 0) != bad || bad && faults[0].Key != "price" {
			t.Errorf("a price of %v: %v", price, faults)
		}
	}
}
