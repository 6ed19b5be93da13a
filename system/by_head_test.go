package system

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/traces"
	"pgregory.net/rapid"
)

// profiled returns settings of HGCA on a small model with a profile of shares, by layer and head.
func profiled(t interface{ Fatal(...any) }, dir string, heads int, shares []float64) []string {
	profile := policy.Profile{
		Model:    policy.ProfileModel{Name: "gpt-89b", Layers: len(shares) / heads, Heads: heads, KVHeads: heads, HeadDim: 128},
		Measured: policy.ProfileMeasured{Prompt: 10, Last: 20000, Contexts: []int{11, 500}},
	}
	spec := policies.New("hgca")
	policy.Edit(&spec, func(h *policies.HGCASpec) { h.Window, h.Block = 96, 16 })
	profile.Policy = spec
	for _, share := range shares {
		profile.Heads = append(profile.Heads, policy.ProfileHead{Share: []float64{share / 2, share}, Rows: []float64{1, 1}})
	}
	path := filepath.Join(dir, "profile.toml")
	var text strings.Builder
	if err := profile.Write(&text); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{
		"run.model=gpt-89b", "policy.name=hgca", "policy.hgca.window=96", "policy.hgca.block=16", "policy.profile=" + path, "node.gpus=2", "node.channels=4",
		"model.layers=2", "model.hidden=1024", "model.heads=8", "model.kv_heads=8", "model.head_dim=128", "model.ffn_hidden=4096", "model.tensor_parallel=2",
	}
}

// TestHeadsAlike: a profile of one share for all heads and contexts is policy.share.
func TestHeadsAlike(t *testing.T) {
	shares := make([]float64, 16)
	for i := range shares {
		shares[i] = 0.25
	}
	sets := profiled(t, t.TempDir(), 8, shares)
	requests := equalLengths(5, 700, 40) // contexts of the second bucket
	run := func(sets []string) *Result {
		return mustRun(t, nodeOf(t, sets...), &traces.Trace{Requests: requests}, false)
	}
	plain := append([]string{}, sets...)
	for i, s := range plain {
		if strings.HasPrefix(s, "policy.profile=") {
			plain[i] = "policy.hgca.share=0.25"
		}
	}
	a, b := run(sets), run(plain)
	if a.end != b.end || a.busy != b.busy || a.imbalance != b.imbalance {
		t.Errorf("a profile takes %v, imbalance %v, busy %+v; policy.hgca.share takes %v, %v, %+v", a.end, a.imbalance, a.busy, b.end, b.imbalance, b.busy)
	}
}

// TestHeadsOfTheirOwnInARun: a fully checked run in which each head and layer has its own share equals a run with shortcuts.
func TestHeadsOfTheirOwnInARun(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		shares := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0.01, 0.1, 0.3, 0.9}), 16, 16).Draw(t, "shares")
		n := nodeOf(t, profiled(t, dir, 8, shares)...)
		trace := &traces.Trace{Requests: equalLengths(3, rapid.IntRange(1, 900).Draw(t, "in"), rapid.IntRange(1, 90).Draw(t, "out"))}
		if got, want := requestsOf(t, mustRun(t, n, trace, false)), requestsOf(t, mustRun(t, n, trace, true)); got != want {
			t.Fatalf("got\n%s\nlayer by layer\n%s", got, want)
		}
	})
}
