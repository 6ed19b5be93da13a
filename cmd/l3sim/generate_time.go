package main

import (
	"context"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// timeSession runs requests of the prompts' lengths, all at once, on the node as `run` does.
func timeSession(ctx context.Context, cfg *configs.Config, prompts [][]byte, tokens int) (*results.Summary, error) {
	trace := &traces.Trace{Name: "generate"}
	for i, p := range prompts {
		trace.Requests = append(trace.Requests, traces.Request{ID: i, Input: len(p), Output: tokens})
	}
	node, err := system.NewNode(cfg)
	if err != nil {
		return nil, err
	}
	result, err := node.Run(ctx, trace, system.Options{})
	if err != nil {
		return nil, err
	}
	return result.Summary(cfg)
}
