package paper

import (
	"context"
	"math/rand/v2"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system"
)

// predictorTable is Fig 10b (section 6.3): the errors of the learned predictors on
// batches of OpenR1, with the profile and the split of 'l3sim predict'. Requests
// are the batches, of twice as many requests, since several prompts can share one.
func (m *models) predictorTable(ctx context.Context, requests int) (*results.Table, error) {
	judged := m.served[1:] // GPT-89B and GPT-175B, as Fig 10a
	rows := make([][][]string, len(judged))
	var group errgroup.Group
	for i, config := range judged {
		group.Go(func() error {
			e, err := predictorErrors(ctx, config, max(requests, 10))
			name := config.Run.Model
			rows[i] = [][]string{
				{name, "prefill attention", number(e.PrefillAttention.Mean)},
				{name, "decode attention", number(e.DecodeAttention.Mean)},
				{name, "FC", number(e.FC.Mean)},
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return &results.Table{Name: "fig10b", Columns: []string{"run.model", "part", "relative_error"}, Rows: slices.Concat(rows...)}, nil
}

// predictorErrors profiles a run on OpenR1 and judges the predictors on it.
func predictorErrors(ctx context.Context, base *configs.Config, batches int) (e scheduler.PredictionErrors, err error) {
	cfg := *base
	cfg.Run.System, cfg.Run.Trace, cfg.Run.CommonTo, cfg.Run.Requests = "l3", "openr1", "", 2*batches
	trace, err := system.LoadTrace(&cfg)
	if err != nil {
		return e, err
	}
	node, err := system.NewNode(&cfg)
	if err != nil {
		return e, err
	}
	p, err := node.Profile(ctx, trace, batches)
	if err != nil {
		return e, err
	}
	return scheduler.HoldOut(&cfg.Predictor, p.Samples, rand.New(rand.NewPCG(cfg.Run.Seed, 0)))
}
