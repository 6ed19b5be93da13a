package schema

import (
	"reflect"

	"github.com/l3sim/l3sim/units"
)

// Unit is how quantities of a type are written: in configuration with a unit, in
// results as bare numbers of columns whose names end with Suffix.
type Unit struct {
	Suffix string
	Size   float64 // of the suffix's unit, in the type's base unit
	Takes  string  // what configuration takes, for people
}

// unitOf has the unit that a type's columns are in, with its size and the units that its text may have.
var unitOf = map[reflect.Type]Unit{
	reflect.TypeFor[units.Bytes]():     {"_bytes", 1, `bytes with a unit: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB`},
	reflect.TypeFor[units.Duration]():  {"_ns", float64(units.Nanosecond), `time with a unit: ps, ns, us, ms, s`},
	reflect.TypeFor[units.Bandwidth](): {"_GB_per_s", 1e9, `bytes a second with a unit: B/s, kB/s, MB/s, GB/s, TB/s`},
	reflect.TypeFor[units.FLOPRate]():  {"_TFLOP_per_s", 1e12, `operations a second with a unit: FLOP/s, GFLOP/s, TFLOP/s, PFLOP/s`},
}

// UnitOf returns the unit of a type, false where its values have none.
func UnitOf(t reflect.Type) (Unit, bool) {
	u, ok := unitOf[t]
	return u, ok
}

// Quantities reads two texts as quantities of one type, false where no type takes both.
func Quantities(a, b string) (x, y reflect.Value, ok bool) {
	for t := range unitOf { // a text with a unit is of one type at most
		x, errX := Convert(t, a)
		if y, errY := Convert(t, b); errX == nil && errY == nil {
			return x, y, true
		}
	}
	return x, y, false
}

// Takes says what kind of value a type takes; one may say so itself by a method Takes.
func Takes(t reflect.Type) string {
	if u, ok := unitOf[t]; ok {
		return u.Takes
	}
	v := reflect.Zero(t)
	if own, ok := v.Interface().(interface{ Takes() string }); ok {
		return own.Takes()
	}
	switch {
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.String:
		return "text"
	case v.CanInt() || v.CanUint():
		return "whole number"
	}
	return "number"
}
