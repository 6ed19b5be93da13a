package sweep

import (
	"context"
	"testing"

	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/system"
)

// BenchmarkOverhead is a sweep of 1,000 points of 200 requests without the simulation: planning
// with drawn traces, the journal synced entry by entry, the table and the summaries. The space: 50
// configurations × 20 seeds.
func BenchmarkOverhead(b *testing.B) {
	const text = `repeats = 20
[set]
run.requests = 200
[grid]
node.ranksets = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
pcie.latency = ["1us", "2us", "3us", "4us", "5us"]
`
	b.ReportAllocs()
	for b.Loop() {
		f, err := design.ParseFile(system.Configs(), "sweep.toml", text)
		if err != nil {
			b.Fatal(err)
		}
		p, err := NewPlan(f, "test")
		if err != nil {
			b.Fatal(err)
		}
		dir := b.TempDir()
		j, err := OpenJournal(dir)
		if err != nil {
			b.Fatal(err)
		}
		outcome, err := fake(p).Run(context.Background(), RunOptions{Journal: j})
		if err != nil || outcome.Ran != 1000 {
			b.Fatal(outcome.Ran, err)
		}
		if err := p.Write(dir, outcome); err != nil {
			b.Fatal(err)
		}
		j.Close()
	}
}
