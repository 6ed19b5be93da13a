package system

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/traces"
)

// policySets returns settings of a policy small enough that it drops and chooses tokens within
// short contexts.
func policySets(name string) []string {
	sets := map[string][]string{
		"streaming": {"sink=4", "window=100"}, "quest": {"budget=128"}, "lserve": {"budget=256", "sink=8", "window=64"},
		"duo": {"sink=8", "window=64"}, "csattention": {"centroids=16", "select_share=0.1"},
		"window": {"window=96", "block=16"}, "hgca": {"window=96", "block=16"},
	}[name]
	all := []string{"policy.name=" + name}
	if name == "dsa" { // which needs a model with an indexer
		all = append(all, "model.kv_heads=1", "model.head_dim=72", "model.latent_dim=64", "model.nope_dim=16", "model.value_dim=16", "model.index_heads=4", "model.index_dim=16", "model.index_top_k=200")
	}
	for _, s := range sets {
		all = append(all, "policy."+name+"."+s)
	}
	return all
}

// setsOn is policySets for a system.
func setsOn(s *kinds.System, name string) []string {
	sets := policySets(name)
	if name == "csattention" && !s.KV.InGPUs {
		sets = append(sets, "policy.csattention.mode=host")
	}
	if s.Name == "sparse-offload" { // which needs a layer that chooses
		sets = append(sets, "sparse_offload.buffer_rows=330", "policy.quest.skip_layers=0")
	}
	return sets
}

// TestPoliciesRun runs every policy on every system that supports it, on random nodes and requests,
// under all checks, and layer by layer with the same result.
func TestPoliciesRun(t *testing.T) {
	deep.Heavy(t)
	for _, s := range Systems(everything()) {
		for _, name := range s.Policies() {
			if name == "dense" {
				continue // covered by all other tests
			}
			t.Run(s.Name+"/"+name, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					d := drawBaseline(t)
					n := d.node(t, s.Name, setsOn(s, name)...)
					if got, want := requestsOf(t, mustRun(t, n, d.trace, false)), requestsOf(t, mustRun(t, n, d.trace, true)); got != want {
						t.Fatalf("got\n%s\nlayer by layer\n%s", got, want)
					}
				})
			})
		}
	}
}

// TestAttendedTokens: the attended tokens of a run are those that the policy counts, step by step,
// for its requests.
func TestAttendedTokens(t *testing.T) {
	deep.Heavy(t)
	for _, s := range Systems(everything()) {
		for _, name := range s.Policies() {
			if name == "dense" {
				continue
			}
			cfg := mustLoad(t, append(setsOn(s, name), "run.system="+s.Name, "run.model=llama-3-8b")...)
			requests := []traces.Request{{ID: 0, Input: 700, Output: 90}, {ID: 1, Input: 30, Output: 200}, {ID: 2, Input: 300, Output: 2}}
			r := mustRun(t, mustNode(t, cfg), &traces.Trace{Requests: requests}, false)
			p, layer := flow.PolicyOf(kinds.Of(cfg).Derive(cfg)), 0
			for run, layers := range p.Runs() {
				sum, contexts, steps := 0, 0, 0
				for _, q := range requests {
					for context := q.Input + 1; context < q.Input+q.Output; context++ {
						for _, c := range p.Decode([]policy.Request{{Prompt: q.Input, Context: context}}, run).Attend {
							sum += c.Heads * c.Tokens[0]
						}
						contexts += context
						steps++
					}
				}
				want := float64(sum) / float64(steps*cfg.Model.KVHeads)
				for range layers {
					if got := r.attention.ByLayer[layer]; math.Abs(got-want) > 1e-9*want {
						t.Errorf("%s, %s, layer %d: %v tokens, want %v", s.Name, name, layer, got, want)
					}
					layer++
				}
				if mean := float64(contexts) / float64(steps); math.Abs(r.attention.Context-mean) > 1e-9*mean {
					t.Errorf("%s, %s: contexts of %v tokens on average, want %v", s.Name, name, r.attention.Context, mean)
				}
			}
		}
	}
}

// TestPolicyAllocatesNothing checks the hot path of policies on every system.
func TestPolicyAllocatesNothing(t *testing.T) {
	deep.Heavy(t)
	for _, s := range Systems(everything()) {
		for _, name := range s.Policies() {
			t.Run(s.Name+"/"+name, func(t *testing.T) { checkAllocations(t, s.Name, setsOn(s, name)...) })
		}
	}
}

// TestBudgetDecides: a larger budget is never faster, and one beyond all contexts takes the time of
// dense attention.
func TestBudgetDecides(t *testing.T) {
	took := func(sets ...string) float64 {
		cfg := mustLoad(t, append(sets, "run.system=gpu-only", "run.model=llama-3-8b", "gpu.preset=a100-sxm-80gb")...)
		r := mustRun(t, mustNode(t, cfg), &traces.Trace{Requests: equalLengths(4, 60_000, 20)}, false)
		return r.tbt.Milliseconds().Mean
	}
	dense, last := took(), 0.0
	for _, budget := range []int{512, 1024, 4096, 16384} {
		now := took("policy.name=quest", fmt.Sprintf("policy.quest.budget=%d", budget))
		if now <= last || now >= dense {
			t.Errorf("budget %d: %v ms between tokens, %v with the smaller one, %v dense", budget, now, last, dense)
		}
		last = now
	}
	// Bounds are still kept, with slightly more traffic.
	if all := took("policy.name=quest", "policy.quest.budget=65536"); all < dense || all > 1.01*dense {
		t.Errorf("a budget for everything: %v ms between tokens, %v dense", all, dense)
	}
	if none := took("policy.name=quest", "policy.quest.skip_layers=32", "policy.quest.budget=512"); none != dense {
		t.Errorf("no layer chooses: %v ms between tokens, %v dense", none, dense)
	}
	if duo := took("policy.name=duo", "policy.duo.static_sparsity=0"); duo != dense {
		t.Errorf("no head streams: %v ms between tokens, %v dense", duo, dense)
	}
	if streams := took("policy.name=duo", "policy.duo.static_sparsity=1"); streams != took("policy.name=streaming", "policy.streaming.sink=128", "policy.streaming.window=256") {
		t.Error("all heads stream, and take another time than streaming attention")
	}
}

func mustLoad(t *testing.T, sets ...string) *configs.Config {
	cfg, err := everything().Load(configs.Options{Sets: sets})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
