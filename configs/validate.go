package configs

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/units"
)

// Check has the rules of each section and, once each section is valid by itself, the rules across sections.
func (c *Config) Check(k *input.Check) {
	if err := c.Made(); err != nil {
		k.Fails("", err)
		return
	}
	systems := c.loader.names()
	if i := slices.IndexFunc(c.loader.systems, func(s System) bool { return slices.Contains(s.Others, strings.ToLower(c.Run.System)) }); i >= 0 && c.System() == nil {
		k.Fails("run.system", &input.Error{Value: schema.Written(c.Run.System), Nearest: c.loader.systems[i].Name,
			Expected: "one of " + strings.Join(slices.Sorted(slices.Values(systems)), ", ") + " ('l3sim config systems' says what each stands for)"})
	} else {
		input.OneOf(k, "run.system", c.Run.System, systems...)
	}
	for _, name := range append(c.CommonSystems(), "all") {
		input.OneOf(k, "run.common_to", name, append(systems, "all")...)
	}
	v := reflect.ValueOf(c).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
		if name == "" {
			continue
		}
		if section, ok := v.FieldByIndex(f.Index).Addr().Interface().(input.Checked); ok {
			k.In(name, section)
		}
	}
	for i, n := 0, 0; i < len(c.loader.systems); i++ {
		if s := &c.loader.systems[i]; s.Section != "" {
			k.In(s.Section, c.Sections[n].(input.Checked))
			n++
		}
	}
	k.That(c.GPU.MemoryShare > 0, memoryShare, c.GPU.MemoryShare, "more than 0, at most 1")
	if k.OK() {
		c.checkReplicas(k)
		c.checkDies(k)
	}
	if s := c.System(); k.OK() && s.Check != nil && !c.sectionsOnly {
		s.Check(c, k)
	}
}

// checkReplicas checks that GPUs and channels divide evenly over the replicas.
func (c *Config) checkReplicas(k *input.Check) {
	why := ""
	if units.Bytes(c.Node.GPUs)*c.GPU.MemoryCapacity < c.Model.WeightBytes() {
		why = fmt.Sprintf(" (%s has %.0f GiB of weights, a GPU %.0f GiB)", c.Model.Name, gib(c.Model.WeightBytes()), gib(c.GPU.MemoryCapacity))
	}
	k.That(c.Node.GPUs%c.Model.TensorParallel == 0, "node.gpus", c.Node.GPUs, "a multiple of %s = %d%s", input.Key("model.tensor_parallel"), c.Model.TensorParallel, why)
	if k.OK() {
		k.That(c.Node.Channels%c.Replicas() == 0, "node.channels", c.Node.Channels,
			"a multiple of the %d replicas (%s / %s)", c.Replicas(), input.Key("node.gpus"), input.Key("model.tensor_parallel"))
	}
}

// CheckWeights is the rule that a replica's weights fit its GPUs. share is the share of their memory left for weights and data; key is the
// key that sets it.
func (c *Config) CheckWeights(k *input.Check, share float64, key string) {
	gpus := units.Bytes(c.Model.TensorParallel)
	free := gpus * c.GPUMemory(share)
	var value any = c.GPU.MemoryCapacity
	expected := "room for the weights of %s: %.1f GiB on %s = %d GPUs, which hold %.1f GiB without %s"
	args := []any{c.Model.Name, gib(c.Model.WeightBytes()), input.Key("model.tensor_parallel"), gpus, gib(free), input.Key("gpu.memory_reserve")}
	served := c.GPU.MemoryShare < 1
	switch {
	case share < 1:
		value = share
	case served && float64(c.Model.WeightBytes()) <= float64(free)/c.GPU.MemoryShare: // all of the memory would do
		key, value, served = memoryShare, c.GPU.MemoryShare, false
	default:
		key = "gpu.memory_capacity"
	}
	if served {
		expected, args = expected+", at %s = %v", append(args, input.Key(memoryShare), c.GPU.MemoryShare)
	}
	k.That(c.Model.WeightBytes() <= free, key, value, expected, args...)
}

// CheckActivations is the rule that weights and the activations of the largest iteration leave room for keys and values in GPU memory, if
// the GPUs hold them.
func (c *Config) CheckActivations(k *input.Check, share float64) {
	gpus := units.Bytes(c.Model.TensorParallel)
	free := gpus*c.GPUMemory(share) - c.Model.WeightBytes()
	page := units.Bytes(c.Batching.PageTokens) * c.Model.KVBytesOnGPUs()
	activations := c.Workspace()
	key, value, what, args := "batching.max_num_batched_tokens", c.Batching.MaxBatchTokens, "activations", []any(nil)
	if activations > c.Model.ActivationBytes(c.Batching.MaxBatchTokens) {
		key, value, what, args = "batching.sampler_bytes", c.Batching.SamplerBytes, "tensors of a sampler of %s requests", []any{input.Key("batching.max_num_seqs")}
	}
	args = append(args, c.Model.Name, gib(activations), gib(free), input.Key("batching.page_tokens"), gib(page))
	k.That(activations+page <= free, key, value,
		what+" that leave room for a page of KV beside the weights of %s: they take %.1f GiB of %.1f GiB, a page of %s %.3f GiB", args...)
}

// Workspace returns the bytes, over a replica's GPUs, that a server with keys and values in GPU memory reserves for the largest iteration:
// its activations, or the sampler's memory after them. Each GPU has the logits of the whole vocabulary.
func (c *Config) Workspace() units.Bytes {
	b, m := &c.Batching, &c.Model
	requests := min(cmp.Or(b.MaxNumSeqs, b.MaxBatchTokens), b.MaxBatchTokens) // that emit a token in this iteration
	sampler := float64(m.TensorParallel) * float64(requests) * float64(m.Vocab) * float64(b.SamplerBytes)
	return max(m.ActivationBytes(b.MaxBatchTokens), units.Bytes(min(sampler, 1<<60)))
}

// GPUMemory returns the bytes of one GPU that the server may use. share is the part of the capacity left for it; processing units in the
// memory take the rest. It is 0 if the reserve exceeds that part.
func (c *Config) GPUMemory(share float64) units.Bytes {
	capacity := c.GPU.MemoryCapacity
	if share < 1 {
		capacity = units.Bytes(float64(capacity) * share)
	}
	return c.GPU.UsableOf(capacity)
}

func gib(b units.Bytes) float64 { return float64(b) / float64(units.GiB) }

// CheckRanks has the rules of attention on the ranks of DIMMs: a head fits a rank's banks and its score buffer, and a rank holds at least
// one allocation unit, a K row and a V row over all its banks.
func (c *Config) CheckRanks(k *input.Check) {
	most, _ := c.DRAM.Managed()
	k.That(most == 0, "dram.timings", c.DRAM.Timings, "no RAAMMT: programs of units send no RFM")
	shape := c.HeadShape()
	k.That(shape.ScaleBytes == 0 || shape.KeyGroup == 0 || shape.KeyGroup >= shape.HeadDim, "model.kv_scales", c.Model.KVScales,
		"token or tensor with %s = %s and %s = %d: a group of %d keys has as many places for scales",
		input.Key("pim.scales"), c.PIM.Scales, input.Key("model.head_dim"), shape.HeadDim, shape.KeyGroup)
	if err := pim.CheckCommands(&c.DRAM.Spec); err != nil {
		k.Fails("", err)
	} else if _, err := pim.Rearranges(shape.StoredBits(), &c.DRAM.Spec); err != nil {
		k.Fails("", err)
	} else if _, err := pim.NewGeometry(&c.DRAM.Spec, shape); err != nil {
		k.Fails("model", err)
	} else {
		_, err = c.PIM.SegmentTokens(&c.DRAM.Spec, shape)
		k.Fails("pim", err)
	}
	unit, ranks := c.PIM.UnitBytes(&c.DRAM.Spec), c.Node.Channels*c.Node.Ranksets
	k.That(c.RankRoom() >= unit, "node.memory_capacity", c.Node.MemoryCapacity,
		"at least %s, a K row and a V row on each of %s * %s = %d ranks", unit*units.Bytes(ranks), input.Key("node.channels"), input.Key("node.ranksets"), ranks)
}
