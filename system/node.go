package system

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/system/power"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Options set how a run is carried out, checked and recorded. They change no result.
type Options struct {
	// Exact runs every layer of every iteration instead of skipping repeats.
	Exact bool
	// Check verifies the laws of lab/docs/laws-and-metrics.md while the run goes; Run returns the
	// first Violation.
	Check bool
	// Timeline, if not nil, is the part of the run that the Result records. For an empty window, the run chooses it.
	Timeline *Window
	// Iterations keeps every iteration in Result.Iterations.
	Iterations bool
	// Measure, if not nil, is the part of the run whose gaps are in Result.Measured.
	Measure *Window
	// Misses, if not nil, ends the run with ErrMissed once more requests than it allows have missed their latency targets.
	Misses *Misses
	// Progress, if not nil, is called with the tokens that a replica has emitted so far, from several
	// goroutines.
	Progress func(replica int, tokens int64)
}

// Node is the hardware of a configuration: replicas of a model, on GPUs and the other devices of
// its system.
type Node struct {
	cfg    *configs.Config
	hw     *flow.Hardware
	system *kinds.System
	memory flow.KVMemory
	kinds.CommandTables
}

// NewNode builds the devices of a validated configuration. It runs the PIM programs and transfers
// on the DRAM model to fill the tables of their clocks, once for all nodes with equal ranks.
func NewNode(cfg *configs.Config) (*Node, error) {
	if err := cfg.Made(); err != nil {
		return nil, err
	}
	s := kinds.Of(cfg)
	if s == nil {
		return nil, &input.Error{Key: "run.system", Value: strconv.Quote(cfg.Run.System), Expected: "a configuration that a loader of Configs or Extend made"}
	}
	h := s.Derive(cfg)
	if err := cfg.Policy.Fits(flow.PolicyShape(h)); err != nil { // a caller may have named another file
		return nil, err
	}
	if err := policy.Verify(cfg.Policy.Name, flow.PolicyOf(h), flow.PolicyShape(h)); err != nil {
		return nil, err
	}
	t, err := s.Measure(h)
	if err != nil {
		return nil, err
	}
	return newNode(cfg, t), nil
}

// newNode returns the node of a valid configuration; tables may be shared with others.
func newNode(cfg *configs.Config, t kinds.CommandTables) *Node {
	s := kinds.Of(cfg)
	h := s.Derive(cfg)
	return &Node{cfg: cfg, hw: h, system: s, memory: s.Memory(h), CommandTables: t}
}

// assemble builds the batcher, engine and devices of replica i. check is nil without checks.
func (n *Node) assemble(i int, requests []traces.Request, exact bool, check *flow.Checker) kinds.Assembly {
	a := n.system.Assemble(&kinds.Setup{
		Hardware: n.hw, CommandTables: n.CommandTables, Running: flow.Running{Exact: exact, Check: check}, Memory: n.memory, Requests: requests, Replica: i,
	})
	if exact {
		a.Engine.Side().Anew()
	}
	return a
}

func (n *Node) replica(i int, requests []traces.Request, o Options) *replica {
	m := &n.cfg.Model
	r := &replica{
		requests:  requests,
		serving:   &n.cfg.Serving,
		context:   refusedBeyond(n.cfg),
		slo:       &n.cfg.SLO,
		host:      n.cfg.GPU.Host,
		observers: observers{measure: o.Measure, misses: o.Misses, progress: func(int64) {}},
		unitBytes: int64(n.memory.Unit),
		bounds: bounds{
			hbm: units.Bandwidth(m.TensorParallel) * n.cfg.GPU.MemoryBandwidth, kvToken: units.Bytes(m.Layers) * flow.NewAttends(n.hw).KV(1),
			weights: m.ActiveLayersBytes(),
		},
	}
	if n.cfg.Serving.Verified() > 1 {
		r.drafts = n.cfg.Serving.DraftTime
	}
	if !n.cfg.AttendsToAll() {
		r.bounds.attends = flow.NewAttends(n.hw)
	}
	if o.Timeline != nil {
		ranksets := n.hw.AttentionDevices()
		r.observers.recording = &Recording{
			Replica: i, Window: *o.Timeline, chooses: *o.Timeline == Window{}, ranksets: ranksets,
			parts: map[units.Duration][]gpus.Part{}, phases: map[int][]phase{},
		}
	}
	if o.Iterations {
		r.observers.diary = &diary{replica: i}
	}
	if o.Progress != nil {
		r.observers.progress = func(tokens int64) { o.Progress(i, tokens) }
	}
	if o.Check {
		r.check = &flow.Checker{}
	}
	if o.Iterations || o.Timeline != nil {
		r.observers.power = n.meter().Power(energy.Mid)
	}
	r.assembly = n.assemble(i, requests, o.Exact, r.check)
	if r.observers.recording != nil {
		r.observers.recording.resources = r.assembly.Engine.Core().Resources
	}
	return r
}

// FreeGPUMemory returns the GPU memory of one replica that weights and reserve leave.
func (n *Node) FreeGPUMemory() units.Bytes {
	if n.empty() {
		return 0
	}
	return gpus.FreeMemory(n.hw)
}

// empty says that NewNode did not return this node.
func (n *Node) empty() bool { return n == nil || n.cfg == nil }

func (n *Node) meter() *power.Meter { return power.NewMeter(n.hw, n.CommandTables, n.system.Host) }

// Replicas returns the number of data-parallel replicas.
func (n *Node) Replicas() int {
	if n.empty() {
		return 0
	}
	return n.cfg.Replicas()
}

// ready returns the error of a run that cannot begin: the node is not from NewNode, the context has ended, or no
// reader makes such requests.
func (n *Node) ready(ctx context.Context, trace *traces.Trace) error {
	if n.empty() {
		return &input.Error{Key: "node", Expected: "one that NewNode returned"}
	}
	return cmp.Or(input.Ended(ctx), trace.Valid())
}

// Run simulates the trace until every request is done. Requests arrive at their times, or in a
// closed loop when others are done, and serving.router sends each to a replica. With round-robin,
// request i goes to replica i mod the number of replicas; replicas then share nothing and run in
// parallel, with the same result as in sequence. A run that rejects every request returns a
// *RejectedError, an invalid trace an *input.Error, and a run after the end of ctx the error of
// ctx.
func (n *Node) Run(ctx context.Context, trace *traces.Trace, o Options) (*Result, error) {
	if err := n.ready(ctx, trace); err != nil {
		return nil, err
	}
	return n.run(ctx, trace, o, o.Misses != nil || n.together(trace))
}

// run simulates the trace, with all replicas in one loop (together) or each in its own.
func (n *Node) run(ctx context.Context, trace *traces.Trace, o Options, together bool) (*Result, error) {
	replicas := n.divide(trace, o, together)
	if err := n.serve(ctx, trace, replicas, together); err != nil {
		return nil, err
	}
	if err := n.rejected(replicas); err != nil {
		return nil, err
	}
	for _, r := range replicas {
		if err := r.tallied.busy.Within(r.out.end, n.hw.AttentionDevices()); err != nil {
			return nil, err
		}
		if err := r.tallied.busy.Waited(r.out.iterating, n.hw.AttentionDevices()); err != nil {
			return nil, err
		}
	}
	r := n.result(trace, replicas)
	if err := power.EnergyLaw(&r.report, r.end); err != nil {
		return nil, err
	}
	return r, nil
}

// divide returns the replicas of the node, each with its requests of the trace. Replicas that run
// together get their requests later.
func (n *Node) divide(trace *traces.Trace, o Options, together bool) []*replica {
	replicas := make([]*replica, n.cfg.Replicas())
	api, last := newAPIServer(&n.cfg.Serving), units.Duration(0)
	for i := range trace.Requests {
		last = max(last, trace.Requests[i].Arrival)
	}
	for i := range replicas {
		var requests []traces.Request
		var places []int32
		if !together {
			each := len(trace.Requests)/len(replicas) + 1
			requests, places = make([]traces.Request, 0, each), make([]int32, 0, each)
		}
		for j := i; j < len(trace.Requests) && !together; j += len(replicas) {
			requests, places = append(requests, trace.Requests[j]), append(places, int32(j))
		}
		r := n.replica(i, requests, o)
		r.out.places, r.tallied.population.span, r.api = places, last, api
		if trace.HashTokens > 0 {
			r.assembly.Batcher.Ledger.HashesName(trace.HashTokens)
		}
		replicas[i] = r
	}
	return replicas
}

func (n *Node) serve(ctx context.Context, trace *traces.Trace, replicas []*replica, together bool) error {
	if !together {
		return runAll(ctx, replicas)
	}
	if err := newFront(trace, n.cfg.Serving.Router, replicas).run(ctx); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	return nil
}

func runAll(ctx context.Context, replicas []*replica) error {
	errs := make([]error, len(replicas))
	var wg sync.WaitGroup
	for i, r := range replicas {
		wg.Go(func() { errs[i] = r.run(ctx) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	return nil
}
