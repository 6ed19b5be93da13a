package claims

import (
	"context"
	"sync"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/results"
)

// Target is a part of the evaluation that can be repeated alone.
type Target string

// The targets.
const (
	AllTargets  Target = "all" // the figures and all claims
	Fig2        Target = "fig2"
	Fig8        Target = "fig8"
	Fig9        Target = "fig9"
	Fig10       Target = "fig10"
	Fig11       Target = "fig11"
	ClaimsOnly  Target = "claims"      // all claims with no more runs than they need, no figures
	Sensitivity Target = "sensitivity" // the best cases of Fig 8 with one assumption changed at a time
	Fair        Target = "fair"        // Fig 8 with the best policies and layouts of every system
	Sparse      Target = "sparse"      // the claims of papers on sparse attention
)

// Targets returns the names of all targets.
func Targets() []string {
	all := []Target{AllTargets, Fig2, Fig8, Fig9, Fig10, Fig11, ClaimsOnly, Sensitivity, Fair, Sparse}
	return list.Map(all, func(t Target) string { return string(t) })
}

// DefaultRequests is the number of requests of a target's traces: the paper's
// (section 6.2), and a fifth of it for what goes beyond the paper.
func (t Target) DefaultRequests() int {
	if t == Sensitivity || t == Fair {
		return 200
	}
	return 1000
}

// Options say how a target is carried out.
type Options struct {
	Target   Target
	Requests int                // of every trace that an experiment does not size itself
	Seeds    int                // of each point
	Version  string             // of the code, part of every cached point's address
	Journal  *sweep.Journal     // the cache; nil: no cache
	Traces   string             // folder for the traces that experiments bring along
	Planned  func(points int64) // told before the first point runs; may be nil
	Progress func(done int64)   // points so far, those in the cache included; may be nil
}

// Report is the result of a target.
type Report struct {
	Target     Target
	Requests   int
	Seeds      []uint64
	Judgements []judgement // of the target's claims, in the order of Claims
	Figures    []Figure
	// Tables are the results of experiments, a row a point, and the tables that the page
	// makes of them.
	Tables      []*results.Table
	Sensitivity []effect // of Sensitivity, the unchanged assumptions first

	intro    string // of its part of the page
	sections []section
	models   *models
}

// Run carries out a target.
func Run(ctx context.Context, o Options) (*Report, error) {
	return o.run(ctx, (*sweep.Plan).Run)
}

// run is Run with another way to carry out plans.
func (o *Options) run(ctx context.Context, run runner) (*Report, error) {
	l := &loader{version: o.Version, requests: o.Requests, seeds: o.Seeds, traces: o.Traces}
	e, experiments, err := o.plan(l)
	if err != nil {
		return nil, err
	}
	if err := runAll(ctx, experiments, run, sweep.RunOptions{Journal: o.Journal, Progress: o.progress()}); err != nil {
		return nil, err
	}
	for _, x := range experiments {
		if err := x.failed(); err != nil {
			return nil, err
		}
	}
	r := &Report{Target: o.Target, Requests: o.Requests, models: e.text}
	if len(experiments) > 0 {
		e.seeds = experiments[0].seeds()
	} else {
		e.seeds = []uint64{1}
	}
	r.Seeds = e.seeds
	e.readings = o.Target != Sensitivity && o.Target != Fair
	if o.Target == Sensitivity {
		return r, r.addSensitivity(experiments[0])
	}
	if o.Target == Fair {
		return r, r.addFair(e)
	}
	claims, err := claimsOf(o.Target)
	if err != nil {
		return nil, err
	}
	if r.Judgements, err = judge(claims, e); err != nil {
		return nil, err
	}
	if o.Target == ClaimsOnly || o.Target == Sparse {
		return r, nil
	}
	return r, r.addFigures(ctx, e, experiments)
}

// progress joins the two callbacks: the first call comes before any point runs.
func (o *Options) progress() func(done, of int64) {
	var once sync.Once
	return func(done, of int64) {
		if o.Planned != nil {
			once.Do(func() { o.Planned(of) })
		}
		if o.Progress != nil {
			o.Progress(done)
		}
	}
}

// plan loads the experiments that the target needs.
func (o *Options) plan(l *loader) (*evidence, []*experiment, error) {
	models, err := loadModels()
	if err != nil {
		return nil, nil, err
	}
	evaluation, err := readEvaluation()
	if err != nil {
		return nil, nil, err
	}
	e := &evidence{text: models, of: map[string]*experiment{}}
	var all []*experiment
	for i := range evaluation.Experiment {
		spec := &evaluation.Experiment[i]
		ofPaper := spec.Target != Fair && spec.Target != Sensitivity
		if o.Target != spec.Target && !(ofPaper && (o.Target == AllTargets || o.Target == ClaimsOnly)) {
			continue
		}
		x, err := l.load(spec, o.Target == ClaimsOnly)
		if err != nil {
			return nil, nil, err
		}
		e.of[spec.Name] = x
		all = append(all, x)
	}
	return e, all, nil
}
