package system

import (
	"slices"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/traces"
)

// DefaultRequests is how many requests of a built-in trace run where no number
// is given (L3, section 6.2).
const DefaultRequests = 1000

// LoadTrace returns the requests that run.trace, run.requests and run.seed
// name: drawn where run.trace is a built-in name, else read from the file. A
// name that is neither is an *input.InputError.
func LoadTrace(cfg *configs.Config) (*traces.Trace, error) {
	name, n := cfg.Run.Trace, cfg.Run.Requests
	if slices.Contains(traces.BuiltinNames(), name) {
		if n == 0 {
			n = DefaultRequests
		}
		return traces.Synthetic(name, n, cfg.Run.Seed, cfg.Traces)
	}
	trace, err := traces.Load(name)
	if err == nil && n > 0 {
		trace, err = trace.Head(n)
	}
	if err != nil {
		return nil, err
	}
	// Throughput is measured on a full queue: all requests are there at the start.
	return trace.AtOnce(), nil
}
