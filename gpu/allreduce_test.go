package gpu

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/units"
)

// TestAllReduceMeasured checks the fitted A100 against NCCL on 2, 4 and 8 GPUs
// of one DGX A100 at 64 MiB, and that the direct kernel stays below NCCL's
// launch.
func TestAllReduceMeasured(t *testing.T) {
	s := loadPreset(t, "a100-sxm-80gb")
	for gpus, us := range map[int]float64{2: 430, 4: 603, 8: 675} {
		if got := 1e6 * s.allReduce(gpus, 64*units.MiB); math.Abs(got/us-1) > 0.12 {
			t.Errorf("64 MiB on %d GPUs: %.2f us, measured %.2f", gpus, got, us)
		}
		small, large := s.allReduce(gpus, s.Collective.SmallLimit), s.allReduce(gpus, s.Collective.SmallLimit+1)
		if small >= large {
			t.Errorf("%d GPUs: %g s directly, %g s by NCCL", gpus, small, large)
		}
	}
}

// TestAllReduceForms checks the measured model with simple numbers: one-shot, two-shot, NCCL bound by launch and by transfer, and the limit
// between.
func TestAllReduceForms(t *testing.T) {
	s := Spec{Collective: AllReduceSpec{
		Model: AllReduceMeasured, SmallLimit: units.MiB,
		SmallLatency: 2 * units.Microsecond, SmallLatencyPerGPU: units.Microsecond, SmallBandwidth: 100e9,
		SecondShotLatency: 3 * units.Microsecond, SecondShotPerGPU: units.Microsecond / 2, SecondShotBandwidth: 200e9,
		Protocols: Protocols{
			FlaggedLatency: 4 * units.Microsecond, FlaggedPerGPU: units.Microsecond, FlaggedBandwidth: 50e9,
			Latency: 10 * units.Microsecond, LatencyPerGPU: 2 * units.Microsecond, Bandwidth: 150e9,
		}, Method: AllReduceDirect,
	}}
	chunks := func(gpus, bytes float64) float64 { return 10 + gpus*2 + 2*(gpus-1)/gpus*bytes/150e3 }
	for _, c := range []struct {
		name  string
		gpus  int
		bytes units.Bytes
		us    float64
	}{
		{"one shot", 4, 100_000, 2 + 4 + 3*100_000/100e3},
		{"one shot, two nearly as fast", 4, 160_000, 2 + 4 + 3*160_000/100e3},
		{"two shots", 4, 1_000_000, 2 + 4 + 3 + 2 + 1.5*1_000_000/200e3},
		{"two shots, at the limit", 4, 1 << 20, 2 + 4 + 3 + 2 + 1.5*(1<<20)/200e3},
		{"NCCL, chunks", 2, 1_100_000, chunks(2, 1_100_000)},
		{"NCCL, chunks on 8", 8, 1 << 26, chunks(8, 1<<26)},
		{"one GPU", 1, 1 << 26, 0},
	} {
		if got := 1e6 * s.allReduce(c.gpus, c.bytes); math.Abs(got-c.us) > 1e-9*c.us {
			t.Errorf("%s: %.6f us, want %.6f", c.name, got, c.us)
		}
	}
	// In NCCL, the protocol with flags has low latency and a third of the bandwidth: on two GPUs both protocols take equally long at 600
	// kB.
	nccl := s
	nccl.Collective.Method = AllReduceNCCL
	for bytes, us := range map[units.Bytes]float64{1000: 4 + 2 + 1000/50e3, 599_000: 4 + 2 + 599./50, 601_000: 10 + 4 + 601./150} {
		if got := 1e6 * nccl.allReduce(2, bytes); math.Abs(got-us) > 1e-9*us {
			t.Errorf("NCCL of %d bytes: %.6f us, want %.6f", bytes, got, us)
		}
	}
	// The method that a measurement names is costed, whatever the size.
	for method, us := range map[string]float64{
		"one_shot": 2 + 4 + 3*2e6/100e3, "two_shot": 2 + 4 + 3 + 2 + 1.5*2e6/200e3, "direct": 2 + 4 + 3 + 2 + 1.5*2e6/200e3, "nccl": chunks(4, 2e6), "": chunks(4, 2e6),
	} {
		if got := 1e6 * s.MethodCost(method, 4, 2_000_000).Seconds; math.Abs(got-us) > 1e-9*us {
			t.Errorf("%q: %.6f us, want %.6f", method, got, us)
		}
	}
	// If NCCL is faster than the direct kernels, it also runs below their limit.
	s.Collective.Latency, s.Collective.LatencyPerGPU, s.Collective.Bandwidth = 8*units.Microsecond, 0, 1e12
	for _, limit := range []units.Bytes{0, units.MiB} {
		s.Collective.SmallLimit = limit
		if got, want := s.allReduce(8, units.MiB), 8e-6+2*7./8*float64(units.MiB)/1e12; !near(got, want) {
			t.Errorf("direct kernels up to %v: %g s, want NCCL's %g", limit, got, want)
		}
	}
	if got, want := s.allReduce(2, 1000), 2e-6+2e-6+1000/100e9; !near(got, want) {
		t.Errorf("1,000 bytes: %g s, want the direct kernel's %g", got, want)
	}
}

// drawAllReduce draws a number of GPUs and bytes from low on.
func drawAllReduce(t *rapid.T, low int) (gpus int, n units.Bytes) {
	return rapid.IntRange(2, 16).Draw(t, "gpus"), units.Bytes(size(t, "bytes", low, 1<<30))
}

// TestAllReduceBounds: no all-reduce takes longer than NCCL's on the same GPU, twice as many links never slow one down, and from 1 MiB on
// twice as many bytes always take longer.
func TestAllReduceBounds(t *testing.T) {
	forPresets(t, func(t *rapid.T, s *Spec) {
		gpus, n := drawAllReduce(t, 1)
		took := s.allReduce(gpus, n)
		nccl, links := *s, *s
		nccl.Collective.Method = AllReduceNCCL
		if least := nccl.allReduce(gpus, n); took > least {
			t.Fatalf("%d bytes on %d GPUs: %g s, NCCL's take %g", n, gpus, took, least)
		}
		for _, b := range []*units.Bandwidth{
			&links.Collective.SmallBandwidth, &links.Collective.SecondShotBandwidth, &links.Collective.FlaggedBandwidth, &links.Collective.Bandwidth,
		} {
			*b *= 2
		}
		if faster := links.allReduce(gpus, n); faster > took {
			t.Fatalf("%d bytes on %d GPUs: %g s, over twice the links %g", n, gpus, took, faster)
		}
		if twice := s.allReduce(gpus, 2*n); n >= units.MiB && twice < 1.05*took {
			t.Fatalf("%d GPUs: %d bytes take %g s, twice as many %g", gpus, n, took, twice)
		}
	})
}

// TestAllReduceFollowsLinks: from 1 MiB on, where links are the bottleneck, a GPU with faster links is never slower, and GPUs with equal
// links take equally long. Below, synchronisation dominates, which takes 2 µs less on the A100 than in the kernels measured on the H200. If
// a server's own kernels were measured, this does not hold: eight B200 take longer for 8 MiB than an A100, links dominate only from 64 MiB
// on, and GPUs with equal links differ.
func TestAllReduceFollowsLinks(t *testing.T) {
	links := map[string]float64{ // GB/s in one direction, of data sheets
		"rtx-4090-vllm-0.19": 31.5, "rtx-a6000": 31.5, "a100-sxm-40gb": 300, "a100-sxm-80gb": 300, "h100-sxm": 450, "h200-sxm": 450,
		"b200-sxm": 900, "gb200": 900, "l40s": 31.5,
	}
	measured := map[string]*Spec{}
	for _, name := range presetNames(t, "gpus") {
		s := loadPreset(t, name)
		if s.Collective.Model != AllReduceMeasured || s.Collective.Method == AllReduceNCCL { // links are not measured
			continue
		}
		if measured[name] = s; links[name] == 0 {
			t.Fatalf("%s: the rate of its links is missing here", name)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		gpus, n := drawAllReduce(t, 1<<20)
		for slow, a := range measured {
			for fast, b := range measured {
				own, both := a.Switch != (SwitchSpec{}) || b.Switch != (SwitchSpec{}), a.Switch != (SwitchSpec{}) && b.Switch != (SwitchSpec{})
				if own && n < 64*units.MiB || both && links[fast] == links[slow] {
					continue
				}
				if x, y := a.allReduce(gpus, n), b.allReduce(gpus, n); links[fast] >= links[slow] && y > x {
					t.Fatalf("%d bytes on %d GPUs: %g s on %s, only %g on %s", n, gpus, y, fast, x, slow)
				}
			}
		}
	})
}
