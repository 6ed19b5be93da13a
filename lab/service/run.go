package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// Options set how measurements are judged.
type Options struct {
	Configs  configs.Options  // on top of the frameworks' settings, for all rows
	Workers  int              // rows that run in parallel, without effect on results; 0: one per core
	Progress func(done int64) // may be nil; calls come from several goroutines
}

const preset = "fair" // the system preset of all runs: how an operator would run a node

// run is the simulation of a row.
type run struct {
	row *Row
	// share is the memory of the weights and the whole batch's keys and values, over that of the GPUs.
	share float64
	// usable is the share of the GPUs' memory that the framework may use.
	usable float64
	// ran says that the memory holds at least one request; otherwise the fields below are not set.
	ran     bool
	queued  bool    // requests waited for memory, or lost it
	seconds float64 // time of Row.Latency in seconds, without overhead
	ttft    float64 // seconds of a closed loop, without overhead
	steps   int64   // iterations within those seconds
	tokens  int64   // of all requests in these: one per request and step
}

// runner runs rows.
type runner struct {
	table   *Table
	options Options
	gpus    map[string]*gpu.Spec
	models  map[string]*llm.Model
}

// runAll runs the rows, each on a node of its own.
func runAll(ctx context.Context, m *Measured, o Options) ([]run, error) {
	r := &runner{table: m.Table, options: o, gpus: map[string]*gpu.Spec{}, models: map[string]*llm.Model{}}
	for i := range m.Rows { // the first row with an error is reported, whichever runs first
		if err := r.look(&m.Rows[i]); err != nil {
			return nil, err
		}
	}
	runs, errs := make([]run, len(m.Rows)), make([]error, len(m.Rows))
	workers := o.Workers
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	var done atomic.Int64
	var group errgroup.Group
	group.SetLimit(workers)
	for i := range m.Rows {
		group.Go(func() error {
			runs[i], errs[i] = r.run(ctx, &m.Rows[i])
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
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// gpuName returns the preset or file that describes the row's GPU.
func (r *runner) gpuName(row *Row) string {
	if name, known := r.table.GPU[row.GPU]; known {
		return name
	}
	return row.GPU
}

// look finds the GPU, the model and the framework of a row.
func (r *runner) look(row *Row) error {
	if _, known := r.table.Framework[row.Framework]; !known {
		return at(row, input.UnknownName(columnFramework, row.Framework, keysOf(r.table.Framework)))
	}
	name := r.gpuName(row)
	if r.gpus[name] == nil {
		g, _, err := configs.LoadGPU(columnGPU, name)
		if err != nil {
			return at(row, nearest(err, columnGPU, row.GPU, append(keysOf(r.table.GPU), configs.Names(configs.GPUs)...)))
		}
		r.gpus[name] = g
	}
	if r.models[row.Model] == nil {
		m, err := configs.LoadModel(columnModel, row.Model, r.gpus[name], row.GPUs)
		if err != nil {
			return at(row, err)
		}
		r.models[row.Model] = m
	}
	return nil
}

// nearest completes an error for an unknown name with the nearest of all names.
func nearest(err error, key, name string, valid []string) error {
	return input.Edit(err, func(bad *input.Error) {
		if bad.Key == key && bad.File == "" {
			*bad = *input.UnknownName(key, name, valid).(*input.Error)
		}
	})
}

func keysOf[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// at adds the place of a row to an error: as its own place, or in front of it.
func at(row *Row, err error) error {
	bad, ok := err.(*input.Error)
	if !ok || bad.File != "" {
		return &input.Error{File: row.File, Line: row.Line, Err: err}
	}
	return input.Edit(err, func(bad *input.Error) { bad.File, bad.Line = row.File, row.Line })
}

func (r *runner) settings(row *Row) configs.Options {
	f, o := r.table.Framework[row.Framework], r.options.Configs
	sets := append([]string{"batching.max_num_seqs=0"}, f.Set...)
	if f.WholePrompts {
		sets = append(sets, fmt.Sprint("batching.max_num_batched_tokens=", row.Batch*row.Input))
	}
	if row.TTFT > 0 {
		sets = append(sets, `arrivals.kind="closed-loop"`, fmt.Sprint("arrivals.users=", row.Batch), fmt.Sprint("batching.max_num_seqs=", max(row.Batch-f.Waiting, 1)))
	}
	o.Sets = append(sets, o.Sets...)
	gpus := strconv.Itoa(row.GPUs)
	o.Flags = []configs.Flag{ // without a name: the row is the place of an error
		{Key: "preset", Value: preset}, {Key: "run.system", Value: "gpu-only"}, {Key: "run.model", Value: row.Model},
		{Key: "gpu.preset", Value: r.gpuName(row)}, {Key: "node.gpus", Value: gpus}, {Key: "model.tensor_parallel", Value: gpus},
	}
	return o
}

// memoryKeys are the keys of errors which say that weights or activations leave no room for keys
// and values.
var memoryKeys = []string{"gpu.memory_capacity", "gpu.memory_share", "batching.max_num_batched_tokens"}

func (r *runner) run(ctx context.Context, row *Row) (run, error) {
	g, m := r.gpus[r.gpuName(row)], r.models[row.Model]
	out := run{row: row, usable: 1}
	tokens := float64(row.Batch) * float64(row.Input+row.Output)
	need := float64(m.WeightBytes()) + float64(tokens*float64(m.KVBytesOnGPUs()))
	out.share = need / (float64(row.GPUs) * float64(g.MemoryCapacity))
	cfg, err := system.Load(r.settings(row))
	var bad *input.Error
	if errors.As(err, &bad) && slices.Contains(memoryKeys, bad.Key) && strings.Contains(bad.Expected, "room") {
		return out, nil
	}
	if err != nil {
		return out, at(row, err)
	}
	out.usable = cfg.GPU.MemoryShare
	node, err := system.NewNode(cfg)
	if err != nil {
		return out, at(row, err)
	}
	requests := row.Batch
	if row.TTFT > 0 {
		requests *= rounds
	}
	trace, err := traces.Equal(row.File, requests, row.Input, row.Output).Arrive(cfg.Arrivals, cfg.Run.Seed)
	if err != nil {
		return out, at(row, err)
	}
	result, err := node.Run(ctx, trace, system.Options{})
	if errors.As(err, new(*system.RejectedError)) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	s, err := result.Summary(cfg)
	if err != nil {
		return out, err
	}
	out.ran = true
	if row.TTFT > 0 {
		out.loop(result, s)
		return out, nil
	}
	out.seconds, out.steps, out.tokens = s.SimulatedS, s.Iterations, s.Trace.OutputTokens
	out.queued = s.Preemptions > 0 || row.Output > 1 && s.DecodeBatch.Max < row.Batch
	return out, nil
}

// A closed loop runs for several rounds of a request per user. The first rounds, in which all
// prompts arrive together, and the last, in which users leave, are not measured.
const (
	rounds  = 6
	warm    = 2
	measure = rounds - 1 // the first round after the measured ones
)

// loop collects the latencies of the requests in the measured rounds of a closed loop.
func (out *run) loop(result *system.Result, s *results.Summary) {
	users, steps := out.row.Batch, out.row.Output-1
	for _, r := range result.Requests[warm*users : measure*users] {
		out.ttft += (r.FirstToken - r.Request.Arrival).Seconds()
		out.seconds += (r.Finish - r.FirstToken).Seconds()
	}
	n := float64((measure - warm) * users)
	out.ttft, out.seconds = out.ttft/n, out.seconds/n
	// Each iteration from a request's first token to its last emits one of its tokens.
	out.steps, out.tokens = int64(steps), int64(math.Round(float64(steps)*s.DecodeBatch.Mean))
	out.queued = s.Preemptions > 0
}
