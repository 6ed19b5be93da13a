package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestRunCountsWhatEvalLogs: a request of the language model attends, in every layer, to as many
// tokens in a simulated run as in the model itself.
func TestRunCountsWhatEvalLogs(t *testing.T) {
	const prompt, steps = 200, 40
	trace := filepath.Join(t.TempDir(), "one.csv")
	if err := os.WriteFile(trace, fmt.Appendf(nil, "arrival_time_ns,input_toks,output_toks\n0,%d,%d\n", prompt, steps+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, policy := range [][]string{
		{"quest", "policy.budget=128"},
		{"lserve", "policy.budget=128", "policy.page=32", "policy.sink=8", "policy.window=40"},
		{"streaming", "policy.window=100"},
		{"duo", "policy.sink=8", "policy.window=40"},
		{"h2o"},
		{"csattention", "policy.select_share=0.1"},
		{"window", "policy.window=64", "policy.block=16", "policy.sink=4"},
		{"hgca", "policy.window=64", "policy.block=16"}, // with the profile that eval writes
	} {
		var sets []string
		for _, s := range policy[1:] {
			sets = append(sets, "--set", s)
		}
		var eval struct {
			Attended []float64 `json:"attended_tokens"`
		}
		var run struct {
			Attention struct {
				Attended []float64 `json:"attended_tokens"`
			} `json:"attention"`
		}
		profile, system := filepath.Join(t.TempDir(), "profile.toml"), "gpu-only"
		object(t, &eval, append([]string{"eval", "--json", "--policy", policy[0], "--prompt", fmt.Sprint(prompt), "--steps", fmt.Sprint(steps), "--profile", profile}, sets...)...)
		switch policy[0] {
		case "hgca":
			sets = append(sets, "--set", "policy.profile="+profile)
			fallthrough
		case "window":
			system = "gpu+cpu"
		}
		object(t, &run, append([]string{"run", "--json", "--preset", "desk", "--system", system, "--policy", policy[0], "--trace", trace}, sets...)...)
		if len(eval.Attended) != 6 || len(run.Attention.Attended) != 6 {
			t.Fatalf("%s: %v in the model, %v in a run", policy, eval.Attended, run.Attention.Attended)
		}
		for layer, want := range eval.Attended {
			if got := run.Attention.Attended[layer]; !near(got, want) {
				t.Errorf("%s, layer %d: %v tokens in a run, %v in the model", policy, layer, got, want)
			}
		}
	}
}
