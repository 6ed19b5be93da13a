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

// choice is a layout of a system for a model and a trace, with one of the system's policies.
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

// tried is the result by which choices of a system are compared.
type tried struct {
	choice
	rejected   int     // requests of the whole trace, over all seeds, that never fit
	throughput float64 // with one seed
}

// closeCall is how much slower than the best choice, on few requests, another one may be and still run in full: the end of a run, in
// which batches drain, changes ranks by as much.
const closeCall = 0.05

// better says whether a comes before b: fewer rejected requests, then more throughput.
func better(a, b tried) bool {
	return cmp.Or(cmp.Compare(a.rejected, b.rejected), cmp.Compare(b.throughput, a.throughput)) < 0
}

// slot is the scope in which choices compete: a system on a model and a trace.
type slot struct {
	work
	system   string
	parallel int // GPUs per replica; 0: any
}

func (c choice) anyLayout() slot { return slot{c.work, c.system, 0} }
func (c choice) ownLayout() slot { return slot{c.work, c.system, c.parallel} }

// try selects the choices of an experiment that run in full with all seeds: the best layout and policy of each system on a model and a trace,
// and for the first seed the best policy on the layout of Table 3. All choices run on few requests of the first seed. Those close to the best
// run in full with this seed, which decides. Running all in full with all seeds would take ten times as long.
func (o *Options) try(ctx context.Context, l *loader, x *experiment, run runner) error {
	if x.Tried == 0 || l.requests > 0 && l.requests <= x.Tried || l.requests == 0 && x.plan.Points[0].Requests <= x.Tried {
		return nil
	}
	models, err := loadModels()
	if err != nil {
		return err
	}
	rejected, err := x.rejected()
	if err != nil {
		return err
	}
	few := *l
	few.requests, few.seeds = x.Tried, 1
	trial, err := few.load(x.experimentSpec, false)
	if err != nil {
		return err
	}
	throughput, err := o.throughput(ctx, trial, run)
	if err != nil {
		return err
	}
	first := x.seeds()[0]
	best := x.decide(rejected, throughput)
	ofTable3 := func(i int) bool { return models.inTable3(x.configs[i]) && x.plan.Points[i].Seed == first }
	hopes := x.pick(func(i int) bool {
		own := x.choiceOf(i)
		top := best[own.anyLayout()]
		close := rejected[own] == top.rejected && throughput[own] > (1-closeCall)*top.throughput
		return close && x.plan.Points[i].Seed == first || best[own.ownLayout()].choice == own && ofTable3(i)
	})
	if throughput, err = o.throughput(ctx, hopes, run); err != nil {
		return err
	}
	best = hopes.decide(rejected, throughput)
	left := x.pick(func(i int) bool {
		own := x.choiceOf(i)
		return best[own.anyLayout()].choice == own || best[own.ownLayout()].choice == own && ofTable3(i)
	})
	left.triedOn = x.Tried
	*x = *left
	return nil
}

// throughput runs an experiment of one seed and returns the output tokens per second of its
// choices.
func (o *Options) throughput(ctx context.Context, x *experiment, run runner) (map[choice]float64, error) {
	if err := runAll(ctx, []*experiment{x}, run, sweep.RunOptions{Journal: o.Journal, Progress: o.progress()}); err != nil {
		return nil, err
	}
	judged, plan := *x, *x.plan
	judged.plan = &plan
	judged.keepBest()
	if err := judged.failed(); err != nil {
		return nil, err
	}
	throughput := map[choice]float64{}
	for i, entry := range x.outcome.Entries {
		if x.configs[i] != nil && entry.Summary != nil {
			throughput[x.choiceOf(i)] = entry.Summary.OutputTokensPerS
		}
	}
	return throughput, nil
}

// decide returns the best choices of all slots; of equals the first in the plan.
func (e *experiment) decide(rejected map[choice]int, throughput map[choice]float64) map[slot]tried {
	best := map[slot]tried{}
	for i, c := range e.configs {
		if c == nil {
			continue
		}
		choice := e.choiceOf(i)
		own := tried{choice, rejected[choice], throughput[choice]}
		for _, s := range []slot{choice.anyLayout(), choice.ownLayout()} {
			if old, seen := best[s]; !seen || better(own, old) {
				best[s] = own
			}
		}
	}
	return best
}

// rejected returns how many requests of the whole trace each choice can never hold, over all seeds.
func (e *experiment) rejected() (map[choice]int, error) {
	rejected := map[choice]int{}
	for i, c := range e.configs {
		if c == nil {
			continue
		}
		n, err := rejectedOf(c)
		if err != nil {
			return nil, err
		}
		rejected[e.choiceOf(i)] += n
	}
	return rejected, nil
}

// inTable3 says whether a configuration has the layout of Table 3, which the model's preset has.
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
