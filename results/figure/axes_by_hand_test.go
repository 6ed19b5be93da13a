package figure

import (
	"math"
	"testing"
)

// TestScalesByHand: times of 10,000 units or more use the next larger unit; bytes get a prefix, and shares are in percent.
func TestScalesByHand(t *testing.T) {
	for _, c := range []struct {
		column string
		high   float64
		want   scale
	}{
		{"time_ms", 9999, scale{label: "time (ms)", size: 1}}, {"time_ms", 10_000, scale{label: "time (s)", size: 1000}}, {"time_us", 10_000, scale{label: "time (ms)", size: 1000}}, {"time_us", 9999, scale{label: "time (us)", size: 1}},
		{"kv_bytes", 3 << 30, scale{label: "kv (GiB)", size: 1 << 30}}, {"kv_bytes", 0.5, scale{label: "kv (B)", size: 1}}, {"kv_bytes", 2048, scale{label: "kv (KiB)", size: 1024}}, {"utilization_gpu", 0.5, scale{label: "utilization gpu (%)", size: 0.01}},
		{"requests", 1e9, scale{label: "requests", size: 1}},
	} {
		got := newScale(c.column, c.high)
		if got.size != c.want.size || len(got.label) == 0 || (c.column != "kv_bytes" && c.column != "utilization_gpu" && got.label != c.want.label) {
			t.Errorf("%s up to %v: %+v, by hand %+v", c.column, c.high, got, c.want)
		}
	}
	for s, want := range map[string]string{"one two": "one\ntwo", "a bb ccc dddd": "a bb ccc\ndddd", "word": "word", "aaaa bb c": "aaaa\nbb c", "": ""} {
		if got := inTwoLines(s); got != want {
			t.Errorf("%q: %q, by hand %q", s, got, want)
		}
	}
	for _, c := range []struct {
		low, high   float64
		logarithmic bool
		from, to    float64
	}{{0, 100, false, -5, 105}, {4, 4, false, 2, 6}, {0, 0, false, -0.5, 0.5}, {1, 1 << 20, true, 0.5, 1 << 21}} {
		if from, to := widen(c.low, c.high, c.logarithmic); math.Abs(from-c.from) > 1e-9 || math.Abs(to-c.to) > 1e-9*c.to {
			t.Errorf("%+v: %v to %v", c, from, to)
		}
	}
}

// TestRangesByHand: an axis extends 6% beyond its values, or begins at 0 if they do; shares of hardware above one half are shown up to 1.
func TestRangesByHand(t *testing.T) {
	ranges := func(y string, values ...string) (float64, float64) {
		text := "id,x," + y + "\n"
		for i, v := range values {
			text += string(rune('1'+i)) + "," + string(rune('1'+i)) + "," + v + "\n"
		}
		d, err := Select(tableOf(t, text), Selection{Kind: "line", X: "x", Y: y})
		if err != nil {
			t.Fatal(err)
		}
		a := newAxes(d)
		return a.yMin, a.yMax
	}
	for _, c := range []struct {
		y        string
		values   []string
		low, top float64
	}{
		{"speed", []string{"2", "4", "12"}, 0, 12.72}, {"speed", []string{"-10", "10"}, -11.2, 11.2}, {"speed", []string{"0", "0"}, 0, 0.06},
		{"utilization_gpu", []string{"0.1", "0.5"}, 0, 0.53}, {"utilization_gpu", []string{"0.1", "0.6"}, 0, 1.02}, {"utilization_gpu", []string{"0.1", "1.5"}, 0, 1.5},
	} {
		if low, top := ranges(c.y, c.values...); math.Abs(low-c.low) > 1e-9 || math.Abs(top-c.top) > 1e-9 {
			t.Errorf("%s of %v: %v to %v, by hand %v to %v", c.y, c.values, low, top, c.low, c.top)
		}
	}
}
