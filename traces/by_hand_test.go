package traces

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/units"
)

// TestPlainNames splits a column's name into words and finds whether it is a time, and its unit.
func TestPlainNames(t *testing.T) {
	for name, want := range map[string]string{
		"Arrival Time (ms)": "arrival_time_ms", "arrivalTimeMs": "arrival_time_ms", "  ts": "ts", "_ts_": "ts", "TTFT": "ttft", "input--tokens": "input_tokens", "p50": "p50", "P 50": "p_50",
		"(ms) time": "ms_time", "usage.promptTokens": "usage_prompt_tokens", "": "", "2time": "2time", "timeMS": "time_ms",
	} {
		if got := plainName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]struct{ stem, unit string }{
		"ts": {"ts", ""}, "ts_ms": {"ts", "ms"}, "t_us": {"t", "us"}, "arrival_time": {"arrival_time", ""}, "arrival_time_ms": {"arrival_time", "ms"}, "created_at_unix_ns": {"created_at", "ns"},
		"timestamp_in_seconds": {"timestamp", "s"}, "timestamp_utc": {"timestamp", ""}, "timestamp_ms_utc": {"timestamp", "ms"}, "ArrivalTimeMicros": {"arrival_time", "us"},
		"timestamp_of_log": {"ts", ""}, "arrivals_ms": {"ts", "ms"}, "arrival_time_s_ms": {"ts", "ms"},
		"ms": {"", ""}, "ts_minutes": {"", ""}, "hour": {"", ""}, "latency_ms": {"", "ms"}, "ts_end": {"", ""},
	} {
		rank, unit := timeName(name)
		if rank != slices.Index(timeNames, want.stem) || unit != want.unit {
			t.Errorf("%q: place %d, unit %q; want %q and %q", name, rank, unit, want.stem, want.unit)
		}
	}
}

// TestGuessedUnits guesses the unit of times from their mean gap and from whether they have fractions.
func TestGuessedUnits(t *testing.T) {
	times := func(gap float64, n int, fraction bool) (all []float64) {
		for i := range n {
			all = append(all, gap*float64(i))
		}
		if fraction {
			all[n/2] += 0.25 * gap
			if all[n/2] == math.Trunc(all[n/2]) {
				all[n/2] += 0.5
			}
		}
		return all
	}
	for _, c := range []struct {
		gap      float64
		fraction bool
		inMS     bool
		want     string
	}{
		// Whole numbers are seconds if at most 20 apart, fractions if at most 500 apart. Larger gaps are milliseconds up to 500 s, then
		// microseconds, nanoseconds.
		{1, false, false, "s"}, {20, false, false, "s"}, {21, false, false, "ms"}, {500_000, false, false, "ms"}, {500_001, false, false, "us"}, {500_000_000, false, false, "us"}, {500_000_001, false, false, "ns"},
		{20, true, false, "s"}, {500, true, false, "s"}, {501, true, false, "ms"}, {500_000, true, false, "ms"}, {500_002, true, false, "us"},
		// Times named milliseconds are seconds if whole numbers are less than 0.5 apart, or fractions less than 5.
		{1, false, true, "ms"}, {0, false, true, "ms"}, {0, false, false, "s"}, {4, true, true, "s"}, {5, true, true, "ms"}, {0.25, true, true, "s"}, {100, true, true, "ms"},
	} {
		if got := guessUnit(times(c.gap, 9, c.fraction), c.inMS); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	if got := guessUnit([]float64{0, 0.125}, true); got != "ms" { // two values do not contradict a format's unit
		t.Errorf("two times: %s", got)
	}
	for _, c := range []struct {
		times []float64
		want  float64
	}{{[]float64{7, 7, 7}, 0}, {[]float64{3}, 0}, {[]float64{10, 30, 20}, 0.1}, {[]float64{0, 4}, 0.25}} {
		if got := rate(c.times); math.Abs(got-c.want) > 1e-15 {
			t.Errorf("%v: %v a unit of time", c.times, got)
		}
	}
	for unit, legal := range map[string][]float64{"s": {1e9, 1e11 - 1}, "ms": {1e12, 1e14 - 1}, "us": {1e15, 9e16}, "ns": {1e18, 9e19}} {
		if got := epochUnit(legal); got != unit {
			t.Errorf("%v: %q, want %q", legal, got, unit)
		}
	}
	for _, none := range [][]float64{{1e9 - 1}, {1e11}, {1e9, 1e12}, {5}} {
		if got := epochUnit(none); got != "" {
			t.Errorf("%v: %q", none, got)
		}
	}
	for n, want := range map[int]bool{2: false, 3: true} { // more than two, one every four milliseconds
		if dense(times(4, n, false)) != want || dense(times(6, n, false)) {
			t.Errorf("%d times", n)
		}
	}
}

// TestValidByHand: requests made by a program at the limits of what is legal.
func TestValidByHand(t *testing.T) {
	valid := Request{Input: 1, Output: 1}
	for _, c := range []struct {
		change func(r *Request)
		want   string
	}{
		{func(*Request) {}, ""}, {func(r *Request) { r.Input = 0 }, "request 1: Input"}, {func(r *Request) { r.Output = 0 }, "request 1: Output"}, {func(r *Request) { r.Input = 1 << 30 }, ""},
		{func(r *Request) { r.Input = 1<<30 + 1 }, "request 1: Input"}, {func(r *Request) { r.Output = 1 << 30 }, ""}, {func(r *Request) { r.Output = 1<<30 + 1 }, "request 1: Output"},
		{func(r *Request) { r.Arrival = -1 }, "request 1: Arrival"}, {func(r *Request) { r.Arrival = units.Duration(maxSeconds) * units.Second }, ""},
		{func(r *Request) { r.Arrival = units.Duration(maxSeconds)*units.Second + 1 }, "request 1: Arrival"},
		{func(r *Request) { r.Turn = &Turn{Think: -1} }, "Turn.Think"}, {func(r *Request) { r.Turn = &Turn{} }, ""},
	} {
		x := &Trace{Requests: []Request{valid, valid}}
		c.change(&x.Requests[1])
		if err := x.Valid(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", x.Requests[1], err, c.want)
		}
	}
	for users, legal := range map[int]bool{0: false, 1: true} {
		for think, too := range map[units.Duration]bool{-1: false, 0: true} {
			x := &Trace{Requests: []Request{valid}}
			x.Arrivals.Closed = &ClosedLoop{Users: users, ThinkTime: think}
			if err := x.Valid(); (err == nil) != (legal && too) {
				t.Errorf("%d users, %v: %v", users, think, err)
			}
		}
	}
}

// TestBlocksByHand: a block size fits if every prompt has as many hashes as it has blocks, with or without a hash of the last, partial
// block.
func TestBlocksByHand(t *testing.T) {
	for _, c := range []struct {
		prompts [][2]int // tokens and hashes
		size    int      // 0: any size fits, -1: none fits
	}{
		{[][2]int{{80, 10}}, 8}, {[][2]int{{160, 10}}, 16}, {[][2]int{{320, 10}}, 32}, {[][2]int{{640, 10}}, 64}, {[][2]int{{1280, 10}}, 128}, {[][2]int{{2560, 10}}, 256},
		{[][2]int{{5120, 10}}, 512}, {[][2]int{{10_240, 10}}, 1024}, {[][2]int{{20_480, 10}}, 2048}, {[][2]int{{90, 10}}, 0}, {[][2]int{{40_960, 10}}, 0},
		{nil, 0}, {[][2]int{{512, 1}}, 512}, {[][2]int{{1024, 2}}, 512}, {[][2]int{{1025, 3}}, 512}, {[][2]int{{1025, 2}}, 1024}, {[][2]int{{1535, 2}, {1, 1}}, 1024},
		{[][2]int{{160, 10}}, 16}, {[][2]int{{161, 11}}, 16}, {[][2]int{{161, 10}, {175, 10}}, 16}, {[][2]int{{640, 10}, {641, 11}}, 64}, {[][2]int{{640, 10}, {641, 10}}, 64},
		{[][2]int{{100, 3}, {100, 7}}, -1}, {[][2]int{{30, 10}}, 0}, {[][2]int{{300, 1}}, 512}, {[][2]int{{513, 1}}, 512}, {[][2]int{{1025, 1}}, 1024},
	} {
		b, ok := blocks{}, true
		for _, p := range c.prompts {
			ok = b.add(p[0], p[1]) && ok
			b.lines++
		}
		if got := b.size(); ok != (c.size >= 0) || ok && got != c.size {
			t.Errorf("%v: blocks of %d tokens, %v; want %d", c.prompts, got, ok, c.size)
		}
	}
	given := blocks{given: 16}
	for _, c := range []struct {
		tokens, hashes int
		want           bool
	}{{32, 2, true}, {33, 2, true}, {33, 3, true}, {33, 4, false}, {32, 3, false}, {31, 1, true}, {32, 1, false}} {
		if got := given.add(c.tokens, c.hashes); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
