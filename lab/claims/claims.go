package claims

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/internal/sweep"
	files "github.com/l3sim/l3sim/lab/claims/paper"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
)

// evidence is the data from which claims are judged.
type evidence struct {
	seeds    []uint64
	requests int  // of each trace
	readings bool // it covers all readings of the claims
	of       map[string]*experiment
	text     *models
	sparse   machines
}

// evaluation is the content of a file of claims.
type evaluation struct {
	// Keys are lists of keys by name: "@name" in a list of keys is replaced by them.
	Keys map[string][]string
	// HostMs is the host time, in milliseconds, added to a decode step in readings with Host.
	HostMs     float64 `toml:"host_ms"`
	Experiment []experimentSpec
	Claim      []*claim
}

type experimentSpec struct {
	Name    string // of its sweep file
	Target  Target
	Claims  string   // a condition on the points that claims need
	Figures []string // drawn from its results
	Tried   int      // requests with which policies and layouts are tried first, see try; 0: all run in full
}

// finders are the functions named by claims.
var finders = map[string]finder{
	"best case": findBest, "highest": findHighest, "ordering": findOrdering, "scaling": findScaling, "step": findStep,
	"least latency": latency(math.Min), "largest latency": latency(math.Max),
	"transfer share": onModels((*models).transferShare), "compute kept": onModels((*models).computeKept),
	"unit ratio": onModels((*models).unitRatio), "transposition": onModels((*models).transposition),
	"large requests": onModels((*models).largeRequests), "small requests": onModels((*models).smallRequests),
	"attention share": onModels((*models).attentionShare), "rank share": onModels((*models).rankShare), "prompt cuts": onModels((*models).promptCuts),
	"sparse share": onSparse((*subject).share), "sparse time": onSparse((*subject).time), "sparse ratio": onSparse((*subject).ratio), "sparse growth": onSparse((*subject).growth),
	"sparse attention ratio": onSparse((*subject).attentionRatio), "sparse memory": onSparse((*subject).memory),
	"lserve selector": onSparse((*subject).selector), "lserve pages": onSparse((*subject).pages), "lserve reuse": onSparse((*subject).reuse),
	"csattention ratio": onSparse((*subject).centroids), "csattention composition": onSparse((*subject).composition), "csattention schedule": onSparse((*subject).schedule),
	"csattention entries": onSparse((*subject).entries), "csattention hosted": onSparse((*subject).hosted),
	"hgca loading": onSparse((*subject).loading), "hgca growing": onSparse((*subject).growing), "hgca offloaded": onSparse((*subject).offloaded),
	"hgca rate": onSparse((*subject).rate), "hgca salience": onSparse((*subject).salience), "hgca memory rate": onSparse((*subject).memoryRate),
	"lserve needle": onSparse((*subject).needle),
}

// onModels makes a finder from a function that needs no run.
func onModels(find func(*models, *reading) (finding, error)) finder {
	return func(e *evidence, _ uint64, r *reading) (finding, error) { return find(e.text, r) }
}

// readEvaluation reads evaluation.toml and readSparse the claims about sparse attention, which are
// part of the program.
var (
	readEvaluation = sync.OnceValues(func() (*evaluation, error) { return readClaims("evaluation.toml") })
	readSparse     = sync.OnceValues(func() (*evaluation, error) { return readClaims(sparseFiles...) })
)

// sparseFiles have the claims about sparse attention.
var sparseFiles = []string{"lserve.toml", "lserve_accuracy.toml", "hgca.toml", "csattention.toml", "sparse.toml"}

// readClaims reads files of claims, and looks up each claim's finder.
func readClaims(names ...string) (*evaluation, error) {
	all := &evaluation{}
	for _, name := range names {
		text, err := files.Files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		e := &evaluation{}
		meta, err := input.DecodeTOML(files.Folder+"/"+name, string(text), e)
		if err != nil {
			return nil, err
		}
		if unknown := meta.Undecoded(); len(unknown) > 0 {
			return nil, fmt.Errorf("%s: unknown keys %v", name, unknown)
		}
		e.complete()
		all.HostMs = max(all.HostMs, e.HostMs)
		all.Experiment, all.Claim = append(all.Experiment, e.Experiment...), append(all.Claim, e.Claim...)
	}
	for _, c := range all.Claim {
		if c.find = finders[c.Find]; c.find == nil && c.Kind != statement {
			return nil, fmt.Errorf("%s: no function %q", c.ID, c.Find)
		}
	}
	return all, nil
}

// complete adds to every reading what its claim and the file set for all, and makes one claim of each context.
func (e *evaluation) complete() {
	var each []*claim
	for _, c := range e.Claim {
		if len(c.Readings) == 0 {
			c.Readings = []reading{{}}
		}
		for i := range c.Readings {
			r := &c.Readings[i]
			r.Set, r.Over = e.keys(c.Set, r.Set), e.keys(c.Over, r.Over)
			if r.Host {
				r.hostTime = e.HostMs / 1000
			}
		}
		if len(c.Papers) == 0 {
			each = append(each, c)
		}
		for i, paper := range c.Papers {
			each = append(each, c.at(c.Contexts[i], paper))
		}
	}
	e.Claim = each
}

// keys joins lists of keys and replaces named ones.
func (e *evaluation) keys(lists ...[]string) (all []string) {
	for _, k := range slices.Concat(lists...) {
		if name, named := strings.CutPrefix(k, "@"); named {
			all = append(all, e.Keys[name]...)
		} else {
			all = append(all, k)
		}
	}
	return all
}

// at returns the claim for one of its contexts.
func (c *claim) at(context int, paper float64) *claim {
	one := *c
	one.family = c
	in := strings.NewReplacer("{context}", tokens(context), "{paper}", fmt.Sprint(paper))
	one.Says, one.Paper = in.Replace(c.Says), paper
	one.ID = strings.ReplaceAll(c.ID, "{context}", strings.ToLower(tokens(context)))
	one.Readings = slices.Clone(c.Readings)
	for i := range one.Readings {
		one.Readings[i].Contexts = []int{context}
	}
	return &one
}

// claimsOf returns the claims that belong to a target, in the order of the paper's figures.
func claimsOf(t Target) ([]*claim, error) {
	read := readEvaluation
	if t == Sparse {
		read = readSparse
	}
	all, err := read()
	if err != nil {
		return nil, err
	}
	if t == Sparse {
		return all.Claim, nil
	}
	return slices.DeleteFunc(slices.Clone(all.Claim), func(c *claim) bool {
		figure, _, _ := strings.Cut(c.ID, ".")
		own := figure == string(t) || t == Fig2 && c.ID == "text.mha_share_16k" || t == Fair && figure == string(Fig8)
		return !own && t != AllTargets && t != ClaimsOnly
	}), nil
}

// busy describes the work of a run's resources, with the ranksets' balance if it has ranksets.
func busy(s *results.Summary) string {
	text := fmt.Sprintf("GPUs %.0f%%, PIM %.0f%% busy", 100*s.Utilization.GPU, 100*s.Utilization.PIM)
	if s.RanksetImbalance > 0 {
		text += fmt.Sprintf(", busiest rankset over mean %.2f", s.RanksetImbalance)
	}
	return text
}

func terabytes(s *results.Summary) float64 { return float64(s.KVBytes.Capacity) / 1e12 }

// bottleneck names the busiest resource of a run.
func bottleneck(s *results.Summary) string {
	if s.Utilization.GPU > s.Utilization.PIM {
		return fmt.Sprintf("GPUs %.0f%% busy", 100*s.Utilization.GPU)
	}
	return fmt.Sprintf("ranksets %.0f%% busy", 100*s.Utilization.PIM)
}

// throughput is the metric of Fig 8 to 10.
func throughput(s *results.Summary) float64 { return s.OutputTokensPerS }

func metric(name string) (func(*results.Summary) float64, error) {
	at := slices.Index(results.MetricNames(), name)
	if at < 0 {
		return nil, fmt.Errorf("no metric %q", name)
	}
	return func(s *results.Summary) float64 {
		v, _ := tables.Of(s.MetricValues()[at]).Float()
		return v
	}, nil
}

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
	ClaimsOnly  Target = "claims"      // all claims with the fewest runs, no figures
	Sensitivity Target = "sensitivity" // the best cases of Fig 8 with one assumption changed at a time
	Fair        Target = "fair"        // Fig 8 with the best policies and layouts of every system
	Sparse      Target = "sparse"      // the claims of papers on sparse attention
)

// Targets returns the names of all targets.
func Targets() []string {
	all := []Target{AllTargets, Fig2, Fig8, Fig9, Fig10, Fig11, ClaimsOnly, Sensitivity, Fair, Sparse}
	return list.Map(all, func(t Target) string { return string(t) })
}

// DefaultRequests is the number of requests of a target's traces: the paper's (section 6.2), or a
// fifth of it for targets beyond the paper.
func (t Target) DefaultRequests() int {
	if t == Sensitivity || t == Fair {
		return 200
	}
	return 1000
}

// Options set how a target runs.
type Options struct {
	Target   Target
	Requests int                // of every trace whose size the experiment does not set
	Seeds    int                // of each point
	Version  string             // of the code, part of every cached point's address
	Journal  *sweep.Journal     // the cache; nil: no cache
	Traces   string             // folder for the traces that experiments provide
	Planned  func(points int64) // called before the first point runs, and once more if policies are tried first; may be nil
	Progress func(done int64)   // number of finished points, cached ones included; may be nil
}

// Report is the result of a target.
type Report struct {
	Target     Target
	Requests   int
	Seeds      []uint64
	Judgements []judgement // of the target's claims, in the order of Claims
	Figures    []Figure
	// Tables are the results of experiments, a row for each point, and the tables made of them for the
	// page.
	Tables      []*tables.Table
	Sensitivity []effect // of Sensitivity, the unchanged assumptions first

	experiments []*experiment
	intro       string // of its part of the page
	sections    []section
	models      *models
}

// Run runs a target.
func Run(ctx context.Context, o Options) (*Report, error) {
	return o.run(ctx, (*sweep.Plan).Run)
}

// run is Run with another function to run plans.
func (o *Options) run(ctx context.Context, run runner) (*Report, error) {
	l := &loader{version: o.Version, requests: o.Requests, seeds: o.Seeds, traces: o.Traces}
	e, experiments, err := o.plan(l)
	if err != nil {
		return nil, err
	}
	for _, x := range experiments {
		if err := o.try(ctx, l, x, run); err != nil {
			return nil, err
		}
	}
	if err := runAll(ctx, experiments, run, sweep.RunOptions{Journal: o.Journal, Progress: o.progress()}); err != nil {
		return nil, err
	}
	for _, x := range experiments {
		x.keepBest()
		if err := x.failed(); err != nil {
			return nil, err
		}
	}
	if len(experiments) > 0 {
		e.seeds = experiments[0].seeds()
	}
	r := &Report{Target: o.Target, Requests: o.Requests, Seeds: e.seeds, models: e.text, experiments: experiments}
	switch o.Target {
	case Sensitivity:
		return r, r.addSensitivity(experiments[0])
	case Fair:
		return r, r.addFair(e)
	}
	e.readings = true
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

func (o *Options) plan(l *loader) (*evidence, []*experiment, error) {
	models, err := loadModels()
	if err != nil {
		return nil, nil, err
	}
	evaluation, err := readEvaluation()
	if err != nil {
		return nil, nil, err
	}
	e := &evidence{seeds: []uint64{1}, requests: o.Requests, text: models, of: map[string]*experiment{}}
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
