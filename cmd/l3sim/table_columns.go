package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system"
)

// listColumns describes a table's columns; for keys it prints the configuration's explanation.
func (a *app) listColumns(t *tables.Table) error {
	all := list.Map(t.Columns, tables.Describe)
	for i := range all {
		c := &all[i]
		c.Kind = t.Kind(i)
		bare, _ := tables.SplitUnit(c.Name)
		for _, key := range []string{c.Name, bare} {
			if e, err := system.Configs().Explain(configs.Options{}, key); err == nil && system.Keys().Key(key) != nil {
				c.Meaning = e.Meaning
			}
		}
	}
	return a.PrintAligned(map[string]any{"schema": "l3sim/columns/1", "columns": all}, 0, func(w io.Writer) {
		fmt.Fprintln(w, "column\tunit\tbetter\tmeaning")
		for _, c := range all {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Name, c.Unit, c.Better, c.Meaning)
		}
	})
}

// completeColumns lets shells complete the flags of a command whose values are columns of its first
// argument.
func completeColumns(cmd *cobra.Command) {
	for flag, end := range map[string]string{"x": "", "y": "", "z": "", "group": "", "facet": "", "columns": "", "where": "=", "normalize-to": "=", "metrics": ""} {
		if cmd.Flags().Lookup(flag) != nil { // it fails only if the flag does not exist
			_ = cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
				if len(args) == 0 {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				t, err := tables.ReadTable(args[0])
				if err != nil {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return cli.Listed(list.Map(t.Columns, func(c string) string { return c + end }), text), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
			})
		}
	}
}
