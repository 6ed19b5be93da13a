package measure

import (
	"bytes"
	"image"
	"image/png"
	"strings"
	"testing"

	"gonum.org/v1/plot"
)

func TestFigures(t *testing.T) {
	target := h200(t)
	for kind, samples := range read(t, "testdata/h200") {
		e := target.Judge(samples)
		figures, err := target.Figures(kind, e)
		if err != nil || len(figures) != 2 {
			t.Fatalf("%s: %d figures, %v", kind, len(figures), err)
		}
		for _, f := range figures {
			var a, b bytes.Buffer
			if err := f.Write(&a); err != nil {
				t.Fatal(err)
			}
			if err := f.Write(&b); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a.Bytes(), b.Bytes()) {
				t.Errorf("%s: two writes differ", f.Name)
			}
			picture, err := png.Decode(&a)
			if err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			if blue := countBlue(picture); blue < 100 {
				t.Errorf("%s: %d pixels of points", f.Name, blue)
			}
		}
	}
	if figures, err := target.Figures(GEMM, Errors{}); err != nil || len(figures) != 0 {
		t.Errorf("no samples: %d figures, %v", len(figures), err)
	}
}

// countBlue counts the pixels that points colour.
func countBlue(picture image.Image) int {
	n := 0
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			if r, _, b, _ := picture.At(x, y).RGBA(); b > r+0x1000 {
				n++
			}
		}
	}
	return n
}

// TestTicks: labels are few, round, and within the axis.
func TestTicks(t *testing.T) {
	labels := func(ticks []plot.Tick, low, high float64) (list []string) {
		for _, k := range ticks {
			if k.Value < low || k.Value > high {
				t.Errorf("mark at %v outside %v to %v", k.Value, low, high)
			}
			if k.Label != "" {
				list = append(list, k.Label)
			}
		}
		return list
	}
	for _, c := range []struct {
		ticker    plot.Ticker
		low, high float64
		want      string
	}{
		{powersOfTen{}, 3, 2e5, "10 100 1000 10000 1e5"},
		{powersOfTen{}, 0.05, 20, "0.1 1 10"},
		{powersOfTen{}, 1e3, 2e13, "1000 1e5 1e7 1e9 1e11 1e13"},
		{percents{}, -18, 22, "-15 -10 -5 0 5 10 15 20"},
		{percents{}, -95, 275, "-50 0 50 100 150 200 250"},
		{percents{}, -90, 3000, "0 400 800 1200 1600 2000 2400 2800"},
	} {
		if got := strings.Join(labels(c.ticker.Ticks(c.low, c.high), c.low, c.high), " "); got != c.want {
			t.Errorf("%T from %v to %v: %s, want %s", c.ticker, c.low, c.high, got, c.want)
		}
	}
}
