package configs

import (
	"reflect"

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
