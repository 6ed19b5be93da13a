package sweep

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system"
)

// short is a run of some milliseconds, since many are needed here.
const short = `
[set]
run.model = "llama-2-7b"
run.requests = 3
run.trace = "synthetic"
traces.input_mean = 200
traces.input_std = 100
traces.output_mean = 40
traces.output_std = 20
`

// drawn returns a plan with draws.
func drawn(t *testing.T, text string, b Bands) *Plan {
	t.Helper()
	p := plan(t, text)
	if err := p.Draw(b); err != nil {
		t.Fatal(err)
	}
	return p
}

// ran returns the outcome of a plan.
func ran(t *testing.T, p *Plan, o RunOptions) *Outcome {
	t.Helper()
	out, err := p.Run(context.Background(), o)
	if err != nil || out.Failed > 0 {
		t.Fatal(err, Failures(p.Points, out))
	}
	return out
}

// ranking returns the pairs of a plan by their throughput.
func ranking(t *testing.T, p *Plan) *tables.Table {
	t.Helper()
	r, err := p.drawn(ran(t, p, RunOptions{})).Rank("--rank", "output_tokens_per_s", "--group")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// twice is a system under two names; the second may have a setting of its own.
const twice = short + `
[[list]]
name = "this"
gpu.scale.products = "1 [0.879, 1.138] measured"
gpu.scale.prefill_attention = "1 [0.888, 1.126] measured"
gpu.scale.decode_attention = "1 [0.888, 1.127] measured"
gpu.scale.all_reduce = "1 [0.774, 1.292] assumption"
gpu.scale.small_kernels = "1 [0.774, 1.292] assumption"

[[list]]
name = "that"
`

// faster has a GPU whose kernels are all 1% faster than the first one's, in any draw.
const faster = `
gpu.scale.products = "0.99 [0.87021, 1.12662] measured"
gpu.scale.prefill_attention = "0.99 [0.87912, 1.11474] measured"
gpu.scale.decode_attention = "0.99 [0.87912, 1.11573] measured"
gpu.scale.all_reduce = "0.99 [0.76626, 1.27908] assumption"
gpu.scale.small_kernels = "0.99 [0.76626, 1.27908] assumption"
`

// TestSureness: equal systems tie in all draws, or win about half of independent ones. A system on a GPU that is 1% faster wins
// nearly all draws that share the GPU's kernels, and not independent ones.
func TestSureness(t *testing.T) {
	deep.Heavy(t)
	for _, c := range []struct {
		name, system, second string
		bands                Bands
		least, most          float64 // share of wins
		verdict              string
	}{
		{"equal", "l3", "", Bands{Draws: 40, Seed: 1}, 0.5, 0.5, "tie"},
		{"equal, independent", "l3", "", Bands{Draws: 200, Seed: 1, Independent: true}, 0.5, 0.6, "tie"},
		{"faster GPU", "gpu-only", faster, Bands{Draws: 60, Seed: 1}, 0.95, 1, "wins"},
		{"faster GPU of l3", "l3", faster, Bands{Draws: 60, Seed: 2}, 0.95, 1, "wins"},
		{"faster GPU, independent", "gpu-only", faster, Bands{Draws: 60, Seed: 1, Independent: true}, 0.5, 0.75, "tie"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.bands.Draws > 100 || c.second != "" && (c.system == "l3" || c.bands.Independent) {
				deep.Only(t)
			}
			text := strings.Replace(twice, "[set]", "[set]\nrun.system = \""+c.system+"\"", 1)
			if c.second == "" { // the same keys, so that both draw alike
				c.second = strings.Split(strings.Split(twice, "name = \"this\"\n")[1], "\n[[list]]")[0]
			}
			r := ranking(t, drawn(t, text+c.second, c.bands))
			share, _ := r.Float(0, "share")
			if len(r.Rows) != 1 || share < c.least || share > c.most || r.Value(0, "verdict").String() != c.verdict {
				t.Errorf("%v, want a share of %v to %v: %s", r.Rows, c.least, c.most, c.verdict)
			}
			if n, _ := r.Float(0, tables.DrawsColumn); int(n) != c.bands.Draws {
				t.Errorf("%v of %d draws were compared", n, c.bands.Draws)
			}
			if strings.HasPrefix(c.name, "faster") && r.Value(0, tables.PointColumn).String() != "that" {
				t.Errorf("%v is better than the GPU that is faster", r.Value(0, tables.PointColumn))
			}
		})
	}
}

const twoSystems = short + "[grid]\nrun.system = [\"l3\", \"gpu-only\"]\n"

// files returns the contents of a folder of results, by name.
func files(t *testing.T, p *Plan, o *Outcome) map[string]string {
	t.Helper()
	f, err := p.Folder("sweep", o, func(io.Writer) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, file := range f.Files() {
		var b bytes.Buffer
		if err := file.Write(&b); err != nil {
			t.Fatal(err)
		}
		all[file.Name] = b.String()
	}
	return all
}

// TestDrawsAreReproducible: workers and interruptions change no byte, another seed does.
func TestDrawsAreReproducible(t *testing.T) {
	deep.Heavy(t)
	b := Bands{Draws: 3, Seed: 7}
	one := files(t, drawn(t, twoSystems, b), ran(t, drawn(t, twoSystems, b), RunOptions{Workers: 1}))
	if got := files(t, drawn(t, twoSystems, b), ran(t, drawn(t, twoSystems, b), RunOptions{Workers: 5})); fmt.Sprint(got) != fmt.Sprint(one) {
		t.Error("the number of workers changes results")
	}
	dir := t.TempDir()
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := drawn(t, twoSystems, b)
	stop, cancel := context.WithCancel(context.Background())
	if _, err := p.Run(stop, RunOptions{Journal: j, Workers: 1, Progress: func(done, _ int64) {
		if done == 4 {
			cancel()
		}
	}}); err == nil {
		t.Fatal("not interrupted")
	}
	again := drawn(t, twoSystems, b)
	o := ran(t, again, RunOptions{Journal: j})
	if o.Reused != 4 || o.Ran != 4 {
		t.Errorf("%d reused, %d run", o.Reused, o.Ran)
	}
	if fmt.Sprint(files(t, again, o)) != fmt.Sprint(one) {
		t.Error("an interruption changes results")
	}
	draws := map[int]int{}
	for _, e := range j.entries {
		draws[e.Draw]++
	}
	if fmt.Sprint(draws) != "map[0:2 1:2 2:2 3:2]" {
		t.Errorf("the journal has draws %v", draws)
	}
	if err := again.Write(dir, o); err != nil {
		t.Fatal(err)
	}
	if _, err := tables.ReadDraws(dir); err != nil {
		t.Error(err)
	}
	if err := plan(t, twoSystems).Write(dir, ran(t, plan(t, twoSystems), RunOptions{Journal: j})); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "draws.*")); len(left) > 0 {
		t.Errorf("a sweep without draws leaves %v of an earlier one", left)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	b.Seed = 8
	if other := files(t, drawn(t, twoSystems, b), ran(t, drawn(t, twoSystems, b), RunOptions{})); other[tables.DrawsFile] == one[tables.DrawsFile] {
		t.Error("the seed of the draws changes nothing")
	}
}

// TestPercentilesOfDraws: a point's row is that of a sweep without draws, followed by nearest-rank percentiles of its
// draws.
func TestPercentilesOfDraws(t *testing.T) {
	deep.Heavy(t)
	p := drawn(t, twoSystems, Bands{Draws: 11, Seed: 3})
	o := ran(t, p, RunOptions{})
	with, err := p.Table(o)
	if err != nil {
		t.Fatal(err)
	}
	without, err := plan(t, twoSystems).Table(ran(t, plan(t, twoSystems), RunOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	all := p.drawn(o)
	if len(with.Rows) != len(without.Rows) || len(all.Rows) != 11*len(without.Rows) {
		t.Fatalf("%d points, %d draws", len(with.Rows), len(all.Rows))
	}
	for i, row := range without.Rows {
		if fmt.Sprint(with.Rows[i][:len(row)]) != fmt.Sprint(row) {
			t.Errorf("the row without draws is\n%v\nand with draws\n%v", row, with.Rows[i])
		}
		for _, c := range bandColumns {
			if !slices.Contains(results.MetricNames(), c) {
				t.Fatalf("%s is no metric", c)
			}
			var values []float64
			for r := range all.Rows {
				if all.Value(r, tables.PointColumn) == with.Value(i, tables.PointColumn) {
					v, _ := all.Float(r, c)
					values = append(values, v)
				}
			}
			slices.Sort(values)
			low, _ := with.Float(i, c+tables.LowEnd)
			high, _ := with.Float(i, c+tables.HighEnd)
			if len(values) != 11 || low != values[1] || high != values[9] { // of 11, ranks 2 and 10
				t.Errorf("%s: percentiles %v and %v of %v", c, low, high, values)
			}
			if c == "output_tokens_per_s" && low >= high {
				t.Error("draws change nothing")
			}
		}
		if n, _ := with.Float(i, tables.DrawsColumn); n != 11 {
			t.Errorf("%v draws", n)
		}
	}
}

// TestDrawIsAConfiguration: settings repeat a draw; keys that the sweep sets, and its seed, are not drawn.
func TestDrawIsAConfiguration(t *testing.T) {
	p := drawn(t, strings.Replace(twoSystems, "[set]", "[set]\nenergy.board = \"900\"\nenergy.link = \"3 [2, 4] press\"", 1)+"pcie.latency = [\"4us\", \"5us\"]\n", Bands{Draws: 2, Seed: 1})
	for i := range p.Points[p.count:] {
		point := &p.Points[p.count+i]
		var drawn []string
		o := p.options(p.settings(point.combination))
		for _, s := range point.draw.settings {
			drawn = append(drawn, s.Key)
			o.Sets = append(o.Sets, s.Key+"="+s.Value)
		}
		o.Sets = append(o.Sets, fmt.Sprintf("run.seed=%d", point.Seed))
		// Settings of axes are no --set here: flags override them.
		o.Flags = slices.DeleteFunc(o.Flags, func(f configs.Flag) bool { return f.Key == "energy.link" })
		c, err := system.Configs().Load(o)
		if err != nil {
			t.Fatal(err)
		}
		if hash, _ := c.SHA256(); hash != point.config {
			t.Errorf("draw %d of %s is not what its settings say", point.draw.index, point.Name)
		}
		if runs, err := p.Config(point); err != nil {
			t.Error(err)
		} else if hash, _ := runs.SHA256(); hash != point.config {
			t.Errorf("draw %d of %s runs another configuration", point.draw.index, point.Name)
		}
		for key, want := range map[string]bool{"energy.board": false, "pcie.latency": false, "energy.link": true, "pcie.efficiency": true, "gpu.scale.products": true,
			"prices.server": true, "hbm_pim.bandwidth_factor": true} {
			if slices.Contains(drawn, key) != want {
				t.Errorf("%s is drawn: %v", key, !want)
			}
		}
	}
	fixed := drawn2(t, "run.seed = 9\n")
	if fixed.Points[1].Seed != 9 || fixed.Points[2].Seed != 9 {
		t.Error("a seed that is set is drawn")
	}
	free := drawn2(t, "")
	if free.Points[1].Seed == free.Points[2].Seed || free.Points[1].Hash == free.Points[2].Hash {
		t.Error("draws have one seed")
	}
	if free.Points[1].Requests != 3 {
		t.Errorf("a draw has %d requests", free.Points[1].Requests)
	}
}

// drawn2 returns two draws of one point.
func drawn2(t *testing.T, set string) *Plan {
	return drawn(t, strings.Replace(short, "[set]\n", "[set]\n"+set, 1), Bands{Draws: 2, Seed: 1})
}

// settingOf returns the drawn value of a point's key.
func settingOf(p *Plan, point int, key string) string {
	if s := design.FindSetting(p.Points[point].draw.settings, key); s != nil {
		return s.Value
	}
	return ""
}

// TestWhatPointsShare: in one draw all points share constants, prices and links, and points on one GPU share its
// kernels.
func TestWhatPointsShare(t *testing.T) {
	text := short + "[grid]\nrun.system = [\"l3\", \"gpu-only\"]\ngpu.preset = [\"a100-sxm-80gb\", \"a100-sxm-40gb\"]\n"
	shared := drawn(t, text, Bands{Draws: 1, Seed: 5})
	alone := drawn(t, text, Bands{Draws: 1, Seed: 5, Independent: true})
	first := shared.count // l3 on 80, l3 on 40, gpu-only on 80, gpu-only on 40
	for _, c := range []struct {
		key      string
		one, two int
		equal    bool
	}{
		{"energy.board", 0, 1, true}, {"prices.server", 0, 3, true}, {"pcie.latency", 0, 3, true},
		{"gpu.scale.products", 0, 2, true}, {"gpu.scale.all_reduce", 1, 3, true}, {"gpu.scale.all_reduce", 0, 1, false},
		{"energy.gpu_factor", 0, 2, true}, {"energy.gpu_factor", 0, 1, false},
	} {
		if a, b := settingOf(shared, first+c.one, c.key), settingOf(shared, first+c.two, c.key); a == "" || (a == b) != c.equal {
			t.Errorf("%s: points %d and %d draw %s and %s", c.key, c.one, c.two, a, b)
		}
		if a, b := settingOf(alone, first+c.one, c.key), settingOf(alone, first+c.two, c.key); a == b {
			t.Errorf("%s: points that draw by themselves both draw %s", c.key, a)
		}
	}
	if shared.Points[first].Seed != shared.Points[first+3].Seed || alone.Points[first].Seed == alone.Points[first+3].Seed {
		t.Error("seeds of traces are shared where they must not be, or the other way about")
	}
	if a, b := settingOf(shared, first, "gpu.scale.all_reduce"), settingOf(shared, first, "gpu.scale.decode_attention"); a == b {
		t.Error("kinds of kernels draw as one")
	}
}

// TestUnitsAreNotKernels: times of the GPUs' decode attention are not those of units in memory.
func TestUnitsAreNotKernels(t *testing.T) {
	p := plan(t, short+"[grid]\nrun.system = [\"hbm-pim\", \"l3\", \"gpu-only\"]\ngpu.scale.decode_attention = [\"1\", \"3\"]\n")
	o := ran(t, p, RunOptions{})
	for i, system := range []string{"hbm-pim", "l3", "gpu-only"} {
		one, three := o.Entries[2*i].Summary.OutputTokensPerS, o.Entries[2*i+1].Summary.OutputTokensPerS
		if (one == three) != (system != "gpu-only") || three > one {
			t.Errorf("%s: %v tokens/s, with three times the time of decode attention %v", system, one, three)
		}
	}
}

// TestPlacesAreEven: draws are uniform for every key (Kolmogorov-Smirnov, 1 in 10,000).
func TestPlacesAreEven(t *testing.T) {
	c, err := system.Configs().Load(configs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const n = 2000
	for _, key := range []string{"gpu.scale.products", "run.seed", "energy.board"} {
		places := make([]float64, n)
		for i := range places {
			places[i] = (&Bands{Seed: 1}).place(&Point{draw: &draw{index: i + 1}}, c, key)
		}
		slices.Sort(places)
		worst := 0.0
		for i, x := range places {
			worst = max(worst, math.Abs(x-(float64(i)+0.5)/n))
		}
		if worst > 2.2/math.Sqrt(n) {
			t.Errorf("%s: %v off an even spread", key, worst)
		}
	}
}

// TestBadBands: bands that cannot be drawn are refused.
func TestBadBands(t *testing.T) {
	for _, c := range []struct {
		text  string
		draws int
		want  string
	}{
		{short, 0, "--bands = 0"}, {short, -1, "--bands = -1"}, {short, 100_000, "1 to 99999 draws of 1 point"},
		{"repeats = 2\n" + short, 3, "repeats"},
	} {
		err := plan(t, c.text).Draw(Bands{Draws: c.draws, Seed: 1})
		if bad, is := err.(*input.Error); !is || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d draws: %v, %v", c.draws, bad, err)
		}
	}
}

// TestInvalidPointsHaveNoDraws: an invalid combination fails once, and its percentiles are empty.
func TestInvalidPointsHaveNoDraws(t *testing.T) {
	p := fake(drawn(t, short+"[grid]\nnode.gpus = [4, 8]\nmodel.tensor_parallel = [2, 8]\n", Bands{Draws: 2, Seed: 1}))
	o, err := p.Run(context.Background(), RunOptions{})
	if err != nil || o.Failed != 1 || len(p.Points) != 4+3*2 {
		t.Fatal(err, o, len(p.Points))
	}
	tab, err := p.Table(o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range tab.Rows {
		n, _ := tab.Float(i, tables.DrawsColumn)
		if _, has := tab.Float(i, "output_tokens_per_s"+tables.LowEnd); has != (n == 2) || has != (tab.Value(i, tables.StatusColumn).String() == tables.StatusDone) {
			t.Errorf("row %d: %v draws, percentile %v", i, n, has)
		}
	}
}
