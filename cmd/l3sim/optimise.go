package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/internal/search"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/results"
)

// optimiseFlags are the flags of the optimise command.
type optimiseFlags struct {
	folderFlags
	from []string
}

func (a *app) newOptimiseCommand() *cobra.Command {
	var f optimiseFlags
	cmd := &cobra.Command{
		Use:   "optimise FILE.toml",
		Short: "Search a design space for the best trade-offs",
		Long: `Search a design space for the best trade-offs.

FILE.toml names goals, constraints and axes:

  config = "node.toml"            # overlay under all points, relative to FILE, optional
  repeats = 3                     # seeds of each point from run.seed upwards, 1 without
  where = "node.ranksets * node.channels <= 64"
  [set]                           # keys that all points share
  run.requests = 200
  [optimise]
  objectives = "max output_tokens_per_s, min node.ranksets"
  constraints = ["tbt_p99_ms <= 100"]
  population = 20                 # points of a generation, 20 without
  evaluations = 200               # points of one search
  seeds = 5                       # searches of each method, 5 without
  seed = 1                        # of the first search, 1 without
  [axes]                          # as in [latin_hypercube] of a sweep
  node.ranksets = {min = 2, max = 16}
  pcie.generation = [3, 4, 5]
  comm.balance = ["split", "random"]
  pcie.efficiency = {min = 0.5, max = 0.9}

Goals and constraints are columns of the results: metrics, and keys of the axes. Points
come from NSGA-II, and with the same budget from random draws and from a Latin hypercube, which
a search must beat to be worth its name. No search evaluates a point twice, and a point
that two searches ask for runs once. Combinations that are no configuration cost nothing.

--out gets what a sweep's gets, with a row for each point of all searches, and search.json:
the points of each search in their order, its hypervolume over evaluations, and how much
of each goal's variance each key decides. The same file gives the same bytes,
whatever the workers; journal.jsonl lets the same command go on after any interruption.

With --shard i/N a machine carries out every N-th search into a folder of its own. The
command with --from for each of these folders then takes their results and runs the rest.`,
		Example: `  l3sim optimise examples/worth-gpt-175b.toml --dry-run
  l3sim optimise examples/worth-gpt-175b.toml --out out/worth
  l3sim optimise examples/worth-gpt-175b.toml --shard 0/2 --out out/worth-0
  l3sim optimise examples/worth-gpt-175b.toml --from out/worth-0 --from out/worth-1 --out out/worth`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := notEmpty(cmd, "shard"); err != nil {
				return err
			}
			return a.optimise(cmd.Context(), args[0], &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.out, "out", "", "`folder` of the results and the journal")
	flags.IntVar(&f.workers, "workers", 0, "points that run at a time; 0 for one a core")
	flags.BoolVar(&f.dryRun, "dry-run", false, "list the axes and the budget, and stop")
	flags.StringVar(&f.shard, "shard", "", "carry out some of the searches: `i/N`, auto (Slurm array) or auto/N (Kubernetes)")
	flags.StringArrayVar(&f.from, "from", nil, "`folder` of a shard whose results to take (repeatable)")
	flags.BoolVar(&a.json, "json", false, jsonUsage+": search.json")
	return cmd
}

// optimise carries out the searches of a file, or those of a shard.
func (a *app) optimise(ctx context.Context, path string, f *optimiseFlags) error {
	if err := present(path); err != nil {
		return err
	}
	shard, err := f.check()
	if err != nil {
		return err
	}
	version, err := sweep.CodeVersion()
	if err != nil {
		return err
	}
	s, err := sweep.ReadSearch(path, version)
	if err != nil {
		return err
	}
	if f.dryRun {
		return a.describeSearch(s)
	}
	found, err := a.searchInFolder(ctx, s, shard, f)
	switch {
	case err != nil:
		return err
	case shard != nil:
		fmt.Fprintf(a.stdout, "shard %s, %s: %s; journal in %s\n", shard, plural(len(found.Plan.Points), "run", "runs"), counts(found.Outcome), f.out)
		return nil
	case a.json:
		return found.Search.WriteJSON(a.stdout)
	}
	if err := found.Front.WriteText(a.stdout); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	if err := found.Search.WriteText(a.stdout); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "\n%s: %s; results in %s\n", plural(len(found.Plan.Points), "run", "runs"), counts(found.Outcome), f.out)
	return err
}

// describeSearch prints the axes and the budget.
func (a *app) describeSearch(s *sweep.Search) error {
	for _, line := range s.Axes() {
		fmt.Fprintln(a.stdout, line)
	}
	n := len(search.Methods())
	_, err := fmt.Fprintf(a.stdout, "\n%d methods, %s each, %d evaluations a search: %d at most\n",
		n, plural(s.Seeds, "seed", "seeds"), s.Evaluations, n*s.Seeds*s.Evaluations)
	return err
}

// searchInFolder carries out searches with the journal in --out, and writes the results of
// all of them.
func (a *app) searchInFolder(ctx context.Context, s *sweep.Search, shard *sweep.Shard, f *optimiseFlags) (found *sweep.Found, err error) {
	err = a.withJournal(f.out, func(journal *sweep.Journal) error {
		for _, dir := range f.from {
			damage, err := journal.Take(dir)
			if err != nil {
				return err
			}
			a.noteDamage(damage)
		}
		show := a.newProgress("evaluations")
		show.Start(int64(len(search.Methods()) * s.Seeds * s.Evaluations))
		found, err = s.Run(ctx, sweep.RunOptions{Journal: journal, Workers: f.workers, Progress: func(done, _ int64) { show.Set(done) }}, shard)
		show.Done()
		if there := journal.Check(); there != nil {
			return there
		}
		if found == nil && ctx.Err() != nil {
			a.note("what has run is recorded; the same command goes on from there")
		}
		if found != nil && shard == nil {
			return cmp.Or(outError(f.out, writeSearch(f.out, found)), err)
		}
		return err
	})
	return found, err
}

// writeSearch writes what a search found; its record is missing where no point meets the
// constraints.
func writeSearch(dir string, found *sweep.Found) error {
	if err := found.Plan.Write(dir, found.Outcome); err != nil || found.Search == nil {
		return err
	}
	return results.WriteFiles(dir, []results.File{{Name: results.SearchFile, Write: found.Search.WriteJSON}})
}
