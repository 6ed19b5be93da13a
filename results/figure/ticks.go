package figure

import (
	"math"

	"gonum.org/v1/plot"
)

// ticker places the ticks of a numeric axis, at the values' logarithms (base 10)
// on a logarithmic one.
type ticker struct {
	scale
	at          []float64 // data values that get ticks; nil: round numbers get them
	logarithmic bool
}

func (t ticker) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	switch {
	case len(t.at) > 0:
		for _, v := range t.at { // values of data may have any number of digits
			ticks = append(ticks, plot.Tick{Value: onAxis(v, t.logarithmic), Label: t.tick(significant(v, 3))})
		}
	case t.logarithmic:
		step := int(high-low)/maxTicks + 1 // distance of labelled powers of ten
		for _, at := range (plot.LogTicks{}).Ticks(math.Pow(10, low)/t.size, math.Pow(10, high)/t.size) {
			if at.Label != "" && int(math.Round(math.Log10(at.Value)))%step == 0 {
				at.Label = numberLabel(at.Value)
			} else if at.Label = ""; step > 1 {
				continue
			}
			if at.Value = onAxis(at.Value*t.size, true); at.Value > low-1e-9 && at.Value < high+1e-9 {
				ticks = append(ticks, at)
			}
		}
	default:
		for _, v := range round(low/t.size, high/t.size) {
			ticks = append(ticks, plot.Tick{Value: v * t.size, Label: numberLabel(v)})
		}
	}
	return ticks
}

// round returns four to nine multiples in a range, of 1, 2 or 5 times a power of ten.
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
		at = append(at, float64(k*step)+0) // +0 turns -0 into 0
	}
	return at
}

const maxTicks = 10 // largest number of key values that all get ticks
