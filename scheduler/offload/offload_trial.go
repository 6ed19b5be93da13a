package offload

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
)

// trial is an iteration whose time is predicted.
type trial struct {
	batch  scheduler.Batch
	chunks []scheduler.Chunk // scratch for its prompts
}

// newTrial returns a trial of one sub-batch.
func newTrial() trial { return trial{batch: scheduler.Batch{Sub: make([]scheduler.SubBatch, 1)}} }

// set makes the trial one in which the given requests decode, without prompts.
func (t *trial) set(s *batching.State, decoding []scheduler.Decoding) {
	sub := &t.batch.Sub[0]
	t.batch.Step, sub.Verified = s.Batch.Step, s.Batch.Sub[0].Verified
	sub.Decode, sub.Prefill = append(sub.Decode[:0], decoding...), nil
}
