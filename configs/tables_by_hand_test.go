package configs_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/system"

	. "github.com/l3sim/l3sim/configs"
)

// TestOwnDRAMTable: a part of a user's table has the places and sources of its rows. The table's content is recorded, and a changed table
// is refused.
func TestOwnDRAMTable(t *testing.T) {
	const text = "standard = 'mine'\nbase = 'ddr4'\nvalues = [\n  '| tRCD | 50 | a sheet',\n]\n"
	file := written(t, "own.toml", text)
	c, err := Load(Options{Sets: []string{"dram.preset=" + file + ":mine-3200-8gb-x8"}})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(text))
	content := hex.EncodeToString(sum[:])
	if c.DRAM.TRCD != 50 || c.DRAM.Name != "mine-3200-8gb-x8" || c.DRAM.Rules().Name != "mine" || c.Content.DRAMPreset != content {
		t.Errorf("tRCD %d, %s of %s, content %s", c.DRAM.TRCD, c.DRAM.Name, c.DRAM.Rules().Name, c.Content.DRAMPreset)
	}
	again, err := Load(Options{Sets: []string{"dram.preset=" + file + ":mine-3200-8gb-x8"}})
	if err != nil || again.DRAM.Rules() != c.DRAM.Rules() {
		t.Errorf("the same table is another standard: %v", err)
	}
	for key, want := range map[string][3]string{"dram.tRCD": {"50", file + ":4", "a sheet"}, "dram.standard": {"mine", file + ":1", ""}, "dram.CL": {"22", file, ""}} {
		e, err := system.Configs().Explain(Options{Sets: []string{"dram.preset=" + file + ":mine-3200-8gb-x8"}}, key)
		if err != nil || e.Value != want[0] || e.SetIn != want[1] || want[2] != "" && e.Source != want[2] {
			t.Errorf("%s: %+v, %v", key, e, err)
		}
	}
	for _, c := range []struct{ preset, more, want string }{
		{file, "run.seed=1", file + ": expected the name of one of its parts behind a colon: mine-2400-8gb-x4, "},
		{file + ":mine-3200-8gb-x9", "run.seed=1", `"mine-3200-8gb-x9"`},
		{file + ":mine-3200-8gb-x8", `content.dram_preset="00"`, `content.dram_preset = "00": expected ` + content + ", of " + file + ":mine-3200-8gb-x8: the file has changed"},
		{"ddr4-3200-8gb-x8", `content.dram_preset="00"`, `content.dram_preset = "00": expected to be left out: dram.preset names no file whose content is in no key`},
		{file[:len(file)-5] + "x.toml:p", "run.seed=1", "no such file"},
	} {
		if _, err := Load(Options{Sets: []string{"dram.preset=" + c.preset, c.more}}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %s", c.preset, c.more, err, c.want)
		}
	}
	if _, err := Load(Options{Sets: []string{"dram.preset=" + file + ":mine-3200-8gb-x8", `content.dram_preset="` + strings.ToUpper(content) + `"`}}); err != nil {
		t.Errorf("the content as it is, in capitals: %v", err)
	}
	if _, err := Load(Options{Sets: []string{"dram.preset=" + written(t, "bad.toml", "standard = 'mine'\nbase = 'ddr'\n")}}); err == nil || !strings.Contains(err.Error(), "bad.toml:2: base = ") {
		t.Errorf("a table with a fault: %v", err)
	}
}

// TestKernelsKnown: kernels are measured if the fit is of the GPU, borrowed if it is of another one, and from data sheets if the GPU
// differs from its preset.
func TestKernelsKnown(t *testing.T) {
	for _, c := range []struct {
		sets  string
		kind  string
		grade Grade
		fit   string
	}{
		{"gpu.preset=h200-sxm gpu.fit=h200-sxm.vllm-0.24", "gemm", Measured, "h200-sxm.vllm-0.24"},
		{"gpu.preset=h100-sxm gpu.fit=h200-sxm.vllm-0.24", "gemm", Borrowed, "h200-sxm.vllm-0.24"},
		{"gpu.preset=h200-sxm gpu.fit=h200-sxm.vllm-0.24 gpu.name=mine gpu.sms=100", "gemm", DataSheet, "h200-sxm.vllm-0.24"},
		{"gpu.preset=h200-sxm gpu.name=mine", "gemm", Measured, "h200-sxm"},
		{"gpu.preset=h200-sxm gpu.fit=h200-sxm.vllm-0.24 gpu.name=mine", "gemm", Measured, "h200-sxm.vllm-0.24"},
		{"gpu.preset=b200-sxm gpu.fit=h200-sxm.vllm-0.24 gpu.name=mine", "gemm", Borrowed, "h200-sxm.vllm-0.24"},
		{"gpu.preset=h200-sxm gpu.fit=h200-sxm.vllm-0.24 gpu.name=mine gpu.sms=100", "nothing", Never, ""},
		{"gpu.preset=b200-sxm gpu.fit=b200-sxm.vllm-0.24", "page_sparse", DataSheet, "h200-sxm"},
	} {
		cfg, err := Load(Options{Sets: append(strings.Fields(c.sets), "model.tensor_parallel=1"), SectionsOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if k, err := cfg.KernelsKnown(c.kind); err != nil || k.Grade != c.grade || k.Fit != c.fit {
			t.Errorf("%s: %s is %+v, %v", c.sets, c.kind, k, err)
		}
	}
	for want, k := range map[string]FitKind{
		"{}": {}, "{rows = 3}": {Rows: 3}, `{from = "x"}`: {From: "x"}, "{mean = 7.6}": {Mean: 7.6},
		`{rows = 3, mean = 1.2, median = 3.5, p90 = 5.7, range = "m 1 to 9", from = "x"}`: {Rows: 3, Mean: 1.24, Median: 3.45, P90: 5.66, Range: "m 1 to 9", From: "x"},
	} {
		if got := k.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestFindNothing: a word that matches no key gives the nearest word of a key.
func TestFindNothing(t *testing.T) {
	_, err := system.Configs().Find(Options{}, "ranksots")
	if err == nil || !strings.Contains(err.Error(), `"ranksots"`) && !strings.Contains(err.Error(), "ranksots:") || !strings.HasSuffix(err.Error(), `expected a section, or a word of a key's name or meaning; did you mean "ranksets"?`) {
		t.Errorf("got %v", err)
	}
	all, err := system.Configs().Find(Options{}, "")
	if err != nil || len(all) != len(keys.Keys) {
		t.Errorf("no word finds %d of %d keys, %v", len(all), len(keys.Keys), err)
	}
	for _, table := range Tables() {
		found, err := system.Configs().Find(Options{}, table)
		if err != nil || len(found) == 0 {
			t.Errorf("%s: %d keys, %v", table, len(found), err)
		}
		for _, e := range found {
			if e.Key != table && TableOf(e.Key) != table {
				t.Errorf("%s has %s", table, e.Key)
			}
		}
	}
}

// TestDerivedLayout: whether the number of GPUs of a replica is derived, and whether anyone asked for that.
func TestDerivedLayout(t *testing.T) {
	for _, c := range []struct {
		sets          string
		derived, open bool
	}{
		{"run.model=llama-3-8b", false, false}, {"run.model=llama-3-8b model.tensor_parallel=fit", true, false}, {"run.model=llama-3-8b model.tensor_parallel=2", false, false},
		{"run.model=" + written(t, "config.json", llamaJSON), true, true}, {"run.model=" + written(t, "config.json", llamaJSON) + " model.tensor_parallel=1", false, false},
	} {
		_, origins, err := system.Configs().LoadWithOrigins(Options{Sets: strings.Fields(c.sets)})
		if err != nil {
			t.Fatal(err)
		}
		if derived, open := origins.DerivesLayout(); derived != c.derived || open != c.open {
			t.Errorf("%s: derived %v, open %v", c.sets, derived, open)
		}
	}
	c, err := Load(Options{Flags: []Flag{{"--tp", "model.tensor_parallel", "fit"}}})
	if err != nil || c.Model.TensorParallel < 1 {
		t.Errorf("--tp fit: %v", err)
	}
}

// TestKindsAndPrices: kinds of presets in order, and the newest list of prices.
func TestKindsAndPrices(t *testing.T) {
	if got := strings.Join(Kinds(), " "); got != "system model gpu fit energy prices dram" {
		t.Errorf("kinds %s", got)
	}
	if name, date := NewestPrices(); name != "prices-2026-06" || date != "2026-06-30" {
		t.Errorf("the newest prices are %s of %s", name, date)
	}
}

// TestMadeByNobody: configurations that no loader made return an error, and a nil loader has nothing.
func TestMadeByNobody(t *testing.T) {
	var none *Loader
	var c *Config
	for _, x := range []struct {
		err  error
		want string
	}{
		{c.Set("run.seed", "1"), "configuration: expected one that a loader of Configs or Extend made"}, {(&Config{}).Set("run.seed", "1"), "configuration: expected one that a loader of Configs or Extend made"},
		{none.Made(), "loader: expected one that Configs, Extend or New returned"}, {(&Loader{}).Made(), "loader: expected one that Configs, Extend or New returned"},
		{second(none.Explain(Options{}, "run.seed")), "loader: expected one that Configs, Extend or New returned"}, {second(none.Find(Options{}, "run.seed")), "loader: expected one that Configs, Extend or New returned"},
	} {
		if fmt.Sprint(x.err) != x.want {
			t.Errorf("got %v, want %s", x.err, x.want)
		}
	}
	if none.Policies() != nil || none.Keys() != nil || len(none.Systems()) != 0 || system.Configs().Policies() == nil {
		t.Error("no loader has policies, keys or systems")
	}
	made, err := Load(Options{})
	if err != nil || made.Set("run.seed", "77") != nil || made.Run.Seed != 77 {
		t.Errorf("seed %d, %v", made.Run.Seed, err)
	}
	if c.Changed() != nil {
		t.Error("no configuration has changes")
	}
	if _, err := os.Stat("testdata"); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }
