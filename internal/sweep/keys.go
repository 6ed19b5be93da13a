package sweep

import (
	"reflect"
	"strconv"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/schema"
	"github.com/l3sim/l3sim/system"
)

// keys are the keys of a configuration.
var keys = system.Keys()

// columnName returns the column of a key in a sweep's results: the key, with
// its unit where its value has one.
func columnName(key string) string {
	unit, _ := schema.UnitOf(keys.Key(key).Type)
	return key + unit.Suffix
}

// columnType returns the type of the column of a key. Bytes are whole numbers. Other
// quantities are reals: a column's unit is larger than the unit they are counted in.
func columnType(key string) reflect.Type {
	t := keys.Key(key).Type
	if u, ok := schema.UnitOf(t); ok && u.Size != 1 {
		return reflect.TypeFor[float64]()
	}
	return t
}

// columnValue returns the cell of a key.
func columnValue(cfg *configs.Config, key string) string { return cell(keys.Key(key).Get(cfg)) }

// cell writes a value as a column does.
func cell(v reflect.Value) string {
	u, ok := schema.UnitOf(v.Type())
	switch {
	case !ok:
		return schema.Text(v)
	case v.CanInt() && u.Size == 1:
		return strconv.FormatInt(v.Int(), 10)
	}
	return strconv.FormatFloat(schema.Number(v)/u.Size, 'f', -1, 64)
}
