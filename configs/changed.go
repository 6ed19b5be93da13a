package configs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input/schema"
)

// Change is a key whose value is not that of the presets.
type Change struct {
	Key   string
	Value string // as messages write it
}

// Changed returns the keys that differ from the presets that the configuration
// names, in the order of the struct: what a user changed, wherever that was; not those of [content], and of a fit that is named in place
// of the GPU's its name alone. It returns none where a preset cannot be read.
func (c *Config) Changed() []Change {
	if c.Made() != nil {
		return nil
	}
	named := []Flag{{Key: "preset", Value: c.Preset}, {Key: "run.model", Value: c.Run.Model},
		{Key: "gpu.preset", Value: c.GPU.Preset}, {Key: "dram.preset", Value: c.DRAM.Preset}}
	base := c.loader.withFit(named, c.GPU.Fit)
	if base == nil {
		return nil
	}
	var changes []Change
	for _, k := range c.loader.keys.Changed(base, c) {
		if strings.HasPrefix(k.Name, contentPrefix) {
			continue // the key that names the file is there
		}
		value, _ := schema.Literal(k.Get(c).Interface())
		changes = append(changes, Change{k.Name, value})
	}
	return changes
}

// ofPresets returns the configuration that the presets in flags make, nil where one
// cannot be read. It need not be valid.
func (ld *Loader) ofPresets(flags []Flag) *Config {
	l, err := ld.flagLayer(flags)
	if err != nil {
		return nil
	}
	r, err := ld.resolve([]*layer{l})
	if err != nil {
		return nil
	}
	return r.config
}

// withFit is ofPresets with the kernels of a shipped fit in place of the GPU's own, under the name of the GPU's own: only the name differs then.
func (ld *Loader) withFit(flags []Flag, fit string) *Config {
	base := ld.ofPresets(flags)
	if base == nil || base.GPU.Fit == fit || !slices.Contains(Names(Fits), fit) {
		return base
	}
	own := base.GPU.Fit
	if base = ld.ofPresets(append(flags, Flag{Key: "gpu.fit", Value: fit})); base != nil {
		base.GPU.Fit = own
	}
	return base
}

// ModelTitle returns the model's name and, where it starts from a preset and has no
// name of its own, which keys differ, but for those that the caller tells elsewhere: "gpt-175b, changed: layers".
func (c *Config) ModelTitle(but ...string) string {
	return c.title("model", Model, Flag{Key: "run.model", Value: c.Run.Model}, c.Model.Name, but...)
}

// GPUTitle is ModelTitle of the GPU. What the system preset changes in every GPU is no
// difference. A GPU with a name of its own on a preset is "b200 (h200-sxm, changed: sms)".
func (c *Config) GPUTitle() string {
	if preset, changed := c.GPUBase(); preset != "" {
		return fmt.Sprintf("%s (%s)", c.GPU.Name, titled(preset, changed))
	}
	return c.title("gpu", GPUs, Flag{Key: "gpu.preset", Value: c.GPU.Preset}, c.GPU.Name)
}

// GPUBase returns the preset that a GPU with a name of its own starts from, and the keys of [gpu]
// that differ from it, of a shipped fit its name alone; "" where the GPU is the preset or stands for itself.
func (c *Config) GPUBase() (preset string, changed []string) {
	if !slices.Contains(Names(GPUs), c.GPU.Preset) {
		return "", nil
	}
	l, err := presetLayer(GPUs, c.GPU.Preset, "gpu.preset")
	if err != nil || l.find("gpu.name").value.String() == c.GPU.Name {
		return "", nil
	}
	base := c.loader.newConfig()
	for _, e := range l.entries {
		keys.Key(e.key).Set(base, e.value)
	}
	base.GPU.Preset, base.GPU.Name = c.GPU.Preset, c.GPU.Name
	changed = c.changedIn("gpu", base)
	// What the system preset changes in the GPU is there, or not where a file names the preset: neither is the user's change.
	if inSystem := c.base(Flag{Key: "gpu.preset", Value: c.GPU.Preset}); inSystem != nil {
		users := c.changedIn("gpu", inSystem)
		changed = slices.DeleteFunc(changed, func(key string) bool { return !slices.Contains(users, key) })
	}
	return c.GPU.Preset, changed
}

// changedIn returns the keys of a section, without its name, that differ from another configuration's. The share of its memory that a server
// takes makes no other GPU.
func (c *Config) changedIn(section string, from *Config) (changed []string) {
	for _, k := range keys.Changed(from, c) {
		if key, ours := strings.CutPrefix(k.Name, section+"."); ours && k.Name != memoryShare {
			changed = append(changed, key)
		}
	}
	return changed
}

const shownChanges = 4 // how many keys a title names

// title returns a name, and the keys in which the section differs from the preset of that name.
func (c *Config) title(section string, kind Kind, named Flag, name string, but ...string) string {
	if !slices.Contains(Names(kind), named.Value) {
		return name
	}
	preset := c.base(named)
	if preset == nil || keys.Key(section+".name").Get(preset).String() != name {
		return name
	}
	changed := c.changedIn(section, preset)
	return titled(name, slices.DeleteFunc(changed, func(key string) bool { return slices.Contains(but, key) }))
}

// base returns the configuration of the system preset with a preset of a section, for a GPU's with the fit that c names, nil where one cannot be read.
func (c *Config) base(named Flag) *Config {
	var fit string
	if named.Key == "gpu.preset" {
		fit = c.GPU.Fit
	}
	id := [4]string{c.Preset, named.Key, named.Value, fit}
	base, known := c.loader.titles.Load(id)
	if !known {
		base = c.loader.withFit([]Flag{{Key: "preset", Value: c.Preset}, named}, fit)
		c.loader.titles.Store(id, base)
	}
	return base.(*Config)
}

func titled(name string, changed []string) string {
	if len(changed) == 0 {
		return name
	}
	list := strings.Join(changed[:min(len(changed), shownChanges)], ", ")
	if n := len(changed) - shownChanges; n > 0 {
		list += fmt.Sprintf(" and %d more", n)
	}
	return name + ", changed: " + list
}
