package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
)

// TestUnknownFlags: the error for a flag that a command does not have says where it belongs: another command, a key under --set, or the
// sweep file. A section, as of --slo, is not a key. Only a command with --config and --set offers keys.
func TestUnknownFlags(t *testing.T) {
	root := &cobra.Command{Use: "l3sim"}
	command := func(use string, flags ...string) *cobra.Command {
		c := &cobra.Command{Use: use}
		for _, f := range flags {
			c.Flags().String(f, "", "")
		}
		root.AddCommand(c)
		return c
	}
	run := command("run", "config", "set", "model", "kv-format", "out")
	sweep := command("sweep FILE.toml", "config", "out", "seeds")
	onlySet, onlyConfig := command("only-set", "set", "output"), command("only-config", "config", "output")
	plain := command("plain DIR", "model", "format")
	for _, c := range []struct {
		command           *cobra.Command
		flag              string
		expected, nearest string // expected: the text after "a flag of 'COMMAND'", or the whole text
	}{
		{root, "--model", "a command before it", "l3sim run --model"},
		{root, "--slo", "a command before it", "l3sim run --slo"},
		{root, "--zzz", "", ""},
		{run, "--kv-bits", "", "--set model.kv_bits=VALUE"},                              // a flag elsewhere, a key here
		{run, "--rate", "", "--set arrivals.rate_per_s=VALUE"},                           // by the flag's own key, not one called rate
		{run, "--hidden", "", "--set model.hidden=VALUE"},                                // a key's last part
		{run, "--model.kv_format", "", "--kv-format"},                                    // a key that has a flag here
		{run, "--modle", "", "--model"},                                                  // misspelt
		{run, "--slo", ", or --set KEY=VALUE", ""},                                       // a section, not a key
		{run, "--num-seqs", ", or --set KEY=VALUE", "--set batching.max_num_seqs=VALUE"}, // the most similar last part
		{run, "--ttft", ", or --set KEY=VALUE with one of slo.ttft, slo.p50.ttft, slo.p90.ttft, slo.p95.ttft, slo.p99.ttft", ""},
		{sweep, "--ttft", "", ""},
		{sweep, "--set", "; keys that all points share go into FILE.toml under [set]", ""},
		{sweep, "--model", ", or a key in FILE.toml under [set] or [grid]", "run.model"},
		{sweep, "--seed", ", or a key in FILE.toml under [set] or [grid]", "run.seed"},
		{onlySet, "--hidden", "", ""},
		{onlyConfig, "--hidden", "", ""},
		{plain, "--modle", "", "--model"},
		{plain, "--hidden", "", ""},
		{plain, "--preset", "", ""}, // several keys have this name
	} {
		var bad *input.Error
		if err := unknownFlag(c.command, c.flag); !errors.As(err, &bad) {
			t.Fatalf("%s %s: %v", c.command.Name(), c.flag, err)
		}
		got, _ := strings.CutPrefix(bad.Expected, "a flag of '"+c.command.CommandPath()+"'")
		if bad.Key != c.flag || got != c.expected || bad.Nearest != c.nearest {
			t.Errorf("%s %s: expected %q, nearest %q; want %q, %q", c.command.Name(), c.flag, got, bad.Nearest, c.expected, c.nearest)
		}
	}
}
