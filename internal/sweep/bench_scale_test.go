package sweep

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/system"
)

// hundredThousand is a sweep file of the most points allowed, of two requests each.
func hundredThousand() string {
	latencies := make([]string, 1000)
	for i := range latencies {
		latencies[i] = fmt.Sprintf(`"%dns"`, 500+i)
	}
	return small + "[grid]\nnode.ranksets = [1, 2, 4, 6, 8]\nmodel.tensor_parallel = [1, 2]\nscheduler.sub_batches = [1, 2]\n" +
		"pcie.lanes = [1, 2, 4, 8, 16]\npcie.latency = [" + strings.Join(latencies, ", ") + "]\n"
}

// BenchmarkScaleOut plans 100,000 points, deals them into 10 shards, runs these with an empty
// simulation, merges them, and reports the seconds and the largest heap of each step. Its files go
// to TMPDIR. Run it with -benchtime 1x.
func BenchmarkScaleOut(b *testing.B) {
	const shards = 10
	f, err := design.ParseFile(system.Configs(), "sweep.toml", hundredThousand())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		step := stopwatch(b)
		p, err := NewPlan(f, "test")
		if err != nil {
			b.Fatal(err)
		}
		fake(p)
		step("plan")
		p.Part(Shard{0, shards})
		step("deal")
		dir := b.TempDir()
		var folders []string
		for i := range shards {
			part := p.Part(Shard{i, shards})
			to := filepath.Join(dir, "shards", fmt.Sprint(i))
			folders = append(folders, to)
			j, err := OpenJournal(to)
			if err != nil {
				b.Fatal(err)
			}
			if err := part.Describe(to); err != nil {
				b.Fatal(err)
			}
			if _, err := part.Run(context.Background(), RunOptions{Journal: j}); err != nil {
				b.Fatal(err)
			}
			j.Close()
		}
		step("run")
		p = nil // not needed below
		merged, err := Merge(folders)
		if err != nil {
			b.Fatal(err)
		}
		step("merge")
		if err := merged.Write(filepath.Join(dir, "merged")); err != nil {
			b.Fatal(err)
		}
		step("write")
		if len(merged.Points) != 100_000 {
			b.Fatal(len(merged.Points))
		}
	}
}

// stopwatch returns a function that reports the time and the largest heap of each step.
func stopwatch(b *testing.B) func(name string) {
	largest, stop := make(chan uint64), make(chan struct{})
	watch := func() {
		most := uint64(0)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse)
			select {
			case <-stop:
				largest <- most
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	go watch()
	start := time.Now()
	return func(name string) {
		stop <- struct{}{}
		b.ReportMetric(time.Since(start).Seconds(), name+"-s")
		b.ReportMetric(float64(<-largest)/1e6, name+"-MB")
		runtime.GC()
		start = time.Now()
		go watch()
	}
}
