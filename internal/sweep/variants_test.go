package sweep

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/traces"
)

const variants = `repeats = 2
[set]
preset = "fair"
run.requests = 2
traces.max_tokens = 20000
run.model = "gpt-175b"
[grid]
node.channels = [16, 8]
[[list]]
name = "gpus"
run.system = "gpu-only"
[[list]]
name = "dimms"
run.system = "l3"
[[list]]
name = "dimms again"
run.system = "l3"
[[list]]
name = "pages"
run.system = "l3"
policy.name = "lserve"
`

// byVariant makes goodputs of variants that differ by seed, and throughputs in another order: long-prompts is best over both seeds on 16 channels, and striped on 8 except
// for a rejected request.
func byVariant(p *Plan) *Plan {
	p.Simulate = func(_ context.Context, point *Point, c *configs.Config, _ *traces.Trace) (*results.Summary, error) {
		s := &results.Summary{About: results.About{Seed: point.Seed}}
		each := map[string][2]float64{"": {1, 1}, "plain": {5, 5}, "striped": {9, 3}, "long-prompts": {6, 7}, "striped-long": {7, 6}}[c.Run.Variant]
		s.Goodput.TokensPerS = each[point.Seed-1]
		if c.Node.Channels == 8 && c.Run.Variant == "striped" {
			s.Goodput.TokensPerS *= 10
		}
		s.OutputTokensPerS = 100 - s.Goodput.TokensPerS
		if c.Node.Channels == 8 && c.Scheduler.MinPrefillTokens == 8192 {
			s.RejectedRequests = 1
		}
		return s, nil
	}
	return p
}

// TestBestVariant: for each combination the table has the best variant over all seeds, and names it. Variants that a policy does not
// support are left out. A file that names a variant, or sets what one sets, tries fewer.
func TestBestVariant(t *testing.T) {
	p := byVariant(plan(t, variants))
	if got := len(p.Points); got != 2*2*(5+9+9+4) {
		t.Errorf("%d points", got)
	}
	outcome, err := p.Run(context.Background(), RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tab, err := p.Table(outcome)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range tab.Rows {
		got = append(got, row[0].String())
	}
	want := ""
	for _, of := range []string{"node.channels=16", "node.channels=8"} {
		of = strings.TrimPrefix(of, "node.")
		for _, name := range []string{"gpus", "dimms", "dimms again", "pages"} {
			best := map[string]string{"gpuschannels=16": ",plain", "dimmschannels=16": ",long-prompts", "dimms againchannels=16": ",long-prompts", "pageschannels=16": ",long-prompts",
				"gpuschannels=8": ",plain", "dimmschannels=8": ",striped", "dimms againchannels=8": ",striped", "pageschannels=8": ",plain"}[name+of]
			want += strings.Repeat(of+","+name+best+"\n", 2)
		}
	}
	if text := strings.Join(got, "\n") + "\n"; text != want {
		t.Errorf("got\n%swant\n%s", text, want)
	}
	for _, c := range []struct {
		set    string
		points int
	}{{`run.variant = "striped"`, 2}, {`run.variant = ""`, 2}, {`comm.stripe = "channels"`, 8}} {
		text := "repeats = 2\n[set]\npreset = \"fair\"\nrun.requests = 2\n" + c.set + "\n"
		if p := plan(t, text); len(p.Points) != c.points {
			t.Errorf("%s: %d points, want %d", c.set, len(p.Points), c.points)
		}
	}
	axis := byVariant(plan(t, "[set]\npreset = \"fair\"\nrun.requests = 2\n[grid]\nrun.variant = [\"plain\", \"striped\"]\n"))
	if rows := strings.Count(csv(t, axis, RunOptions{}), "\n"); rows != 3 {
		t.Errorf("an axis of variants has %d lines, want all", rows)
	}
}

// TestVariantsInPieces: any number of workers, a journal and shards give the same results.
func TestVariantsInPieces(t *testing.T) {
	deep.Heavy(t)
	p := byVariant(plan(t, variants))
	want := whole(t, p, t.TempDir())
	if one := csv(t, p, RunOptions{Workers: 1}); one != want["results.csv"] || !strings.Contains(one, "run.variant") {
		t.Errorf("one worker:\n%s\nwant\n%s", one, want["results.csv"])
	}
	var dirs []string
	for i := range 3 {
		dir := t.TempDir()
		if runShard(t, p, Shard{i, 3}, dir, 3).Missing > 0 {
			runShard(t, p, Shard{i, 3}, dir, -1)
		}
		dirs = append(dirs, dir)
	}
	merged, err := Merge(dirs)
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := merged.Write(to); err != nil {
		t.Fatal(err)
	}
	sameFolder(t, folder(t, to), want)
	resumed, err := OpenJournal(to)
	if err != nil {
		t.Fatal(err)
	}
	defer resumed.Close()
	outcome, err := p.Run(context.Background(), RunOptions{Journal: resumed})
	if err != nil || outcome.Ran > 0 || table(t, p, outcome) != want["results.csv"] {
		t.Errorf("resumed: %d ran, %v", outcome.Ran, err)
	}
}

// TestDrawsOfTheBest: only draws of the best variants run, each once; a run resumed from a journal runs no more.
func TestDrawsOfTheBest(t *testing.T) {
	deep.Heavy(t)
	draws := deep.Of(3, 7, 7)
	text := strings.Replace(variants, "repeats = 2\n", "", 1)
	ranOnce := map[string]bool{}
	var mu sync.Mutex
	of := func() *Plan {
		p := byVariant(drawn(t, text, Bands{Draws: draws, Seed: 5}))
		nominal := p.Simulate
		p.Simulate = func(ctx context.Context, point *Point, c *configs.Config, trace *traces.Trace) (*results.Summary, error) {
			if point.draw == nil {
				return nominal(ctx, point, c, trace)
			}
			best := "striped" // with seed 1, on 16 channels and on 8
			if c.Policy.Name == "lserve" {
				best = c.Run.Variant // stripes are not supported: the nominal runs decide
			}
			mu.Lock()
			defer mu.Unlock()
			if ranOnce[point.Hash] || c.Run.System == "l3" && c.Run.Variant != best {
				t.Errorf("%s, draw %d: runs again or for nothing", point.Name, point.draw.index)
			}
			ranOnce[point.Hash] = true
			return &results.Summary{About: results.About{Seed: point.Seed}, Throughput: results.Throughput{OutputTokensPerS: 1}}, nil
		}
		return p
	}
	p := of()
	last := int64(0)
	journal, err := OpenJournal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	o := ran(t, p, RunOptions{Journal: journal, Progress: func(done, of int64) { last = done }, Workers: 1})
	if rows := len(p.drawn(o).Rows); rows != draws*2*4 || o.Missing != 0 || last != int64(len(p.Points)) {
		t.Errorf("%d draws, %d missing, %d of %d points done", rows, o.Missing, last, len(p.Points))
	}
	if runs := len(ranOnce); runs != draws*2*3 { // two lists are one
		t.Errorf("%d draws have run", runs)
	}
	if o := ran(t, of(), RunOptions{Journal: journal}); o.Ran != 0 || o.Missing != 0 {
		t.Errorf("%d points run again", o.Ran)
	}
	canceled, cancel := context.WithCancel(t.Context())
	stopped := of()
	stopped.Simulate = func(context.Context, *Point, *configs.Config, *traces.Trace) (*results.Summary, error) {
		cancel()
		return &results.Summary{}, nil
	}
	if o, err := stopped.Run(canceled, RunOptions{Workers: 1, Progress: func(done, _ int64) { last = done }}); err == nil || o.Left != 0 || o.Missing+o.Ran != len(stopped.Points) || last > 2 {
		t.Errorf("stopped after a point: %v, %d draws need not run, %d of %d are missing, %d done", err, o.Left, o.Missing, len(stopped.Points), last)
	}
	table, err := p.Table(o)
	if err != nil || len(table.Rows) != 2*4 {
		t.Fatal(err, table)
	}
	for i := range table.Rows {
		if n, _ := table.Float(i, tables.DrawsColumn); n != float64(draws) {
			t.Errorf("%v has %v draws", table.Rows[i][0], n)
		}
	}
	o.Entries[len(o.Entries)-1] = nil // the last variant of the pages
	o.Entries[p.Best(o)[0]+len(p.own())] = nil
	if _, err := p.Table(o); err == nil {
		t.Error("a table without a draw that counts")
	}
}

// TestInvalidCombinationWithVariants: if no variant of a combination is valid, each of its points keeps its error, beside valid points;
// with one valid variant none does. Numbers of combinations differ from those of points: each has several variants and two seeds.
func TestInvalidCombinationWithVariants(t *testing.T) {
	p := plan(t, `repeats = 2
where = "node.gpus == 4 || model.tensor_parallel > 2"
[set]
preset = "fair"
run.model = "llama-2-7b"
run.requests = 2
traces.max_tokens = 20000
run.system = "l3"
[grid]
node.gpus = [8, 4]
model.tensor_parallel = [2, 8, 4]
policy.name = ["dense", "lserve"]
`)
	got := map[string]int{} // points of each combination, without the variants' names; "!" marks an error
	for i := range p.Points {
		x := &p.Points[i]
		name := strings.TrimSuffix(x.Name, ","+x.variant)
		if x.Err != nil {
			name += "!"
		}
		got[name]++
	}
	want := map[string]int{}
	for _, of := range []string{"gpus=8,tensor_parallel=8", "gpus=8,tensor_parallel=4", "gpus=4,tensor_parallel=2", "gpus=4,tensor_parallel=8", "gpus=4,tensor_parallel=4"} {
		dense, pages := of+",name=dense", of+",name=lserve"
		if of == "gpus=4,tensor_parallel=8" { // a replica has at most the node's GPUs
			want[dense+"!"], want[pages+"!"] = 2*9, 2*9
			continue
		}
		want[dense], want[pages] = 2*9, 2*4 // stripes do not support pages
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
