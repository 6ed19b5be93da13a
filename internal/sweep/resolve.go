package sweep

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
)

// resolver turns settings into configurations. Two combinations have the same presets if
// they set the same keys, and the text keys to the same text. The first one is loaded. The
// others are copies of it with other numbers, which is a hundred times faster than reading
// presets. A copy that is not valid is loaded from the presets, for an error with file and
// line.
type resolver struct {
	loadAll bool // load every configuration: tests compare the copies with it

	mu     sync.RWMutex
	loaded map[string]*configs.Config // by presetsOf
}

// resolve returns the configuration of the plan's file with settings. The caller owns
// it.
func (r *resolver) resolve(p *Plan, settings []Setting) (*configs.Config, error) {
	name := presetsOf(settings)
	r.mu.RLock()
	like := r.loaded[name]
	r.mu.RUnlock()
	if like != nil && !r.loadAll {
		if config := withNumbers(like, settings); config != nil && input.Validate(config) == nil {
			return config, nil
		}
	}
	config, err := system.Load(p.options(settings))
	if err != nil {
		return nil, err
	}
	kept := *config
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loaded == nil {
		r.loaded = map[string]*configs.Config{}
	}
	r.loaded[name] = &kept
	return config, nil
}

// presetsOf returns the part of the settings that decides the presets: the keys, and the
// values of text keys.
func presetsOf(settings []Setting) string {
	var b strings.Builder
	for _, s := range settings {
		b.WriteString(s.Key)
		if k := keys.Key(s.Key); k == nil || k.Type.Kind() == reflect.String {
			b.WriteString("=" + s.Value)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// withNumbers returns a copy of a configuration with the numbers of the settings. It
// returns nil where a setting is not a valid value of its key.
func withNumbers(like *configs.Config, settings []Setting) *configs.Config {
	config := *like
	for _, s := range settings {
		if keys.Key(s.Key).Type.Kind() != reflect.String && config.Set(s.Key, s.Value) != nil {
			return nil
		}
	}
	return &config
}

// cells returns the configuration's cells in the point's row of the results: the values
// of the plan's columns. Where the combination is not valid, it returns those that are
// known.
func (p *Plan) cells(point *Point, settings []Setting, config *configs.Config) []string {
	cells := make([]string, len(p.columns))
	for i, key := range p.columns {
		switch {
		case config != nil:
			cells[i] = columnValue(config, key)
		case key == results.SeedColumn:
			cells[i] = fmt.Sprint(point.Seed)
		default:
			cells[i] = plannedCell(settings, key)
		}
	}
	return cells
}

// plannedCell returns the cell of a key that settings set, in the same form as the cell
// of a valid configuration.
func plannedCell(settings []Setting, key string) string {
	for _, s := range slices.Backward(settings) {
		if s.Key != key {
			continue
		}
		if v, err := schema.Parse(keys.Key(key).Type, s.Value); err == nil {
			return cell(v)
		}
		return schema.Plain(s.Value)
	}
	return ""
}

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
