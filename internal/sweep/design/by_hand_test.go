package design

import (
	"errors"
	"fmt"
	"go/constant"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/system"
)

// TestFileByHand: every section of a sweep file, with the lines of its settings.
func TestFileByHand(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.toml")
	text := "config = \"over.toml\"\nrepeats = 3\nwhere = [\"node.gpus > 2\", \"node.channels < 9\"]\n[set]\nrun.requests = 5\nrun.model = \"opt-66b\"\n" +
		"[grid]\nnode.gpus = [4, 8]\n[zip]\nnode.ranksets = [2, 4]\nnode.channels = [8, 16]\n[[list]]\nname = \"a b\"\npcie.latency = \"1us\"\n[[list]]\npcie.latency = \"2us\"\n"
	for name, text := range map[string]string{path: text, filepath.Join(dir, "over.toml"): ""} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	f, err := ReadFile(system.Configs(), path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Path != path || !reflect.DeepEqual(f.Configs, []string{filepath.Join(dir, "over.toml")}) || f.Repeats != 3 || len(f.Where) != 2 {
		t.Errorf("got %+v", f)
	}
	if want := []Setting{{"run.requests", "5", 5}, {"run.model", `"opt-66b"`, 6}}; !reflect.DeepEqual(f.Set, want) {
		t.Errorf("set %+v", f.Set)
	}
	want := []Axis{
		{Kind: "grid", Choices: []Choice{{Settings: []Setting{{"node.gpus", "4", 8}}}, {Settings: []Setting{{"node.gpus", "8", 8}}}}},
		{Kind: "zip", Choices: []Choice{{Settings: []Setting{{"node.ranksets", "2", 10}, {"node.channels", "8", 11}}}, {Settings: []Setting{{"node.ranksets", "4", 10}, {"node.channels", "16", 11}}}}},
		{Kind: "list", Choices: []Choice{{Name: "a b", Settings: []Setting{{"pcie.latency", `"1us"`, 14}}}, {Settings: []Setting{{"pcie.latency", `"2us"`, 16}}}}},
	}
	if !reflect.DeepEqual(f.Axes, want) {
		t.Errorf("axes %+v\nwant %+v", f.Axes, want)
	}
	if s := FindSetting([]Setting{{"a", "1", 1}, {"b", "2", 2}, {"a", "3", 3}}, "a"); s == nil || s.Value != "3" || FindSetting(f.Set, "c") != nil {
		t.Errorf("found %+v", s)
	}
	gpus, channels := constant.MakeInt64(4), constant.MakeInt64(8)
	for _, c := range []struct {
		gpus, channels constant.Value
		keeps          bool
	}{{gpus, channels, true}, {constant.MakeInt64(2), channels, false}, {gpus, constant.MakeInt64(9), false}, {nil, channels, true}, {nil, constant.MakeInt64(9), false}} {
		keeps, err := f.Keeps(func(key string) constant.Value {
			return map[string]constant.Value{"node.gpus": c.gpus, "node.channels": c.channels}[key]
		})
		if err != nil || keeps != c.keeps {
			t.Errorf("%v GPUs, %v channels: kept %v, %v", c.gpus, c.channels, keeps, err)
		}
	}
	_, err = f.Keeps(func(string) constant.Value { return constant.MakeString("x") })
	if bad := new(input.Error); !errors.As(err, &bad) || bad.File != path {
		t.Errorf("a text is no number: %v", err)
	}
	if _, err := ReadFile(nil, path); err == nil || !strings.HasPrefix(err.Error(), "loader: ") {
		t.Errorf("no loader: %v", err)
	}
	if _, err := ReadFile(system.Configs(), path+"x"); err == nil || !strings.HasPrefix(err.Error(), path+"x: no such file") {
		t.Errorf("no file: %v", err)
	}
}

// TestFaultsByHand: each fault of a file with its line, its key and what was expected.
func TestFaultsByHand(t *testing.T) {
	for text, want := range map[string]string{
		"config = 3":                    "s.toml:1: config = 3: expected a text",
		"\nconfig = ''":                 "s.toml:2: config: expected a text",
		"config = 'none.toml'":          `s.toml:1: config = "none.toml": no such file or directory; expected a file, here none.toml`,
		"repeats = 0":                   "s.toml:1: repeats = 0: expected 1 to 100000",
		"repeats = 100001":              "s.toml:1: repeats = 100001: expected 1 to 100000",
		"repeats = 'x'":                 "s.toml:1: repeats = x: expected 1 to 100000",
		"where = 3":                     `s.toml:1: where = 3: expected an expression in quotes, such as "node.ranksets <= 8"`,
		"where = ['node.gpus > 1', 3]":  `s.toml:1: where = 3: expected an expression in quotes, such as "node.ranksets <= 8"`,
		"where = 'node.gpu > 1'":        `s.toml:1: where: node.gpu: expected a key of [node]; did you mean "node.gpus"?`,
		"[grid]\nnode.gpus = [4, 8, 4]": "s.toml:2: grid.node.gpus = 4: expected each value once",
		"[grid]\nnode.gpus = [[4]]":     "s.toml:2: node.gpus = [4]: expected a single value",
		"[set]\nnode.gpus = [4]":        "s.toml:2: node.gpus = [4]: expected a single value",
		"[set]\nnode.gpu = 4":           `s.toml:2: node.gpu: expected a key of [node]; did you mean "node.gpus"?`,
		"set = 3":                       "s.toml:1: set: expected a section",
		"preset = 'fair'":               `did you mean "set.preset"?`,
		"repeat = 3":                    `s.toml:1: repeat: expected one of config, grid, latin_hypercube, list, repeats, set, where, zip; did you mean "repeats"?`,
		"[[list]]\nname = \"\"":         "s.toml:2: name = \"\": expected a text of one line without control characters",
		"[[list]]\nname = \"a\\nb\"":    "expected a text of one line without control characters",
		"[[list]]\nname = 3":            "s.toml:2: name = 3: expected a text of one line without control characters",
		"[[list]]\nnode.gpu = 3":        `s.toml:2: node.gpu: expected a key of [node]; did you mean "node.gpus"?`,
		"[zip]\nnode.gpu = [3]":         `s.toml:2: node.gpu: expected a key of [node]; did you mean "node.gpus"?`,
		"[zip]\nnode.gpus = []":         "s.toml:2: zip.node.gpus = 0 values: expected as many as zip.node.gpus, 0, and at least one",
		"[zip]\nnode.gpus = [4, 8]\nnode.channels = [8]":    "s.toml:3: zip.node.channels = 1 values: expected as many as zip.node.gpus, 2, and at least one",
		"repeats = 2\n[grid]\nrun.seed = [1, 2]":            "s.toml:3: grid.run.seed: expected either this axis or repeats, not both",
		"[set]\nnode.gpus = 4\n[grid]\nnode.gpus = [4]":     "s.toml:4: grid.node.gpus: expected no key that set sets too (line 2)",
		"[[zip]]\nnode.gpus = [4]\n[[list]]\nnode.gpus = 4": "s.toml:4: list.node.gpus: expected no key that zip sets too (line 2)",
	} {
		_, err := ParseFile(system.Configs(), "s.toml", text)
		var bad *input.Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// TestConstantsOfKeys: conditions compare the values of keys and of settings: truth values, whole numbers, other numbers and texts; quantities as
// texts.
func TestConstantsOfKeys(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{{true, "true"}, {int(-3), "-3"}, {uint64(7), "7"}, {0.5, "0.5"}, {"a", `"a"`}} {
		if got := KeyConstant(reflect.ValueOf(c.value)); got.ExactString() != c.want && fmt.Sprint(got) != c.want {
			t.Errorf("%v is %v", c.value, got)
		}
	}
	cfg, err := system.Configs().Load(configs.Options{Sets: []string{"pcie.latency=1500ns"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := constant.StringVal(KeyConstant(system.Keys().Key("pcie.latency").Get(cfg))); got != "1.5us" {
		t.Errorf("1500ns is %s", got)
	}
	for value, want := range map[string]constant.Value{
		"true": constant.MakeBool(true), "false": constant.MakeBool(false), "12": constant.MakeInt64(12), "0x10": constant.MakeInt64(16), "2.5": constant.MakeFloat64(2.5), `"x"`: constant.MakeString("x"), `"12"`: constant.MakeString("12"),
	} {
		if got := (&Setting{Value: value}).Constant(); got.Kind() != want.Kind() || got.ExactString() != want.ExactString() {
			t.Errorf("%s is %v, want %v", value, got, want)
		}
	}
}

// TestListsByHand: flags with several values are axes in order; names are quoted as texts, other keys are not.
func TestListsByHand(t *testing.T) {
	o := configs.Options{ConfigFiles: []string{"a.toml"}, Sets: []string{"run.seed=1"}, Flags: []configs.Flag{
		{Name: "--model", Key: "run.model", Value: "a, b"}, {Name: "--seed", Key: "run.seed", Value: "3"}, {Name: "--gpus", Key: "node.gpus", Value: "4,8"}, {Name: "--columns", Key: "run.columns", Value: "x,y"},
	}}
	f, err := OfLists(system.Configs(), o, "node.gpus")
	if err != nil {
		t.Fatal(err)
	}
	want := []Axis{
		{Kind: "list", Choices: []Choice{{"a", []Setting{{"run.model", `"a"`, 0}}}, {"b", []Setting{{"run.model", `"b"`, 0}}}}},
		{Kind: "list", Choices: []Choice{{"4", []Setting{{"node.gpus", "4", 0}}}, {"8", []Setting{{"node.gpus", "8", 0}}}}},
	}
	if !reflect.DeepEqual(f.Axes, want) || !reflect.DeepEqual(f.Set, []Setting{{"run.seed", "3", 0}, {"run.columns", "x,y", 0}}) || f.Repeats != 1 || f.Configs[0] != "a.toml" || f.Sets[0] != "run.seed=1" || f.Loader != system.Configs() {
		t.Errorf("got %+v", f)
	}
	for _, value := range []string{"a,a", "a,", ",a", "a, ,b", "a, a"} {
		if _, err := OfLists(nil, configs.Options{Flags: []configs.Flag{{Name: "--model", Key: "run.model", Value: value}}}); err == nil || err.Error() != fmt.Sprintf("--model = %q: expected names, each once, joined by commas", value) {
			t.Errorf("%q: %v", value, err)
		}
	}
}
