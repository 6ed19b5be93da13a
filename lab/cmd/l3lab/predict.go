package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/scheduler/predict"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

func (a *app) newPredictCommand() *cobra.Command {
	var config cli.ConfigFlags
	var batches int
	cmd := &cobra.Command{
		Use:   "predict",
		Short: "Judge the scheduler's latency predictors on batches of a run",
		Long: `Judge the scheduler's latency predictors on batches of a run (L3, section 6.3, Fig 10b).

The learned predictors are fitted to a random 80% of the sub-batches of iterations that prefill. The error is the mean
of |measured - predicted| / measured over the other 20%; predictor.noise adds measurement noise.`,
		Example: `  l3lab predict --model gpt-89b --batches 1000
  l3lab predict --trace longbench --set predictor.noise=0.05 --json`,
	}
	config.Register(cmd, cli.RunKeys...)
	cmd.Flags().IntVar(&batches, "batches", 1000, "batches of the profile, fewer where a run has fewer that prefill")
	cmd.Flags().BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cli.Between("--batches", batches, leastBatches, 1<<20); err != nil {
			return err
		}
		cfg, err := config.Load(cmd)
		if err != nil {
			return err
		}
		j, err := judgePredictors(cmd.Context(), cfg, batches)
		if err != nil {
			return config.Locate(err)
		}
		return a.Print(j, j.writeText)
	}
	return cmd
}

const leastBatches = 5 // smallest profile of which a fifth can be held out

// judgement is the errors of the predictors on one profile.
type judgement struct {
	Schema     string  `json:"schema"`
	Model      string  `json:"model"`
	Trace      string  `json:"trace"`
	Seed       uint64  `json:"seed"`
	Batches    int     `json:"batches"`
	Candidates int     `json:"batches_that_prefill"`
	SubBatches int     `json:"sub_batches"`
	Noise      float64 `json:"noise"` // relative standard deviation
	// Errors are means over the held-out sub-batches with such work.
	Errors predict.PredictionErrors `json:"relative_error"`
}

func judgePredictors(ctx context.Context, cfg *configs.Config, batches int) (*judgement, error) {
	if cfg.Run.Requests == 0 && slices.Contains(traces.BuiltinNames(), cfg.Run.Trace) {
		// Several short prompts can be prefilled in one batch, so more requests than
		// batches are needed.
		cfg.Run.Requests = max(system.DefaultRequests, 2*batches)
	}
	trace, err := system.LoadTrace(cfg)
	if err != nil {
		return nil, err
	}
	node, err := system.NewNode(cfg)
	if err != nil {
		return nil, err
	}
	p, err := node.Profile(ctx, trace, batches)
	if err != nil {
		return nil, err
	}
	if p.Batches < leastBatches {
		return nil, input.Errorf("the run has %d batches that prefill, %d are needed: take more requests", p.Batches, leastBatches)
	}
	// The node's own streams are numbered from 1<<32.
	e, err := predict.HoldOut(&cfg.Predictor, p.Samples, rand.New(rand.NewPCG(cfg.Run.Seed, 0)))
	if err != nil {
		return nil, err
	}
	return &judgement{
		Schema: "l3sim/predict/1", Model: cfg.Model.Name, Trace: trace.Name, Seed: cfg.Run.Seed,
		Batches: p.Batches, Candidates: p.Candidates, SubBatches: len(p.Samples), Noise: cfg.Predictor.Noise, Errors: e,
	}, nil
}

func (j *judgement) writeText(out io.Writer) error {
	fmt.Fprintf(out, "%s on %s, seed %d: %d of %d batches that prefill, %d sub-batches, noise %v\n\n",
		j.Model, j.Trace, j.Seed, j.Batches, j.Candidates, j.SubBatches, j.Noise)
	return cli.Aligned(out, tabwriter.AlignRight, func(w io.Writer) {
		fmt.Fprintln(w, "\trelative error\theld out\t")
		for _, part := range []struct {
			name string
			predict.RelativeError
		}{{"prefill attention", j.Errors.PrefillAttention}, {"decode attention", j.Errors.DecodeAttention}, {"FC", j.Errors.FC}} {
			fmt.Fprintf(w, "%s\t%.2f%%\t%d\t\n", part.name, 100*part.Mean, part.Count)
		}
	})
}
