package configs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/system"

	. "github.com/l3sim/l3sim/configs"
)

// TestOtherNamesOfSystems: a name that others give a system leads to it, whichever of the systems it is.
func TestOtherNamesOfSystems(t *testing.T) {
	ld := New(policies.Builtin(), System{Name: "first", Others: []string{"alpha"}}, System{Name: "second", Others: []string{"beta", "gamma"}})
	for other, name := range map[string]string{"alpha": "first", "Beta": "second", "gamma": "second"} {
		_, err := ld.Load(Options{Sets: []string{"run.system=" + other}})
		if want := `run.system = "` + other + `": expected one of first, second ('l3sim config systems' says what each stands for); did you mean "` + name + `"?`; err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", other, err, want)
		}
	}
}

// TestExplainedByHand: a band shows both ends; a default is that of the system preset, except in that preset itself; and the comment on a value is shown.
func TestExplainedByHand(t *testing.T) {
	bands := written(t, "own.toml", "[bands]\n\"pcie.latency\" = [\"1ns\", \"1s\"]\n[node]\nchannels = 16 # two sockets of eight\n")
	explain := func(key string, o Options) Explanation {
		e, err := system.Configs().Explain(o, key)
		if err != nil {
			t.Fatal(err)
		}
		return *e
	}
	if e := explain("pcie.latency", Options{ConfigFiles: []string{bands}}); e.Band != "[1ns, 1s]" {
		t.Errorf("a band of %s", e.Band)
	}
	if e := explain("node.channels", Options{ConfigFiles: []string{bands}}); e.Value != "16" || e.SetIn != bands+":4" || e.Source != "two sockets of eight" {
		t.Errorf("%+v", e)
	}
	fair := Options{Flags: []Flag{{Name: "--preset", Key: "preset", Value: "fair"}}}
	if e := explain("preset", fair); e.Value != "fair" || e.Default == "fair" {
		t.Errorf("%+v", e)
	}
	if a, b := explain("serving.beyond_context", fair), explain("memory.admission", fair); a.Default != a.Value || b.Default != b.Value {
		t.Errorf("defaults of a preset are %+v and %+v", a, b)
	}
}

// TestFilesOfSections: for a file that does not exist, the error says what a section's file is. A folder with the name of
// a model is not a file.
func TestFilesOfSections(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll(filepath.Join("llama-3-8b", "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	for key, section := range map[string]string{"run.model": "model", "gpu.preset": "gpu", "prices.preset": "prices"} {
		_, err := Load(Options{Sets: []string{key + "=none.toml"}})
		if want := "a TOML file with [" + section + "], or one of "; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", key, err, want)
		}
	}
	if c, err := Load(Options{Sets: []string{"run.model=llama-3-8b"}}); err != nil || c.Model.Layers != 32 {
		t.Errorf("a preset beside a folder: %v", err)
	}
}
