package system

import (
	"fmt"
	"strconv"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
)

// refusedBeyond returns the length in tokens beyond which requests are refused, 0 for no limit.
func refusedBeyond(cfg *configs.Config) int {
	if cfg.Serving.BeyondContext != scheduler.BeyondRefuse {
		return 0
	}
	return cfg.Model.Context
}

// ContextNote says which share of a trace's requests exceeds the model's context, and what became of them; "" if none does, or
// if the configuration asks to ignore it.
func ContextNote(cfg *configs.Config, trace *traces.Trace) string {
	context, beyond := cfg.Model.Context, 0
	if context == 0 || cfg.Serving.BeyondContext == scheduler.BeyondIgnore {
		return ""
	}
	for i := range trace.Requests {
		if q := &trace.Requests[i]; q.Input+q.Output > context {
			beyond++
		}
	}
	if beyond == 0 {
		return ""
	}
	what := `are served all the same; servers refuse them (serving.beyond_context = "refuse")`
	if cfg.Serving.BeyondContext == scheduler.BeyondRefuse {
		what = "were rejected"
	}
	return fmt.Sprintf("%s%% of the requests, longer than the model's context (model.context = %d tokens), %s",
		strconv.FormatFloat(100*float64(beyond)/float64(len(trace.Requests)), 'g', 3, 64), context, what)
}

// clipped returns a trace whose requests end at context tokens: it cuts answers there, prompts one token before. A context of 0
// clips nothing.
func clipped(trace *traces.Trace, context int) *traces.Trace {
	if context == 0 {
		return trace
	}
	t := *trace
	t.Requests = make([]traces.Request, len(trace.Requests))
	for i, q := range trace.Requests {
		q.Input = min(q.Input, context-1)
		q.Output = min(q.Output, context-q.Input)
		if blocks := (q.Input + trace.HashBlock() - 1) / trace.HashBlock(); len(q.Hashes) > blocks {
			q.Hashes = q.Hashes[:blocks]
		}
		t.Requests[i] = q
	}
	return &t
}
