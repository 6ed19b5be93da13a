package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/system"
)

func (a *app) newConfigCommand() *cobra.Command {
	group := cli.NewGroup("config", "Show the embedded presets, and explain keys")
	group.Long = `Show the embedded presets, list systems and policies, and explain keys.

A configuration starts from a system preset. TOML files (--config), single keys (--set section.key=value) and
flags go on top, in this order; the later wins. [model], [gpu] and [dram] start from presets or files of their own,
named by run.model, gpu.preset and dram.preset: a TOML file with that section, a DRAM table (FILE.toml:PART),
or a model's config.json as Hugging Face has it. A file that names no preset must have the whole section.
Quantities have units: "625ps", "25.6GB/s", "2TiB". Keys are case-sensitive.`
	group.AddCommand(a.newConfigListCommand(), a.newConfigShowCommand(), a.newConfigKeysCommand(), a.newConfigExplainCommand(),
		a.newSystemsCommand(), a.newPoliciesCommand())
	group.Annotations = presetWords("config list")
	group.SuggestFor = slices.Sorted(maps.Keys(kindOfWord))
	return group
}

// kindOfWord is the kind of presets for words that users try although they are no command.
var kindOfWord = map[string]configs.Kind{"model": configs.Model, "models": configs.Model, "gpus": configs.GPUs, "price": configs.PriceLists, "prices": configs.PriceLists}

// presetWords maps each of these words to a command that lists presets of its kind.
func presetWords(list string) map[string]string {
	instead := map[string]string{}
	for word, kind := range kindOfWord {
		instead[cli.InsteadOf+word] = list + " " + string(kind)
	}
	return instead
}

func (a *app) newConfigListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list [KIND]", SuggestFor: slices.Sorted(maps.Keys(kindOfWord)), Annotations: presetWords("list"),
		Short: "List the presets of systems, models, GPUs, prices and DRAM",
		Example: `  l3sim config list
  l3sim config list dram`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cli.OneArgument(configs.Kinds),
		RunE: func(_ *cobra.Command, args []string) error {
			all := configs.Presets()
			if len(args) > 0 {
				if !slices.Contains(configs.Kinds(), args[0]) {
					return input.UnknownName("kind of presets", args[0], configs.Kinds())
				}
				all = slices.DeleteFunc(all, func(p configs.Preset) bool { return string(p.Kind) != args[0] })
			}
			return a.PrintAligned(map[string]any{"schema": "l3sim/presets/1", "presets": all}, 0, func(w io.Writer) {
				for _, p := range all {
					if len(args) > 0 || p.Kind != configs.DRAMs {
						fmt.Fprintf(w, "%s\t%s\t%s\n", p.Kind, p.Name, p.Summary)
					}
				}
				if len(args) == 0 {
					fmt.Fprintf(w, "dram\t%d parts\tof DDR, GDDR, LPDDR and HBM: 'l3sim config list dram' lists them\n", len(configs.Names(configs.DRAMs)))
				}
			})
		},
	}
	cmd.Flags().BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	return cmd
}

func (a *app) newConfigShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "show [NAME]",
		Short:             "Print a preset with its comments, the default system preset without NAME",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cli.OneArgument(func() []string { return configs.Names() }),
		RunE: func(_ *cobra.Command, args []string) error {
			name := configs.DefaultPreset
			if len(args) > 0 {
				name = args[0]
			}
			text, err := configs.Source(name)
			if err != nil {
				return err
			}
			_, err = io.WriteString(a.Stdout, text)
			return err
		},
	}
}

func (a *app) newConfigExplainCommand() *cobra.Command {
	var f cli.ConfigFlags
	cmd := &cobra.Command{
		Use: "explain KEY|SECTION", SuggestFor: []string{"get", "help", "describe"},
		Short: "Say what a key means, what it takes, where its value is from and where it is set",
		Long: `Say what a key means, what it takes, where its value is from and where it is set.

Of a section it lists the keys with their values, as 'l3sim config keys' does. With --config, --set and the flags of 'l3sim run' both are of that configuration, which need not be a valid one.`,
		Example: `  l3sim config explain node.ranksets
  l3sim config explain model.layers --model opt-66b
  l3sim config explain dram.tRFC --config mine.toml --set dram.tRFC=880`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cli.OneArgument(keysAndSections),
	}
	f.Register(cmd, cli.RunKeys...)
	cmd.Flags().BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, err := f.Given(cmd)
		if err != nil {
			return err
		}
		if system.Keys().IsSection(args[0]) {
			return a.printKeys(o, args[0], "value")
		}
		e, err := system.Configs().Explain(o, args[0])
		if err != nil {
			return err
		}
		return a.Print(e, func(w io.Writer) error { return printExplanation(w, e) })
	}
	return cmd
}

func keysAndSections() []string { return append(system.Keys().Sections(), system.Keys().Names()...) }

func (a *app) newConfigKeysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys [SECTION|WORD]",
		Short: "List keys with what they take, their default and what they mean",
		Long: `List keys with what they take, their default and what they mean.

WORD is a part of a key's name, what others call the key, or else a word of its meaning. Keys that a named table sets together (the
fit of a GPU's kernels, the timings of a DRAM part, constants of energy, prices) are entries of the key that names it, which lists them
as WORD.`,
		Example: `  l3sim config keys node
  l3sim config keys bandwidth
  l3sim config keys tensor_parallel_size`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cli.OneArgument(system.Keys().Sections),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.printKeys(configs.Options{}, strings.Join(args, ""), "default")
		},
	}
	cmd.Flags().BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	return cmd
}

// printKeys prints a line for each key of a section, or found by a word; value heads the column of its values.
func (a *app) printKeys(o configs.Options, word, value string) error {
	found, err := system.Configs().Find(o, word)
	if err != nil {
		return err
	}
	entries := map[string]int{} // of tables, by the key that names each
	if word == "" {
		found = slices.DeleteFunc(found, func(e configs.Explanation) bool {
			table := configs.TableOf(e.Key)
			entries[table]++
			return table != ""
		})
	}
	return a.PrintAligned(map[string]any{"schema": "l3sim/keys/1", "keys": found}, 0, func(w io.Writer) {
		fmt.Fprintln(w, "key\ttakes\t"+value+"\tmeaning")
		for _, e := range found {
			meaning := e.Meaning
			if n := entries[e.Key]; n > 0 {
				meaning = strings.TrimSuffix(meaning, ".") + fmt.Sprintf("; its %d entries: 'l3sim config keys %s'", n, e.Key)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.Key, cli.KindOf(e.Key), quoted(e.Value), meaning)
		}
	})
}

// quoted makes an empty value visible.
func quoted(value string) string { return cmp.Or(value, `""`) }

// printExplanation prints a key's meaning, range, value and source.
func printExplanation(w io.Writer, e *configs.Explanation) error {
	var b strings.Builder
	b.WriteString(e.Key + "\n")
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-9s %s\n", name, text)
		}
	}
	row("meaning", e.Meaning)
	row("takes", e.Takes)
	row("range", e.Range)
	row("band", e.Band)
	if e.SetIn != e.DefaultIn {
		row("value", quoted(e.Value)+", set in "+e.SetIn)
		if e.Source != e.DefaultSource {
			row("source", e.Source)
		}
	}
	row("default", quoted(e.Default)+", set in "+e.DefaultIn)
	row("source", e.DefaultSource)
	_, err := io.WriteString(w, b.String())
	return err
}
