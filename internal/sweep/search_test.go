package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/traces"
)

// space is a file of 4 x 3 x 3 x 5 designs; those with 8 GPUs in a replica of 4 are no configurations,
// and a condition excludes a few.
const space = `
repeats = 2
where = "node.ranksets + pcie.generation < 19"
` + small + `
[optimise]
objectives = "max output_tokens_per_s, min node.ranksets"
constraints = ["ttft_mean_ms <= 24ms"]
population = 6
evaluations = 30
seeds = 2
seed = 7
[axes]
node.ranksets = { min = 4, max = 16, step = 4 }
pcie.generation = [3, 4, 5]
comm.balance = ["split", "least-loaded", "random"]
pcie.efficiency = { min = 0.5, max = 0.9, step = 0.1 }
`

// parsed returns the search of a text, with a simulation that is a function of the
// configuration: faster with more of everything but ranksets.
func parsed(t *testing.T, text string) *Search {
	t.Helper()
	s, err := parseSearch("space.toml", text, "v1")
	if err != nil {
		t.Fatal(err)
	}
	s.plan.Simulate = func(ctx context.Context, point *Point, c *configs.Config, _ *traces.Trace) (*results.Summary, error) {
		return &results.Summary{Seed: point.Seed, SimulatedS: 1, OutputTokensPerS: speed(c) + float64(point.Seed), TTFT: results.Latency{Mean: 10 * c.PCIe.Efficiency * float64(c.PCIe.Generation)}}, ctx.Err()
	}
	return s
}

func speed(c *configs.Config) float64 {
	return 100*math.Sqrt(float64(c.Node.Ranksets)) + 10*float64(c.PCIe.Generation)*c.PCIe.Efficiency - 5*float64(len(c.Comm.Balance))
}

// outcome runs a search and returns its table and its record.
func outcome(t *testing.T, s *Search, o RunOptions) (string, string) {
	t.Helper()
	found, err := s.Run(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	var record bytes.Buffer
	if err := found.Search.WriteJSON(&record); err != nil {
		t.Fatal(err)
	}
	return table(t, found.Plan, found.Outcome), record.String()
}

// TestSearchIsTheSame: workers, an interruption, a journal that has all, and shards change
// neither the table nor the record.
func TestSearchIsTheSame(t *testing.T) {
	space := strings.Replace(space, "evaluations = 30", "evaluations = 12", 1) // each of 100 points is synced to the disk
	wantTable, wantRecord := outcome(t, parsed(t, space), RunOptions{Workers: 1})
	check := func(what string, s *Search, o RunOptions) {
		t.Helper()
		if gotTable, gotRecord := outcome(t, s, o); gotTable != wantTable || gotRecord != wantRecord {
			t.Errorf("%s: another result\n%s", what, gotRecord)
		}
	}
	check("four workers", parsed(t, space), RunOptions{Workers: 4})
	journal := func(dir string) *Journal {
		j, err := OpenJournal(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { j.Close() })
		return j
	}
	j := journal(t.TempDir())
	for stop := range int32(3) { // after 0, 15 and 30 runs more
		s := parsed(t, space)
		ctx, cancel := context.WithCancel(t.Context())
		inner, ran := s.plan.Simulate, atomic.Int32{}
		s.plan.Simulate = func(ctx context.Context, p *Point, c *configs.Config, t *traces.Trace) (*results.Summary, error) {
			if ran.Add(1) > 15*stop {
				cancel()
			}
			return inner(ctx, p, c, t)
		}
		if _, err := s.Run(ctx, RunOptions{Journal: j, Workers: 2}, nil); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		cancel()
	}
	check("resumed", parsed(t, space), RunOptions{Journal: j})
	all := parsed(t, space)
	all.plan.Simulate = func(context.Context, *Point, *configs.Config, *traces.Trace) (*results.Summary, error) {
		return nil, errors.New("runs what the journal holds")
	}
	check("from the journal", all, RunOptions{Journal: j})

	whole, runs := journal(t.TempDir()), 0
	for i := range 4 {
		dir := t.TempDir()
		shard := journal(dir)
		found, err := parsed(t, space).Run(t.Context(), RunOptions{Journal: shard}, &Shard{i, 4})
		if err != nil || found.Search != nil || found.Outcome.Ran == 0 {
			t.Fatal(err, found)
		}
		runs += found.Outcome.Ran
		if _, err := whole.Take(dir); err != nil {
			t.Fatal(err)
		}
	}
	all = parsed(t, space)
	all.plan.Simulate = func(context.Context, *Point, *configs.Config, *traces.Trace) (*results.Summary, error) {
		return nil, errors.New("runs what a shard recorded")
	}
	check("from shards", all, RunOptions{Journal: whole})
	if runs < strings.Count(wantTable, "\n")-1 {
		t.Errorf("shards ran %d of %d points", runs, strings.Count(wantTable, "\n")-1)
	}
	if _, err := whole.Take(t.TempDir()); err == nil || !strings.Contains(err.Error(), "expected the folder of a shard, with its journal.jsonl") {
		t.Error(err)
	}
}

// TestSearchFindsTheFront: with a budget of all designs every method finds the front that
// trying all gives, evaluates each design once, and none that is excluded.
func TestSearchFindsTheFront(t *testing.T) {
	s := parsed(t, strings.Replace(space, "evaluations = 30", "evaluations = 400", 1))
	found, err := s.Run(t.Context(), RunOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// 4 x 3 x 3 x 5 designs without those of 16 ranksets and a generation above 2.
	if found.Search.Designs != 135 || len(found.Plan.Points) != 270 || found.Outcome.Ran != 270 {
		t.Fatalf("%d designs, %d points, %d runs", found.Search.Designs, len(found.Plan.Points), found.Outcome.Ran)
	}
	for _, one := range found.Search.Searches {
		if sorted := slices.Compact(slices.Sorted(slices.Values(one.Points))); len(sorted) != 135 || len(one.Points) != 135 {
			t.Errorf("%s, seed %d: %d points, %d different", one.Method, one.Seed, len(one.Points), len(sorted))
		}
		if last := one.Hypervolume[len(one.Hypervolume)-1]; math.Abs(last-1) > 1e-12 || !slices.IsSorted(one.Hypervolume) || len(one.Hypervolume) != 23 {
			t.Errorf("%s, seed %d: %v", one.Method, one.Seed, one.Hypervolume)
		}
	}
	// By hand: of each number of ranksets the one with the shortest name and the largest
	// product of generation and efficiency up to 2.4, which is 3 x 0.8 or 4 x 0.6.
	want := map[string]float64{"4": 200, "8": 100 * math.Sqrt(8), "12": 100 * math.Sqrt(12)}
	for _, p := range found.Front.Front {
		ranksets := fmt.Sprint(p.Values[1])
		if math.Abs(p.Values[0]-(want[ranksets]+24-25+1.5)) > 1e-9 {
			t.Errorf("%+v is on the front", p)
		}
	}
	if len(found.Front.Front) != 6 { // both products
		t.Errorf("%d on the front", len(found.Front.Front))
	}
	feasible := 0
	for i := 0; i < len(found.Plan.Points); i += 2 {
		if found.Outcome.Entries[i].Summary.TTFT.Mean <= 24 {
			feasible++
		}
	}
	if feasible != found.Search.Feasible || feasible == 0 || feasible == 135 {
		t.Errorf("%d are feasible, not %d", found.Search.Feasible, feasible)
	}
	for _, one := range found.Search.Searches {
		checkHypervolume(t, found, &one)
	}
	for _, in := range found.Search.Influences {
		if in.Points != 135 || in.First < 0 || in.First > 1 || in.Low > in.High {
			t.Errorf("%+v", in)
		}
	}
}

// TestSearchWithFailures: points that fail have no costs, and take nothing from the others.
func TestSearchWithFailures(t *testing.T) {
	s := parsed(t, space)
	inner := s.plan.Simulate
	s.plan.Simulate = func(ctx context.Context, p *Point, c *configs.Config, t *traces.Trace) (*results.Summary, error) {
		if c.PCIe.Generation == 3 && p.Seed == 2 {
			return nil, errors.New("no such link")
		}
		return inner(ctx, p, c, t)
	}
	found, err := s.Run(t.Context(), RunOptions{}, nil)
	if err != nil || found.Outcome.Failed == 0 || found.Outcome.Failed == len(found.Plan.Points) {
		t.Fatal(err, found)
	}
	for _, p := range found.Front.Front {
		if strings.Contains(p.Point, "generation=3") {
			t.Errorf("%s is on the front", p.Point)
		}
	}
}

// TestNothingIsFeasible: where no point meets the constraints, the error has the closest.
func TestNothingIsFeasible(t *testing.T) {
	s := parsed(t, strings.Replace(space, "<= 24ms", "< 10", 1))
	found, err := s.Run(t.Context(), RunOptions{}, nil)
	bad := new(input.Error)
	if !errors.As(err, &bad) || found == nil || found.Search != nil || len(found.Plan.Points) == 0 {
		t.Fatal(found, err)
	}
	text := err.Error()
	if !strings.HasPrefix(text, `space.toml: optimise.constraints = ttft_mean_ms < 10: expected constraints that a point meets; none of `) ||
		!strings.Contains(text, "generation=3,") || !strings.Contains(text, "efficiency=0.5,") || !strings.HasSuffix(text, " has ttft_mean_ms = 15") {
		t.Error(text)
	}
	s = parsed(t, space)
	s.plan.Simulate = func(context.Context, *Point, *configs.Config, *traces.Trace) (*results.Summary, error) {
		return nil, errors.New("it is broken")
	}
	if _, err = s.Run(t.Context(), RunOptions{}, nil); err == nil || !strings.HasSuffix(err.Error(), "all of them failed, the first says it is broken") {
		t.Error(err)
	}
}

// TestSearchErrors: what is wrong in the file of a search names its line, what was expected and
// the nearest name.
func TestSearchErrors(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"max output_tokens_per_s", "max output_token_per_s", `space.toml:11: optimise.objectives = "output_token_per_s": expected a column of the results of space.toml; did you mean "output_tokens_per_s"?`},
		{"max output_tokens_per_s", "most output_tokens_per_s", `space.toml:11: optimise.objectives = "most output_tokens_per_s": expected "max COLUMN" or "min COLUMN"`},
		{"objectives =", "objective =", `space.toml:11: optimise = "objective": expected one of constraints, evaluations, objectives, population, seed, seeds; did you mean "objectives"?`},
		{`["ttft_mean_ms <= 24ms"]`, `"ttft_mean_ms <= 24GiB"`, `space.toml:12: optimise.constraints ttft_mean_ms = "24GiB": expected a number after <=, in ms or with a unit`},
		{`["ttft_mean_ms <= 24ms"]`, `["ttft_mean_m <= 24ms"]`, `space.toml:12: optimise.constraints = "ttft_mean_m": expected a column of the results of space.toml; did you mean "ttft_mean_ms"?`},
		{`["ttft_mean_ms <= 24ms"]`, `[24]`, `space.toml:12: optimise.constraints = 24: expected texts, such as "tbt_p99_ms <= 100"`},
		{`["ttft_mean_ms <= 24ms"]`, `["ttft_mean_ms"]`, `space.toml:12: optimise.constraints = "ttft_mean_ms": expected COLUMN<=NUMBER, or with >=, < or >, such as "tbt_p99_ms <= 100"`},
		{"evaluations = 30\n", "", "space.toml:10: optimise.evaluations: expected a whole number from 1 to 100000"},
		{"evaluations = 30", "evaluations = 90_000", "space.toml:14: optimise.evaluations = 90000: expected at most 100000 runs in all; 3 methods with 2 seeds are 1080000"},
		{"population = 6", "population = 3", "space.toml:13: optimise.population = 3: expected a whole number from 4 to 10000"},
		{"pcie.generation = [3, 4, 5]", "pcie.generation = []", "space.toml:19: pcie.generation = []: expected an array of at least one value"},
		{"pcie.generation = [3, 4, 5]", "pcie.generation = [3, 4, 99]", "space.toml:19: pcie.generation = 99: expected"},
		{"pcie.generation = [3, 4, 5]", "pcie.generation = 3", "space.toml:19: axes.pcie.generation = 3: expected a range {min = ..., max = ...} or an array of values"},
		{"pcie.generation = [3, 4, 5]", "pcie.generations = [3, 4, 5]", `space.toml:19: pcie.generations: expected`},
		{"pcie.generation = [3, 4, 5]", "run.seed = [3, 4, 5]", "space.toml:19: axes.run.seed: expected no axis of seeds; repeats averages over them"},
		{"pcie.generation = [3, 4, 5]", "run.requests = [3, 4, 5]", "space.toml:19: axes.run.requests: expected no key that set sets too (line 7)"},
		{"max = 16, step = 4", "max = 2", "space.toml:18: axes.node.ranksets.max = 2: expected more than min, 4"},
		{"[axes]", "[axis]", `space.toml:17: axis: expected one of axes, config, optimise, repeats, set, where; did you mean "axes"?`},
		{"[optimise]", "[grid]", `space.toml:10: grid: expected one of axes, config, optimise, repeats, set, where`},
	} {
		text := strings.Replace(space, c.old, c.new, 1)
		if _, err := parseSearch("space.toml", text, "v1"); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s:\n%v\nnot\n%s", c.new, err, c.want)
		}
	}
	empty := space[:strings.Index(space, "node.ranksets = {")]
	if _, err := parseSearch("space.toml", empty, "v1"); err == nil || err.Error() != "space.toml:17: axes: expected at least one key" {
		t.Error(err)
	}
	for _, name := range []string{axesSection, searchSection} {
		without := space[strings.Index(space, "repeats"):strings.Index(space, "["+searchSection)]
		if name == axesSection {
			without = space[:strings.Index(space, "["+axesSection)]
		}
		if _, err := parseSearch("space.toml", without, "v1"); err == nil || !strings.HasPrefix(err.Error(), "space.toml: "+name+": expected a section ["+name+"]") {
			t.Error(err)
		}
	}
	wrong := parsed(t, strings.Replace(space, "llama-2-7b", "llama-2-7", 1))
	if _, err := wrong.Run(t.Context(), RunOptions{}, nil); err == nil || !strings.HasPrefix(err.Error(), "space.toml:6: run.model = \"llama-2-7\": expected") {
		t.Error(err)
	}
	s := parsed(t, strings.Replace(space, "< 19", "< 1", 1))
	if _, err := s.Run(t.Context(), RunOptions{}, nil); err == nil || err.Error() != "space.toml: axes: expected at least one combination that is a configuration and fulfils every condition" {
		t.Error(err)
	}
}

// TestAxes: lists of rising numbers are in order, other lists are not; every level of a
// stepped range is a value of its own, on both scales.
func TestAxes(t *testing.T) {
	s := parsed(t, strings.NewReplacer("[3, 4, 5]", "[3, 5, 4]", "step = 0.1 }", "step = 0.1 }\nnode.memory_capacity = { min = \"512GiB\", max = \"4TiB\", scale = \"log\", step = \"256GiB\" }\npcie.latency = [\"1us\", \"2000ns\", \"1ms\"]\ngpu.memory_bandwidth = { min = \"1TB/s\", max = \"3TB/s\" }").Replace(space))
	want := []string{
		"node.ranksets: 4 to 16, 4 values", `node.memory_capacity: "512GiB" to "4TiB", 15 values`, "pcie.generation: 3, 5, 4 (no order)",
		"pcie.efficiency: 0.5 to 0.9, 5 values", `pcie.latency: "1us", "2000ns", "1ms"`, `comm.balance: "split", "least-loaded", "random" (no order)`,
		`gpu.memory_bandwidth: "1TB/s" to "3TB/s"`,
	}
	if got := s.Axes(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for i, v := range s.spreads {
		v := v.variable()
		seen := map[string]bool{}
		for _, u := range v.Levels {
			seen[s.spreads[i].value(min(u, math.Nextafter(1, 0)), 30)] = true
		}
		if len(seen) != len(v.Levels) || !slices.IsSorted(v.Levels) {
			t.Errorf("%s: %d values of %d levels", s.spreads[i].key, len(seen), len(v.Levels))
		}
	}
}

// TestViolationsAddUp: a point that violates two constraints is worse than one that violates one
// of them as much.
func TestViolationsAddUp(t *testing.T) {
	s := parsed(t, strings.Replace(space, `["ttft_mean_ms <= 24ms"]`, `["ttft_mean_ms <= 10", "node.ranksets <= 8"]`, 1))
	run := &searcher{Search: s, byValue: map[string]*design{}}
	seen := map[string]float64{}
	for _, genes := range [][]float64{{0.3, 0.2, 0.1, 0.2}, {0.6, 0.2, 0.1, 0.2}, {0.6, 0.2, 0.9, 0.2}} {
		choice, key := s.choice(genes)
		if err := run.admit(key, choice); err != nil {
			t.Fatal(err)
		}
		if err := run.runNew(t.Context()); err != nil {
			t.Fatal(err)
		}
		seen[choice.Settings[0].Value+choice.Settings[2].Value] = run.score(run.byValue[key]).Violation
	}
	want := map[string]float64{"80.5": 0.5, "120.5": 1, "120.9": 1.7 + 0.5}
	for key, v := range want {
		if math.Abs(seen[key]-v) > 1e-12 {
			t.Errorf("%v, not %v", seen, want)
		}
	}
}
