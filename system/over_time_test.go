package system

import (
	"context"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestOverTimeSumsToRun: iterations of a replica are disjoint and emit all tokens; over the
// intervals of a run, tokens and work sum to the summary's, and no gap is missing.
func TestOverTimeSumsToRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sets := append(drawOnline(t), "run.system="+rapid.SampledFrom(everyName()).Draw(t, "system"), "run.model=llama-2-7b")
		cfg, err := everything().Load(configs.Options{Sets: sets})
		if err != nil {
			t.Fatal(err)
		}
		trace, err := (&traces.Trace{Name: "x", Requests: drawRequests(t, 20)}).Arrive(cfg.Arrivals, cfg.Run.Seed)
		if err != nil {
			t.Fatal(err)
		}
		node := mustNode(t, cfg)
		r, err := node.Run(context.Background(), trace, Options{Iterations: true})
		if err != nil {
			t.Fatal(err)
		}
		plain, err := node.Run(context.Background(), trace, Options{})
		if err != nil || written(t, cfg, plain) != written(t, cfg, r) {
			t.Fatalf("keeping iterations changes the run: %v", err)
		}
		tokens := int64(0)
		for i, x := range r.Iterations {
			tokens += int64(x.Decoding + x.FirstTokens)
			if x.End <= x.Start || x.InSystem < x.Waiting+x.Decoding || x.Decoding+x.PromptTokens == 0 {
				t.Fatalf("%+v", x)
			}
			if i > 0 && r.Iterations[i-1].Replica == x.Replica && x.Start < r.Iterations[i-1].End {
				t.Fatalf("%+v before the end of %+v", x, r.Iterations[i-1])
			}
		}
		if tokens != r.tokens || int64(len(r.Iterations)) != r.iterations {
			t.Fatalf("%d tokens in %d iterations, want %d in %d", tokens, len(r.Iterations), r.tokens, r.iterations)
		}
		parts := rapid.IntRange(1, 40).Draw(t, "parts")
		table := r.OverTime(node, parts)
		width := (r.end/units.Duration(parts) + 1).Seconds()
		for column, want := range map[string]float64{
			"output_tokens_per_s": float64(r.tokens), "utilization_gpu": r.busy.GPU * r.end.Seconds(),
			"utilization_pim": r.busy.PIM * r.end.Seconds(), "utilization_pcie_down": r.busy.PCIeDown * r.end.Seconds(),
			"requests_decoding": r.batch.Mean * r.end.Seconds(),
		} {
			if got := columnSum(t, table, column) * width; math.Abs(got-want) > 1e-6*max(want, 1e-9) {
				t.Fatalf("%s: %v over the run, want %v", column, got, want)
			}
		}
		n := int64(0)
		for _, g := range r.gaps {
			n += int64(g.requests)
		}
		if n != r.tbt.Count() {
			t.Fatalf("%d gaps were kept, want %d", n, r.tbt.Count())
		}
	})
}

// columnSum returns the sum of a column.
func columnSum(t *rapid.T, table *tables.Table, column string) (sum float64) {
	c, err := table.Column("", column)
	if err != nil {
		t.Fatal(err)
	}
	for row := range table.Rows {
		v, ok := table.Number(row, c)
		if !ok {
			t.Fatalf("%s: %q", column, table.Rows[row][c])
		}
		sum += v
	}
	return sum
}

// TestGrowthAlone: growth of the number in the system alone makes a run saturated, and only growth
// in later quarters counts.
func TestGrowthAlone(t *testing.T) {
	const span = 4 * units.Second
	for _, c := range []struct {
		quarters [4]int64 // requests in the system
		want     bool
	}{
		{[4]int64{0, 100, 200, 300}, true},
		{[4]int64{300, 100, 200, 300}, true}, // earlier growth does not count
		{[4]int64{0, 300, 200, 100}, false},
		{[4]int64{0, 100, 300, 250}, false}, // growth has ended
		{[4]int64{0, 100, 250, 200}, false},
		{[4]int64{0, 100, 105, 109}, false}, // less than 1% of 1,000
		{[4]int64{0, 100, 110, 125}, false}, // less than three times the root of 100
		{[4]int64{0, 100, 110, 131}, true},
		{[4]int64{0, 0, 4, 9}, false}, {[4]int64{0, 0, 4, 11}, true},
	} {
		r := &replica{tallied: tallied{population: population{span: span}}}
		r.out.requests = make([]results.Request, 1000)
		for q, n := range c.quarters {
			r.tallied.population.set(units.Duration(q)*units.Second, int(n))
		}
		r.tallied.population.set(9*units.Second, 0)
		if got := saturated([]*replica{r}); got != c.want {
			t.Errorf("%v: saturated %v", c.quarters, got)
		}
	}
}

// TestBacklogAlone: if a fiftieth of all requests and at least ten wait, a node is saturated even with a
// constant number in the system; likewise if a fiftieth is turned away.
func TestBacklogAlone(t *testing.T) {
	const span = 1000 * units.Second
	for _, c := range []struct {
		requests, away int
		waits          units.Duration // of each served request
		want           bool
	}{
		{1000, 0, 20 * units.Second, true}, {1000, 0, 19 * units.Second, false}, // 20 of 1,000 wait at once
		{100, 0, 99 * units.Second, false}, {100, 0, 100 * units.Second, true},
		{1000, 20, 0, true}, {1000, 19, 0, false}, {10, 0, 0, false},
	} {
		r := &replica{tallied: tallied{population: population{span: span}}}
		r.out.requests = make([]results.Request, c.requests)
		for i := range r.out.requests {
			if q := &r.out.requests[i]; i < c.away {
				q.Outcome = results.Refused
			} else {
				q.Start = c.waits
			}
		}
		if got := saturated([]*replica{r}); got != c.want {
			t.Errorf("%+v: saturated %v", c, got)
		}
	}
}

// TestResultJoinsReplicas: fragmentation is weighted by each replica's running time, and the
// requests of a decode step are summed over the replicas that had any.
func TestResultJoinsReplicas(t *testing.T) {
	const second = units.Second
	n := nodeOf(t, "run.model=gpt-89b")
	replicas := make([]*replica, 2)
	for i, out := range []replicaResult{
		{fragmentation: 1.5, end: 2 * second, steps: 4, decoded: 10},
		{fragmentation: 2.5, end: 6 * second},
	} {
		r := n.replica(i, nil, Options{})
		r.gaps, r.out = newGaps(0, 0), out
		replicas[i] = r
	}
	r := n.result(&traces.Trace{}, replicas)
	if r.fragmentation != 0.5 || r.batch.StepMean != 2.5 {
		t.Errorf("fragmentation %v, %v requests a decode step, want 0.5 and 2.5", r.fragmentation, r.batch.StepMean)
	}
	replicas[1].out.steps, replicas[1].out.decoded = 8, 4
	if got := stepMean(replicas); got != 3 {
		t.Errorf("%v requests a decode step of two replicas, want 2.5 and 0.5", got)
	}
	for i := range replicas {
		replicas[i].out = replicaResult{}
	}
	if r := n.result(&traces.Trace{}, replicas); r.fragmentation != 0 || r.batch.StepMean != 0 {
		t.Errorf("nothing ran: fragmentation %v, %v requests a decode step", r.fragmentation, r.batch.StepMean)
	}
}

// TestGaps: each gap counts in the quarter of the run in which it ends.
func TestGaps(t *testing.T) {
	r := &Result{end: 400 * units.Second}
	for i := range 4 {
		at := units.Duration(100*i+50) * units.Second
		r.gaps = append(r.gaps, keptGap{at: at, gap: units.Duration(i+1) * units.Millisecond, requests: 3}, keptGap{at: at, gap: 9 * units.Millisecond, requests: 1})
	}
	g := r.Gaps()
	if len(g.Rows) != 400 {
		t.Fatalf("%d rows", len(g.Rows))
	}
	for i, name := range []string{"0 to 25% of the run", "25 to 50% of the run", "50 to 75% of the run", "75 to 100% of the run"} {
		for percent, want := range map[int]float64{1: float64(i + 1), 75: float64(i + 1), 100: 9} {
			row := g.Rows[100*i+percent-1]
			if v, ok := row[1].Float(); !ok || row[0] != tables.Of(name) || math.Abs(v-want) > 0.01*want {
				t.Errorf("%d%% of quarter %d is %v, not %s, %g", percent, i, row, name, want)
			}
		}
	}
}
