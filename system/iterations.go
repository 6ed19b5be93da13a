package system

import (
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/units"
)

// diary is what is kept of each iteration of a replica, with Options.Iterations.
type diary struct {
	replica    int
	iterations []results.IterationRecord
	gaps       []keptGap
}

// keptGap is a gap that several requests have at a time.
type keptGap struct {
	at, gap  units.Duration
	requests int
}

// add keeps an iteration that has been formed and run.
func (d *diary) add(r *replica, start, end units.Duration, did *work) {
	x := results.IterationRecord{
		Replica: d.replica, Start: start, End: end, Decoding: r.batch.Decoding(), Waiting: r.batcher.Waiting(), InSystem: r.batcher.InSystem(),
		KV: units.Bytes(r.kvBytes(r.batcher.UsedUnits())), Cached: units.Bytes(r.kvBytes(r.batcher.CachedUnits())),
		GPU: did.time[ofGPU], PIM: did.time[ofPIM], PCIeDown: did.time[ofDown], PCIeUp: did.time[ofUp], Channel: did.time[ofChannel],
		Joules: r.power.joules(did, end-start),
	}
	for i := range r.batch.Sub {
		s := &r.batch.Sub[i]
		x.PromptTokens += s.PrefillTokens()
		for i := range s.Prefill {
			if c := &s.Prefill[i]; c.Finished == c.Prefix {
				x.PrefixTokens += c.Prefix
			}
		}
		x.FirstTokens += s.Emitting()
	}
	x.FirstTokens -= x.Decoding
	d.iterations = append(d.iterations, x)
}
