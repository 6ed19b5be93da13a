package offload

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/scheduler/memory"
)

// stays says whether a request that could move up to the GPUs stays on the host. It stays if the GPUs would only wait for its keys
// and values, for longer than its steps gain there. tokens is the GPU memory that it would take.
func (o *Former) stays(h *batching.Hosted, tokens int) bool {
	s := o.s
	if len(s.Decoding)+len(s.Host.SwapIns) > 0 || o.promptsFit(tokens) || o.hostIsFull() {
		return false
	}
	t, sub := &o.trial, &o.trial.batch.Sub[0]
	t.set(s, nil)
	for i := range s.Host.Decoding {
		if other := &s.Host.Decoding[i]; !other.Comes {
			sub.Host = append(sub.Host, atStep(other, s.Batch.Step))
		}
	}
	onHost := o.costs.Iteration(&t.batch)
	sub.Host = sub.Host[:0]
	sub.Decode = append(sub.Decode, atStep(h, s.Batch.Step))
	saves := onHost - o.costs.Iteration(&t.batch)
	return float64(o.stepsLeft(h)*float64(saves)) <= float64(o.costs.Fetch(h.NextContext(s.Batch.Step+1)-1))
}

// promptsFit says whether a prompt can run beside a request that takes tokens of the GPUs' empty memory: a prompt in progress, or
// the head of the queue.
func (o *Former) promptsFit(tokens int) bool {
	s := o.s
	if s.Queue.Len() == 0 {
		return false
	}
	if w := s.Queue.First(); len(s.Queue.Held()) == 0 {
		both := s.Ledger.Whole(tokens) + s.Ledger.Whole(s.Reserved(w).Tokens)
		return !s.Seated() && s.Ledger.FitsEmpty(memory.Prompted(both))
	}
	return true
}

// hostIsFull reports that the host may have no room for the next tokens of its requests. One that stayed would be preempted.
func (o *Former) hostIsFull() bool {
	s := o.s
	next := len(s.Host.Decoding) * (1 + s.Speculation.Ahead())
	return s.Grows() && len(s.HostLedger.Room(memory.Prompted(next), nil, 0, nil)) == 0
}

// stepsLeft estimates how many more steps a request of the host takes. A request beyond its expected output is assumed to emit as
// much again.
func (o *Former) stepsLeft(h *batching.Hosted) float64 {
	s := o.s
	emitted := float64(h.NextContext(s.Batch.Step+1) - s.Requests[h.Request].Input)
	left := s.LikelyOutput(h.Request, o.emitted()) - emitted
	if left <= 0 {
		left = emitted
	}
	return left / s.Speculation.Mean()
}

// atStep returns a request of the host as it would decode if the given step were its next.
func atStep(h *batching.Hosted, step int64) scheduler.Decoding {
	d := h.Decoding
	d.Base = int64(h.NextContext(step+1)) - step
	return d
}
