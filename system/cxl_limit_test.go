package system

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestCXLLimit: with CXL memory that takes no time to read and is as large as the GPUs' memory, the
// system equals GPUs alone.
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

// TestCXLClosedForm: if all wait for CXL, the time between two tokens is the time to read all keys
// and values, plus the blocks between the reads.
func TestCXLClosedForm(t *testing.T) {
	tbt := func(bandwidth string) float64 {
		cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=cxl", "run.model=gpt-175b", "cxl.latency=0ps", "cxl.bandwidth=" + bandwidth}})
		if err != nil {
			t.Fatal(err)
		}
		r := mustRun(t, mustNode(t, cfg), &traces.Trace{Requests: equalLengths(8, 1000, 2)}, false)
		return r.tbt.Milliseconds().Mean
	}
	// 8 requests of 1,001 tokens, 4,718,592 bytes each: a byte takes twice as long at 10 GB/s as at 20
	// GB/s.
	slow, fast := tbt("10GB/s"), tbt("20GB/s")
	if want := 8 * 1001 * 4718592 / 20e9 * 1e3; math.Abs(slow-fast-want) > 1e-6*want {
		t.Errorf("%v and %v ms between tokens: %v between them, want %v", slow, fast, slow-fast, want)
	}
}
