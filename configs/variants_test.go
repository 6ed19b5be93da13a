package configs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/system"

	. "github.com/l3sim/l3sim/configs"
)

// TestVariants: a variant overrides its preset, and the user overrides the variant.
func TestVariants(t *testing.T) {
	load := func(sets ...string) *Config {
		c, err := Load(Options{Preset: "fair", Sets: sets})
		if err != nil {
			t.Fatal(sets, err)
		}
		return c
	}
	if c := load(); c.Comm.Stripe != "none" || c.Run.Variant != "" {
		t.Errorf("without a variant: %q, %q", c.Comm.Stripe, c.Run.Variant)
	}
	if c := load("run.variant=striped"); c.Comm.Stripe != "ranksets" || c.Scheduler.MinPrefillTokens != 2048 {
		t.Errorf("striped: %q, %d", c.Comm.Stripe, c.Scheduler.MinPrefillTokens)
	}
	if c := load("run.variant=striped-long", "comm.stripe=channels"); c.Comm.Stripe != "channels" || c.Scheduler.MinPrefillTokens != 8192 {
		t.Errorf("the user's stripe: %q, %d", c.Comm.Stripe, c.Scheduler.MinPrefillTokens)
	}
	_, err := Load(Options{Preset: "fair", Sets: []string{"run.variant=stripd"}})
	if want := `--set: run.variant = "stripd": expected one of chunk-512, forecast, long-prompts, plain, spare, striped, striped-long, striped-spare, striped-wait; did you mean "striped"?`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = Load(Options{Sets: []string{"run.variant=striped"}})
	if err == nil || !strings.Contains(err.Error(), "preset dgx-a100-l3 has no variants of it") {
		t.Errorf("got %v", err)
	}
	file := written(t, "a.toml", "[variants.l3]\nown = {}\n")
	if _, err := Load(Options{ConfigFiles: []string{file}}); err == nil || !strings.Contains(err.Error(), "a.toml:1: variants") {
		t.Errorf("variants of a file: %v", err)
	}
}

// TestFaultsOfVariants: a preset's variant has full keys of a configuration, in quotes, with values of their types.
func TestFaultsOfVariants(t *testing.T) {
	for text, want := range map[string]string{
		`own = { "comm.stripe" = "channels", "scheduler.min_prefill_tokens" = 512 }`: "",
		`own = { "comm.strip" = "channels" }`:                                        `a.toml:2: comm.strip: `,
		`own = { comm.stripe = "channels" }`:                                         `a.toml:2: comm: `,
		`own."scheduler.min_prefill_tokens".of = 512`:                                `a.toml:2: scheduler.min_prefill_tokens: `,
		`own = { "scheduler.min_prefill_tokens" = "many" }`:                          `a.toml:2: variants.l3.own.`,
	} {
		err := system.Configs().CheckVariants("a.toml", "[variants.l3]\n"+text+"\n")
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestVariantsToTry: those of the system, in the preset's order, without those that set a key that the user sets; none if the user chooses
// one.
func TestVariantsToTry(t *testing.T) {
	for _, c := range []struct {
		options Options
		want    string
	}{
		{Options{Preset: "fair"}, "plain striped long-prompts striped-long spare striped-spare striped-wait chunk-512 forecast"},
		{Options{Preset: "fair", Sets: []string{"run.system=rank-pim"}}, "plain striped striped-two two-2048 two-512 forecast"},
		{Options{Preset: "fair", Sets: []string{"run.system=gpu-only"}}, "plain prefill-first chunk-2048 chunk-512 forecast"},
		{Options{Preset: "fair", Sets: []string{"comm.stripe=none"}}, "plain long-prompts spare chunk-512"},
		{Options{Preset: "fair", Flags: []Flag{{"--x", "scheduler.min_prefill_tokens", "512"}}}, "plain striped spare striped-spare striped-wait forecast"},
		{Options{Preset: "fair", ConfigFiles: []string{written(t, "a.toml", "[comm]\nstripe = \"channels\"\n")}}, "plain long-prompts spare chunk-512"},
		{Options{Preset: "fair", Sets: []string{"run.variant=striped"}}, ""},
		{Options{Preset: "fair", Sets: []string{"run.variant="}}, ""},
		{Options{}, ""},
	} {
		got, err := system.Configs().Variants(c.options)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %q, %v; want %q", c.options, got, err, c.want)
		}
	}
}

// TestPresetVariants: each variant of a preset is a valid configuration that differs from the others, and there are few.
func TestPresetVariants(t *testing.T) {
	for _, preset := range Names(SystemPresets) {
		for _, s := range system.Configs().Systems() {
			names, err := system.Configs().Variants(Options{Preset: preset, Sets: []string{"run.system=" + s.Name}})
			if err != nil || len(names) > 9 || len(names) == 1 {
				t.Errorf("%s, %s: %q, %v", preset, s.Name, names, err)
			}
			var seen []string
			for _, name := range names {
				c, err := Load(Options{Preset: preset, Sets: []string{"run.system=" + s.Name, "run.variant=" + name}})
				if err != nil {
					t.Fatal(preset, s.Name, name, err)
				}
				c.Run.Variant = ""
				sum, err := c.SHA256()
				if err != nil || slices.Contains(seen, sum) {
					t.Errorf("%s, %s: %s is another one, too; %v", preset, s.Name, name, err)
				}
				seen = append(seen, sum)
			}
		}
	}
}

// fairVariants returns the variants of a system in the preset fair.
func fairVariants(t *testing.T, of string) []string {
	t.Helper()
	names, err := system.Configs().Variants(Options{Preset: "fair", Sets: []string{"run.system=" + of}})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestGPUsAloneAreAVariant: if a preset has variants of gpu-only, cpu-offload has the same ones with nothing on the host, except the
// forecast: an operator whose CPUs only slow the system down leaves them idle and loses nothing.
func TestGPUsAloneAreAVariant(t *testing.T) {
	load := func(system, variant string, sets ...string) string {
		c, err := Load(Options{Preset: "fair", Sets: append([]string{"run.system=" + system, "run.variant=" + variant}, sets...)})
		if err != nil {
			t.Fatal(err)
		}
		c.Run.Variant, c.Run.System = "", "cpu-offload"
		sum, err := c.SHA256()
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	var has []string
	for _, name := range fairVariants(t, "cpu-offload") {
		has = append(has, load("cpu-offload", name))
	}
	for _, name := range fairVariants(t, "gpu-only") {
		if name != "forecast" && !slices.Contains(has, load("gpu-only", name, "cpu_offload.host_memory_share=0")) {
			t.Errorf("cpu-offload has no variant that is gpu-only's %s", name)
		}
	}
}

// TestRankPIMHasTheGPUsChunks: each chunk size that is a variant of gpu-only is also one of rank-pim with its best policy, since prompts of
// LongBench gain by it. hbm-pim and gpu+cpu do not gain.
func TestRankPIMHasTheGPUsChunks(t *testing.T) {
	load := func(system, variant string, sets ...string) *Config {
		c, err := Load(Options{Preset: "fair", Sets: append([]string{"run.system=" + system, "run.variant=" + variant}, sets...)})
		if err != nil {
			t.Fatal(err)
		}
		c.Run.Variant = ""
		return c
	}
	sum := func(c *Config) string {
		s, err := c.SHA256()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var has []string
	for _, name := range fairVariants(t, "rank-pim") {
		has = append(has, sum(load("rank-pim", name)))
	}
	chunks := 0
	for _, name := range fairVariants(t, "gpu-only") {
		tokens := load("gpu-only", name).Batching.MaxBatchTokens
		if tokens == load("gpu-only", "plain").Batching.MaxBatchTokens {
			continue
		}
		chunks++
		if want := load("rank-pim", "striped-two", fmt.Sprint("batching.max_num_batched_tokens=", tokens)); !slices.Contains(has, sum(want)) {
			t.Errorf("rank-pim has no variant of %d tokens", tokens)
		}
	}
	if chunks != 2 {
		t.Errorf("gpu-only has %d chunks", chunks)
	}
}
