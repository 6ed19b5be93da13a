package figure

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"

	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
)

// cellLabel writes a value of a column: bytes with a prefix, the empty value as a dash.
func cellLabel(column string, value tables.Value) string {
	if value.Empty() {
		return "-"
	}
	if v, ok := value.Float(); ok {
		return tickLabel(column, v)
	}
	return value.String()
}

func tickLabel(column string, v float64) string {
	if strings.HasSuffix(column, "_bytes") && v == math.Trunc(v) && math.Abs(v) < 1<<62 {
		return bytesLabel(v)
	}
	return numberLabel(v)
}

// bytesLabel writes bytes with a binary prefix and at most two decimals.
func bytesLabel(v float64) string {
	x, unit := results.BinaryPrefix(v)
	if unit == "B" {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(math.Round(100*x)/100, 'f', -1, 64) + " " + unit
}

// numberLabel writes a number with no more digits than it has, four at most
// after the point, and commas between groups of three.
func numberLabel(v float64) string {
	if a := math.Abs(v); a != 0 && (a < 1e-4 || a >= 1e12) {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return results.GroupDigits(strconv.FormatFloat(math.Round(v*1e4)/1e4, 'f', -1, 64))
}

// significant rounds a number to that many digits, but never a digit before the point.
func significant(v float64, digits int) float64 {
	if v == 0 {
		return 0
	}
	size := max(1, math.Pow(10, float64(digits-1)-math.Floor(math.Log10(math.Abs(v)))))
	return math.Round(v*size) / size
}

// scale is the unit in which an axis writes a column's numbers.
type scale struct {
	label string  // of the axis
	size  float64 // of the unit, in the column's
}

// statistics end the names of columns. A title has them in words, behind a comma.
var statistics = []struct{ end, words string }{
	{" mean", "mean"}, {" max", "maximum"}, {" p50", "median"},
	{" p90", "90th percentile"}, {" p95", "95th percentile"}, {" p99", "99th percentile"},
}

// axisTitle writes a column as the title of an axis: "TBT, 99th percentile (ms)".
func axisTitle(column string) string {
	if column == tables.PointColumn {
		return "design"
	}
	label := tables.Describe(column).Label
	quantity, unit, _ := strings.Cut(label, " (")
	for _, s := range statistics {
		if rest, ok := strings.CutSuffix(quantity, s.end); ok {
			quantity = strings.TrimSuffix(rest, ",") + ", " + s.words
			break
		}
	}
	if unit != "" {
		quantity += " (" + unit
	}
	return quantity
}

// newScale returns the scale of a column with values up to high: milliseconds
// become seconds where they are many, bytes get a prefix, utilization is in percent.
func newScale(column string, high float64) scale {
	s := scale{label: axisTitle(column), size: 1}
	if isUtilization(column) {
		s.label, s.size = s.label+" (%)", 0.01
	}
	if quantity, ok := strings.CutSuffix(s.label, " (ms)"); ok && high >= 10_000 {
		s.label, s.size = quantity+" (s)", 1000
	}
	if strings.HasSuffix(column, "_bytes") {
		power := max(0, min(4, int(math.Log2(max(math.Abs(high), 1))/10)))
		s.size = math.Exp2(float64(10 * power))
		s.label += " (" + []string{"bytes", "KiB", "MiB", "GiB", "TiB"}[power] + ")"
	}
	return s
}

func isUtilization(column string) bool { return strings.HasPrefix(column, "utilization") }

func (s scale) tick(v float64) string { return numberLabel(v / s.size) }

// ticker places the ticks of a numeric axis, at the values' logarithms (base 10)
// on a logarithmic one.
type ticker struct {
	scale
	at          []float64 // data values that get the ticks; nil: ticks are at round numbers
	logarithmic bool
}

func (t ticker) Ticks(low, high float64) []plot.Tick {
	at := t.at
	var minor []float64
	if t.logarithmic {
		low, high = math.Pow(10, low), math.Pow(10, high)
	}
	if len(at) == 0 {
		if t.logarithmic {
			at, minor = powers(low/t.size, high/t.size)
		} else {
			at = round(low/t.size, high/t.size)
		}
		for i := range at {
			at[i] *= t.size
		}
	}
	ticks := make([]plot.Tick, len(at), len(at)+len(minor))
	for i, v := range at {
		ticks[i] = plot.Tick{Value: onAxis(v, t.logarithmic), Label: t.tick(v)}
		if len(t.at) > 0 { // values of data have any number of digits
			ticks[i].Label = t.tick(significant(v, 4))
		}
	}
	for _, v := range minor {
		ticks = append(ticks, plot.Tick{Value: onAxis(v*t.size, t.logarithmic)})
	}
	return ticks
}

// powers returns the powers of ten in a positive range, every second or third and so on where they
// are more than maxTicks, and the multiples between them where all are there.
func powers(low, high float64) (at, between []float64) {
	first, last := int(math.Ceil(float64(math.Log10(low))-1e-9)), int(math.Floor(float64(math.Log10(high))+1e-9))
	step := (last-first)/maxTicks + 1
	for k := first; k <= last; k += step {
		at = append(at, math.Pow10(k))
	}
	for k := first - 1; k <= last && step == 1; k++ {
		for m := 2.0; m < 10; m++ {
			if v := m * math.Pow10(k); v >= low && v <= high {
				between = append(between, v)
			}
		}
	}
	return at, between
}

// round returns the multiples of 1, 2 or 5 times a power of ten in a range, four to nine of them.
func round(low, high float64) []float64 {
	rough := (high - low) / 5
	if !(rough > 0) || math.IsInf(rough, 0) {
		return []float64{low}
	}
	step := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, m := range []float64{5, 2} {
		if m*step <= rough {
			step *= m
			break
		}
	}
	var at []float64
	for k := math.Ceil(low/step - 1e-9); k*step <= high+float64(1e-9*step); k++ {
		at = append(at, float64(k*step)+0) // +0 makes 0 of -0
	}
	return at
}

const maxTicks = 10 // how many values of a key get a tick each

func distinct(values []float64) []float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// decadesApart says that values are positive and span more than two powers of
// ten: on a linear axis all but the largest would lie at its end.
func decadesApart(values []float64) bool {
	low := slices.Min(values)
	return low > 0 && slices.Max(values)/low > 100
}

// geometric says that values are spread so that only a logarithmic axis shows
// all: positive, over a factor of 16 and more, no two closer than half again.
func geometric(values []float64) bool {
	sorted := distinct(values)
	if len(sorted) < 3 || sorted[0] <= 0 || sorted[len(sorted)-1] < 16*sorted[0] {
		return false
	}
	for i := range sorted[1:] {
		if sorted[i+1] < 1.5*sorted[i] {
			return false
		}
	}
	return true
}
