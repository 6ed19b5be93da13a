package sweep

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/system"
)

// openModel is a config.json of 131 GiB of weights: 4 GPUs of 80 GiB, or 2 of 141 GiB, hold it.
const openModel = `{"model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
"intermediate_size": 28672, "vocab_size": 128256, "tie_word_embeddings": false, "torch_dtype": "bfloat16"}`

func openModelFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "open.json")
	if err := os.WriteFile(path, []byte(openModel), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOneLayout: rows of several GPUs or models have the most GPUs a replica that any needs, unless the user sets it.
func TestOneLayout(t *testing.T) {
	open := openModelFile(t)
	flag := func(key, value string) configs.Flag { return configs.Flag{Name: "--" + key, Key: key, Value: value} }
	gpus, few := flag("gpu.preset", "h200-sxm,h100-sxm"), flag("run.requests", "2")
	for name, c := range map[string]struct {
		model   string
		flags   []configs.Flag
		sets    []string
		want    []int
		changes string // part of the message, "" for none
		differ  bool
	}{
		"open":          {open, []configs.Flag{gpus}, nil, []int{4, 4}, "all rows: 4 GPUs a replica, as h100-sxm needs; --tp sets it", false},
		"systems":       {open, []configs.Flag{gpus, flag("run.system", "l3,gpu-only")}, nil, []int{4, 4, 4, 4}, "as h100-sxm,l3 needs", false},
		"set":           {open, []configs.Flag{gpus, flag("model.tensor_parallel", "8")}, nil, []int{8, 8}, "", false},
		"--set":         {open, []configs.Flag{gpus}, []string{"model.tensor_parallel=8"}, []int{8, 8}, "", false},
		"fit":           {open, []configs.Flag{gpus, flag("model.tensor_parallel", "fit")}, nil, []int{2, 4}, "", true},
		"--set fit":     {open, []configs.Flag{gpus}, []string{"model.tensor_parallel=fit"}, []int{2, 4}, "", true},
		"a preset":      {"llama-3-70b", []configs.Flag{gpus}, nil, []int{4, 4}, "", false},
		"a fit preset":  {"llama-3-70b", []configs.Flag{gpus, flag("model.tensor_parallel", "fit")}, nil, []int{2, 4}, "", true},
		"one GPU":       {open, []configs.Flag{flag("run.system", "l3,gpu-only"), flag("gpu.preset", "h200-sxm")}, nil, []int{2, 2}, "", false},
		"of two models": {open + ",opt-66b", []configs.Flag{gpus}, nil, []int{4, 2, 4, 2}, "as h100-sxm,", false},
	} {
		f, err := design.OfLists(system.Configs(), configs.Options{Sets: c.sets, Flags: append([]configs.Flag{few, flag("run.model", c.model)}, c.flags...)})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if name == "of two models" { // the GPUs are the slower axis
			slices.Reverse(f.Axes)
		}
		changes, err := OneLayout(f)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if said := strings.Join(changes, "\n"); !strings.Contains(said, c.changes) || (said == "") != (c.changes == "") {
			t.Errorf("%s: said %q", name, said)
		}
		p, err := NewPlan(f, "v")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []int
		for i := range p.Points {
			cfg, err := p.Config(&p.Points[i])
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, cfg.Model.TensorParallel)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: GPUs a replica %v, want %v", name, got, c.want)
		}
		if differ := len(p.Layouts()) > 0; differ != c.differ || slices.Contains(p.columns, layoutKey) != (differ || slices.Contains(p.Keys, layoutKey)) {
			t.Errorf("%s: differ %v, columns %v", name, p.Layouts(), p.columns)
		}
	}
}

// TestDerivedLayouts: a sweep derives the GPUs of a replica at each point, also if points differ only in numbers, and shows them.
func TestDerivedLayouts(t *testing.T) {
	p := plan(t, "[set]\nrun.requests = 2\nrun.system = \"gpu-only\"\nrun.model = \""+filepath.ToSlash(openModelFile(t))+"\"\ngpu.preset = \"a100-sxm-80gb\"\n[grid]\nmodel.kv_bits = [16, 8]\ngpu.memory_capacity = [\"80GiB\", \"200GiB\"]\nnode.gpus = [8, 4]\n")
	for i := range p.Points {
		got, err := p.Config(&p.Points[i])
		if err != nil {
			continue
		}
		want, err := p.File.Loader.Load(p.options(p.settings(p.Points[i].combination)))
		if err != nil || got.Model.TensorParallel != want.Model.TensorParallel {
			t.Errorf("%s: %d GPUs a replica, read from files %d, %v", p.Points[i].Name, got.Model.TensorParallel, want.Model.TensorParallel, err)
		}
	}
	if said := p.Layouts(); len(said) != 1 || !slices.Contains(p.columns, layoutKey) {
		t.Errorf("%q, columns %v", said, p.columns)
	}
}

// TestOpenLayouts: an invalid combination does not hide the needs of later ones.
func TestOpenLayouts(t *testing.T) {
	f := parse(t, "[set]\nrun.model = \""+filepath.ToSlash(openModelFile(t))+"\"\n[grid]\nbatching.page_tokens = [0, 16]\ngpu.preset = [\"h200-sxm\", \"h100-sxm\"]\n")
	p := emptyPlan(f, "", axisKeys(f))
	p.nameParts()
	rows, err := p.openLayouts()
	if err != nil || len(rows) != 1 || rows[0].least != 2 || rows[0].most != 4 || len(rows[0].gpus) != 2 || rows[0].needs != "page_tokens=16,preset=h100-sxm" {
		for _, o := range rows {
			t.Errorf("%+v", *o)
		}
		t.Errorf("%d models, %v", len(rows), err)
	}
}

// TestDiffering: three models, of which the first and the last have points on several GPUs, each of which counts once.
func TestDiffering(t *testing.T) {
	p := &Plan{Points: []Point{{Name: "invalid"}}}
	for i, x := range []layout{{"a", 4}, {"b", 1}, {"c", 8}, {"a", 2}, {"c", 8}, {"a", 4}, {"b", 1}, {"c", 4}, {"c", 2}} {
		p.Points = append(p.Points, Point{Name: string(rune('p' + i)), layout: x})
	}
	const want = "points of a differ in the GPUs of a replica: 4 (p), 2 (s); model.tensor_parallel sets it\n" +
		"points of c differ in the GPUs of a replica: 8 (r), 4 (w), 2 (x); model.tensor_parallel sets it"
	if said := strings.Join(p.Layouts(), "\n"); said != want {
		t.Errorf("said %s\nwant %s", said, want)
	}
	if p.Keys = []string{layoutKey}; p.Layouts() != nil {
		t.Errorf("said %q of an axis", p.Layouts())
	}
}
