package system

import (
	"fmt"

	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// RejectedError is returned by a run that served no request, because each of them fits no empty node or exceeds the model's
// context.
type RejectedError struct {
	Requests int
	node     *Node
	long     int // requests beyond the model's context
	// The smallest and the largest request that do not fit: in the KV memory, and with their prompt.
	kv, prompts [2]scheduler.Rejection
}

// Error says which memory is too small, its size, and what the smallest and the largest request
// need.
func (e *RejectedError) Error() string {
	text := fmt.Sprintf("the system serves none of the %d requests:", e.Requests)
	if e.Requests == 1 {
		text = "the system cannot serve the request:"
	}
	needs := func(least, most string) string {
		if least == most {
			return "needs " + most
		}
		return fmt.Sprintf("needs %s, the smallest %s", most, least)
	}
	gib := func(b units.Bytes) float64 { return float64(b) / float64(units.GiB) }
	if least, most := &e.kv[0], &e.kv[1]; most.KVTokens > 0 {
		m := e.node.memory
		text += fmt.Sprintf(" a replica's memory for keys and values, %.3f GiB %s, holds a request of %d tokens at most; with memory.admission = %q the largest %s",
			gib(m.Unit*units.Bytes(m.Capacity)), e.node.system.KV.Name, most.MostKVTokens, e.node.cfg.Memory.Admission,
			needs(fmt.Sprint(least.KVTokens), fmt.Sprint(most.KVTokens)))
		if e.node.hw.KVBudget > 0 {
			text += fmt.Sprintf("; %s.kv_tokens or kv_memory bounds it", e.node.system.Section)
		}
	}
	if e.long > 0 {
		if e.kv[1].KVTokens > 0 {
			text += ";"
		}
		text += fmt.Sprintf(" %d of them beyond model.context = %d tokens with serving.beyond_context = %q", e.long, e.node.cfg.Model.Context, e.node.cfg.Serving.BeyondContext)
	}
	if least, most := &e.prompts[0], &e.prompts[1]; most.Bytes > 0 {
		if e.kv[1].KVTokens > 0 || e.long > 0 {
			text += ";"
		}
		text += fmt.Sprintf(" a replica's GPUs have %.3f GiB free to prefill in; the largest prompt %s", gib(most.Free),
			needs(fmt.Sprintf("%.3f GiB", gib(least.Bytes)), fmt.Sprintf("%.3f GiB", gib(most.Bytes))))
	}
	return text
}

// rejected returns a *RejectedError if every request is too large. Requests that were refused or arrived too late count as a
// result.
func (n *Node) rejected(replicas []*replica) error {
	e := &RejectedError{node: n}
	for _, r := range replicas {
		for i := range r.out.requests {
			switch r.out.requests[i].Outcome {
			case results.TooLarge:
				e.add(r.assembly.Batcher.Rejection(int32(i)))
			case results.TooLong:
				e.long++
			default:
				return nil
			}
			e.Requests++
		}
	}
	if e.Requests == 0 {
		return nil
	}
	return e
}

func (e *RejectedError) add(why scheduler.Rejection) {
	of := &e.prompts
	if why.KVTokens > 0 {
		of = &e.kv
	}
	less := func(a, b *scheduler.Rejection) bool { return a.KVTokens < b.KVTokens || a.Bytes < b.Bytes }
	if first := of[0] == (scheduler.Rejection{}); first || less(&why, &of[0]) {
		of[0] = why
	}
	if less(&of[1], &why) {
		of[1] = why
	}
}
