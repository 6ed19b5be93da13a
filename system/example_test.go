package system_test

import (
	"context"
	"fmt"
	"log"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/system"
)

// Runs L3's node with 64 requests of a built-in trace and prints three of its metrics.
func ExampleNode_Run() {
	cfg, err := system.Load(configs.Options{Sets: []string{
		`run.system="l3"`, `run.trace="longbench"`, "run.requests=64", "run.seed=1",
	}})
	if err != nil {
		log.Fatal(err)
	}
	trace, err := system.LoadTrace(cfg)
	if err != nil {
		log.Fatal(err)
	}
	node, err := system.NewNode(cfg)
	if err != nil {
		log.Fatal(err)
	}
	result, err := node.Run(context.Background(), trace, system.Options{Check: true})
	if err != nil {
		log.Fatal(err)
	}
	summary, err := result.Summary(cfg)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s on %s: %.0f tokens/s, TBT p99 %.1f ms, %d iterations\n",
		summary.Model, summary.GPU, summary.OutputTokensPerS, summary.TBT.P99, summary.Iterations)
	// Output: gpt-175b on a100-sxm-80gb: 27 tokens/s, TBT p99 226.0 ms, 1256 iterations
}
