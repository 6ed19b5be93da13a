package sweep

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/units"
)

// configKey is one key of a configuration.
type configKey struct {
	index []int // for reflect.Value.FieldByIndex
	typ   reflect.Type
}

// configKeys returns the keys of configs.Config by full dotted name.
var configKeys = sync.OnceValue(func() map[string]configKey {
	keys := map[string]configKey{}
	addKeys(reflect.TypeFor[configs.Config](), "", nil, keys)
	return keys
})

func addKeys(t reflect.Type, prefix string, index []int, keys map[string]configKey) {
	text := reflect.TypeFor[encoding.TextUnmarshaler]()
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(append([]int(nil), index...), i)
		name, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
		switch section := f.Type.Kind() == reflect.Struct && !reflect.PointerTo(f.Type).Implements(text); {
		case name == "-" || name == "" && !f.Anonymous:
		case name == "": // an embedded struct belongs to the section around it
			addKeys(f.Type, prefix, at, keys)
		case section:
			addKeys(f.Type, prefix+name+".", at, keys)
		default:
			keys[prefix+name] = configKey{at, f.Type}
		}
	}
}

// unknownKey is the error for what is no key of a configuration.
func unknownKey(key string) *input.InputError {
	var names []string
	sameName := ""
	for k := range configKeys() {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		_, last := splitKey(k)
		if strings.HasPrefix(k, key+".") {
			return &input.InputError{Key: key, Expected: "a key of the section, such as " + k}
		}
		if _, l := splitKey(key); sameName == "" && strings.EqualFold(last, l) {
			sameName = k
		}
	}
	if sameName == "" {
		sameName = input.Nearest(key, names)
	}
	return &input.InputError{Key: key, Expected: "a configuration key", Nearest: sameName}
}

// splitKey splits a dotted key into its section and name.
func splitKey(key string) (section, name string) {
	dot := strings.LastIndexByte(key, '.')
	return key[:max(dot, 0)], key[dot+1:]
}

// columnUnit is how a quantity is written in results: the end of the column's
// name, and the size of that unit in the type's base unit.
type columnUnit struct {
	suffix string
	size   float64
}

var columnUnits = map[reflect.Type]columnUnit{
	reflect.TypeFor[units.Bytes]():     {"_bytes", 1},
	reflect.TypeFor[units.Duration]():  {"_ns", float64(units.Nanosecond)},
	reflect.TypeFor[units.Bandwidth](): {"_GB_per_s", 1e9},
	reflect.TypeFor[units.FLOPRate]():  {"_TFLOP_per_s", 1e12},
}

// columnName returns the column of a key in a sweep's results: the key, with
// its unit where its value has one.
func columnName(key string) string {
	return key + columnUnits[configKeys()[key].typ].suffix
}

// columnType returns the type of the column of a key: bytes are whole numbers,
// other quantities, written in a larger unit than they are counted in, are not.
func columnType(key string) results.ColumnType {
	t := configKeys()[key].typ
	if u, ok := columnUnits[t]; ok {
		if u.size == 1 {
			return results.Integer
		}
		return results.Real
	}
	return results.ColumnTypeOf(t)
}

// columnValue returns the cell of a key.
func columnValue(cfg *configs.Config, key string) string {
	v := reflect.ValueOf(cfg).Elem().FieldByIndex(configKeys()[key].index)
	if u, ok := columnUnits[v.Type()]; ok {
		if v.CanInt() && u.size == 1 {
			return strconv.FormatInt(v.Int(), 10)
		}
		return strconv.FormatFloat(number(v)/u.size, 'f', -1, 64)
	}
	if v.CanFloat() {
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	}
	return fmt.Sprint(v.Interface())
}

// number returns a numeric field as a float64.
func number(v reflect.Value) float64 {
	switch {
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	}
	return v.Float()
}

// setField gives a field the value that a TOML scalar stands for, false where
// it cannot hold that.
func setField(field reflect.Value, value string) bool {
	if u, ok := field.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(plainText(value))) == nil
	}
	_, err := fmt.Sscan(plainText(value), field.Addr().Interface())
	return err == nil
}
