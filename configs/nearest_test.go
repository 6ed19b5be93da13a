package configs

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
)

// TestNearestPreset: a preset that begins with the name has priority over a similar one. A name with another number is another product, for
// which nothing is suggested.
func TestNearestPreset(t *testing.T) {
	for _, c := range []struct {
		kind       Kind
		name, want string
	}{
		{GPUs, "rtx-4090", "rtx-4090-vllm-0.19"}, {GPUs, "RTX-4090", "rtx-4090-vllm-0.19"}, {GPUs, "rtx4090", "rtx-4090-vllm-0.19"},
		{GPUs, "h20", ""}, {GPUs, "b100", ""}, {GPUs, "b200", "b200-sxm"}, {GPUs, "gb300", ""}, {GPUs, "mi300x", ""}, {GPUs, "l4", ""}, {GPUs, "gh200", ""}, {GPUs, "rtx-5090", ""}, {GPUs, "v100", ""},
		{GPUs, "h200", "h200-sxm"}, {GPUs, "h200_sxm", "h200-sxm"}, {GPUs, "h100-smx", "h100-sxm"}, {GPUs, "A100", "a100-sxm-80gb"}, {GPUs, "a100-sxm-80g", "a100-sxm-80gb"}, {GPUs, "a6000", "rtx-a6000"},
		{Model, "llama-3-80b", ""}, {Model, "llama3-8b", "llama-3-8b"}, {Model, "mixtral", "mixtral-8x7b"}, {Model, "llama-3.2-1b", ""}, {Model, "qwen235", ""}, {Model, "gpt-175", "gpt-175b"},
		{DRAMs, "ddr4-3200-8gb", "ddr4-3200-8gb-x4"}, {DRAMs, "ddr4-3200-8gbx8", "ddr4-3200-8gb-x8"}, {DRAMs, "ddr5-6400-16gb-x8", ""},
		{SystemPresets, "dgx-a100-l4", "dgx-a100-l3"},
	} {
		if got := nearestPreset(c.kind, c.name); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestUnknownPresetLeadsOn: the error for an unknown preset explains how to get one.
func TestUnknownPresetLeadsOn(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir("bare", 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind       Kind
		name, want string
	}{
		{GPUs, "b300", "'l3sim gpu new' writes one from a data sheet"},
		{Model, "nothing", "or a file that ends with .json or .toml"},
		{Model, "bare", "expected a folder with a config.json"},
	} {
		err := unknownPreset(c.kind, c.name, "key")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	for name, want := range map[string][]string{
		"h300":  {"other GPUs of a similar name: h100-sxm, h200-sxm"},
		"B300":  {"other GPUs of a similar name: b200-sxm"},
		"h-20":  {"other GPUs of a similar name: h100-sxm, h200-sxm"},
		"gb300": {"other GPUs of a similar name: gb200"},
		"h100":  nil, // one is meant
		"mi300": nil, "nothing": nil, "300": nil,
	} {
		if err := unknownPreset(GPUs, name, "key").(*input.Error); !slices.Equal(err.Details, want) {
			t.Errorf("%s: %q, want %q", name, err.Details, want)
		}
	}
	if err := unknownPreset(Model, "bare", "key").(*input.Error); err.Nearest != "" {
		t.Errorf("suggests %s", err.Nearest)
	}
}

// TestForeignDRAM: a part in another simulator's format is recognised by its name, whether the file exists or not.
func TestForeignDRAM(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("ds3.ini", []byte("[dram_structure]\nprotocol = DDR4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"ds3.ini": "files that end with .ini are DRAMsim3's", "none.INI": "DRAMsim3's", "ddr4.yaml": "files that end with .yaml are Ramulator's"} {
		_, err := plain.Load(Options{Sets: []string{"dram.preset=" + name}, SectionsOnly: true})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "a TOML table (docs/reference/dram.md has its form)") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFindBehindNames: keys with a word in their meaning follow those with it in their name, and common names lead to a key.
func TestFindBehindNames(t *testing.T) {
	for word, want := range map[string][]string{"ranksets": {"node.ranksets", "comm.rotation"}, "mapping": {"comm.rotation"}} {
		found, err := plain.Find(Options{}, word)
		if err != nil {
			t.Fatal(err)
		}
		at := -1
		for _, key := range want {
			next := slices.IndexFunc(found, func(e Explanation) bool { return e.Key == key })
			if next <= at {
				t.Errorf("%s: %s is number %d, behind %d", word, key, next, at)
			}
			at = next
		}
	}
}
