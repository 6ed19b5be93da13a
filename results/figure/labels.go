package figure

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
)

// Label writes a value of a column: bytes with a prefix, the empty value as a dash.
func Label(column string, value tables.Value) string {
	if value.Empty() {
		return "-"
	}
	if v, ok := value.Float(); ok {
		return tickLabel(column, v)
	}
	return value.String()
}

func tickLabel(column string, v float64) string {
	if x, unit := results.BinaryPrefix(v); unit != "B" && strings.HasSuffix(column, "_bytes") {
		return numberLabel(math.Round(100*x)/100) + " " + unit
	}
	return numberLabel(v)
}

// numberLabel writes a number with only the digits that it has, at most four after the point, and
// commas between groups of three.
func numberLabel(v float64) string {
	if a := math.Abs(v); a != 0 && (a < 1e-4 || a >= 1e12) {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return results.GroupDigits(strconv.FormatFloat(math.Round(v*1e4)/1e4, 'f', -1, 64))
}

// significant rounds a number to a number of digits, but no digit before the point.
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

// axisTitle writes a column as the title of an axis: "TBT, 99th percentile (ms)".
func axisTitle(column string) string {
	if column == tables.PointColumn {
		return "design"
	}
	words, unit := tables.Words(column)
	if unit != "" {
		words += " (" + unit + ")"
	}
	return words
}

// newScale returns the scale of a column with values up to high: milliseconds
// become seconds where they are many, bytes get a prefix, utilization is in percent.
func newScale(column string, high float64) scale {
	s := scale{label: axisTitle(column), size: 1}
	if isUtilization(column) {
		s.label, s.size = s.label+" (%)", 0.01
	}
	for _, to := range [][2]string{{" (ms)", " (s)"}, {" (us)", " (ms)"}} {
		if quantity, ok := strings.CutSuffix(s.label, to[0]); ok && high >= 10_000 {
			s.label, s.size = quantity+to[1], 1000
		}
	}
	if strings.HasSuffix(column, "_bytes") {
		x, unit := results.BinaryPrefix(max(high, 1))
		s.label, s.size = s.label+" ("+unit+")", max(high, 1)/x
	}
	return s
}

func isUtilization(column string) bool { return strings.HasPrefix(column, "utilization") }

func (s scale) tick(v float64) string { return numberLabel(v / s.size) }

func distinct(values []float64) []float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// crowdedLow says that values need a logarithmic axis, like powers of two: they are positive, span at least a
// factor of 16, and half of them lie in the lowest quarter of their range.
func crowdedLow(values []float64) bool {
	sorted := distinct(values)
	low, high := sorted[0], sorted[len(sorted)-1]
	return low > 0 && high >= 16*low && sorted[(len(sorted)-1)/2]-low <= (high-low)/4
}
