package configs

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/units"
)

// validator is what every section implements; keys of its errors are relative
// to the section.
type validator interface{ Validate() []*input.Error }

// Validate reports what is wrong with the configuration: what each section's
// own Validate finds, with full keys, and only where the sections are right by
// themselves what does not fit together.
func (c *Config) Validate() []*input.Error {
	var errs []*input.Error
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		section, ok := v.Field(i).Addr().Interface().(validator)
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("toml"), ",")
		for _, e := range section.Validate() {
			e.Key = name + "." + e.Key
			errs = append(errs, e)
		}
	}
	if len(errs) > 0 {
		return errs
	}
	checks := []func(*Config) *input.Error{(*Config).checkReplicas, (*Config).checkWeights}
	if c.DIMMPIM() {
		checks = append(checks, (*Config).checkHeads, (*Config).checkHeadShape, (*Config).checkRanks)
	} else {
		checks = append(checks, (*Config).checkActivations)
	}
	for _, check := range checks {
		if e := check(c); e != nil {
			return []*input.Error{e}
		}
	}
	return nil
}

// checkReplicas: GPUs and channels divide evenly over the replicas.
func (c *Config) checkReplicas() *input.Error {
	if c.Node.GPUs%c.Model.TensorParallel != 0 {
		return &input.Error{
			Key: "node.gpus", Value: fmt.Sprint(c.Node.GPUs),
			Expected: fmt.Sprintf("a multiple of model.tensor_parallel = %d", c.Model.TensorParallel),
		}
	}
	if c.Node.Channels%c.Replicas() != 0 {
		return &input.Error{
			Key: "node.channels", Value: fmt.Sprint(c.Node.Channels),
			Expected: fmt.Sprintf("a multiple of the %d replicas (node.gpus / model.tensor_parallel)", c.Replicas()),
		}
	}
	return nil
}

// checkHeads: the KV heads of a layer spread evenly over a replica's channels.
func (c *Config) checkHeads() *input.Error {
	if c.Model.KVHeads%c.ReplicaChannels() == 0 {
		return nil
	}
	return &input.Error{
		Key: "model.kv_heads", Value: fmt.Sprint(c.Model.KVHeads),
		Expected: fmt.Sprintf("a multiple of the %d channels of a replica (node.channels * model.tensor_parallel / node.gpus)",
			c.ReplicaChannels()),
	}
}

// checkWeights: the weights of a replica fit its GPUs.
func (c *Config) checkWeights() *input.Error {
	gpus := units.Bytes(c.Model.TensorParallel)
	free := gpus * c.GPUMemory()
	if c.Model.WeightBytes() <= free {
		return nil
	}
	key, value := "gpu.memory_capacity", fmt.Sprintf("%q", c.GPU.MemoryCapacity)
	if c.Run.System == SystemHBMPIM && c.HBMPIM.CapacityShare < 1 {
		key, value = "hbm_pim.capacity_share", fmt.Sprint(c.HBMPIM.CapacityShare)
	}
	return &input.Error{
		Key: key, Value: value,
		Expected: fmt.Sprintf("room for the weights of %s: %.1f GiB on model.tensor_parallel = %d GPUs, "+
			"which hold %.1f GiB without gpu.memory_reserve", c.Model.Name, gib(c.Model.WeightBytes()), gpus, gib(free)),
	}
}

// checkActivations: where keys and values are in GPU memory, too, weights and the
// activations of the largest iteration leave room for them.
func (c *Config) checkActivations() *input.Error {
	gpus := units.Bytes(c.Model.TensorParallel)
	free := gpus*c.GPUMemory() - c.Model.WeightBytes()
	page := units.Bytes(c.Batching.PageTokens) * c.Model.KVBytesPerToken()
	activations := c.Model.ActivationBytes(c.Batching.MaxBatchTokens)
	if activations+page <= free {
		return nil
	}
	return &input.Error{
		Key: "batching.max_batch_tokens", Value: fmt.Sprint(c.Batching.MaxBatchTokens),
		Expected: fmt.Sprintf("activations that leave room for a page of KV beside the weights of %s: they take %.1f GiB of %.1f GiB, a page of batching.page_tokens %.3f GiB",
			c.Model.Name, gib(activations), gib(free), gib(page)),
	}
}

// gib returns b in GiB.
func gib(b units.Bytes) float64 { return float64(b) / float64(units.GiB) }

// checkHeadShape: the rank's banks and the score buffer can take a head.
func (c *Config) checkHeadShape() *input.Error {
	if _, err := pim.NewGeometry(&c.DRAM.Spec, c.HeadShape()); err != nil {
		return inSection("model", err)
	}
	if _, err := c.PIM.SegmentTokens(&c.DRAM.Spec, c.HeadShape()); err != nil {
		return inSection("pim", err)
	}
	return nil
}

// inSection gives an error whose key is relative to a section its full key.
func inSection(section string, err error) *input.Error {
	var bad *input.Error
	if !errors.As(err, &bad) {
		return &input.Error{Key: section, Err: err}
	}
	full := *bad
	full.Key = section + "." + bad.Key
	return &full
}

// checkRanks: a rank holds at least one allocation unit, a K row and a V row
// over all its banks.
func (c *Config) checkRanks() *input.Error {
	unit := c.PIM.UnitBytes(&c.DRAM.Spec)
	if c.Node.RankCapacity() >= unit {
		return nil
	}
	return &input.Error{
		Key: "node.memory_capacity", Value: fmt.Sprintf("%q", c.Node.MemoryCapacity),
		Expected: fmt.Sprintf("at least %s, a K row and a V row on each of node.channels * node.ranksets = %d ranks",
			unit*units.Bytes(c.Node.Channels*c.Node.Ranksets), c.Node.Channels*c.Node.Ranksets),
	}
}
