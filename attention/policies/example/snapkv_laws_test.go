package example_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
)

// extended returns the loader that knows SnapKV.
func extended(t testing.TB) *configs.Loader {
	loader, err := system.Extend(system.Extension{Policies: []policy.Policy{snapKV}})
	if err != nil {
		t.Fatal(err)
	}
	return loader
}

// TestAddedCostsAndValues: a policy of another package obeys the same laws as built-in ones. Each head attends to as
// many tokens as costs count, to the prompt's sink and window, and only to held tokens.
func TestAddedCostsAndValues(t *testing.T) {
	list := extended(t).Policies()
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
		s := list.New("snapkv")
		policy.Edit(&s, func(k *snapKeys) {
			k.Sink, k.Window = number("sink", 0, 9), number("window", 1, 20)
			k.Budget = k.Sink + k.Window + number("more", 0, 60)
		})
		keys, g := policy.Section[snapKeys](&s), number("group", 1, 3)
		shape := policy.Shape{Layers: 3, KVHeads: 2, QueryHeads: 2 * g, Dim: 8, ElementBits: 16}
		prompt, steps := number("prompt", 1, 150), number("steps", 1, 30)
		values, err := policy.NewValues(&s, shape)
		if err != nil {
			t.Fatal(err)
		}
		costs, state := s.Costs(shape), values.NewState(0, 0, prompt+steps)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		vectors := func(n int) []float32 {
			x := make([]float32, n*shape.Dim)
			for i := range x {
				x[i] = float32(random.NormFloat64())
			}
			return x
		}
		queries := make([][]float32, g)
		for i := range queries {
			queries[i] = vectors(prompt)
		}
		state.Prompt(queries, vectors(prompt), vectors(prompt))
		for context := prompt + 1; context <= prompt+steps; context++ {
			state.Append(nil, nil)
			parts, attends := state.Select(nil).Parts, make([]bool, context)
			for _, r := range parts[0].Ranges {
				for token := r[0]; token < r[1]; token++ {
					attends[token] = true
				}
			}
			for token, attended := range attends {
				if !attended && (token < keys.Sink || token >= prompt-keys.Window) {
					t.Fatalf("context %d: no attention to token %d: %v", context, token, parts)
				}
			}
			counted := costs.Decode([]policy.Request{{Prompt: prompt, Context: context}}, 0).Attend
			held, _ := costs.Memory(0)
			holds := 0
			for _, h := range held {
				holds += h.Tokens(prompt, context)
			}
			if got := parts[0].Tokens(); len(parts) != 1 || len(counted) != 1 || counted[0].Tokens[0] != got || holds != got || counted[0].Heads != shape.KVHeads {
				t.Fatalf("context %d after a prompt of %d: %d tokens, costs count %+v, memory has %d", context, prompt, got, counted, holds)
			}
		}
	})
}

// TestAddedRuns: a policy of another package runs on each system that accepts it, under all laws, with and without skipped
// layers, and takes no longer than dense attention.
func TestAddedRuns(t *testing.T) {
	deep.Heavy(t)
	loader := extended(t)
	help := system.Policies(loader)
	for _, name := range help[len(help)-1].Systems {
		run := func(of string, exact bool, sets ...string) (summary *results.Summary) {
			cfg, err := loader.Load(configs.Options{Sets: append(sets, "run.system="+name, "run.model=llama-3-8b", "run.trace=longbench", "run.requests=6", "policy.name="+of)})
			if err != nil {
				t.Fatal(err)
			}
			trace, err := system.LoadTrace(cfg)
			if err != nil {
				t.Fatal(err)
			}
			node, err := system.NewNode(cfg)
			if err != nil {
				t.Fatal(err)
			}
			r, err := node.Run(context.Background(), trace, system.Options{Check: true, Exact: exact})
			if err != nil {
				t.Fatal(name, err)
			}
			if summary, err = r.Summary(cfg); err != nil {
				t.Fatal(err)
			}
			return summary
		}
		skipped, exact, dense := run("snapkv", false), run("snapkv", true), run("dense", false)
		if skipped.OutputTokensPerS != exact.OutputTokensPerS || !(skipped.OutputTokensPerS > dense.OutputTokensPerS) {
			t.Errorf("%s: %g tokens/s, layer by layer %g, dense %g", name, skipped.OutputTokensPerS, exact.OutputTokensPerS, dense.OutputTokensPerS)
		}
		if a := skipped.Attention; a.Policy != "snapkv" || len(a.ByLayer) != 32 || !(a.Attended < a.Context) {
			t.Errorf("%s: %+v", name, a)
		}
		if all := run("snapkv", false, "policy.snapkv.budget=1000000"); all.Attention.Attended != all.Attention.Context {
			t.Errorf("%s: a budget for everything attends to %+v", name, all.Attention)
		}
	}
}

// TestAddedKeys: keys of a policy of another package are refused, explained, written and read like any others.
func TestAddedKeys(t *testing.T) {
	loader := extended(t)
	load := func(sets ...string) (*configs.Config, error) { return loader.Load(configs.Options{Sets: sets}) }
	for want, sets := range map[string][]string{
		`policy.snapkv.budget = 19: expected at least sink + window = 20`:                          {"policy.name=snapkv", "policy.snapkv.budget=19"},
		`policy.snapkv.bugdet = 3: expected a key of [policy.snapkv]; did you mean "policy.snapkv`: {"policy.snapkv.bugdet=3"},
		`policy.name = "snap": expected one of csattention, dense, dsa, duo,`:                      {"policy.name=snap"},
		`; did you mean "snapkv"?`: {"policy.name=SNAP"},
		`policy.name = "snapkv": expected one of dense with run.system = rank-pim; it runs with run.system = l3, gpu-only, hbm-pim, gpu+cpu`: {"policy.name=snapkv", "run.system=rank-pim"},
		`policy.gates = "x": expected to be left out with policy.name = "snapkv"`:                                                            {"policy.name=snapkv", "policy.gates=x"},
		`cache.prefix = true: expected false with policy.name = snapkv`:                                                                      {"policy.name=snapkv", "cache.prefix=true"},
	} {
		if _, err := load(sets...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	cfg, err := load("policy.name=snapkv", "policy.snapkv.window=32")
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := cfg.WriteTOML(&text); err != nil || !strings.Contains(text.String(), "\n[policy.snapkv]\nbudget = 1024\nsink = 4\nwindow = 32\n") {
		t.Errorf("%v\n%s", err, &text)
	}
	file := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := loader.Load(configs.Options{ConfigFiles: []string{file}})
	if err != nil || policy.Section[snapKeys](&again.Policy) != (snapKeys{1024, 4, 32}) || again.Policy.Name != "snapkv" {
		t.Errorf("%v: %+v", err, again)
	}
	e, err := loader.Explain(configs.Options{}, "policy.snapkv.window")
	if err != nil || e.Default != "16" || e.DefaultSource != "the paper's observation window" || e.Range != "1 to 1048576" || !strings.HasPrefix(e.DefaultIn, "defaults of policies:") {
		t.Errorf("%v: %+v", err, e)
	}
	if changed := fmt.Sprint(cfg.Changed()); !strings.Contains(changed, "{policy.snapkv.window 32}") {
		t.Error(changed)
	}
	if _, err := system.Load(configs.Options{Sets: []string{"policy.name=snapkv"}}); err == nil || slices.Contains(system.Keys().Names(), "policy.snapkv.window") {
		t.Errorf("the list of this package has it, too: %v", err)
	}
}
