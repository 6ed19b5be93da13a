package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// runFlags are the flags of the run command that no configuration key has.
type runFlags struct {
	config configFlags
	json   bool
	out    string
	dryRun bool
	exact  bool
	check  bool

	timeline string // file
	window   string
}

func (a *app) newRunCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Simulate a trace of requests on a system and print a summary",
		Example: `  l3sim run
  l3sim run --model opt-66b --trace longbench --requests 200
  l3sim run --trace requests.csv --set node.ranksets=8 --json
  l3sim run --out results/a && l3sim run --config results/a/config.toml`,
		Args: cobra.NoArgs,
	}
	f.config.register(cmd)
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	cmd.Flags().StringVar(&f.out, "out", "", "also write summary.json, requests.csv and config.toml to `folder`")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "validate, print the hardware in effect and stop")
	cmd.Flags().BoolVar(&f.exact, "exact", false, "run every layer of every iteration: the same result, slower")
	cmd.Flags().BoolVar(&f.check, "check", false, "verify the laws of docs/laws.md during the run")
	cmd.Flags().StringVar(&f.timeline, "timeline", "", "write a timeline for Perfetto to `file` (.json or .json.gz)")
	cmd.Flags().StringVar(&f.window, "timeline-window", "0ms:50ms", "part of the run on the timeline, `from:to`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := f.config.load(cmd)
		if err != nil {
			return err
		}
		return a.run(cmd.Context(), cfg, &f)
	}
	return cmd
}

// run simulates the trace that the configuration names.
func (a *app) run(ctx context.Context, cfg *configs.Config, f *runFlags) error {
	trace, err := loadTrace(cfg)
	if err != nil {
		return err
	}
	node, err := system.NewNode(cfg)
	if err != nil {
		return err
	}
	if f.dryRun {
		return node.Hardware(trace).WriteText(a.stdout)
	}
	if f.out != "" {
		if err := creatable(f.out); err != nil {
			return err
		}
	}
	window, err := f.timelineWindow()
	if err != nil {
		return err
	}
	result, err := a.simulate(ctx, node, trace, f, window)
	if err != nil {
		return err
	}
	summary, err := result.Summary(cfg)
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := writeRun(f.out, cfg, result, summary); err != nil {
			return err
		}
	}
	if f.timeline != "" {
		if err := writeTimeline(f.timeline, result.Recordings); err != nil {
			return err
		}
	}
	if f.json {
		return summary.WriteJSON(a.stdout)
	}
	return summary.WriteText(a.stdout)
}

// simulate runs the trace under a progress display and sets the wall time.
func (a *app) simulate(ctx context.Context, node *system.Node, trace *traces.Trace, f *runFlags, window *system.Window) (*system.Result, error) {
	start := time.Now()
	show := a.newProgress("output tokens")
	show.Start(trace.Moments().OutputTokens)
	defer show.Done()
	emitted := make([]atomic.Int64, node.Replicas())
	result, err := node.Run(ctx, trace, system.Options{
		Exact: f.exact, Check: f.check, Timeline: window,
		Progress: func(replica int, tokens int64) {
			emitted[replica].Store(tokens)
			var sum int64
			for i := range emitted {
				sum += emitted[i].Load()
			}
			show.Set(sum)
		},
	})
	if err != nil {
		return nil, err
	}
	result.Wall = time.Since(start)
	return result, nil
}

// defaultRequests is how many requests of a built-in trace run where no number
// is given (L3, section 6.2).
const defaultRequests = 1000

// loadTrace returns the requests that the configuration names.
func loadTrace(cfg *configs.Config) (*traces.Trace, error) {
	name, n := cfg.Run.Trace, cfg.Run.Requests
	for _, builtin := range traces.BuiltinNames() {
		if name == builtin {
			if n == 0 {
				n = defaultRequests
			}
			return traces.Synthetic(name, n, cfg.Run.Seed, cfg.Traces)
		}
	}
	if _, err := os.Stat(name); os.IsNotExist(err) && filepath.Ext(name) == "" && filepath.Base(name) == name {
		bad := input.UnknownName("run.trace", name, traces.BuiltinNames())
		bad.Expected += ", or a file"
		return nil, bad
	}
	trace, err := traces.Load(name)
	if err == nil && n > 0 {
		trace, err = trace.Head(n)
	}
	if err != nil {
		return nil, err
	}
	// Throughput is measured on a full queue: all requests are there at the start.
	return trace.AtOnce(), nil
}

// creatable reports early, before a long run, that a folder cannot be made.
func creatable(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return &input.InputError{Key: "--out", Value: dir, Err: err}
	}
	return nil
}

// writeRun writes the files of one run to dir.
func writeRun(dir string, cfg *configs.Config, r *system.Result, s *results.Summary) error {
	err := results.WriteFiles(dir, []results.File{
		{Name: "summary.json", Write: s.WriteJSON},
		{Name: "requests.csv", Write: func(w io.Writer) error { return results.WriteRequests(w, r.Requests) }},
		{Name: "config.toml", Write: cfg.WriteTOML},
	})
	if err != nil {
		return fmt.Errorf("--out %s: %w", dir, err)
	}
	return nil
}
