package system

import (
	"fmt"
	"testing"

	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// drawOffload draws a node for cpu-offload on which CPUs and links are fast enough
// beside the GPUs to be of use.
func drawOffload(t *rapid.T) drawn {
	d := drawBaseline(t)
	pick := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	d.sets = append(d.sets,
		fmt.Sprintf("node.memory_capacity=%q", units.Bytes(rapid.IntRange(1, 400).Draw(t, "host memory"))*16*units.MiB),
		"pcie.latency="+pick("latency", "0s", "1us", "5us"), "pcie.generation="+pick("generation", "3", "6"),
		"dram.tCK="+pick("tCK", "5ps", "100ps", "625ps"),
	)
	return d
}

// TestWithoutHostMemoryIsGPUOnly checks that a host without memory leaves what
// gpu-only does, to the picosecond.
func TestWithoutHostMemoryIsGPUOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawOffload(t)
		plain := mustRun(t, d.node(t, "gpu-only"), d.trace, false)
		none := mustRun(t, d.node(t, "cpu-offload", "cpu_offload.host_memory_share=0", "cpu_offload.policy=neo"), d.trace, false)
		if got, want := requestsOf(t, none), requestsOf(t, plain); got != want || none.iterations != plain.iterations || none.end != plain.end ||
			none.kv != plain.kv || none.busy != plain.busy || none.fragmentation != plain.fragmentation {
			t.Fatalf("cpu-offload without host memory:\n%s\n%+v\ngpu-only:\n%s\n%+v", got, none, want, plain)
		}
	})
}

// TestOffloadIsNoSlower checks that the CPUs' help costs no more than what differs in
// the order of requests, on the requests that the GPUs can hold.
func TestOffloadIsNoSlower(t *testing.T) {
	worst, best, sum, n := 0.0, 0.0, 0.0, 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawOffload(t)
		gpus := d.node(t, "gpu-only")
		d.trace.Requests = gpus.holdable(d.trace.Requests)
		if len(d.trace.Requests) == 0 {
			t.Skip("no request fits")
		}
		alone := mustRun(t, gpus, d.trace, false)
		helped := mustRun(t, d.node(t, "cpu-offload", "cpu_offload.policy=neo"), d.trace, false)
		slower := float64(helped.end)/float64(alone.end) - 1
		worst, best, sum, n = max(worst, slower), min(best, slower), sum+slower, n+1
		if slower > 0.25 {
			t.Fatalf("gpu-only takes %v, cpu-offload %v", alone.end, helped.end)
		}
	})
	t.Logf("slower by %.2f%% at most, %.2f%% at least, %.2f%% on average", 100*worst, 100*best, 100*sum/float64(n))
}
