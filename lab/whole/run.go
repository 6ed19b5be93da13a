package whole

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// Options set how rows run.
type Options struct {
	Configs  configs.Options  // on top of the settings of all rows
	Workers  int              // rows that run in parallel, without effect on results; 0: one per core
	Progress func(done int64) // may be nil; calls come from several goroutines
}

// Compared is a row with its simulation.
type Compared struct {
	Row
	Metric    string
	Measured  float64
	Predicted float64 // 0 if the row did not run
	Fit       string  // of the GPU's kernels
	Judged    bool
	Reason    string // why it is not judged
	Seats     int    // of a closed loop
}

// Error returns predicted over measured, minus 1.
func (c *Compared) Error() float64 { return c.Predicted/c.Measured - 1 }

const preset = "fair" // the system preset of all runs: how an operator would run a node

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Judge runs all rows of a table.
func Judge(ctx context.Context, file string, rows []Row, o Options) (*Report, error) {
	k, err := readKnown()
	if err != nil {
		return nil, err
	}
	all, errs := make([]Compared, len(rows)), make([]error, len(rows))
	var done atomic.Int64
	var group errgroup.Group
	group.SetLimit(cmp.Or(max(o.Workers, 0), runtime.GOMAXPROCS(0)))
	for i := range rows {
		group.Go(func() error {
			all[i], errs[i] = k.compare(ctx, &rows[i], o.Configs)
			if o.Progress != nil {
				o.Progress(done.Add(1))
			}
			return nil
		})
	}
	_ = group.Wait() // the first error in the order of the rows is below
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for i, err := range errs {
		if err != nil {
			return nil, &input.Error{File: file, Line: rows[i].Line, Err: err}
		}
	}
	return report(file, all), nil
}

// compare runs a row, or says why it cannot run.
func (k *known) compare(ctx context.Context, row *Row, o configs.Options) (Compared, error) {
	c := Compared{Row: *row}
	l, reason := loadOf(row)
	c.Metric, c.Measured, c.Seats = l.metric, l.measured, l.seats
	if reason != "" {
		c.Reason = reason
		return c, nil
	}
	r, reason := k.settings(row, &l, o)
	if c.Reason, c.Fit = reason, r.fit; reason != "" {
		return c, nil
	}
	cfg, err := system.Load(r.options)
	if err == nil && l.drafts.steps > 0 {
		r.draft(cfg, &l)
		cfg, err = system.Load(r.options)
	}
	var bad *input.Error
	if errors.As(err, &bad) && strings.Contains(bad.Expected, "room") {
		c.Reason = fmt.Sprintf("the memory of %d GPUs does not hold it: %s: expected %s", r.gpus, bad.Key, bad.Expected)
		return c, nil
	}
	if errors.As(err, &bad) && (strings.HasPrefix(bad.Key, "model.") || strings.HasPrefix(bad.Key, "gpu.")) && len(o.Sets) == 0 {
		c.Reason = fmt.Sprintf("no such layout: %v", err)
		return c, nil
	}
	if err != nil {
		return c, err
	}
	if c.Predicted, c.Reason, err = k.serve(ctx, cfg, &l, r.gpus); err != nil {
		return c, err
	}
	c.Judged = c.Reason == "" && !r.borrowed
	if r.borrowed && c.Reason == "" {
		c.Reason = "kernels borrowed: the GPU has no fit of " + row.Framework
	}
	return c, nil
}

// settled is a row's configuration.
type settled struct {
	options  configs.Options
	gpus     int
	fit      string
	borrowed bool
}

// settings returns the configuration of a row, or why it has none.
func (k *known) settings(row *Row, l *load, o configs.Options) (r settled, reason string) {
	device, _, ok := find(k.GPU, row.GPU, func(g struct{ Names []string }) []string { return g.Names })
	if !ok && slices.Contains(configs.Names(configs.GPUs), row.GPU) {
		device, ok = row.GPU, true
	}
	if !ok {
		return r, "no fit of the GPU " + quoted(row.GPU, ", which the row leaves out")
	}
	name, f, ok := find(k.Framework, row.Framework, func(f framework) []string { return f.Names })
	if !ok {
		return r, "framework " + quoted(row.Framework, "is left out") + " is not known"
	}
	at, reason := layoutOf(row)
	if reason != "" {
		return r, reason
	}
	of, model, sets, reason := k.modelSets(row, name)
	if reason != "" {
		return r, reason
	}
	r.gpus = at.gpus
	r.fit, r.borrowed = fitOf(device, name)
	seats, tokens := f.Seats, f.Tokens
	if at.data {
		seats *= at.tensor
		if !f.Divides {
			tokens *= at.tensor
		}
	}
	attention := "tensor"
	if at.data {
		attention = "data"
	}
	all := slices.Concat(f.Set, sets, []string{
		fmt.Sprint("batching.max_num_seqs=", seats), fmt.Sprint("batching.max_num_batched_tokens=", tokens), `serving.beyond_context="ignore"`,
		fmt.Sprintf("model.attention_parallel=%q", attention), fmt.Sprint("model.expert_parallel=", at.experts),
	})
	all = append(all, k.serverSets(row, name, device, of)...)
	if l.seats > 0 {
		all = append(all, `arrivals.kind="closed-loop"`, fmt.Sprint("arrivals.users=", l.seats))
	}
	r.options = o
	r.options.Sets = append(all, o.Sets...)
	flag := func(key, value string) {
		r.options.Flags = append(slices.Clip(r.options.Flags), configs.Flag{Key: key, Value: value})
	}
	r.options.Flags = nil
	flag("preset", preset)
	flag("run.system", "gpu-only")
	flag("run.model", model)
	flag("gpu.preset", device)
	if r.fit != "" {
		flag("gpu.fit", r.fit)
	}
	flag("node.gpus", fmt.Sprint(at.gpus))
	flag("model.tensor_parallel", fmt.Sprint(at.tensor))
	r.options.Flags = append(r.options.Flags, o.Flags...)
	return r, ""
}

// draft adds the settings of speculation. The draft model is one layer and the LM head, like multi-token prediction layers, and runs once a
// step.
func (r *settled) draft(cfg *configs.Config, l *load) {
	m := cfg.Model
	m.Layers, m.DenseLayers, m.LayerPattern = 1, 0, ""
	if m.IndexTopK > 0 {
		m.LayerPattern = "I"
	}
	batch := max(l.seats, 1)
	took := gpu.NewModelCost(&cfg.GPU.Spec, &m).Iteration(gpu.Shape{Decode: gpu.UniformBatch(batch, l.in+l.out/2)}).Seconds * float64(l.drafts.steps)
	r.options.Sets = append(r.options.Sets, fmt.Sprint("serving.verified_tokens=", l.drafts.verified),
		fmt.Sprintf("serving.acceptance=%.6f", l.drafts.acceptance()), fmt.Sprintf("serving.draft_time=%.3fus", took*1e6))
}

// A closed loop runs for several rounds of a request per seat. The first rounds, in which all prompts arrive together, and the last, in
// which seats become empty, are not measured.
const (
	rounds = 6
	warm   = 2
)

// waves is how many times the memory's capacity of requests arrive at once if a table gives no number.
const waves = 3

// serve runs the requests and returns the compared metric.
func (k *known) serve(ctx context.Context, cfg *configs.Config, l *load, gpus int) (value float64, reason string, err error) {
	node, err := system.NewNode(cfg)
	if err != nil {
		return 0, "", err
	}
	n := l.requests
	if l.seats > 0 {
		n = rounds * l.seats
	} else if n == 0 {
		n = waves * held(cfg, l)
	}
	trace, err := traces.Equal("whole", n, l.in, l.out).Arrive(cfg.Arrivals, cfg.Run.Seed)
	if err != nil {
		return 0, "", err
	}
	result, err := node.Run(ctx, trace, system.Options{})
	if errors.As(err, new(*system.RejectedError)) {
		return 0, "the memory that the weights leave does not hold a request", nil
	}
	if err != nil {
		return 0, "", err
	}
	if l.metric == TPOT {
		return l.tpot(result) * 1e3, "", nil
	}
	s, err := result.Summary(cfg)
	if err != nil {
		return 0, "", err
	}
	return l.rate(result, s) / float64(gpus), "", nil
}

// held returns how many requests the GPUs' memory holds.
func held(cfg *configs.Config, l *load) int {
	m, replicas := &cfg.Model, cfg.Replicas()
	free := float64(float64(cfg.GPU.MemoryCapacity)*cfg.GPU.MemoryShare*float64(m.TensorParallel)) - float64(m.WeightBytes())
	each := float64(m.KVBytesOnGPUs()) * float64(l.in+l.out)
	n := max(1, int(free/each))
	if most := cfg.Batching.MaxNumSeqs; most > 0 {
		n = min(n, most)
	}
	return min(n*replicas, 1<<14)
}

// tpot returns the seconds between tokens of the requests in the measured rounds.
func (l *load) tpot(result *system.Result) float64 {
	var all []float64
	for _, r := range result.Requests[warm*l.seats : (rounds-1)*l.seats] {
		all = append(all, (r.Finish-r.FirstToken).Seconds()/float64(l.out-1))
	}
	if l.median {
		slices.Sort(all)
		return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
	}
	sum := 0.0
	for _, v := range all {
		sum += v
	}
	return sum / float64(len(all))
}

// rate returns output tokens per second: of the whole run, or between the ends of the measured rounds of a closed
// loop.
func (l *load) rate(result *system.Result, s *results.Summary) float64 {
	if l.seats == 0 {
		return s.OutputTokensPerS
	}
	ends := make([]float64, len(result.Requests))
	for i, r := range result.Requests {
		ends[i] = r.Finish.Seconds()
	}
	slices.Sort(ends)
	first, last := ends[warm*l.seats-1], ends[(rounds-1)*l.seats-1]
	return float64((rounds-1-warm)*l.seats*l.out) / (last - first)
}
