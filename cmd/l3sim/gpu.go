package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/gpu/measure"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/pcie"
)

func (a *app) newGPUCommand() *cobra.Command {
	group := a.newGroup("gpu", "Predict, validate and fit GPU kernel times")
	group.Long = `Predict, validate and fit GPU kernel times.

A GPU is a preset (see 'l3sim config list') or a TOML file with a section [gpu], as
'l3sim gpu fit' writes it. A file may start from a preset (preset = "a100-sxm-80gb" in
[gpu]) and give only what differs.`
	group.AddCommand(a.newGPUPredictCommand(), a.newGPUValidateCommand(), a.newGPUFitCommand(), a.newGPUModelCommand())
	return group
}

// gpuFile is a file that describes a GPU and, optionally, its link.
type gpuFile struct {
	GPU struct {
		Preset string `toml:"preset"`
		gpu.Spec
	} `toml:"gpu"`
	PCIe pcie.Spec `toml:"pcie"`
}

// loadTarget returns the GPU that --gpu or --base names: a preset or a file.
// Its link is the file's, or else that of the GPU's generation.
func loadTarget(flag, name string) (*measure.Target, error) {
	var f gpuFile
	if err := decodeSection(flag, name, configs.GPUs, &f); err != nil {
		return nil, err
	}
	if f.GPU.Preset != "" { // the file's keys go on top of the preset's
		if err := decodeSection("gpu.preset", f.GPU.Preset, configs.GPUs, &f); err != nil {
			return nil, err
		}
		if err := decodeSection(flag, name, configs.GPUs, &f); err != nil {
			return nil, err
		}
	}
	if bad := f.GPU.Validate(); len(bad) > 0 {
		return nil, located(bad[0], name, "gpu")
	}
	t := &measure.Target{GPU: f.GPU.Spec, Link: f.PCIe}
	if t.Link == (pcie.Spec{}) {
		t.Link = pcie.Typical(t.GPU.PCIeGeneration)
	}
	if bad := t.Link.Validate(); len(bad) > 0 {
		return nil, located(bad[0], name, "pcie")
	}
	return t, nil
}

// loadModel returns the model that --model names: a preset or a file with a
// section [model].
func loadModel(flag, name string) (*llm.Model, error) {
	var f struct {
		Model llm.Model `toml:"model"`
	}
	if err := decodeSection(flag, name, configs.Model, &f); err != nil {
		return nil, err
	}
	if bad := f.Model.Validate(); len(bad) > 0 {
		return nil, located(bad[0], name, "model")
	}
	return &f.Model, nil
}

// located completes an error of a section with its file and full key.
func located(bad *input.InputError, file, section string) error {
	if text, err := input.ReadFile(file); err == nil {
		bad.Line = lineOf(string(text), bad.Key[strings.LastIndexByte(bad.Key, '.')+1:])
	}
	bad.File, bad.Key = file, section+"."+bad.Key
	return bad
}

// decodeSection decodes a preset of the given kind, or the file of that name,
// and refuses keys that dst does not have.
func decodeSection(flag, name string, kind configs.Kind, dst any) error {
	text, err := sectionText(flag, name, kind)
	if err != nil {
		return err
	}
	meta, err := input.DecodeTOML(name, text, dst)
	if err != nil {
		return err
	}
	// The decoder matches keys without regard to case; presets and files do not.
	valid, err := keysOf(dst)
	if err != nil {
		return err
	}
	for _, key := range meta.Keys() {
		if !slices.Contains(valid, key.String()) {
			return &input.InputError{
				File: name, Line: lineOf(text, key[len(key)-1]), Key: key.String(), Expected: "a known key",
				Nearest: input.Nearest(key.String(), valid),
			}
		}
	}
	return nil
}

// keysOf returns the full keys that a value has as TOML, sections included.
func keysOf(v any) ([]string, error) {
	text, err := toml.Marshal(v)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	meta, err := toml.Decode(string(text), &tree)
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, key := range meta.Keys() {
		keys = append(keys, key.String())
	}
	return keys, nil
}

// lineOf returns the first line of a TOML text that sets a key or opens a
// section of that name, 0 if none is plain to see.
func lineOf(text, name string) int {
	for i, line := range strings.Split(text, "\n") {
		key, _, _ := strings.Cut(strings.TrimSpace(line), "=")
		key = strings.Trim(key, " \t[]\"'\r")
		if key == name || strings.HasSuffix(key, "."+name) {
			return i + 1
		}
	}
	return 0
}

// sectionText returns the text of a preset, or of a file: a name with a folder
// or an extension is a file's.
func sectionText(flag, name string, kind configs.Kind) (string, error) {
	valid := configs.Names(kind)
	for _, v := range valid {
		if v == name {
			return configs.Source(name)
		}
	}
	text, err := input.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsRune(name, filepath.Separator) && filepath.Ext(name) != ".toml" {
		return "", input.UnknownName(flag, name, valid)
	}
	return string(text), err
}

// requireFlag returns an error for a flag that must be given.
func requireFlag(cmd *cobra.Command, name, expected string) error {
	if cmd.Flags().Changed(name) {
		return nil
	}
	return &input.InputError{Key: "--" + name, Expected: expected}
}

// checkFolder refuses a folder to write into that is a file, before the work
// whose result it would lose.
func checkFolder(flag, dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() || errors.Is(err, syscall.ENOTDIR) {
		return &input.InputError{Key: flag, Value: dir, Expected: "a folder, not a file"}
	}
	return nil
}

// expectedGPU is what --gpu takes.
func expectedGPU() string {
	return "a file or one of " + strings.Join(configs.Names(configs.GPUs), ", ")
}
