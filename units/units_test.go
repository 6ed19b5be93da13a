package units

import (
	"math"
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
		{(2 * TiB).String(), "2TiB"}, {Bytes(80 * GiB).String(), "80GiB"}, {Bytes(0).String(), "0B"},
		{Bandwidth(25.6e9).String(), "25.6GB/s"}, {FLOPRate(312e12).String(), "312TFLOP/s"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
