package configs

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/pcie"
)

// LoadGPU returns the GPU that name stands for, a preset or a file, and the link that
// the file describes, nil where it has none. Flag is what the user gave the name to.
func LoadGPU(flag, name string) (*gpu.Spec, *pcie.Spec, error) {
	r, err := loadSection(GPUs, flag, name)
	if err != nil {
		return nil, nil, err
	}
	if err := r.valid("gpu", &r.config.GPU); err != nil {
		return nil, nil, err
	}
	if _, given := r.origin["pcie.generation"]; !given {
		return &r.config.GPU.Spec, nil, nil
	}
	if err := r.valid("pcie", &r.config.PCIe); err != nil {
		return nil, nil, err
	}
	return &r.config.GPU.Spec, &r.config.PCIe, nil
}

// LoadModel returns the model that name stands for, a preset or a file. A file that
// does not say how many GPUs share a replica gets as few of g as hold it, at most gpus.
func LoadModel(flag, name string, g *gpu.Spec, gpus int) (*llm.Model, error) {
	r, err := loadSection(Model, flag, name)
	if err != nil {
		return nil, err
	}
	if _, given := r.origin["model.tensor_parallel"]; !given {
		r.config.GPU.Spec, r.config.Node.GPUs = *g, gpus
		r.config.deriveTensorParallel()
	}
	return &r.config.Model, r.valid("model", &r.config.Model)
}

// loadSection loads what a preset or a file says, without a system around it.
func loadSection(kind Kind, flag, name string) (*resolution, error) {
	r := plain.newResolution()
	for _, b := range bases {
		if b.kind != kind {
			continue
		}
		named := &layer{entries: []entry{{key: b.key, value: reflect.ValueOf(name), file: flag}}}
		root, err := b.find(plain, []*layer{{}, named})
		if err != nil {
			return nil, input.Edit(err, func(bad *input.Error) {
				if bad.File == flag && bad.Key == b.key {
					bad.File, bad.Key = "", flag
				}
			})
		}
		for _, e := range root.entries {
			r.set(e, origin{entry: e, preset: true})
		}
		for _, file := range root.files {
			for _, e := range file.entries {
				r.set(e, origin{entry: e})
			}
		}
	}
	return r, nil
}

// valid returns the first fault of a section, with full key and place.
func (r *resolution) valid(name string, section input.Checked) error {
	var c input.Check
	c.In(name, section)
	return r.locate(c.Err())
}

// ModelTitle returns the model's name and, where it starts from a preset and has no
// name of its own, which keys differ: "gpt-175b, changed: layers".
func (c *Config) ModelTitle() string { return c.title("model", Model, c.Run.Model, c.Model.Name) }

// GPUTitle is ModelTitle of the GPU. What the system preset changes in every GPU is no
// difference.
func (c *Config) GPUTitle() string { return c.title("gpu", GPUs, c.GPU.Preset, c.GPU.Name) }

// shownChanges is how many keys a title names.
const shownChanges = 4

func (c *Config) title(section string, kind Kind, preset, name string) string {
	flag := Flag{Name: "preset", Key: "gpu.preset", Value: preset}
	if kind == Model {
		flag.Key = "run.model"
	}
	base := c.loader.unchangedFrom(c.Preset, flag)
	if base == nil {
		return name
	}
	if keys.Key(section+".name").Get(reflect.ValueOf(base).Elem()).String() != name {
		return name
	}
	var changed []string
	for _, k := range keys.Changed(base, c) {
		if last, ours := strings.CutPrefix(k.Name, section+"."); ours {
			changed = append(changed, last)
		}
	}
	if len(changed) == 0 {
		return name
	}
	list := strings.Join(changed[:min(len(changed), shownChanges)], ", ")
	if n := len(changed) - shownChanges; n > 0 {
		list += fmt.Sprintf(" and %d more", n)
	}
	return name + ", changed: " + list
}

// unchangedFrom returns the configuration of a system preset with one of its models or
// GPUs, nil where there is no such preset. It need not be valid.
func (ld *Loader) unchangedFrom(system string, f Flag) *Config {
	type key struct {
		system string
		flag   Flag
	}
	if c, ok := ld.unchanged.Load(key{system, f}); ok {
		return c.(*Config)
	}
	var c *Config
	for _, b := range bases {
		if _, err := source(b.kind, f.Value, b.key); b.key == f.Key && err == nil {
			l := &layer{entries: []entry{
				{key: "preset", value: reflect.ValueOf(system)}, {key: f.Key, value: reflect.ValueOf(f.Value)},
			}}
			if r, err := ld.resolve([]*layer{l}); err == nil {
				c = r.config
			}
		}
	}
	ld.unchanged.Store(key{system, f}, c)
	return c
}
