package figure

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/units/portable"
)

// sample is a table of two axes and two seeds: throughput 10·ranks·channels,
// one more with the second seed.
func sample(t testing.TB) *tables.Table {
	t.Helper()
	var b strings.Builder
	b.WriteString("point,node.ranksets,node.channels,run.seed,status,error,config_sha256,output_tokens_per_s,tbt_mean_ms,tbt_p99_ms\n")
	for _, channels := range []int{16, 8} {
		for _, ranks := range []int{2, 4, 16, 64} {
			for seed := 1; seed <= 2; seed++ {
				v := float64(10*ranks*channels + seed)
				fmt.Fprintf(&b, "r%dc%d,%d,%d,%d,done,,x,%g,%g,%g\n", ranks, channels, ranks, channels, seed, v, 1e4/v, 3e4/v)
			}
		}
	}
	b.WriteString("broken,128,8,1,failed,no room,x,,,\n")
	path := filepath.Join(t.TempDir(), "results.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	table, err := tables.ReadTable(path)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestSelect(t *testing.T) {
	d, err := Select(sample(t), Selection{Kind: "line", X: "ranksets", Y: "output_tokens_per_s", Group: "channels"})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Cells) != 8 || strings.Join(list.Map(d.GroupNames, tables.Value.String), " ") != "8 16" || strings.Join(list.Map(d.XNames, tables.Value.String), " ") != "2 4 16 64" || !d.XNumeric {
		t.Fatalf("%+v", d)
	}
	c := d.Cells[1] // 8 channels, 4 ranks
	if c.Mean() != 321.5 || math.Abs(c.Std()-math.Sqrt(0.5)) > 1e-12 || c.XValue != 4 || c.XStd != 0 {
		t.Errorf("%+v: %g ± %g", c, c.Mean(), c.Std())
	}
}

// TestNormalize: each seed is divided by the same seed's baseline.
func TestNormalize(t *testing.T) {
	d, err := Select(sample(t), Selection{Kind: "bar", X: "ranksets", Y: "output_tokens_per_s", Group: "channels", NormalizeTo: "channels=8"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range d.Cells {
		for seed, v := range c.Samples {
			want := 1.0
			if c.Group == 1 {
				ranks := []float64{2, 4, 16, 64}[c.X]
				want = (160*ranks + float64(seed+1)) / (80*ranks + float64(seed+1))
			}
			if math.Abs(v-want) > 1e-12 {
				t.Errorf("group %d, x %d, seed %d: %g, want %g", c.Group, c.X, seed+1, v, want)
			}
		}
	}
}

func TestSeveralColumns(t *testing.T) {
	d, err := Select(sample(t), Selection{Kind: "line", X: "ranksets", Y: "tbt_mean_ms,tbt_p99_ms", Facet: "channels"})
	if err != nil {
		t.Fatal(err)
	}
	if d.Y != "tbt_ms" || strings.Join(list.Map(d.GroupNames, tables.Value.String), "; ") != "mean; 99th percentile" || len(d.Cells) != 16 {
		t.Errorf("%+v", d)
	}
}

// TestSelectRefuses: rows are never averaged over keys that the figure does not show, and no column
// is guessed.
func TestSelectRefuses(t *testing.T) {
	for _, c := range []struct {
		selection Selection
		want      string
	}{
		{Selection{Kind: "pie"}, "expected one of bar, cdf"},
		{Selection{Kind: "line", Y: "tbt_mean_ms"}, "--x: expected a column, which --kind line needs"},
		{Selection{Kind: "line", X: "rankset", Y: "tbt_mean_ms"}, `did you mean "node.ranksets"?`},
		{Selection{Kind: "line", X: "ranksets", Y: "tbt_mean_ms"}, "node.channels = 16 and 8: expected one value for each x, group and facet"},
		{Selection{Kind: "heatmap", X: "ranksets", Y: "channels"}, "--z: expected a column"},
		{Selection{Kind: "heatmap", X: "ranksets", Y: "channels", Z: "tbt_mean_ms", Group: "seed"}, "no group in a heat map"},
		{Selection{Kind: "line", X: "ranksets", Y: "channels", Z: "tbt_mean_ms"}, "--kind heatmap or pareto with it"},
		{Selection{Kind: "line", X: "ranksets", Y: "tbt_mean_ms,output_tokens_per_s"}, "columns of one unit"},
		{Selection{Kind: "line", X: "ranksets", Y: "tbt_mean_ms,tbt_p99_ms", Group: "channels"}, "which are the groups"},
		{Selection{Kind: "line", X: "ranksets", Y: "error"}, "at least one row with a number"},
		{Selection{Kind: "line", X: "ranksets", Y: "tbt_mean_ms", Group: "channels", NormalizeTo: "channels=9"}, "expected one of 16, 8"},
		{Selection{Kind: "line", X: "ranksets", Y: "tbt_mean_ms", Group: "channels", NormalizeTo: "point=r2c8"}, "--normalize-to"},
		{Selection{Kind: "line", X: "ranksets", Y: "tbt_mean_ms", Where: []string{"channels=7"}}, "--where node.channels"},
		{Selection{Kind: "cdf", X: "tbt_mean_ms", Y: "channels"}, "--y = channels: expected no column with --kind cdf"},
		{Selection{Kind: "cdf", X: "tbt_mean_ms", NormalizeTo: "channels=8"}, "no baseline with --kind cdf"},
		{Selection{Kind: "cdf", X: "tbt_mean_ms,output_tokens_per_s"}, "--x = tbt_mean_ms,output_tokens_per_s: expected columns of one unit"},
	} {
		if _, err := Select(sample(t), c.selection); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v:\ngot  %v\nwant %s", c.selection, err, c.want)
		}
	}
}

// TestWrite draws every kind in every format: equal bytes twice, a picture of the right size with
// the colours of all groups, text in the SVG.
func TestWrite(t *testing.T) {
	deep.Heavy(t)
	table := sample(t)
	for _, kind := range Kinds() {
		s := Selection{Kind: kind, X: "ranksets", Y: "output_tokens_per_s", Group: "channels"}
		switch kind {
		case "heatmap":
			s = Selection{Kind: kind, X: "ranksets", Y: "channels", Z: "tbt_mean_ms"}
		case "pareto", "scatter":
			s.X = "tbt_p99_ms"
		case "cdf":
			s.X, s.Y = "tbt_p99_ms", ""
		}
		d, err := Select(table, s)
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range formats {
			var a, b bytes.Buffer
			for _, w := range []io.Writer{&a, &b} {
				if err := d.Write(w, format, "A title"); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(a.Bytes(), b.Bytes()) {
				t.Errorf("%s as %s: other bytes the second time", kind, format)
			}
			switch format {
			case "png":
				checkPNG(t, kind, &a)
			case "svg":
				var any struct{ XMLName xml.Name }
				if err := xml.Unmarshal(a.Bytes(), &any); err != nil || !strings.Contains(a.String(), "A title") || !strings.Contains(a.String(), "ranksets") && s.X == "ranksets" {
					t.Errorf("%s: %v", kind, err)
				}
			default:
				if !bytes.HasPrefix(a.Bytes(), []byte("%PDF-")) {
					t.Errorf("%s: no PDF", kind)
				}
			}
		}
	}
}

// checkPNG checks that a picture shows the fill or line colour of both groups.
func checkPNG(t *testing.T, kind string, r io.Reader) {
	picture, err := png.Decode(r)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[color.RGBA]int{}
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y++ {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x++ {
			counts[color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)]++
		}
	}
	var want []color.RGBA
	switch kind {
	case "bar", "stack":
		want = []color.RGBA{tint(styleColor(0), 0.65), tint(styleColor(1), 0.65)}
	case "heatmap":
		want = []color.RGBA{ramp(0), ramp(1)}
	default:
		want = []color.RGBA{styleColor(0), styleColor(1)}
	}
	for _, c := range want {
		if counts[c] < 40 {
			t.Errorf("%s: %d points of colour %v", kind, counts[c], c)
		}
	}
}

// TestStylesDiffer: no two groups look the same, even without colour.
func TestStylesDiffer(t *testing.T) {
	lines, bars := map[string]int{}, map[string]int{}
	for g := range MaxGroups {
		line := fmt.Sprintf("%v %T %v", styleColor(g), styleMarker(g).Shape, dashes[g%len(dashes)])
		bar := fmt.Sprintf("%v %v", styleColor(g), hatches[g%len(hatches)])
		if other, ok := lines[line]; ok {
			t.Errorf("lines of groups %d and %d", other, g)
		}
		if other, ok := bars[bar]; ok {
			t.Errorf("bars of groups %d and %d", other, g)
		}
		lines[line], bars[bar] = g, g
	}
	for a := range len(markers) {
		for b := range a {
			if markers[a] == markers[b] && fmt.Sprint(dashes[a%6]) == fmt.Sprint(dashes[b%6]) {
				t.Errorf("without colour, lines of groups %d and %d", b, a)
			}
		}
	}
}

// TestHatchLines: all lines end on the rectangle's border, at the given direction and distance.
func TestHatchLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.Float64Range(0.1, 50).Draw(t, "w"), rapid.Float64Range(0.1, 300).Draw(t, "h")
		direction := rapid.SampledFrom([][2]float64{{1, 1}, {1, -1}, {1, 0}, {0, 1}}).Draw(t, "direction")
		r := vg.Rectangle{Min: vg.Point{X: 7, Y: -3}, Max: vg.Point{X: vg.Length(7 + w), Y: vg.Length(-3 + h)}}
		const distance = 3
		lines := hatchLines(r, direction, distance)
		across := (w*math.Abs(direction[1]) + h*math.Abs(direction[0])) / math.Hypot(direction[0], direction[1])
		if n := float64(len(lines)); math.Abs(n-across/distance) > 1.01 {
			t.Fatalf("%d lines across %g", len(lines), across)
		}
		for _, l := range lines {
			for _, p := range l {
				x, y := float64(p.X-7), float64(p.Y+3)
				if x < -1e-9 || x > w+1e-9 || y < -1e-9 || y > h+1e-9 {
					t.Fatalf("%v outside of %g × %g", p, w, h)
				}
				if border := min(math.Abs(x), math.Abs(x-w), math.Abs(y), math.Abs(y-h)); border > 1e-9 {
					t.Fatalf("%v ends inside of %g × %g", p, w, h)
				}
			}
			if cross := float64(l[1].X-l[0].X)*direction[1] - float64(l[1].Y-l[0].Y)*direction[0]; math.Abs(cross) > 1e-9 {
				t.Fatalf("%v does not run along %v", l, direction)
			}
		}
	})
}

func TestTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(-1e6, 1e6).Draw(t, "low")
		high := low + math.Pow(10, rapid.Float64Range(-3, 9).Draw(t, "width"))
		at := round(low, high)
		if len(at) < 4 || len(at) > 14 {
			t.Fatalf("%d ticks from %g to %g", len(at), low, high)
		}
		for i, v := range at {
			if slack := 1e-6 * (high - low); v < low-slack || v > high+slack || i > 0 && v <= at[i-1] {
				t.Fatalf("ticks %v from %g to %g", at, low, high)
			}
		}
	})
	for v, want := range map[float64]string{0: "0", 999: "999", -1234: "-1,234", 12345.5: "12,345.5", -1234567: "-1,234,567", 1e-7: "1e-07", 0.25: "0.25"} {
		if got := numberLabel(v); got != want {
			t.Errorf("%g: %s, want %s", v, got, want)
		}
	}
	for _, c := range []struct {
		column      string
		high, v     float64
		label, tick string
	}{
		{"kv_peak_bytes", 2.2e12, 1.5 * (1 << 40), "KV peak (TiB)", "1.5"},
		{"kv_peak_bytes", 900, 512, "KV peak (B)", "512"},
		{"ttft_mean_ms", 20_000, 5000, "time to first token, mean (s)", "5"},
		{"ttft_mean_ms", 9000, 5000, "time to first token, mean (ms)", "5,000"},
	} {
		if s := newScale(c.column, c.high); s.label != c.label || s.tick(c.v) != c.tick {
			t.Errorf("%s up to %g: %q, %q; want %q, %q", c.column, c.high, s.label, s.tick(c.v), c.label, c.tick)
		}
	}
	if got := tickLabel("kv_peak_bytes", 1.5*(1<<40)); got != "1.5 TiB" {
		t.Errorf("got %s", got)
	}
}

func TestQuantile(t *testing.T) {
	for q, want := range map[float64]float64{0: 1, 0.25: 1.75, 0.5: 2.5, 0.75: 3.25, 1: 4} {
		if got := portable.Quantile([]float64{1, 2, 3, 4}, q); got != want {
			t.Errorf("%g: %g, want %g", q, got, want)
		}
	}
}

// TestTicksAtValues: ticks of a key are at its values, unless a label would touch the one before.
func TestTicksAtValues(t *testing.T) {
	var values []float64
	for v := 1.0; v <= 4096; v *= 2 {
		values = append(values, v)
	}
	a := &axes{data: &Data{Facets: []tables.Value{{}}}, xMin: 1000, xMax: 2000}
	for at, want := range map[float64]string{1010: "[1000 2000]", 1500: "[1000 1500 2000]"} {
		if got := fmt.Sprint(a.apart([]float64{1000, at, 2000}, &ticker{scale: newScale("x", 2000)}, textStyle(8))); got != want {
			t.Errorf("labels of 1,000, %g and 2,000: %s, want %s", at, got, want)
		}
	}
	if got := (ticker{scale: newScale("x", 1), at: []float64{1115.8344}}).Ticks(0, 1)[0].Label; got != "1,116" {
		t.Errorf("the tick of a mean: %s", got)
	}
	d := &Data{kind: kindNamed("line"), X: "node.ranksets", Y: "tbt_mean_ms", XNumeric: true, GroupNames: []tables.Value{{}}, Facets: []tables.Value{{}}}
	for i, v := range values {
		d.Cells = append(d.Cells, Cell{X: i, XValue: v, Samples: []float64{v}})
		d.XNames = append(d.XNames, tables.Of(v))
	}
	var svg strings.Builder
	if err := d.Write(&svg, "svg", ""); err != nil {
		t.Fatal(err)
	}
	if text := svg.String(); !strings.Contains(text, ">4,096<") || !strings.Contains(text, ">1<") {
		t.Error("the axis has no tick at its first and last value")
	}
}
