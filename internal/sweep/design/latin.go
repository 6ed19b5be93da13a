package design

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmv"
	"gonum.org/v1/gonum/stat/samplemv"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/units/portable"
)

// LatinHypercube is the name of the section of a Latin hypercube and the kind of its axis.
const LatinHypercube = "latin_hypercube"

// latin reads [latin_hypercube]: one axis whose choices are samples of all its keys at once. Each
// key's range is cut into as many strata of equal probability as there are samples, and each
// stratum holds one sample (M. D. McKay, R. J. Beckman and W. J. Conover, "A Comparison of Three
// Methods for Selecting Values of Input Variables in the Analysis of Output from a Computer Code",
// Technometrics 21, 1979).
func (p *fileParser) latin(f *File, line int, value any) error {
	table, ok := value.(map[string]any)
	if !ok {
		return p.fail(line, &input.Error{Key: LatinHypercube, Expected: "a section"})
	}
	numbers, rest := map[string]int64{"samples": 0, "seed": 1}, maps.Clone(table)
	for _, c := range []struct {
		key         string
		least, most int64
	}{{"samples", 1, MaxCombinations}, {"seed", 0, math.MaxInt64}} {
		v, given := table[c.key]
		delete(rest, c.key)
		if !given && numbers[c.key] >= c.least {
			continue
		}
		n, ok := v.(int64)
		if !ok || n < c.least || n > c.most {
			bad := &input.Error{Key: LatinHypercube + "." + c.key, Expected: fmt.Sprintf("a whole number from %d to %d", c.least, c.most)}
			if given {
				bad.Value = fmt.Sprint(v)
			}
			return p.fail(p.line(LatinHypercube, 0, c.key), bad)
		}
		numbers[c.key] = n
	}
	leaves, err := p.leaves(LatinHypercube, 0, rest, false)
	if err != nil {
		return err
	}
	spreads := make([]*spread, len(leaves))
	for i, l := range leaves {
		if spreads[i], err = p.spread(l); err != nil {
			return err
		}
	}
	f.Axes = append(f.Axes, latinAxis(spreads, int(numbers["samples"]), uint64(numbers["seed"])))
	return nil
}

// latinAxis draws the samples. A sample that rounding makes equal to an earlier one is
// dropped and counted.
func latinAxis(spreads []*spread, samples int, seed uint64) Axis {
	source := rand.NewPCG(seed, 0)
	batch := mat.NewDense(samples, len(spreads), nil)
	samplemv.LatinHypercube{Q: distmv.NewUnitUniform(len(spreads), source), Src: source}.Sample(batch)
	axis, seen := Axis{Kind: LatinHypercube}, make(map[string]bool, samples)
	for i := range samples {
		settings := make([]Setting, len(spreads))
		var id strings.Builder
		for j, s := range spreads {
			settings[j] = Setting{s.key, s.value(batch.At(i, j), samples), s.line}
			id.WriteString(settings[j].Value + "\n")
		}
		if seen[id.String()] {
			axis.Dropped++
			continue
		}
		seen[id.String()] = true
		axis.Choices = append(axis.Choices, Choice{Settings: settings})
	}
	return axis
}

// spread is how the values of one key are spread over a Latin hypercube's axis.
type spread struct {
	key    string
	line   int
	list   []string     // values in TOML, all equally likely; nil for a range
	typ    reflect.Type // type of the key
	bounds              // ends of a range
}

// bounds are the ends of a range in the base unit of the key's type.
type bounds struct {
	min, max float64
	step     float64 // distance between values, counted from min; 0: any value
	log      bool    // equal ratios are equally likely, else equal differences
}

// spread reads the values of a key: an array, or a range {min, max, scale, step}.
func (p *fileParser) spread(l leaf) (*spread, error) {
	section := LatinHypercube + "." + l.key
	s := &spread{key: l.key, line: l.line, typ: p.keys.Key(l.key).Type}
	table, ok := l.value.(map[string]any)
	if !ok {
		if _, ok := l.value.([]any); !ok {
			return nil, p.fail(l.line, &input.Error{Key: section, Value: fmt.Sprint(l.value),
				Expected: "a range {min = ..., max = ...} or an array of values"})
		}
		var err error
		s.list, err = p.values(l)
		return s, err
	}
	fail := func(key, value, expected string) (*spread, error) {
		return nil, p.fail(p.line(LatinHypercube, 0, l.key+key), &input.Error{Key: section + key, Value: value, Expected: expected})
	}
	if _, isQuantity := schema.UnitOf(s.typ); !isQuantity && (!isNumeric(s.typ) || schema.IsText(s.typ)) {
		return fail("", "", "an array of values: it holds no number")
	}
	for _, k := range p.sorted(table, section+".") {
		to := map[string]*float64{"min": &s.min, "max": &s.max, "step": &s.step}[k]
		switch scale := table[k]; {
		case to != nil:
			v, ok := quantity(s.typ, table[k])
			if !ok || k == "step" && v <= 0 {
				return fail("."+k, fmt.Sprint(table[k]), "a number as "+l.key+" takes it"+map[bool]string{true: ", above 0"}[k == "step"])
			}
			*to = v
		case k != "scale":
			bad := input.UnknownName(section, k, []string{"min", "max", "scale", "step"})
			return nil, p.fail(p.line(LatinHypercube, 0, l.key+"."+k), bad)
		case scale == "log":
			s.log = true
		case scale != "linear":
			return fail(".scale", fmt.Sprintf("%q", fmt.Sprint(scale)), `"linear" or "log"`)
		}
	}
	for _, k := range []string{"min", "max"} {
		if _, given := table[k]; !given {
			return fail("."+k, "", "a number")
		}
	}
	switch {
	case s.min >= s.max:
		return fail(".max", fmt.Sprint(table["max"]), "more than min, "+fmt.Sprint(table["min"]))
	case s.log && s.min <= 0:
		return fail(".min", fmt.Sprint(table["min"]), "more than 0 on a logarithmic scale")
	case s.step > s.max-s.min:
		return fail(".step", fmt.Sprint(table["step"]), "no more than max - min")
	}
	if _, isQuantity := schema.UnitOf(s.typ); s.step == 0 && !isQuantity && !s.isReal() {
		s.step = 1
	}
	return s, nil
}

func isNumeric(t reflect.Type) bool {
	v := reflect.Zero(t)
	return v.CanInt() || v.CanUint() || v.CanFloat()
}

// isReal says that the key's type counts in fractions of its base unit.
func (s *spread) isReal() bool { return reflect.Zero(s.typ).CanFloat() }

// largest is the largest whole number in a range; larger ones are not all exact in a float64.
const largest = 1 << 53

// quantity reads a decoded value as a number of a type, in its base unit.
func quantity(t reflect.Type, value any) (float64, bool) {
	v, err := schema.Convert(t, value)
	if err != nil {
		return 0, false
	}
	x := schema.Number(v)
	return x, v.CanFloat() && !math.IsInf(x, 0) && !math.IsNaN(x) || math.Abs(x) <= largest
}

// value returns the key's value, in TOML, at the quantile u in [0, 1). samples is the
// number of samples.
func (s *spread) value(u float64, samples int) string {
	if s.list != nil {
		return s.list[min(int(u*float64(len(s.list))), len(s.list)-1)]
	}
	var x float64
	if s.step > 0 {
		x = s.stepped(u)
	} else {
		x = s.rounded(u, samples, !s.isReal())
	}
	field := reflect.New(s.typ).Elem()
	switch {
	case field.CanInt():
		field.SetInt(int64(math.Round(x)))
	case field.CanUint():
		field.SetUint(uint64(math.Round(x)))
	default:
		field.SetFloat(x)
	}
	text, _ := schema.Literal(field.Interface()) // of a number or a quantity
	return text
}

// at returns the value at u without rounding.
func (b *bounds) at(u float64) float64 {
	if b.log {
		return float64(b.min * portable.Exp(u*portable.Log(b.max/b.min)))
	}
	return b.min + float64(u*(b.max-b.min))
}

// stepped returns the value at u, at a step. On a linear scale each step is equally likely.
// On a logarithmic scale it is the step nearest to the value.
func (b *bounds) stepped(u float64) float64 {
	// The slack keeps max among the values if rounding alone keeps step from dividing the range, as
	// 0.1 does from 0 to 0.3.
	last := math.Floor((b.max-b.min)/b.step + 1e-9)
	k := math.Floor(u * (last + 1))
	if b.log {
		k = math.Round((b.at(u) - b.min) / b.step)
	}
	return portable.Significant(b.min+float64(min(k, last)*b.step), 15)
}

// rounded returns the value at u with the fewest digits, at least three, that move it by less than
// a hundredth of its stratum and keep it inside. Names of points are then short, and hide the last
// bit of a logarithm, in which machines may differ. With whole it is the nearest whole number, if
// the stratum has one.
func (b *bounds) rounded(u float64, samples int, whole bool) float64 {
	n := float64(samples)
	stratum := math.Floor(u * n)
	low, high := b.at(stratum/n), b.at((stratum+1)/n)
	high -= float64((high - low) * 1e-6) // an end that rounding moved up is outside the stratum
	x := b.at(u)
	for digits := 3; digits < 17; digits++ {
		r := portable.Significant(x, digits)
		if whole && r != math.Trunc(r) {
			break
		}
		if r >= low && r < high && math.Abs(r-x) < (high-low)/100 {
			return r
		}
	}
	if !whole {
		return x
	}
	for _, r := range []float64{math.Round(x), math.Floor(x), math.Ceil(x)} {
		if r >= low && r < high {
			return r
		}
	}
	return math.Round(x)
}
