package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/lab/claims"
)

// The largest values of --requests and --seeds, and the smallest --requests: with fewer, a trace
// may have no request that all systems can hold.
const (
	leastReproduced = 10
	mostReproduced  = 100_000
	mostSeeds       = 100
)

type reproduceFlags struct {
	out             string
	requests, seeds int
}

func (a *app) newReproduceCommand() *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "reproduce [WHAT]",
		Short: "Repeat the L3 paper's evaluation and judge its claims",
		Long: `Repeat the L3 paper's evaluation and judge its claims.

all, which is the default, runs every figure and claim; fig2, fig8, fig9, fig10 and fig11 one figure; claims what the claims need. sensitivity changes one
assumption at a time; fair runs whole traces with every system's best policies and layouts; sparse judges papers on
sparse attention. A value is "reproduced" within 15% of the paper's number, a bound or an ordering where it holds;
"direction" is the same side of 1 within a factor of 1.5, "same side" beyond it. lab/docs/reproduction.md explains the verdicts.

Finished points are kept in the user's cache folder (l3sim/reproduce), so that the same command goes on after an
interruption. Other code runs all points again.`,
		Example: `  l3lab reproduce claims --requests 300
  l3lab reproduce all --out out/paper
  l3lab reproduce fig8 --seeds 3 --json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cli.OneArgument(claims.Targets),
		RunE: func(cmd *cobra.Command, args []string) error {
			target := claims.AllTargets
			if len(args) == 1 {
				target = claims.Target(args[0])
			}
			return a.reproduce(cmd, target, &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.out, "out", "", "also write results.csv, tables, figures, claims.json and a page to `folder`")
	flags.BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	flags.IntVar(&f.requests, "requests", claims.AllTargets.DefaultRequests(),
		fmt.Sprintf("requests of each trace; %d for sensitivity and fair unless given", claims.Fair.DefaultRequests()))
	flags.IntVar(&f.seeds, "seeds", 1, "seeds of each point")
	return cmd
}

// reproduce runs a target, prints its claims and writes its files.
func (a *app) reproduce(cmd *cobra.Command, target claims.Target, f *reproduceFlags) error {
	if err := f.check(cmd, target); err != nil {
		return err
	}
	if !cmd.Flags().Changed("requests") {
		f.requests = target.DefaultRequests()
	}
	if err := cli.Creatable(f.out); err != nil {
		return err
	}
	r, err := a.runTarget(cmd.Context(), target, f)
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := cli.OutError(f.out, r.Write(f.out)); err != nil {
			return err
		}
	}
	if a.JSON {
		return r.WriteJSON(a.Stdout)
	}
	return r.WriteText(a.Stdout)
}

func (f *reproduceFlags) check(cmd *cobra.Command, target claims.Target) error {
	if !slices.Contains(claims.Targets(), string(target)) {
		return input.UnknownName("reproduce", string(target), claims.Targets())
	}
	return cmp.Or(cli.Between("--requests", f.requests, leastReproduced, mostReproduced), cli.Between("--seeds", f.seeds, 1, mostSeeds), cli.NotEmpty(cmd, "out"))
}

// runTarget runs a target with the cache under a progress display.
func (a *app) runTarget(ctx context.Context, target claims.Target, f *reproduceFlags) (report *claims.Report, err error) {
	version, err := sweep.CodeVersion()
	if err != nil {
		return nil, err
	}
	c, err := claims.OpenCache(a.Note)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if d := c.Journal.Damage(); d.Count > 0 {
		a.Note("%v; what no other line records runs again", &d)
	}
	show := a.NewProgress("points")
	start := func(points int64) { // called again if policies are tried first
		show.Done()
		show = a.NewProgress("points")
		show.Start(points)
	}
	report, err = claims.Run(ctx, claims.Options{
		Target: target, Requests: f.requests, Seeds: f.seeds, Version: version, Journal: c.Journal, Traces: c.Dir, Planned: start, Progress: func(done int64) { show.Set(done) },
	})
	show.Done()
	if errors.Is(err, context.Canceled) && !c.Temporary {
		a.Note("finished points are kept; the same command goes on from there")
	}
	return report, err
}
