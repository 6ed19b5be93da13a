package configs

import (
	"reflect"

	"github.com/l3sim/l3sim/internal/schema"
)

// Change is a key whose value is not that of the presets.
type Change struct {
	Key   string
	Value string // as messages write it
}

// Changed returns the keys that differ from the presets that the configuration
// names, in the order of the struct: what a user changed, wherever that was. It
// returns none where a preset cannot be read.
func (c *Config) Changed() []Change {
	presets, err := c.loader.flagLayer([]Flag{
		{Key: "preset", Value: c.Preset}, {Key: "run.model", Value: c.Run.Model},
		{Key: "gpu.preset", Value: c.GPU.Preset}, {Key: "dram.preset", Value: c.DRAM.Preset},
	})
	if err != nil {
		return nil
	}
	r, err := c.loader.resolve([]*layer{presets})
	if err != nil {
		return nil
	}
	var changes []Change
	for _, k := range c.loader.keys.Changed(r.config, c) {
		value, _ := schema.Literal(k.Get(reflect.ValueOf(c).Elem()).Interface())
		changes = append(changes, Change{k.Name, value})
	}
	return changes
}
