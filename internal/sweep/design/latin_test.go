package design

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/units"
)

// numbers returns the values of a key on an axis, in the base unit of its type.
func numbers(t *testing.T, a Axis, key string) []float64 {
	t.Helper()
	var all []float64
	for _, c := range a.Choices {
		for _, s := range c.Settings {
			if s.Key != key {
				continue
			}
			field, err := schema.Parse(system.Keys().Key(key).Type, s.Value)
			if err != nil {
				t.Fatalf("%s = %s does not read", s.Key, s.Value)
			}
			all = append(all, schema.Number(field))
		}
	}
	return all
}

// TestStrata: each of N strata of a continuous key has exactly one sample, on both scales, for
// reals and for quantities in whole base units.
func TestStrata(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		samples := rapid.IntRange(1, 300).Draw(r, "samples")
		log := rapid.Bool().Draw(r, "log")
		low := rapid.Float64Range(0.001, 10).Draw(r, "low")
		high := low * (1 + rapid.Float64Range(0.01, 1000).Draw(r, "ratio"))
		ns := rapid.IntRange(100, 5000).Draw(r, "ns")
		scale := map[bool]string{true: "log", false: "linear"}[log]
		text := fmt.Sprintf("[latin_hypercube]\nsamples = %d\nseed = %d\npcie.efficiency = {min = %g, max = %g, scale = %q}\npcie.latency = {min = \"%dns\", max = \"%dus\", scale = %q}\n",
			samples, rapid.IntRange(0, 1000).Draw(r, "seed"), low, high, scale, ns, ns, scale)
		f, err := ParseFile(system.Configs(), "sweep.toml", text)
		if err != nil {
			r.Fatal(err)
		}
		axis := f.Axes[0]
		if len(axis.Choices) != samples || axis.Dropped != 0 {
			r.Fatalf("%d choices, %d dropped", len(axis.Choices), axis.Dropped)
		}
		for key, ends := range map[string][2]float64{
			"pcie.efficiency": {low, high},
			"pcie.latency":    {float64(ns) * float64(units.Nanosecond), float64(ns) * float64(units.Microsecond)},
		} {
			taken := make([]int, samples)
			for _, v := range numbers(t, axis, key) {
				u := (v - ends[0]) / (ends[1] - ends[0])
				if log {
					u = math.Log(v/ends[0]) / math.Log(ends[1]/ends[0])
				}
				// A value rounded to its stratum's lower end belongs to it.
				taken[min(int(u*float64(samples)+1e-9), samples-1)]++
			}
			for i, n := range taken {
				if n != 1 {
					r.Fatalf("%s: stratum %d of %d has %d samples\n%s", key, i, samples, n, text)
				}
			}
		}
	})
}

// TestLevels: keys with few values get each of them about equally often, values
// are whole steps from min, and max is among them.
func TestLevels(t *testing.T) {
	f := parsed(t, `
[latin_hypercube]
samples = 120
node.ranksets = {min = 2, max = 16, step = 2}
node.memory_capacity = {min = "512GiB", max = "4TiB", step = "512GiB"}
pcie.efficiency = {min = 0.1, max = 0.3, step = 0.1}
pcie.generation = [3, 4, 5]
`)
	axis := f.Axes[0]
	if len(axis.Choices)+axis.Dropped != 120 {
		t.Fatalf("%d choices, %d dropped", len(axis.Choices), axis.Dropped)
	}
	for key, values := range map[string][]float64{
		"node.ranksets":        {2, 4, 6, 8, 10, 12, 14, 16},
		"node.memory_capacity": {1 << 39, 2 << 39, 3 << 39, 4 << 39, 5 << 39, 6 << 39, 7 << 39, 8 << 39},
		"pcie.efficiency":      {0.1, 0.2, 0.3},
		"pcie.generation":      {3, 4, 5},
	} {
		count := map[float64]int{}
		for _, v := range numbers(t, axis, key) {
			count[v]++
		}
		each := 120 / len(values)
		for _, v := range values {
			if count[v] < each-axis.Dropped || count[v] > each {
				t.Errorf("%s = %g: %d samples of about %d", key, v, count[v], each)
			}
			delete(count, v)
		}
		if len(count) > 0 {
			t.Errorf("%s has other values: %v", key, count)
		}
	}
}

// TestLogLevels: whole numbers on a logarithmic scale stay within the range and
// become rarer upwards.
func TestLogLevels(t *testing.T) {
	f := parsed(t, "[latin_hypercube]\nsamples = 1000\nscheduler.min_prefill_tokens = {min = 64, max = 4096, step = 64, scale = \"log\"}\npcie.efficiency = {min = 0.5, max = 0.9}\n")
	low, high := 0, 0
	for _, v := range numbers(t, f.Axes[0], "scheduler.min_prefill_tokens") {
		if v < 64 || v > 4096 || math.Mod(v, 64) != 0 {
			t.Fatalf("%g", v)
		}
		if v <= 512 {
			low++
		} else {
			high++
		}
	}
	if math.Abs(float64(low-high)) > 40 { // 512 is the geometric middle
		t.Errorf("%d up to the middle, %d above", low, high)
	}
}

func TestLatinHypercubeErrors(t *testing.T) {
	const head = "[latin_hypercube]\nsamples = 4\n"
	for text, want := range map[string]string{
		"[latin_hypercube]\nnode.ranksets = [1, 2]\n":           "sweep.toml:1: latin_hypercube.samples: expected a whole number from 1 to 100000",
		"[latin_hypercube]\nsamples = 0\nnode.ranksets = [1]\n": "sweep.toml:2: latin_hypercube.samples = 0: expected",
		"[latin_hypercube]\nsamples = 1000000\n":                "sweep.toml:2: latin_hypercube.samples = 1000000: expected",
		head + "seed = -1\nnode.ranksets = [1]\n":               "sweep.toml:3: latin_hypercube.seed = -1: expected",
		head + "seed = 1.5\nnode.ranksets = [1]\n":              "sweep.toml:3: latin_hypercube.seed = 1.5: expected",
		head:                                 "latin_hypercube: expected at least one key",
		"latin_hypercube = 3\n":              "sweep.toml:1: latin_hypercube: expected a section",
		"[latin_hypercub]\nsamples = 4\n":    `did you mean "latin_hypercube"?`,
		head + "node.rankset = [1, 2]\n":     `sweep.toml:3: node.rankset: expected a key of [node]; did you mean "node.ranksets"?`,
		head + "node.ranksets = 3\n":         "sweep.toml:3: latin_hypercube.node.ranksets = 3: expected a range",
		head + "node.ranksets = {min = 1}\n": "sweep.toml:3: latin_hypercube.node.ranksets.max: expected a number",
		head + "node.ranksets = {min = 1, max = 4, scal = \"log\"}\n":       `did you mean "scale"?`,
		head + "node.ranksets = {min = 1, max = 4, scale = \"log2\"}\n":     `latin_hypercube.node.ranksets.scale = "log2": expected "linear" or "log"`,
		head + "node.ranksets = {min = 4, max = 4}\n":                       "latin_hypercube.node.ranksets.max = 4: expected more than min, 4",
		head + "node.ranksets = {min = 1.5, max = 4}\n":                     "latin_hypercube.node.ranksets.min = 1.5: expected a number as node.ranksets takes it",
		head + "node.ranksets = {min = \"1GiB\", max = 4}\n":                "latin_hypercube.node.ranksets.min = 1GiB: expected",
		head + "node.ranksets = {min = 0, max = 4, scale = \"log\"}\n":      "latin_hypercube.node.ranksets.min = 0: expected more than 0",
		head + "node.ranksets = {min = 1, max = 4, step = 0}\n":             "latin_hypercube.node.ranksets.step = 0: expected a number as node.ranksets takes it, above 0",
		head + "node.ranksets = {min = 1, max = 4, step = 5}\n":             "latin_hypercube.node.ranksets.step = 5: expected no more than max - min",
		head + "node.memory_capacity = {min = 1, max = 2}\n":                "latin_hypercube.node.memory_capacity.min = 1: expected",
		head + "node.memory_capacity = {min = \"1GB/s\", max = \"2TiB\"}\n": "latin_hypercube.node.memory_capacity.min = 1GB/s: expected",
		head + "pcie.efficiency = {min = 0.1, max = inf}\n":                 "latin_hypercube.pcie.efficiency.max = +Inf: expected",
		head + "comm.rotation = {min = 0, max = 1}\n":                       "latin_hypercube.comm.rotation: expected an array of values",
		head + "run.model = {min = \"a\", max = \"b\"}\n":                   "latin_hypercube.run.model: expected an array of values",
		head + "node.ranksets = []\n":                                       "expected an array of at least one value",
		head + "[latin_hypercube.node.ranksets]\nmin = 2\nmax = 1\n":        "sweep.toml:5: latin_hypercube.node.ranksets.max = 1",
		"[grid]\nnode.ranksets = [1]\n" + head + "node.ranksets = [1]\n":    "no key that grid sets too (line 2)",
	} {
		_, err := ParseFile(system.Configs(), "sweep.toml", text)
		var bad *input.Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}
