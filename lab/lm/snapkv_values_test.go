package lm_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/lab/lm"
	"github.com/l3sim/l3sim/system"
)

// TestCopyOfSnapKV: snapkv_test.go is the program of docs/reference/policies-and-systems.md, which no other package can import.
func TestCopyOfSnapKV(t *testing.T) {
	of := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return strings.NewReplacer("package example_test", "package lm_test", "func Example() {", "func Example_snapKV() {").Replace(string(text))
	}
	if of("snapkv_test.go") != of("../../attention/policies/example/snapkv_test.go") {
		t.Error("snapkv_test.go is not attention/policies/example/snapkv_test.go in package lm_test: copy it")
	}
}

// TestAddedValues: a policy of another package decodes the byte model, in float64 and with keys and values in DIMMs, with the same
// attended tokens. With room for everything it equals dense attention.
func TestAddedValues(t *testing.T) {
	deep.Turn(t, 3, 4)
	loader, err := system.Extend(system.Extension{Policies: []policy.Policy{snapKV}})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := loader.Load(configs.Options{Preset: "desk", Sets: []string{"policy.name=snapkv", "policy.snapkv.budget=64", "pim.precision.preset=fp32"}})
	if err != nil {
		t.Fatal(err)
	}
	weights, err := lm.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	const prompt = 200
	steps := deep.Of(10, 40, 200)
	decode := func(on *lm.Node, s *policy.Spec) *lm.Evaluation {
		e, err := lm.EvaluatePolicy(t.Context(), lm.NewModel(weights, 1), on, &lm.Attends{Policy: s}, lm.SampleText(), prompt, steps, nil)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	here, there := decode(nil, &cfg.Policy), decode(&lm.Node{Config: cfg}, &cfg.Policy)
	tokens := float64(64) + float64(1+steps)/2 // the budget, and the mean number since
	for _, e := range []*lm.Evaluation{here, there} {
		if got := e.Attended.Layers[0].Tokens; got != tokens {
			t.Errorf("a head attends to %g tokens, want %g", got, tokens)
		}
	}
	if d := here.Mean() - there.Mean(); d > 1e-3 || d < -1e-3 || there.MaxError > 5e-5 {
		t.Errorf("%g nats here, %g in the DIMMs, error %g", here.Mean(), there.Mean(), there.MaxError)
	}
	whole, dense := cfg.Policy, policies.New("dense")
	policy.Edit(&whole, func(k *snapKeys) { k.Budget = prompt })
	if a, b := decode(nil, &whole), decode(nil, &dense); !slices.Equal(a.NLL, b.NLL) || slices.Equal(a.NLL, here.NLL) {
		t.Errorf("%v with room for everything, %v dense", a.NLL, b.NLL)
	}
}
