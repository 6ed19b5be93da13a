package pcie

import (
	"math"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/units"
)

// gen4 returns the links of a DGX A100: 16 lanes of generation 4.
func gen4(gpusPerUplink int) *Spec {
	return &Spec{Generation: 4, Lanes: 16, Efficiency: 0.8, Latency: 3 * units.Microsecond, GPUsPerUplink: gpusPerUplink}
}

// job is a transfer of a test's schedule.
type job struct {
	start     units.Duration
	gpu       int
	direction Direction
	bytes     units.Bytes
}

// runFabric returns the end of each job.
func runFabric(s *Spec, jobs []job) []units.Duration {
	f := NewFabric(s)
	ends := make([]units.Duration, len(jobs))
	next := 0
	var done []int
	for {
		at, ok := f.Next()
		if next < len(jobs) && (!ok || jobs[next].start < at) {
			j := jobs[next]
			f.Start(j.start, next, j.gpu, j.direction, j.bytes)
			next++
			continue
		}
		if !ok {
			return ends
		}
		done = f.Advance(at, done[:0])
		for _, id := range done {
			ends[id] = at
		}
	}
}

func TestSharing(t *testing.T) {
	const n = 256 * units.MiB
	alone := gen4(1).TransferTime(n)
	data := alone - gen4(1).Latency
	for _, c := range []struct {
		name          string
		gpusPerUplink int
		jobs          []job
		want          []units.Duration
	}{
		{"alone", 1, []job{{0, 0, ToHost, n}}, []units.Duration{alone}},
		{"own uplinks", 1, []job{{0, 0, ToHost, n}, {0, 1, ToHost, n}}, []units.Duration{alone, alone}},
		{"shared uplink", 2, []job{{0, 0, ToHost, n}, {0, 1, ToHost, n}}, []units.Duration{alone + data, alone + data}},
		{"other switch", 2, []job{{0, 0, ToHost, n}, {0, 2, ToHost, n}}, []units.Duration{alone, alone}},
		{"full duplex", 2, []job{{0, 0, ToHost, n}, {0, 0, ToGPU, n}}, []units.Duration{alone, alone}},
		// The second starts halfway: the first has half left, which takes as long
		// again as it would alone; then the second has half left, alone.
		{"overlap", 2, []job{{0, 0, ToHost, n}, {data / 2, 1, ToHost, n}},
			[]units.Duration{alone + data/2, alone + data}},
		// Two end at one instant behind different switches, in one direction or in both:
		// what each leaves goes to its own neighbour.
		{"two switches at once", 2, []job{{0, 0, ToHost, n / 2}, {0, 1, ToHost, n}, {0, 2, ToHost, n / 2}, {0, 3, ToHost, n}},
			[]units.Duration{alone, alone + data/2, alone, alone + data/2}},
		{"two directions at once", 2, []job{{0, 0, ToHost, n / 2}, {0, 1, ToHost, n}, {0, 2, ToGPU, n / 2}, {0, 3, ToGPU, n}},
			[]units.Duration{alone, alone + data/2, alone, alone + data/2}},
		{"both at once", 2, []job{
			{0, 0, ToHost, n / 2}, {0, 1, ToHost, n}, {0, 2, ToHost, n / 2}, {0, 3, ToHost, n},
			{0, 0, ToGPU, n / 2}, {0, 1, ToGPU, n},
		}, []units.Duration{alone, alone + data/2, alone, alone + data/2, alone, alone + data/2}},
		{"same GPU", 1, []job{{0, 0, ToGPU, n}, {0, 0, ToGPU, n / 2}}, []units.Duration{alone + data/2, alone}},
	} {
		for i, got := range runFabric(gen4(c.gpusPerUplink), c.jobs) {
			if d := got - c.want[i]; d < -4 || d > 4 {
				t.Errorf("%s: transfer %d ends at %v, want %v", c.name, i, got, c.want[i])
			}
		}
	}
}

// TestWaterFilling has three transfers on one GPU and one on its neighbour
// behind an uplink of twice a link: the first three share a link, the fourth
// gets a whole one.
func TestWaterFilling(t *testing.T) {
	s := gen4(2)
	s.UplinkLanes = 32
	f := NewFabric(s)
	for i := range 3 {
		f.Start(0, i, 0, ToHost, units.GiB)
	}
	f.Start(0, 3, 1, ToHost, units.GiB)
	for i, want := range []float64{f.link / 3, f.link / 3, f.link / 3, f.link} {
		if got := f.active[i].rate; math.Abs(got-want) > 1e-9*want {
			t.Errorf("transfer %d gets %g bytes/ps, want %g", i, got, want)
		}
	}
	// With an uplink of one link, all four get the same.
	f = NewFabric(gen4(2))
	for i, gpu := range []int{0, 0, 0, 1} {
		f.Start(0, i, gpu, ToHost, units.GiB)
	}
	for i := range f.active {
		if got, want := f.active[i].rate, f.link/4; math.Abs(got-want) > 1e-9*want {
			t.Errorf("transfer %d gets %g bytes/ps, want %g", i, got, want)
		}
	}
}

// TestFabricLaws checks on random schedules that nothing ends before it could
// alone, that no uplink carries more than its bandwidth, and that an uplink
// with work never idles.
func TestFabricLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := gen4(rapid.IntRange(1, 4).Draw(t, "gpus an uplink"))
		count := rapid.IntRange(1, 12).Draw(t, "transfers")
		jobs := make([]job, count)
		for i := range jobs {
			jobs[i] = job{
				start:     units.Duration(rapid.IntRange(0, 2_000_000).Draw(t, "start")) * 1000,
				gpu:       rapid.IntRange(0, 7).Draw(t, "gpu"),
				direction: Direction(rapid.IntRange(0, 1).Draw(t, "direction")),
				bytes:     units.Bytes(rapid.IntRange(0, 1<<25).Draw(t, "bytes")),
			}
		}
		sort.SliceStable(jobs, func(i, j int) bool { return jobs[i].start < jobs[j].start })
		ends := runFabric(s, jobs)
		slack := units.Duration(4 * count) // roundings of one picosecond
		for i, j := range jobs {
			if alone := s.Bandwidth().TransferTime(j.bytes) + s.Latency; ends[i]-j.start+slack < alone {
				t.Fatalf("transfer %d took %v, alone %v", i, ends[i]-j.start, alone)
			}
		}
		// Work conservation on one uplink and direction: as links are as fast as
		// the uplink, it drains like one queue.
		for group := range 8 {
			for d := range directions {
				var busyUntil, last units.Duration
				for i, j := range jobs {
					if j.gpu/s.GPUsPerUplink != group || j.direction != d {
						continue
					}
					busyUntil = max(busyUntil, j.start) + s.Bandwidth().TransferTime(j.bytes)
					last = max(last, ends[i]-s.Latency)
				}
				if diff := last - busyUntil; diff > slack || diff < -slack {
					t.Fatalf("uplink %d drained at %v, want %v", group, last, busyUntil)
				}
			}
		}
	})
}

// TestSteadyStateDoesNotAllocate runs a warm fabric.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	f := NewFabric(gen4(2))
	done := make([]int, 0, 16)
	round := func() {
		for i := range 8 {
			f.Start(f.now, i, i, ToHost, units.Bytes(1<<20+i))
		}
		for {
			at, ok := f.Next()
			if !ok {
				break
			}
			done = f.Advance(at, done[:0])
		}
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations a round of 8 transfers", n)
	}
}

func BenchmarkFabric(b *testing.B) {
	f := NewFabric(gen4(2))
	done := make([]int, 0, 16)
	b.ReportAllocs()
	for b.Loop() {
		for i := range 8 {
			f.Start(f.now, i, i, ToHost, units.Bytes(1<<20+i))
		}
		for {
			at, ok := f.Next()
			if !ok {
				break
			}
			done = f.Advance(at, done[:0])
		}
	}
}
