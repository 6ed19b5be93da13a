package kinds

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
)

// otherSystem is a system that a caller adds: gpu-only with another name, without its own section and abilities.
func otherSystem() System {
	return System{Name: "mine", KV: kvOnGPUs, Home: gpuOnlySystem.Home, Memory: gpuOnlySystem.Memory, Assemble: gpuOnlySystem.Assemble}
}

// TestDraftsOfOthers: drafts are refused with a system that does not declare that its steps may verify them. The message names those that
// do.
func TestDraftsOfOthers(t *testing.T) {
	ld, err := Extend(policies.Builtin(), otherSystem())
	if err != nil {
		t.Fatal(err)
	}
	_, err = ld.Load(configs.Options{Sets: []string{"run.system=mine", "serving.verified_tokens=2", "serving.acceptance=0.5"}})
	const want = "serving.verified_tokens = 2: expected 1 with run.system = mine, whose steps of several tokens are not modelled; those of l3, gpu-only, hbm-pim, rank-pim, cpu-offload, gpu+cpu, sparse-offload are"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestDraftsOfOtherPolicies: drafts are refused with a policy that does not declare that its costs count them. The message names those that
// do.
func TestDraftsOfOtherPolicies(t *testing.T) {
	list, err := policies.Builtin().With(policy.Policy{
		Name: "mine", Homes: policy.OnGPUs,
		Costs:  func(u *policy.Use) policy.Costs { return policies.DenseCosts(u.Shape) },
		Values: func(*policy.Use) (policy.Values, error) { return nil, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ld, err := Extend(list)
	if err != nil {
		t.Fatal(err)
	}
	_, err = ld.Load(configs.Options{Sets: []string{"run.system=gpu-only", "policy.name=mine", "serving.verified_tokens=2", "serving.acceptance=0.5"}})
	const want = "serving.verified_tokens = 2: expected 1 with policy.name = mine: what several queries of one step attend to together is not modelled; it is for dense, window, streaming, h2o, quest, lserve, duo, hgca, csattention, dsa"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestSpareOfOthers: whether a system's GPUs may decode in spare memory depends on its ability, not its name.
func TestSpareOfOthers(t *testing.T) {
	able := l3System
	able.Name = "able"
	ld, err := Extend(policies.Builtin(), otherSystem(), able)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ld.Load(configs.Options{Sets: []string{"run.system=able", "memory.spare=decode"}}); err != nil {
		t.Error(err)
	}
	_, err = ld.Load(configs.Options{Sets: []string{"run.system=mine", "memory.spare=decode"}})
	if want := "run.system = mine: of l3, able alone the GPUs hold no keys and values"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
