package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/system"
)

// TestRunCountsWhatEvalLogs: in every layer, a request of the language model attends to as many
// tokens in a simulated run as in the model itself.
func TestRunCountsWhatEvalLogs(t *testing.T) {
	deep.Heavy(t)
	const prompt, steps = 200, 40
	trace := filepath.Join(t.TempDir(), "one.csv")
	if err := os.WriteFile(trace, fmt.Appendf(nil, "arrival_ns,input_tokens,output_tokens\n0,%d,%d\n", prompt, steps+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, policy := range [][]string{
		{"quest", "policy.quest.budget=128"},
		{"lserve", "policy.lserve.budget=128", "policy.lserve.page=32", "policy.lserve.sink=8", "policy.lserve.window=40"},
		{"streaming", "policy.streaming.window=100"},
		{"duo", "policy.duo.sink=8", "policy.duo.window=40"},
		{"h2o"},
		{"csattention", "policy.csattention.select_share=0.1"},
		{"window", "policy.window.window=64", "policy.window.block=16", "policy.window.sink=4"},
		{"hgca", "policy.hgca.window=64", "policy.hgca.block=16"}, // with eval's profile
	} {
		if !deep.On() && policy[0] != "quest" && policy[0] != "hgca" {
			continue
		}
		keys := policy[1:]
		var sets []string
		for _, s := range keys {
			sets = append(sets, "--set", s)
		}
		var eval struct {
			Attended []float64 `json:"attended_tokens"`
		}
		profile, name := filepath.Join(t.TempDir(), "profile.toml"), "gpu-only"
		object(t, &eval, append([]string{"eval", "--json", "--policy", policy[0], "--prompt", fmt.Sprint(prompt), "--steps", fmt.Sprint(steps), "--profile", profile}, sets...)...)
		switch policy[0] {
		case "hgca":
			keys = append(keys, "policy.profile="+profile)
			fallthrough
		case "window":
			name = "gpu+cpu"
		}
		cfg, err := system.Load(configs.Options{Preset: deskPreset, Flags: []configs.Flag{{Name: "--system", Key: "run.system", Value: name},
			{Name: "--policy", Key: "policy.name", Value: policy[0]}, {Name: "--trace", Key: "run.trace", Value: trace}}, Sets: keys})
		if err != nil {
			t.Fatal(err)
		}
		requests, err := system.LoadTrace(cfg)
		if err != nil {
			t.Fatal(err)
		}
		node, err := system.NewNode(cfg)
		if err != nil {
			t.Fatal(err)
		}
		result, err := node.Run(t.Context(), requests, system.Options{})
		if err != nil {
			t.Fatal(err)
		}
		run, err := result.Summary(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if len(eval.Attended) != 6 || len(run.Attention.ByLayer) != 6 {
			t.Fatalf("%s: %v in the model, %v in a run", policy, eval.Attended, run.Attention.ByLayer)
		}
		for layer, want := range eval.Attended {
			if got := run.Attention.ByLayer[layer]; !near(got, want) {
				t.Errorf("%s, layer %d: %v tokens in a run, %v in the model", policy, layer, got, want)
			}
		}
	}
}
