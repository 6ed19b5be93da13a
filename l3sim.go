package l3sim

import (
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/traces"
)

// Error is an error about input: file, line, key, value, and what was expected.
type Error = input.Error

// Options says where a configuration comes from: a preset, files, and "section.key=value".
type Options = configs.Options

// Config is a whole configuration. It is not changed once it is loaded.
type Config = configs.Config

// Loader loads configurations of the systems and the policies that it knows.
type Loader = configs.Loader

// Extension is the policies and systems that a program adds.
type Extension = system.Extension

// Policy is an attention policy: a name, keys, costs and values.
type Policy = policy.Policy

// System is a system that a node can be: a name, keys, memory and an engine.
type System = kinds.System

// Builtin returns the loader of the module's own systems and policies.
func Builtin() *Loader { return system.Configs() }

// Load returns the configuration given by the options: Builtin().Load.
func Load(o Options) (*Config, error) { return system.Load(o) }

// Extend returns a loader that also knows a program's additions. An invalid addition returns an error that
// names it.
func Extend(x Extension) (*Loader, error) { return system.Extend(x) }

// Trace is requests and their arrival times.
type Trace = traces.Trace

// Request is one request: the tokens of its prompt and of its output.
type Request = traces.Request

// Node is the hardware of a configuration. It does not change, and can run any number of traces, also in parallel.
type Node = system.Node

// RunOptions set checks and recordings of a run; they change no result.
type RunOptions = system.Options

// Result is a run: its requests, and what was recorded. Its Summary has the metrics.
type Result = system.Result

// Summary is the metrics of a run, those of summary.json.
type Summary = results.Summary

// LoadTrace returns the requests that a configuration names: run.trace, run.requests, run.seed and [arrivals].
func LoadTrace(cfg *Config) (*Trace, error) {
	if err := valid(cfg); err != nil {
		return nil, err
	}
	return system.LoadTrace(cfg)
}

// NewNode returns the node of a configuration.
func NewNode(cfg *Config) (*Node, error) {
	if err := valid(cfg); err != nil {
		return nil, err
	}
	return system.NewNode(cfg)
}

// valid returns the first fault of a configuration: no loader made it, or Set has since given a key an invalid value.
func valid(cfg *Config) error {
	if err := cfg.Made(); err != nil {
		return err
	}
	return input.Validate(cfg)
}

// Run serves the requests that a configuration names on its node.
func Run(ctx context.Context, cfg *Config) (*Summary, error) {
	if err := input.Ended(ctx); err != nil {
		return nil, err
	}
	trace, err := LoadTrace(cfg)
	if err != nil {
		return nil, err
	}
	node, err := NewNode(cfg)
	if err != nil {
		return nil, err
	}
	result, err := node.Run(ctx, trace, RunOptions{})
	if err != nil {
		return nil, err
	}
	return result.Summary(cfg)
}

// Compare runs configurations, several at a time, and returns their summaries in order. Configurations with the same
// run.trace, run.requests and run.seed serve the same requests; run.common_to leaves out requests that a system cannot
// hold. The error is the first in order.
func Compare(ctx context.Context, configurations ...*Config) ([]*Summary, error) {
	if err := input.Ended(ctx); err != nil {
		return nil, err
	}
	all, errs := make([]*Summary, len(configurations)), make([]error, len(configurations))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, cfg := range configurations {
		group.Go(func() error {
			all[i], errs[i] = Run(ctx, cfg)
			return nil
		})
	}
	_ = group.Wait() // errs has the errors
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
