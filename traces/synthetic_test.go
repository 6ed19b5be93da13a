package traces

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/input"
)

// paperSpec has the draw of lengths of the system presets.
var paperSpec = SyntheticSpec{Distribution: Auto, MaxTokens: 32768}

// TestBuiltins compares with Table 4 of the L3 paper, and with Mooncake's file.
func TestBuiltins(t *testing.T) {
	want := []builtin{
		{"openr1", meanAndDeviation{96.0, 75.1}, meanAndDeviation{12684.1, 8464.6}},
		{"dolphin", meanAndDeviation{201.9, 563.0}, meanAndDeviation{3926.2, 4216.0}},
		{"openthoughts", meanAndDeviation{89.4, 66.7}, meanAndDeviation{6366.7, 4662.9}},
		{"longbench", meanAndDeviation{7703.9, 4285.5}, meanAndDeviation{89.8, 213.7}},
		{"mooncake", meanAndDeviation{12035.1, 15800.3}, meanAndDeviation{342.6, 249.9}},
	}
	if !slices.Equal(builtins, want) {
		t.Errorf("got %v, want %v", builtins, want)
	}
}

func TestSyntheticMoments(t *testing.T) {
	for _, b := range builtins {
		for seed := range uint64(5) {
			trace, err := Synthetic(b.name, 1000, seed, paperSpec)
			if err != nil {
				t.Fatal(err)
			}
			m := trace.Moments()
			// The mean holds up to one rounding of the whole sample.
			if want := math.Round(1000 * b.input.mean); math.Abs(float64(m.InputTokens)-want) > 1 {
				t.Errorf("%s: %d input tokens, want %v", b.name, m.InputTokens, want)
			}
			if want := math.Round(1000 * b.output.mean); math.Abs(float64(m.OutputTokens)-want) > 1 {
				t.Errorf("%s: %d output tokens, want %v", b.name, m.OutputTokens, want)
			}
			// Clipping reduces the deviation, and that of a log-normal sample scatters widely.
			for _, c := range []struct {
				l   meanAndDeviation
				got float64
			}{{b.input, m.InputStd}, {b.output, m.OutputStd}} {
				low, high := 0.9, 1.1
				if c.l.std/c.l.mean > autoLimit {
					low, high = 0.5, 2
				}
				if ratio := c.got / c.l.std; ratio < low || ratio > high {
					t.Errorf("%s seed %d: standard deviation %v, want about %v", b.name, seed, c.got, c.l.std)
				}
			}
		}
	}
}

// TestDistributionMoments checks the parameters derived from mean and standard
// deviation on large samples, before rounding and clipping.
func TestDistributionMoments(t *testing.T) {
	for _, l := range []meanAndDeviation{{100, 50}, {12684.1, 8464.6}, {200, 240}} {
		for _, kind := range []string{Gamma, LogNormal, Auto} {
			random := l.distribution(kind, rand.NewPCG(1, 1))
			x := make([]float64, 200_000)
			for i := range x {
				x[i] = random.Rand()
			}
			mean, std := stat.MeanStdDev(x, nil)
			if math.Abs(mean/l.mean-1) > 0.02 || math.Abs(std/l.std-1) > 0.05 {
				t.Errorf("%s of %+v: mean %v, standard deviation %v", kind, l, mean, std)
			}
		}
	}
}

func TestSyntheticLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(BuiltinNames()).Draw(t, "name")
		n := rapid.IntRange(1, 50).Draw(t, "n")
		seed := rapid.Uint64().Draw(t, "seed")
		spec := SyntheticSpec{
			Distribution: rapid.SampledFrom([]string{Auto, Gamma, LogNormal, Fixed}).Draw(t, "distribution"),
			MaxTokens:    rapid.IntRange(12685, 40000).Draw(t, "max"),
			InputMean:    rapid.Float64Range(1, 12000).Draw(t, "input mean"), InputStd: rapid.Float64Range(0, 12000).Draw(t, "input std"),
			OutputMean: rapid.Float64Range(1, 12000).Draw(t, "output mean"), OutputStd: rapid.Float64Range(0, 12000).Draw(t, "output std"),
		}
		a, err := Synthetic(name, n, seed, spec)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range a.Requests {
			if r.ID != i || r.Arrival != 0 || r.Input < 1 || r.Input > spec.MaxTokens || r.Output < 1 || r.Output > spec.MaxTokens {
				t.Fatalf("request %d: %+v", i, r)
			}
		}
		b, err := Synthetic(name, n, seed, spec)
		if err != nil || !same(a.Requests, b.Requests) {
			t.Fatalf("the same seed gave other requests, %v", err)
		}
	})
}

// TestSyntheticStreams checks that seeds, data sets and columns have streams
// of their own.
func TestSyntheticStreams(t *testing.T) {
	draw := func(name string, seed uint64) []Request {
		trace, err := Synthetic(name, 400, seed, paperSpec)
		if err != nil {
			t.Fatal(err)
		}
		return trace.Requests
	}
	column := func(requests []Request, of func(Request) int) []float64 {
		x := make([]float64, len(requests))
		for i, r := range requests {
			x[i] = float64(of(r))
		}
		return x
	}
	in := func(r Request) int { return r.Input }
	out := func(r Request) int { return r.Output }
	a := draw("openr1", 1)
	for name, c := range map[string]float64{
		"input and output": stat.Correlation(column(a, in), column(a, out), nil),
		"two seeds":        stat.Correlation(column(a, out), column(draw("openr1", 2), out), nil),
		"two data sets":    stat.Correlation(column(a, out), column(draw("openthoughts", 1), out), nil),
	} {
		if math.Abs(c) > 0.2 { // four standard errors of 400 independent pairs
			t.Errorf("%s correlate: %v", name, c)
		}
	}
}

// TestSyntheticGolden pins the requests of a seed: changing them changes every published result. TestSyntheticMoments checks their
// distribution.
func TestSyntheticGolden(t *testing.T) {
	trace, err := Synthetic("openr1", 3, 1, paperSpec)
	if err != nil {
		t.Fatal(err)
	}
	want := []Request{{ID: 0, Arrival: 0, Input: 111, Output: 3071}, {ID: 1, Arrival: 0, Input: 95, Output: 22604}, {ID: 2, Arrival: 0, Input: 82, Output: 12377}}
	if !same(trace.Requests, want) {
		t.Errorf("got %+v, want %+v", trace.Requests, want)
	}
}

// TestFixed: every request has the mean, rounded to the nearest token; with a standard deviation of 0 every distribution is fixed.
func TestFixed(t *testing.T) {
	for _, spec := range []SyntheticSpec{
		{Distribution: Fixed, MaxTokens: 999, InputMean: 500.4, InputStd: 70, OutputMean: 7, OutputStd: 99},
		{Distribution: Gamma, MaxTokens: 999, InputMean: 500.4, OutputMean: 7}, {Distribution: Gamma, MaxTokens: 999, InputMean: 500.4, InputStd: 1e-200, OutputMean: 7, OutputStd: 1e-300}, {Distribution: Auto, MaxTokens: 999, InputMean: 500.4, OutputMean: 7},
	} {
		trace, err := Synthetic(Own, 50, 3, spec)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range trace.Requests {
			if r.Input != 500 || r.Output != 7 {
				t.Fatalf("%+v of %+v", r, spec)
			}
		}
	}
}

// TestOwnMoments: "synthetic" requests have the moments that were asked for, as far as a sample can.
func TestOwnMoments(t *testing.T) {
	for _, kind := range []string{Gamma, LogNormal, Auto} {
		trace, err := Synthetic(Own, 20_000, 1, SyntheticSpec{Distribution: kind, MaxTokens: 1 << 20, InputMean: 1000, InputStd: 500, OutputMean: 300, OutputStd: 240})
		if err != nil {
			t.Fatal(err)
		}
		m := trace.Moments()
		if m.InputTokens != 20_000_000 || m.OutputTokens != 6_000_000 || math.Abs(m.InputStd/500-1) > 0.05 || math.Abs(m.OutputStd/240-1) > 0.05 {
			t.Errorf("%s: %+v", kind, m)
		}
	}
}

// TestRedraw draws whole requests, each equally likely, and drops their shared prefixes.
func TestRedraw(t *testing.T) {
	trace := &Trace{Name: "x", Format: "vidur", Requests: []Request{
		{Arrival: 5, Input: 1, Output: 10, Hashes: []uint64{7}}, {Arrival: 6, Input: 2, Output: 20, Turn: &Turn{}}, {Arrival: 7, Input: 3, Output: 30, Turn: &Turn{Number: 1}}, {Arrival: 9, Input: 3, Output: 99},
	}}
	drawn, err := trace.Redraw(40_000, 1)
	if err != nil || drawn.Name != "x" || drawn.Format != "vidur" {
		t.Fatal(err)
	}
	count := map[[2]int]int{}
	for i, r := range drawn.Requests {
		if r.ID != i || r.Arrival != 0 || r.Hashes != nil || r.Turn != nil {
			t.Fatalf("%+v", r)
		}
		count[[2]int{r.Input, r.Output}]++
	}
	for _, r := range trace.Requests {
		if n := count[[2]int{r.Input, r.Output}]; n < 9600 || n > 10400 { // a deviation of 87
			t.Errorf("%+v was drawn %d times", r, n)
		}
	}
	if len(count) != 4 {
		t.Errorf("%d pairs of lengths", len(count))
	}
	again, _ := trace.Redraw(40_000, 1)
	other, _ := trace.Redraw(40_000, 2)
	if !same(again.Requests, drawn.Requests) || same(other.Requests, drawn.Requests) {
		t.Error("the seed does not decide what is drawn")
	}
	if whole, err := trace.Redraw(0, 1); err != nil || len(whole.Requests) != 4 {
		t.Error(err)
	}
	if _, err := trace.Redraw(MaxRequests+1, 1); err == nil {
		t.Error("too many are drawn")
	}
}

func TestRescale(t *testing.T) {
	for _, c := range []struct {
		raw   []float64
		mean  float64
		limit int
		want  []int
	}{
		{[]float64{1, 2, 3}, 4, 100, []int{2, 4, 6}},
		{[]float64{1, 2, 30}, 4, 8, []int{1, 3, 8}},
		{[]float64{5, 5}, 10, 10, []int{10, 10}},
		{[]float64{0, 0}, 10, 10, []int{1, 1}},
	} {
		scale := rescale(c.raw, c.mean, c.limit)
		var got []int
		for _, x := range c.raw {
			got = append(got, length(x*scale, c.limit))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v to a mean of %v: got %v (factor %v), want %v", c.raw, c.mean, got, scale, c.want)
		}
	}
}

func TestSyntheticErrors(t *testing.T) {
	good := paperSpec
	for _, c := range []struct {
		name string
		n    int
		spec SyntheticSpec
		want string
	}{
		{"open-thoughts", 1, good, `did you mean "openthoughts"?`},
		{"OpenR1", 1, good, `did you mean "openr1"?`},
		{"openr1", 0, good, "run.requests = 0: expected 1 to"},
		{"openr1", 1, SyntheticSpec{Distribution: "gama", MaxTokens: 32768}, `did you mean "gamma"?`},
		{"openr1", 1, SyntheticSpec{Distribution: Auto}, "max_tokens = 0: expected 1 to"},
		{"openr1", 1, SyntheticSpec{Distribution: Auto, MaxTokens: 8000}, "traces.max_tokens = 8000: expected at least 12685, a mean length of openr1"},
		{"openr1", 1, SyntheticSpec{Distribution: Empirical, MaxTokens: 32768}, `traces.distribution = "empirical": expected another one with run.trace = "openr1", or a file`},
		{Own, 1, good, `traces.input_mean = 0: expected at least 1 with run.trace = "synthetic"`},
		{Own, 1, SyntheticSpec{Distribution: Auto, MaxTokens: 9, InputMean: 5, OutputMean: 0.5}, `traces.output_mean = 0.5: expected at least 1`},
		{Own, 1, SyntheticSpec{Distribution: Auto, MaxTokens: 9, InputMean: 5, OutputMean: 10}, "traces.max_tokens = 9: expected at least 10, a mean length of synthetic"},
		{Own, 1, SyntheticSpec{Distribution: Auto, MaxTokens: 9, InputMean: 5, InputStd: math.NaN(), OutputMean: 5}, "input_std = NaN: expected 0 to"},
	} {
		_, err := Synthetic(c.name, c.n, 1, c.spec)
		var bad *input.Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

func BenchmarkSynthetic(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Synthetic("openr1", 1000, 1, paperSpec); err != nil {
			b.Fatal(err)
		}
	}
}

// TestAddPrefixes: every prompt grows by the prefix. Two prompts begin with the same whole blocks if and only if they have the same prefix,
// and share no further ones. Each prefix is drawn about equally often. Without a prefix nothing changes.
func TestAddPrefixes(t *testing.T) {
	spec := SyntheticSpec{Distribution: Auto, MaxTokens: 32768, Prefixes: 3}
	plain, err := Synthetic("longbench", 300, 1, spec)
	if err != nil {
		t.Fatal(err)
	}
	spec.PrefixTokens = 1500 // two whole blocks
	trace, err := Synthetic("longbench", 300, 1, spec)
	if err != nil {
		t.Fatal(err)
	}
	drawn, seen := map[uint64]int{}, map[uint64]bool{}
	for i, r := range trace.Requests {
		if p := plain.Requests[i]; p.Hashes != nil || r.Input != p.Input+1500 || r.Output != p.Output || len(r.Hashes) != (r.Input+511)/512 {
			t.Fatalf("request %d: %d tokens and %d hashes, without a prefix %d", i, r.Input, len(r.Hashes), p.Input)
		}
		drawn[r.Hashes[0]]++
		if r.Hashes[1] != r.Hashes[0]+1 || r.Hashes[0]%2 != 0 || r.Hashes[0] > 4 {
			t.Fatalf("request %d begins with %v", i, r.Hashes[:2])
		}
		for _, hash := range r.Hashes[2:] {
			if seen[hash] || hash < 6 {
				t.Fatalf("request %d: hash %d is another block's", i, hash)
			}
			seen[hash] = true
		}
	}
	for first, n := range drawn {
		if len(drawn) != 3 || n < 70 || n > 130 {
			t.Errorf("prefix %d is drawn %d times, of %v", first, n, drawn)
		}
	}
	if bad := (&SyntheticSpec{Distribution: Auto, MaxTokens: 32768, PrefixTokens: -1}); input.Validate(bad) == nil {
		t.Error("a prefix of -1 tokens is valid")
	}
}
