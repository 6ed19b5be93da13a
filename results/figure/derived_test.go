package figure

import (
	"bytes"
	"fmt"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results/tables"
)

// tableOf writes a CSV file and reads it.
func tableOf(t interface {
	TempDir() string
	Fatal(...any)
}, text string) *tables.Table {
	path := filepath.Join(t.TempDir(), "t.csv")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	table, err := tables.ReadTable(path)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestCDF: at every value the curve is the share of the group's rows up to it, in any order; rows
// without a value do not count.
func TestCDF(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		values := map[string][]float64{}
		text := "id,group,time_ms\n"
		for i := range rapid.IntRange(1, 60).Draw(rt, "rows") {
			group, v := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "group"), rapid.IntRange(-5, 20).Draw(rt, "value")
			if v < 0 {
				text += fmt.Sprintf("%d,%s,\n", i, group)
				continue
			}
			text += fmt.Sprintf("%d,%s,%d\n", i, group, v)
			values[group] = append(values[group], float64(v))
		}
		if len(values) == 0 {
			return
		}
		path := filepath.Join(dir, "t.csv")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			rt.Fatal(err)
		}
		table, err := tables.ReadTable(path)
		if err != nil {
			rt.Fatal(err)
		}
		d, err := Select(table, Selection{Kind: "cdf", X: "time_ms", Group: "group"})
		if err != nil {
			rt.Fatal(err)
		}
		last := map[string]map[float64]float64{"a": {}, "b": {}} // the highest step at a value
		numbers := d.Table()
		for r, row := range numbers.Rows {
			x, _ := numbers.Number(r, 1)
			share, _ := numbers.Number(r, 2)
			group := row[0].String()
			last[group][x] = max(share, last[group][x])
		}
		for group, all := range values {
			for _, v := range all {
				n := 0
				for _, w := range all {
					if w <= v {
						n++
					}
				}
				if want := float64(n) / float64(len(all)); math.Abs(last[group][v]-want) > 1e-5 {
					rt.Fatalf("group %s: %v of the rows up to %v, want %v", group, last[group][v], v, want)
				}
			}
		}
	})
	d, err := Select(sample(t), Selection{Kind: "cdf", X: "tbt_mean_ms,tbt_p99_ms"})
	if err != nil || strings.Join(list.Map(d.GroupNames, tables.Value.String), "; ") != "mean; 99th percentile" || len(d.Cells[0].Samples) != 16 {
		t.Errorf("%v: %+v", err, d)
	}
}

// TestStack: the parts of a stacked bar have areas proportional to their values and do not overlap.
func TestStack(t *testing.T) {
	table := tableOf(t, "system,work_ms,idle_ms\nx,10,30\n")
	d, err := Select(table, Selection{Kind: "stack", X: "system", Y: "work_ms,idle_ms"})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := d.Write(&b, "png", ""); err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	var count [2]int
	lowest, highest := [2]int{}, [2]int{1 << 20, 1 << 20}
	bounds := picture.Bounds()
	for y := 100; y < bounds.Max.Y; y++ { // below the legend
		for x := range bounds.Max.X {
			for group := range count {
				if color.RGBAModel.Convert(picture.At(x, y)) == tint(styleColor(group), 0.65) {
					count[group]++
					lowest[group], highest[group] = max(lowest[group], y), min(highest[group], y)
				}
			}
		}
	}
	if ratio := float64(count[1]) / float64(count[0]); ratio < 2 || ratio > 3.1 { // hatching covers some of the second
		t.Errorf("areas of 1 to %.2f for 10 and 30 ms", ratio)
	}
	if lowest[1] > highest[0] {
		t.Errorf("the second bar begins at row %d, the first ends at %d", lowest[1], highest[0])
	}
	if _, err := Select(tableOf(t, "system,work_ms\nx,-1\n"), Selection{Kind: "stack", X: "system", Y: "work_ms"}); err == nil || !strings.Contains(err.Error(), `work_ms = "-1": expected at least 0`) && !strings.Contains(err.Error(), "work_ms = -1: expected at least 0") {
		t.Errorf("error %v", err)
	}
}
