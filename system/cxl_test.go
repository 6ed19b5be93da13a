package system

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/forming"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// The sixth system, as CONTRIBUTING describes: all that it takes is this file and its
// entry in the list. The tests of all systems run it, too: laws, timelines, extreme
// values, rejected requests, planted violations.
func init() { kinds.Register(cxlSystem) }

// cxlSystem is GPUs whose keys and values are in CXL memory beside them.
var cxlSystem = kinds.System{
	Name:     "cxl",
	Hardware: "KV in memory behind CXL links; the GPUs attend over what they read from there",
	Schedule: "continuous batching, prefill first or chunked",
	Source:   "a test of how a system is added",
	Sections: "cxl, batching",
	Section:  "cxl", Zero: CXL{}, KV: flow.Place{Name: "in CXL memory"},
	Memory: cxlMemory, Assemble: assembleCXL,
	Defaults: `
[cxl]
policy = "prefill-first" # as gpu-only has it; long prompts
capacity = "2TiB"        # our choice, that of the DIMMs; requests in memory
bandwidth = "256GB/s"    # our choice, four links of 64 GB/s (CXL 2.0 on 16 lanes of PCIe 5.0); decode attention's time
latency = "300ns"        # our choice, about that of memory behind a CXL switch; small batches
`,
}

// CXL is the section [cxl]: memory of the node that its GPUs read over CXL.
type CXL struct {
	Policy    string          `toml:"policy"`    // PrefillFirst or ChunkedPrefill
	Capacity  units.Bytes     `toml:"capacity"`  // of the node
	Bandwidth units.Bandwidth `toml:"bandwidth"` // of the node, each direction
	Latency   units.Duration  `toml:"latency"`   // until the first byte of a layer's keys and values
}

// Check has the rules of the section.
func (x CXL) Check(c *input.Check) {
	input.OneOf(c, "policy", x.Policy, kinds.BatchingPolicies()...)
	input.Within(c, "capacity", x.Capacity, units.GiB, 1024*units.TiB)
	input.Within(c, "bandwidth", x.Bandwidth, 1, 1e18)
	input.Within(c, "latency", x.Latency, 0, units.Second)
}

// cxl is a replica: the GPUs attend while keys and values stream in.
type cxl struct {
	gpus.GPUs
	flow.Flow
	rate    units.Bandwidth // of the replica
	latency units.Duration
}

func assembleCXL(n *kinds.Setup) kinds.Assembly {
	x := configs.Section[CXL](n.Config)
	e := &cxl{GPUs: gpus.New(n.Hardware), rate: x.Bandwidth / units.Bandwidth(n.Replicas()), latency: x.Latency}
	e.Flow = flow.New(n.Hardware, gpus.BesideGPU("CXL")[:gpus.OnUp], n.Running)
	memories := forming.Memories{
		Ledger: memory.NewLedger(gpus.Pages(n.Hardware, n.Memory.Capacity)), GPU: memory.GPU{Model: &n.Model, Free: gpus.FreeMemory(n.Hardware)},
	}
	return kinds.Assembly{Batcher: n.Continuous(kinds.Continuous{Policy: x.Policy, Memories: memories}), Engine: e}
}

// cxlMemory is the KV memory of one replica, in the pages of GPU memory.
func cxlMemory(h *flow.Hardware) flow.KVMemory {
	page := gpus.Memory(h).Unit
	return flow.KVMemory{Unit: page, Capacity: int64(configs.Section[CXL](h.Config).Capacity/units.Bytes(h.Replicas())) / int64(page)}
}

func (e *cxl) Run(b *scheduler.Batch, start units.Duration) (units.Duration, error) {
	e.Reset()
	sub := &b.Sub[0]
	// What an iteration makes is written beside its work.
	e.Hide(gpus.OnDown, flow.TransferTime(e.rate, units.Bytes(e.Model.Layers)*e.KV(sub.Tokens())))
	g := e.Stage(sub, e.DecodeHere(e.Batches[:0], sub.Decode, b.Step))
	g.Beside(e.read(sub, b.Step), 0)
	g.Lay(&e.Flow, 0, flow.OpAttention)
	return e.Flow.Run(start)
}

// read returns the time that the keys and values that decoding requests attend over in
// one layer take to come.
func (e *cxl) read(sub *scheduler.SubBatch, step int64) units.Duration {
	var bytes units.Bytes
	for _, c := range e.Decode(sub.Decode, 0, step).Attend {
		if c.Device != policy.Home {
			continue
		}
		for _, tokens := range c.Tokens {
			bytes += e.KV(tokens) * units.Bytes(c.Heads) / units.Bytes(e.Model.KVHeads)
		}
	}
	if bytes == 0 {
		return 0
	}
	return e.latency + flow.TransferTime(e.rate, bytes)
}

func (e *cxl) Peak() units.Bandwidth { return min(e.rate, e.HBMPeak) }

// TestCXLLimit: with memory that takes no time to read, and is as large as theirs, the
// GPUs do what they do alone.
func TestCXLLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawBaseline(t)
		d.sets = append(d.sets, "gpu.memory_capacity=80GiB")
		alone := d.node(t, "gpu-only")
		capacity := units.Bytes(alone.memory.Capacity) * alone.memory.Unit * units.Bytes(alone.Replicas())
		cxl := d.node(t, "cxl", "cxl.bandwidth=1e18B/s", "cxl.latency=0ps", "cxl.capacity="+capacity.String(),
			"cxl.policy="+configs.Section[kinds.GPUOnly](alone.cfg).Policy)
		if cxl.memory != alone.memory {
			t.Fatalf("%+v, alone %+v", cxl.memory, alone.memory)
		}
		if got, want := requestsOf(t, mustRun(t, cxl, d.trace, false)), requestsOf(t, mustRun(t, alone, d.trace, false)); got != want {
			t.Fatalf("got\n%s\nGPUs alone\n%s", got, want)
		}
	})
}

// TestCXLClosedForm: where CXL is what all wait for, the time between two tokens is that
// of reading all keys and values, and of the blocks between the readings.
func TestCXLClosedForm(t *testing.T) {
	tbt := func(bandwidth string) float64 {
		cfg, err := Load(configs.Options{Sets: []string{"run.system=cxl", "run.model=gpt-175b", "cxl.latency=0ps", "cxl.bandwidth=" + bandwidth}})
		if err != nil {
			t.Fatal(err)
		}
		r := mustRun(t, mustNode(t, cfg), &traces.Trace{Requests: equalLengths(8, 1000, 2)}, false)
		return r.tbt.Milliseconds().Mean
	}
	// 8 requests of 1,001 tokens, 4,718,592 bytes each: what a byte at 10 GB/s takes twice
	// as long as at 20 GB/s.
	slow, fast := tbt("10GB/s"), tbt("20GB/s")
	if want := 8 * 1001 * 4718592 / 20e9 * 1e3; math.Abs(slow-fast-want) > 1e-6*want {
		t.Errorf("%v and %v ms between tokens: %v between them, want %v", slow, fast, slow-fast, want)
	}
}
