package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/timeline"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// runFlags are the flags of the run command without a configuration key.
type runFlags struct {
	config cli.ConfigFlags
	asked  *design.File // the configuration, as the flags describe it
	out    string
	dryRun bool
	exact  bool
	check  bool
	full   bool

	timeline string // file
	window   string

	iterations bool
	plots      string // file
}

func (a *app) newRunCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use: "run", SuggestFor: []string{"simulate", "serve", "bench", "benchmark", "compare"},
		Annotations: map[string]string{cli.InsteadOf + "compare": "run --system l3,gpu-only"},
		Short:       "Simulate a trace of requests on a system and print a summary",
		Example: `  l3sim run
  l3sim run --model opt-66b --trace longbench --requests 200
  l3sim run --model gpt-175b,gpt-89b --requests 200
  l3sim run --trace requests.csv --set node.ranksets=8 --json
  l3sim run --out out/a && l3sim run --config out/a/config.toml`,
	}
	f.config.Register(cmd, cli.RunKeys...)
	cmd.Flags().BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	cmd.Flags().BoolVar(&f.full, "full", false, "print all of the summary; of several runs the table of all their main columns")
	cmd.Flags().StringVar(&f.out, "out", "", "also write results.csv, summary.json, requests.csv and config.toml to `folder`")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "validate, print the hardware in effect and stop")
	cmd.Flags().BoolVar(&f.exact, "exact", false, "run every layer of every iteration: the same result, slower")
	cmd.Flags().BoolVar(&f.check, "check", false, "verify the laws of lab/docs/laws-and-metrics.md during the run")
	cmd.Flags().StringVar(&f.timeline, "timeline", "", timelineUsage)
	cmd.Flags().StringVar(&f.window, "timeline-window", "", "part of the run on the timeline, `from:to`, such as 0ms:50ms (default: the first iterations of steady decoding)")
	cmd.Flags().BoolVar(&f.iterations, "iterations", false, "also write iterations.csv to the folder of --out: a row for each iteration")
	cmd.Flags().StringVar(&f.plots, "plots", "", "draw the run over time, and distributions of TTFT and TBT, as one page into `file` (.svg, .png or .pdf)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		given, err := f.config.Given(cmd)
		if err != nil {
			return err
		}
		if err := cli.NotEmpty(cmd, "out", "timeline", "plots"); err != nil {
			return err
		}
		if f.iterations && f.out == "" {
			return &input.Error{Key: "--iterations", Expected: "--out with the folder of iterations.csv"}
		}
		asked, err := design.OfLists(system.Configs(), given)
		if err != nil {
			return err
		}
		if len(asked.Axes) > 0 {
			return a.compare(cmd.Context(), asked, &f)
		}
		f.asked = asked
		if variants, _ := asked.Loader.Variants(given); len(variants) > 0 && !f.dryRun {
			return a.runBest(cmd.Context(), asked, &f)
		} // Load returns the same error
		cfg, err := f.config.Load(cmd)
		if err != nil {
			return err
		}
		return f.config.Locate(a.run(cmd.Context(), cfg, &f))
	}
	return cmd
}

func (f *runFlags) options() (system.Options, error) {
	o := system.Options{Exact: f.exact, Check: f.check, Iterations: f.iterations || f.plots != ""}
	var err error
	switch {
	case f.timeline != "" && f.window == "":
		o.Timeline = &system.Window{}
	case f.timeline != "":
		o.Timeline, err = parseWindow("--timeline-window", f.window, "0ms:50ms")
	}
	return o, err
}

func (a *app) run(ctx context.Context, cfg *configs.Config, f *runFlags) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	if f.dryRun {
		h, err := hardwareOf(cfg)
		if err != nil {
			return err
		}
		return a.Print(h, h.WriteText)
	}
	if err := f.writable(); err != nil {
		return err
	}
	show := a.ProgressOnTerminal("reading the trace")
	show.Start(0)
	trace, err := system.LoadTrace(cfg)
	show.Done()
	if err != nil {
		return err
	}
	a.noteTrace(trace)
	node, err := system.NewNode(cfg)
	if err != nil {
		return err
	}
	result, err := a.simulate(ctx, node, trace, options)
	if err != nil {
		return err
	}
	summary, err := result.Summary(cfg)
	if err != nil {
		return err
	}
	return a.finish(&comparedRun{node, result, sweep.Run{Name: "default", Config: cfg, Trace: trace, Summary: summary}}, options, f)
}

// runBest runs each variant that the preset has for the system, and prints the best one.
func (a *app) runBest(ctx context.Context, asked *design.File, f *runFlags) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	if err := f.writable(); err != nil {
		return err
	}
	c, outcome, err := a.runAll(ctx, asked, "", options)
	if err != nil {
		return err
	}
	var tried []string
	for i := range c.plan.Points {
		tried = append(tried, c.plan.Points[i].Name)
	}
	c.plan.KeepBest(outcome)
	point := &c.plan.Points[0]
	best := c.runs[point.Hash]
	if best == nil {
		return errors.New(outcome.Entries[0].Error)
	}
	a.noteTrace(best.Trace)
	by := "throughput"
	if best.Summary.SLO.Any() {
		by = "goodput"
	}
	a.Note("variant %s, the best by %s of %s; --set run.variant=NAME chooses one", point.Name, by, strings.Join(tried, ", "))
	f.asked = c.plan.FileOf(point)
	return a.finish(best, options, f)
}

// finish writes and prints one run.
func (a *app) finish(r *comparedRun, options system.Options, f *runFlags) error {
	summary, result := r.Summary, r.result
	a.noteWarnings([]string{""}, []*results.Summary{summary})
	if f.out != "" {
		if err := f.writeRun(f.out, f.asked, &r.Run, result); err != nil {
			return err
		}
	}
	if f.plots != "" {
		if err := plotRun(f.page(), r.node, result, summary.ConfigSHA256); err != nil {
			return err
		}
	}
	late := f.inWindow(options.Timeline, summary.SimulatedS)
	if f.timeline != "" && late == nil {
		if err := writeTimeline(f.timeline, result.Recordings); err != nil {
			return err
		}
		a.noteWindow(f, result.Recordings)
	}
	write := summary.WriteText
	switch {
	case a.JSON:
		write = summary.WriteJSON
	case f.full:
		write = summary.WriteFull
	}
	return cmp.Or(write(a.Stdout), late)
}

// noteWarnings writes the warnings of runs, each once, with the names of its runs if not all have it.
func (a *app) noteWarnings(names []string, runs []*results.Summary) {
	said := map[string]bool{}
	for _, s := range runs {
		for _, text := range s.Warnings() {
			if said[text] {
				continue
			}
			said[text] = true
			var of []string
			for i, other := range runs {
				if slices.Contains(other.Warnings(), text) {
					of = append(of, names[i])
				}
			}
			if len(of) < len(runs) {
				text += " (of " + strings.Join(of, "; ") + ")"
			}
			a.Note("warning: %s", text)
		}
	}
}

// simulate runs the trace under a progress display and sets the wall time.
func (a *app) simulate(ctx context.Context, node *system.Node, trace *traces.Trace, o system.Options) (*system.Result, error) {
	start := time.Now()
	show := a.NewProgress("output tokens")
	show.Start(trace.Moments().OutputTokens)
	defer show.Done()
	emitted := make([]atomic.Int64, node.Replicas())
	o.Progress = func(replica int, tokens int64) {
		emitted[replica].Store(tokens)
		var sum int64
		for i := range emitted {
			sum += emitted[i].Load()
		}
		show.Set(sum)
	}
	result, err := node.Run(ctx, trace, o)
	if err != nil {
		return nil, err
	}
	result.Wall = time.Since(start)
	return result, nil
}

// writable checks before a long run that its outputs can be written.
func (f *runFlags) writable() error {
	return cmp.Or(cli.Creatable(f.out), f.checkPage(), timelineFile(f.timeline, ""))
}

// writeRun writes the folder of one run.
func (f *runFlags) writeRun(dir string, asked *design.File, run *sweep.Run, r *system.Result) error {
	folder, err := sweep.Made("run", asked, []sweep.Run{*run}, run.Summary.WriteJSON)
	if err != nil {
		return err
	}
	folder.Config = func(w io.Writer) error {
		for _, note := range slices.Concat(run.Summary.Doubts, run.Summary.Notes) {
			fmt.Fprintln(w, "# "+strings.ReplaceAll(note, "\n", " ")) // a name may contain any character
		}
		return run.Config.WriteTOML(w)
	}
	folder.More = []results.File{{Name: traces.RequestsFile, Write: func(w io.Writer) error { return results.WriteRequests(w, r.Requests) }}}
	if f.iterations {
		folder.More = append(folder.More, results.File{Name: "iterations.csv", Write: func(w io.Writer) error { return results.WriteIterations(w, r.Iterations) }})
	}
	return cli.WriteFiles("--out", dir, folder.Files())
}

// inWindow refuses a window beyond the end of a run, end in seconds: its timeline would be empty.
func (f *runFlags) inWindow(w *system.Window, end float64) error {
	if w == nil || f.window == "" || w.From.Seconds() < end {
		return nil
	}
	return &input.Error{Key: "--timeline-window", Value: f.window, Expected: fmt.Sprintf("a part of the run, which ends at %gms", 1e3*end)}
}

// noteWindow says which part of each run a timeline shows if the user has not chosen one.
func (a *app) noteWindow(f *runFlags, recordings []*system.Recording) {
	for len(recordings) > 0 && f.window == "" {
		first := recordings[0]
		from, to, decoding := first.From, first.To, 0
		for len(recordings) > 0 && recordings[0].Run == first.Run { // replicas of the same run
			r := recordings[0]
			from, to, recordings = min(from, r.From), max(to, r.To), recordings[1:]
			for i := range r.Samples {
				decoding = max(decoding, r.Samples[i].Decoding)
			}
		}
		name := ""
		if first.Run != "" {
			name = first.Run + ": "
		}
		a.Note("%sthe timeline shows %.6gs:%.6gs, where up to %s; --timeline-window shows another part", name,
			from.Seconds(), to.Seconds(), input.Plural(decoding, "request decodes", "requests decode"))
	}
}

// writeTimeline writes recordings to path.
func writeTimeline(path string, recordings []*system.Recording) error {
	return withTimeline(path, func(w *timeline.Writer) error {
		system.WriteTimeline(w, recordings)
		return nil
	})
}
