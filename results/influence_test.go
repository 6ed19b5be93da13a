package results

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/lab/deep"
)

// sampleTable returns a table of points whose metric is a function of keys that are drawn
// from 0 to 1.
func sampleTable(points, keys int, seed uint64, f func(x []float64) float64) *Table {
	random := rand.New(rand.NewPCG(seed, 0))
	t := &Table{Name: "t", Columns: []string{PointColumn}}
	for k := range keys {
		t.Columns = append(t.Columns, fmt.Sprintf("k.x%d", k))
	}
	t.Columns = append(t.Columns, SeedColumn, StatusColumn, ErrorColumn, ConfigColumn, "y")
	for i := range points {
		row, x := []string{fmt.Sprint("p", i)}, make([]float64, keys)
		for k := range keys {
			x[k] = random.Float64()
			row = append(row, fmt.Sprint(x[k]))
		}
		t.Rows = append(t.Rows, append(row, "1", StatusDone, "", "c", fmt.Sprint(f(x))))
	}
	return t
}

// indices returns the influences by key.
func indices(t *testing.T, table *Table) map[string]Influence {
	t.Helper()
	all, err := Influences(table, "y")
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]Influence{}
	for i, in := range all {
		if i > 0 && in.First > all[i-1].First {
			t.Errorf("%s is after %s", in.Column, all[i-1].Column)
		}
		by[in.Column] = in
	}
	return by
}

// ishigami is the function of T. Ishigami and T. Homma, "An Importance Quantification
// Technique in Uncertainty Analysis for Computer Models", 1990, with a = 7 and b = 0.1; its
// first-order indices have closed forms: 0.3139, 0.4424 and 0.
func ishigami(x []float64) float64 {
	at := func(i int) float64 { return math.Pi * (2*x[i] - 1) }
	return math.Sin(at(0)) + 7*math.Pow(math.Sin(at(1)), 2) + 0.1*math.Pow(at(2), 4)*math.Sin(at(0))
}

// TestIshigami: with many points the indices are those of the closed form, less what 32
// bins hide of an axis that goes up and down four times.
func TestIshigami(t *testing.T) {
	by := indices(t, sampleTable(10_000, 4, 1, ishigami))
	for key, want := range map[string]float64{"k.x0": 0.3139, "k.x1": 0.4424, "k.x2": 0, "k.x3": 0} {
		if in := by[key]; math.Abs(in.First-want) > 0.015 || in.Points != 10_000 {
			t.Errorf("%s has %.4f, not %.4f", key, in.First, want)
		}
	}
}

// TestInfluenceIntervals: of sums with known shares, nine in ten intervals hold the share, or
// nearly so many: bins hide half a hundredth of it.
func TestInfluenceIntervals(t *testing.T) {
	held, all, none := 0, 0, 0
	for seed := range uint64(deep.Of(20, 20, 200)) {
		by := indices(t, sampleTable(200, 3, seed, func(x []float64) float64 { return 3*x[0] + x[1] }))
		for key, want := range map[string]float64{"k.x0": 0.9, "k.x1": 0.1} {
			all++
			if in := by[key]; in.Low <= want && want <= in.High {
				held++
			}
			if in := by[key]; in.Low > in.First || in.First > in.High || in.High-in.Low > 0.3 {
				t.Errorf("seed %d, %s: %+v", seed, key, in)
			}
		}
		if by["k.x2"].Low == 0 {
			none++
		}
		if in := by["k.x2"]; in.Low > 0.05 || in.First > 0.15 {
			t.Errorf("seed %d: what does nothing has %+v", seed, in)
		}
	}
	t.Logf("%d of %d, %d hold nothing", held, all, none)
	if none < all/2*8/10 {
		t.Errorf("%d of %d intervals of what does nothing hold 0", none, all/2)
	}
	if share := float64(held) / float64(all); share < 0.8 || share > 0.98 {
		t.Errorf("%d of %d intervals hold the share", held, all)
	}
}

// TestInfluenceOfGrid is by hand: of a 2 x 3 grid, y = 6a + b(b-1)/2 has means of rows and
// columns that are written out, and a key decides what is left by the other.
func TestInfluenceOfGrid(t *testing.T) {
	table := &Table{Name: "t", Columns: strings.Split("point,k.a,k.b,run.seed,status,error,config_sha256,y", ",")}
	for a := range 2 {
		for b := range 3 {
			for seed := range 2 { // averaged
				y := 6*a + b*(b-1)/2 + 10*seed
				table.Rows = append(table.Rows, strings.Split(fmt.Sprintf("a%db%d,%s,%d,%d,done,,c,%d", a, b, []string{"x", "y"}[a], b, seed, y), ","))
			}
		}
	}
	table.Rows = append(table.Rows, strings.Split("broken,x,9,0,failed,e,c,", ","))
	by := indices(t, table)
	// Whole variance: of 5, 5, 6, 11, 11, 12, mean 50/6, over 5 degrees of freedom: 55.333/5.
	// Within a: twice the variance of 0, 0, 1, 2/3 each, over 4. Within b: three times that of
	// 0 and 6, 18 each, over 3.
	whole := (166.0 / 3) / 5
	if in := by["k.a"]; math.Abs(in.First-(1-(4.0/3)/4/whole)) > 1e-12 || fmt.Sprint(in.Levels) != "[{x  3 5.333333333333333} {y  3 11.333333333333334}]" || in.Points != 6 {
		t.Errorf("%+v", in)
	}
	if in := by["k.b"]; in.First != 0 || fmt.Sprint(in.Levels) != "[{0  2 8} {1 2 4 8.5}]" {
		t.Errorf("%+v: six points make two bins, and within them it varies more than without", in)
	}
	if _, err := Influences(table, "z"); err == nil || !strings.HasPrefix(err.Error(), "t: z: expected a column") {
		t.Error(err)
	}
	table.Rows = nil
	if all, err := Influences(table, "y"); err != nil || all != nil {
		t.Error(all, err)
	}
}
