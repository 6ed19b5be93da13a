package system_test

import (
	"context"
	"fmt"
	"log"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/units"
)

// cxlKeys is the section [cxl]: memory of the node that its GPUs read over CXL.
type cxlKeys struct {
	Policy    string          `toml:"policy"`    // kinds.PrefillFirst or kinds.ChunkedPrefill
	Capacity  units.Bytes     `toml:"capacity"`  // of the node
	Bandwidth units.Bandwidth `toml:"bandwidth"` // of the node, each direction
	Latency   units.Duration  `toml:"latency"`   // until the first byte of a layer's keys and values
}

// Check has the rules of the keys. A key is named without its section.
func (k cxlKeys) Check(c *input.Check) {
	input.OneOf(c, "policy", k.Policy, kinds.BatchingPolicies()...)
	input.Within(c, "capacity", k.Capacity, units.GiB, 1024*units.TiB)
	input.Within(c, "bandwidth", k.Bandwidth, 1, 1e18)
	input.Within(c, "latency", k.Latency, 0, units.Second)
}

var cxlSystem = kinds.System{
	Name: "cxl", Others: []string{"cxl-memory"},
	Hardware: "KV in memory behind CXL links; the GPUs attend over what they read from there",
	Schedule: "continuous batching, prefill first or chunked",
	Source:   "an example: no paper",
	Sections: "cxl, batching",
	Section:  "cxl",
	Zero:     cxlKeys{},
	Defaults: `[cxl]
policy = "prefill-first" # as gpu-only has it; long prompts
capacity = "2TiB"        # our choice, that of the DIMMs; requests in memory
bandwidth = "256GB/s"    # our choice, four links of 64 GB/s (CXL 2.0 on 16 lanes of PCIe 5.0); decode attention's time
latency = "300ns"        # our choice, about that of memory behind a CXL switch; small batches
`,
	KV:       flow.Place{Name: "in CXL memory"},
	Home:     0, // dense attention alone
	Memory:   cxlMemory,
	Assemble: assembleCXL,
}

// cxlMemory returns the memory of one replica, in pages of batching.page_tokens tokens as GPUs have them.
func cxlMemory(h *flow.Hardware) flow.KVMemory {
	page := gpus.Memory(h).Unit
	capacity := configs.Section[cxlKeys](h.Config).Capacity / units.Bytes(h.Config.Replicas())
	return flow.KVMemory{Unit: page, Capacity: int64(capacity / page)}
}

// assembleCXL builds a replica: a batcher, and an engine with the GPUs and the link down from them.
func assembleCXL(n *kinds.Setup) kinds.Assembly {
	keys := configs.Section[cxlKeys](n.Hardware.Config)
	e := &cxlEngine{GPUs: gpus.New(n.Hardware), rate: keys.Bandwidth / units.Bandwidth(n.Hardware.Config.Replicas()), latency: keys.Latency}
	e.Flow = flow.New(n.Hardware, gpus.BesideGPU("CXL")[:gpus.OnUp], n.Running)
	memories := batching.Memories{
		Ledger: memory.NewLedger(gpus.Pages(n.Hardware, n.Memory.Capacity)),
		GPU:    memory.GPU{Model: &n.Hardware.Config.Model, Free: gpus.FreeMemory(n.Hardware)},
	}
	return kinds.Assembly{Batcher: n.Continuous(kinds.Continuous{Policy: keys.Policy, Memories: memories}), Engine: e}
}

// cxlEngine is the hardware of a replica. Its GPUs attend while keys and values stream in.
type cxlEngine struct {
	gpus.GPUs
	flow.Flow
	rate    units.Bandwidth // of the replica
	latency units.Duration
}

// Run fills an iteration of one sub-batch and runs it.
func (e *cxlEngine) Run(b *scheduler.Batch, start units.Duration) (units.Duration, error) {
	e.Reset()
	sub := &b.Sub[0]
	// An iteration's new keys and values are written while it works.
	e.Hide(gpus.OnDown, flow.TransferTime(e.rate, units.Bytes(e.Model.Layers)*e.Attends.KV(sub.Tokens())))
	stage := e.Stage(sub, e.DecodeHere(e.Batches[:0], sub.Decode, b.Step))
	stage.Beside(e.read(sub, b.Step), 0)
	stage.Lay(&e.Flow, 0, flow.OpAttention)
	return e.Flow.Run(start)
}

// read returns the time to read the keys and values of one layer.
func (e *cxlEngine) read(sub *scheduler.SubBatch, step int64) units.Duration {
	var bytes units.Bytes
	for _, class := range e.Attends.Decode(sub.Decode, 0, step).Attend {
		if class.Device != policy.Home {
			continue
		}
		for _, tokens := range class.Tokens {
			bytes += e.Attends.KV(tokens) * units.Bytes(class.Heads) / units.Bytes(e.Model.KVHeads)
		}
	}
	if bytes == 0 {
		return 0
	}
	return e.latency + flow.TransferTime(e.rate, bytes)
}

// Peak returns the highest rate at which decode attention can read.
func (e *cxlEngine) Peak() units.Bandwidth { return min(e.rate, e.HBMPeak) }

// Adds a system and runs it beside a built-in one.
func ExampleExtend() {
	loader, err := system.Extend(system.Extension{Systems: []kinds.System{cxlSystem}})
	if err != nil {
		log.Fatal(err)
	}
	for _, set := range []string{"run.system=gpu-only", "run.system=cxl", "cxl.bandwidth=1TB/s"} {
		cfg, err := loader.Load(configs.Options{Sets: []string{
			"run.system=cxl", "run.model=llama-3-8b", "run.trace=longbench", "run.requests=40", set,
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
		fmt.Printf("%s: %.0f tokens/s, TBT p99 %.1f ms\n", set, summary.OutputTokensPerS, summary.TBT.P99)
	}
	// Output:
	// run.system=gpu-only: 290 tokens/s, TBT p99 15.2 ms
	// run.system=cxl: 60 tokens/s, TBT p99 189.6 ms
	// cxl.bandwidth=1TB/s: 153 tokens/s, TBT p99 56.6 ms
}
