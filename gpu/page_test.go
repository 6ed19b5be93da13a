package gpu

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/reference/gpu-parameters.md")

// entry is a key of a preset or a fit with its value and comment. Keys of [gpu.gemm] begin with "gemm.", those of [fit] with "fit.".
type entry struct{ key, value, comment string }

// fitted reports whether the key's value was fitted to the rows of its file.
func (e *entry) fitted() bool { return strings.HasPrefix(e.comment, "fit") }

// entries returns the keys of a file in configs, in order and by name.
func entries(t *testing.T, folder, name string) (all []entry, of map[string]entry) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "configs", folder, name+".toml"))
	if err != nil {
		t.Fatal(err)
	}
	section, of := "", map[string]entry{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			name, _, _ = strings.Cut(name, "]")
			section = strings.TrimPrefix(strings.TrimPrefix(name+".", "gpu"), ".")
			continue
		}
		key, rest, ok := strings.Cut(line, " = ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		e := entry{key: section + key}
		if quoted := regexp.MustCompile(`^"([^"]*)"`).FindStringSubmatch(rest); quoted != nil { // which may have a #
			e.value = quoted[1]
			_, e.comment, _ = strings.Cut(rest[len(quoted[0]):], "#")
		} else {
			e.value, e.comment, _ = strings.Cut(rest, "#")
		}
		e.value, e.comment = strings.TrimSpace(e.value), strings.TrimSpace(e.comment)
		all, of[e.key] = append(all, e), e
	}
	return all, of
}

// files returns the names of a folder of configs.
func files(t *testing.T, folder string) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "configs", folder, "*.toml"))
	if err != nil || len(paths) < 10 {
		t.Fatalf("%v, %d files", err, len(paths))
	}
	for _, p := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(p), ".toml"))
	}
	return names
}

// sheetTable has the data sheet of each preset.
func sheetTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| preset | 16 bits | 8 bits | memory | bandwidth | SMs | PCIe | fit |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, name := range files(t, "gpus") {
		_, of := entries(t, "gpus", name)
		line := "| `" + name + "` |"
		for _, key := range []string{"peak_16bit", "peak_8bit", "memory_capacity", "memory_bandwidth", "sms", "pcie_generation"} {
			line += " " + of[key].value + " |"
		}
		fit := "`" + of["fit"].value + "`"
		if of["fit"].value == name {
			fit = "its own"
		}
		b.WriteString(line + " " + fit + " |\n")
	}
	return b.String()
}

// fitTable has the basis of each fit.
func fitTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| fit | rows | fitted of all keys | others from | source |\n| --- | ---: | --- | --- | --- |\n")
	inBrackets := regexp.MustCompile(` \([^)]*\)`)
	for _, name := range files(t, "fits") {
		all, of := entries(t, "fits", name)
		keys, fitted := 0, 0
		for i := range all {
			if strings.HasPrefix(all[i].key, "fit.") {
				continue
			}
			if keys++; all[i].fitted() {
				fitted++
			}
		}
		base := "–"
		if name := of["fit.base"].value; name != "" {
			base = "`" + name + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %d of %d | %s | %s |\n", name, cmp.Or(of["fit.rows"].value, "not stated"), fitted, keys, base,
			inBrackets.ReplaceAllString(of["fit.source"].value, ""))
	}
	return b.String()
}

// parameterGroups are the sections of a fit by the first word of their names, with their meanings.
var parameterGroups = []struct{ name, of string }{
	{"gemm", "products, by element type"},
	{"prefill_attention", "prompts"},
	{"decode_attention", "decode steps; splits, unequal contexts"},
	{"extend_attention", "short chunks over long caches"},
	{"pytorch", "attention as PyTorch calls it"},
	{"narrow_kv", "conversion of narrow keys and values"},
	{"page_sparse", "scores, choice and attention of pages"},
	{"latent", "latent attention and its products"},
	{"index", "an indexer's scores and choice"},
	{"experts", "grouped products, by element type"},
	{"elementwise", "norms and activations measured alone"},
	{"fused", "small kernels of iterations"},
	{"all_reduce", "direct kernels, NCCL, the switch, skew"},
	{"collectives", "NCCL, exchange of experts' tokens"},
	{"power", "watts, joules of bytes and operations, throttling"},
	{"alone", "what measuring a kernel alone adds"},
	{"measured", "range of the samples"},
	{"scale", "band of a kind's times"},
}

// groupTable counts keys and fitted keys by group of sections: for three GPUs, and over the fits to public tables.
func groupTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| section | of | H200 | H100 | A100 | public tables |\n| --- | --- | --- | --- | --- | --- |\n")
	count := func(fit string) (keys, fitted map[string]int) {
		keys, fitted = map[string]int{}, map[string]int{}
		all, _ := entries(t, "fits", fit)
		for i := range all {
			word := regexp.MustCompile(`^[a-z_]+`).FindString(all[i].key)
			if word == "fit" {
				continue
			}
			at := slices.IndexFunc(parameterGroups, func(g struct{ name, of string }) bool { return word == g.name || strings.HasPrefix(word, g.name+"_") })
			if at < 0 {
				t.Fatalf("%s has %s, of no group of the page", fit, all[i].key)
			}
			keys[parameterGroups[at].name]++
			if all[i].fitted() {
				fitted[parameterGroups[at].name]++
			}
		}
		return keys, fitted
	}
	var tabled []string // fits to public tables: GPU.FRAMEWORK-VERSION
	for _, name := range files(t, "fits") {
		if regexp.MustCompile(`\.(vllm|trtllm|sglang)-`).MatchString(name) {
			tabled = append(tabled, name)
		}
	}
	for _, g := range parameterGroups {
		fmt.Fprintf(&b, "| `%s` | %s |", g.name, g.of)
		for _, fits := range [][]string{{"h200-sxm"}, {"h100-sxm"}, {"a100-sxm-80gb"}, tabled} {
			var keys, fitted []int
			for _, fit := range fits {
				k, f := count(fit)
				keys, fitted = append(keys, k[g.name]), append(fitted, f[g.name])
			}
			if slices.Max(keys) == 0 {
				b.WriteString(" – |")
				continue
			}
			fmt.Fprintf(&b, " %s of %s |", ends(fitted), ends(keys))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// ends returns the least and the largest of numbers as text.
func ends(n []int) string {
	if least, most := slices.Min(n), slices.Max(n); least < most {
		return fmt.Sprintf("%d to %d", least, most)
	}
	return fmt.Sprint(n[0])
}

// TestParameterTables: docs/reference/gpu-parameters.md has the data of every preset and fit from the files.
func TestParameterTables(t *testing.T) {
	path := filepath.Join("..", "docs", "reference", "gpu-parameters.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := string(page)
	for name, table := range map[string]string{"data sheets": sheetTable(t), "fits": fitTable(t), "parameters": groupTable(t)} {
		begin, end := "<!-- "+name+": go test ./gpu -run ParameterTables -update -->\n", "<!-- end of "+name+" -->\n"
		head, rest, ok := strings.Cut(want, begin)
		_, tail, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("%s has no place for %s", path, name)
		}
		want = head + begin + table + end + tail
	}
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(page) != want {
		t.Errorf("%s is not what the files have: go test ./gpu -run ParameterTables -update", path)
	}
}

// TestUnfitted: a fit with 0 rows has no key marked as fitted.
func TestUnfitted(t *testing.T) {
	unfitted := 0
	for _, name := range files(t, "fits") {
		all, of := entries(t, "fits", name)
		if of["fit.rows"].value != "0" {
			continue
		}
		unfitted++
		for i := range all {
			if all[i].fitted() {
				t.Errorf("%s has seen no rows, and %s is %q", name, all[i].key, all[i].comment)
			}
		}
	}
	if unfitted == 0 {
		t.Error("no fit without rows")
	}
}
