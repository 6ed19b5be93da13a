package configs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input/schema"
)

// Change is a key whose value differs from that of the presets.
type Change struct {
	Key   string
	Value string // as messages show it
}

// Changed returns the keys that differ from the presets that the configuration names, in the order of the struct, wherever the user set
// them. It leaves out [content]. For a fit other than the GPU's own, it returns only gpu.fit and not the fit's keys. It returns nothing if
// a preset cannot be read.
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
			continue // the key that names the file is reported instead
		}
		value, _ := schema.Literal(k.Get(c).Interface())
		changes = append(changes, Change{k.Name, value})
	}
	return changes
}

// ofPresets returns the configuration of the presets in flags, unvalidated, or nil if one cannot be read.
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

// withFit is ofPresets with the kernels of another shipped fit, but with the name of the GPU's own fit, so that the name is the only
// difference.
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

// ModelTitle returns the model's name. If the model is a preset that the user changed without renaming it, the changed keys follow, except
// those in but: "gpt-175b, changed: layers".
func (c *Config) ModelTitle(but ...string) string {
	return c.title("model", Model, Flag{Key: "run.model", Value: c.Run.Model}, c.Model.Name, but...)
}

// GPUTitle is ModelTitle for the GPU. Changes that the system preset makes to every GPU are left out. A GPU with its own name on a preset
// is titled "b200 (h200-sxm, changed: sms)".
func (c *Config) GPUTitle() string {
	if preset, changed := c.GPUBase(); preset != "" {
		return fmt.Sprintf("%s (%s)", c.GPU.Name, titled(preset, changed))
	}
	return c.title("gpu", GPUs, Flag{Key: "gpu.preset", Value: c.GPU.Preset}, c.GPU.Name)
}

// GPUBase returns the preset from which a GPU with its own name starts, and the keys of [gpu] that differ from it. Of a shipped fit only
// its name counts. The preset is "" if the GPU is the preset itself or is not based on one.
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
	// The system preset's changes to the GPU are not the user's. They are absent if a file names the preset.
	if inSystem := c.base(Flag{Key: "gpu.preset", Value: c.GPU.Preset}); inSystem != nil {
		users := c.changedIn("gpu", inSystem)
		changed = slices.DeleteFunc(changed, func(key string) bool { return !slices.Contains(users, key) })
	}
	return c.GPU.Preset, changed
}

// changedIn returns the keys of a section that differ from another configuration's, without the section's name. The memory share does not
// count: it is a property of the server, not of the GPU.
func (c *Config) changedIn(section string, from *Config) (changed []string) {
	for _, k := range keys.Changed(from, c) {
		if key, ours := strings.CutPrefix(k.Name, section+"."); ours && k.Name != memoryShare {
			changed = append(changed, key)
		}
	}
	return changed
}

const shownChanges = 4 // number of keys that a title names

// title returns a name and the keys of the section that differ from the preset of that name.
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

// base returns the system preset with a preset of a section and, for a GPU, with the fit that c names. It is nil if one cannot be read.
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
