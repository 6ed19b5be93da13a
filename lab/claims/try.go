package claims

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/system"
)

// choice is a layout of a system for a model and a trace, under one of the system's policies.
type choice struct {
	work
	system   string
	parallel int
	variant  string
}

func (e *experiment) choiceOf(i int) choice {
	c := e.configs[i]
	return choice{e.workOf(i), e.systemOf(i), c.Model.TensorParallel, c.Run.Variant}
}

// tried is what decides between choices of a system.
type tried struct {
	choice
	rejected   int     // requests of the whole trace that never fit, of all seeds
	throughput float64 // on the first requests
}

// closeCall is how much slower than the best layout on few requests another one may be, to run in full as well: the end of a run, where
// batches drain, moves layouts by as much.
const closeCall = 0.05

// better says whether a comes before b: fewer rejected requests, then more throughput.
func better(a, b tried) bool {
	return cmp.Or(cmp.Compare(a.rejected, b.rejected), cmp.Compare(b.throughput, a.throughput)) < 0
}

// try runs all choices of an experiment on its few requests of one seed and leaves those that it then runs in full: of each system on a model
// and a trace the best policy on the best layout and on those that are close to it, and for the first seed on the layout of Table 3. All
// would take five times as long.
func (o *Options) try(ctx context.Context, l *loader, x *experiment, run runner) error {
	if x.Tried == 0 || l.requests > 0 && l.requests <= x.Tried || l.requests == 0 && x.plan.Points[0].Requests <= x.Tried {
		return nil
	}
	few := *l
	few.requests, few.seeds = x.Tried, 1
	trial, err := few.load(x.experimentSpec, false)
	if err != nil {
		return err
	}
	if err := runAll(ctx, []*experiment{trial}, run, sweep.RunOptions{Journal: o.Journal, Progress: o.progress()}); err != nil {
		return err
	}
	judged, plan := *trial, *trial.plan
	judged.plan = &plan
	judged.keepBest()
	if err := judged.failed(); err != nil {
		return err
	}
	throughput := map[choice]float64{}
	for i, entry := range trial.outcome.Entries {
		if trial.configs[i] != nil && entry.Summary != nil {
			throughput[trial.choiceOf(i)] = entry.Summary.OutputTokensPerS
		}
	}
	rejected := map[choice]int{}
	for i, c := range x.configs {
		if c == nil {
			continue
		}
		n, err := rejectedOf(c)
		if err != nil {
			return err
		}
		rejected[x.choiceOf(i)] += n
	}
	models, err := loadModels()
	if err != nil {
		return err
	}
	type slot struct {
		work
		system   string
		parallel int // 0: of any layout
	}
	best := map[slot]tried{}
	for i, c := range x.configs { // in the order of the plan, so that the first of equals stays
		if c == nil {
			continue
		}
		own := tried{choice: x.choiceOf(i), rejected: rejected[x.choiceOf(i)], throughput: throughput[x.choiceOf(i)]}
		for _, s := range []slot{{own.work, own.system, 0}, {own.work, own.system, own.parallel}} {
			if old, seen := best[s]; !seen || better(own, old) {
				best[s] = own
			}
		}
	}
	first := x.seeds()[0]
	left := x.pick(func(i int) bool {
		own := x.choiceOf(i)
		top, here := best[slot{own.work, own.system, 0}], best[slot{own.work, own.system, own.parallel}]
		if here.choice != own {
			return false
		}
		close := here.rejected == top.rejected && here.throughput > (1-closeCall)*top.throughput
		return close || models.inTable3(x.configs[i]) && x.plan.Points[i].Seed == first
	})
	left.triedOn = x.Tried
	*x = *left
	return nil
}

// inTable3 says whether a configuration has the layout of Table 3, which is that of the model's preset.
func (m *models) inTable3(c *configs.Config) bool {
	return slices.ContainsFunc(m.served, func(own *configs.Config) bool {
		return own.Run.Model == c.Run.Model && own.Model.TensorParallel == c.Model.TensorParallel
	})
}

// rejectedOf returns how many requests of its trace a configuration can never hold.
func rejectedOf(c *configs.Config) (int, error) {
	all, err := system.LoadRequests(c)
	if err != nil {
		return 0, err
	}
	own := *c
	own.Run.CommonTo = c.Run.System
	held, err := system.LoadRequests(&own)
	if bad := (*input.Error)(nil); errors.As(err, &bad) && bad.Key == "run.common_to" {
		return len(all.Requests), nil // it holds none
	} else if err != nil {
		return 0, err
	}
	return len(all.Requests) - len(held.Requests), nil
}
