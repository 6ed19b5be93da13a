package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
)

func (a *app) newConfigCommand() *cobra.Command {
	group := a.newGroup("config", "Show the embedded presets")
	group.Long = `Show the embedded presets.

A configuration starts from a system preset. On top of it come, each winning over the
one before: a TOML file with any subset of the keys (--config FILE), single keys
(--set section.key=value), and the flags of a command. The sections [model], [gpu] and
[dram] start from presets of their own, named by run.model, gpu.preset and dram.preset.

Quantities carry their unit: "625ps", "25.6GB/s", "2TiB". Keys are case-sensitive.`
	group.AddCommand(a.newConfigListCommand(), a.newConfigShowCommand())
	return group
}

func (a *app) newConfigListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the presets of systems, models, GPUs and DRAM",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return a.printJSON(struct {
					Schema  string           `json:"schema"`
					Presets []configs.Preset `json:"presets"`
				}{"l3sim/presets/1", configs.Presets()})
			}
			table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			for _, p := range configs.Presets() {
				fmt.Fprintf(table, "%s\t%s\t%s\n", p.Kind, p.Name, p.Summary)
			}
			return table.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, jsonUsage)
	return cmd
}

func (a *app) newConfigShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show [NAME]",
		Short: "Print a preset with its comments, the default system preset without NAME",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			name := configs.DefaultPreset
			if len(args) > 0 {
				name = args[0]
			}
			text, err := configs.Source(name)
			if err != nil {
				return err
			}
			_, err = io.WriteString(a.stdout, text)
			return err
		},
	}
}
