package service

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
)

// TestLawOfOverhead: if measurements are the simulator's own times plus an overhead, the fit finds
// it, and no row is off.
func TestLawOfOverhead(t *testing.T) {
	deep.Turn(t, 0, 2)
	m, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	runs, err := runAll(t.Context(), m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, planted := range []Overhead{{PerStep: 1234, PerToken: 56.7}, {PerToken: 80}, {PerStep: 2500}, {}} {
		for i := range runs {
			runs[i].row.Latency = max(runs[i].seconds+planted.seconds(&runs[i]), 1e-3)
		}
		r := report(m, runs)
		for _, o := range r.Overheads {
			if math.Abs(o.PerStep-planted.PerStep) > 1 || math.Abs(o.PerToken-planted.PerToken) > 0.1 {
				t.Errorf("%+v of %+v", o, planted)
			}
		}
		for _, e := range r.Series {
			if e.P90 > 1e-3 {
				t.Errorf("%+v: off with the overhead %+v", e, planted)
			}
		}
	}
}

// TestFit: the fit minimises the sum of relative errors: no other pair has a lower one.
func TestFit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		runs := make([]run, 1+rng.IntN(20))
		among := make([]int, len(runs))
		for i := range runs {
			among[i] = i
			steps := int64(1 + rng.IntN(4000))
			runs[i] = run{steps: steps, tokens: steps * int64(1+rng.IntN(64)), seconds: 10 * rng.Float64()}
			runs[i].row = &Row{Latency: runs[i].seconds * (0.8 + rng.Float64()*2)}
		}
		step, token := fit(runs, among)
		loss := func(step, token float64) (sum float64) {
			o := Overhead{PerStep: step, PerToken: token}
			for i := range runs {
				sum += math.Abs((runs[i].seconds+o.seconds(&runs[i]))/runs[i].row.Latency - 1)
			}
			return sum
		}
		best := loss(step, token)
		for range 2000 {
			a, b := step*(0.5+rng.Float64())+rng.Float64(), token*(0.5+rng.Float64())+rng.Float64()
			if other := loss(a, b); other < best-1e-3*float64(len(runs)) {
				t.Fatalf("%d rows: %v, %v has %v, %v, %v has %v", len(runs), step, token, best, a, b, other)
			}
		}
	}
	if step, token := fit(nil, nil); step != 0 || token != 0 {
		t.Errorf("without rows: %v, %v", step, token)
	}
}

// TestDeal: of every five rows one is fitted; the fitted ones cover all batches and nearly all
// lengths.
func TestDeal(t *testing.T) {
	var runs []run
	var among []int
	for _, batch := range []int{1, 16, 32, 64} { // those of the files
		for _, length := range []int{128, 256, 512, 1024, 2048} {
			among = append(among, len(runs))
			runs = append(runs, run{row: &Row{Input: length, Output: length, Batch: batch}})
		}
	}
	batches, lengths := map[int]bool{}, map[int]bool{}
	fitted := deal(runs, among)
	for _, i := range fitted {
		batches[runs[i].row.Batch], lengths[runs[i].row.Input] = true, true
	}
	if len(fitted) != 4 || len(batches) != 4 || len(lengths) != 4 {
		t.Errorf("fitted %v: batches %v, lengths %v", fitted, batches, lengths)
	}
}

// TestDealInAnyOrder: which rows are fitted does not depend on the order of the file.
func TestDealInAnyOrder(t *testing.T) {
	m, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	runs, among := make([]run, len(m.Rows)), make([]int, len(m.Rows))
	for i := range runs {
		runs[i], among[i] = run{row: &m.Rows[i]}, i
	}
	want := deal(runs, among)
	slices.Sort(want)
	rand.New(rand.NewPCG(3, 4)).Shuffle(len(among), func(i, j int) { among[i], among[j] = among[j], among[i] })
	got := deal(runs, among)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("fitted %v, in another order %v", want, got)
	}
}

// TestLongest: the bound of a latency, by hand.
func TestLongest(t *testing.T) {
	row := func(length, batch int, latency float64) *Row {
		return &Row{Input: length, Output: 2 * length, Batch: batch, Latency: latency}
	}
	other := row(200, 4, 1)
	other.GPUs = 2 // another series
	for _, c := range []struct {
		fit  []*Row
		want float64
		ok   bool
	}{
		{nil, 0, false},
		{[]*Row{row(100, 8, 5), other}, 0, false},
		{[]*Row{row(200, 4, 10)}, 0, false}, // one point is not a line
		// The line through 2 and 4 requests: 1 s for each more.
		{[]*Row{row(200, 1, 7.5), row(200, 2, 8), row(200, 4, 10), row(200, 16, 90)}, 14, true},
		// At half the length 4 more requests take 0.75 s: at full length at most 3.
		{[]*Row{row(200, 4, 10), row(100, 4, 4), row(100, 8, 4.75)}, 13, true},
		{[]*Row{row(200, 2, 8), row(200, 4, 10), row(100, 4, 4), row(100, 8, 4.75)}, 13, true}, // the lower bound of the two
		{[]*Row{row(200, 2, 11), row(200, 4, 10)}, 10, true},                                   // noise: never below the smaller batch
	} {
		if got, ok := longest(row(200, 8, 20), c.fit); got != c.want || ok != c.ok {
			t.Errorf("%d rows: %v, %v, want %v", len(c.fit), got, ok, c.want)
		}
	}
}

// TestErrors: the errors of a series, by hand.
func TestErrors(t *testing.T) {
	r := &Report{}
	add := func(predicted float64, spills string, queued, fitted bool) {
		r.Rows = append(r.Rows, Judged{Row: Row{Latency: 10}, Predicted: predicted, Spills: spills, Queued: queued, Fitted: fitted})
	}
	add(11, fits, false, false)
	add(12, fits, true, false)
	add(9, fits, false, false)
	add(14, fits, false, false)
	add(99, fits, false, true)
	add(99, seen, true, false)
	add(99, tooMuch, false, false)
	got := r.errors([]int{0, 1, 2, 3, 4, 5, 6})
	want := Errors{Rows: 7, Fitted: 1, HeldOut: 4, MAPE: 0.2, Median: 0.1, P90: 0.4, Bias: 0.15, Spill: 2, SpillCorrect: 1, SpillFalse: 1}
	for _, v := range []*float64{&got.MAPE, &got.Median, &got.P90, &got.Bias} {
		*v = math.Round(*v*1e9) / 1e9
	}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
