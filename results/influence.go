package results

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat"

	"github.com/l3sim/l3sim/input"
)

// Influence is how much a key of the configuration moves a metric over the points of a
// table.
type Influence struct {
	Metric string `json:"metric"`
	Column string `json:"column"` // the key
	// First is the first-order Sobol' index: the share of the metric's variance that goes
	// away, on average, where the key is known. What keys do only together is not in any of
	// them. Low and High are the ends of its 90% interval.
	First  float64 `json:"first_order"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Points int     `json:"points"`
	// Levels are the values of the key, or ranges of values where there are many.
	Levels []LevelMean `json:"levels"`
}

// LevelMean is the mean of a metric over the points with a value, or a range of values, of
// a key.
type LevelMean struct {
	Value  string  `json:"value"` // the smallest where it is a range
	To     string  `json:"to"`    // the largest, "" where it is one value
	Points int     `json:"points"`
	Mean   float64 `json:"mean"`
}

// A key with more values than bins is cut into bins of equally many points, as many as the
// root of the points and mostBins at most: fewer hide what happens within them, more widen
// the interval. The resamples put its ends within a tenth of its width. All are our choice.
const (
	mostBins  = 32
	resamples = 400
)

// Influences returns the influence of each key that varies on a metric, the largest first.
// Keys must vary independently of each other, as in a grid, a Latin hypercube or random samples.
// Seeds of a point are averaged; points with a failed seed are left out. A table that no
// sweep wrote is an *input.Error, and so is a metric that no column is.
func Influences(t *Table, metric string) ([]Influence, error) {
	index := slices.Index(t.Columns, metric)
	if index < 0 {
		return nil, &input.Error{File: t.Name, Key: metric, Expected: "a column", Nearest: t.nearest(metric)}
	}
	e := &explorer{Exploration: Exploration{Goals: []Goal{{metric, true, index}}}, table: t}
	if len(t.Rows) == 0 {
		return nil, nil
	}
	if err := e.collect(); err != nil {
		return nil, err
	}
	e.varying()
	y := make([]float64, len(e.points))
	for i := range e.points {
		y[i] = e.points[i].values[0]
	}
	bins := max(2, min(mostBins, int(math.Sqrt(float64(len(y))))))
	var all []Influence
	for _, c := range e.knobs {
		levels, of := e.levels(c, bins, bins)
		all = append(all, influence(metric, t.Columns[c], y, levels, of))
	}
	slices.SortStableFunc(all, func(a, b Influence) int { return cmp.Compare(b.First, a.First) })
	return all, nil
}

// influence is the influence of one key, of which each point has a level.
func influence(metric, column string, y []float64, levels []Level, of []int) Influence {
	in := Influence{Metric: metric, Column: column, First: firstOrder(y, of, len(levels)), Points: len(y)}
	sums := make([]float64, len(levels))
	for _, l := range levels {
		in.Levels = append(in.Levels, LevelMean{Value: l.Value, To: l.To})
	}
	for i, l := range of {
		in.Levels[l].Points++
		sums[l] += y[i]
	}
	for l := range sums {
		in.Levels[l].Mean = sums[l] / float64(in.Levels[l].Points)
	}
	random := rand.New(rand.NewPCG(1, uint64(len(y))))
	drawn := make([]float64, resamples)
	someY, someOf := make([]float64, len(y)), make([]int, len(y))
	for b := range drawn {
		for i := range y {
			from := random.IntN(len(y))
			someY[i], someOf[i] = y[from], of[from]
		}
		drawn[b] = firstOrder(someY, someOf, len(levels))
	}
	slices.Sort(drawn)
	// The bootstrap (B. Efron, "Bootstrap Methods: Another Look at the Jackknife", Annals of
	// Statistics 7, 1979) has the spread. Points that are drawn twice share a level, which moves
	// all resamples up: so their quantiles count from their own mean.
	center, _ := MeanStd(drawn)
	shift := in.First - center
	in.Low = unit(stat.Quantile(0.05, stat.Empirical, drawn, nil) + shift)
	in.High = unit(stat.Quantile(0.95, stat.Empirical, drawn, nil) + shift)
	in.First = unit(in.First)
	return in
}

// firstOrder estimates the first-order index from points as they are: one minus the
// variance within levels over the whole variance, each divided by its degrees of freedom
// (T. L. Kelley, "An Unbiased Correlation Ratio Measure", PNAS 21, 1935). It is 0 where
// nothing varies.
func firstOrder(y []float64, of []int, levels int) float64 {
	sum, count := make([]float64, levels), make([]float64, levels)
	for i, l := range of {
		sum[l] += y[i]
		count[l]++
	}
	within, used := 0.0, 0
	for i, l := range of {
		d := y[i] - sum[l]/count[l]
		within += float64(d * d)
	}
	for _, n := range count {
		if n > 0 {
			used++
		}
	}
	_, std := MeanStd(y)
	if !(std > 0) || used == len(y) {
		return 0
	}
	return 1 - within/float64(len(y)-used)/float64(std*std)
}

// unit moves a share into 0 to 1.
func unit(x float64) float64 { return max(0, min(1, x)) }

// influenceTable returns influences for people.
func influenceTable(all []Influence) *Table {
	t := &Table{Columns: []string{"metric", "key", "share of variance", "90% interval", "points"}}
	for _, in := range all {
		share := func(x float64) string { return strconv.FormatFloat(100*x, 'f', 0, 64) + "%" }
		t.Rows = append(t.Rows, []string{in.Metric, in.Column, share(in.First), share(in.Low) + " to " + share(in.High), strconv.Itoa(in.Points)})
	}
	return t
}
