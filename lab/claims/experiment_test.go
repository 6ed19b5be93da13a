package claims

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/sweep"
	files "github.com/l3sim/l3sim/lab/claims/paper"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/figure"
	"github.com/l3sim/l3sim/results/tables"
)

// fake is a simulator whose results a test chooses.
type fake struct {
	mu   sync.Mutex
	runs map[string]int // by address

	summary func(c *configs.Config, p *sweep.Point) (*results.Summary, error)
}

func newFake(summary func(*configs.Config, *sweep.Point) (*results.Summary, error)) *fake {
	return &fake{runs: map[string]int{}, summary: summary}
}

func (f *fake) run(plan *sweep.Plan, ctx context.Context, o sweep.RunOptions) (*sweep.Outcome, error) {
	out := &sweep.Outcome{}
	for i := range plan.Points {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		p := &plan.Points[i]
		c, err := plan.Config(p)
		if err != nil {
			return nil, err
		}
		f.mu.Lock()
		f.runs[p.Hash]++
		f.mu.Unlock()
		e := &sweep.Entry{Point: p.Hash, Status: tables.StatusDone}
		if e.Summary, err = f.summary(c, p); err != nil {
			e.Status, e.Error = tables.StatusFailed, err.Error()
		}
		out.Entries = append(out.Entries, e)
		if o.Progress != nil {
			o.Progress(int64(i+1), int64(len(plan.Points)))
		}
	}
	return out, nil
}

// served returns a summary of a point that served all its requests.
func served(c *configs.Config, p *sweep.Point, tokensPerS, batch float64) *results.Summary {
	s := &results.Summary{About: results.About{System: c.Run.System}, Throughput: results.Throughput{OutputTokensPerS: tokensPerS}}
	s.Trace = results.Trace{Name: c.Run.Trace, Requests: p.Requests}
	s.DecodeBatch.Mean, s.DecodeBatch.StepMean, s.DecodeBatch.Max = batch, batch, int(2*batch)
	s.Utilization.GPU, s.Utilization.PIM = 0.5, 0.4
	s.KVBytes.Capacity = int64(1e9 * batch)
	if c.Run.System == "l3" || c.Run.System == "rank-pim" {
		s.RanksetImbalance = 1.5
	}
	s.SimulatedS, s.Iterations = 1e6, 1e6
	return s
}

// plausible is a simulator of round numbers: l3 is 6 times hbm-pim on one model and trace, else
// twice; the order of the two baselines changes on Dolphin.
func plausible(c *configs.Config, p *sweep.Point) (*results.Summary, error) {
	rate := map[string]float64{"l3": 120, "hbm-pim": 60, "gpu-only": 40, "rank-pim": 15, "cpu-offload": 45}[c.Run.System]
	best := c.Run.Model == "gpt-89b" && c.Run.Trace == "dolphin"
	if c.Run.System == "l3" && best {
		rate *= 3
	}
	if c.Run.System == "hbm-pim" && c.Run.Model == "opt-66b" && c.Run.Trace == "dolphin" {
		rate = 30
	}
	s := served(c, p, rate*float64(c.Node.Ranksets)*(1+float64(p.Seed)/100), rate/5)
	if strings.HasSuffix(c.Run.Trace, ".csv") {
		n := float64(c.Run.Requests)
		s.TBT.P50 = n
		if c.Run.System == "l3" {
			s.TBT.P50 = n * (16 + n) / 160 * 16 / float64(c.Node.Ranksets)
			if !c.Scheduler.Adaptive {
				s.TBT.P50 *= 2
			}
		}
	}
	return s, nil
}

func fakeOptions(t *testing.T, target Target) *Options {
	return &Options{Target: target, Requests: 20, Seeds: 1, Version: "test", Traces: t.TempDir()}
}

// TestClaimsFromPoints: numbers known by construction become the claims' values.
func TestClaimsFromPoints(t *testing.T) {
	deep.Heavy(t)
	o := fakeOptions(t, ClaimsOnly)
	o.Seeds = 2
	r, err := o.run(t.Context(), newFake(func(c *configs.Config, p *sweep.Point) (*results.Summary, error) {
		s, err := plausible(c, p)
		if c.Comm.Balance == evenly {
			s.OutputTokensPerS /= 2
		}
		return s, err
	}).run)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Judgements) != len(claims(t, AllTargets)) || fmt.Sprint(r.Seeds) != "[1 2]" {
		t.Fatalf("%d claims, seeds %v", len(r.Judgements), r.Seeds)
	}
	want := map[string]float64{
		"fig8.max_over_hbm_pim": 6, "fig8.max_over_gpu_only": 9, "fig8.max_over_rank_pim": 24, "fig8.max_batch_ratio": 6,
		"fig8.opt66b_dolphin_hbm_below_gpu": 0.75,
		"fig9.capacity_only":                1, "fig9.ranksets_only": 8, "fig9.both": 8, "fig10.overlap": 1, "fig8.highest": 2,
		"fig11.low": 0.3, "fig11.high": 1.7, "fig11.fewest": 6.8,
	}
	others := map[string][]float64{ // batches of the node, two forced sub-batches, both; 2 ranksets
		"fig11.low": {0.2, 0.6, 0.4}, "fig11.high": {0.9, 3.4, 1.8}, "fig11.fewest": {3.6, 13.6, 7.2, 13.6},
		"fig8.max_over_hbm_pim": {6, 6, 3, 3, 3}, "fig8.max_batch_ratio": {6, 6, 6, 6, 6, 6}, "fig9.both": {8},
		"fig10.overlap": {0.5, 1, 0.5}, "fig8.highest": {1},
	}
	for i := range r.Judgements {
		j := &r.Judgements[i]
		if j.Reason == "" || strings.Contains(j.Reason, "\n") || j.Low > j.Ours || j.Ours > j.High {
			t.Errorf("%+v", j)
		}
		if w, ok := want[j.ID]; ok && math.Abs(j.Ours-w) > 1e-9 {
			t.Errorf("%s: %v, want %v", j.ID, j.Ours, w)
		}
		for n, w := range others[j.ID] {
			if n >= len(j.Others) || math.Abs(j.Others[n].Ours-w) > 1e-9 {
				t.Errorf("%s, reading %d: %+v, want %v", j.ID, n, j.Others, w)
			}
		}
	}
	if !strings.HasPrefix(r.Judgements[0].Reason, "gpt-89b on dolphin: ") {
		t.Errorf("the best case is not named: %s", r.Judgements[0].Reason)
	}
}

// TestStepParts: the reasons of Fig 10a give each mechanism's factor, in the order of the paper,
// and their product is the claim's value.
func TestStepParts(t *testing.T) {
	deep.Heavy(t)
	gain := func(c *configs.Config) float64 {
		g := 1.0
		for _, part := range []struct {
			on   bool
			gain float64
		}{
			{c.Scheduler.SubBatches == 2, 1.2}, {c.Scheduler.Chunking, 1.1}, {c.Comm.Concurrent, 1.3}, {c.Comm.Rotation, 0.9},
			{c.Comm.Balance == "round-robin", 1.5}, {c.Comm.AsyncPrefill, 1.4}, {c.Comm.Balance == "split", 3},
		} {
			if part.on {
				g *= part.gain
			}
		}
		return g
	}
	r, err := fakeOptions(t, Fig10).run(t.Context(), newFake(func(c *configs.Config, p *sweep.Point) (*results.Summary, error) {
		return served(c, p, gain(c), 1), nil
	}).run)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		value  float64
		reason string
	}{
		{1.32, "two sub-batches 1.20, chunked prefill 1.10; "},
		{2.457, "concurrent transfers 1.30, rotation 0.90, round-robin offsets 1.50, asynchronous prefill transfers 1.40; "},
	} {
		if j := &r.Judgements[i]; math.Abs(j.Ours-want.value) > 1e-9 || !strings.HasPrefix(j.Reason, want.reason) {
			t.Errorf("%s: %v, %s", j.ID, j.Ours, j.Reason)
		}
	}
	// Relative to scheduling with even ranksets, and to the naive node with both placements.
	for n, want := range []float64{2 * 2.457, 1.32 * 2.457, 2 * 1.32 * 2.457} {
		if j := &r.Judgements[1]; math.Abs(j.Others[n].Ours-want) > 1e-9 {
			t.Errorf("%s, %s: %v, want %v", j.ID, j.Others[n].Reading, j.Others[n].Ours, want)
		}
	}
}

// TestWithout: cells that the paper reports as out of memory are not the best case if another one
// remains.
func TestWithout(t *testing.T) {
	deep.Heavy(t)
	r, err := fakeOptions(t, Fig8).run(t.Context(), newFake(func(c *configs.Config, p *sweep.Point) (*results.Summary, error) {
		s, err := plausible(c, p)
		if c.Run.System == "l3" && c.Run.Model == "opt-66b" {
			s.OutputTokensPerS *= map[string]float64{"openr1": 50, "longbench": 40, "openthoughts": 30, "dolphin": 20}[c.Run.Trace]
			if c.Comm.Balance == evenly {
				s.OutputTokensPerS *= 2
			}
		}
		return s, err
	}).run)
	if err != nil {
		t.Fatal(err)
	}
	j := &r.Judgements[1] // over gpu-only; l3 has three times its throughput
	for n, want := range []float64{120, 150, 180, 240, 300} {
		if got := j.Others[n].Ours; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", j.Others[n].Reading, got, want)
		}
	}
	if math.Abs(j.Ours-90) > 1e-9 || !strings.HasPrefix(j.Reason, "opt-66b on openthoughts: ") {
		t.Errorf("judged: %v, %s", j.Ours, j.Reason)
	}
	if rank := &r.Judgements[2]; math.Abs(rank.Ours-50*8) > 1e-9 { // uses the host's memory
		t.Errorf("over rank-pim: %v", rank.Ours)
	}
}

// TestUnequalWork: ratios of systems that served different requests are refused.
func TestUnequalWork(t *testing.T) {
	deep.Heavy(t)
	for name, change := range map[string]func(s *results.Summary){
		"rejected": func(s *results.Summary) { s.RejectedRequests = 1 },
		"trace":    func(s *results.Summary) { s.Trace.Requests-- },
	} {
		o := fakeOptions(t, Fig8)
		_, err := o.run(t.Context(), newFake(func(c *configs.Config, p *sweep.Point) (*results.Summary, error) {
			s, err := plausible(c, p)
			if c.Run.System == "hbm-pim" && c.Run.Model == "gpt-175b" && c.Run.CommonTo == "all" {
				change(s)
			}
			return s, err
		}).run)
		if err == nil || !strings.Contains(err.Error(), "did not serve the same requests") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSharedPoints: a restriction that excludes no request adds no run; one that excludes some
// does.
func TestSharedPoints(t *testing.T) {
	deep.Heavy(t)
	f := newFake(plausible)
	o := fakeOptions(t, AllTargets)
	o.Requests = 200
	l := &loader{version: o.Version, requests: o.Requests, seeds: 1, traces: o.Traces}
	_, experiments, err := o.plan(l)
	if err != nil {
		t.Fatal(err)
	}
	var calls []int64
	total := int64(0)
	var mu sync.Mutex
	err = runAll(t.Context(), experiments, f.run, sweep.RunOptions{Progress: func(done, of int64) {
		mu.Lock()
		defer mu.Unlock()
		calls, total = append(calls, done), of
	}})
	if err != nil {
		t.Fatal(err)
	}
	points := 0
	for _, e := range experiments {
		points += len(e.plan.Points)
		for i, entry := range e.outcome.Entries {
			if entry == nil {
				t.Fatalf("%s: %s has no result", e.Name, e.plan.Points[i].Name)
			}
		}
	}
	for hash, n := range f.runs {
		if n != 1 {
			t.Errorf("%s ran %d times", hash, n)
		}
	}
	// GPT-89B and GPT-175B fit everywhere: each system and trace runs once, not twice.
	systems := len(experiments[0].systems())
	if saved := points - len(f.runs); saved < 2*4*systems {
		t.Errorf("%d of %d points ran, expected at least %d fewer", len(f.runs), points, 2*4*systems)
	}
	// On OPT-66B long requests are excluded, and both sets run.
	restricted, whole := experiments[0].find(1, openR1("all")), experiments[0].find(1, openR1(""))
	if len(restricted) != systems+1 || // l3 in both placements
		len(whole) != systems || restricted[0].summary.Trace.Requests >= whole[0].summary.Trace.Requests {
		t.Errorf("%d and %d points of OPT-66B on OpenR1", len(restricted), len(whole))
	}
	if total != int64(len(f.runs)) || calls[len(calls)-1] != total {
		t.Errorf("progress ends at %d of %d", calls[len(calls)-1], total)
	}
}

func openR1(commonTo string) func(*point) bool {
	return func(p *point) bool {
		r := &p.config.Run
		return r.Model == "opt-66b" && r.Trace == "openr1" && r.CommonTo == commonTo
	}
}

// TestFailures: a failed point is an error that names it, and an interruption ends
// the run with its own error.
func TestFailures(t *testing.T) {
	o := fakeOptions(t, Fig9)
	_, err := o.run(t.Context(), newFake(func(c *configs.Config, p *sweep.Point) (*results.Summary, error) {
		if c.Node.Ranksets == 8 {
			return nil, errors.New("no memory")
		}
		return plausible(c, p)
	}).run)
	if err == nil || !strings.Contains(err.Error(), "fig9: 4 of 20 points failed, the first is ") || !strings.HasSuffix(err.Error(), ": no memory") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = o.run(ctx, newFake(func(c *configs.Config, p *sweep.Point) (*results.Summary, error) {
		cancel()
		return plausible(c, p)
	}).run)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// TestFiles: every sweep of lab/claims/paper plans without an error, and every figure definition draws its
// sweep's results.
func TestFiles(t *testing.T) {
	deep.Only(t) // TestDocs and TestFair cover most of them
	o := fakeOptions(t, AllTargets)
	for _, target := range []Target{AllTargets, Fair} {
		o.Target = target
		r, err := o.run(t.Context(), newFake(plausible).run)
		if err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		for i := range r.Figures {
			drawn[r.Figures[i].Name+".figure.toml"] = true
			if len(r.Figures[i].Data.Cells) == 0 || r.Figures[i].Title == "" {
				t.Errorf("%s is empty", r.Figures[i].Name)
			}
		}
		for _, table := range r.Tables {
			drawn[table.Name+".toml"] = true
			for _, row := range table.Rows {
				if text := strings.Join(list.Map(row, tables.Value.String), ","); strings.Contains(text, o.Traces) {
					t.Errorf("%s names a file of this machine: %s", table.Name, text)
				}
			}
		}
	}
	names, err := fs.Glob(files.Files, "*.toml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := files.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "# ") {
			t.Errorf("%s does not begin with what it is", name)
		}
		if strings.HasSuffix(name, ".figure.toml") {
			if _, err := figure.ParseDefinition(name, string(text)); err != nil {
				t.Error(err)
			}
		}
		if !drawn[name] && name != "sensitivity.toml" && name != "evaluation.toml" && !slices.Contains(sparseFiles, name) {
			t.Errorf("%s is used by no target", name)
		}
	}
}

var drawn = map[string]bool{}

// TestTraceFile: the trace of Fig 11 is on disk, whole, in any working folder.
func TestTraceFile(t *testing.T) {
	t.Chdir(t.TempDir())
	l := &loader{version: "test", seeds: 1, traces: t.TempDir()}
	for range 2 { // the second time it exists already
		e, err := l.load(&experimentSpec{Name: "fig11"}, false)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := files.Files.ReadFile("fig11.csv")
		got, err := os.ReadFile(e.configs[0].Run.Trace)
		if err != nil || string(got) != string(want) {
			t.Fatalf("%v: %d of %d bytes", err, len(got), len(want))
		}
		for i := range e.plan.Points {
			if p := &e.plan.Points[i]; p.Requests != e.configs[i].Run.Requests {
				t.Errorf("%s has %d requests", p.Name, p.Requests)
			}
		}
	}
}
