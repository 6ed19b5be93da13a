package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/traces"
)

// grid is a plan of 12 points, one of them invalid.
const grid = "repeats = 2\n" + small + `
[grid]
node.gpus = [4, 8]
model.tensor_parallel = [1, 2, 8]
`

// csv runs the plan and returns its table.
func csv(t interface{ Fatal(...any) }, p *Plan, o RunOptions) string {
	outcome, err := p.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return table(t, p, outcome)
}

func table(t interface{ Fatal(...any) }, p *Plan, o *Outcome) string {
	tab, err := p.Table(o)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := tab.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// fake replaces the simulation by a function of the point, to test everything else.
func fake(p *Plan) *Plan {
	p.Simulate = func(ctx context.Context, point *Point, config *configs.Config, _ *traces.Trace) (*results.Summary, error) {
		x := float64(point.Hash[0]) / float64(config.Node.GPUs)
		return &results.Summary{About: results.About{Seed: point.Seed}, Throughput: results.Throughput{SimulatedS: x, OutputTokensPerS: 1 / x}}, ctx.Err()
	}
	return p
}

func TestWorkersChangeNothing(t *testing.T) {
	deep.Heavy(t)
	p := plan(t, grid)
	one := csv(t, p, RunOptions{Workers: 1})
	several := []int{7, 2}
	if testing.Short() || !deep.On() {
		several = several[:1] // under the race detector
	}
	for _, workers := range several {
		if got := csv(t, p, RunOptions{Workers: workers}); got != one {
			t.Errorf("%d workers:\n%s\none worker:\n%s", workers, got, one)
		}
	}
	lines := strings.Split(strings.TrimSpace(one), "\n")
	if len(lines) != 13 || !strings.HasPrefix(lines[0], "point,node.gpus,model.tensor_parallel,run.system,run.model,run.trace,run.seed,status,error,config_sha256,requests,") {
		t.Errorf("table:\n%s", one)
	}
	if strings.Contains(lines[0], "wall") {
		t.Error("wall time in the table")
	}
}

// TestFailedPoint: it is recorded with its error, stops no other, and its row has the keys of its
// axes.
func TestFailedPoint(t *testing.T) {
	deep.Heavy(t)
	dir := t.TempDir()
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := plan(t, grid)
	outcome, err := p.Run(context.Background(), RunOptions{Journal: j})
	if err != nil || outcome.Failed != 2 || outcome.Ran != 12 || outcome.Missing != 0 {
		t.Fatalf("%+v, %v", outcome, err)
	}
	if err := errors.Join(p.Write(dir, outcome), j.Close()); err != nil {
		t.Fatal(err)
	}
	got, err := tables.ReadTable(dir)
	if err != nil {
		t.Fatal(err)
	}
	failed, err := got.Where("", []string{"status=failed"})
	if err != nil || len(failed.Rows) != 2 {
		t.Fatal(err, failed)
	}
	row := strings.Join(list.Map(failed.Rows[0], tables.Value.String), ",")
	if !strings.HasPrefix(row, "gpus=4,tensor_parallel=8,4,8,") || !strings.Contains(row, "expected a multiple of model.tensor_parallel = 8") {
		t.Errorf("row %s", row)
	}
	summaries, err := os.ReadDir(filepath.Join(dir, "points"))
	if err != nil || len(summaries) != 10 {
		t.Errorf("%d summaries, %v", len(summaries), err)
	}
}

func TestFailFast(t *testing.T) {
	deep.Heavy(t)
	p := plan(t, grid)
	outcome, err := p.Run(context.Background(), RunOptions{Workers: 1, FailFast: true})
	if err != nil || outcome.Failed != 1 || outcome.Missing != 7 {
		t.Errorf("%+v, %v", outcome, err)
	}
}

// TestResume interrupts a sweep again and again, at random points and with random cuts of the
// journal's last line: the table is that of an uninterrupted run, and no recorded point runs again.
func TestResume(t *testing.T) {
	p := fake(plan(t, grid))
	want := csv(t, p, RunOptions{})
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "sweep")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		ran := 0
		for {
			j, err := OpenJournal(dir)
			if err != nil {
				t.Fatal(err)
			}
			before := len(j.entries)
			ctx, cancel := context.WithCancel(context.Background())
			after := int64(rapid.IntRange(0, 12).Draw(t, "stop after"))
			var calls atomic.Int64
			outcome, err := p.Run(ctx, RunOptions{
				Journal: j, Workers: rapid.IntRange(1, 3).Draw(t, "workers"),
				Progress: func(int64, int64) {
					if calls.Add(1) > after {
						cancel()
					}
				},
			})
			cancel()
			ran += outcome.Ran
			if len(j.entries) != before+outcome.Ran {
				t.Fatalf("%d entries after %d and %d run", len(j.entries), before, outcome.Ran)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			if err == nil {
				if got := table(t, p, outcome); got != want {
					t.Fatalf("got\n%s\nwant\n%s", got, want)
				}
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			// A crash leaves a torn line of an entry that was not synced.
			torn := rapid.StringMatching(`\{[a-z":{]{0,20}`).Draw(t, "torn")
			f, err := os.OpenFile(filepath.Join(dir, journalName), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			f.WriteString(torn)
			f.Close()
		}
		if ran != 12 {
			t.Fatalf("%d runs of 12 points", ran)
		}
	})
}

// TestPlansShareJournal: plans that run in parallel with one journal, as those of 'l3lab reproduce'
// do, each begin while others record and while results are removed. The race detector finds
// accesses without the journal's lock.
func TestPlansShareJournal(t *testing.T) {
	dir := t.TempDir()
	p := fake(plan(t, grid))
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for range deep.Of(40, 40, 200) { // begin, and stop before the first point
				if o, err := p.Run(ended, RunOptions{Journal: j, Force: true}); !errors.Is(err, context.Canceled) || o.Ran != 0 {
					t.Errorf("%+v, %v", o, err)
					return
				}
			}
		})
	}
	for range deep.Of(5, 5, 20) {
		o, err := p.Run(context.Background(), RunOptions{Journal: j, Force: true})
		if err == nil {
			err = p.Write(dir, o)
		}
		if err != nil {
			t.Error(err)
			break
		}
	}
	others.Wait()
	if len(j.entries) != len(p.Points) {
		t.Errorf("%d of %d points are recorded", len(j.entries), len(p.Points))
	}
}

func TestForceRunsAgain(t *testing.T) {
	j, err := OpenJournal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	p := fake(plan(t, grid))
	first := csv(t, p, RunOptions{Journal: j})
	outcome, err := p.Run(context.Background(), RunOptions{Journal: j})
	if err != nil || outcome.Ran != 0 || outcome.Reused != 12 {
		t.Errorf("%+v, %v", outcome, err)
	}
	outcome, err = p.Run(context.Background(), RunOptions{Journal: j, Force: true})
	if err != nil || outcome.Ran != 12 || table(t, p, outcome) != first {
		t.Errorf("forced: %+v, %v", outcome, err)
	}
}

// TestEqualPointsRunOnce: two names for one configuration share one run.
func TestEqualPointsRunOnce(t *testing.T) {
	p := plan(t, small+"[[list]]\nname = \"a\"\nnode.ranksets = 4\n[[list]]\nname = \"b\"\nnode.memory_capacity = \"2TiB\"\n")
	outcome, err := p.Run(context.Background(), RunOptions{})
	if err != nil || outcome.Ran != 1 || outcome.Reused != 1 || len(outcome.Entries) != 2 {
		t.Errorf("%+v, %v", outcome, err)
	}
}

// TestAddress: configuration, version and trace content change the address; the name does not.
func TestAddress(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "requests.csv")
	trace := func(text string) {
		if err := os.WriteFile(path, []byte("arrival_ns,input_tokens,output_tokens\n"+text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	hash := func(version, text string) string {
		p, err := NewPlan(parse(t, "[set]\nrun.model = \"llama-2-7b\"\nrun.trace = '"+path+"'\n"+text), version)
		if err != nil {
			t.Fatal(err)
		}
		return p.Points[0].Hash
	}
	trace("0,10,20\n")
	base := hash("1", "")
	if hash("1", "") != base || hash("1", "[[list]]\nname = \"x\"\nnode.ranksets = 4") != base {
		t.Error("the same point has two addresses")
	}
	if hash("2", "") == base || hash("1", "[grid]\nnode.ranksets = [2]") == base {
		t.Error("different points share an address")
	}
	trace("0,10,21\n")
	if hash("1", "") == base {
		t.Error("the trace changed, the address did not")
	}
}

// TestFullDiskStopsTheSweep: a failure to record is an error of the sweep, not of the point.
func TestFullDiskStopsTheSweep(t *testing.T) {
	j := &Journal{file: &fullDisk{left: 3000}, entries: map[string]*Entry{}}
	outcome, err := fake(plan(t, grid)).Run(context.Background(), RunOptions{Journal: j, Workers: 2})
	if !errors.Is(err, syscall.ENOSPC) || outcome.Missing == 0 || outcome.Ran != len(j.entries) {
		t.Errorf("%+v, %v", outcome, err)
	}
}

func TestFileNames(t *testing.T) {
	p := &Plan{Points: []Point{{Name: "ranksets=4"}, {Name: "a/b"}, {Name: "A_B"}, {Name: "a_b"}, {Name: "../x"}, {Name: strings.Repeat("long", 50)}}}
	seen := map[string]bool{}
	for i, name := range p.fileNames() {
		if seen[strings.ToLower(name)] || strings.ContainsAny(name, "/\\: ") || name[0] == '.' || len(name) > 130 {
			t.Errorf("%s becomes %s", p.Points[i].Name, name)
		}
		seen[strings.ToLower(name)] = true
	}
	if !seen["ranksets=4,seed=0.json"] {
		t.Errorf("an ordinary name was changed: %v", seen)
	}
}

func TestEstimate(t *testing.T) {
	p, before := plan(t, grid), runtime.GOMAXPROCS(0)
	e, err := p.Estimate(context.Background(), nil, 2)
	if err != nil || e.Points != 12 || e.Wall <= 0 || e.Probe <= 0 {
		t.Errorf("%+v, %v", e, err)
	}
	all := map[string]*Entry{}
	for i := range p.Points {
		all[p.Points[i].Hash] = &Entry{}
	}
	if e, err := p.Estimate(context.Background(), all, 2); err != nil || e.Points != 0 || e.Wall != 0 {
		t.Errorf("all done: %+v, %v", e, err)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if e, err := p.Estimate(cancelled, nil, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %+v, %v", e, err)
	}
	if _, rate, err := p.measure(context.Background(), &p.Points[0], 0); rate != 0 || err != nil {
		t.Errorf("no token within the limit: %v ns a token, %v", rate, err)
	}
	if runtime.GOMAXPROCS(0) != before {
		t.Errorf("an estimate leaves %d of %d processors", runtime.GOMAXPROCS(0), before)
	}
}

// TestTraceLostAfterPlanning: a trace that moves or changes between plan and run ends the run with
// an error that is not one of input, and records nothing; with the trace back, the same plan runs.
func TestTraceLostAfterPlanning(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace.csv")
	write := func(output int) {
		t.Helper()
		text := fmt.Sprintf("arrived_at,num_prefill_tokens,num_decode_tokens\n0,100,%d\n", output)
		if err := os.WriteFile(trace, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(20)
	text := fmt.Sprintf("[set]\nrun.model = \"llama-2-7b\"\nrun.trace = %q\n[grid]\nnode.ranksets = [2, 4]\n", trace)
	for _, c := range []struct {
		what string
		lose func() error
		want string
	}{
		{"moved", func() error { return os.Remove(trace) }, "no such file or directory"},
		{"changed", func() error { write(30); return nil }, "has changed since the sweep began"},
	} {
		write(20)
		p := plan(t, text)
		p.cache.kept = nil // as if others had evicted it
		if err := c.lose(); err != nil {
			t.Fatal(err)
		}
		j, err := OpenJournal(filepath.Join(dir, c.what))
		if err != nil {
			t.Fatal(err)
		}
		outcome, err := p.Run(context.Background(), RunOptions{Journal: j})
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, new(*input.Error)) {
			t.Errorf("%s: got %T: %v", c.what, err, err)
		}
		if outcome.Failed != 0 || outcome.Missing != 2 || len(j.entries) != 0 {
			t.Errorf("%s: %+v, %d recorded", c.what, outcome, len(j.entries))
		}
		if e, err := p.Estimate(context.Background(), nil, 2); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: estimated %+v, %v", c.what, e, err)
		}
		write(20)
		if outcome, err = p.Run(context.Background(), RunOptions{Journal: j}); err != nil || outcome.Failed != 0 || outcome.Ran != 2 {
			t.Errorf("%s, and back: %+v, %v", c.what, outcome, err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
