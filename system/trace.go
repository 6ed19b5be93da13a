package system

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/traces"
)

// DefaultRequests is the number of requests of a built-in trace if none is given (L3, section 6.2).
const DefaultRequests = 1000

// LoadTrace returns the requests that run.trace, run.requests and run.seed name: drawn if run.trace
// is a built-in name, else read from the file. arrivals.window selects a part of the time,
// run.common_to the requests that all named systems can hold. They arrive as [arrivals] says. A
// name that is neither returns an *input.Error, and so do systems that can hold no request.
func LoadTrace(cfg *configs.Config) (*traces.Trace, error) {
	trace, err := LoadRequests(cfg)
	if err != nil {
		return nil, err
	}
	return trace.Arrive(cfg.Arrivals, cfg.Run.Seed)
}

// LoadRequests returns the requests of LoadTrace with the arrival times of the file, before
// [arrivals] applies.
func LoadRequests(cfg *configs.Config) (*traces.Trace, error) {
	if err := cfg.Made(); err != nil {
		return nil, err
	}
	trace, err := loadWhole(cfg)
	if err == nil {
		trace, err = trace.Cut(cfg.Arrivals)
	}
	if err == nil && cfg.Serving.BeyondContext == scheduler.BeyondClip {
		trace = clipped(trace, cfg.Model.Context)
	}
	if err == nil && cfg.Run.CommonTo != "" {
		trace, err = common(cfg, trace)
	}
	return trace, err
}

// TraceMoments returns the moments of the trace that LoadTrace returns, and its errors. It does not store the requests of a
// built-in trace that is run as a whole.
func TraceMoments(cfg *configs.Config) (traces.Moments, error) {
	if err := cfg.Made(); err != nil {
		return traces.Moments{}, err
	}
	name, n := cfg.Run.Trace, cmp.Or(cfg.Run.Requests, DefaultRequests)
	if !slices.Contains(traces.BuiltinNames(), name) || cfg.Run.CommonTo != "" || cfg.Arrivals.Window != "" || cfg.Serving.BeyondContext == scheduler.BeyondClip || cfg.Run.Columns != "" {
		trace, err := LoadTrace(cfg)
		if err != nil {
			return traces.Moments{}, err
		}
		return trace.Moments(), nil
	}
	m, err := traces.SyntheticMoments(name, n, cfg.Run.Seed, cfg.Traces)
	if err == nil {
		err = cfg.Arrivals.CheckDrawn(name, n)
	}
	return m, err
}

// loadWhole returns the requests of a built-in trace or a file.
func loadWhole(cfg *configs.Config) (*traces.Trace, error) {
	name, o := cfg.Run.Trace, traces.Options{Requests: cfg.Run.Requests}
	if slices.Contains(traces.BuiltinNames(), name) {
		if columns := cfg.Run.Columns; columns != "" {
			return nil, &input.Error{Key: "run.columns", Value: fmt.Sprintf("%q", columns), Expected: fmt.Sprintf("none with run.trace = %q, which is no file", name), OtherKeys: []string{"run.trace"}}
		}
		return traces.Synthetic(name, cmp.Or(o.Requests, DefaultRequests), cfg.Run.Seed, cfg.Traces)
	}
	if n := cfg.Traces.PrefixTokens; n > 0 {
		return nil, &input.Error{Key: "traces.prefix_tokens", Value: fmt.Sprint(n), Expected: fmt.Sprintf("0 with run.trace = %q: it is of built-in traces", name), OtherKeys: []string{"run.trace"}}
	}
	if columns := cfg.Run.Columns; columns != "" {
		var err error
		if o.Columns, err = traces.ParseColumns(columns); err != nil {
			return nil, err
		}
	}
	if cfg.Traces.Distribution != traces.Empirical {
		return o.Load(name)
	}
	n := o.Requests
	o.Requests = 0
	whole, err := o.Load(name)
	if err != nil {
		return nil, err
	}
	return whole.Redraw(n, cfg.Run.Seed)
}

// common returns the requests of a trace that each of the systems of run.common_to can hold, on the
// hardware and under the policies of cfg.
func common(cfg *configs.Config, trace *traces.Trace) (*traces.Trace, error) {
	left, all := *trace, cfg.Run.CommonTo == "all" // of those that run the policy
	for _, name := range cfg.CommonSystems() {
		other := *cfg
		other.Run.System = name
		if all && !slices.Contains(kinds.Of(&other).Policies(), cfg.Policy.Name) {
			continue
		}
		if err := input.Validate(&other); err != nil {
			return nil, err
		}
		left.Requests = newNode(&other, kinds.CommandTables{}).holdable(left.Requests)
	}
	if len(left.Requests) == 0 {
		return nil, &input.Error{
			Key: "run.common_to", Value: fmt.Sprintf("%q", cfg.Run.CommonTo),
			Expected: fmt.Sprintf("systems that can all hold one of the %d requests of %s at least", len(trace.Requests), trace.Name),
		}
	}
	return &left, nil
}

// holdable returns the requests that fit the node's empty memories.
func (n *Node) holdable(requests []traces.Request) []traces.Request {
	b := n.assemble(0, requests, false, nil).Batcher
	var fit []traces.Request
	most := refusedBeyond(n.cfg)
	for i := range requests {
		if q := &requests[i]; most > 0 && q.Input+q.Output > most {
			continue
		}
		if b.Add(int32(i)) {
			fit = append(fit, requests[i])
		}
	}
	return fit
}
