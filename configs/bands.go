package configs

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/units/portable"
)

// bandDefaults are the default ranges of assumed values, overridden by presets; a system's defaults have the ranges of its own keys. An
// entry of [bands] is a key with the two ends of its range. A key that the user sets loses its default range.
const bandDefaults = `
[bands]
pcie.latency = ["3.4us", "11.1us"] # a lone copy to a copy within iterations of two H200s (lab/docs/validation.md); exposed transfers of each layer
pcie.efficiency = [0.7, 0.88]      # an H200's large copies reach 0.88; 0.79 less the mean error of an H100's lone ones, 11% (lab/docs/validation.md); transfers
`

const bandsPrefix = "bands."

// keyBand is the range of a key that has no band in its own value.
type keyBand struct {
	key       string
	low, high float64 // in the key's base unit, see schema.Number
}

// parseBand reads an entry of [bands]; band is nil for a nested section. of reports whether name is under [bands] at all.
func (ld *Loader) parseBand(name string, value any) (band *keyBand, of bool, err error) {
	name, of = strings.CutPrefix(strings.ReplaceAll(name+".", `"`, ""), bandsPrefix)
	name = strings.TrimSuffix(name, ".")
	if _, isTable := value.(map[string]any); !of || isTable {
		return nil, of, nil
	}
	k, ends := ld.keys.Key(name), [2]float64{}
	if k == nil {
		return nil, true, ld.unknown(name)
	}
	list, _ := value.([]any)
	bad := &input.Error{Value: schema.Written(value), Expected: "[LOW, HIGH], numbers as " + name + " takes them"}
	if len(list) != len(ends) || !drawable(k.Type) {
		return nil, true, bad
	}
	for i := range ends {
		v, err := schema.Convert(k.Type, list[i])
		if err != nil {
			return nil, true, err
		}
		ends[i] = schema.Number(v)
	}
	if !(ends[0] < ends[1]) {
		return nil, true, bad
	}
	return &keyBand{name, ends[0], ends[1]}, true, nil
}

// drawable reports whether values of a type are numbers, with or without a unit.
func drawable(t reflect.Type) bool {
	zero := reflect.Zero(t)
	return zero.CanInt() || zero.CanUint() || zero.CanFloat()
}

// setBands takes the range of each key from the highest layer that has one. A key that the user sets keeps only a range from the user.
func (r *resolution) setBands(layers []*layer) {
	given := map[string]bool{}
	for _, l := range layers {
		for _, b := range l.bands {
			r.bands[b.key], given[b.key] = b, !l.preset
		}
	}
	maps.DeleteFunc(r.bands, func(key string, _ keyBand) bool {
		o := r.origin[key]
		return !given[key] && !o.preset && o.within == ""
	})
}

// Band is the value of an uncertain key and its range.
type Band struct {
	Key              string
	Value, Low, High float64 // in the key's base unit (schema.Number), or the numbers of an energy.Constant
	LogNormal        bool    // Low and High are the 10th and 90th percentile; else they are bounds
	key              *schema.Key
}

// At returns the number at a quantile of the band. Place 0.5 is the value: half of all draws are below it. Without LogNormal, numbers
// between the value and a bound are equally likely.
func (b *Band) At(place float64) float64 {
	if b.LogNormal {
		const tenth, most = 1.2815515655446004, 3 // standard deviations: at the ends, and at the furthest draw
		z := min(most, max(-most, math.Sqrt2*math.Erfinv(float64(2*place)-1)))
		if z > 0 {
			return float64(b.Value * portable.Pow(b.High/b.Value, z/tenth))
		}
		return float64(b.Value * portable.Pow(b.Low/b.Value, -z/tenth))
	}
	if place < 0.5 {
		return b.Low + float64((b.Value-b.Low)*2*place)
	}
	return b.Value + float64((b.High-b.Value)*(float64(2*place)-1))
}

// Uncertain returns the keys of c with a band, ordered by name: constants with a band in their value, and the keys of [bands]. c is the
// configuration of these origins, or one with other numbers from the same layers. The error names a value outside of its range.
func (o *Origins) Uncertain(c *Config) (all []Band, err error) {
	constant := reflect.TypeFor[energy.Constant]()
	for i := range c.loader.keys.Keys {
		k := &c.loader.keys.Keys[i]
		b := Band{Key: k.Name, key: k, LogNormal: strings.HasPrefix(k.Name, "gpu.scale.")}
		if k.Type == constant {
			e := energy.Constant(k.Get(c).String()).Estimate()
			b.Value, b.Low, b.High = e.Value, e.Low, e.High
		} else if band, has := o.r.bands[k.Name]; has {
			b.Value, b.Low, b.High = schema.Number(k.Get(c)), band.low, band.high
			if b.Value < b.Low || b.Value > b.High {
				return nil, &input.Error{Key: bandsPrefix + k.Name, Value: fmt.Sprintf("[%v, %v]", b.Text(b.Low), b.Text(b.High)),
					Expected: fmt.Sprintf("a range that has %s = %s", k.Name, b.Text(b.Value))}
			}
		}
		if b.Low < b.High {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b Band) int { return cmp.Compare(a.Key, b.Key) })
	return all, nil
}

// Text writes a number as --set takes it.
func (b *Band) Text(x float64) string {
	v := reflect.New(b.key.Type).Elem()
	switch {
	case v.CanInt():
		v.SetInt(int64(math.Round(x)))
	case v.CanUint():
		v.SetUint(uint64(math.Round(x)))
	case v.CanFloat():
		v.SetFloat(x)
	default: // a constant
		return fmt.Sprint(x)
	}
	return schema.Text(v)
}
