package hostkv

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/pcie"
	"github.com/l3sim/l3sim/units"
)

// TestAloneByHand: a sample for each fetch, each fetch next to a product, and each iteration in kernel order that has its base, in this order. Iterations add a fourth of 2
// ms a layer; with fetched rows the error is relative to at least a tenth of the base's layer.
func TestAloneByHand(t *testing.T) {
	m := &Measured{
		Fetches: []Fetch{{US: 1}, {US: 2}}, Beside: []Beside{{Fetch: Fetch{US: 3}}, {Fetch: Fetch{US: 4}}},
		Iterations: []Row{
			{Mode: None, Batch: 2, Context: 100, Layers: 4, MS: 8}, {Mode: Inline, Batch: 2, Context: 100, Layers: 4, Misses: 5, MS: 10}, {Mode: Inline, Batch: 2, Context: 100, Layers: 4, MS: 9},
			{Mode: Two8, Batch: 2, Context: 100, Layers: 4, Misses: 5, MS: 11}, {Mode: Inline, Batch: 4, Context: 100, Layers: 4, Misses: 5, MS: 10}, // no base
		},
	}
	want := [][2]float64{{1, 0}, {2, 0}, {3, 0}, {4, 0}, {500, 200}, {250, 0}}
	var got [][2]float64
	for _, s := range m.alone() {
		got = append(got, [2]float64{s.measured, s.least})
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestPlantedFetches: the fit finds the parameters that generated the times.
func TestPlantedFetches(t *testing.T) {
	planted := pcie.MeasuredGather()
	planted.Start, planted.Share = 2*planted.Start, planted.Share*0.7
	var samples []sample
	for _, n := range []int64{1, 10, 100, 1000, 10_000, 100_000} {
		for _, bytes := range []units.Bytes{256, 4096} {
			rows := pcie.Rows{Count: n, Bytes: bytes, Region: 64 << 30, Grid: pcie.Grid{Blocks: 132, Threads: 512}}
			samples = append(samples, sample{measured: planted.Time(&rows, link(), 1).Microseconds(), of: func(g *pcie.Gather) float64 { return g.Time(&rows, link(), 1).Microseconds() }})
		}
	}
	start := pcie.MeasuredGather()
	if loss(&start, samples) < 0.1 || loss(&planted, samples) != 0 {
		t.Fatalf("the shipped parameters are off by %v, the planted ones by %v", loss(&start, samples), loss(&planted, samples))
	}
	if g, err := fit(samples); err != nil || loss(&g, samples) > 0.01 {
		t.Errorf("%+v is off by %v, %v", g, loss(&g, samples), err)
	}
}

// TestEachParameterIsFitted: times that differ from the shipped law by one parameter give that parameter.
func TestEachParameterIsFitted(t *testing.T) {
	deep.Heavy(t)
	times := func(g *pcie.Gather, r *pcie.Rows, finds bool) float64 {
		took := g.Time(r, link(), 1)
		if finds {
			took += g.LookUp
		}
		return took.Microseconds()
	}
	for i, p := range aloneParameters {
		planted := pcie.MeasuredGather()
		p.set(&planted, 0.7*p.get(&planted))
		var samples []sample
		for _, n := range []int64{1, 30, 1000, 30_000} {
			for _, bytes := range []units.Bytes{256, 4096} {
				for _, region := range []units.Bytes{1 << 30, 6 << 30, 64 << 30} {
					for _, blocks := range []int{1, 132} {
						for _, finds := range []bool{false, true} {
							rows := pcie.Rows{Count: n, Bytes: bytes, Region: region, Cold: true, Grid: pcie.Grid{Blocks: blocks, Threads: 512}}
							samples = append(samples, sample{measured: times(&planted, &rows, finds), of: func(g *pcie.Gather) float64 { return times(g, &rows, finds) }})
						}
					}
				}
			}
		}
		start := pcie.MeasuredGather()
		g, err := fit(samples)
		if before, after := loss(&start, samples), loss(&g, samples); err != nil || after > before/5 {
			t.Errorf("parameter %d: off by %v, before the fit %v; %v", i, after, before, err)
		}
		if got, want := p.get(&g), p.get(&planted); math.Abs(got/want-1) > 0.1 {
			t.Errorf("parameter %d is fitted as %v, planted %v", i, got, want)
		}
	}
}

// TestFilesOfAMachine: each of the three files is read, and each one's error is returned.
func TestFilesOfAMachine(t *testing.T) {
	good := map[string]string{
		"fetch.csv":  strings.Join(fetchColumns, ",") + "\n3,uniform,256,10,20,64,1.5\n",
		"beside.csv": strings.Join(besideColumns, ",") + "\n256,10,20,64,30,1,2,3,4\n",
		"hostkv.csv": strings.Join(Columns, ",") + "\nnone,8,100,0,16,1,0\n",
	}
	read := func(files map[string]string) (Measured, error) {
		dir := t.TempDir()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return ReadAll(dir)
	}
	m, err := read(good)
	rows := pcie.Rows{Count: 10, Bytes: 256, Region: 3 << 30, Grid: pcie.Grid{Blocks: 20, Threads: 64}}
	near := rows
	near.Region = 32 * 32768 * 256
	if err != nil || len(m.Fetches) != 1 || len(m.Beside) != 1 || len(m.Iterations) != 1 || m.Fetches[0] != (Fetch{rows, 1.5, 2, "3 GiB, uniform"}) ||
		m.Beside[0] != (Beside{Fetch{near, 1, 2, ""}, 30, 2, 3, 4}) || m.Iterations[0] != (Row{None, 8, 100, 0, 16, 1, 0, 2}) {
		t.Errorf("%+v, %v", m, err)
	}
	for name := range good {
		bad := maps.Clone(good)
		bad[name] = "x\n1\n"
		if _, err := read(bad); err == nil || !strings.Contains(err.Error(), name+":1: columns = x: ") {
			t.Errorf("a wrong %s: %v", name, err)
		}
		delete(bad, name)
		if _, err := read(bad); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("no %s: %v", name, err)
		}
	}
	good["fetch.csv"] = strings.Replace(good["fetch.csv"], "uniform", "near", 1)
	if _, err := read(good); err == nil || !strings.HasSuffix(err.Error(), "fetch.csv:2: locality = near: expected uniform or local") {
		t.Errorf("another locality: %v", err)
	}
}

// TestLimitsOfNumbers: both ends of a column's range.
func TestLimitsOfNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"1e-9": "", "9e-10": "a number of at least 1e-09", "999999999999": "", "1e12": "a number of at least 1e-09", "x": "a number of at least 1e-09",
	} {
		r := &record{columns: []string{"a", "b"}, fields: []string{"7", text}}
		if x := r.number("b", 1e-9); (r.err == nil) != (want == "") || r.err != nil && !strings.HasSuffix(r.err.Error(), "b = "+text+": expected "+want) || want == "" && x == 7 {
			t.Errorf("%s: %v, %v", text, x, r.err)
		}
	}
	for text, want := range map[string]string{"3": "", "2": "a whole number of at least 3", "1073741824": "", "1073741825": "a whole number of at least 3"} {
		r := &record{columns: []string{"a", "b"}, fields: []string{"7", text}}
		if n := r.whole("b", 3); (r.err == nil) != (want == "") || r.err != nil && !strings.HasSuffix(r.err.Error(), "b = "+text+": expected "+want) || want == "" && n == 7 {
			t.Errorf("%s: %v, %v", text, n, r.err)
		}
	}
}

// TestErrorsOfRatiosByHand: 10% too long, 30% too short, 50% too long and exact.
func TestErrorsOfRatiosByHand(t *testing.T) {
	got := errorsOf([]float64{1.1, 0.7, 1.5, 1})
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }
	if got.Rows != 4 || !near(got.Bias, 0.075) || got.Median < 0.1-1e-12 || got.Median > 0.3 || got.P90 < 0.3 || got.P90 > 0.5+1e-12 {
		t.Errorf("%+v", got)
	}
	if got := errorsOf([]float64{0.5}); !near(got.Bias, -0.5) || !near(got.Median, 0.5) || !near(got.P90, 0.5) {
		t.Errorf("%+v", got)
	}
	if got := errorsOf(nil); got != (Errors{}) {
		t.Errorf("%+v", got)
	}
}

// TestParametersOfFetches: setting a parameter changes only the field from which it is read.
func TestParametersOfFetches(t *testing.T) {
	start := pcie.MeasuredGather()
	changed := map[pcie.Gather]bool{}
	for i, p := range aloneParameters {
		g := start
		p.set(&g, 2*p.get(&start))
		if got, want := p.get(&g), 2*p.get(&start); math.Abs(got/want-1) > 0.01 {
			t.Errorf("parameter %d: %v, want %v", i, got, want)
		}
		for k, other := range aloneParameters {
			if k != i && other.get(&g) != other.get(&start) {
				t.Errorf("parameter %d changes parameter %d", i, k)
			}
		}
		changed[g] = true
	}
	if len(changed) != 7 || changed[start] {
		t.Errorf("%d numbers", len(changed))
	}
}

// TestLossByHand: exact; exact because times below 5 us do not count; half as long; and three times
// 5 us.
func TestLossByHand(t *testing.T) {
	of := func(us float64) func(*pcie.Gather) float64 { return func(*pcie.Gather) float64 { return us } }
	samples := []sample{{measured: 10, of: of(10)}, {measured: 3, of: of(4), least: 5}, {measured: 20, of: of(10)}, {measured: 2, of: of(15), least: 5}}
	g := pcie.MeasuredGather()
	if got, want := loss(&g, samples), (math.Log(2)+math.Log(3))/4; math.Abs(got-want) > 1e-12 {
		t.Errorf("%v, want %v", got, want)
	}
}
