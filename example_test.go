package l3sim_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/l3sim/l3sim"
)

// Runs L3's node with 64 requests of a built-in trace and prints two of its metrics.
func ExampleRun() {
	cfg, err := l3sim.Load(l3sim.Options{Sets: []string{
		"run.system=l3", "run.trace=longbench", "run.requests=64", "run.seed=1",
	}})
	if err != nil {
		log.Fatal(err)
	}
	summary, err := l3sim.Run(context.Background(), cfg)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %.0f tokens/s, TBT p99 %.1f ms\n", summary.Model, summary.OutputTokensPerS, summary.TBT.P99)
	// Output: gpt-175b: 27 tokens/s, TBT p99 226.0 ms
}

// Serves requests of the program's own, under the checks of all laws.
func ExampleNewNode() {
	cfg, err := l3sim.Load(l3sim.Options{Sets: []string{"run.system=gpu-only", "run.model=llama-3-8b"}})
	if err != nil {
		log.Fatal(err)
	}
	node, err := l3sim.NewNode(cfg)
	if err != nil {
		log.Fatal(err)
	}
	trace := &l3sim.Trace{Name: "mine", Requests: []l3sim.Request{
		{ID: 0, Input: 4000, Output: 100}, {ID: 1, Input: 500, Output: 200},
	}}
	result, err := node.Run(context.Background(), trace, l3sim.RunOptions{Check: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range result.Requests {
		fmt.Printf("request %d: first token after %.0f ms, all after %.2f s\n", r.Request.ID, r.FirstToken.Seconds()*1e3, r.Finish.Seconds())
	}
	// Output:
	// request 0: first token after 276 ms, all after 1.44 s
	// request 1: first token after 37 ms, all after 2.29 s
}

// Runs the same requests on three systems.
func ExampleCompare() {
	var all []*l3sim.Config
	for _, name := range []string{"l3", "gpu-only", "hbm-pim"} {
		cfg, err := l3sim.Load(l3sim.Options{Sets: []string{
			"run.system=" + name, "run.model=opt-66b", "run.trace=openr1", "run.requests=40",
		}})
		if err != nil {
			log.Fatal(err)
		}
		all = append(all, cfg)
	}
	summaries, err := l3sim.Compare(context.Background(), all...)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range summaries {
		fmt.Printf("%s: %.0f tokens/s\n", s.System, s.OutputTokensPerS)
	}
	// Output:
	// l3: 135 tokens/s
	// gpu-only: 67 tokens/s
	// hbm-pim: 66 tokens/s
}

// Runs the 28 points of a sweep file, and reads a column of the results.
func ExampleSweep() {
	table, err := l3sim.Sweep(context.Background(), l3sim.Builtin(), "examples/context.toml", l3sim.SweepOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for row := range 3 {
		tokens, _ := table.Float(row, "output_tokens_per_s")
		fmt.Printf("%s: %.0f tokens/s\n", table.Value(row, "point"), tokens)
	}
	// Output:
	// 1K,ranksets=1: 249 tokens/s
	// 1K,ranksets=2: 326 tokens/s
	// 1K,ranksets=4: 327 tokens/s
}

// Replays three reads on one channel.
func ExampleReplay() {
	memory, err := l3sim.NewDRAM("ddr4-3200-8gb-x8", 1, 4)
	if err != nil {
		log.Fatal(err)
	}
	stats, err := l3sim.Replay(context.Background(), memory, []l3sim.Access{
		{Clock: 0, Address: 0x0}, {Clock: 200, Address: 0x40}, {Clock: 400, Address: 0x80000},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d row hit, mean latency %.1f clocks, end at clock %d\n", stats.RowHits, stats.Latency.Mean(), stats.EndClock)
	// Output: 1 row hit, mean latency 50.0 clocks, end at clock 472
}

// Clocks of one decode step of a head at several lengths: alone on an idle rank, and as one more in a long sequence of
// heads.
func ExampleTimeHead() {
	cfg, err := l3sim.Load(l3sim.Options{Sets: []string{"run.model=gpt-175b", "dram.preset=ddr4-3200-8gb-x8"}})
	if err != nil {
		log.Fatal(err)
	}
	table, err := l3sim.TimeHead(cfg)
	if err != nil {
		log.Fatal(err)
	}
	for _, context := range []int{512, 4096, 131_072} {
		fmt.Printf("%d tokens: %d clocks alone, %d in sequence\n", context, table.Alone(context), table.InSequence(context))
	}
	// Output:
	// 512 tokens: 2628 clocks alone, 2592 in sequence
	// 4096 tokens: 19232 clocks alone, 19196 in sequence
	// 131072 tokens: 607488 clocks alone, 607452 in sequence
}

// Attention of one head, computed by the commands on bytes in the banks, against attention in float64.
func ExampleVerifyHead() {
	cfg, err := l3sim.Load(l3sim.Options{Sets: []string{"run.model=gpt-175b"}})
	if err != nil {
		log.Fatal(err)
	}
	keys := make([]float32, 100*cfg.Model.HeadDim)
	vals := make([]float32, len(keys))
	for i := range keys {
		keys[i], vals[i] = float32(math.Sin(float64(i))), float32(math.Cos(float64(3*i)))
	}
	query := keys[7*cfg.Model.HeadDim:][:cfg.Model.HeadDim] // that of token 7's key
	result, err := l3sim.VerifyHead(context.Background(), cfg, query, keys, vals)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("pass %v, %d outputs differ from a direct computation\n", result.Pass, result.Differing)
	// Output: pass true, 0 outputs differ from a direct computation
}
