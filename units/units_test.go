package units

import (
	"encoding"
	"math"
	"regexp"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text string
		want Duration
	}{
		{"625ps", 625}, {"0.625 ns", 625}, {"7.8us", 7_800_000}, {"-5ns", -5000},
		{"1s", Second}, {"9223372036854775807ps", math.MaxInt64},
	} {
		var d Duration
		if err := d.UnmarshalText([]byte(c.text)); err != nil || d != c.want {
			t.Errorf("%q: got %d, %v, want %d", c.text, d, err, c.want)
		}
	}
	var b Bytes
	if err := b.UnmarshalText([]byte("2TiB")); err != nil || b != 2<<40 {
		t.Errorf("2TiB: got %d, %v", b, err)
	}
	var w Bandwidth
	if err := w.UnmarshalText([]byte("25.6GB/s")); err != nil || w != 25.6e9 {
		t.Errorf("25.6GB/s: got %v, %v", float64(w), err)
	}
	var f FLOPRate
	if err := f.UnmarshalText([]byte("312TFLOP/s")); err != nil || f != 312e12 {
		t.Errorf("312TFLOP/s: got %v, %v", float64(f), err)
	}
}

func TestParseErrors(t *testing.T) {
	for _, text := range []string{"", "625", "ps", "0.5ps", "1e3", "625 pz", "1..2ns", "NaNns", "99999999999s"} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("duration %q: no error, got %d", text, d)
		}
	}
	var b Bytes
	for _, text := range []string{"1.5B", "2tib", "5 GB/s", "99999999TiB"} {
		if err := b.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("bytes %q: no error, got %d", text, b)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Duration(rapid.Int64().Draw(t, "ps"))
		var back Duration
		if err := back.UnmarshalText([]byte(d.String())); err != nil || back != d {
			t.Fatalf("%d wrote %q, read %d, %v", int64(d), d, int64(back), err)
		}
		b := Bytes(rapid.Int64().Draw(t, "bytes"))
		var backBytes Bytes
		if err := backBytes.UnmarshalText([]byte(b.String())); err != nil || backBytes != b {
			t.Fatalf("%d wrote %q, read %d, %v", int64(b), b, int64(backBytes), err)
		}
		w := Bandwidth(rapid.Float64Range(0, 1e15).Draw(t, "bandwidth"))
		var backWidth Bandwidth
		if err := backWidth.UnmarshalText([]byte(w.String())); err != nil || backWidth != w {
			t.Fatalf("%v wrote %q, read %v, %v", float64(w), w, float64(backWidth), err)
		}
	})
}

func TestTransferTimeRoundsUp(t *testing.T) {
	if got := Bandwidth(3e12).TransferTime(10); got != 4 {
		t.Errorf("10 B at 3 B/ps: got %d ps, want 4", got)
	}
	if got := Bandwidth(25e9).TransferTime(0); got != 0 {
		t.Errorf("0 B: got %d ps, want 0", got)
	}
}

func TestString(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Duration(625).String(), "625ps"}, {Duration(1_500_000).String(), "1.5us"},
		{Duration(-1000).String(), "-1ns"}, {Duration(-1500).String(), "-1.5ns"}, {Duration(-999).String(), "-999ps"}, {Duration(999).String(), "999ps"},
		{(2 * TiB).String(), "2TiB"}, {Bytes(80 * GiB).String(), "80GiB"}, {Bytes(0).String(), "0B"},
		{Bandwidth(25.6e9).String(), "25.6GB/s"}, {FLOPRate(312e12).String(), "312TFLOP/s"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// TestEveryUnit: a number in each unit is written and read in it.
func TestEveryUnit(t *testing.T) {
	type quantity interface {
		encoding.TextUnmarshaler
		encoding.TextMarshaler
	}
	for _, c := range []struct {
		make  func() quantity
		value func(quantity) float64
		units map[string]float64
		bad   string
	}{
		{func() quantity { return new(Duration) }, func(q quantity) float64 { return float64(*q.(*Duration)) },
			map[string]float64{"ps": 1, "ns": 1e3, "us": 1e6, "ms": 1e9, "s": 1e12}, "1 minute"},
		{func() quantity { return new(Bytes) }, func(q quantity) float64 { return float64(*q.(*Bytes)) },
			map[string]float64{"B": 1, "kB": 1e3, "KiB": 1 << 10, "MB": 1e6, "MiB": 1 << 20, "GB": 1e9, "GiB": 1 << 30, "TB": 1e12, "TiB": 1 << 40}, "1 bit"},
		{func() quantity { return new(Bandwidth) }, func(q quantity) float64 { return float64(*q.(*Bandwidth)) },
			map[string]float64{"B/s": 1, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12}, "1 GB"},
		{func() quantity { return new(FLOPRate) }, func(q quantity) float64 { return float64(*q.(*FLOPRate)) },
			map[string]float64{"FLOP/s": 1, "GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15}, "1 FLOP"},
	} {
		for unit, size := range c.units {
			q := c.make()
			if err := q.UnmarshalText([]byte("3" + unit)); err != nil || c.value(q) != 3*size {
				t.Errorf("3%s: %v, %v", unit, c.value(q), err)
			}
			if text, err := q.MarshalText(); err != nil || string(text) != "3"+unit {
				t.Errorf("3%s is written %q, %v", unit, text, err)
			}
		}
		q := c.make()
		err := q.UnmarshalText([]byte(c.bad))
		if err == nil || c.value(q) != 0 {
			t.Fatalf("%q: %v, no error", c.bad, c.value(q))
		}
		example := regexp.MustCompile(`such as "(.*)"$`).FindStringSubmatch(err.Error())
		if example == nil || c.make().UnmarshalText([]byte(example[1])) != nil {
			t.Errorf("%q: the example of %q cannot be read", c.bad, err)
		}
	}
	for text, want := range map[string]string{"1.5B": "whole number of B", "99999999TiB": "too large"} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err == nil || !regexp.MustCompile(want).MatchString(err.Error()) || b != 0 {
			t.Errorf("%s: %d, %v", text, b, err)
		}
	}
}

func TestConstants(t *testing.T) {
	for got, want := range map[int64]int64{
		int64(Picosecond): 1, int64(Nanosecond): 1_000, int64(Microsecond): 1_000_000, int64(Millisecond): 1_000_000_000, int64(Second): 1_000_000_000_000,
		int64(KiB): 1024, int64(MiB): 1_048_576, int64(GiB): 1_073_741_824, int64(TiB): 1_099_511_627_776,
	} {
		if got != want {
			t.Errorf("a constant is %d, want %d", got, want)
		}
	}
}

// TestWrittenForm: the largest unit in which four decimals are exact.
func TestWrittenForm(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Duration(999).String(), "999ps"}, {Duration(1_000).String(), "1ns"}, {Duration(1_001).String(), "1.001ns"}, {Duration(10_001).String(), "10.001ns"},
		{Duration(1_000_001).String(), "1000.001ns"}, {Duration(1_000_100).String(), "1.0001us"}, {Duration(1_000_010).String(), "1000.01ns"},
		{Duration(-1_000_100).String(), "-1.0001us"}, {Duration(-1_000).String(), "-1ns"}, {Duration(-999).String(), "-999ps"}, {Duration(0).String(), "0ps"},
		{Bytes(1000).String(), "1kB"}, {Bytes(1001).String(), "1.001kB"}, {Bytes(1023).String(), "1.023kB"},
		{Bandwidth(0).String(), "0B/s"}, {Bandwidth(1).String(), "1B/s"}, {Bandwidth(999).String(), "999B/s"}, {Bandwidth(1000).String(), "1kB/s"},
		{Bandwidth(1031.25).String(), "1031.25B/s"}, {Bandwidth(1_000_010_000_000).String(), "1000.01GB/s"},
		{Bandwidth(1001).String(), "1001B/s"}, {Bandwidth(1234.5).String(), "1.2345kB/s"}, {Bandwidth(1234.56).String(), "1234.56B/s"}, {Bandwidth(-2e6).String(), "-2MB/s"},
		{Bandwidth(1e12).String(), "1TB/s"}, {FLOPRate(2.5e15).String(), "2.5PFLOP/s"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestSeconds(t *testing.T) {
	for seconds, want := range map[float64]Duration{
		9_223_372.036854775807: math.MaxInt64, // 2^63 ps as a float64
		0:                      0, 1: Second, -1: -Second, 0.25e-12: 0, 0.5e-12: 1, 1.5e-3: 1_500_000_000, 9_223_372: 9_223_372 * Second,
		9_223_373: math.MaxInt64, -9_223_373: math.MinInt64, math.Inf(1): math.MaxInt64, math.Inf(-1): math.MinInt64,
	} {
		if got := FromSeconds(seconds); got != want {
			t.Errorf("%v s: %d, want %d", seconds, int64(got), int64(want))
		}
	}
	const d = 1_250_000 * Microsecond
	if d.Seconds() != 1.25 || d.Microseconds() != 1_250_000 {
		t.Errorf("%v: %v s, %v us", d, d.Seconds(), d.Microseconds())
	}
}

// TestParseErrorsSayWhat: an error quotes the text and says what would be right.
func TestParseErrorsSayWhat(t *testing.T) {
	for text, want := range map[string]string{
		"s":                     `"s" is not a duration: want a number with a unit, such as "100ms"`,
		"5 pz":                  `"5 pz" is not a duration: want a number with a unit (ps, ns, us, ms, s), such as "100ms"`,
		"1..2ns":                `"1..2ns" is not a duration: want a number with a unit, such as "100ms"`,
		"0.5ps":                 `"0.5ps" is not a whole number of ps`,
		"9223372036854775808ps": `"9223372036854775808ps" is too large for a duration`,
		"1e-999999999us":        `"1e-999999999us" is not a duration`, // and no hour is spent on it
	} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err == nil || err.Error() != want || d != 0 {
			t.Errorf("got %d, %v, want %s", int64(d), err, want)
		}
	}
	var n Bytes
	if err := n.UnmarshalText([]byte("1")); err == nil || err.Error() != `"1" is not a byte count: want a number with a unit (B, kB, KiB, MB, MiB, GB, GiB, TB, TiB), such as "2TiB"` || n != 0 {
		t.Error(err)
	}
	var f FLOPRate
	if err := f.UnmarshalText([]byte("xFLOP/s")); err == nil || err.Error() != `"xFLOP/s" is not a FLOP rate: want a number with a unit (FLOP/s, GFLOP/s, TFLOP/s, PFLOP/s), such as "312TFLOP/s"` || f != 0 {
		t.Error(err)
	}
	for _, text := range []string{"1e300PFLOP/s", "-1e300PFLOP/s"} {
		if err := f.UnmarshalText([]byte(text)); err == nil || err.Error() != `"`+text+`" is too large for a FLOP rate` || f != 0 {
			t.Errorf("%v, %v", f, err)
		}
	}
	var b Bandwidth
	if err := b.UnmarshalText([]byte("GB/s")); err == nil || b != 0 {
		t.Error(err)
	}
	if err := b.UnmarshalText([]byte("5GB")); err == nil || b != 0 || err.Error() != `"5GB" is not a bandwidth: want a number with a unit (B/s, kB/s, MB/s, GB/s, TB/s), such as "25.6GB/s"` {
		t.Error(err)
	}
}

// FuzzQuantities: what is a quantity is written as it is read.
func FuzzQuantities(f *testing.F) {
	for _, text := range []string{"625ps", "0.625 ns", "-5ns", "2TiB", "1.5GiB", "25.6GB/s", "312TFLOP/s", "1e3kB", "0x1p4B", "1_0s", ".", "-0B/s", "1e308TB/s", "1e-999999999s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sameAgain[Duration](t, text)
		sameAgain[Bytes](t, text)
		sameAgain[Bandwidth](t, text)
		sameAgain[FLOPRate](t, text)
	})
}

// sameAgain checks that a text that parses as a Q reads back unchanged after it is written.
func sameAgain[Q interface {
	comparable
	encoding.TextMarshaler
}, P interface {
	*Q
	encoding.TextUnmarshaler
}](t *testing.T, text string) {
	var q, again Q
	if P(&q).UnmarshalText([]byte(text)) != nil {
		return
	}
	written, err := q.MarshalText()
	if err == nil {
		err = P(&again).UnmarshalText(written)
	}
	if err != nil || again != q {
		t.Fatalf("%q is %v, written %q, which is %v: %v", text, q, written, again, err)
	}
}
