package configs_test

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/system"

	. "github.com/l3sim/l3sim/configs"
)

// TestExplainEveryKey: each key has a meaning, a place and, if it is a number, a range and a source of its value. Keys of kernels that not
// every fit has are tested with a GPU that has them.
func TestExplainEveryKey(t *testing.T) {
	plain := mustLoad(t, "", Options{})
	all := map[string]map[string]Explanation{} // by fit
	for _, k := range keys.Keys {
		fit := withKernel(plain, k.Name)
		if all[fit] == nil {
			all[fit] = explainAll(t, sets(fit))
		}
		e := all[fit][k.Name]
		number := k.Type.Kind() != reflect.Bool && k.Type.Kind() != reflect.String
		if e.Meaning == "" || e.Takes == "" || e.SetIn == "" || fit == "" && (e.Value != e.Default || e.SetIn != e.DefaultIn) {
			t.Errorf("%+v", e)
		}
		if fit != "" && !strings.HasPrefix(e.SetIn, "fit ") && !slices.Contains(k.Optional, k.Name) {
			t.Errorf("%s is set in %s, want a fit", k.Name, e.SetIn)
		}
		if number && (len(e.Source) < 12 || e.Range == "" && k.Name != "run.seed") {
			t.Errorf("%s: range %q, source %q", k.Name, e.Range, e.Source)
		}
	}
}

// withKernel returns the --set of a fit that sets the key, if the configuration's fit does not and another one does, else "".
func withKernel(c *Config, key string) string {
	if fit := c.FitWith(key); fit != "" && fit != c.GPU.Fit {
		return fmt.Sprintf("gpu.fit=%q", fit)
	}
	return ""
}

// sets are options with some --set; "" is none.
func sets(list ...string) Options {
	return Options{Sets: slices.DeleteFunc(list, func(s string) bool { return s == "" })}
}

// explainAll explains all keys.
func explainAll(t *testing.T, o Options) map[string]Explanation {
	t.Helper()
	found, err := system.Configs().Find(o, "")
	if err != nil || len(found) != len(keys.Keys) {
		t.Fatalf("%d keys, %v", len(found), err)
	}
	all := map[string]Explanation{}
	for _, e := range found {
		all[e.Key] = e
	}
	return all
}

// TestRanges: the range that explain gives is the accepted one: its ends (or the numbers next to an excluded end), and nothing beyond.
func TestRanges(t *testing.T) {
	deep.Heavy(t)
	plain, all, of := mustLoad(t, "", Options{}), explainAll(t, Options{}), map[string]*Config{} // by fit
	ranges := regexp.MustCompile(`^(more than )?(-?[0-9.][^ ,]*)(?: to |, at most )([0-9.][^ ]*)( clocks)?$`)
	tried := map[bool]int{} // whole numbers, and others
	for _, k := range keys.Keys {
		for said := range strings.SplitSeq(all[k.Name].Range, "; ") {
			m := ranges.FindStringSubmatch(said)
			if m == nil {
				continue
			}
			low, err := schema.Parse(k.Type, m[2])
			high, other := schema.Parse(k.Type, m[3])
			if err != nil || other != nil {
				t.Errorf("%s: the range %q: %v, %v", k.Name, said, err, other)
				continue
			}
			tried[k.Type.Kind() == reflect.Int]++
			fit := withKernel(plain, k.Name)
			if of[fit] == nil {
				of[fit] = mustLoad(t, "", sets(fit))
			}
			inside := low
			if m[1] != "" {
				inside = next(low, 1)
			} else {
				low = next(low, -1)
			}
			for _, c := range []struct {
				value reflect.Value
				out   bool
			}{{low, true}, {inside, false}, {high, false}, {next(high, 1), true}} {
				cfg := *of[fit]
				k.Set(&cfg, c.value)
				got := slices.ContainsFunc(input.Faults(&cfg), func(e *input.Error) bool { return e.Key == k.Name && e.Expected == said })
				if got != c.out {
					t.Errorf("%s = %v: out of %q %t, want %t", k.Name, c.value, said, got, c.out)
				}
			}
		}
	}
	if tried[true] < 30 || tried[false] < 100 {
		t.Errorf("%d ranges of whole numbers tried, %d of others", tried[true], tried[false])
	}
}

// next returns the next representable number of v's type, above or below.
func next(v reflect.Value, sign int) reflect.Value {
	n := reflect.New(v.Type()).Elem()
	if v.CanFloat() {
		n.SetFloat(math.Nextafter(v.Float(), math.Inf(sign)))
	} else {
		n.SetInt(v.Int() + int64(sign))
	}
	return n
}

// TestExplainLayers: the value is that of the highest layer, and its place is where it is set. For a preset that a flag names, the place is
// the preset's line.
func TestExplainLayers(t *testing.T) {
	for _, c := range []struct {
		key                  string
		o                    Options
		value, place, source string
	}{
		{"node.ranksets", Options{Sets: []string{"node.ranksets=8"}}, "8", "--set", ""},
		{"gpu.sms", Options{Flags: []Flag{{"--gpu", "gpu.preset", "h200-sxm"}}}, "132", "preset h200-sxm:", "data sheet"},
		{"gpu.decode_attention.split_min_group", Options{}, "1", "fit a100-sxm-80gb:", "smallest query group"},
		{"gpu.sms", Options{Flags: []Flag{{"--preset", "preset", "fair"}}}, "108", "preset a100-sxm-80gb:", ""},
		{"run.seed", Options{Flags: []Flag{{"--seed", "run.seed", "7"}}}, "7", "--seed", ""},
	} {
		e, err := system.Configs().Explain(c.o, c.key)
		if err != nil || e.Value != c.value || !strings.HasPrefix(e.SetIn, c.place) || !strings.Contains(e.Source, c.source) {
			t.Errorf("%s %+v: %+v, %v", c.key, c.o, e, err)
		}
	}
}

// TestExplainOwnModel: a file with a whole model names it in [run]. Keys derived from the model, here the policy of its indexer, are
// explained by that line.
func TestExplainOwnModel(t *testing.T) {
	c, err := Load(Options{Flags: []Flag{{"--model", "run.model", "deepseek-v3.2"}, {"--gpu", "gpu.preset", "h200-sxm"}, {"--system", "run.system", "gpu-only"}}})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := c.WriteTOML(&text); err != nil {
		t.Fatal(err)
	}
	lines, place := strings.Split(strings.ReplaceAll(text.String(), `"deepseek-v3.2"`, `"mine"`), "\n"), 0
	for i, line := range lines {
		if strings.HasPrefix(line, `name = "dsa"`) {
			lines[i] = ""
		} else if strings.HasPrefix(line, `model = "mine"`) {
			place = i + 1
		}
	}
	file := written(t, "own.toml", strings.Join(lines, "\n"))
	e, err := system.Configs().Explain(Options{ConfigFiles: []string{file}}, "policy.name")
	if want := fmt.Sprintf("%s:%d", file, place); err != nil || e.Value != "dsa" || e.SetIn != want {
		t.Errorf("%+v, %v, want %s", e, err, want)
	}
}
