package configs_test

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policies"
	. "github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
)

// own is the section of a system that only this test knows.
type own struct {
	Depth int    `toml:"depth"`
	Way   string `toml:"way"`
}

func (o own) Check(c *input.Check) { input.Within(c, "depth", o.Depth, 1, 9) }

// ours returns a loader of two systems: l3 with a section, and one without.
func ours(defaults string) *Loader {
	return New(policies.Builtin(), System{Name: "plain"}, System{
		Name: "l3", Section: "own", Zero: own{}, Defaults: defaults,
		Check: func(c *Config, k *input.Check) {
			k.That(Section[own](c).Depth != c.Node.GPUs, "own.depth", Section[own](c).Depth, "another number than node.gpus = %d", c.Node.GPUs)
		},
	})
}

// TestSectionOfASystem: a system's own declaration is all that the loader needs.
func TestSectionOfASystem(t *testing.T) {
	const defaults = "[own]\ndepth = 3 # as deep as that\nway = \"up\"\n"
	ld := ours(defaults)
	c, err := ld.Load(Options{Sets: []string{"own.way=down"}})
	if err != nil || Section[own](c) != (own{3, "down"}) {
		t.Fatalf("got %+v, %v", c, err)
	}
	e, err := ld.Explain(Options{}, "own.depth")
	if err != nil || e.Value != "3" || e.SetIn != "defaults of l3:2" || e.Source != "as deep as that" || e.Range != "1 to 9" {
		t.Errorf("got %+v, %v", e, err)
	}
	var text strings.Builder
	if err := c.WriteTOML(&text); err != nil || !strings.Contains(text.String(), "\n[own]\ndepth = 3\nway = \"down\"\n\n[traces]\n") {
		t.Errorf("%v\n%s", err, text.String())
	}
	if changes := c.Changed(); len(changes) != 1 || changes[0] != (Change{"own.way", `"down"`}) {
		t.Errorf("changed %v", changes)
	}
	for sets, want := range map[string]string{
		"own.depth=10":                   "--set: own.depth = 10: expected 1 to 9",
		"own.depth=8":                    "--set: own.depth = 8: expected another number than node.gpus = 8",
		"own.deep=8":                     `--set: own.deep = 8: expected a key of [own]; did you mean "own.depth"?`,
		"run.system=l4":                  `--set: run.system = "l4": expected one of l3, plain; did you mean "l3"?`,
		"run.common_to=l3,x":             `--set: run.common_to = "x": expected one of all, l3, plain`,
		"run.system=plain own.depth=0":   "--set: own.depth = 0: expected 1 to 9",
		"run.system=plain own.depth=8":   "",
		"run.system=plain node.gpus=3":   "--set: node.gpus = 3: expected a multiple of model.tensor_parallel = 8 (gpt-175b has 325 GiB of weights, a GPU 80 GiB)",
		"run.common_to=all own.depth=5":  "",
		"run.common_to=l3, own.depth=5 ": `--set: run.common_to = "": expected one of all, l3, plain`,
	} {
		_, err := ld.Load(Options{Sets: strings.Fields(sets)})
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: got %v, want %s", sets, err, want)
		}
	}
	for defaults, want := range map[string]string{
		"[own]\ndepth = 3":                                  "defaults of l3: no value for own.way",
		"[own]\ndepth = 3\nway = 4":                         "defaults of l3:3: own.way = 4: expected a string",
		"[own]\ndepth = 0\nway = \"up\"":                    "defaults of l3:2: own.depth = 0: expected 1 to 9",
		"[own]\ndepth = 3\nway = \"up\"\n[other]\nx = \"\"": "defaults of l3:4: other: expected a key of ",
	} {
		if _, err := ours(defaults).Load(Options{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", defaults, err, want)
		}
	}
}
