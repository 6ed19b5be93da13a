package configs

import (
	"reflect"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/units"
)

// Check has the rules of each section and, where the sections are right by themselves,
// of what must fit together.
func (c *Config) Check(k *input.Check) {
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		if section, ok := v.Field(i).Addr().Interface().(input.Checked); ok {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("toml"), ",")
			k.In(name, section)
		}
	}
	rules := []func(*Config, *input.Check){(*Config).checkReplicas, (*Config).checkWeights}
	if c.DIMMPIM() {
		rules = append(rules, (*Config).checkHeads, (*Config).checkHeadShape, (*Config).checkRanks)
	} else {
		rules = append(rules, (*Config).checkActivations)
	}
	for _, rule := range rules {
		if !k.OK() {
			return
		}
		rule(c, k)
	}
}

// checkReplicas: GPUs and channels divide evenly over the replicas.
func (c *Config) checkReplicas(k *input.Check) {
	k.That(c.Node.GPUs%c.Model.TensorParallel == 0, "node.gpus", c.Node.GPUs, "a multiple of model.tensor_parallel = %d", c.Model.TensorParallel)
	if k.OK() {
		k.That(c.Node.Channels%c.Replicas() == 0, "node.channels", c.Node.Channels,
			"a multiple of the %d replicas (node.gpus / model.tensor_parallel)", c.Replicas())
	}
}

// checkHeads: the KV heads of a layer spread evenly over a replica's channels.
func (c *Config) checkHeads(k *input.Check) {
	n := c.ReplicaChannels()
	k.That(c.Model.KVHeads%n == 0, "model.kv_heads", c.Model.KVHeads,
		"a multiple of the %d channels of a replica (node.channels * model.tensor_parallel / node.gpus)", n)
}

// checkWeights: the weights of a replica fit its GPUs.
func (c *Config) checkWeights(k *input.Check) {
	gpus := units.Bytes(c.Model.TensorParallel)
	free := gpus * c.GPUMemory()
	var value any = c.GPU.MemoryCapacity
	key := "gpu.memory_capacity"
	if c.Run.System == SystemHBMPIM && c.HBMPIM.CapacityShare < 1 {
		key, value = "hbm_pim.capacity_share", c.HBMPIM.CapacityShare
	}
	k.That(c.Model.WeightBytes() <= free, key, value, "room for the weights of %s: %.1f GiB on model.tensor_parallel = %d GPUs, "+
		"which hold %.1f GiB without gpu.memory_reserve", c.Model.Name, gib(c.Model.WeightBytes()), gpus, gib(free))
}

// checkActivations: where keys and values are in GPU memory, too, weights and the
// activations of the largest iteration leave room for them.
func (c *Config) checkActivations(k *input.Check) {
	gpus := units.Bytes(c.Model.TensorParallel)
	free := gpus*c.GPUMemory() - c.Model.WeightBytes()
	page := units.Bytes(c.Batching.PageTokens) * c.Model.KVBytesPerToken()
	activations := c.Model.ActivationBytes(c.Batching.MaxBatchTokens)
	k.That(activations+page <= free, "batching.max_batch_tokens", c.Batching.MaxBatchTokens,
		"activations that leave room for a page of KV beside the weights of %s: they take %.1f GiB of %.1f GiB, a page of batching.page_tokens %.3f GiB",
		c.Model.Name, gib(activations), gib(free), gib(page))
}

// gib returns b in GiB.
func gib(b units.Bytes) float64 { return float64(b) / float64(units.GiB) }

// checkHeadShape: the rank's banks and the score buffer can take a head.
func (c *Config) checkHeadShape(k *input.Check) {
	_, err := pim.NewGeometry(&c.DRAM.Spec, c.HeadShape())
	k.Fails("model", err)
	if err == nil {
		_, err = c.PIM.SegmentTokens(&c.DRAM.Spec, c.HeadShape())
		k.Fails("pim", err)
	}
}

// checkRanks: a rank holds at least one allocation unit, a K row and a V row
// over all its banks.
func (c *Config) checkRanks(k *input.Check) {
	unit, ranks := c.PIM.UnitBytes(&c.DRAM.Spec), c.Node.Channels*c.Node.Ranksets
	k.That(c.Node.RankCapacity() >= unit, "node.memory_capacity", c.Node.MemoryCapacity,
		"at least %s, a K row and a V row on each of node.channels * node.ranksets = %d ranks", unit*units.Bytes(ranks), ranks)
}
