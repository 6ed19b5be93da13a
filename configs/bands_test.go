package configs_test

import (
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/units"

	. "github.com/l3sim/l3sim/configs"
)

// uncertain returns the bands of a configuration by key.
func uncertain(t *testing.T, o Options) map[string]Band {
	t.Helper()
	c, origins, err := system.Configs().LoadWithOrigins(o)
	if err != nil {
		t.Fatal(err)
	}
	all, err := origins.Uncertain(c)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]Band{}
	for i, b := range all {
		if by[b.Key] = b; i > 0 && all[i-1].Key >= b.Key {
			t.Errorf("%s comes behind %s", b.Key, all[i-1].Key)
		}
	}
	return by
}

// TestBandsOfPresets: in each preset, with each GPU, all bands contain the value, and both ends are valid.
func TestBandsOfPresets(t *testing.T) {
	deep.Heavy(t)
	for _, preset := range Names(SystemPresets) {
		for _, g := range Names(GPUs) {
			o := Options{Preset: preset, Flags: []Flag{{Name: "--gpu", Key: "gpu.preset", Value: g}}, SectionsOnly: true}
			for key, b := range uncertain(t, o) {
				if !(b.Low <= b.Value && b.Value <= b.High && b.Low < b.High) {
					t.Errorf("%s, %s: %s = %v in [%v, %v]", preset, g, key, b.Value, b.Low, b.High)
				}
				for _, end := range []float64{b.At(1e-9), b.At(1 - 1e-9)} {
					if g != "a100-sxm-80gb" {
						continue // the rules are the same
					}
					o := o
					o.Sets = []string{key + "=" + b.Text(end)}
					if _, err := system.Configs().Load(o); err != nil {
						t.Errorf("%s: an end of the band of %s: %v", preset, key, err)
					}
				}
			}
		}
	}
}

// TestBandsFollowLayers: a key that the user sets has only the user's band; presets' bands override the defaults.
func TestBandsFollowLayers(t *testing.T) {
	file := func(text string) Options { return Options{ConfigFiles: []string{written(t, "o.toml", text)}} }
	for _, c := range []struct {
		name      string
		o         Options
		key       string
		has       bool
		low, high float64
	}{
		{"defaults", Options{}, "pcie.latency", true, 3.4 * float64(units.Microsecond), 11.1 * float64(units.Microsecond)},
		{"a preset", Options{Preset: "dgx-h200-l3"}, "pcie.latency", true, 9 * float64(units.Microsecond), 11.1 * float64(units.Microsecond)},
		{"a system", Options{}, "hbm_pim.bandwidth_factor", true, 9, 16},
		{"--set", Options{Sets: []string{"pcie.latency=6us"}}, "pcie.latency", false, 0, 0},
		{"a file", file("[pcie]\nlatency = \"6us\"\n"), "pcie.latency", false, 0, 0},
		{"a file with a band", file("[pcie]\nlatency = \"6us\"\n[bands]\npcie.latency = [\"5us\", \"7us\"]\n"), "pcie.latency", true, 5 * float64(units.Microsecond), 7 * float64(units.Microsecond)},
		{"a band of any number", file("[bands]\n\"node.channels\" = [8, 32]\n"), "node.channels", true, 8, 32},
		{"another GPU", Options{Flags: []Flag{{Name: "--gpu", Key: "gpu.preset", Value: "h200-sxm"}}}, "gpu.scale.products", true, 0.96, 1.042},
		{"a constant that is set", Options{Sets: []string{"energy.board=800"}}, "energy.board", false, 0, 0},
		{"a constant with a band", Options{Sets: []string{"energy.board=800 [700, 900] press"}}, "energy.board", true, 700, 900},
		{"no band", Options{}, "node.gpus", false, 0, 0},
	} {
		b, has := uncertain(t, c.o)[c.key]
		if has != c.has || math.Abs(b.Low-c.low) > 1e-9*c.low || math.Abs(b.High-c.high) > 1e-9*c.high {
			t.Errorf("%s: %s has a band: %v, [%v, %v]", c.name, c.key, has, b.Low, b.High)
		}
	}
}

// TestBadBandKeys: an entry that is not a range of numbers, or a range without the value, is an error with its line.
func TestBadBandKeys(t *testing.T) {
	for text, want := range map[string]string{
		"pcie.latensy = [\"5us\", \"7us\"]": `o.toml:2: bands.pcie.latensy: expected a key of [pcie]; did you mean "pcie.latency"?`,
		"pcie.latency = [5, 7]":             "is not a duration",
		"pcie.latency = [\"7us\", \"5us\"]": "[LOW, HIGH], numbers as pcie.latency takes them",
		"pcie.latency = [\"7us\"]":          "[LOW, HIGH]",
		"run.model = [\"a\", \"b\"]":        "[LOW, HIGH]",
		"pcie.latency = \"7us\"":            "[LOW, HIGH]",
		"energy.board = [\"1\", \"2\"]":     "[LOW, HIGH]",
		"pcie.latency = [\"6us\", \"7us\"]": "a range that has pcie.latency = 5us",
		"node.channels = [16.5, 20]":        "node.channels",
	} {
		path := written(t, "o.toml", "[bands]\n"+text+"\n")
		c, origins, err := system.Configs().LoadWithOrigins(Options{ConfigFiles: []string{path}})
		if err == nil {
			_, err = origins.Uncertain(c)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// TestPlacesInBands: half of all draws are below the value; a tenth is beyond each end if the ends are percentiles, none otherwise.
func TestPlacesInBands(t *testing.T) {
	for key, b := range uncertain(t, Options{}) {
		const n = 10000
		below, beyondLow, beyondHigh, last := 0, 0, 0, math.Inf(-1)
		for i := range n {
			x := b.At((float64(i) + 0.5) / n)
			if x < last {
				t.Errorf("%s: %v behind %v", key, x, last)
			}
			if last = x; x < b.Value || x == b.Value && i < n/2 {
				below++
			}
			if x < b.Low {
				beyondLow++
			}
			if x > b.High {
				beyondHigh++
			}
		}
		beyond := 0
		if b.LogNormal {
			beyond = n / 10
		}
		if below != n/2 || beyondLow != beyond || beyondHigh != beyond {
			t.Errorf("%s: of %d draws %d are below the value, %d and %d beyond the band", key, n, below, beyondLow, beyondHigh)
		}
		if b.LogNormal != strings.HasPrefix(key, "gpu.scale.") {
			t.Errorf("%s is log-normal: %v", key, b.LogNormal)
		}
	}
}

// TestGPUWithoutScale: a user's GPU without error bands gets those of an unmeasured GPU.
func TestGPUWithoutScale(t *testing.T) {
	text, err := Source("h200-sxm")
	if err != nil {
		t.Fatal(err)
	}
	whole, _, ok := strings.Cut(strings.Replace(text, `"h200-sxm"`, `"mine"`, 1), "[gpu.scale]")
	if !ok {
		t.Fatal("the preset has no [gpu.scale] at its end")
	}
	path := written(t, "mine.toml", whole)
	b := uncertain(t, Options{Flags: []Flag{{Name: "--gpu", Key: "gpu.preset", Value: path}}})["gpu.scale.products"]
	if b.Value != 1 || b.Low != 0.774 || b.High != 1.292 {
		t.Errorf("got %v in [%v, %v]", b.Value, b.Low, b.High)
	}
}
