package units

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// TestTotalIsExact compares with unbounded integers.
func TestTotalIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got, half Total
		want := new(big.Int)
		for range rapid.IntRange(1, 20).Draw(t, "terms") {
			d, n := rapid.Int64().Draw(t, "duration"), rapid.Int64Range(-1<<40, 1<<40).Draw(t, "times")
			got.AddTimes(Duration(d), n)
			want.Add(want, new(big.Int).Mul(big.NewInt(d), big.NewInt(n)))
			half.Add(Duration(d))
			want.Add(want, big.NewInt(d))
		}
		got.AddTotal(half)
		if f, _ := new(big.Float).SetInt(want).Float64(); math.Abs(got.Picoseconds()-f) > 1e-15*math.Abs(f) {
			t.Fatalf("%v, want %v", got.Picoseconds(), f)
		}
	})
	var days Total
	for range 1 << 10 {
		days.Add(math.MaxInt64)
	}
	if got, want := days.Picoseconds(), 1024*float64(math.MaxInt64); got != want {
		t.Errorf("1,024 times the longest duration: %v, want %v", got, want)
	}
}

// TestConversionsSaturate: what no Duration can hold is the longest one, of the
// same sign; a transfer of 0 bytes takes no time.
func TestConversionsSaturate(t *testing.T) {
	for name, c := range map[string]struct{ got, want Duration }{
		"seconds":              {FromSeconds(1e7), math.MaxInt64},
		"negative seconds":     {FromSeconds(-1e7), math.MinInt64},
		"infinite seconds":     {FromSeconds(math.Inf(1)), math.MaxInt64},
		"not a number":         {FromSeconds(math.NaN()), math.MaxInt64},
		"just below":           {FromPicoseconds(1 << 62), 1 << 62},
		"2^63":                 {FromPicoseconds(1 << 63), math.MaxInt64},
		"-2^63":                {FromPicoseconds(-1 << 63), math.MinInt64},
		"slow transfer":        {Bandwidth(1e-20).TransferTime(1), math.MaxInt64},
		"a byte a second":      {Bandwidth(1).TransferTime(350 * GiB), math.MaxInt64},
		"no bandwidth":         {Bandwidth(0).TransferTime(1), math.MaxInt64},
		"no bandwidth, no use": {Bandwidth(0).TransferTime(0), 0},
		"rounded up":           {Bandwidth(3e12).TransferTime(4), 2},
		"rounded":              {FromSeconds(1.4e-12), 1},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d ps, want %d", name, c.got, c.want)
		}
	}
}
