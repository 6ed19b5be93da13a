package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/system"
)

// TestCompare: --full --model a,b with keys of all layers gives one table, a row each; one name
// with its own column is not a comparison.
func TestCompare(t *testing.T) {
	options := configs.Options{
		Sets: []string{"node.ranksets=2"},
		Flags: []configs.Flag{
			{Name: "--model", Key: "run.model", Value: "gpt-175b, llama-2-7b"},
			{Name: "--trace", Key: "run.trace", Value: "longbench"},
			{Name: "--requests", Key: "run.requests", Value: "4"},
		},
	}
	var out bytes.Buffer
	a := &app{&cli.App{Stdout: &out, Stderr: &bytes.Buffer{}}}
	compare := func() error {
		file, err := design.OfLists(system.Configs(), options)
		if err != nil {
			return err
		}
		return a.compare(t.Context(), file, &runFlags{full: true})
	}
	if err := compare(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "model ") || !strings.Contains(lines[0], " output_tokens_per_s ") ||
		!strings.HasPrefix(lines[1], "gpt-175b ") || !strings.HasPrefix(lines[2], "llama-2-7b ") {
		t.Errorf("got\n%s", out.String())
	}

	options.Flags[0].Value = "gpt-175b,opt66b"
	err := compare()
	var bad *input.Error
	if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), `--model: run.model = "opt66b": expected one of`) {
		t.Errorf("got %v", err)
	}
	for _, names := range []string{"gpt-175b, gpt-175b", "gpt-175b,"} {
		options.Flags[0].Value = names
		if err := compare(); !errors.As(err, &bad) || bad.Key != "--model" {
			t.Errorf("%s: got %v", names, err)
		}
	}
	options.Flags[0].Value = "gpt-175b"
	if file, err := design.OfLists(system.Configs(), options); err != nil || len(file.Axes) > 0 {
		t.Error("one model is no comparison")
	}
}

// TestRunOptions: --exact, --check and --timeline reach a run, and the runs of a comparison.
func TestRunOptions(t *testing.T) {
	for _, f := range []runFlags{{}, {exact: true}, {check: true}, {timeline: "out.json", window: "1ms:2ms"}} {
		o, err := f.options()
		if err != nil || o.Exact != f.exact || o.Check != f.check || (o.Timeline != nil) != (f.timeline != "") {
			t.Errorf("%+v: got %+v, %v", f, o, err)
		}
	}
}
