package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/l3sim/l3sim/internal/cli"
)

// TestCommandLines: every command takes the numbers of arguments and has the flags that testdata/commands.txt lists, and no others.
func TestCommandLines(t *testing.T) {
	text, err := os.ReadFile("testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, c := range commands() {
		got += commandLine(c)
	}
	if got != string(text) {
		t.Errorf("got\n%swant\n%s", got, text)
	}
}

// commandLine describes a command: how many arguments it takes, of 0 to 4, and its flags.
func commandLine(c *cobra.Command) string {
	line, args := c.CommandPath(), make([]string, 0, 4)
	for n := range cap(args) + 1 {
		if c.Args(c, args[:n]) == nil {
			line += fmt.Sprint(" ", n)
		}
	}
	line += ":"
	c.LocalFlags().VisitAll(func(f *pflag.Flag) { line += " " + f.Name })
	return line + "\n"
}

// TestPredictNeeds: gpu predict refuses each kernel without each of the flags that describe it, and computes it with all of them.
func TestPredictNeeds(t *testing.T) {
	for op, flags := range map[string][]string{
		"gemm": {"--m=64", "--n=256", "--k=128"}, "norm": {"--m=64", "--n=256"}, "activation": {"--m=64", "--n=256"},
		"prefill": {"--chunk=512", "--heads=32"}, "decode": {"--context=1000", "--heads=32"}, "allreduce": {"--gpus=8", "--bytes=64MiB"},
		"page-score": {"--context=1000", "--page=16", "--heads=32"}, "top-k": {"--context=1000", "--page=16", "--pages=4", "--heads=32"},
		"page-attention": {"--page=16", "--pages=4", "--heads=32"},
	} {
		for without := range len(flags) + 1 {
			given := flags
			if without < len(flags) {
				given = slices.Delete(slices.Clone(flags), without, without+1)
			}
			var out, messages bytes.Buffer
			code := run(t.Context(), slices.Concat([]string{"gpu", "predict", "--gpu=a100-sxm-80gb", "--op=" + op}, given), &out, &messages)
			if without == len(flags) {
				if code != cli.OK || !strings.HasPrefix(out.String(), "time") {
					t.Errorf("%s %v: exit code %d: %s%s", op, given, code, out.String(), messages.String())
				}
				continue
			}
			flag, _, _ := strings.Cut(flags[without], "=")
			if want := fmt.Sprintf("l3sim: %s: expected a value, which --op %s needs\n", flag, op); code != cli.WrongInput || out.Len() > 0 || messages.String() != want {
				t.Errorf("%s %v: exit code %d: %s%swant %s", op, given, code, out.String(), messages.String(), want)
			}
		}
	}
	if len(predictOps) != 9 {
		t.Errorf("%d kernels, of which 9 are tried", len(predictOps))
	}
}
