package configs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/system"
)

// tableFile writes a file of a test and returns its path.
func tableFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestNamedTables: a table that a layer names replaces the entries of lower layers. Keys next to the name override it, in any order, and so
// do keys of higher layers.
func TestNamedTables(t *testing.T) {
	fit := tableFile(t, "mine.toml", "[fit]\nsource = \"mine\"\nrows = 3\n\n[gpu.gemm]\nridge = 5.5\noverhead = \"3us\"\n")
	constants := tableFile(t, "energy.toml", "[energy]\npue = \"1.5 [1.4, 1.6] press\"\n")
	for _, c := range []struct {
		name        string
		o           Options
		ridge, knee float64
		pue         string
	}{
		{"the preset's own", Options{}, 2.935, 25.09, "1.25 [1.1, 1.58] press"},
		{"another embedded fit", Options{Sets: []string{"gpu.fit=h200-sxm"}}, 3.626, 4.961, "1.25 [1.1, 1.58] press"},
		{"a file, over the preset's", Options{Sets: []string{"gpu.fit=" + fit, "energy.constants=" + constants}}, 5.5, 25.09, "1.5 [1.4, 1.6] press"},
		{"a key before the name", Options{Sets: []string{"gpu.gemm.ridge=7", "gpu.fit=" + fit}}, 7, 25.09, "1.25 [1.1, 1.58] press"},
		{"a key of a higher layer", Options{ConfigFiles: []string{tableFile(t, "c.toml", "[gpu]\nfit = \"h200-sxm\"\n")}, Sets: []string{"gpu.gemm.tile_knee=9", "energy.pue=1.3"}}, 3.626, 9, "1.3"},
		{"the fit of another GPU", Options{Flags: []Flag{{"--gpu", "gpu.preset", "h200-sxm"}}}, 3.626, 4.961, "1.25 [1.1, 1.58] press"},
	} {
		cfg, err := system.Configs().Load(c.o)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if cfg.GPU.MatMul.Ridge != c.ridge || cfg.GPU.MatMul.TileKnee != c.knee || string(cfg.Energy.PUE) != c.pue {
			t.Errorf("%s: ridge %g, knee %g, PUE %s", c.name, cfg.GPU.MatMul.Ridge, cfg.GPU.MatMul.TileKnee, cfg.Energy.PUE)
		}
	}
	e, err := system.Configs().Explain(Options{Sets: []string{"gpu.fit=" + fit}}, "gpu.gemm.ridge")
	if err != nil || e.SetIn != fit+":6, named by --set" || e.DefaultIn != "fit a100-sxm-80gb:20" {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestWholeGPUsKernels: a GPU with its own name may leave out optional sections of kernels, but no other section, and of a section only its
// optional keys.
func TestWholeGPUsKernels(t *testing.T) {
	var text strings.Builder
	if err := mustLoad(t, "", Options{Sets: []string{"gpu.fit=h200-sxm.sglang-0.5.14", "gpu.name=mine"}}).WriteTOML(&text); err != nil {
		t.Fatal(err)
	}
	_, whole, _ := strings.Cut(text.String(), "\n[gpu]\n")
	whole, _, _ = strings.Cut("[gpu]\n"+whole, "\n[pcie]")
	whole = regexp.MustCompile("(?m)^(preset|fit) = .*\n").ReplaceAllString(whole, "") // without a preset
	without := func(section, key string) string {                                      // leaves out a key, or the whole section
		before, rest, has := strings.Cut(whole, "\n["+section+"]\n")
		own, after, _ := strings.Cut(rest, "\n[")
		if !has || !strings.Contains(own, key) {
			t.Fatalf("no %s in [%s]", key, section)
		}
		if key == "" {
			return before + "\n[" + after
		}
		return before + "\n[" + section + "]\n" + regexp.MustCompile("(?m)^"+key+" = .*\n?").ReplaceAllString(own, "") + "\n[" + after
	}
	for _, c := range []struct{ section, key, lacks string }{
		{"gpu.latent.chosen", "", ""},
		{"gpu.collectives.dispatch", "", ""},
		{"gpu.prefill_attention", "head_knee", ""},
		{"gpu.measured", "expert_width", ""},
		{"gpu.latent.chosen", "tile_rows", "latent.chosen.tile_rows;"},
		{"gpu.prefill_attention", "query_rows", "prefill_attention.query_rows;"},
		{"gpu.elementwise", "", "elementwise.model, "},
	} {
		file := tableFile(t, "own.toml", without(c.section, c.key))
		_, err := system.Configs().Load(Options{Sets: []string{"gpu.preset=" + file}})
		if want := "it lacks " + c.lacks; c.lacks == "" && err != nil || c.lacks != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("without [%s] %s: %v, want %q", c.section, c.key, err, c.lacks)
		}
	}
}

// TestNamedTableFaults: a file that is not a table, or has other keys, is refused with its name and line.
func TestNamedTableFaults(t *testing.T) {
	other := tableFile(t, "other.toml", "[gpu.gemm]\nridge = 5.5\n[gpu]\nsms = 3\n")
	none := tableFile(t, "none.toml", "[fit]\nsource = \"x\"\n")
	wrong := tableFile(t, "wrong.toml", "[fit]\nsauce = \"x\"\n[gpu.gemm]\nridge = 2\n")
	for set, want := range map[string]string{
		"gpu.fit=h20":              `gpu.fit = "h20": expected one of a100-paper, `,
		"gpu.fit=h100":             `did you mean "h100-sxm"?`,
		"gpu.fit=nosuch.toml":      `gpu.fit = "nosuch.toml": `,
		"gpu.fit=" + other:         other + ":4: gpu.sms: expected keys of [gpu.gemm], [gpu.gemm_fp8], ",
		"gpu.fit=" + none:          none + ": expected a section [gpu.gemm]",
		"gpu.fit=" + wrong:         wrong + ":2: fit.sauce = ",
		"energy.constants=h200":    `energy.constants = "h200": expected one of constants-2026, or a file`,
		"energy.constants=" + none: none + ": expected a section [energy]",
	} {
		if _, err := system.Configs().Load(Options{Sets: []string{set}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", set, err, want)
		}
	}
}

// TestWrittenTables: a written configuration has all entries, so it can be read again without the file that it names.
func TestWrittenTables(t *testing.T) {
	fit := tableFile(t, "mine.toml", "[gpu.gemm]\nridge = 5.5\n")
	cfg, err := system.Configs().Load(Options{Sets: []string{"gpu.fit=" + fit}})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := cfg.WriteTOML(&text); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(fit); err != nil {
		t.Fatal(err)
	}
	again, err := system.Configs().Load(Options{ConfigFiles: []string{tableFile(t, "config.toml", text.String())}})
	if err != nil || again.GPU.MatMul.Ridge != 5.5 || again.GPU.Fit != fit {
		t.Errorf("%v: %+v", err, again)
	}
}

// TestEveryEntryHasATable: names of tables are not entries, every table has entries, and shipped fits have sources.
func TestEveryEntryHasATable(t *testing.T) {
	entries := map[string]int{}
	for _, key := range system.Keys().Names() {
		entries[TableOf(key)]++
	}
	for _, table := range Tables() {
		if entries[table] < 20 || TableOf(table) != "" {
			t.Errorf("%s has %d entries, and is of %q", table, entries[table], TableOf(table))
		}
	}
	for key, want := range map[string]string{"gpu.sms": "", "gpu.gemm.ridge": "gpu.fit", "dram.ecc": "", "dram.tRCD": "dram.preset", "prices.gpu.b200": "prices.preset", "energy.pue": "energy.constants"} {
		if got := TableOf(key); got != want {
			t.Errorf("%s is of %q, want %q", key, got, want)
		}
	}
	for _, name := range Names(Fits) {
		f, err := FitOf(name)
		if err != nil || f.Source == "" || len(f.Kinds) == 0 && f.HeldOut == "" || f.Rows < 0 {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}
