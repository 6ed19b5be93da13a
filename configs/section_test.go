package configs_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/units"

	. "github.com/l3sim/l3sim/configs"
)

// written writes a file and returns its path.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

const tiny = "[model]\nname = \"tiny\"\nlayers = 2\nhidden = 64\nheads = 4\nkv_heads = 4\nhead_dim = 16\nffn_hidden = 256\ngated_ffn = false\n" +
	"vocab = 100\ntied_embedding = true\nmax_positions = 10\nelement_bits = 16\ntensor_parallel = 1\n"

const llamaJSON = `
 {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 32000, "intermediate_size": 11008, "_name_or_path": "x"}`

// TestLoadModel: a preset, a file that starts from one, and whole models; a config.json gets the fewest GPUs that hold it.
func TestLoadModel(t *testing.T) {
	g, _, err := LoadGPU("--gpu", "a100-sxm-80gb")
	if err != nil {
		t.Fatal(err)
	}
	small := *g
	small.MemoryCapacity = 8 * units.GiB
	for _, c := range []struct {
		path, name   string
		layers, gpus int
	}{
		{"gpt-89b", "gpt-89b", 48, 4},
		{written(t, "a.toml", "[run]\nmodel = \"gpt-89b\"\n[model]\nlayers = 5\n"), "gpt-89b", 5, 4},
		{written(t, "c.toml", tiny), "tiny", 2, 1},
		{written(t, "d.json", llamaJSON), "x", 32, 2},
		{written(t, "e.toml", tiny+"experts = 4\nactive_experts = 2\n"), "tiny", 2, 1},
	} {
		m, err := LoadModel("--model", c.path, &small, 8)
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		if m.Name != c.name || m.Layers != c.layers || m.TensorParallel != c.gpus {
			t.Errorf("%s: got %+v", c.path, m)
		}
	}
}

// TestLoadSectionErrors: errors name the flag or the file.
func TestLoadSectionErrors(t *testing.T) {
	g, _, _ := LoadGPU("--gpu", "a100-sxm-80gb")
	foreign := written(t, "a.toml", tiny+"[node]\ngpus = 5\n")
	invalid := written(t, "b.toml", strings.Replace(tiny, "layers = 2", "layers = 0", 1))
	lacking := written(t, "c.toml", "[model]\nname = \"new\"\nlayers = 2\n")
	other := written(t, "d.toml", "[node]\ngpus = 5\n")
	for name, want := range map[string]string{
		"gpt-89": `--model = "gpt-89": expected one of`,
		foreign:  foreign + ":16: node.gpus: expected keys of [model] alone in a file that run.model names",
		invalid:  invalid + ":3: model.layers = 0: expected 1 to 16777216",
		lacking:  lacking + `:2: model.name = "new": expected a whole section [model] with a new name: it lacks `,
		other:    other + ": expected a section [model]",
	} {
		if _, err := LoadModel("--model", name, g, 8); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", name, err, want)
		}
	}
}

// TestLoadGPULink: a GPU's file may include its link; a preset has none.
func TestLoadGPULink(t *testing.T) {
	if g, link, err := LoadGPU("--gpu", "a100-paper"); err != nil || g.Name != "a100-paper" || link != nil {
		t.Errorf("got %+v, %+v, %v", g, link, err)
	}
	path := written(t, "a.toml", "[gpu]\npreset = \"a100-paper\"\nmemory_capacity = \"1GiB\"\n[pcie]\ngeneration = 5\nlanes = 8\ngpus_per_uplink = 1\nefficiency = 0.5\nlatency = \"1us\"\n")
	if g, link, err := LoadGPU("--gpu", path); err != nil || g.MemoryCapacity != units.GiB || link == nil || link.Lanes != 8 {
		t.Errorf("got %+v, %+v, %v", g, link, err)
	}
	for key, text := range map[string]string{
		"pcie.lanes": "[gpu]\npreset = \"a100-paper\"\n[pcie]\ngeneration = 5\nlanes = 3\ngpus_per_uplink = 1\nefficiency = 0.5\nlatency = \"1us\"\n",
		"gpu.sms":    "[gpu]\npreset = \"a100-paper\"\nsms = 0\n",
	} {
		bad := new(input.Error)
		if _, _, err := LoadGPU("--gpu", written(t, "bad.toml", text)); !errors.As(err, &bad) || bad.Key != key {
			t.Errorf("got %v, want an error of %s", err, key)
		}
	}
}

// TestModelTitles: a title lists the differences from the preset.
func TestModelTitles(t *testing.T) {
	for sets, want := range map[string]string{
		"": "gpt-89b", "model.layers=5": "gpt-89b, changed: layers", `model.name="mine"`: "mine",
		"model.layers=5 model.vocab=7": "gpt-89b, changed: layers, vocab", "model.layers=48": "gpt-89b",
	} {
		c, err := Load(Options{Flags: []Flag{{"--model", "run.model", "gpt-89b"}}, Sets: strings.Fields(sets)})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ModelTitle(); got != want {
			t.Errorf("%s: got %s, want %s", sets, got, want)
		}
		if got, rest := c.ModelTitle("layers"), strings.NewReplacer(", changed: layers, vocab", ", changed: vocab", ", changed: layers", ""); got != rest.Replace(want) {
			t.Errorf("%s: but for layers %s", sets, got)
		}
	}
	c, err := Load(Options{Sets: []string{"gpu.preset=a100-paper", "gpu.memory_capacity=1TiB", "gpu.memory_share=0.5"}}) // the share is the server's
	if err != nil {
		t.Fatal(err)
	}
	if got := c.GPUTitle(); got != "a100-paper, changed: memory_capacity" {
		t.Errorf("got %s", got)
	}
}

// TestNamedGPU: a GPU with its own name shows the preset that it starts from and the differences.
func TestNamedGPU(t *testing.T) {
	own := written(t, "own.toml", "[gpu]\npreset = \"h200-sxm\"\nname = \"b200\"\nmemory_capacity = \"192GB\"\nmemory_bandwidth = \"8TB/s\"\n")
	for _, c := range []struct {
		set, title, base string
		changed          []string
	}{
		{"gpu.preset=" + own, "b200 (h200-sxm, changed: memory_capacity, memory_bandwidth)", "h200-sxm", []string{"memory_capacity", "memory_bandwidth"}},
		{"gpu.name=mine", "mine (a100-sxm-80gb)", "a100-sxm-80gb", nil},
		{"gpu.preset=h100-sxm", "h100-sxm", "", nil},
		{"gpu.sms=100", "a100-sxm-80gb, changed: sms", "", nil},
		{"gpu.preset=h200-sxm gpu.fit=h200-sxm.vllm-0.24", "h200-sxm, changed: fit", "", nil},
		{"gpu.preset=h200-sxm gpu.fit=h200-sxm.vllm-0.24 gpu.gemm.ridge=2", "h200-sxm, changed: fit, gemm.ridge", "", nil},
		{"gpu.preset=h200-sxm gpu.fit=h200-sxm.vllm-0.24 gpu.name=mine", "mine (h200-sxm, changed: fit)", "h200-sxm", []string{"fit"}},
	} {
		cfg, err := Load(Options{Sets: strings.Fields(c.set)})
		if err != nil {
			t.Fatal(err)
		}
		if base, changed := cfg.GPUBase(); cfg.GPUTitle() != c.title || base != c.base || !slices.Equal(changed, c.changed) {
			t.Errorf("%s: got %s, %s, %q", c.set, cfg.GPUTitle(), base, changed)
		}
	}
}

// TestWholeSections: a run's configuration has the whole model that it names. Other files may change the model. They may rename it only if
// they name the model that theirs starts from.
func TestWholeSections(t *testing.T) {
	own := written(t, "a.toml", "[run]\nmodel = \"tiny\"\n"+tiny)
	c, err := Load(Options{ConfigFiles: []string{own}})
	if err != nil || c.Run.Model != "tiny" || c.Model.Name != "tiny" || c.Model.Layers != 2 {
		t.Errorf("got %+v, %v", c, err)
	}
	if e, err := system.Configs().Explain(Options{ConfigFiles: []string{own}}, "run.model"); err != nil || e.Value != "tiny" || !strings.HasPrefix(e.SetIn, own) {
		t.Errorf("got %+v, %v", e, err)
	}
	c, err = Load(Options{ConfigFiles: []string{own, written(t, "b.toml", "[model]\nlayers = 3\n")}})
	if err != nil || c.Run.Model != "tiny" || c.Model.Layers != 3 || c.Model.Hidden != 64 {
		t.Errorf("got %+v, %v", c, err)
	}
	c, err = Load(Options{ConfigFiles: []string{own, written(t, "b.toml", "[model]\nname = \"tiny\"\nlayers = 4\n")}})
	if err != nil || c.Run.Model != "tiny" || c.Model.Layers != 4 || c.Model.Hidden != 64 {
		t.Errorf("got %+v, %v", c, err)
	}
	c, err = Load(Options{ConfigFiles: []string{own}, Flags: []Flag{{"--model", "run.model", "tiny"}}})
	if err != nil || c.Model.Name != "tiny" || c.Model.Layers != 2 {
		t.Errorf("named again: got %+v, %v", c, err)
	}
	for _, text := range []string{"[model]\nname = \"other\"\nlayers = 4\n", strings.ReplaceAll(tiny, "tiny", "other")} {
		_, err = Load(Options{ConfigFiles: []string{own, written(t, "b.toml", text)}})
		if err == nil || !strings.HasSuffix(err.Error(), `b.toml:2: model.name = "other": expected run.model with it, the preset or the file that [model] starts from (run.model takes a file with a whole section); without a name it changes tiny`) {
			t.Errorf("got %v", err)
		}
	}
}

// TestBaselineBounds: the largest and smallest values are accepted, values beyond are not.
func TestBaselineBounds(t *testing.T) {
	for set, ok := range map[string]bool{
		"hbm_pim.queries_per_read=1024": true, "hbm_pim.queries_per_read=1025": false, "hbm_pim.queries_per_read=0": false,
		"hbm_pim.model=commands": true, "hbm_pim.model=command": false, "hbm_pim.rules=jedec": true, "hbm_pim.level=bg": true, "hbm_pim.level=group": false, "hbm_pim.rules=hbm3": false, "hbm_pim.stacks=64": true, "hbm_pim.stacks=0": false,
		"hbm_pim.bandwidth_factor=1024": true, "hbm_pim.bandwidth_factor=0": false, "hbm_pim.capacity_share=1": true, "hbm_pim.capacity_share=1.1": false,
		"hbm_pim.memory_beside=1TiB": true, "hbm_pim.memory_beside=-1B": false, "hbm_pim.link=1B/s": true, "hbm_pim.link=0B/s": false, "hbm_pim.feed_forward=0": true, "hbm_pim.feed_forward=1": true,
		"hbm_pim.feed_forward=1.1": false, "hbm_pim.feed_forward=-0.1": false, "hbm_pim.placement=channel": true, "hbm_pim.placement=head": false, "rank_pim.sub_batches=adaptive": true, "rank_pim.sub_batches=two": false,
		"cpu_offload.overhead=0s": true, "cpu_offload.overhead=1ps": true, "cpu_offload.overhead=-1ps": false, "cpu_offload.cores=1": true, "cpu_offload.cores=65536": true,
		"cpu_offload.cores=0": false, "cpu_offload.host_memory_share=0": true, "cpu_offload.host_memory_share=1": true, "cpu_offload.host_memory_share=-0.1": false,
		"cpu_offload.max_delay=0": false, "cpu_offload.max_delay=1e-6": true, "cpu_offload.max_delay=1": true, "cpu_offload.max_delay=1.1": false, "cpu_offload.memory_efficiency=0": false,
	} {
		if _, err := Load(Options{Sets: []string{set}}); (err == nil) != ok {
			t.Errorf("%s: %v", set, err)
		}
	}
}

// TestLoadGPUWithoutPyTorch: a file with its own name has all of PyTorch's kernels, or none.
func TestLoadGPUWithoutPyTorch(t *testing.T) {
	preset, err := os.ReadFile("gpus/a100-sxm-80gb.toml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(preset), `name = "a100-sxm-80gb"`, `name = "own"`, 1)
	if g, _, err := LoadGPU("--gpu", written(t, "own.toml", text)); err != nil || g.Name != "own" {
		t.Errorf("none: %v", err)
	}
	text += "[gpu.pytorch.decode_attention]\nmodel = \"flash\"\n"
	_, _, err = LoadGPU("--gpu", written(t, "part.toml", text))
	if err == nil || !strings.Contains(err.Error(), "it lacks pytorch.prefill_attention.model, ") {
		t.Errorf("a part: %v", err)
	}
}
