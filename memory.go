package l3sim

import (
	"cmp"
	"context"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/controller"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim/tables"
	"github.com/l3sim/l3sim/pim/values"
	"github.com/l3sim/l3sim/system/ranks"
)

// DRAM is a memory system: channels of ranks of a part under a controller's policy. Set changes a key of the policy. RequestBytes is the default size of
// accesses: 0 means a line of 64 B, OneBurst a burst of the part.
type DRAM = controller.Setup

// Access is a request to DRAM: its clock, its address, whether it writes, and its bytes. It takes as many bursts of the part as cover it.
type Access = controller.Request

// OneBurst as the RequestBytes of a DRAM makes each access one burst of the part, of any size, as in DRAMsim3 and Ramulator.
const OneBurst = controller.OneBurst

// DRAMStats is the results of accesses: counts of commands, latencies, energy.
type DRAMStats = controller.Stats

// NewDRAM returns a memory system of a part ("ddr4-3200-8gb-x8") under the default policy.
func NewDRAM(part string, channels, ranks int) (*DRAM, error) {
	spec, err := dram.LookupSpec(part)
	if err != nil {
		return nil, err
	}
	policy, err := controller.LookupPolicy("default")
	if err != nil {
		return nil, err
	}
	d := &DRAM{Spec: spec, Policy: policy, Channels: channels, Ranks: ranks}
	return d, d.Validate()
}

// ReadAccesses reads a file of accesses, in any format that 'l3sim dram replay' reads.
func ReadAccesses(path string) ([]Access, error) {
	file, err := input.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return controller.ReadTrace(input.Name(path), file)
}

// Replay serves accesses by a memory system; they must ascend by clock.
func Replay(ctx context.Context, d *DRAM, accesses []Access) (*DRAMStats, error) {
	return d.Replay(ctx, accesses, nil)
}

// HeadTable is the clocks of a KV head's decode step by the length of its context: Alone on an idle rank, InSequence
// between other heads.
type HeadTable = tables.KernelTable

// TimeHead times a KV head of the model of a configuration on the units of [pim] in the part of [dram].
func TimeHead(cfg *Config) (*HeadTable, error) {
	if err := valid(cfg); err != nil {
		return nil, err
	}
	return ranks.HeadTable(cfg, &cfg.PIM, cfg.HeadShape())
}

// HeadResult is the error of computed values against a reference; Pass is the verdict.
type HeadResult = values.VerifyResult

// VerifyHead computes the decode step of a KV head by commands on bytes in the banks of [dram], with the precision of
// [pim], and compares it with attention in float64. Rows are as wide as the model's keys and values: query one for each query head of
// the group, keys and vals one for each token.
func VerifyHead(ctx context.Context, cfg *Config, query, keys, vals []float32) (HeadResult, error) {
	if err := cmp.Or(input.Ended(ctx), valid(cfg)); err != nil {
		return HeadResult{}, err
	}
	shape := cfg.HeadShape()
	c, err := values.NewVerifyCase("head", shape.HeadDim, shape.ValueWidth(), query, keys, vals)
	if err != nil {
		return HeadResult{}, err
	}
	return values.Verify(ctx, &cfg.PIM, &cfg.DRAM.Spec, c)
}
