package system

import (
	"math"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// bounds is upper limits of a replica's hardware.
type bounds struct {
	hbm              units.Bandwidth
	kvToken, weights units.Bytes   // bytes of a token in all layers; bytes of weights read at least in every iteration
	attends          *flow.Attends // nil if every step reads the whole context
	read             float64       // bytes of keys and values that requests' steps have read, if steps verify drafts
}

// contexts returns the sum of the contexts of the decode steps of a request.
func contexts(in, out int) float64 {
	steps := float64(out - 1)
	return float64((float64(in) + float64((steps+1)/2)) * steps)
}

// decodedContexts returns the sum of the contexts of all decode steps. A token that follows a
// preemption comes from a prompt.
func (r *replica) decodedContexts() (sum float64) {
	for i := range r.out.requests {
		if q := &r.out.requests[i]; !q.Rejected() {
			sum += contexts(q.Request.Input, q.Request.Output)
		}
	}
	return sum - float64(r.assembly.Batcher.Recomputed)
}

// reads returns the bytes of keys and values that the decode steps of a request read.
func (b *bounds) reads(in, out int) (bytes float64) {
	if b.attends == nil {
		return contexts(in, out) * float64(b.kvToken)
	}
	for context := in + 1; context < in+out; context++ {
		bytes += float64(b.step(policy.Request{Prompt: in, Context: context}))
	}
	return bytes
}

// step returns the least bytes of keys and values that a decode step of a request reads.
func (b *bounds) step(r policy.Request) float64 {
	if b.attends == nil {
		return float64(r.Context) * float64(b.kvToken)
	}
	return b.attends.Read(r)
}

// follow adds the reads of a batch; a request's keys and values count once for all tokens of its
// step.
func (b *bounds) follow(batch *scheduler.Batch) {
	for i := range batch.Sub {
		sub := &batch.Sub[i]
		for _, decoding := range [][]scheduler.Decoding{sub.Decode, sub.Host, sub.Near} {
			for k := range decoding {
				d := &decoding[k]
				b.read += float64(b.step(policy.Request{Prompt: int(d.Prompt), Context: d.Context(batch.Step)}))
			}
		}
	}
}

// checkIteration verifies the laws of scheduling and memory for the batch that has been formed, and
// reports what the engine's checks found.
func (r *replica) checkIteration(now units.Duration) {
	c := r.check
	c.Progress(r.iteration.batch, now)
	if err := r.assembly.Batcher.CheckMemory(); err != nil {
		c.Fail(flow.LawMemory, now, "%v", err)
	}
	if err := r.assembly.Batcher.CheckAdmission(); err != nil {
		c.Fail(flow.LawAdmission, now, "%v", err)
	}
	if err := r.assembly.Batcher.CheckWaits(); err != nil {
		c.Fail(flow.LawWaits, now, "%v", err)
	}
	if r.serving.Verified() > 1 {
		r.bounds.follow(r.iteration.batch)
	}
	if err := c.Err(); err != nil {
		r.fault = err
	}
}

// checkEnd verifies the laws of a whole run.
func (r *replica) checkEnd() error {
	c := r.check
	var tokens, gaps int64
	var between float64 // summed over requests, from first token to last, in picoseconds
	for i := range r.out.requests {
		q := &r.out.requests[i]
		if q.Rejected() {
			continue
		}
		tokens += int64(q.Request.Output)
		gaps += int64(q.Request.Output - 1)
		between += float64(q.Finish - q.FirstToken)
		if q.FirstToken <= q.Request.Arrival || q.Finish < q.FirstToken {
			c.Fail(flow.LawTokens, r.out.end, "request %d arrives at %v, emits its first token at %v and its last at %v",
				q.Request.ID, q.Request.Arrival, q.FirstToken, q.Finish)
		}
	}
	if n := r.gaps.decode.Count() + r.gaps.stalls.Count(); r.out.tokens != tokens || n != gaps {
		c.Fail(flow.LawTokens, r.out.end, "%d tokens and %d gaps, want %d and %d", r.out.tokens, n, tokens, gaps)
	}
	if sum := r.gaps.decode.Sum() + r.gaps.stalls.Sum(); math.Abs(sum-between) > 1e-9*between {
		c.Fail(flow.LawTokens, r.out.end, "gaps between tokens of %.6f s in all, from first tokens to last ones it is %.6f s", sum/1e12, between/1e12)
	}
	if r.load != (load{}) {
		c.Fail(flow.LawRequests, r.out.end, "a router sees tokens after the last request: %+v", r.load)
	}
	if used := r.assembly.Batcher.UsedUnits(); used != 0 {
		c.Fail(flow.LawMemory, r.out.end, "%d allocation units are in use after the last request", used)
	}
	r.checkCache()
	r.checkThroughput()
	return c.Err()
}

// checkCache verifies, if there is a cache, that every prompt token of served requests was found in it or prefilled, and that
// clearing it frees all its memory.
func (r *replica) checkCache() {
	prompts := int64(0)
	for i := range r.out.requests {
		if q := &r.out.requests[i]; !q.Rejected() {
			prompts += int64(q.Request.Input)
		}
	}
	n := r.assembly.Batcher.Ledger.CacheCounts()
	if all := n.Hit + n.Miss; n != (memory.CacheCounts{}) && all != prompts {
		r.check.Fail(flow.LawTokens, r.out.end, "of prompts of %d tokens %d were found in the cache and %d were not", prompts, n.Hit, n.Miss)
	}
	if err := r.assembly.Batcher.Ledger.ClearCache(); err != nil {
		r.check.Fail(flow.LawMemory, r.out.end, "%v after the last request", err)
	}
}

// checkThroughput verifies that the replica read keys and values no faster than the peak bandwidth
// of decode attention, and all weights once an iteration no faster than the peak bandwidth of its
// GPUs. Weights that a device beside the GPUs multiplies do not count.
func (r *replica) checkThroughput() {
	var read float64
	for i := range r.out.requests {
		if q := &r.out.requests[i]; !q.Rejected() {
			read += float64(r.bounds.reads(q.Request.Input, q.Request.Output))
		}
	}
	// The GPUs compute tokens that follow a preemption. What a group shares is read once.
	read -= float64(float64(r.assembly.Batcher.Recomputed+r.assembly.Engine.Side().Attends.Spared) * float64(r.bounds.kvToken))
	if r.serving.Verified() > 1 {
		read = r.bounds.read - float64(float64(r.assembly.Engine.Side().Attends.Spared)*float64(r.bounds.kvToken))
	}
	took := r.out.end.Seconds()
	if least := read / float64(r.assembly.Engine.Peak()); took < least {
		r.check.Fail(flow.LawThroughput, r.out.end, "reading all keys and values takes %.6f s at the peak of decode attention, the run %.6f s", least, took)
	}
	if least := (float64(float64(r.bounds.weights)*float64(r.out.iterations)) - r.assembly.Engine.Side().NotRead) / float64(r.bounds.hbm); took < least {
		r.check.Fail(flow.LawThroughput, r.out.end, "reading the weights %d times takes %.6f s at the peak of HBM, the run %.6f s", r.out.iterations, least, took)
	}
}
