package sweep

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/schema"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
)

// resolver turns settings into configurations. Combinations that set the same
// keys, and text keys to the same text, have the same presets: once one of them has
// been loaded, the others are copies with other numbers, which is a hundred times
// faster than reading presets. A copy that is not valid is loaded after all, for
// the error that names the place.
type resolver struct {
	loadAll bool // load every configuration: the way that the short one is compared with

	mu     sync.RWMutex
	loaded map[string]*configs.Config // one with each set of presets
}

// resolve returns the configuration that settings make of the plan's file, the
// caller's own.
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

// presetsOf returns what of the settings decides the presets: the keys, and the
// values of those that hold text.
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

// withNumbers returns a copy of a configuration with the numbers of the settings,
// nil where a setting is no value of its key.
func withNumbers(like *configs.Config, settings []Setting) *configs.Config {
	config := *like
	for _, s := range settings {
		if keys.Key(s.Key).Type.Kind() != reflect.String && config.Set(s.Key, s.Value) != nil {
			return nil
		}
	}
	return &config
}

// cells returns what the point's row in the results shows of its configuration:
// the values of the plan's columns, as far as they are known where the
// combination is no configuration.
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

// plannedCell writes what settings give a key the way a configuration that holds
// this value writes it.
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
