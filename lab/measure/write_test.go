package measure_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/lab/measure"
	"github.com/l3sim/l3sim/system"
)

// changed returns a value 1% off v, on the side that rules allow: shares stay below 1, factors above.
func changed(v reflect.Value) reflect.Value {
	n := reflect.New(v.Type()).Elem()
	n.Set(v)
	switch {
	case v.CanFloat() && (v.Float() < 1 || v.Float() >= 10):
		n.SetFloat(v.Float() * 0.99)
	case v.CanFloat() && v.Float() > 1:
		n.SetFloat(v.Float() * 1.01)
	case v.CanInt():
		n.SetInt(v.Int() - v.Int()/100)
	}
	return n
}

// TestFitIsReadBack: a written fit is a file for gpu.fit with exactly the table's entries: with it, kernels take the same times as on
// the fitted GPU, and data-sheet values stay those of the run's GPU.
func TestFitIsReadBack(t *testing.T) {
	for _, name := range configs.Names(configs.GPUs) {
		load := func(sets ...string) (*configs.Config, error) {
			return system.Configs().Load(configs.Options{Sets: append([]string{"run.system=gpu-only", "run.model=llama-2-7b", "gpu.preset=" + name}, sets...)})
		}
		of, err := load()
		if err != nil {
			t.Fatal(err)
		}
		before := &of.GPU.Spec
		fitted := *before
		keys := schema.Of[gpu.Spec]()
		for i := range keys.Keys {
			if k := &keys.Keys[i]; configs.TableOf("gpu."+k.Name) == "gpu.fit" {
				k.Set(&fitted, changed(k.Get(before)))
			}
		}
		want := fitted
		fitted.SMs, fitted.Name = fitted.SMs+1, "another" // the data sheet's
		about := configs.Fit{Source: "a test", Rows: 7, Kinds: map[string]configs.FitKind{"gemm": {Rows: 7, Mean: 3, Median: 2.5, P90: 7, Range: "m 1 to 8"}, "all_reduce": {From: "h200-sxm"}}}
		var text bytes.Buffer
		if err := measure.WriteFit(&text, &fitted, about, []string{"of " + name}, nil, name); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "fit.toml")
		if err := os.WriteFile(path, text.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
		cfg, err := load("gpu.fit=" + path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i := range keys.Keys {
			k := &keys.Keys[i]
			if got, want := k.Get(&cfg.GPU.Spec).Interface(), k.Get(&want).Interface(); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s = %v, want %v", name, k.Name, got, want)
			}
		}
		batch, heads := gpu.DecodeBatch{Requests: 8, Tokens: 8 * 3000, Longest: 3000, KVHeads: 8}, gpu.Heads{Query: 32, KV: 8, Dim: 128}
		for kernel, of := range map[string]func(g *gpu.Spec) gpu.Cost{
			"a product":        func(g *gpu.Spec) gpu.Cost { return g.GEMMCost(64, 4096, 4096, 16) },
			"decode attention": func(g *gpu.Spec) gpu.Cost { return g.DecodeAttentionCost(batch, heads) },
		} {
			if got, want := of(&cfg.GPU.Spec), of(&want); got != want || got == of(before) {
				t.Errorf("%s: %s costs %+v, want %+v", name, kernel, got, want)
			}
		}
		var written struct {
			Fit configs.Fit `toml:"fit"`
		}
		if _, err := toml.Decode(text.String(), &written); err != nil || !reflect.DeepEqual(written.Fit, about) {
			t.Errorf("%s: the fit is from %+v, %v", name, written.Fit, err)
		}
		if !strings.HasPrefix(text.String(), "# of "+name+"\n\n[fit]\n") {
			t.Errorf("%.200s", text.String())
		}
	}
}
