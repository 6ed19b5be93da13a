package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/report"
	"github.com/l3sim/l3sim/results"
)

func (a *app) newReportCommand() *cobra.Command {
	var out string
	var o report.Options
	cmd := &cobra.Command{
		Use:   "report DIR...",
		Short: "Write results as one page of HTML to show to others",
		Long: `Write results as one page of HTML to show to others.

DIR is a folder of --out. The page needs no network: it has the best point of each goal, the Pareto front with the
command that runs each point again, the keys that matter, time and energy by component, and the table as CSV and
JSON. The page is at most 2 MiB: of larger results it shows the front and a part of the rest.`,
		Example: `  l3sim report out/worth --out out/worth.html
  l3sim report out/a out/b --goals 'max output_tokens_per_s, min ranksets' --out out/report.html`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.NotEmpty(cmd, "goals", "title"); err != nil {
				return err
			}
			return a.report(args, out, o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&out, "out", "", "`file` to write, .html")
	cli.ListVar(flags, &o.Goals, "goals", "", "", "`goals` of the front: two or three of 'max COLUMN' and 'min COLUMN'")
	flags.StringVar(&o.Title, "title", "", "title of the page, `text`; without it what the results are of")
	return cmd
}

func (a *app) report(dirs []string, out string, o report.Options) error {
	if err := cli.Present(dirs...); err != nil {
		return err
	}
	if !strings.HasSuffix(out, ".html") {
		return &input.Error{Key: "--out", Value: out, Expected: "a file that ends with .html"}
	}
	if err := cli.WritableFile("--out", out); err != nil {
		return err
	}
	r, err := report.Read(dirs, o)
	if err != nil {
		return err
	}
	if err := results.WriteFileAtomic(out, r.Write); err != nil {
		return err
	}
	info, err := os.Stat(out)
	if err == nil {
		a.Note("%s, %d KiB", out, info.Size()>>10)
	}
	return err
}
