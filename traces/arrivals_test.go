package traces

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/units"
)

// timed returns a trace whose requests arrive at the given seconds.
func timed(seconds ...float64) *Trace {
	t := &Trace{Name: "x"}
	for i, s := range seconds {
		t.Requests = append(t.Requests, Request{ID: i, Arrival: units.FromSeconds(s), Input: 1 + i, Output: 2})
	}
	return t
}

// plain returns the defaults of [arrivals] with the given kind.
func plain(kind string) ArrivalSpec {
	return ArrivalSpec{Kind: kind, CV: 1, Scale: 1, ThinkDistribution: ThinkFixed}
}

// at returns the arrival times of the requests in seconds.
func at(t *Trace) (seconds []float64) {
	for _, r := range t.Requests {
		seconds = append(seconds, r.Arrival.Seconds())
	}
	return seconds
}

func arrive(t testing.TB, trace *Trace, spec ArrivalSpec, seed uint64) *Trace {
	t.Helper()
	if err := input.Validate(&spec); err != nil {
		t.Fatal(err)
	}
	got, err := trace.Arrive(spec, seed)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestArrivalsOfFiles: "auto" takes a file's times if it has any; a rate or a scale stretches them and leaves the lengths alone.
func TestArrivalsOfFiles(t *testing.T) {
	file, none := timed(0, 1, 3, 9), timed(0, 0, 0)
	for _, c := range []struct {
		trace *Trace
		spec  ArrivalSpec
		want  []float64
		kind  string
		rate  float64
	}{
		{file, plain(ArrivalsAuto), []float64{0, 1, 3, 9}, ArrivalsTrace, 1.0 / 3},
		{file, plain(ArrivalsTrace), []float64{0, 1, 3, 9}, ArrivalsTrace, 1.0 / 3},
		{file, plain(ArrivalsAtOnce), []float64{0, 0, 0, 0}, ArrivalsAtOnce, 0},
		{file, ArrivalSpec{Kind: ArrivalsAuto, CV: 1, Scale: 2, ThinkDistribution: ThinkFixed}, []float64{0, 0.5, 1.5, 4.5}, ArrivalsTrace, 2.0 / 3},
		{file, ArrivalSpec{Kind: ArrivalsAuto, RatePerS: 1, CV: 1, Scale: 1, ThinkDistribution: ThinkFixed}, []float64{0, 1.0 / 3, 1, 3}, ArrivalsTrace, 1},
		{none, plain(ArrivalsAuto), []float64{0, 0, 0}, ArrivalsAtOnce, 0},
		{timed(7), plain(ArrivalsTrace), []float64{7}, ArrivalsTrace, 0},
	} {
		got := arrive(t, c.trace, c.spec, 1)
		for i, s := range at(got) {
			if math.Abs(s-c.want[i]) > 1e-12 || got.Requests[i].Input != c.trace.Requests[i].Input {
				t.Errorf("%+v: got %v, want %v", c.spec, at(got), c.want)
				break
			}
		}
		if a := got.Described(); a.Kind != c.kind || math.Abs(a.RatePerS-c.rate) > 1e-12 {
			t.Errorf("%+v: got %+v, want %s at %v", c.spec, a, c.kind, c.rate)
		}
	}
	spec := plain(ArrivalsAuto)
	spec.RatePerS = 2
	if got := arrive(t, none, spec, 1); got.Arrivals.Kind != ArrivalsPoisson || math.Abs(got.Requests[2].Arrival.Seconds()-1) > 1e-12 {
		t.Errorf("a rate without times: %+v", got)
	}
	if a := timed(0, 2).Described(); a.Kind != ArrivalsTrace || a.RatePerS != 0.5 {
		t.Errorf("a trace as it is: %+v", a)
	}
}

// TestWindow keeps the requests between two times and makes the first time 0.
func TestWindow(t *testing.T) {
	spec := plain(ArrivalsAuto)
	spec.Window = "1s:9s"
	got, err := timed(0, 1, 3, 9).Cut(spec)
	if err != nil || !slices.Equal(at(got), []float64{0, 2}) || got.Requests[0].ID != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	spec.Window = "10s:20s"
	_, err = timed(0, 1, 3, 9).Cut(spec)
	if err == nil || !strings.Contains(err.Error(), "in which requests come") {
		t.Errorf("an empty window: %v", err)
	}
}

// TestDrawnArrivals: the mean gap is exactly that of the rate, the coefficient of variation is the one asked for, and one seed draws the
// same gaps at all rates, up to the scale.
func TestDrawnArrivals(t *testing.T) {
	deep.Heavy(t)
	const n = 100_000
	trace := &Trace{Name: "x", Requests: make([]Request, n)}
	for _, cv := range []float64{0.1, 0.5, 1, 2, 4} {
		for _, kind := range []string{ArrivalsPoisson, ArrivalsGamma} {
			if kind == ArrivalsPoisson && cv != 1 {
				continue
			}
			spec := plain(kind)
			spec.RatePerS, spec.CV = 4, cv
			got := arrive(t, trace, spec, 3)
			var sum, squares float64
			for i := 1; i < n; i++ {
				gap := (got.Requests[i].Arrival - got.Requests[i-1].Arrival).Seconds()
				if gap < 0 {
					t.Fatalf("%s: request %d comes before the one before", kind, i)
				}
				sum += gap
				squares += gap * gap
			}
			mean := sum / (n - 1)
			if math.Abs(mean-0.25) > 1e-12 {
				t.Errorf("%s, cv %v: a mean gap of %v", kind, cv, mean)
			}
			// The standard error of a sample's cv grows with the fourth moment; six of them are allowed.
			if drawn := math.Sqrt(squares/(n-1)/mean/mean - 1); math.Abs(drawn/cv-1) > 6*math.Sqrt((1+4*cv*cv)/(2*n)) {
				t.Errorf("%s: drew a coefficient of variation of %v, want %v", kind, drawn, cv)
			}
			spec.RatePerS = 1
			slow := arrive(t, trace, spec, 3)
			for i := range slow.Requests {
				if d := slow.Requests[i].Arrival - 4*got.Requests[i].Arrival; d < -4 || d > 4 {
					t.Fatalf("%s: request %d comes at %v at a rate of 1, at %v at 4", kind, i, slow.Requests[i].Arrival, got.Requests[i].Arrival)
				}
			}
			if other := arrive(t, trace, spec, 4); slices.Equal(at(other)[:10], at(slow)[:10]) {
				t.Errorf("%s: another seed draws the same", kind)
			}
		}
	}
}

// TestExponentialGaps: half of Poisson gaps are below ln 2 of the mean, a tenth above ln 10.
func TestExponentialGaps(t *testing.T) {
	const n = 50_000
	spec := plain(ArrivalsPoisson)
	spec.RatePerS = 1
	got := at(arrive(t, &Trace{Requests: make([]Request, n)}, spec, 9))
	below, above := 0, 0
	for i := 1; i < n; i++ {
		if gap := got[i] - got[i-1]; gap < math.Ln2 {
			below++
		} else if gap > math.Ln10 {
			above++
		}
	}
	if math.Abs(float64(below)/n-0.5) > 0.01 || math.Abs(float64(above)/n-0.1) > 0.006 {
		t.Errorf("%d and %d of %d gaps", below, above, n)
	}
}

// TestSameArrivals pins the bits of drawn arrivals, which are the same on every machine.
func TestSameArrivals(t *testing.T) {
	trace := &Trace{Requests: make([]Request, 5)}
	var got []string
	for _, kind := range []string{ArrivalsPoisson, ArrivalsGamma} {
		spec := plain(kind)
		spec.RatePerS, spec.CV = 1, 2
		for _, r := range arrive(t, trace, spec, 1).Requests {
			got = append(got, fmt.Sprint(int64(r.Arrival)))
		}
	}
	const want = "0 464172190588 2447349961963 3003151855141 4000000000000 0 271956077971 3483430437944 3642071256101 4000000000000"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got %s", s)
	}
}

// TestRepeated: a repetition of the requests starts one mean gap after the last of them, and there are as many requests as asked for.
func TestRepeated(t *testing.T) {
	got := timed(0, 1, 3, 9).Repeated(6)
	if want := []float64{0, 1, 3, 9, 12, 13}; !slices.Equal(at(got), want) || got.Requests[5].Input != 2 || got.Requests[5].ID != 5 {
		t.Errorf("got %+v, want arrivals at %v", got.Requests, want)
	}
	if got := timed(0, 1, 3, 9).Repeated(2); !slices.Equal(at(got), []float64{0, 1}) {
		t.Errorf("got %+v", got.Requests)
	}
	if got := timed(5).Repeated(3); !slices.Equal(at(got), []float64{0, 0, 0}) {
		t.Errorf("got %+v", got.Requests)
	}
}

// TestThinking: fixed thinking times equal the mean, drawn ones average to it.
func TestThinking(t *testing.T) {
	spec := plain(ArrivalsClosed)
	spec.Users, spec.ThinkTime = 3, 2*units.Second
	if think := arrive(t, timed(0, 5), spec, 1).Arrivals.Closed.Thinking(); think() != 2*units.Second {
		t.Error("a fixed time is not the mean")
	}
	spec.ThinkDistribution = ThinkExponential
	think, sum := arrive(t, timed(0, 5), spec, 1).Arrivals.Closed.Thinking(), 0.0
	for range 20_000 {
		sum += think().Seconds()
	}
	if math.Abs(sum/20_000-2) > 0.06 {
		t.Errorf("a mean of %v s, want 2", sum/20_000)
	}
}

func TestArrivalErrors(t *testing.T) {
	for want, change := range map[string]func(*ArrivalSpec){
		`kind = "poison": expected one of`:               func(s *ArrivalSpec) { s.Kind = "poison" },
		`rate_per_s = -1`:                                func(s *ArrivalSpec) { s.RatePerS = -1 },
		`rate_per_s = NaN`:                               func(s *ArrivalSpec) { s.RatePerS = math.NaN() },
		`users = 0: expected at least 1`:                 func(s *ArrivalSpec) { s.Kind = ArrivalsClosed },
		`rate_per_s = 3: expected 0 with arrivals.kind`:  func(s *ArrivalSpec) { s.Kind, s.RatePerS = ArrivalsAtOnce, 3 },
		`window = "5s:1s": expected two times`:           func(s *ArrivalSpec) { s.Window = "5s:1s" },
		`window = "5s": expected two times`:              func(s *ArrivalSpec) { s.Window = "5s" },
		`window = "5s:5s": expected two times`:           func(s *ArrivalSpec) { s.Window = "5s:5s" },
		`scale = 2: expected 1 with arrivals.rate_per_s`: func(s *ArrivalSpec) { s.Scale, s.RatePerS = 2, 1 },
		`cv = 0: expected 0.01 to 100`:                   func(s *ArrivalSpec) { s.CV = 0 },
		`think_distribution = "fix": expected one of`:    func(s *ArrivalSpec) { s.ThinkDistribution = "fix" },
	} {
		spec := plain(ArrivalsAuto)
		change(&spec)
		if err := input.Validate(&spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	var bad *input.Error
	if _, err := timed(0, 0).Arrive(plain(ArrivalsTrace), 1); !errors.As(err, &bad) || !strings.Contains(err.Error(), "with times of arrival") {
		t.Errorf("no times: %v", err)
	}
	if _, err := timed(0, 0).Arrive(plain(ArrivalsGamma), 1); !errors.As(err, &bad) || !strings.Contains(err.Error(), "rate_per_s = 0: expected more than 0") {
		t.Errorf("no rate: %v", err)
	}
	slow := plain(ArrivalsPoisson)
	slow.RatePerS = 1e-8
	if _, err := timed(0, 0).Arrive(slow, 1); !errors.As(err, &bad) || !strings.Contains(err.Error(), "106 days") {
		t.Errorf("a rate too low: %v", err)
	}
}

// TestArriveKeepsOrder: with every kind of arrivals, requests stay in the order of the trace's times.
func TestArriveKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gaps := rapid.SliceOfN(rapid.Float64Range(0, 1e3), 1, 30).Draw(t, "gaps")
		gaps[0] = 0
		for i := 1; i < len(gaps); i++ {
			gaps[i] += gaps[i-1]
		}
		spec := plain(rapid.SampledFrom([]string{ArrivalsAuto, ArrivalsPoisson, ArrivalsGamma}).Draw(t, "kind"))
		spec.RatePerS = rapid.Float64Range(1e-3, 1e6).Draw(t, "rate")
		spec.CV = rapid.Float64Range(0.01, 10).Draw(t, "cv")
		got, err := timed(gaps...).Arrive(spec, rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		if seconds := at(got); !slices.IsSorted(seconds) || seconds[0] < 0 {
			t.Fatalf("%v", seconds)
		}
	})
}
